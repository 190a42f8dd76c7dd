//! The table: every broker and topic key of Apache Kafka 4.2, and our own.

mod groups;
mod log;
mod network;
mod node;
mod replication;
mod sasl;
mod security;
mod share;
mod strandline;
mod tiered;
mod topic;
mod transactions;

use std::collections::HashMap;
use std::sync::LazyLock;

use super::key::{Key, Scope};

static PARTS: [&[Key]; 12] = [
    node::KEYS,
    network::KEYS,
    log::KEYS,
    topic::KEYS,
    strandline::KEYS,
    replication::KEYS,
    groups::KEYS,
    share::KEYS,
    transactions::KEYS,
    security::KEYS,
    sasl::KEYS,
    tiered::KEYS,
];

static BY_NAME: LazyLock<HashMap<(Scope, &'static str), &'static Key>> =
    LazyLock::new(|| keys().map(|key| ((key.scope, key.name), key)).collect());

/// Every key, by theme.
pub fn keys() -> impl Iterator<Item = &'static Key> {
    PARTS.iter().flat_map(|part| part.iter())
}

/// A key by its name.
pub fn lookup(scope: Scope, name: &str) -> Option<&'static Key> {
    BY_NAME.get(&(scope, name)).copied()
}
