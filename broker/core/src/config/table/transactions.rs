//! Transactions and idempotent producers.

use super::super::key::{Key, Kind};

pub(super) const KEYS: &[Key] = &[
    Key::broker(
        "add.partitions.to.txn.retry.backoff.max.ms",
        Kind::Int,
        Some("100"),
    )
    .at_least(0)
    .doc(""),
    Key::broker("add.partitions.to.txn.retry.backoff.ms", Kind::Int, Some("20"))
        .at_least(1)
        .doc(""),
    Key::broker(
        "producer.id.expiration.check.interval.ms",
        Kind::Int,
        Some("600000"),
    )
    .at_least(1)
    .internal()
    .doc(""),
    Key::broker("producer.id.expiration.ms", Kind::Int, Some("86400000"))
        .cluster_wide()
        .at_least(1)
        .doc(""),
    Key::broker(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        Kind::Int,
        Some("10000"),
    )
    .at_least(1)
    .doc(""),
    Key::broker("transaction.max.timeout.ms", Kind::Int, Some("900000"))
        .at_least(1)
        .doc(""),
    Key::broker(
        "transaction.partition.verification.enable",
        Kind::Boolean,
        Some("true"),
    )
    .cluster_wide()
    .doc(""),
    Key::broker(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        Kind::Int,
        Some("3600000"),
    )
    .at_least(1)
    .doc(""),
    Key::broker(
        "transaction.state.log.load.buffer.size",
        Kind::Int,
        Some("5242880"),
    )
    .at_least(1)
    .doc(""),
    Key::broker("transaction.state.log.min.isr", Kind::Int, Some("2"))
        .at_least(1)
        .doc(""),
    Key::broker("transaction.state.log.num.partitions", Kind::Int, Some("50"))
        .at_least(1)
        .doc(""),
    Key::broker("transaction.state.log.replication.factor", Kind::Short, Some("3"))
        .at_least(1)
        .doc(""),
    Key::broker(
        "transaction.state.log.segment.bytes",
        Kind::Int,
        Some("104857600"),
    )
    .at_least(1)
    .doc(""),
    Key::broker(
        "transaction.two.phase.commit.enable",
        Kind::Boolean,
        Some("false"),
    )
    .doc(""),
    Key::broker("transactional.id.expiration.ms", Kind::Int, Some("604800000"))
        .at_least(1)
        .doc(""),
];
