//! The admin APIs: one file each, one `handle` each, called by the dispatcher of the shard that got the request.
//!
//! Any shard answers any of them: reads come from the newest image, changes go through the control thread. What a
//! request decides without I/O is in plain functions over the image, so that tests need no node.

pub mod alter_configs;
pub mod alter_partition_reassignments;
pub mod context;
pub mod create_partitions;
pub mod create_topics;
pub mod delete_topics;
pub mod describe_cluster;
pub mod describe_configs;
pub mod describe_quorum;
pub mod describe_topic_partitions;
pub mod elect_leaders;
mod entries;
pub mod find_coordinator;
pub mod incremental_alter_configs;
pub mod list_config_resources;
pub mod list_partition_reassignments;
pub mod metadata;
mod new_topics;
mod operations;
mod partitions;
mod raft_voters;
mod resource;
#[cfg(test)]
pub(crate) mod tests;
mod text;
mod topology;
pub mod unregister_broker;

pub use context::AdminContext;
pub(crate) use topology::base64;

pub use raft_voters::{add as add_raft_voter, remove as remove_raft_voter};
