//! Tiered storage.

use super::super::key::{Check, Effect, Key, Kind};

const TIERED: Effect = Effect::Without("tiered storage is not served");
const NO_TIERED: Effect = Effect::Refused("tiered storage is not served");

pub(super) const KEYS: &[Key] = &[
    Key::broker("log.local.retention.bytes", Kind::Long, Some("-2"))
        .cluster_wide()
        .at_least(-2)
        .effect(TIERED)
        .doc("The default of a topic's `local.retention.bytes`."),
    Key::broker("log.local.retention.ms", Kind::Long, Some("-2"))
        .cluster_wide()
        .at_least(-2)
        .effect(TIERED)
        .doc("The default of a topic's `local.retention.ms`."),
    Key::broker("remote.fetch.max.wait.ms", Kind::Int, Some("500"))
        .cluster_wide()
        .at_least(1)
        .effect(TIERED)
        .doc("How long a fetch from remote storage may take."),
    Key::broker(
        "remote.list.offsets.request.timeout.ms",
        Kind::Long,
        Some("30000"),
    )
    .cluster_wide()
    .at_least(1)
    .effect(TIERED)
    .doc("How long a look-up of offsets in remote storage may take."),
    Key::broker(
        "remote.log.index.file.cache.total.size.bytes",
        Kind::Long,
        Some("1073741824"),
    )
    .cluster_wide()
    .at_least(1)
    .effect(TIERED)
    .doc("Disk space for copies of remote indexes."),
    Key::broker(
        "remote.log.manager.copier.thread.pool.size",
        Kind::Int,
        Some("10"),
    )
    .cluster_wide()
    .at_least(1)
    .effect(TIERED)
    .doc("Threads that copy segments to remote storage."),
    Key::broker(
        "remote.log.manager.copy.max.bytes.per.second",
        Kind::Long,
        Some("9223372036854775807"),
    )
    .cluster_wide()
    .at_least(1)
    .effect(TIERED)
    .doc("The most that is copied to remote storage."),
    Key::broker("remote.log.manager.copy.quota.window.num", Kind::Int, Some("11"))
        .at_least(1)
        .effect(TIERED)
        .doc("Samples kept for the quota on copies."),
    Key::broker(
        "remote.log.manager.copy.quota.window.size.seconds",
        Kind::Int,
        Some("1"),
    )
    .at_least(1)
    .effect(TIERED)
    .doc("Length of one sample of the quota on copies."),
    Key::broker(
        "remote.log.manager.expiration.thread.pool.size",
        Kind::Int,
        Some("10"),
    )
    .cluster_wide()
    .at_least(1)
    .effect(TIERED)
    .doc("Threads that delete from remote storage."),
    Key::broker(
        "remote.log.manager.fetch.max.bytes.per.second",
        Kind::Long,
        Some("9223372036854775807"),
    )
    .cluster_wide()
    .at_least(1)
    .effect(TIERED)
    .doc("The most that is fetched from remote storage."),
    Key::broker("remote.log.manager.fetch.quota.window.num", Kind::Int, Some("11"))
        .at_least(1)
        .effect(TIERED)
        .doc("Samples kept for the quota on remote fetches."),
    Key::broker(
        "remote.log.manager.fetch.quota.window.size.seconds",
        Kind::Int,
        Some("1"),
    )
    .at_least(1)
    .effect(TIERED)
    .doc("Length of one sample of the quota on remote fetches."),
    Key::broker(
        "remote.log.manager.follower.thread.pool.size",
        Kind::Int,
        Some("2"),
    )
    .cluster_wide()
    .at_least(1)
    .effect(TIERED)
    .doc("Threads for the remote side of follower replicas."),
    Key::broker("remote.log.manager.task.interval.ms", Kind::Long, Some("30000"))
        .at_least(1)
        .effect(TIERED)
        .doc("How often remote tasks run."),
    Key::broker(
        "remote.log.manager.task.retry.backoff.max.ms",
        Kind::Long,
        Some("30000"),
    )
    .at_least(1)
    .effect(TIERED)
    .internal()
    .doc("The longest pause before a remote task is tried again."),
    Key::broker(
        "remote.log.manager.task.retry.backoff.ms",
        Kind::Long,
        Some("500"),
    )
    .at_least(1)
    .effect(TIERED)
    .internal()
    .doc("The first pause before a remote task is tried again."),
    Key::broker("remote.log.manager.task.retry.jitter", Kind::Double, Some("0.2"))
        .check(Check::Fraction(0.0, 0.5))
        .effect(TIERED)
        .internal()
        .doc("How much those pauses vary."),
    Key::broker("remote.log.manager.thread.pool.size", Kind::Int, Some("2"))
        .at_least(1)
        .effect(TIERED)
        .doc("Threads for remote tasks."),
    Key::broker(
        "remote.log.metadata.custom.metadata.max.bytes",
        Kind::Int,
        Some("128"),
    )
    .at_least(0)
    .effect(TIERED)
    .doc("The most that a storage plugin may add to the metadata of a segment."),
    Key::broker(
        "remote.log.metadata.manager.class.name",
        Kind::String,
        Some("org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager"),
    )
    .check(Check::NotEmpty)
    .effect(TIERED)
    .doc("The class that keeps the metadata of remote segments."),
    Key::broker("remote.log.metadata.manager.class.path", Kind::String, None)
        .effect(TIERED)
        .doc("Where that class is loaded from."),
    Key::broker(
        "remote.log.metadata.manager.impl.prefix",
        Kind::String,
        Some("rlmm.config."),
    )
    .check(Check::NotEmpty)
    .effect(TIERED)
    .doc("Prefix of the keys passed to that class."),
    Key::broker("remote.log.metadata.manager.listener.name", Kind::String, None)
        .check(Check::NotEmpty)
        .effect(TIERED)
        .doc("The listener that class connects to."),
    Key::broker("remote.log.reader.max.pending.tasks", Kind::Int, Some("100"))
        .at_least(1)
        .effect(TIERED)
        .doc("The most remote reads that wait."),
    Key::broker("remote.log.reader.threads", Kind::Int, Some("10"))
        .cluster_wide()
        .at_least(1)
        .effect(TIERED)
        .doc("Threads for remote reads."),
    Key::broker("remote.log.storage.manager.class.name", Kind::String, None)
        .check(Check::NotEmpty)
        .effect(NO_TIERED)
        .doc("The class that stores remote segments."),
    Key::broker("remote.log.storage.manager.class.path", Kind::String, None)
        .effect(TIERED)
        .doc("Where that class is loaded from."),
    Key::broker(
        "remote.log.storage.manager.impl.prefix",
        Kind::String,
        Some("rsm.config."),
    )
    .check(Check::NotEmpty)
    .effect(TIERED)
    .doc("Prefix of the keys passed to that class."),
    Key::broker("remote.log.storage.system.enable", Kind::Boolean, Some("false"))
        .effect(NO_TIERED)
        .doc("Whether segments are kept in remote storage."),
];
