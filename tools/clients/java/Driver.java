import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.utils.Utils;

/** kafka-clients behind the line protocol described in ../python/driver.py. */
public final class Driver {
    static final Duration TIMEOUT = Duration.ofSeconds(30);
    private static final HexFormat HEX = HexFormat.of();

    /** One record; {@code place} is its partition on the way in and its offset on the way out. */
    record Line(long place, long timestamp, byte[] key, byte[] value, List<Header> headers) {
        static Line parse(String text) {
            String[] words = text.split(" ");
            List<Header> headers = new ArrayList<>();
            for (String word : Arrays.copyOfRange(words, 4, words.length)) {
                int at = word.lastIndexOf('=');
                headers.add(new RecordHeader(word.substring(0, at), bytes(word.substring(at + 1))));
            }
            return new Line(Long.parseLong(words[0]), Long.parseLong(words[1]), bytes(words[2]), bytes(words[3]), headers);
        }

        static String show(ConsumerRecord<byte[], byte[]> record) {
            StringBuilder line = new StringBuilder();
            line.append(record.offset()).append(' ').append(record.timestamp());
            line.append(' ').append(word(record.key())).append(' ').append(word(record.value()));
            for (Header header : record.headers()) {
                line.append(' ').append(header.key()).append('=').append(word(header.value()));
            }
            return line.toString();
        }
    }

    private static byte[] bytes(String word) {
        return word.equals("-") ? null : HEX.parseHex(word.substring(1));
    }

    private static String word(byte[] bytes) {
        return bytes == null ? "-" : "x" + HEX.formatHex(bytes);
    }

    static List<String> produce(Map<String, String> options, List<Line> lines) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", options.get("bootstrap"));
        settings.put("compression.type", options.get("codec"));
        settings.put("acks", options.get("acks"));
        settings.put("enable.idempotence", options.get("idempotent"));
        settings.put("linger.ms", "20");
        settings.put("max.request.size", "10000000");
        settings.put("batch.size", options.getOrDefault("batch_size", "16384"));
        settings.put("delivery.timeout.ms", "40000");
        List<Future<RecordMetadata>> answers = new ArrayList<>();
        List<String> offsets = new ArrayList<>();
        try (var producer = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
            for (Line line : lines) {
                Long timestamp = line.timestamp() < 0 ? null : line.timestamp();
                answers.add(producer.send(new ProducerRecord<>(
                    options.get("topic"), (int) line.place(), timestamp, line.key(), line.value(), line.headers())));
            }
            producer.flush();
            for (Future<RecordMetadata> answer : answers) {
                offsets.add(Long.toString(answer.get().offset()));
            }
        }
        return offsets;
    }

    static KafkaConsumer<byte[], byte[]> consumer(Map<String, String> options) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", options.get("bootstrap"));
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", "none");
        if (options.containsKey("wait_ms")) {
            settings.put("fetch.max.wait.ms", options.get("wait_ms"));
        }
        if (options.containsKey("fetch_max")) {
            settings.put("fetch.max.bytes", options.get("fetch_max"));
            settings.put("max.partition.fetch.bytes", options.get("fetch_max"));
        }
        return new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private static List<String> consume(Map<String, String> options, List<Line> lines) {
        TopicPartition partition = new TopicPartition(options.get("topic"), Integer.parseInt(options.get("partition")));
        int wanted = Integer.parseInt(options.get("count"));
        List<String> found = new ArrayList<>();
        long deadline = System.nanoTime() + TIMEOUT.toNanos();
        try (var consumer = consumer(options)) {
            consumer.assign(List.of(partition));
            consumer.seek(partition, Long.parseLong(options.get("from")));
            while (found.size() < wanted && System.nanoTime() < deadline) {
                consumer.poll(Duration.ofSeconds(1)).forEach(record -> found.add(Line.show(record)));
            }
        }
        return found.subList(0, Math.min(wanted, found.size()));
    }

    private static List<String> tails(Map<String, String> options) {
        TopicPartition partition = new TopicPartition(options.get("topic"), Integer.parseInt(options.get("partition")));
        long end = Long.parseLong(options.get("end"));
        List<String> lines = new ArrayList<>();
        // A fetch that waits at the end would hold up the next start.
        options.put("wait_ms", "10");
        try (var consumer = consumer(options)) {
            consumer.assign(List.of(partition));
            for (long start = 0; start < end; start++) {
                consumer.seek(partition, start);
                List<String> offsets = new ArrayList<>();
                long deadline = System.nanoTime() + TIMEOUT.toNanos();
                while (consumer.position(partition) < end && System.nanoTime() < deadline) {
                    consumer.poll(Duration.ofSeconds(1)).forEach(record -> offsets.add(Long.toString(record.offset())));
                }
                lines.add(String.join(",", offsets));
            }
        }
        return lines;
    }

    /** The partition that Java's producer chooses for each key. */
    private static List<String> partition(Map<String, String> options, List<Line> lines) {
        int partitions = Integer.parseInt(options.get("partitions"));
        return lines.stream().map(line -> Integer.toString(Utils.toPositive(Utils.murmur2(line.key())) % partitions)).toList();
    }

    private static List<String> answer(String command, Map<String, String> options, List<Line> lines) throws Exception {
        return switch (command) {
            case "produce" -> produce(options, lines);
            case "consume" -> consume(options, lines);
            case "partition" -> partition(options, lines);
            case "tails" -> tails(options);
            case "compaction" -> CompactionTester.run(options);
            case "admin" -> Admin.run(options);
            case "join", "poll", "assigned", "commit", "leave" -> Member.run(command, options);
            default -> throw new IllegalArgumentException(command);
        };
    }

    public static void main(String[] arguments) throws IOException {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String request = input.readLine(); request != null; request = input.readLine()) {
            String[] words = request.split(" ");
            Map<String, String> options = new LinkedHashMap<>();
            for (String word : Arrays.copyOfRange(words, 1, words.length)) {
                options.put(word.substring(0, word.indexOf('=')), word.substring(word.indexOf('=') + 1));
            }
            List<Line> lines = new ArrayList<>();
            if (words[0].equals("produce") || words[0].equals("partition")) {
                for (int left = Integer.parseInt(options.get("count")); left > 0; left--) {
                    lines.add(Line.parse(input.readLine()));
                }
            }
            StringBuilder text = new StringBuilder();
            try {
                List<String> found = answer(words[0], options, lines);
                text.append("ok ").append(found.size()).append('\n');
                found.forEach(line -> text.append(line).append('\n'));
            } catch (Exception error) {
                error.printStackTrace();
                text.append("error ").append(describe(error)).append('\n');
            }
            System.out.print(text);
            System.out.flush();
        }
    }

    static String describe(Exception error) {
        Throwable cause = error instanceof ExecutionException ? error.getCause() : error;
        return (cause.getClass().getSimpleName() + ": " + cause.getMessage()).replace('\n', ' ');
    }

    /** The checks of an admin scenario; one that fails does not hide the next. */
    static final class Checks {
        final List<String> lines = new ArrayList<>();

        /** The runner sets CHECK_TRIES. */
        void run(String name, Callable<Boolean> check) {
            String line = "";
            for (int left = Integer.parseInt(System.getenv().getOrDefault("CHECK_TRIES", "1")); left > 0; left--) {
                try {
                    line = (check.call() ? "pass " : "fail ") + name;
                } catch (Exception error) {
                    line = "fail " + name + " " + describe(error);
                }
                if (line.startsWith("pass ")) {
                    break;
                }
            }
            lines.add(line);
        }

        /** Passes when {@code action} fails with the error whose class has this name. */
        void refused(String name, String kind, Callable<?> action) {
            run(name, () -> {
                try {
                    action.call();
                } catch (ExecutionException error) {
                    if (error.getCause().getClass().getSimpleName().equals(kind)) {
                        return true;
                    }
                    throw error;
                }
                throw new IllegalStateException("was accepted");
            });
        }
    }
}
