//! Topics and their logs, as the broker sets them for topics that say nothing.

use super::super::key::{Check, Key, Kind, Synonym};

pub(super) const KEYS: &[Key] = &[
    Key::broker("auto.create.topics.enable", Kind::Boolean, Some("true")).doc(""),
    Key::broker("compression.gzip.level", Kind::Int, Some("-1"))
        .cluster_wide()
        .check(Check::BetweenOr(1, 9, -1))
        .doc(""),
    Key::broker("compression.lz4.level", Kind::Int, Some("9"))
        .cluster_wide()
        .check(Check::Between(1, 17))
        .doc(""),
    Key::broker("compression.type", Kind::String, Some("producer"))
        .cluster_wide()
        .check(Check::OneOf(&[
            "uncompressed",
            "zstd",
            "lz4",
            "snappy",
            "gzip",
            "producer",
        ]))
        .doc(""),
    Key::broker("compression.zstd.level", Kind::Int, Some("3"))
        .cluster_wide()
        .check(Check::Between(-131_072, 22))
        .doc(""),
    Key::broker("default.replication.factor", Kind::Int, Some("1")).doc(""),
    Key::broker("delete.topic.enable", Kind::Boolean, Some("true")).doc(""),
    Key::broker("log.cleaner.backoff.ms", Kind::Long, Some("15000"))
        .cluster_wide()
        .at_least(0)
        .doc(""),
    Key::broker("log.cleaner.dedupe.buffer.size", Kind::Long, Some("134217728"))
        .cluster_wide()
        .doc(""),
    Key::broker("log.cleaner.delete.retention.ms", Kind::Long, Some("86400000"))
        .cluster_wide()
        .at_least(0)
        .doc(""),
    Key::broker("log.cleaner.enable", Kind::Boolean, Some("true")).doc(""),
    Key::broker("log.cleaner.io.buffer.load.factor", Kind::Double, Some("0.9"))
        .cluster_wide()
        .doc(""),
    Key::broker("log.cleaner.io.buffer.size", Kind::Int, Some("524288"))
        .cluster_wide()
        .at_least(0)
        .doc(""),
    Key::broker(
        "log.cleaner.io.max.bytes.per.second",
        Kind::Double,
        Some("1.7976931348623157E308"),
    )
    .cluster_wide()
    .doc(""),
    Key::broker(
        "log.cleaner.max.compaction.lag.ms",
        Kind::Long,
        Some("9223372036854775807"),
    )
    .cluster_wide()
    .at_least(1)
    .doc(""),
    Key::broker("log.cleaner.min.cleanable.ratio", Kind::Double, Some("0.5"))
        .cluster_wide()
        .check(Check::Fraction(0.0, 1.0))
        .doc(""),
    Key::broker("log.cleaner.min.compaction.lag.ms", Kind::Long, Some("0"))
        .cluster_wide()
        .at_least(0)
        .doc(""),
    Key::broker("log.cleaner.threads", Kind::Int, Some("1"))
        .cluster_wide()
        .at_least(0)
        .doc(""),
    Key::broker("log.cleanup.policy", Kind::List, Some("delete"))
        .cluster_wide()
        .check(Check::OneOf(&["compact", "delete"]))
        .doc(""),
    Key::broker("log.dir", Kind::List, Some("./data")).doc(""),
    Key::broker("log.dir.failure.timeout.ms", Kind::Long, Some("30000"))
        .at_least(1)
        .doc(""),
    Key::broker("log.dirs", Kind::List, None)
        .synonyms(&[Synonym::same("log.dirs"), Synonym::same("log.dir")])
        .doc(""),
    Key::broker("log.flush.interval.messages", Kind::Long, Some("1"))
        .cluster_wide()
        .at_least(1)
        .doc(""),
    Key::broker("log.flush.interval.ms", Kind::Long, None)
        .cluster_wide()
        .synonyms(&[
            Synonym::same("log.flush.interval.ms"),
            Synonym::same("log.flush.scheduler.interval.ms"),
        ])
        .doc(""),
    Key::broker(
        "log.flush.offset.checkpoint.interval.ms",
        Kind::Int,
        Some("60000"),
    )
    .at_least(0)
    .doc(""),
    Key::broker(
        "log.flush.scheduler.interval.ms",
        Kind::Long,
        Some("9223372036854775807"),
    )
    .doc(""),
    Key::broker(
        "log.flush.start.offset.checkpoint.interval.ms",
        Kind::Int,
        Some("60000"),
    )
    .at_least(0)
    .doc(""),
    Key::broker("log.index.interval.bytes", Kind::Int, Some("4096"))
        .cluster_wide()
        .at_least(0)
        .doc(""),
    Key::broker("log.index.size.max.bytes", Kind::Int, Some("10485760"))
        .cluster_wide()
        .at_least(4)
        .doc(""),
    Key::broker("log.initial.task.delay.ms", Kind::Long, Some("30000"))
        .at_least(0)
        .internal()
        .doc(""),
    Key::broker("log.message.timestamp.after.max.ms", Kind::Long, Some("3600000"))
        .cluster_wide()
        .at_least(0)
        .doc(""),
    Key::broker(
        "log.message.timestamp.before.max.ms",
        Kind::Long,
        Some("9223372036854775807"),
    )
    .cluster_wide()
    .at_least(0)
    .doc(""),
    Key::broker("log.message.timestamp.type", Kind::String, Some("CreateTime"))
        .cluster_wide()
        .check(Check::OneOf(&["CreateTime", "LogAppendTime"]))
        .doc(""),
    Key::broker("log.preallocate", Kind::Boolean, Some("false"))
        .cluster_wide()
        .doc(""),
    Key::broker("log.retention.bytes", Kind::Long, Some("-1"))
        .cluster_wide()
        .doc(""),
    Key::broker("log.retention.check.interval.ms", Kind::Long, Some("300000"))
        .at_least(1)
        .doc(""),
    Key::broker("log.retention.hours", Kind::Int, Some("168")).doc(""),
    Key::broker("log.retention.minutes", Kind::Int, None).doc(""),
    Key::broker("log.retention.ms", Kind::Long, None)
        .cluster_wide()
        .synonyms(&[
            Synonym::same("log.retention.ms"),
            Synonym::times("log.retention.minutes", 60_000),
            Synonym::times("log.retention.hours", 3_600_000),
        ])
        .doc(""),
    Key::broker("log.roll.hours", Kind::Int, Some("168"))
        .at_least(1)
        .doc(""),
    Key::broker("log.roll.jitter.hours", Kind::Int, Some("0"))
        .at_least(0)
        .doc(""),
    Key::broker("log.roll.jitter.ms", Kind::Long, None)
        .cluster_wide()
        .synonyms(&[
            Synonym::same("log.roll.jitter.ms"),
            Synonym::times("log.roll.jitter.hours", 3_600_000),
        ])
        .doc(""),
    Key::broker("log.roll.ms", Kind::Long, None)
        .cluster_wide()
        .synonyms(&[
            Synonym::same("log.roll.ms"),
            Synonym::times("log.roll.hours", 3_600_000),
        ])
        .doc(""),
    Key::broker("log.segment.bytes", Kind::Int, Some("1073741824"))
        .cluster_wide()
        .at_least(1_048_576)
        .doc(""),
    Key::broker("log.segment.delete.delay.ms", Kind::Long, Some("60000"))
        .cluster_wide()
        .at_least(0)
        .doc(""),
    Key::broker("message.max.bytes", Kind::Int, Some("1048588"))
        .cluster_wide()
        .at_least(0)
        .doc(""),
    Key::broker("min.insync.replicas", Kind::Int, Some("1"))
        .cluster_wide()
        .at_least(1)
        .doc(""),
    Key::broker("num.partitions", Kind::Int, Some("1"))
        .at_least(1)
        .doc(""),
    Key::broker("num.recovery.threads.per.data.dir", Kind::Int, Some("2"))
        .cluster_wide()
        .at_least(1)
        .doc(""),
];
