//! The length guard: walks a body along its schema before the generated codec may see it.
//!
//! `kafka-protocol` reserves memory for any element count it reads (a Metadata request of a few bytes can claim two
//! billion topics) and keeps every unknown tagged field. So before it decodes, every length is checked against the bytes
//! that remain, and what the decoded message will take in memory against a budget. The schemas are written out in
//! `requests.rs` and `responses.rs`, those of the admin and group APIs in files beside them; a test derives random bodies from them and
//! checks that the generated codec reads exactly those bytes.

mod admin_responses;
mod group_requests;
mod group_responses;
mod move_requests;
mod move_responses;
mod quorum_requests;
mod quorum_responses;
mod requests;
mod responses;
mod schema;
mod walk;

#[cfg(test)]
mod tests;

use schema::Schema;
use walk::Walk;

use crate::primitives::{DecodeBudget, Reader};
use crate::{ApiKey, WireError, is_flexible, supported_versions};

/// A message may decode to this many times its bytes. The worst of honest ones, Metadata requests of many topics with
/// names of a few letters, come to about ten.
const DECODED_MULTIPLE: usize = 16;
/// And to no more than this, whatever the frame limit is set to.
const DECODED_BYTES_MAX: usize = 256 << 20;

/// Checks the body of a request against its schema.
pub fn check_request(api_key: i16, version: i16, body: &[u8]) -> Result<(), WireError> {
    check(api_key, version, body, requests::schema)
}

/// Checks the body of a response against its schema.
pub fn check_response(api_key: i16, version: i16, body: &[u8]) -> Result<(), WireError> {
    check(api_key, version, body, responses::schema)
}

fn check(
    api_key: i16,
    version: i16,
    body: &[u8],
    schema: fn(ApiKey) -> Option<&'static Schema>,
) -> Result<(), WireError> {
    let unknown = WireError::UnknownApi { api_key };
    let api = ApiKey::from_key(api_key).ok_or(unknown.clone())?;
    let schema = schema(api).ok_or(unknown)?;
    if !supported_versions(api).is_some_and(|(min, max)| (min..=max).contains(&version)) {
        return Err(WireError::UnsupportedVersion { api_key, version });
    }
    let budget = DecodeBudget::new(body.len(), DECODED_MULTIPLE).at_most(DECODED_BYTES_MAX);
    let flexible = is_flexible(api_key, version);
    let mut walk = Walk {
        reader: Reader::new(body),
        version,
        flexible,
        budget,
    };
    walk.budget.spend(1, schema.decoded_bytes)?;
    walk.element(schema, api.name())
}
