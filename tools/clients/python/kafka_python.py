"""kafka-python behind the line protocol of `driver`."""

import time

from driver import HEARTBEAT_MS, SESSION_MS, Checks, Record, member_commands, serve, show
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewPartitions, NewTopic
from kafka.errors import CommitFailedError, IllegalGenerationError, RebalanceInProgressError, UnknownMemberIdError

TIMEOUT_S = 30


def produce(options, records):
    acks = options["acks"] if options["acks"] == "all" else int(options["acks"])
    producer = KafkaProducer(
        bootstrap_servers=options["bootstrap"],
        compression_type=None if options["codec"] == "none" else options["codec"],
        acks=acks,
        enable_idempotence=options["idempotent"] == "true",
        linger_ms=20,
        max_request_size=10_000_000,
        max_block_ms=TIMEOUT_S * 1000,
    )
    futures = [
        producer.send(
            options["topic"], value=record.value, key=record.key, partition=record.place, headers=record.headers,
            timestamp_ms=record.timestamp if record.timestamp >= 0 else None)
        for record in records
    ]
    producer.flush(TIMEOUT_S)
    offsets = [future.get(TIMEOUT_S).offset for future in futures]
    producer.close()
    return [str(-1 if offset is None else offset) for offset in offsets]


def consume(options, _records):
    settings = {}
    if "fetch_max" in options:
        settings = {"fetch_max_bytes": int(options["fetch_max"]), "max_partition_fetch_bytes": int(options["fetch_max"])}
    consumer = KafkaConsumer(
        bootstrap_servers=options["bootstrap"], group_id=None, enable_auto_commit=False, auto_offset_reset="none", **settings)
    partition = TopicPartition(options["topic"], int(options["partition"]))
    consumer.assign([partition])
    consumer.seek(partition, int(options["from"]))
    wanted, lines, deadline = int(options["count"]), [], time.monotonic() + TIMEOUT_S
    while len(lines) < wanted and time.monotonic() < deadline:
        for messages in consumer.poll(1000).values():
            lines += [show(Record(one.offset, one.timestamp, one.key, one.value, one.headers or [])) for one in messages]
    consumer.close()
    return lines[:wanted]


def tails(options, _records):
    consumer = KafkaConsumer(
        bootstrap_servers=options["bootstrap"], group_id=None, enable_auto_commit=False, auto_offset_reset="none", fetch_max_wait_ms=10)
    partition, end, lines = TopicPartition(options["topic"], int(options["partition"])), int(options["end"]), []
    consumer.assign([partition])
    for start in range(end):
        consumer.seek(partition, start)
        offsets, deadline = [], time.monotonic() + TIMEOUT_S
        while end - 1 not in offsets and time.monotonic() < deadline:
            for messages in consumer.poll(1000).values():
                offsets += [one.offset for one in messages]
        lines.append(",".join(map(str, offsets)))
    consumer.close()
    return lines


def admin(options, _records):
    client = KafkaAdminClient(bootstrap_servers=options["bootstrap"])
    topic, checks = options["topic"], Checks()
    partition = TopicPartition(topic, 0)
    checks.run("create", lambda: client.create_topics([NewTopic(topic, 3, 1)]) and None)
    checks.run("listed", lambda: topic in client.list_topics())
    checks.run("described", lambda: len(client.describe_topics([topic])[0]["partitions"]) == 3)
    checks.run("more partitions", lambda: client.create_partitions({topic: NewPartitions(4)}) and None)
    checks.run("more partitions seen", lambda: len(client.describe_topics([topic])[0]["partitions"]) == 4)
    checks.run("cluster", lambda: len(client.describe_cluster()["brokers"]) >= 1)
    stamps = (1_700_000_005_000, 1_700_000_009_000, 1_700_000_007_000)
    checks.run("produce", lambda: produce(
        options | {"codec": "gzip", "acks": "all", "idempotent": "true"},
        [Record(0, stamp, b"k", b"v", []) for stamp in stamps]) == ["0", "1", "2"])
    consumer = KafkaConsumer(bootstrap_servers=options["bootstrap"], group_id=None)
    checks.run("earliest", lambda: consumer.beginning_offsets([partition])[partition] == 0)
    checks.run("latest", lambda: consumer.end_offsets([partition])[partition] == 3)
    checks.run("by time", lambda: consumer.offsets_for_times({partition: 1_700_000_006_000})[partition].offset == 1)
    checks.run("by a time too late", lambda: consumer.offsets_for_times({partition: 1_800_000_000_000})[partition] is None)
    checks.run("delete records", lambda: client.delete_records({partition: 2}) and None)
    checks.run("earliest after it", lambda: consumer.beginning_offsets([partition])[partition] == 2)
    consumer.close()
    checks.run("delete topic", lambda: client.delete_topics([topic]) and None)
    checks.run("deleted", lambda: topic not in client.list_topics())
    client.close()
    return checks.lines


# This library loses an assignment that comes between two polls, if the first of them ran out of its time while the member joined: a
# poll that brings nothing takes long enough for that to be rare.
POLL_MS = 1500


class Member:
    def __init__(self, options):
        more = {"allow_auto_create_topics": options["create"] == "true"} if "create" in options else {}
        self.consumer = KafkaConsumer(
            options["topic"], bootstrap_servers=options["bootstrap"], group_id=options["group"], enable_auto_commit=False,
            auto_offset_reset="earliest", session_timeout_ms=SESSION_MS, heartbeat_interval_ms=HEARTBEAT_MS, **more)

    def poll(self, ms):
        return [(one.partition, one.offset) for messages in self.consumer.poll(max(ms, POLL_MS)).values() for one in messages]

    def assigned(self):
        return [partition.partition for partition in self.consumer.assignment()]

    def commit(self):
        try:
            self.consumer.commit()
        except (CommitFailedError, IllegalGenerationError, RebalanceInProgressError, UnknownMemberIdError):
            return False
        return True

    def leave(self):
        self.consumer.close()


serve({"produce": produce, "consume": consume, "tails": tails, "admin": admin} | member_commands(Member))
