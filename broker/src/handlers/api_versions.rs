//! ApiVersions: what this broker serves.

use bytes::{Bytes, BytesMut};
use strandline_core::metadata::MetadataOffset;
use strandline_runtime::Runtime;
use strandline_storage::disk::Disk;
use strandline_wire::messages::ApiVersionsRequest;
use strandline_wire::messages::api_versions_response::{
    ApiVersion, ApiVersionsResponse, FinalizedFeatureKey, SupportedFeatureKey,
};
use strandline_wire::protocol::StrBytes;
use strandline_wire::{ADVERTISED, ApiKey, ApiVersionRange, ErrorCode, encode_response};

use super::Request;
use crate::connection::{Answer, Close};

/// The first version in which a client names its software.
const FIRST_SOFTWARE_VERSION: i16 = 3;
const FIRST_VERSION_WITH_FEATURES: i16 = 3;
const FIRST_VERSION_WITH_FEATURES_FROM_0: i16 = 4;

pub(super) fn serve<R: Runtime, D: Disk>(request: &Request<R, D>, body: Bytes) -> Result<Answer<D>, Close> {
    let asked: ApiVersionsRequest = request.decode(body)?;
    let valid = request.version < FIRST_SOFTWARE_VERSION
        || (is_software_name(&asked.client_software_name)
            && is_software_name(&asked.client_software_version));
    let code = if valid {
        ErrorCode::None
    } else {
        ErrorCode::InvalidRequest
    };
    let rows = if valid { ADVERTISED } else { &[] };
    let answer = ApiVersionsResponse::default()
        .with_error_code(code.code())
        .with_api_keys(rows.iter().map(row).collect())
        .with_finalized_features_epoch(-1);
    let answer = match valid && request.version >= FIRST_VERSION_WITH_FEATURES {
        true => with_features(answer, request.version, request.shard.image().offset()),
        false => answer,
    };
    request.encode(&answer, std::iter::once(code))
}

/// `group.version` 1 is the consumer protocol of groups. Nothing else is negotiated: there is no metadata.version and no
/// transaction.version. Versions before 4 cannot tell of a feature that begins at 0, so Kafka leaves it out there.
fn with_features(answer: ApiVersionsResponse, version: i16, offset: MetadataOffset) -> ApiVersionsResponse {
    let name = StrBytes::from_static_str("group.version");
    let supported = SupportedFeatureKey::default()
        .with_name(name.clone())
        .with_max_version(1);
    let finalized = FinalizedFeatureKey::default()
        .with_name(name)
        .with_max_version_level(1)
        .with_min_version_level(1);
    let supported = match version >= FIRST_VERSION_WITH_FEATURES_FROM_0 {
        true => vec![supported],
        false => Vec::new(),
    };
    answer
        .with_supported_features(supported)
        .with_finalized_features(vec![finalized])
        .with_finalized_features_epoch(i64::try_from(offset.0).unwrap_or(i64::MAX))
}

/// The answer to a version that is not known here: in version 0, with the range that is (KIP-511).
pub(crate) fn unsupported(correlation_id: i32) -> Result<BytesMut, Close> {
    let own = ADVERTISED.iter().filter(|range| range.api == ApiKey::ApiVersions);
    let answer = ApiVersionsResponse::default()
        .with_error_code(ErrorCode::UnsupportedVersion.code())
        .with_api_keys(own.map(row).collect());
    let mut out = BytesMut::new();
    encode_response(&mut out, ApiKey::ApiVersions.key(), 0, correlation_id, &answer)?;
    Ok(out)
}

fn row(range: &ApiVersionRange) -> ApiVersion {
    ApiVersion::default()
        .with_api_key(range.api.key())
        .with_min_version(range.min_version)
        .with_max_version(range.max_version)
}

/// Letters, digits, dots and hyphens, the last two not at an end: the name becomes part of a metric's name in Kafka.
fn is_software_name(name: &str) -> bool {
    let outer = |byte: &u8| byte.is_ascii_alphanumeric();
    let bytes = name.as_bytes();
    bytes.first().is_some_and(outer)
        && bytes.last().is_some_and(outer)
        && bytes
            .iter()
            .all(|byte| outer(byte) || matches!(byte, b'.' | b'-'))
}

#[cfg(test)]
mod tests {
    use super::is_software_name;

    #[test]
    fn software_names_as_kafka_takes_them() {
        for good in ["librdkafka", "v", "2.0.2-RC1", "apache-kafka-java"] {
            assert!(is_software_name(good), "{good}");
        }
        for bad in ["", "-a", "a.", "a b", "ü"] {
            assert!(!is_software_name(bad), "{bad}");
        }
    }
}
