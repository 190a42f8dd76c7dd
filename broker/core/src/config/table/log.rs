//! Topics and their logs, as the broker sets them for topics that say nothing.

use super::super::key::{Check, Effect, Key, Kind, Synonym};
use super::replication::DYNAMIC;

const OWN_STORAGE: Effect =
    Effect::Without("the log is stored in another way than Kafka's: see docs/format.md");
const OWN_THREADS: Effect = Effect::Without("a shard is one thread: use strandline.shards");
const OTHERS_GO_ON: Effect =
    Effect::Without("a failed directory stops its shards alone, and the node goes on");

pub(super) const KEYS: &[Key] = &[
    Key::broker("auto.create.topics.enable", Kind::Boolean, Some("true"))
        .doc("Whether a topic that a client asks for, and allows to be created, is created."),
    Key::broker("compression.gzip.level", Kind::Int, Some("-1"))
        .cluster_wide()
        .check(Check::BetweenOr(1, 9, -1))
        .doc("The level at which batches are recompressed to gzip."),
    Key::broker("compression.lz4.level", Kind::Int, Some("9"))
        .cluster_wide()
        .check(Check::Between(1, 17))
        .effect(Effect::Partly("the encoder has one level"))
        .doc("The level at which batches are recompressed to lz4."),
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
        .doc("The codec that batches are stored in: `producer` keeps what the producer chose."),
    Key::broker("compression.zstd.level", Kind::Int, Some("3"))
        .cluster_wide()
        .check(Check::Between(-131_072, 22))
        .doc("The level at which batches are recompressed to zstd."),
    Key::broker("default.replication.factor", Kind::Int, Some("1"))
        .doc("How many replicas a new topic has if the request says -1, or if it is created by itself. 3 by default where controller.quorum.voters names three or more."),
    Key::broker("delete.topic.enable", Kind::Boolean, Some("true")).doc("Whether topics can be deleted."),
    Key::broker("log.cleaner.backoff.ms", Kind::Long, Some("15000"))
        .cluster_wide()
        .at_least(0)
            .doc("How long the cleaner sleeps when nothing is to be cleaned."),
    Key::broker("log.cleaner.dedupe.buffer.size", Kind::Long, Some("134217728"))
        .cluster_wide()
        .at_least(1 << 20)
            .doc(
            "Memory in which the cleaners keep keys, of all shards together. Of a shard's memory at most a quarter is taken; what \
             has no place is cleaned in several rounds.",
        ),
    Key::broker("log.cleaner.delete.retention.ms", Kind::Long, Some("86400000"))
        .cluster_wide()
        .at_least(0)
            .doc("The default of a topic's `delete.retention.ms`."),
    Key::broker("log.cleaner.enable", Kind::Boolean, Some("true"))
            .doc("Whether compacted topics are cleaned."),
    Key::broker("log.cleaner.io.buffer.load.factor", Kind::Double, Some("0.9"))
        .cluster_wide()
        .check(Check::Fraction(0.01, 1.0))
            .doc("How full the cleaner's memory of keys may become."),
    Key::broker("log.cleaner.io.buffer.size", Kind::Int, Some("524288"))
        .cluster_wide()
        .at_least(0)
            .effect(Effect::Without("a cleaner reads and writes 1 MiB at a time"))
        .doc("Memory in which the cleaner reads and writes."),
    Key::broker(
        "log.cleaner.io.max.bytes.per.second",
        Kind::Double,
        Some("1.7976931348623157E308"),
    )
    .cluster_wide()
    .at_least(1)
    .doc("The most that a shard's cleaner reads and writes."),
    Key::broker(
        "log.cleaner.max.compaction.lag.ms",
        Kind::Long,
        Some("9223372036854775807"),
    )
    .cluster_wide()
    .at_least(1)
    .doc("The default of a topic's `max.compaction.lag.ms`."),
    Key::broker("log.cleaner.min.cleanable.ratio", Kind::Double, Some("0.5"))
        .cluster_wide()
        .check(Check::Fraction(0.0, 1.0))
            .doc("The default of a topic's `min.cleanable.dirty.ratio`."),
    Key::broker("log.cleaner.min.compaction.lag.ms", Kind::Long, Some("0"))
        .cluster_wide()
        .at_least(0)
            .doc("The default of a topic's `min.compaction.lag.ms`."),
    Key::broker("log.cleaner.threads", Kind::Int, Some("1"))
        .cluster_wide()
        .at_least(0)
        .effect(OWN_THREADS)
        .doc("Threads of the cleaner."),
    Key::broker("log.cleanup.policy", Kind::List, Some("delete"))
        .cluster_wide()
        .check(Check::OneOf(&["compact", "delete"]))
        .doc("The default of a topic's `cleanup.policy`."),
    Key::broker("log.dir", Kind::List, Some("./data")).doc("Where the data lives; `log.dirs` wins."),
    Key::broker("log.dir.failure.timeout.ms", Kind::Long, Some("30000"))
        .at_least(1)
        .effect(OTHERS_GO_ON)
        .doc("How long a failed directory may stay unreported before the node stops."),
    Key::broker("log.dirs", Kind::List, None)
        .synonyms(&[Synonym::same("log.dirs"), Synonym::same("log.dir")])
        .doc(
            "Where the data lives, one directory a disk. Shard s lives in entry s modulo their number; \
             the list is recorded when the node is formatted.",
        ),
    Key::broker("log.flush.interval.messages", Kind::Long, Some("1"))
        .cluster_wide()
        .at_least(1)
        .effect(Effect::Partly(
            "1 makes topics durable: nothing is acknowledged before its flush; any other value \
                 makes them relaxed",
        ))
        .doc(
            "The default of a topic's `flush.messages`. Kafka's own default never flushes; here it is \
             1.",
        ),
    Key::broker("log.flush.interval.ms", Kind::Long, None)
        .cluster_wide()
        .synonyms(&[
            Synonym::same("log.flush.interval.ms"),
            Synonym::same("log.flush.scheduler.interval.ms"),
        ])
        .effect(Effect::Without(
            "a relaxed topic is flushed after a second at the latest",
        ))
        .doc("The default of a topic's `flush.ms`."),
    Key::broker(
        "log.flush.offset.checkpoint.interval.ms",
        Kind::Int,
        Some("60000"),
    )
    .at_least(0)
    .effect(OWN_STORAGE)
    .doc("How often recovery points are written."),
    Key::broker(
        "log.flush.scheduler.interval.ms",
        Kind::Long,
        Some("9223372036854775807"),
    )
    .effect(OWN_STORAGE)
    .doc("How often it is looked whether logs are to be flushed."),
    Key::broker(
        "log.flush.start.offset.checkpoint.interval.ms",
        Kind::Int,
        Some("60000"),
    )
    .at_least(0)
    .effect(OWN_STORAGE)
    .doc("How often log start offsets are written."),
    Key::broker("log.index.interval.bytes", Kind::Int, Some("4096"))
        .cluster_wide()
        .at_least(0)
        .doc("The default of a topic's `index.interval.bytes`."),
    Key::broker("log.index.size.max.bytes", Kind::Int, Some("10485760"))
        .cluster_wide()
        .at_least(4)
        .effect(OWN_STORAGE)
        .doc("The default of a topic's `segment.index.bytes`."),
    Key::broker("log.initial.task.delay.ms", Kind::Long, Some("30000"))
        .at_least(0)
        .internal()
        .doc("How long after the start retention begins."),
    Key::broker("log.message.timestamp.after.max.ms", Kind::Long, Some("3600000"))
        .cluster_wide()
        .at_least(0)
        .doc("The default of a topic's `message.timestamp.after.max.ms`."),
    Key::broker(
        "log.message.timestamp.before.max.ms",
        Kind::Long,
        Some("9223372036854775807"),
    )
    .cluster_wide()
    .at_least(0)
    .doc("The default of a topic's `message.timestamp.before.max.ms`."),
    Key::broker("log.message.timestamp.type", Kind::String, Some("CreateTime"))
        .cluster_wide()
        .check(Check::OneOf(&["CreateTime", "LogAppendTime"]))
        .doc("The default of a topic's `message.timestamp.type`."),
    Key::broker("log.preallocate", Kind::Boolean, Some("false"))
        .cluster_wide()
        .effect(OWN_STORAGE)
        .doc("The default of a topic's `preallocate`."),
    Key::broker("log.retention.bytes", Kind::Long, Some("-1"))
        .cluster_wide()
        .doc("The default of a topic's `retention.bytes`."),
    Key::broker("log.retention.check.interval.ms", Kind::Long, Some("300000"))
        .at_least(1)
        .doc("How often it is looked what is to be deleted."),
    Key::broker("log.retention.hours", Kind::Int, Some("168")).doc("As `log.retention.ms`, in hours."),
    Key::broker("log.retention.minutes", Kind::Int, None)
        .doc("As `log.retention.ms`, in minutes; it wins over hours."),
    Key::broker("log.retention.ms", Kind::Long, None)
        .cluster_wide()
        .synonyms(&[
            Synonym::same("log.retention.ms"),
            Synonym::times("log.retention.minutes", 60_000),
            Synonym::times("log.retention.hours", 3_600_000),
        ])
        .doc("The default of a topic's `retention.ms`; it wins over minutes and hours."),
    Key::broker("log.roll.hours", Kind::Int, Some("168"))
        .at_least(1)
        .doc("As `log.roll.ms`, in hours."),
    Key::broker("log.roll.jitter.hours", Kind::Int, Some("0"))
        .at_least(0)
        .doc("As `log.roll.jitter.ms`, in hours."),
    Key::broker("log.roll.jitter.ms", Kind::Long, None)
        .cluster_wide()
        .synonyms(&[
            Synonym::same("log.roll.jitter.ms"),
            Synonym::times("log.roll.jitter.hours", 3_600_000),
        ])
        .doc("The default of a topic's `segment.jitter.ms`."),
    Key::broker("log.roll.ms", Kind::Long, None)
        .cluster_wide()
        .synonyms(&[
            Synonym::same("log.roll.ms"),
            Synonym::times("log.roll.hours", 3_600_000),
        ])
        .doc("The default of a topic's `segment.ms`; it wins over hours."),
    Key::broker("log.segment.bytes", Kind::Int, Some("1073741824"))
        .cluster_wide()
        .at_least(1_048_576)
        .doc("The default of a topic's `segment.bytes`."),
    Key::broker("log.segment.delete.delay.ms", Kind::Long, Some("60000"))
        .cluster_wide()
        .at_least(0)
        .doc("The default of a topic's `file.delete.delay.ms`."),
    Key::broker("message.max.bytes", Kind::Int, Some("1048588"))
        .cluster_wide()
        .at_least(0)
        .doc("The default of a topic's `max.message.bytes`."),
    Key::broker("min.insync.replicas", Kind::Int, Some("1"))
        .cluster_wide()
        .at_least(1)
        .effect(DYNAMIC)
        .doc("The default of a topic's `min.insync.replicas`."),
    Key::broker("num.partitions", Kind::Int, Some("1"))
        .at_least(1)
        .doc("How many partitions a new topic has if the request says -1, or if it is created by itself."),
    Key::broker("num.recovery.threads.per.data.dir", Kind::Int, Some("2"))
        .cluster_wide()
        .at_least(1)
        .effect(OWN_THREADS)
        .doc("Threads that recover logs at start."),
];
