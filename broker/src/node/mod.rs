//! A node: its data directories, its shards, and the order in which they start and stop.

pub mod connections;
pub mod context;
pub mod directories;
mod file_system;
pub mod report;
pub mod slot;
