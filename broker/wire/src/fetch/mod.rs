//! Fetch, versions 4 to 18, both directions.
//!
//! Decoded messages borrow from the frame. The server's response is written in pieces ([`FetchResponseEncoder`]), so that
//! record sets go from the cache to the socket uncopied.

mod encoder;
mod request;
mod response;

use crate::{ApiKey, WireError};

pub use crate::leader::{LeaderIdAndEpoch, NodeEndpoint};
pub use crate::topic_ref::TopicRef;
pub use encoder::{FetchFrame, FetchResponseEncoder, Piece};
pub use request::{FetchPartition, FetchRequest, decode_request, encode_request};
pub use response::{
    AbortedTransaction, EpochEndOffset, FetchPartitionHeader, FetchResponse, FetchResponseHeader,
    FetchedPartition, SnapshotId, decode_response,
};

/// The first version that names topics by id.
pub const FIRST_TOPIC_ID_VERSION: i16 = 13;
/// The first version with fetch sessions (KIP-227).
pub const FIRST_SESSION_VERSION: i16 = 7;
/// The first version whose answer names the endpoints of new leaders (KIP-951).
pub const FIRST_NODE_ENDPOINTS_VERSION: i16 = 16;
/// The session epoch of a request outside sessions, and of one that closes its session.
pub const FINAL_SESSION_EPOCH: i32 = -1;
/// The session epoch of a request that asks for a new session.
pub const INITIAL_SESSION_EPOCH: i32 = 0;
/// The replica id of a consumer.
pub const CONSUMER_REPLICA_ID: i32 = -1;

const KEY: i16 = ApiKey::Fetch.key();

const DIVERGING_EPOCH_TAG: u32 = 0;
const CURRENT_LEADER_TAG: u32 = 1;
const SNAPSHOT_ID_TAG: u32 = 2;
const NODE_ENDPOINTS_TAG: u32 = 0;

fn check_version(version: i16) -> Result<(), WireError> {
    if ApiKey::Fetch.is_supported(version) {
        return Ok(());
    }
    Err(WireError::UnsupportedVersion {
        api_key: KEY,
        version,
    })
}
