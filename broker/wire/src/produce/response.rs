//! The Produce response.

use std::borrow::Cow;

use bytes::{BufMut, BytesMut};

use super::{FIRST_LEADER_VERSION, FIRST_SERVED_VERSION, FIRST_TOPIC_ID_VERSION, KEY, check_version};
use crate::batch::RecordError;
use crate::leader::{LeaderIdAndEpoch, NodeEndpoint, read_node_endpoints, write_node_endpoints};
use crate::primitives::{Reader, WriteExt};
use crate::topic_ref::TopicRef;
use crate::{ErrorCode, Grouped, WireError, is_flexible};

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

/// The bytes of the smallest of each element: what an element count is checked against.
const TOPIC_MIN: usize = 2;
const PARTITION_MIN: usize = 22;
const RECORD_ERROR_MIN: usize = 5;

const CURRENT_LEADER_TAG: u32 = 0;
const NODE_ENDPOINTS_TAG: u32 = 0;

/// Appends a response's body, versions 0 to 13. The frame's size and header are the caller's: [`crate::frame`].
pub fn encode_response(
    out: &mut BytesMut,
    version: i16,
    response: &ProduceResponse<'_>,
) -> Result<(), WireError> {
    check_version(version, 0)?;
    let flexible = is_flexible(KEY, version);
    out.put_length(flexible, Some(response.topics.group_count()));
    for (topic, partitions) in response.topics.iter() {
        topic.write(out, version >= FIRST_TOPIC_ID_VERSION, flexible)?;
        out.put_length(flexible, Some(partitions.len()));
        for partition in partitions {
            encode_partition(out, version, flexible, partition);
        }
        out.put_no_tagged_fields(flexible);
    }
    if version >= 1 {
        out.put_i32(response.throttle_time_ms);
    }
    if flexible {
        let endpoints = if version >= FIRST_LEADER_VERSION {
            &response.node_endpoints[..]
        } else {
            &[]
        };
        out.put_unsigned_varint(u32::from(!endpoints.is_empty()));
        if !endpoints.is_empty() {
            write_node_endpoints(out, NODE_ENDPOINTS_TAG, endpoints);
        }
    }
    Ok(())
}

fn encode_partition(
    out: &mut BytesMut,
    version: i16,
    flexible: bool,
    partition: &ProducePartitionResponse<'_>,
) {
    out.put_i32(partition.index);
    out.put_i16(partition.error_code.code());
    out.put_i64(partition.base_offset);
    if version >= 2 {
        out.put_i64(partition.log_append_time_ms);
    }
    if version >= 5 {
        out.put_i64(partition.log_start_offset);
    }
    if version >= 8 {
        out.put_length(flexible, Some(partition.record_errors.len()));
        for error in &partition.record_errors {
            out.put_i32(error.batch_index);
            out.put_nullable_string(flexible, error.message.as_deref());
            out.put_no_tagged_fields(flexible);
        }
        out.put_nullable_string(flexible, partition.error_message.as_deref());
    }
    if flexible {
        let leader = partition
            .current_leader
            .filter(|_| version >= FIRST_LEADER_VERSION);
        out.put_unsigned_varint(u32::from(leader.is_some()));
        if let Some(leader) = leader {
            leader.write_tagged(out, CURRENT_LEADER_TAG);
        }
    }
}

/// Decodes a response's body, versions 3 to 13.
pub fn decode_response(version: i16, body: &[u8]) -> Result<ProduceResponse<'_>, WireError> {
    check_version(version, FIRST_SERVED_VERSION)?;
    let flexible = is_flexible(KEY, version);
    let mut reader = Reader::new(body);
    let mut response = ProduceResponse::default();
    for _ in 0..reader.array(flexible, TOPIC_MIN, "topics")? {
        response.topics.begin(TopicRef::read(
            &mut reader,
            version >= FIRST_TOPIC_ID_VERSION,
            flexible,
        )?);
        for _ in 0..reader.array(flexible, PARTITION_MIN, "partitions")? {
            response
                .topics
                .push(decode_partition(&mut reader, version, flexible)?);
        }
        reader.skip_tagged_fields(flexible)?;
    }
    response.throttle_time_ms = reader.i32("throttle time")?;
    reader.tagged_fields(flexible, |tag, mut field| {
        if tag == NODE_ENDPOINTS_TAG && version >= FIRST_LEADER_VERSION {
            response.node_endpoints = read_node_endpoints(&mut field)?;
        }
        Ok(())
    })?;
    Ok(response)
}

fn decode_partition<'a>(
    reader: &mut Reader<'a>,
    version: i16,
    flexible: bool,
) -> Result<ProducePartitionResponse<'a>, WireError> {
    let index = reader.i32("partition index")?;
    let error_code = ErrorCode::from_code(reader.i16("error code")?);
    let mut partition = ProducePartitionResponse::error(index, error_code);
    partition.base_offset = reader.i64("base offset")?;
    partition.log_append_time_ms = reader.i64("log append time")?;
    if version >= 5 {
        partition.log_start_offset = reader.i64("log start offset")?;
    }
    if version >= 8 {
        for _ in 0..reader.array(flexible, RECORD_ERROR_MIN, "record errors")? {
            let batch_index = reader.i32("batch index")?;
            let message = reader
                .nullable_string(flexible, "record error message")?
                .map(str::to_owned);
            reader.skip_tagged_fields(flexible)?;
            partition.record_errors.push(RecordError { batch_index, message });
        }
        partition.error_message = reader
            .nullable_string(flexible, "error message")?
            .map(Cow::Borrowed);
    }
    reader.tagged_fields(flexible, |tag, mut field| {
        if tag == CURRENT_LEADER_TAG && version >= FIRST_LEADER_VERSION {
            partition.current_leader = Some(LeaderIdAndEpoch::read(&mut field)?);
        }
        Ok(())
    })?;
    Ok(partition)
}
