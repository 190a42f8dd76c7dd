//! The quorum of several nodes: openraft, on the control thread, over the seams of this program.
//!
//! - [`types`]: what openraft is told of our commands, voters and answers.
//! - [`runtime`]: its spawn, clock, timers and random numbers are those of [`strandline_runtime::Runtime`].
//! - [`log`] and [`machine`]: log, vote and snapshots in `quorum.redb`; a committed entry goes through the same apply as
//!   on a node that is alone.
//!
//! openraft's `loosen-follower-log-revert` stays off: a voter that lost its log is another voter, by its directory's id.

// openraft's errors are what they are, and none lies on a path that is in a hurry.
#![allow(clippy::result_large_err)]

pub mod log;
pub mod machine;
pub mod runtime;
#[cfg(test)]
mod suite_tests;
pub mod types;
