import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.AlterConfigOp.OpType;
import org.apache.kafka.clients.admin.AlterConfigsOptions;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ConfigEntry.ConfigSource;
import org.apache.kafka.clients.admin.CreateTopicsOptions;
import org.apache.kafka.clients.admin.DescribeConfigsOptions;
import org.apache.kafka.clients.admin.LogDirDescription;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;

/** What Java's admin client sees of a topic from its creation to its deletion. */
final class Admin {
    private final org.apache.kafka.clients.admin.Admin client;
    private final Map<String, String> options;
    private final String topic;
    private final TopicPartition first;
    private final ConfigResource resource;
    private final Driver.Checks checks = new Driver.Checks();

    private Admin(org.apache.kafka.clients.admin.Admin client, Map<String, String> options) {
        this.client = client;
        this.options = options;
        topic = options.get("topic");
        first = new TopicPartition(topic, 0);
        resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
    }

    static List<String> run(Map<String, String> options) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", options.get("bootstrap"));
        settings.put("default.api.timeout.ms", Long.toString(Driver.TIMEOUT.toMillis()));
        try (var client = org.apache.kafka.clients.admin.Admin.create(settings)) {
            Admin scenario = new Admin(client, options);
            scenario.topics();
            scenario.configs();
            scenario.offsets();
            scenario.directories();
            scenario.deletion();
            return scenario.checks.lines;
        }
    }

    private boolean done(org.apache.kafka.common.KafkaFuture<?> future) throws Exception {
        future.get();
        return true;
    }

    private void topics() {
        NewTopic wanted = new NewTopic(topic, Optional.of(3), Optional.empty());
        checks.run("create, validated only", () ->
            done(client.createTopics(List.of(wanted), new CreateTopicsOptions().validateOnly(true)).all())
                && !client.listTopics().names().get().contains(topic));
        checks.run("create", () -> {
            var created = client.createTopics(List.of(wanted));
            return created.numPartitions(topic).get() == 3 && created.replicationFactor(topic).get() == 1
                && created.config(topic).get().get("retention.ms") != null;
        });
        checks.refused("create again is refused", "TopicExistsException", () -> client.createTopics(List.of(wanted)).all().get());
        checks.refused("bad name is refused", "InvalidTopicException",
            () -> client.createTopics(List.of(new NewTopic("a b", 1, (short) 1))).all().get());
        checks.refused("two replicas on one node are refused", "InvalidReplicationFactorException",
            () -> client.createTopics(List.of(new NewTopic(topic + "-r", 1, (short) 9))).all().get());
        checks.run("listed", () -> client.listTopics().names().get().contains(topic));
        checks.run("described", () -> {
            TopicDescription found = client.describeTopics(List.of(topic)).allTopicNames().get().get(topic);
            return found.partitions().size() == 3 && found.partitions().stream().allMatch(one -> one.leader() != null)
                && client.describeTopics(org.apache.kafka.common.TopicCollection.ofTopicIds(List.of(found.topicId())))
                    .allTopicIds().get().get(found.topicId()).name().equals(topic);
        });
        checks.run("cluster", () -> !client.describeCluster().nodes().get().isEmpty() && client.describeCluster().clusterId().get() != null);
        checks.run("more partitions", () -> done(client.createPartitions(Map.of(topic, NewPartitions.increaseTo(5))).all()));
        checks.run("more partitions seen", () ->
            client.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().size() == 5);
        checks.refused("fewer partitions are refused", "InvalidPartitionsException",
            () -> client.createPartitions(Map.of(topic, NewPartitions.increaseTo(2))).all().get());
    }

    private ConfigEntry config(String name) throws Exception {
        var wanted = new DescribeConfigsOptions().includeSynonyms(true).includeDocumentation(true);
        return client.describeConfigs(List.of(resource), wanted).all().get().get(resource).get(name);
    }

    private boolean alter(OpType operation, String name, String value) throws Exception {
        Collection<AlterConfigOp> operations = List.of(new AlterConfigOp(new ConfigEntry(name, value), operation));
        return done(client.incrementalAlterConfigs(Map.of(resource, operations)).all());
    }

    /** Rows B27 and B28 of the field reports. */
    private void configs() {
        checks.run("set to the default is the topic's own", () ->
            alter(OpType.SET, "retention.ms", config("retention.ms").value())
                && config("retention.ms").source() == ConfigSource.DYNAMIC_TOPIC_CONFIG);
        checks.run("set another leaves the first", () ->
            alter(OpType.SET, "segment.ms", "86400000") && config("retention.ms").source() == ConfigSource.DYNAMIC_TOPIC_CONFIG);
        checks.run("delete falls back", () ->
            alter(OpType.DELETE, "retention.ms", "") && config("retention.ms").source() != ConfigSource.DYNAMIC_TOPIC_CONFIG);
        checks.run("append and subtract", () ->
            alter(OpType.APPEND, "cleanup.policy", "compact") && config("cleanup.policy").value().contains("compact")
                && alter(OpType.SUBTRACT, "cleanup.policy", "compact") && config("cleanup.policy").value().equals("delete"));
        checks.refused("bad value is refused", "InvalidConfigurationException", () -> alter(OpType.SET, "retention.ms", "soon"));
        checks.refused("unknown key is refused", "InvalidConfigurationException", () -> alter(OpType.SET, "retention.eons", "1"));
        checks.run("a bad value beside a good one changes nothing", () -> {
            Collection<AlterConfigOp> both = List.of(new AlterConfigOp(new ConfigEntry("retention.bytes", "1000"), OpType.SET),
                new AlterConfigOp(new ConfigEntry("retention.ms", "soon"), OpType.SET));
            try {
                client.incrementalAlterConfigs(Map.of(resource, both)).all().get();
                return false;
            } catch (ExecutionException error) {
                return config("retention.bytes").source() != ConfigSource.DYNAMIC_TOPIC_CONFIG;
            }
        });
        checks.run("validated only changes nothing", () -> {
            Collection<AlterConfigOp> one = List.of(new AlterConfigOp(new ConfigEntry("retention.bytes", "1000"), OpType.SET));
            client.incrementalAlterConfigs(Map.of(resource, one), new AlterConfigsOptions().validateOnly(true)).all().get();
            return config("retention.bytes").source() != ConfigSource.DYNAMIC_TOPIC_CONFIG;
        });
        checks.run("synonyms, type and documentation", () -> {
            ConfigEntry entry = config("segment.ms");
            return entry.synonyms().stream().anyMatch(synonym -> synonym.source() == ConfigSource.DYNAMIC_TOPIC_CONFIG)
                && entry.type() == ConfigEntry.ConfigType.LONG && entry.documentation() != null;
        });
        checks.run("every broker describes itself", () -> {
            for (Node node : client.describeCluster().nodes().get()) {
                ConfigResource broker = new ConfigResource(ConfigResource.Type.BROKER, node.idString());
                Config found = client.describeConfigs(List.of(broker)).all().get().get(broker);
                for (String name : List.of("num.partitions", "default.replication.factor", "auto.create.topics.enable",
                        "log.retention.ms", "min.insync.replicas", "message.max.bytes")) {
                    if (found.get(name) == null) {
                        throw new IllegalStateException(name + " is missing");
                    }
                }
            }
            return true;
        });
        ConfigResource missing = new ConfigResource(ConfigResource.Type.TOPIC, topic + "-missing");
        checks.refused("configs of an unknown topic are refused", "UnknownTopicOrPartitionException",
            () -> client.describeConfigs(List.of(missing)).all().get());
    }

    private long offset(OffsetSpec spec) throws Exception {
        return client.listOffsets(Map.of(first, spec)).partitionResult(first).get().offset();
    }

    private void offsets() {
        checks.run("produce", () -> Driver.produce(
            Map.of("bootstrap", options.get("bootstrap"), "topic", topic, "codec", "lz4", "acks", "all", "idempotent", "true"),
            List.of(Driver.Line.parse("0 1700000005000 x6b x76"), Driver.Line.parse("0 1700000009000 x6b x76"),
                Driver.Line.parse("0 1700000007000 x6b x76"))).equals(List.of("0", "1", "2")));
        checks.run("earliest and latest", () -> offset(OffsetSpec.earliest()) == 0 && offset(OffsetSpec.latest()) == 3);
        checks.run("maximum timestamp", () -> offset(OffsetSpec.maxTimestamp()) == 1);
        checks.run("by time", () -> offset(OffsetSpec.forTimestamp(1_700_000_006_000L)) == 1);
        checks.run("by a time too late", () -> offset(OffsetSpec.forTimestamp(1_800_000_000_000L)) == -1);
        checks.run("consumer's offsets by time", () -> {
            try (var consumer = Driver.consumer(options)) {
                return consumer.offsetsForTimes(Map.of(first, 1_700_000_006_000L)).get(first).offset() == 1
                    && consumer.offsetsForTimes(Map.of(first, 1_800_000_000_000L)).get(first) == null
                    && consumer.beginningOffsets(List.of(first)).get(first) == 0 && consumer.endOffsets(List.of(first)).get(first) == 3;
            }
        });
        checks.run("delete records", () ->
            client.deleteRecords(Map.of(first, RecordsToDelete.beforeOffset(2))).lowWatermarks().get(first).get().lowWatermark() == 2
                && offset(OffsetSpec.earliest()) == 2);
        checks.refused("delete beyond the end is refused", "OffsetOutOfRangeException",
            () -> client.deleteRecords(Map.of(first, RecordsToDelete.beforeOffset(9))).all().get());
    }

    /** Row B31: each partition once, under its own broker. */
    private void directories() {
        checks.run("log directories", () -> {
            List<Integer> brokers = client.describeCluster().nodes().get().stream().map(Node::id).toList();
            int replicas = 0;
            for (Map<String, LogDirDescription> found : client.describeLogDirs(brokers).allDescriptions().get().values()) {
                for (LogDirDescription directory : found.values()) {
                    replicas += (int) directory.replicaInfos().keySet().stream().filter(one -> one.topic().equals(topic)).count();
                    if (directory.totalBytes().orElse(0) <= 0 || directory.usableBytes().orElse(0) <= 0) {
                        throw new IllegalStateException("no total or usable bytes");
                    }
                }
            }
            return replicas == 5;
        });
    }

    private void deletion() {
        checks.run("delete topic", () -> done(client.deleteTopics(List.of(topic)).all()) && !client.listTopics().names().get().contains(topic));
        checks.refused("delete again is refused", "UnknownTopicOrPartitionException", () -> client.deleteTopics(List.of(topic)).all().get());
    }
}
