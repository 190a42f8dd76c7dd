//! The Produce request.

use bytes::BytesMut;

use super::TopicRef;
use crate::{Grouped, WireError};

/// A Produce request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProduceRequest<'a> {
    /// The transactional producer's id.
    pub transactional_id: Option<&'a str>,
    /// 0 no answer, 1 leader, -1 all in-sync replicas; anything else is for the broker to refuse.
    pub acks: i16,
    /// How long to wait for the replicas.
    pub timeout_ms: i32,
    /// The partitions by topic, in request order.
    pub topics: Grouped<TopicRef<'a>, ProducePartition<'a>>,
}

/// One partition's record set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProducePartition<'a> {
    /// The partition's number.
    pub index: i32,
    /// The record set as sent; null is for the broker to refuse.
    pub records: Option<&'a [u8]>,
}

/// Decodes a request's body, versions 0 to 13.
pub fn decode_request(version: i16, body: &[u8]) -> Result<ProduceRequest<'_>, WireError> {
    let _ = (version, body);
    todo!()
}

/// Appends a request's body, versions 3 to 13.
pub fn encode_request(
    out: &mut BytesMut,
    version: i16,
    request: &ProduceRequest<'_>,
) -> Result<(), WireError> {
    let _ = (out, version, request);
    todo!()
}
