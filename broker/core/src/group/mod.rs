//! Consumer groups: the state machines of the group coordinator.
//!
//! A group is one machine; the coordinator of a shard owns the machines of the groups whose offsets partitions that
//! shard leads, feeds them requests and the passing of time, and does for them what they cannot: answering, appending
//! their records, telling them what became durable.
//!
//! - [`classic`]: the protocol of JoinGroup, SyncGroup, Heartbeat and LeaveGroup.
//! - [`consumer`]: the protocol of ConsumerGroupHeartbeat (KIP-848).
//! - [`offsets`]: what was committed, and the records that keep groups and offsets.

pub mod classic;
pub mod consumer;
pub mod offsets;
