//! The node's HTTP endpoint, on the control thread: `/metrics`, `/health/live`, `/health/ready`.
//!
//! A scrape asks every shard for a copy of its counters; nothing here touches what a shard owns.

mod groups;
mod metrics;
mod replicas;
mod server;

pub use server::{HttpError, Server};
