"""confluent-kafka (librdkafka) behind the line protocol of `driver`."""

import time

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)
from driver import HEARTBEAT_MS, SESSION_MS, Checks, Record, member_commands, serve, show

TIMEOUT_S = 30


def produce(options, records):
    producer = Producer({
        "bootstrap.servers": options["bootstrap"],
        "compression.type": options["codec"],
        "acks": options["acks"],
        "enable.idempotence": options["idempotent"] == "true",
        "linger.ms": 20,
        "message.max.bytes": 10_000_000,
    })
    offsets, errors = {}, []

    def delivered(index):
        def callback(error, message):
            if error is None:
                offsets[index] = message.offset() if message.offset() is not None else -1
            else:
                errors.append(error)
        return callback

    for index, record in enumerate(records):
        stamp = {"timestamp": record.timestamp} if record.timestamp >= 0 else {}
        producer.produce(
            options["topic"], value=record.value, key=record.key, partition=record.place,
            headers=record.headers, on_delivery=delivered(index), **stamp)
        producer.poll(0)
    left = producer.flush(TIMEOUT_S)
    if errors or left:
        raise KafkaException(errors[0] if errors else f"{left} records not delivered")
    return [str(offsets.get(index, -1)) for index in range(len(records))]


def consume(options, _records):
    settings = {
        "bootstrap.servers": options["bootstrap"], "group.id": "unused", "enable.auto.commit": False,
        "auto.offset.reset": "error",
    }
    if "fetch_max" in options:
        settings |= {"fetch.max.bytes": 1000, "message.max.bytes": 1000, "max.partition.fetch.bytes": int(options["fetch_max"])}
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(options["topic"], int(options["partition"]), int(options["from"]))])
    wanted, lines, deadline = int(options["count"]), [], time.monotonic() + TIMEOUT_S
    while len(lines) < wanted and time.monotonic() < deadline:
        message = consumer.poll(1)
        if message is None:
            continue
        if message.error():
            raise KafkaException(message.error())
        lines.append(show(Record(message.offset(), message.timestamp()[1], message.key(), message.value(), message.headers() or [])))
    consumer.close()
    return lines[:wanted]


def tails(options, _records):
    consumer = Consumer({
        "bootstrap.servers": options["bootstrap"], "group.id": "unused", "enable.auto.commit": False, "auto.offset.reset": "error",
        "fetch.wait.max.ms": 10,
    })
    topic, partition, end, lines = options["topic"], int(options["partition"]), int(options["end"]), []
    for start in range(end):
        consumer.assign([TopicPartition(topic, partition, start)])
        offsets, deadline = [], time.monotonic() + TIMEOUT_S
        while end - 1 not in offsets and time.monotonic() < deadline:
            message = consumer.poll(1)
            if message is not None and message.error():
                raise KafkaException(message.error())
            offsets += [message.offset()] if message is not None else []
        lines.append(",".join(map(str, offsets)))
    consumer.close()
    return lines


def each(futures):
    return {key: future.result(TIMEOUT_S) for key, future in futures.items()}


def config_of(admin, resource, name):
    return each(admin.describe_configs([resource]))[resource][name]


def admin(options, _records):
    client = AdminClient({"bootstrap.servers": options["bootstrap"]})
    topic, checks = options["topic"], Checks()
    resource = ConfigResource(ResourceType.TOPIC, topic)

    def alter(name, value, operation):
        resource = ConfigResource(
            ResourceType.TOPIC, topic, incremental_configs=[ConfigEntry(name, value, incremental_operation=operation)])
        each(client.incremental_alter_configs([resource]))

    def code_of(action):
        try:
            action()
        except KafkaException as error:
            return error.args[0].code()
        return 0

    checks.run("create", lambda: each(client.create_topics([NewTopic(topic, num_partitions=3, replication_factor=1)])) and None)
    checks.run("create again is refused", lambda: code_of(lambda: each(client.create_topics([NewTopic(topic, 1, 1)]))) == 36)
    checks.run("bad name is refused", lambda: code_of(lambda: each(client.create_topics([NewTopic("a b", 1, 1)]))) == 17)
    checks.run("listed", lambda: topic in client.list_topics(timeout=TIMEOUT_S).topics)
    checks.run("partitions", lambda: sorted(client.list_topics(topic, TIMEOUT_S).topics[topic].partitions) == [0, 1, 2])
    checks.run("cluster", lambda: len(client.describe_cluster().result(TIMEOUT_S).nodes) >= 1)
    checks.run("more partitions", lambda: each(client.create_partitions([NewPartitions(topic, 5)])) and None)
    checks.run("more partitions seen", lambda: len(client.list_topics(topic, TIMEOUT_S).topics[topic].partitions) == 5)
    checks.run("fewer partitions are refused", lambda: code_of(lambda: each(client.create_partitions([NewPartitions(topic, 2)]))) == 37)
    # B27: a value equal to the default is kept as the topic's own, and deleting it returns to the broker's.
    checks.run("set to the default", lambda: alter(
        "retention.ms", config_of(client, resource, "retention.ms").value, AlterConfigOpType.SET))
    checks.run("set to the default is the topic's own", lambda: config_of(client, resource, "retention.ms").source == 1)
    checks.run("set another", lambda: alter("max.message.bytes", "2000000", AlterConfigOpType.SET))
    checks.run("the first stays", lambda: config_of(client, resource, "retention.ms").source == 1)
    checks.run("delete", lambda: alter("retention.ms", None, AlterConfigOpType.DELETE))
    checks.run("deleted is not the topic's own", lambda: config_of(client, resource, "retention.ms").source != 1)
    checks.run("append", lambda: alter("cleanup.policy", "compact", AlterConfigOpType.APPEND))
    checks.run("appended", lambda: sorted(config_of(client, resource, "cleanup.policy").value.split(",")) == ["compact", "delete"])
    checks.run("subtract", lambda: alter("cleanup.policy", "compact", AlterConfigOpType.SUBTRACT))
    checks.run("subtracted", lambda: config_of(client, resource, "cleanup.policy").value == "delete")
    checks.run("bad value is refused", lambda: code_of(lambda: alter("retention.ms", "soon", AlterConfigOpType.SET)) == 40)
    checks.run("unknown key is refused", lambda: code_of(lambda: alter("retention.eons", "1", AlterConfigOpType.SET)) == 40)
    # B28
    checks.run("synonyms", lambda: "log.retention.ms" in str(config_of(client, resource, "retention.ms").synonyms)
               or config_of(client, resource, "max.message.bytes").synonyms != {})
    # B16: offsets by time.
    partition = TopicPartition(topic, 0)
    produce(options | {"codec": "gzip", "acks": "all", "idempotent": "false"}, [
        Record(0, stamp, b"k", b"v", []) for stamp in (1_700_000_005_000, 1_700_000_009_000, 1_700_000_007_000)])

    def offset(spec):
        return each(client.list_offsets({partition: spec}))[partition]

    checks.run("earliest", lambda: offset(OffsetSpec.earliest()).offset == 0)
    checks.run("latest", lambda: offset(OffsetSpec.latest()).offset == 3)
    checks.run("maximum timestamp", lambda: (found := offset(OffsetSpec.max_timestamp())).offset == 1 and found.timestamp == 1_700_000_009_000)
    checks.run("by time", lambda: offset(OffsetSpec.for_timestamp(1_700_000_006_000)).offset == 1)
    checks.run("by a time too late", lambda: offset(OffsetSpec.for_timestamp(1_800_000_000_000)).offset == -1)
    checks.run("delete records", lambda: each(client.delete_records([TopicPartition(topic, 0, 2)]))[partition].low_watermark == 2)
    checks.run("earliest after it", lambda: offset(OffsetSpec.earliest()).offset == 2)
    checks.run("delete beyond the end is refused", lambda: code_of(lambda: each(client.delete_records([TopicPartition(topic, 0, 9)]))) == 1)
    checks.run("delete topic", lambda: each(client.delete_topics([topic])) and None)
    checks.run("deleted", lambda: topic not in client.list_topics(timeout=TIMEOUT_S).topics)
    checks.run("delete again is refused", lambda: code_of(lambda: each(client.delete_topics([topic]))) == 3)
    return checks.lines


class Member:
    AGAIN = {KafkaError._NO_OFFSET, KafkaError.REBALANCE_IN_PROGRESS, KafkaError.ILLEGAL_GENERATION, KafkaError.UNKNOWN_MEMBER_ID,
             KafkaError.STALE_MEMBER_EPOCH, KafkaError.FENCED_MEMBER_EPOCH, KafkaError._TRANSPORT, KafkaError._WAIT_COORD,
             KafkaError._TIMED_OUT, KafkaError._ASSIGNMENT_LOST}

    def __init__(self, options):
        assignor = options.get("assignor", "range")
        # In the consumer protocol the broker assigns, and says how often to send heartbeats.
        own = {"group.protocol": "consumer"} if assignor == "consumer" else {
            "session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": HEARTBEAT_MS,
            "partition.assignment.strategy": assignor,
        }
        self.consumer = Consumer(own | {
            "bootstrap.servers": options["bootstrap"], "group.id": options["group"],
            "enable.auto.commit": "auto" in options, "auto.commit.interval.ms": 100,
            "auto.offset.reset": "earliest",
        } | ({"allow.auto.create.topics": options["create"]} if "create" in options else {}))
        # What begins with a caret the library takes for a pattern.
        self.consumer.subscribe([options.get("pattern", options["topic"])])

    def poll(self, ms):
        # Waits for the first record, and takes what else is there.
        first = self.consumer.poll(ms / 1000)
        messages = [] if first is None else [first, *self.consumer.consume(1000, 0)]
        for message in messages:
            if message.error():
                raise KafkaException(message.error())
        return [(message.partition(), message.offset()) for message in messages]

    def assigned(self):
        return [partition.partition for partition in self.consumer.assignment()]

    def commit(self):
        try:
            self.consumer.commit(asynchronous=False)
        except KafkaException as error:
            if error.args[0].code() not in self.AGAIN:
                raise
            return error.args[0].code() == KafkaError._NO_OFFSET
        return True

    def leave(self):
        self.consumer.close()


serve({"produce": produce, "consume": consume, "tails": tails, "admin": admin} | member_commands(Member))
