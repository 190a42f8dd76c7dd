//! Consumer groups and committed offsets.

use super::super::key::{Check, Key, Kind};

pub(super) const KEYS: &[Key] = &[
    Key::broker("group.consumer.assignors", Kind::List, Some("uniform,range")).doc(""),
    Key::broker("group.consumer.heartbeat.interval.ms", Kind::Int, Some("5000"))
        .at_least(1)
        .doc(""),
    Key::broker(
        "group.consumer.max.heartbeat.interval.ms",
        Kind::Int,
        Some("15000"),
    )
    .at_least(1)
    .doc(""),
    Key::broker("group.consumer.max.session.timeout.ms", Kind::Int, Some("60000"))
        .at_least(1)
        .doc(""),
    Key::broker("group.consumer.max.size", Kind::Int, Some("2147483647"))
        .at_least(1)
        .doc(""),
    Key::broker(
        "group.consumer.migration.policy",
        Kind::String,
        Some("bidirectional"),
    )
    .check(Check::OneOfAnyCase(&[
        "DISABLED",
        "DOWNGRADE",
        "UPGRADE",
        "BIDIRECTIONAL",
    ]))
    .doc(""),
    Key::broker(
        "group.consumer.min.heartbeat.interval.ms",
        Kind::Int,
        Some("5000"),
    )
    .at_least(1)
    .doc(""),
    Key::broker("group.consumer.min.session.timeout.ms", Kind::Int, Some("45000"))
        .at_least(1)
        .doc(""),
    Key::broker(
        "group.consumer.regex.refresh.interval.ms",
        Kind::Int,
        Some("600000"),
    )
    .at_least(10_000)
    .internal()
    .doc(""),
    Key::broker("group.consumer.session.timeout.ms", Kind::Int, Some("45000"))
        .at_least(1)
        .doc(""),
    Key::broker("group.coordinator.append.linger.ms", Kind::Int, Some("-1"))
        .at_least(-1)
        .doc(""),
    Key::broker(
        "group.coordinator.rebalance.protocols",
        Kind::List,
        Some("classic,consumer,streams"),
    )
    .check(Check::OneOf(&["consumer", "classic", "share", "streams"]))
    .doc(""),
    Key::broker("group.coordinator.threads", Kind::Int, Some("4"))
        .at_least(1)
        .doc(""),
    Key::broker("group.initial.rebalance.delay.ms", Kind::Int, Some("3000")).doc(""),
    Key::broker("group.max.session.timeout.ms", Kind::Int, Some("1800000")).doc(""),
    Key::broker("group.max.size", Kind::Int, Some("2147483647"))
        .at_least(1)
        .doc(""),
    Key::broker("group.min.session.timeout.ms", Kind::Int, Some("6000")).doc(""),
    Key::broker("group.streams.heartbeat.interval.ms", Kind::Int, Some("5000"))
        .at_least(1)
        .doc(""),
    Key::broker(
        "group.streams.initial.rebalance.delay.ms",
        Kind::Int,
        Some("3000"),
    )
    .at_least(0)
    .doc(""),
    Key::broker(
        "group.streams.max.heartbeat.interval.ms",
        Kind::Int,
        Some("15000"),
    )
    .at_least(1)
    .doc(""),
    Key::broker("group.streams.max.session.timeout.ms", Kind::Int, Some("60000"))
        .at_least(1)
        .doc(""),
    Key::broker("group.streams.max.size", Kind::Int, Some("2147483647"))
        .at_least(1)
        .doc(""),
    Key::broker("group.streams.max.standby.replicas", Kind::Int, Some("2"))
        .at_least(0)
        .doc(""),
    Key::broker("group.streams.min.heartbeat.interval.ms", Kind::Int, Some("5000"))
        .at_least(1)
        .doc(""),
    Key::broker("group.streams.min.session.timeout.ms", Kind::Int, Some("45000"))
        .at_least(1)
        .doc(""),
    Key::broker("group.streams.num.standby.replicas", Kind::Int, Some("0"))
        .at_least(0)
        .doc(""),
    Key::broker("group.streams.session.timeout.ms", Kind::Int, Some("45000"))
        .at_least(1)
        .doc(""),
    Key::broker("offset.metadata.max.bytes", Kind::Int, Some("4096")).doc(""),
    Key::broker("offsets.commit.timeout.ms", Kind::Int, Some("5000"))
        .at_least(1)
        .doc(""),
    Key::broker("offsets.load.buffer.size", Kind::Int, Some("5242880"))
        .at_least(1)
        .doc(""),
    Key::broker("offsets.retention.check.interval.ms", Kind::Long, Some("600000"))
        .at_least(1)
        .doc(""),
    Key::broker("offsets.retention.minutes", Kind::Int, Some("10080"))
        .at_least(1)
        .doc(""),
    Key::broker("offsets.topic.compression.codec", Kind::Int, Some("0")).doc(""),
    Key::broker("offsets.topic.num.partitions", Kind::Int, Some("50"))
        .at_least(1)
        .doc(""),
    Key::broker("offsets.topic.replication.factor", Kind::Short, Some("3"))
        .at_least(1)
        .doc(""),
    Key::broker("offsets.topic.segment.bytes", Kind::Int, Some("104857600"))
        .at_least(1)
        .doc(""),
];
