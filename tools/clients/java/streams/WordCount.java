import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.Stores;

/**
 * An instance of a word count on Kafka Streams, behind the line protocol of ../../python/driver.py: {@code start},
 * {@code state}, {@code close}. Words go through a repartition topic, counts into a changelog and the output topic.
 */
public final class WordCount {
    private static KafkaStreams streams;

    private WordCount() { }

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.trim().split(" ");
            Map<String, String> options = new HashMap<>();
            for (String word : Arrays.copyOfRange(words, 1, words.length)) {
                options.put(word.substring(0, word.indexOf('=')), word.substring(word.indexOf('=') + 1));
            }
            try {
                List<String> answer = run(words[0], options);
                System.out.println("ok " + answer.size());
                answer.forEach(System.out::println);
            } catch (RuntimeException error) {
                System.out.println("error " + error.toString().replace('\n', ' '));
            }
            System.out.flush();
        }
        // Without its runner it is killed, which is what a process that dies looks like.
        System.exit(0);
    }

    private static List<String> run(String command, Map<String, String> options) {
        return switch (command) {
            case "start" -> start(options);
            case "state" -> List.of(streams.state().name());
            default -> List.of(Boolean.toString(streams.close(Duration.ofSeconds(60))));
        };
    }

    private static List<String> start(Map<String, String> options) {
        Properties settings = new Properties();
        settings.put("application.id", options.get("application"));
        settings.put("bootstrap.servers", options.get("bootstrap"));
        settings.put("state.dir", options.get("state"));
        settings.put("processing.guarantee", "at_least_once");
        settings.put("num.stream.threads", "1");
        settings.put("commit.interval.ms", "200");
        settings.put("repartition.purge.interval.ms", "500");
        // Each update goes out.
        settings.put("statestore.cache.max.bytes", "0");
        // Long enough that a busy machine is not taken for a death, which would count some words twice.
        settings.put("consumer.session.timeout.ms", "12000");
        settings.put("consumer.heartbeat.interval.ms", "500");
        settings.put("auto.offset.reset", "earliest");
        // Of the topics that it makes itself.
        options.forEach((name, value) -> {
            if (name.startsWith("topic.")) {
                settings.put(name, value);
            }
        });
        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, String> lines = builder.stream(options.get("input"), Consumed.with(Serdes.String(), Serdes.String()));
        lines.flatMapValues(line -> Arrays.asList(line.split(" ")))
            .groupBy((key, word) -> word, Grouped.with("words", Serdes.String(), Serdes.String()))
            // In memory: whoever takes a task over has to read its changelog.
            .count(Materialized.<String, Long>as(Stores.inMemoryKeyValueStore("counts")).withKeySerde(Serdes.String()).withValueSerde(Serdes.Long()))
            .toStream()
            .mapValues(count -> Long.toString(count))
            .to(options.get("output"), Produced.with(Serdes.String(), Serdes.String()));
        streams = new KafkaStreams(builder.build(settings), settings);
        streams.start();
        return List.of();
    }
}
