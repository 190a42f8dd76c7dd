//! Produce, versions 3 to 13, both directions. The server's decoder also reads 0 to 2, so that the broker can refuse them
//! in their own shape.
//!
//! Decoded messages borrow from the frame: record sets and names are slices of it.

mod request;
mod response;

use uuid::Uuid;

pub use request::{ProducePartition, ProduceRequest, decode_request, encode_request};
pub use response::{ProducePartitionResponse, ProduceResponse, decode_response, encode_response};

/// The first version that names topics by id.
pub const FIRST_TOPIC_ID_VERSION: i16 = 13;
/// The first version that may carry zstd.
pub const FIRST_ZSTD_VERSION: i16 = 7;
/// The first version that is served; older ones are decoded only to be refused.
pub const FIRST_SERVED_VERSION: i16 = 3;

/// How a request names a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TopicRef<'a> {
    /// By name, before topic ids.
    Name(&'a str),
    /// By id.
    Id(Uuid),
}

/// The leader an answer points to when the broker asked is not it (KIP-951).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaderIdAndEpoch {
    /// The leader's broker id, -1 when unknown.
    pub leader_id: i32,
    /// Its epoch, -1 when unknown.
    pub leader_epoch: i32,
}

/// Where a broker named by [`LeaderIdAndEpoch`] listens (KIP-951).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeEndpoint<'a> {
    /// The broker id.
    pub node_id: i32,
    /// Its host.
    pub host: &'a str,
    /// Its port.
    pub port: i32,
    /// Its rack.
    pub rack: Option<&'a str>,
}
