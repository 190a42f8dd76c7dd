//! Transactions and idempotent producers.

use super::super::key::{Effect, Key, Kind};

const TRANSACTIONS: Effect = Effect::Without("transactions are not served yet");
const OWN_STORAGE: Effect =
    Effect::Without("the log is stored in another way than Kafka's: see docs/format.md");

pub(super) const KEYS: &[Key] = &[
    Key::broker(
        "add.partitions.to.txn.retry.backoff.max.ms",
        Kind::Int,
        Some("100"),
    )
    .at_least(0)
    .effect(TRANSACTIONS)
    .doc("The longest pause between two tries of adding partitions to a transaction."),
    Key::broker("add.partitions.to.txn.retry.backoff.ms", Kind::Int, Some("20"))
        .at_least(1)
        .effect(TRANSACTIONS)
        .doc("The first pause between two tries of adding partitions to a transaction."),
    Key::broker(
        "producer.id.expiration.check.interval.ms",
        Kind::Int,
        Some("600000"),
    )
    .at_least(1)
    .effect(OWN_STORAGE)
    .internal()
    .doc("How often expired producer ids are looked for."),
    Key::broker("producer.id.expiration.ms", Kind::Int, Some("86400000"))
        .cluster_wide()
        .at_least(1)
        .effect(Effect::Partly("a change takes effect at the next start"))
        .doc("For how long an idle idempotent producer is remembered."),
    Key::broker(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        Kind::Int,
        Some("10000"),
    )
    .at_least(1)
    .effect(TRANSACTIONS)
    .doc("How often transactions that took too long are looked for."),
    Key::broker("transaction.max.timeout.ms", Kind::Int, Some("900000"))
        .at_least(1)
        .effect(TRANSACTIONS)
        .doc("The longest timeout that a transaction may ask for."),
    Key::broker(
        "transaction.partition.verification.enable",
        Kind::Boolean,
        Some("true"),
    )
    .cluster_wide()
    .effect(TRANSACTIONS)
    .doc("Whether a partition checks that a transaction knows of it."),
    Key::broker(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        Kind::Int,
        Some("3600000"),
    )
    .at_least(1)
    .effect(TRANSACTIONS)
    .doc("How often expired transactional ids are removed."),
    Key::broker(
        "transaction.state.log.load.buffer.size",
        Kind::Int,
        Some("5242880"),
    )
    .at_least(1)
    .effect(TRANSACTIONS)
    .doc("How much is read at once when transactions are loaded."),
    Key::broker("transaction.state.log.min.isr", Kind::Int, Some("2"))
        .at_least(1)
        .effect(TRANSACTIONS)
        .doc("In-sync replicas that the transactions topic needs."),
    Key::broker("transaction.state.log.num.partitions", Kind::Int, Some("50"))
        .at_least(1)
        .effect(TRANSACTIONS)
        .doc("Partitions of the transactions topic."),
    Key::broker("transaction.state.log.replication.factor", Kind::Short, Some("3"))
        .at_least(1)
        .effect(TRANSACTIONS)
        .doc("Replicas of the transactions topic."),
    Key::broker(
        "transaction.state.log.segment.bytes",
        Kind::Int,
        Some("104857600"),
    )
    .at_least(1)
    .effect(TRANSACTIONS)
    .doc("Size of a segment of the transactions topic."),
    Key::broker(
        "transaction.two.phase.commit.enable",
        Kind::Boolean,
        Some("false"),
    )
    .effect(TRANSACTIONS)
    .doc("Whether transactions may take part in a two-phase commit."),
    Key::broker("transactional.id.expiration.ms", Kind::Int, Some("604800000"))
        .at_least(1)
        .effect(TRANSACTIONS)
        .doc("For how long an idle transactional id is remembered."),
];
