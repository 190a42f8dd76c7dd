//! A topic's own configuration.

use super::super::key::{Check, Effect, Key, Kind, Synonym};

const OWN_STORAGE: Effect =
    Effect::Without("the log is stored in another way than Kafka's: see docs/format.md");
const THROTTLE: Effect = Effect::Without("replication is not throttled");
const TIERED: Effect = Effect::Without("tiered storage is not served");
const NO_TIERED: Effect = Effect::Refused("tiered storage is not served");

pub(super) const KEYS: &[Key] = &[
    Key::topic(
        "cleanup.policy",
        Kind::List,
        Some("delete"),
        &[Synonym::same("log.cleanup.policy")],
    )
    .check(Check::OneOf(&["compact", "delete"]))
    .doc(
        "What becomes of old records: `delete` drops them by age and size, `compact` keeps the \
             newest of each key.",
    ),
    Key::topic(
        "compression.gzip.level",
        Kind::Int,
        Some("-1"),
        &[Synonym::same("compression.gzip.level")],
    )
    .check(Check::BetweenOr(1, 9, -1))
    .doc("The level at which batches are recompressed to gzip."),
    Key::topic(
        "compression.lz4.level",
        Kind::Int,
        Some("9"),
        &[Synonym::same("compression.lz4.level")],
    )
    .check(Check::Between(1, 17))
    .effect(Effect::Partly("the encoder has one level"))
    .doc("The level at which batches are recompressed to lz4."),
    Key::topic(
        "compression.type",
        Kind::String,
        Some("producer"),
        &[Synonym::same("compression.type")],
    )
    .check(Check::OneOf(&[
        "uncompressed",
        "zstd",
        "lz4",
        "snappy",
        "gzip",
        "producer",
    ]))
    .doc("The codec that batches are stored in: `producer` keeps what the producer chose."),
    Key::topic(
        "compression.zstd.level",
        Kind::Int,
        Some("3"),
        &[Synonym::same("compression.zstd.level")],
    )
    .check(Check::Between(-131_072, 22))
    .doc("The level at which batches are recompressed to zstd."),
    Key::topic(
        "delete.retention.ms",
        Kind::Long,
        Some("86400000"),
        &[Synonym::same("log.cleaner.delete.retention.ms")],
    )
    .at_least(0)
    .doc("For how long a compacted topic keeps tombstones."),
    Key::topic(
        "file.delete.delay.ms",
        Kind::Long,
        Some("60000"),
        &[Synonym::same("log.segment.delete.delay.ms")],
    )
    .at_least(0)
    .doc("For how long the files of a deleted segment stay."),
    Key::topic(
        "flush.messages",
        Kind::Long,
        Some("1"),
        &[Synonym::same("log.flush.interval.messages")],
    )
    .at_least(1)
    .effect(Effect::Partly(
        "1 makes the topic durable: nothing is acknowledged before its flush; any other value \
                 makes it relaxed",
    ))
    .doc(
        "After how many records the log is flushed. With any value but 1 a power cut may shorten \
             the tail by up to a second; the end of the process does not.",
    ),
    Key::topic(
        "flush.ms",
        Kind::Long,
        Some("9223372036854775807"),
        &[
            Synonym::same("log.flush.interval.ms"),
            Synonym::same("log.flush.scheduler.interval.ms"),
        ],
    )
    .at_least(0)
    .effect(Effect::Without(
        "a relaxed topic is flushed after a second at the latest",
    ))
    .doc("After how long the log is flushed."),
    Key::topic(
        "follower.replication.throttled.replicas",
        Kind::List,
        Some(""),
        &[],
    )
    .check(Check::ThrottledReplicas)
    .effect(THROTTLE)
    .doc("Replicas whose fetches are throttled, as partition:broker, or * for all."),
    Key::topic(
        "index.interval.bytes",
        Kind::Int,
        Some("4096"),
        &[Synonym::same("log.index.interval.bytes")],
    )
    .at_least(0)
    .doc("How many bytes lie between two entries of the index."),
    Key::topic("internal.segment.bytes", Kind::Int, None, &[])
        .effect(OWN_STORAGE)
        .internal()
        .doc("Size of a segment, in tests."),
    Key::topic("leader.replication.throttled.replicas", Kind::List, Some(""), &[])
        .check(Check::ThrottledReplicas)
        .effect(THROTTLE)
        .doc("Replicas whose leaders are throttled, as partition:broker, or * for all."),
    Key::topic(
        "local.retention.bytes",
        Kind::Long,
        Some("-2"),
        &[Synonym::same("log.local.retention.bytes")],
    )
    .at_least(-2)
    .effect(TIERED)
    .doc("How much stays on the local disk once it is in remote storage."),
    Key::topic(
        "local.retention.ms",
        Kind::Long,
        Some("-2"),
        &[Synonym::same("log.local.retention.ms")],
    )
    .at_least(-2)
    .effect(TIERED)
    .doc("For how long records stay on the local disk once they are in remote storage."),
    Key::topic(
        "max.compaction.lag.ms",
        Kind::Long,
        Some("9223372036854775807"),
        &[Synonym::same("log.cleaner.max.compaction.lag.ms")],
    )
    .at_least(1)
    .doc("The longest time for which a record may stay uncleaned."),
    Key::topic(
        "max.message.bytes",
        Kind::Int,
        Some("1048588"),
        &[Synonym::same("message.max.bytes")],
    )
    .at_least(0)
    .doc("The largest record batch, compressed."),
    Key::topic(
        "message.timestamp.after.max.ms",
        Kind::Long,
        Some("3600000"),
        &[Synonym::same("log.message.timestamp.after.max.ms")],
    )
    .at_least(0)
    .doc("How far a record's timestamp may lie in the future."),
    Key::topic(
        "message.timestamp.before.max.ms",
        Kind::Long,
        Some("9223372036854775807"),
        &[Synonym::same("log.message.timestamp.before.max.ms")],
    )
    .at_least(0)
    .doc("How far a record's timestamp may lie in the past."),
    Key::topic(
        "message.timestamp.type",
        Kind::String,
        Some("CreateTime"),
        &[Synonym::same("log.message.timestamp.type")],
    )
    .check(Check::OneOf(&["CreateTime", "LogAppendTime"]))
    .doc("Whether records keep the producer's timestamp or get the time of the append."),
    Key::topic(
        "min.cleanable.dirty.ratio",
        Kind::Double,
        Some("0.5"),
        &[Synonym::same("log.cleaner.min.cleanable.ratio")],
    )
    .check(Check::Fraction(0.0, 1.0))
    .doc("Which part of the log must be dirty before it is cleaned."),
    Key::topic(
        "min.compaction.lag.ms",
        Kind::Long,
        Some("0"),
        &[Synonym::same("log.cleaner.min.compaction.lag.ms")],
    )
    .at_least(0)
    .doc("The shortest time for which a record stays uncleaned."),
    Key::topic(
        "min.insync.replicas",
        Kind::Int,
        Some("1"),
        &[Synonym::same("min.insync.replicas")],
    )
    .at_least(1)
    .doc("How many replicas must have a record before `acks=all` is answered."),
    Key::topic(
        "preallocate",
        Kind::Boolean,
        Some("false"),
        &[Synonym::same("log.preallocate")],
    )
    .effect(OWN_STORAGE)
    .doc("Whether a segment's space is taken at once."),
    Key::topic("remote.log.copy.disable", Kind::Boolean, Some("false"), &[])
        .effect(NO_TIERED)
        .doc("Whether no more segments go to remote storage."),
    Key::topic("remote.log.delete.on.disable", Kind::Boolean, Some("false"), &[])
        .effect(NO_TIERED)
        .doc("Whether remote segments are deleted when remote storage is turned off."),
    Key::topic("remote.storage.enable", Kind::Boolean, Some("false"), &[])
        .effect(NO_TIERED)
        .doc("Whether segments are kept in remote storage."),
    Key::topic(
        "retention.bytes",
        Kind::Long,
        Some("-1"),
        &[Synonym::same("log.retention.bytes")],
    )
    .doc("How large a partition may become before its oldest segments are deleted; -1 for no limit."),
    Key::topic(
        "retention.ms",
        Kind::Long,
        Some("604800000"),
        &[
            Synonym::same("log.retention.ms"),
            Synonym::times("log.retention.minutes", 60_000),
            Synonym::times("log.retention.hours", 3_600_000),
        ],
    )
    .at_least(-1)
    .doc("For how long records are kept; -1 for ever."),
    Key::topic(
        "segment.bytes",
        Kind::Int,
        Some("1073741824"),
        &[Synonym::same("log.segment.bytes")],
    )
    .at_least(1_048_576)
    .doc("Payload bytes after which a new segment begins."),
    Key::topic(
        "segment.index.bytes",
        Kind::Int,
        Some("10485760"),
        &[Synonym::same("log.index.size.max.bytes")],
    )
    .at_least(4)
    .effect(OWN_STORAGE)
    .doc("Size of the index of a segment."),
    Key::topic(
        "segment.jitter.ms",
        Kind::Long,
        Some("0"),
        &[
            Synonym::same("log.roll.jitter.ms"),
            Synonym::times("log.roll.jitter.hours", 3_600_000),
        ],
    )
    .at_least(0)
    .doc("How much `segment.ms` varies, so that segments do not all close at once."),
    Key::topic(
        "segment.ms",
        Kind::Long,
        Some("604800000"),
        &[
            Synonym::same("log.roll.ms"),
            Synonym::times("log.roll.hours", 3_600_000),
        ],
    )
    .at_least(1)
    .doc("Age after which a new segment begins."),
    Key::topic(
        "unclean.leader.election.enable",
        Kind::Boolean,
        Some("false"),
        &[Synonym::same("unclean.leader.election.enable")],
    )
    .doc("Whether a replica outside the in-sync set may lead when no other is left."),
];
