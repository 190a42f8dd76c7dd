//! The log on disk: one journal a shard, one log a partition replica.

pub mod disk;
