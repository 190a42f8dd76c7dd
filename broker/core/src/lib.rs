//! The broker's pure state machines: cluster metadata, placement, configuration, replicas, fetch sessions,
//! consumer groups.
//!
//! Invariants: `step(event, now) -> effects`; the same input gives the same output on every machine. Nothing here
//! reads a clock, draws a random number, does I/O, blocks or spawns: times, ids and random values are in the input.

pub mod config;
pub mod controller;
pub mod fetch_session;
pub mod group;
pub mod link;
pub mod metadata;
pub mod placement;
pub mod replica;
pub mod sessions;
