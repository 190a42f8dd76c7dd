//! Share groups.

use super::super::key::{Check, Effect, Key, Kind};

const SHARE_GROUPS: Effect = Effect::Without("share groups are not served");
const OWN_THREADS: Effect = Effect::Without("a shard is one thread: use strandline.shards");

pub(super) const KEYS: &[Key] = &[
    Key::broker("group.share.assignors", Kind::List, Some("simple"))
        .effect(SHARE_GROUPS)
        .doc("The assignors of share groups."),
    Key::broker("group.share.delivery.count.limit", Kind::Int, Some("5"))
        .check(Check::Between(2, 10))
        .effect(SHARE_GROUPS)
        .doc("How often a record is delivered before it is given up."),
    Key::broker("group.share.enable", Kind::Boolean, Some("false"))
        .effect(SHARE_GROUPS)
        .internal()
        .doc("Whether share groups are served."),
    Key::broker("group.share.heartbeat.interval.ms", Kind::Int, Some("5000"))
        .at_least(1)
        .effect(SHARE_GROUPS)
        .doc("How often members of share groups send heartbeats."),
    Key::broker(
        "group.share.initialize.retry.interval.ms",
        Kind::Int,
        Some("30000"),
    )
    .at_least(1)
    .effect(SHARE_GROUPS)
    .internal()
    .doc("The pause before a share partition is initialized again."),
    Key::broker("group.share.max.heartbeat.interval.ms", Kind::Int, Some("15000"))
        .at_least(1)
        .effect(SHARE_GROUPS)
        .doc("The longest heartbeat interval of a share group."),
    Key::broker(
        "group.share.max.record.lock.duration.ms",
        Kind::Int,
        Some("60000"),
    )
    .check(Check::Between(30_000, 3_600_000))
    .effect(SHARE_GROUPS)
    .doc("The longest time for which a record may be locked."),
    Key::broker("group.share.max.session.timeout.ms", Kind::Int, Some("60000"))
        .at_least(1)
        .effect(SHARE_GROUPS)
        .doc("The longest session timeout of a share group."),
    Key::broker("group.share.max.share.sessions", Kind::Int, Some("2000"))
        .at_least(1)
        .effect(SHARE_GROUPS)
        .doc("The most share sessions of a broker."),
    Key::broker("group.share.max.size", Kind::Int, Some("200"))
        .check(Check::Between(1, 1_000))
        .effect(SHARE_GROUPS)
        .doc("The most members of a share group."),
    Key::broker("group.share.min.heartbeat.interval.ms", Kind::Int, Some("5000"))
        .at_least(1)
        .effect(SHARE_GROUPS)
        .doc("The shortest heartbeat interval of a share group."),
    Key::broker(
        "group.share.min.record.lock.duration.ms",
        Kind::Int,
        Some("15000"),
    )
    .check(Check::Between(1_000, 30_000))
    .effect(SHARE_GROUPS)
    .doc("The shortest time for which a record may be locked."),
    Key::broker("group.share.min.session.timeout.ms", Kind::Int, Some("45000"))
        .at_least(1)
        .effect(SHARE_GROUPS)
        .doc("The shortest session timeout of a share group."),
    Key::broker("group.share.partition.max.record.locks", Kind::Int, Some("2000"))
        .check(Check::Between(100, 10_000))
        .effect(SHARE_GROUPS)
        .doc("The most records of a share partition that may be locked at once."),
    Key::broker(
        "group.share.persister.class.name",
        Kind::String,
        Some("org.apache.kafka.server.share.persister.DefaultStatePersister"),
    )
    .effect(SHARE_GROUPS)
    .internal()
    .doc("The class that stores the state of share groups."),
    Key::broker("group.share.record.lock.duration.ms", Kind::Int, Some("30000"))
        .check(Check::Between(1_000, 3_600_000))
        .effect(SHARE_GROUPS)
        .doc("How long a record is locked for the member that took it."),
    Key::broker("group.share.session.timeout.ms", Kind::Int, Some("45000"))
        .at_least(1)
        .effect(SHARE_GROUPS)
        .doc("How long a member of a share group may be silent."),
    Key::broker("share.coordinator.append.linger.ms", Kind::Int, Some("-1"))
        .at_least(-1)
        .effect(SHARE_GROUPS)
        .doc("How long the share coordinator gathers changes before it writes them."),
    Key::broker(
        "share.coordinator.cold.partition.snapshot.interval.ms",
        Kind::Int,
        Some("300000"),
    )
    .at_least(1)
    .effect(SHARE_GROUPS)
    .internal()
    .doc("How often idle share partitions are written whole."),
    Key::broker("share.coordinator.load.buffer.size", Kind::Int, Some("5242880"))
        .at_least(1)
        .effect(SHARE_GROUPS)
        .doc("How much is read at once when the state of share groups is loaded."),
    Key::broker(
        "share.coordinator.snapshot.update.records.per.snapshot",
        Kind::Int,
        Some("500"),
    )
    .at_least(0)
    .effect(SHARE_GROUPS)
    .doc("Changes of a share partition between two whole states."),
    Key::broker(
        "share.coordinator.state.topic.compression.codec",
        Kind::Int,
        Some("0"),
    )
    .effect(SHARE_GROUPS)
    .doc("The codec of the topic with the state of share groups."),
    Key::broker("share.coordinator.state.topic.min.isr", Kind::Short, Some("2"))
        .at_least(1)
        .effect(SHARE_GROUPS)
        .doc("In-sync replicas that topic needs."),
    Key::broker(
        "share.coordinator.state.topic.num.partitions",
        Kind::Int,
        Some("50"),
    )
    .at_least(1)
    .effect(SHARE_GROUPS)
    .doc("Partitions of that topic."),
    Key::broker(
        "share.coordinator.state.topic.prune.interval.ms",
        Kind::Int,
        Some("300000"),
    )
    .at_least(1)
    .effect(SHARE_GROUPS)
    .internal()
    .doc("How often that topic is pruned."),
    Key::broker(
        "share.coordinator.state.topic.replication.factor",
        Kind::Short,
        Some("3"),
    )
    .at_least(1)
    .effect(SHARE_GROUPS)
    .doc("Replicas of that topic."),
    Key::broker(
        "share.coordinator.state.topic.segment.bytes",
        Kind::Int,
        Some("104857600"),
    )
    .at_least(1)
    .effect(SHARE_GROUPS)
    .doc("Size of a segment of that topic."),
    Key::broker("share.coordinator.threads", Kind::Int, Some("1"))
        .at_least(1)
        .effect(OWN_THREADS)
        .doc("Threads of the share coordinator."),
    Key::broker("share.coordinator.write.timeout.ms", Kind::Int, Some("5000"))
        .at_least(1)
        .effect(SHARE_GROUPS)
        .doc("How long a write of the share coordinator may take."),
    Key::broker(
        "share.fetch.purgatory.purge.interval.requests",
        Kind::Int,
        Some("1000"),
    )
    .effect(OWN_THREADS)
    .doc("How many finished share fetches are kept before they are purged."),
];
