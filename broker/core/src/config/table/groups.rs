//! Consumer groups and committed offsets.

use super::super::key::{Check, Effect, Key, Kind, Synonym};

const PROTOCOLS: Effect = Effect::Partly("classic groups are always served, share and streams groups never");
const FEWER: Effect = Effect::Partly(
    "as many as there are brokers when it is created, if those are fewer; unless it is set, no two on one node",
);
const JOURNAL: Effect =
    Effect::Without("whatever comes while the journal is being flushed is written with its next flush");
const STREAMS_GROUPS: Effect = Effect::Without("streams groups are not served");
const OWN_THREADS: Effect = Effect::Without("a shard is one thread: use strandline.shards");

pub(super) const KEYS: &[Key] = &[
    Key::group(
        "consumer.heartbeat.interval.ms",
        Kind::Int,
        &[Synonym::same("group.consumer.heartbeat.interval.ms")],
    )
    .at_least(1)
    .doc("How often members of this group send heartbeats, in the consumer protocol; between `group.consumer.min.heartbeat.interval.ms` and `group.consumer.max.heartbeat.interval.ms`."),
    Key::group(
        "consumer.session.timeout.ms",
        Kind::Int,
        &[Synonym::same("group.consumer.session.timeout.ms")],
    )
    .at_least(1)
    .doc("How long a member of this group may be silent, in the consumer protocol; between `group.consumer.min.session.timeout.ms` and `group.consumer.max.session.timeout.ms`."),
    Key::broker("group.consumer.assignors", Kind::List, Some("uniform,range"))
        .check(Check::OneOf(&["uniform", "range"]))
        .doc("The assignors of the consumer protocol that the broker runs."),
    Key::broker("group.consumer.heartbeat.interval.ms", Kind::Int, Some("5000"))
        .at_least(1)
        .doc("How often members of the consumer protocol send heartbeats."),
    Key::broker(
        "group.consumer.max.heartbeat.interval.ms",
        Kind::Int,
        Some("15000"),
    )
    .at_least(1)
    .doc("The longest heartbeat interval a group may be configured with."),
    Key::broker("group.consumer.max.session.timeout.ms", Kind::Int, Some("60000"))
        .at_least(1)
        .doc("The longest session timeout a group may be configured with."),
    Key::broker("group.consumer.max.size", Kind::Int, Some("2147483647"))
        .at_least(1)
        .doc("The most members of a group of the consumer protocol."),
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
    .doc("Whether classic groups are converted to the consumer protocol, and back."),
    Key::broker(
        "group.consumer.min.heartbeat.interval.ms",
        Kind::Int,
        Some("5000"),
    )
    .at_least(1)
    .doc("The shortest heartbeat interval a group may be configured with."),
    Key::broker("group.consumer.min.session.timeout.ms", Kind::Int, Some("45000"))
        .at_least(1)
        .doc("The shortest session timeout a group may be configured with."),
    Key::broker(
        "group.consumer.regex.refresh.interval.ms",
        Kind::Int,
        Some("600000"),
    )
    .at_least(10_000)
    .internal()
    .doc("How often patterns are matched against the topics again."),
    Key::broker("group.consumer.session.timeout.ms", Kind::Int, Some("45000"))
        .at_least(1)
        .doc("How long a member of the consumer protocol may be silent."),
    Key::broker("group.coordinator.append.linger.ms", Kind::Int, Some("-1"))
        .at_least(-1)
        .effect(JOURNAL)
        .doc("How long the coordinator gathers changes before it writes them; -1 adapts to the load."),
    Key::broker(
        "group.coordinator.rebalance.protocols",
        Kind::List,
        Some("classic,consumer,streams"),
    )
    .check(Check::OneOf(&["consumer", "classic", "share", "streams"]))
    .effect(PROTOCOLS)
    .doc("The group protocols that are served."),
    Key::broker("group.coordinator.threads", Kind::Int, Some("4"))
        .at_least(1)
        .effect(OWN_THREADS)
        .doc("Threads of the group coordinator."),
    Key::broker("group.initial.rebalance.delay.ms", Kind::Int, Some("3000"))
        .doc("How long the first rebalance of an empty group waits for more members."),
    Key::broker("group.max.session.timeout.ms", Kind::Int, Some("1800000"))
        .doc("The longest session timeout that a classic member may ask for."),
    Key::broker("group.max.size", Kind::Int, Some("2147483647"))
        .at_least(1)
        .doc("The most members of a classic group."),
    Key::broker("group.min.session.timeout.ms", Kind::Int, Some("6000"))
        .doc("The shortest session timeout that a classic member may ask for."),
    Key::broker("group.streams.heartbeat.interval.ms", Kind::Int, Some("5000"))
        .at_least(1)
        .effect(STREAMS_GROUPS)
        .doc("How often members of streams groups send heartbeats."),
    Key::broker(
        "group.streams.initial.rebalance.delay.ms",
        Kind::Int,
        Some("3000"),
    )
    .at_least(0)
    .effect(STREAMS_GROUPS)
    .doc("How long the first rebalance of a streams group waits for more members."),
    Key::broker(
        "group.streams.max.heartbeat.interval.ms",
        Kind::Int,
        Some("15000"),
    )
    .at_least(1)
    .effect(STREAMS_GROUPS)
    .doc("The longest heartbeat interval of a streams group."),
    Key::broker("group.streams.max.session.timeout.ms", Kind::Int, Some("60000"))
        .at_least(1)
        .effect(STREAMS_GROUPS)
        .doc("The longest session timeout of a streams group."),
    Key::broker("group.streams.max.size", Kind::Int, Some("2147483647"))
        .at_least(1)
        .effect(STREAMS_GROUPS)
        .doc("The most members of a streams group."),
    Key::broker("group.streams.max.standby.replicas", Kind::Int, Some("2"))
        .at_least(0)
        .effect(STREAMS_GROUPS)
        .doc("The most standby replicas a streams group may ask for."),
    Key::broker("group.streams.min.heartbeat.interval.ms", Kind::Int, Some("5000"))
        .at_least(1)
        .effect(STREAMS_GROUPS)
        .doc("The shortest heartbeat interval of a streams group."),
    Key::broker("group.streams.min.session.timeout.ms", Kind::Int, Some("45000"))
        .at_least(1)
        .effect(STREAMS_GROUPS)
        .doc("The shortest session timeout of a streams group."),
    Key::broker("group.streams.num.standby.replicas", Kind::Int, Some("0"))
        .at_least(0)
        .effect(STREAMS_GROUPS)
        .doc("Standby replicas of each task of a streams group."),
    Key::broker("group.streams.session.timeout.ms", Kind::Int, Some("45000"))
        .at_least(1)
        .effect(STREAMS_GROUPS)
        .doc("How long a member of a streams group may be silent."),
    Key::broker("offset.metadata.max.bytes", Kind::Int, Some("4096"))
        .doc("The most metadata in a committed offset."),
    Key::broker("offsets.commit.timeout.ms", Kind::Int, Some("5000"))
        .at_least(1)
        .doc("How long a commit of offsets may take."),
    Key::broker("offsets.load.buffer.size", Kind::Int, Some("5242880"))
        .at_least(1)
        .doc("How much is read at once when committed offsets are loaded."),
    Key::broker("offsets.retention.check.interval.ms", Kind::Long, Some("600000"))
        .at_least(1)
        .doc("How often expired offsets are looked for."),
    Key::broker("offsets.retention.minutes", Kind::Int, Some("10080"))
        .at_least(1)
        .doc("For how long offsets are kept once their group is empty."),
    Key::broker("offsets.topic.compression.codec", Kind::Int, Some("0"))
        .check(Check::Between(0, 4))
        .doc("The codec of the offsets topic."),
    Key::broker("offsets.topic.num.partitions", Kind::Int, Some("50"))
        .check(Check::Between(1, 10_000))
        .doc("Partitions of the offsets topic."),
    Key::broker("offsets.topic.replication.factor", Kind::Short, Some("3"))
        .at_least(1)
        .effect(FEWER)
        .doc("Replicas of the offsets topic."),
    Key::broker("offsets.topic.segment.bytes", Kind::Int, Some("104857600"))
        .at_least(1 << 20)
        .doc("Size of a segment of the offsets topic."),
];
