//! Tiered storage.

use super::super::key::{Check, Key, Kind};

pub(super) const KEYS: &[Key] = &[
    Key::broker("log.local.retention.bytes", Kind::Long, Some("-2"))
        .cluster_wide()
        .at_least(-2)
        .doc(""),
    Key::broker("log.local.retention.ms", Kind::Long, Some("-2"))
        .cluster_wide()
        .at_least(-2)
        .doc(""),
    Key::broker("remote.fetch.max.wait.ms", Kind::Int, Some("500"))
        .cluster_wide()
        .at_least(1)
        .doc(""),
    Key::broker(
        "remote.list.offsets.request.timeout.ms",
        Kind::Long,
        Some("30000"),
    )
    .cluster_wide()
    .at_least(1)
    .doc(""),
    Key::broker(
        "remote.log.index.file.cache.total.size.bytes",
        Kind::Long,
        Some("1073741824"),
    )
    .cluster_wide()
    .at_least(1)
    .doc(""),
    Key::broker(
        "remote.log.manager.copier.thread.pool.size",
        Kind::Int,
        Some("10"),
    )
    .cluster_wide()
    .at_least(1)
    .doc(""),
    Key::broker(
        "remote.log.manager.copy.max.bytes.per.second",
        Kind::Long,
        Some("9223372036854775807"),
    )
    .cluster_wide()
    .at_least(1)
    .doc(""),
    Key::broker("remote.log.manager.copy.quota.window.num", Kind::Int, Some("11"))
        .at_least(1)
        .doc(""),
    Key::broker(
        "remote.log.manager.copy.quota.window.size.seconds",
        Kind::Int,
        Some("1"),
    )
    .at_least(1)
    .doc(""),
    Key::broker(
        "remote.log.manager.expiration.thread.pool.size",
        Kind::Int,
        Some("10"),
    )
    .cluster_wide()
    .at_least(1)
    .doc(""),
    Key::broker(
        "remote.log.manager.fetch.max.bytes.per.second",
        Kind::Long,
        Some("9223372036854775807"),
    )
    .cluster_wide()
    .at_least(1)
    .doc(""),
    Key::broker("remote.log.manager.fetch.quota.window.num", Kind::Int, Some("11"))
        .at_least(1)
        .doc(""),
    Key::broker(
        "remote.log.manager.fetch.quota.window.size.seconds",
        Kind::Int,
        Some("1"),
    )
    .at_least(1)
    .doc(""),
    Key::broker(
        "remote.log.manager.follower.thread.pool.size",
        Kind::Int,
        Some("2"),
    )
    .cluster_wide()
    .at_least(1)
    .doc(""),
    Key::broker("remote.log.manager.task.interval.ms", Kind::Long, Some("30000"))
        .at_least(1)
        .doc(""),
    Key::broker(
        "remote.log.manager.task.retry.backoff.max.ms",
        Kind::Long,
        Some("30000"),
    )
    .at_least(1)
    .internal()
    .doc(""),
    Key::broker(
        "remote.log.manager.task.retry.backoff.ms",
        Kind::Long,
        Some("500"),
    )
    .at_least(1)
    .internal()
    .doc(""),
    Key::broker("remote.log.manager.task.retry.jitter", Kind::Double, Some("0.2"))
        .check(Check::Fraction(0.0, 0.5))
        .internal()
        .doc(""),
    Key::broker("remote.log.manager.thread.pool.size", Kind::Int, Some("2"))
        .at_least(1)
        .doc(""),
    Key::broker(
        "remote.log.metadata.custom.metadata.max.bytes",
        Kind::Int,
        Some("128"),
    )
    .at_least(0)
    .doc(""),
    Key::broker(
        "remote.log.metadata.manager.class.name",
        Kind::String,
        Some("org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager"),
    )
    .check(Check::NotEmpty)
    .doc(""),
    Key::broker("remote.log.metadata.manager.class.path", Kind::String, None).doc(""),
    Key::broker(
        "remote.log.metadata.manager.impl.prefix",
        Kind::String,
        Some("rlmm.config."),
    )
    .check(Check::NotEmpty)
    .doc(""),
    Key::broker("remote.log.metadata.manager.listener.name", Kind::String, None)
        .check(Check::NotEmpty)
        .doc(""),
    Key::broker("remote.log.reader.max.pending.tasks", Kind::Int, Some("100"))
        .at_least(1)
        .doc(""),
    Key::broker("remote.log.reader.threads", Kind::Int, Some("10"))
        .cluster_wide()
        .at_least(1)
        .doc(""),
    Key::broker("remote.log.storage.manager.class.name", Kind::String, None)
        .check(Check::NotEmpty)
        .doc(""),
    Key::broker("remote.log.storage.manager.class.path", Kind::String, None).doc(""),
    Key::broker(
        "remote.log.storage.manager.impl.prefix",
        Kind::String,
        Some("rsm.config."),
    )
    .check(Check::NotEmpty)
    .doc(""),
    Key::broker("remote.log.storage.system.enable", Kind::Boolean, Some("false")).doc(""),
];
