//! The quorum of several nodes: openraft, on the control thread, over the seams of this program.
//!
//! - [`types`]: what openraft is told of our commands, voters and answers.
//! - [`runtime`]: its spawn, clock, timers and random numbers are those of [`strandline_runtime::Runtime`].
//! - [`log`] and [`machine`]: log, vote and snapshots in `quorum.redb`; a committed entry goes through the same apply as
//!   on a node that is alone.
//! - [`wire`], [`peer`], [`network`], [`server`]: what controllers ask of each other, over TCP.
//! - [`member`]: one node of the quorum; how it finds its place, and what the leader does besides. [`membership`]: who votes.
//! - [`quorum`]: all of it as the control loop's [`Quorum`](super::quorum::Quorum): proposals go to the leader.
//!
//! openraft's `loosen-follower-log-revert` stays off: a voter that lost its log is another voter, by its directory's id.

// openraft's errors are what they are, and none lies on a path that is in a hurry.
#![allow(clippy::result_large_err)]

#[cfg(test)]
mod cluster_tests;
pub mod log;
pub mod machine;
pub mod member;
pub mod membership;
pub mod network;
pub mod peer;
pub mod quorum;
pub mod runtime;
pub mod server;
#[cfg(test)]
mod suite_tests;
pub mod types;
pub mod wire;
