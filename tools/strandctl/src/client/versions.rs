//! Which version of each API both sides speak.

use std::collections::BTreeMap;

use strandline_wire::messages::{ApiVersionsRequest, ApiVersionsResponse};
use strandline_wire::protocol::StrBytes;
use strandline_wire::{ApiKey, ErrorCode};

use super::{ClientError, Connection};

/// The version tried first: flexible, with the client's name, and known to every Kafka since 2.4.
const FIRST_TRIED_VERSION: i16 = 3;

/// The ranges of a broker.
#[derive(Debug, Default)]
pub(super) struct ApiRanges {
    ranges: BTreeMap<i16, (i16, i16)>,
}

impl ApiRanges {
    /// The highest version in both ranges.
    pub(super) fn common(&self, api_key: i16, ours_min: i16, ours_max: i16) -> Option<i16> {
        // The handshake itself happens before anything is known.
        let &(min, max) = self.ranges.get(&api_key)?;
        let version = ours_max.min(max);
        (version >= ours_min.max(min)).then_some(version)
    }

    /// The broker's range, for an error text.
    pub(super) fn describe(&self, api_key: i16) -> String {
        match self.ranges.get(&api_key) {
            Some((min, max)) => format!("{min} to {max}"),
            None => "none".to_owned(),
        }
    }
}

impl From<&ApiVersionsResponse> for ApiRanges {
    fn from(response: &ApiVersionsResponse) -> Self {
        let ranges = response
            .api_keys
            .iter()
            .map(|api| (api.api_key, (api.min_version, api.max_version)));
        Self {
            ranges: ranges.collect(),
        }
    }
}

/// The name of an API, for error texts.
pub(super) fn api_name(api_key: i16) -> &'static str {
    ApiKey::from_key(api_key).map_or("an API", ApiKey::name)
}

/// Asks the broker for its ranges (KIP-35, KIP-511). A broker that does not know the version asked for answers in
/// version 0 with the versions it knows.
pub(super) fn negotiate(connection: &mut Connection) -> Result<ApiRanges, ClientError> {
    let named = ApiVersionsRequest::default()
        .with_client_software_name(StrBytes::from_static_str("strandctl"))
        .with_client_software_version(StrBytes::from_static_str(env!("CARGO_PKG_VERSION")));
    let sent = connection.send(FIRST_TRIED_VERSION, &named)?;
    let frame = connection.receive_frame(api_name(ApiKey::ApiVersions as i16))?;
    let refused = frame.get(4..6) == Some(&ErrorCode::UnsupportedVersion.code().to_be_bytes());
    let response = if refused {
        connection.call(0, &ApiVersionsRequest::default())?
    } else {
        connection.decode::<ApiVersionsRequest>(sent, frame)?
    };
    let code = ErrorCode::from_code(response.error_code);
    if !code.is_none() {
        return Err(ClientError::broker(
            format!("ApiVersions at {}", connection.address()),
            code,
            None,
        ));
    }
    Ok(ApiRanges::from(&response))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(min: i16, max: i16) -> ApiRanges {
        ApiRanges {
            ranges: BTreeMap::from([(3, (min, max))]),
        }
    }

    #[test]
    fn the_highest_common_version_wins() {
        assert_eq!(ranges(0, 9).common(3, 1, 13), Some(9));
        assert_eq!(ranges(0, 20).common(3, 1, 13), Some(13));
        assert_eq!(ranges(13, 20).common(3, 1, 13), Some(13));
        assert_eq!(ranges(14, 20).common(3, 1, 13), None);
        assert_eq!(ranges(0, 0).common(3, 1, 13), None);
        assert_eq!(ranges(0, 9).common(4, 1, 13), None);
    }
}
