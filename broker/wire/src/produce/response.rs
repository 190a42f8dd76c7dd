//! The Produce response.

use std::borrow::Cow;

use bytes::BytesMut;

use super::{LeaderIdAndEpoch, NodeEndpoint, TopicRef};
use crate::batch::RecordError;
use crate::{ErrorCode, Grouped, WireError};

/// A Produce response.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ProduceResponse<'a> {
    /// The partitions by topic.
    pub topics: Grouped<TopicRef<'a>, ProducePartitionResponse<'a>>,
    /// How long the client is muted.
    pub throttle_time_ms: i32,
    /// Where the leaders named in the partitions listen (v10+).
    pub node_endpoints: Vec<NodeEndpoint<'a>>,
}

/// One partition's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProducePartitionResponse<'a> {
    /// The partition's number.
    pub index: i32,
    /// The error, or none.
    pub error_code: ErrorCode,
    /// The offset of the first record, -1 on an error.
    pub base_offset: i64,
    /// The append time of a topic with LogAppendTime, else -1 (v2+).
    pub log_append_time_ms: i64,
    /// The log's first offset, -1 when unknown (v5+).
    pub log_start_offset: i64,
    /// The records that caused the batch to be refused (v8+).
    pub record_errors: Vec<RecordError>,
    /// Why the batch was refused (v8+).
    pub error_message: Option<Cow<'a, str>>,
    /// The new leader (v10+).
    pub current_leader: Option<LeaderIdAndEpoch>,
}

impl ProducePartitionResponse<'_> {
    /// An answer with an error code and nothing else.
    pub fn error(index: i32, error_code: ErrorCode) -> Self {
        ProducePartitionResponse {
            index,
            error_code,
            base_offset: -1,
            log_append_time_ms: -1,
            log_start_offset: -1,
            record_errors: Vec::new(),
            error_message: None,
            current_leader: None,
        }
    }
}

/// Appends a response's body, versions 0 to 13. The frame's size and header are the caller's: [`crate::frame`].
pub fn encode_response(
    out: &mut BytesMut,
    version: i16,
    response: &ProduceResponse<'_>,
) -> Result<(), WireError> {
    let _ = (out, version, response);
    todo!()
}

/// Decodes a response's body, versions 3 to 13.
pub fn decode_response(version: i16, body: &[u8]) -> Result<ProduceResponse<'_>, WireError> {
    let _ = (version, body);
    todo!()
}
