//! Share groups.

use super::super::key::{Check, Key, Kind};

pub(super) const KEYS: &[Key] = &[
    Key::broker("group.share.assignors", Kind::List, Some("simple")).doc(""),
    Key::broker("group.share.delivery.count.limit", Kind::Int, Some("5"))
        .check(Check::Between(2, 10))
        .doc(""),
    Key::broker("group.share.enable", Kind::Boolean, Some("false"))
        .internal()
        .doc(""),
    Key::broker("group.share.heartbeat.interval.ms", Kind::Int, Some("5000"))
        .at_least(1)
        .doc(""),
    Key::broker(
        "group.share.initialize.retry.interval.ms",
        Kind::Int,
        Some("30000"),
    )
    .at_least(1)
    .internal()
    .doc(""),
    Key::broker("group.share.max.heartbeat.interval.ms", Kind::Int, Some("15000"))
        .at_least(1)
        .doc(""),
    Key::broker(
        "group.share.max.record.lock.duration.ms",
        Kind::Int,
        Some("60000"),
    )
    .check(Check::Between(30_000, 3_600_000))
    .doc(""),
    Key::broker("group.share.max.session.timeout.ms", Kind::Int, Some("60000"))
        .at_least(1)
        .doc(""),
    Key::broker("group.share.max.share.sessions", Kind::Int, Some("2000"))
        .at_least(1)
        .doc(""),
    Key::broker("group.share.max.size", Kind::Int, Some("200"))
        .check(Check::Between(1, 1_000))
        .doc(""),
    Key::broker("group.share.min.heartbeat.interval.ms", Kind::Int, Some("5000"))
        .at_least(1)
        .doc(""),
    Key::broker(
        "group.share.min.record.lock.duration.ms",
        Kind::Int,
        Some("15000"),
    )
    .check(Check::Between(1_000, 30_000))
    .doc(""),
    Key::broker("group.share.min.session.timeout.ms", Kind::Int, Some("45000"))
        .at_least(1)
        .doc(""),
    Key::broker("group.share.partition.max.record.locks", Kind::Int, Some("2000"))
        .check(Check::Between(100, 10_000))
        .doc(""),
    Key::broker(
        "group.share.persister.class.name",
        Kind::String,
        Some("org.apache.kafka.server.share.persister.DefaultStatePersister"),
    )
    .internal()
    .doc(""),
    Key::broker("group.share.record.lock.duration.ms", Kind::Int, Some("30000"))
        .check(Check::Between(1_000, 3_600_000))
        .doc(""),
    Key::broker("group.share.session.timeout.ms", Kind::Int, Some("45000"))
        .at_least(1)
        .doc(""),
    Key::broker("share.coordinator.append.linger.ms", Kind::Int, Some("-1"))
        .at_least(-1)
        .doc(""),
    Key::broker(
        "share.coordinator.cold.partition.snapshot.interval.ms",
        Kind::Int,
        Some("300000"),
    )
    .at_least(1)
    .internal()
    .doc(""),
    Key::broker("share.coordinator.load.buffer.size", Kind::Int, Some("5242880"))
        .at_least(1)
        .doc(""),
    Key::broker(
        "share.coordinator.snapshot.update.records.per.snapshot",
        Kind::Int,
        Some("500"),
    )
    .at_least(0)
    .doc(""),
    Key::broker(
        "share.coordinator.state.topic.compression.codec",
        Kind::Int,
        Some("0"),
    )
    .doc(""),
    Key::broker("share.coordinator.state.topic.min.isr", Kind::Short, Some("2"))
        .at_least(1)
        .doc(""),
    Key::broker(
        "share.coordinator.state.topic.num.partitions",
        Kind::Int,
        Some("50"),
    )
    .at_least(1)
    .doc(""),
    Key::broker(
        "share.coordinator.state.topic.prune.interval.ms",
        Kind::Int,
        Some("300000"),
    )
    .at_least(1)
    .internal()
    .doc(""),
    Key::broker(
        "share.coordinator.state.topic.replication.factor",
        Kind::Short,
        Some("3"),
    )
    .at_least(1)
    .doc(""),
    Key::broker(
        "share.coordinator.state.topic.segment.bytes",
        Kind::Int,
        Some("104857600"),
    )
    .at_least(1)
    .doc(""),
    Key::broker("share.coordinator.threads", Kind::Int, Some("1"))
        .at_least(1)
        .doc(""),
    Key::broker("share.coordinator.write.timeout.ms", Kind::Int, Some("5000"))
        .at_least(1)
        .doc(""),
    Key::broker(
        "share.fetch.purgatory.purge.interval.requests",
        Kind::Int,
        Some("1000"),
    )
    .doc(""),
];
