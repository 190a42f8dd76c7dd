//! The APIs off the data path: the generated codec of `kafka-protocol`, behind the length guard.
//!
//! The generated codec panics on short input and reserves memory for any element count it reads, so no bytes reach it
//! before [`guard`] has walked them.

use bytes::{Bytes, BytesMut};
use kafka_protocol::protocol::{Decodable, Encodable};

use crate::frame::{
    abandon_frame, begin_frame, decode_response_header, encode_request_header, encode_response_header,
    end_frame,
};
use crate::{ApiKey, RequestHeader, WireError, guard};

/// The version whose encoding the generated codec knows for a version we serve.
///
/// ListOffsets 11 (Kafka 4.2, KIP-1023) changed the meaning of a timestamp, not the encoding, and is missing from
/// `kafka-protocol` 0.18, which was generated from Kafka 4.1.
pub(crate) const fn codec_version(api_key: i16, version: i16) -> i16 {
    if api_key == ApiKey::ListOffsets.key() && version == 11 {
        10
    } else {
        version
    }
}

/// Decodes a request's body. `body` is the frame after its header.
pub fn decode_cold<T: Decodable>(api_key: i16, version: i16, mut body: Bytes) -> Result<T, WireError> {
    guard::check_request(api_key, version, &body)?;
    T::decode(&mut body, codec_version(api_key, version)).map_err(codec_error)
}

/// Appends a whole response: size, header, body. On an error nothing is appended.
pub fn encode_response<T: Encodable>(
    out: &mut BytesMut,
    api_key: i16,
    version: i16,
    correlation_id: i32,
    body: &T,
) -> Result<(), WireError> {
    let frame = begin_frame(out);
    encode_response_header(out, api_key, version, correlation_id);
    match body.encode(out, codec_version(api_key, version)) {
        Ok(()) => end_frame(out, frame, 0),
        Err(error) => {
            abandon_frame(out, frame);
            Err(codec_error(error))
        }
    }
}

/// Appends a whole request: size, header, body. On an error nothing is appended.
pub fn encode_request<T: Encodable>(
    out: &mut BytesMut,
    api_key: i16,
    version: i16,
    correlation_id: i32,
    client_id: Option<&str>,
    body: &T,
) -> Result<(), WireError> {
    let frame = begin_frame(out);
    encode_request_header(
        out,
        &RequestHeader {
            api_key,
            api_version: version,
            correlation_id,
            client_id,
        },
    );
    match body.encode(out, codec_version(api_key, version)) {
        Ok(()) => end_frame(out, frame, 0),
        Err(error) => {
            abandon_frame(out, frame);
            Err(codec_error(error))
        }
    }
}

/// Decodes a response, `frame` being everything after the size. Returns its correlation id too.
pub fn decode_response<T: Decodable>(
    api_key: i16,
    version: i16,
    mut frame: Bytes,
) -> Result<(i32, T), WireError> {
    let (correlation_id, body_start) = decode_response_header(&frame, api_key, version)?;
    let mut body = frame.split_off(body_start);
    guard::check_response(api_key, version, &body)?;
    let body = T::decode(&mut body, codec_version(api_key, version)).map_err(codec_error)?;
    Ok((correlation_id, body))
}

fn codec_error(error: impl std::fmt::Display) -> WireError {
    WireError::Codec(error.to_string())
}
