//! The Fetch request.

use bytes::BytesMut;
use uuid::Uuid;

use super::TopicRef;
use crate::{Grouped, WireError};

/// A Fetch request. Fields that a version lacks decode to the value they have by default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchRequest<'a> {
    /// The cluster the sender believes in (v12+).
    pub cluster_id: Option<&'a str>,
    /// The follower's broker id, -1 for a consumer.
    pub replica_id: i32,
    /// The follower's broker epoch, -1 for a consumer (v15+).
    pub replica_epoch: i64,
    /// How long to wait for `min_bytes`.
    pub max_wait_ms: i32,
    /// Answer when this many bytes are there.
    pub min_bytes: i32,
    /// The limit over all partitions; the first non-empty one may pass it.
    pub max_bytes: i32,
    /// 0 read uncommitted, 1 read committed.
    pub isolation_level: i8,
    /// The fetch session (v7+), 0 for none.
    pub session_id: i32,
    /// The session epoch (v7+).
    pub session_epoch: i32,
    /// The partitions by topic, in request order.
    pub topics: Grouped<TopicRef<'a>, FetchPartition>,
    /// The partitions to leave the session (v7+).
    pub forgotten_topics: Grouped<TopicRef<'a>, i32>,
    /// The consumer's rack (v11+), empty for none.
    pub rack_id: &'a str,
}

impl Default for FetchRequest<'_> {
    fn default() -> Self {
        FetchRequest {
            cluster_id: None,
            replica_id: -1,
            replica_epoch: -1,
            max_wait_ms: 0,
            min_bytes: 0,
            max_bytes: i32::MAX,
            isolation_level: 0,
            session_id: 0,
            session_epoch: -1,
            topics: Grouped::new(),
            forgotten_topics: Grouped::new(),
            rack_id: "",
        }
    }
}

/// One partition to fetch from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FetchPartition {
    /// The partition's number.
    pub index: i32,
    /// The leader epoch the sender believes in (v9+), -1 for none.
    pub current_leader_epoch: i32,
    /// The offset to read from.
    pub fetch_offset: i64,
    /// The epoch of the last record fetched (v12+), -1 for none.
    pub last_fetched_epoch: i32,
    /// The follower's log start (v5+), -1 for a consumer.
    pub log_start_offset: i64,
    /// The limit for this partition.
    pub max_bytes: i32,
    /// The follower's directory (v17+), nil for none.
    pub replica_directory_id: Uuid,
    /// The high watermark the follower knows (v18+, KIP-1166), `i64::MAX` for none.
    pub high_watermark: i64,
}

impl Default for FetchPartition {
    fn default() -> Self {
        FetchPartition {
            index: 0,
            current_leader_epoch: -1,
            fetch_offset: 0,
            last_fetched_epoch: -1,
            log_start_offset: -1,
            max_bytes: 0,
            replica_directory_id: Uuid::nil(),
            high_watermark: i64::MAX,
        }
    }
}

/// Decodes a request's body, versions 4 to 18.
pub fn decode_request(version: i16, body: &[u8]) -> Result<FetchRequest<'_>, WireError> {
    let _ = (version, body);
    todo!()
}

/// Appends a request's body, versions 4 to 18.
pub fn encode_request(out: &mut BytesMut, version: i16, request: &FetchRequest<'_>) -> Result<(), WireError> {
    let _ = (out, version, request);
    todo!()
}
