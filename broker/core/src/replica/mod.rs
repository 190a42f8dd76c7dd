//! A partition's replicas: what their leader may acknowledge and let be read, and how followers follow it.
//!
//! Two state machines, [`LeaderReplica`] and [`FollowerReplica`], and the [messages](message) between them. Pure: the time
//! and what a log knows are in the input. Kafka's ISR protocol with KRaft's rules, except that *ends are flushed ends*
//! (of a relaxed topic, written ones), the leader's own included, and that a follower checks the chain of frames.

mod ack_queue;
mod assignment;
mod follower;
#[cfg(test)]
mod follower_tests;
mod leader;
#[cfg(test)]
mod leader_tests;
pub mod message;
#[cfg(test)]
mod model;
mod progress;
mod proposal;
mod sufficiency;

pub use ack_queue::AckQueue;
pub use assignment::{AssignedReplica, Assignment};
pub use follower::{FollowerEffect, FollowerEvent, FollowerReplica, FollowerState, LogPosition};
pub use leader::{Acknowledgement, Acks, LeaderEffects, LeaderEvent, LeaderLog, LeaderReplica};
pub use proposal::{AlterPartition, AlteredPartition};
pub use sufficiency::suffices;
