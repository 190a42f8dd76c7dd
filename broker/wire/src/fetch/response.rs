//! The Fetch response: its parts, and the client's decoder.

use super::{LeaderIdAndEpoch, NodeEndpoint, TopicRef};
use crate::{ErrorCode, Grouped, WireError};

/// What stands once in a response, before the topics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct FetchResponseHeader {
    /// How long the client is muted.
    pub throttle_time_ms: i32,
    /// The error of the whole request (v7+).
    pub error_code: ErrorCode,
    /// The fetch session (v7+), 0 for none.
    pub session_id: i32,
}

/// Where a follower's log diverges (KIP-595).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpochEndOffset {
    /// The largest epoch at or below the follower's last.
    pub epoch: i32,
    /// Its end offset.
    pub end_offset: i64,
}

/// The snapshot to fetch instead (KIP-630).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotId {
    /// Its end offset.
    pub end_offset: i64,
    /// Its epoch.
    pub epoch: i32,
}

/// A transaction that a read-committed consumer must skip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AbortedTransaction {
    /// The transaction's producer.
    pub producer_id: i64,
    /// Its first offset.
    pub first_offset: i64,
}

/// One partition's answer, but for its records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchPartitionHeader {
    /// The partition's number.
    pub index: i32,
    /// The error, or none.
    pub error_code: ErrorCode,
    /// The high watermark, -1 on an error.
    pub high_watermark: i64,
    /// The last stable offset, -1 on an error.
    pub last_stable_offset: i64,
    /// The log's first offset (v5+), -1 when unknown.
    pub log_start_offset: i64,
    /// Where the follower's log diverges (v12+).
    pub diverging_epoch: Option<EpochEndOffset>,
    /// The new leader (v12+).
    pub current_leader: Option<LeaderIdAndEpoch>,
    /// The snapshot to fetch instead (v12+).
    pub snapshot_id: Option<SnapshotId>,
    /// The aborted transactions within the records; null unless the reader reads committed.
    pub aborted_transactions: Option<Vec<AbortedTransaction>>,
    /// The replica to read from instead (v11+), -1 for none.
    pub preferred_read_replica: i32,
}

impl FetchPartitionHeader {
    /// An answer with an error code and nothing else.
    pub fn error(index: i32, error_code: ErrorCode) -> Self {
        FetchPartitionHeader {
            index,
            error_code,
            high_watermark: -1,
            last_stable_offset: -1,
            log_start_offset: -1,
            diverging_epoch: None,
            current_leader: None,
            snapshot_id: None,
            aborted_transactions: None,
            preferred_read_replica: -1,
        }
    }
}

/// A response as a client sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchResponse<'a> {
    /// What stands once.
    pub header: FetchResponseHeader,
    /// The partitions by topic.
    pub topics: Grouped<TopicRef<'a>, FetchedPartition<'a>>,
    /// Where the leaders named in the partitions listen (v16+).
    pub node_endpoints: Vec<NodeEndpoint<'a>>,
}

/// One partition's answer with its records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchedPartition<'a> {
    /// Everything but the records.
    pub header: FetchPartitionHeader,
    /// The record set, for [`crate::batch::batches`].
    pub records: Option<&'a [u8]>,
}

/// Decodes a response's body, versions 4 to 18.
pub fn decode_response(version: i16, body: &[u8]) -> Result<FetchResponse<'_>, WireError> {
    let _ = (version, body);
    todo!()
}
