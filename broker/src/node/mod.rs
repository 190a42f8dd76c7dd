//! A node: its data directories, its shards, and the order in which they start and stop.

pub mod assemble;
mod cluster;
pub mod connections;
pub mod context;
pub mod directories;
mod file_system;
pub mod large_blocks;
pub mod limits;
mod operations;
mod panics;
pub mod ports;
mod ready;
pub mod report;
mod shard_folder;
mod signals;
pub mod simulated;
pub mod slot;
mod start;

pub use start::{StartError, run};
