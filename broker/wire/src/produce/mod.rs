//! Produce, versions 3 to 13, both directions. The server's decoder also reads 0 to 2, so that the broker can refuse them
//! in their own shape.
//!
//! Decoded messages borrow from the frame: record sets and names are slices of it.

mod request;
mod response;

use crate::{ApiKey, WireError};

pub use crate::leader::{LeaderIdAndEpoch, NodeEndpoint};
pub use crate::topic_ref::TopicRef;
pub use request::{ProducePartition, ProduceRequest, decode_request, encode_request};
pub use response::{ProducePartitionResponse, ProduceResponse, decode_response, encode_response};

/// The first version that names topics by id.
pub const FIRST_TOPIC_ID_VERSION: i16 = 13;
/// The first version that may carry zstd.
pub const FIRST_ZSTD_VERSION: i16 = 7;
/// The first version that is served; older ones are decoded only to be refused.
pub const FIRST_SERVED_VERSION: i16 = 3;

/// The first version whose answers name the new leader (KIP-951).
pub const FIRST_LEADER_VERSION: i16 = 10;

const KEY: i16 = ApiKey::Produce.key();
const LAST_VERSION: i16 = 13;

fn check_version(version: i16, first: i16) -> Result<(), WireError> {
    if (first..=LAST_VERSION).contains(&version) {
        return Ok(());
    }
    Err(WireError::UnsupportedVersion {
        api_key: KEY,
        version,
    })
}
