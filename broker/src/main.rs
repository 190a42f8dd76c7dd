//! Strandline: a Kafka-compatible log broker, one shard a core.
fn main() {}
