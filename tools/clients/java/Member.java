import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** The member of a group that this process is; see ../python/driver.py. */
final class Member {
    private static KafkaConsumer<byte[], byte[]> consumer;

    private Member() { }

    static List<String> run(String command, Map<String, String> options) {
        return switch (command) {
            case "join" -> join(options);
            case "poll" -> poll(Long.parseLong(options.get("ms")));
            case "assigned" -> consumer.assignment().stream().map(partition -> Integer.toString(partition.partition())).sorted().toList();
            case "commit" -> commit();
            default -> leave();
        };
    }

    private static List<String> join(Map<String, String> options) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", options.get("bootstrap"));
        settings.put("group.id", options.get("group"));
        boolean commits = options.containsKey("auto");
        settings.put("enable.auto.commit", Boolean.toString(commits));
        settings.put("auto.commit.interval.ms", "100");
        settings.put("auto.offset.reset", "earliest");
        if (options.containsKey("create")) {
            settings.put("allow.auto.create.topics", options.get("create"));
        }
        String assignor = options.getOrDefault("assignor", "range");
        if (assignor.equals("consumer")) {
            // The broker assigns, and says how often to send heartbeats and how long a member may be silent.
            settings.put("group.protocol", "consumer");
        } else {
            settings.put("session.timeout.ms", "6000");
            settings.put("heartbeat.interval.ms", "500");
            boolean cooperative = assignor.equals("cooperative-sticky");
            settings.put("partition.assignment.strategy",
                (cooperative ? CooperativeStickyAssignor.class : RangeAssignor.class).getName());
        }
        consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        if (options.containsKey("pattern")) {
            // By the name, as clients before 4.0, which share this source, have no such pattern.
            subscribe(options.get("pattern"));
        } else {
            consumer.subscribe(List.of(options.get("topic")));
        }
        return List.of();
    }

    /** Subscribes by a pattern that the broker matches (KIP-848). */
    private static void subscribe(String pattern) {
        try {
            Class<?> kind = Class.forName("org.apache.kafka.clients.consumer.SubscriptionPattern");
            Object made = kind.getConstructor(String.class).newInstance(pattern);
            KafkaConsumer.class.getMethod("subscribe", kind).invoke(consumer, made);
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException("this client has no patterns of the broker", error);
        }
    }

    private static List<String> poll(long ms) {
        List<String> came = new ArrayList<>();
        consumer.poll(Duration.ofMillis(ms)).forEach(record -> came.add(record.partition() + " " + record.offset()));
        return came;
    }

    private static List<String> commit() {
        try {
            consumer.commitSync(Driver.TIMEOUT);
        } catch (CommitFailedException | RebalanceInProgressException error) {
            return List.of("retry");
        }
        return List.of();
    }

    private static List<String> leave() {
        consumer.close();
        return List.of();
    }
}
