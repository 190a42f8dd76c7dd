//! What the integration tests share: a broker as a child process, a client on `std::net` that speaks through the codec of
//! the `kafka-protocol` crate, and record batches written and read by hand. None of it uses the code under test.

#![allow(dead_code, missing_docs, unreachable_pub, unused_imports)]
#![allow(clippy::unwrap_used, clippy::expect_used)]

pub mod batch;
pub mod broker;
pub mod client;
pub mod consumer;
pub mod group;
pub mod http;
pub mod nodes;
pub mod stops;
pub mod topic;

pub use batch::{Batch, Codec, Record};
pub use broker::Broker;
pub use client::Client;
pub use topic::Partition;
