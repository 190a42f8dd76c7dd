import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Random values of random keys, some deleted, while the topic's partitions are being compacted; then what a consumer finds from
 * the start is a table with the newest of each, and smaller than what was sent.
 *
 * <p>Options: {@code topic}, {@code partitions}, {@code records}, {@code keys}, {@code deletes} in percent, {@code segment_every}
 * records a new segment. The answer is a line for each fault, and one with the counts.
 */
final class CompactionTester {
    private static final Duration PATIENCE = Duration.ofSeconds(60);
    private static final long SEED = 7;

    private CompactionTester() { }

    /** A value that was sent, {@code null} for a deletion, and where it stands. */
    private record Sent(String key, String value, Future<RecordMetadata> place) { }

    static List<String> run(Map<String, String> options) throws Exception {
        String topic = options.get("topic");
        int partitions = Integer.parseInt(options.get("partitions"));
        int records = Integer.parseInt(options.get("records"));
        List<Sent> sent = produce(options, topic, partitions, records);
        Map<String, Sent> newest = new HashMap<>();
        sent.forEach(one -> newest.put(one.key(), one));
        List<String> faults = new ArrayList<>();
        long deadline = System.nanoTime() + PATIENCE.toNanos();
        int found = records;
        // Until most of what is old is gone: what a segment that appends go to holds stays.
        while (found > records / 4) {
            if (System.nanoTime() > deadline) {
                faults.add("fault " + found + " of " + records + " are still there");
                break;
            }
            found = read(options, topic, partitions, newest, sent, faults);
            if (!faults.isEmpty()) {
                break;
            }
        }
        faults.add("counts " + records + " " + found + " " + newest.size());
        return faults;
    }

    private static List<Sent> produce(Map<String, String> options, String topic, int partitions, int records) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", options.get("bootstrap"));
        settings.put("enable.idempotence", "true");
        settings.put("compression.type", "lz4");
        settings.put("linger.ms", "2");
        int keys = Integer.parseInt(options.get("keys"));
        int deletes = Integer.parseInt(options.get("deletes"));
        int every = Integer.parseInt(options.get("segment_every"));
        long clock = System.currentTimeMillis() - 100_000_000L;
        Random random = new Random(SEED);
        List<Sent> sent = new ArrayList<>();
        try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            for (int number = 0; number < records; number++) {
                if (number % every == 0) {
                    // A batch that is so much younger begins a segment.
                    producer.flush();
                    clock += 10_000;
                }
                int chosen = random.nextInt(keys);
                String key = "key-" + chosen;
                String value = random.nextInt(100) < deletes ? null : "value-" + number;
                sent.add(new Sent(key, value, producer.send(new ProducerRecord<>(topic, chosen % partitions, clock, key, value))));
            }
            producer.flush();
            for (Sent one : sent) {
                one.place().get();
            }
        }
        return sent;
    }

    /** Reads all partitions from the start to the end they had at the beginning; the number of records. */
    private static int read(Map<String, String> options, String topic, int partitions, Map<String, Sent> newest, List<Sent> sent,
            List<String> faults) throws Exception {
        Map<String, String> written = new HashMap<>();
        for (Sent one : sent) {
            written.put(one.place().get().partition() + "@" + one.place().get().offset(), one.key() + "=" + one.value());
        }
        Properties settings = new Properties();
        settings.put("bootstrap.servers", options.get("bootstrap"));
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", "none");
        Map<String, String> table = new HashMap<>();
        Map<Integer, Long> last = new HashMap<>();
        int found = 0;
        try (var consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            List<TopicPartition> all = new ArrayList<>();
            for (int partition = 0; partition < partitions; partition++) {
                all.add(new TopicPartition(topic, partition));
            }
            consumer.assign(all);
            consumer.seekToBeginning(all);
            Map<TopicPartition, Long> ends = consumer.endOffsets(all);
            long deadline = System.nanoTime() + PATIENCE.toNanos();
            while (all.stream().anyMatch(partition -> consumer.position(partition) < ends.get(partition))) {
                if (System.nanoTime() > deadline) {
                    faults.add("fault the end is not reached");
                    return found;
                }
                for (var record : consumer.poll(Duration.ofMillis(500))) {
                    found++;
                    String place = record.partition() + "@" + record.offset();
                    if (!(record.key() + "=" + record.value()).equals(written.get(place))) {
                        faults.add("fault at " + place + " is " + record.key());
                    }
                    if (last.getOrDefault(record.partition(), -1L) >= record.offset()) {
                        faults.add("fault order at " + place);
                    }
                    last.put(record.partition(), record.offset());
                    if (record.value() == null) {
                        table.remove(record.key());
                    } else {
                        table.put(record.key(), record.value());
                    }
                }
            }
        }
        for (Sent one : newest.values()) {
            String value = table.get(one.key());
            boolean right = one.value() == null ? value == null : one.value().equals(value);
            if (!right) {
                faults.add("fault " + one.key() + " is " + value + " and not " + one.value());
            }
        }
        return found;
    }
}
