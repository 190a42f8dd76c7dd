//! One question at a time, for set-up and tear-down.

use super::dial::{Dialer, Stream};
use super::{CLIENT_ID, ClientError};
use bytes::{Bytes, BytesMut};
use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::time::Duration;
use strandline_wire::messages::{ApiVersionsRequest, ApiVersionsResponse};
use strandline_wire::protocol::{Decodable, Encodable, StrBytes};
use strandline_wire::{ApiKey, ErrorCode, decode_response, encode_request, supported_versions};

/// How long a broker may take to accept a connection or to answer.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// Answers to set-up questions are small; a larger one is not from a Kafka broker.
const ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The version of ApiVersions asked first: every broker since Kafka 2.4 knows it.
const API_VERSIONS_VERSION: i16 = 3;

/// A connection with one request in flight.
#[derive(Debug)]
pub struct Connection {
    stream: Stream,
    address: String,
    next_correlation_id: i32,
    versions: Versions,
}

/// The version ranges that a broker serves.
#[derive(Clone, Debug, Default)]
pub struct Versions(HashMap<i16, (i16, i16)>);

impl Versions {
    /// The highest version of `api` that the broker serves, our codec knows, and that is no higher than `max`.
    pub fn pick(&self, api: ApiKey, max: i16) -> Result<i16, ClientError> {
        let unsupported = || ClientError::Unsupported(api);
        let &(theirs_min, theirs_max) = self.0.get(&api.key()).ok_or_else(unsupported)?;
        let (ours_min, ours_max) = supported_versions(api).ok_or_else(unsupported)?;
        let version = theirs_max.min(ours_max).min(max);
        if version < theirs_min.max(ours_min) {
            Err(unsupported())
        } else {
            Ok(version)
        }
    }

    /// Whether the broker serves `api` at all.
    pub fn serves(&self, api: ApiKey) -> bool {
        self.0.contains_key(&api.key())
    }
}

impl Connection {
    /// Connects and learns the broker's versions.
    pub fn open(dialer: &Dialer, address: &str) -> Result<Self, ClientError> {
        Self::open_within(dialer, address, ANSWER_TIMEOUT)
    }

    /// The same, with a time limit for each step.
    pub fn open_within(dialer: &Dialer, address: &str, timeout: Duration) -> Result<Self, ClientError> {
        let stream = dialer.open(address, timeout)?;
        let mut connection = Self {
            stream,
            address: address.to_owned(),
            next_correlation_id: 0,
            versions: Versions::default(),
        };
        let request = ApiVersionsRequest::default()
            .with_client_software_name(StrBytes::from_static_str(CLIENT_ID))
            .with_client_software_version(StrBytes::from_static_str(env!("CARGO_PKG_VERSION")));
        let answer: ApiVersionsResponse =
            connection.exchange(ApiKey::ApiVersions, API_VERSIONS_VERSION, &request)?;
        refuse("ApiVersions", answer.error_code, None)?;
        connection.versions = Versions(
            answer
                .api_keys
                .iter()
                .map(|api| (api.api_key, (api.min_version, api.max_version)))
                .collect(),
        );
        Ok(connection)
    }

    /// What the broker serves.
    pub fn versions(&self) -> &Versions {
        &self.versions
    }

    /// Asks in the highest common version, which is returned with the answer.
    pub fn call<Q: Encodable, A: Decodable>(&mut self, api: ApiKey, request: &Q) -> Result<A, ClientError> {
        self.call_up_to(api, i16::MAX, request)
    }

    /// Asks in the highest common version up to `max`.
    pub fn call_up_to<Q: Encodable, A: Decodable>(
        &mut self,
        api: ApiKey,
        max: i16,
        request: &Q,
    ) -> Result<A, ClientError> {
        let version = self.versions.pick(api, max)?;
        self.exchange(api, version, request)
    }

    fn exchange<Q: Encodable, A: Decodable>(
        &mut self,
        api: ApiKey,
        version: i16,
        request: &Q,
    ) -> Result<A, ClientError> {
        let correlation_id = self.next_correlation_id;
        self.next_correlation_id = self.next_correlation_id.wrapping_add(1);
        let mut out = BytesMut::new();
        encode_request(
            &mut out,
            api.key(),
            version,
            correlation_id,
            Some(CLIENT_ID),
            request,
        )?;
        let frame = self.round_trip(&out).map_err(|source| ClientError::Io {
            address: self.address.clone(),
            source,
        })?;
        let (answered, answer) = decode_response(api.key(), version, frame)?;
        if answered != correlation_id {
            let source = io::Error::new(
                io::ErrorKind::InvalidData,
                "the answer belongs to another request",
            );
            return Err(ClientError::Io {
                address: self.address.clone(),
                source,
            });
        }
        Ok(answer)
    }

    fn round_trip(&mut self, request: &[u8]) -> io::Result<Bytes> {
        self.stream.write_all(request)?;
        self.stream.flush()?;
        let mut size = [0; 4];
        self.stream.read_exact(&mut size)?;
        let size = usize::try_from(i32::from_be_bytes(size)).unwrap_or(usize::MAX);
        if size > ANSWER_BYTES_MAX {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the answer is no Kafka frame",
            ));
        }
        let mut frame = vec![0; size];
        self.stream.read_exact(&mut frame)?;
        Ok(Bytes::from(frame))
    }
}

/// Turns an error code into an error; `Ok` for no error.
pub fn refuse(what: &str, code: i16, message: Option<String>) -> Result<(), ClientError> {
    let code = ErrorCode::from_code(code);
    if code == ErrorCode::None {
        return Ok(());
    }
    Err(ClientError::Refused {
        what: what.to_owned(),
        code,
        message,
    })
}
