//! Frames and headers: what stands before every request and response body.
//!
//! A frame is a four-byte size and that many bytes. A request's header has version 1 (fixed encoding) or 2 (flexible:
//! tagged fields after the client id, which itself stays a classic string). A response's header has version 0 (the
//! correlation id alone) or 1 (tagged fields after it); ApiVersions answers always have version 0, so that a client
//! that guessed a version wrong can read the answer (KIP-511).

use bytes::{BufMut, BytesMut};

use crate::primitives::{Reader, WriteExt};
use crate::{ApiKey, WireError, is_flexible};

/// Bytes of the size before each frame.
pub const SIZE_PREFIX: usize = 4;

/// The header of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestHeader<'a> {
    /// The API.
    pub api_key: i16,
    /// Its version.
    pub api_version: i16,
    /// Chosen by the client, repeated in the response.
    pub correlation_id: i32,
    /// The client's name for itself.
    pub client_id: Option<&'a str>,
}

/// Decodes the header at the start of a frame (without its size). Returns it with the position of the body.
///
/// The header of an API or version that is not known here is read in its fixed part, which all versions share, so that
/// the caller can name it when it closes the connection. An ApiVersions request of a version above those known may have
/// any encoding after the fixed part; its body must not be read.
pub fn decode_request_header(frame: &[u8]) -> Result<(RequestHeader<'_>, usize), WireError> {
    let mut reader = Reader::new(frame);
    let api_key = reader.i16("request api key")?;
    let api_version = reader.i16("request api version")?;
    let correlation_id = reader.i32("correlation id")?;
    let client_id = reader.nullable_string(false, "client id")?;
    let served = ApiKey::from_key(api_key).is_some_and(|api| api.is_supported(api_version));
    reader.skip_tagged_fields(served && is_flexible(api_key, api_version))?;
    Ok((
        RequestHeader {
            api_key,
            api_version,
            correlation_id,
            client_id,
        },
        reader.position(),
    ))
}

/// Appends a request's header. The size prefix is the caller's: see [`begin_frame`].
pub fn encode_request_header(out: &mut BytesMut, header: &RequestHeader<'_>) {
    out.put_i16(header.api_key);
    out.put_i16(header.api_version);
    out.put_i32(header.correlation_id);
    out.put_nullable_string(false, header.client_id);
    out.put_no_tagged_fields(is_flexible(header.api_key, header.api_version));
}

/// True when the response's header carries tagged fields.
pub const fn response_header_is_flexible(api_key: i16, api_version: i16) -> bool {
    api_key != ApiKey::ApiVersions.key() && is_flexible(api_key, api_version)
}

/// Appends a response's header. The size prefix is the caller's: see [`begin_frame`].
pub fn encode_response_header(out: &mut BytesMut, api_key: i16, api_version: i16, correlation_id: i32) {
    out.put_i32(correlation_id);
    out.put_no_tagged_fields(response_header_is_flexible(api_key, api_version));
}

/// Decodes a response's header at the start of a frame (without its size). Returns the correlation id and the position
/// of the body.
pub fn decode_response_header(
    frame: &[u8],
    api_key: i16,
    api_version: i16,
) -> Result<(i32, usize), WireError> {
    let mut reader = Reader::new(frame);
    let correlation_id = reader.i32("correlation id")?;
    reader.skip_tagged_fields(response_header_is_flexible(api_key, api_version))?;
    Ok((correlation_id, reader.position()))
}

/// A frame whose size is not known yet: where its size prefix stands in the buffer.
#[derive(Debug)]
#[must_use = "the frame has no size before end_frame"]
pub struct OpenFrame {
    start: usize,
}

/// Leaves room for the size prefix.
pub fn begin_frame(out: &mut BytesMut) -> OpenFrame {
    let start = out.len();
    out.put_i32(0);
    OpenFrame { start }
}

/// Writes the size of everything appended since [`begin_frame`], plus `outside` bytes that follow from elsewhere.
pub fn end_frame(out: &mut BytesMut, frame: OpenFrame, outside: usize) -> Result<(), WireError> {
    let size = out.len() - frame.start - SIZE_PREFIX + outside;
    let Ok(size) = i32::try_from(size) else {
        return Err(WireError::TooLarge {
            limit: i32::MAX as usize,
        });
    };
    out[frame.start..frame.start + SIZE_PREFIX].copy_from_slice(&size.to_be_bytes());
    Ok(())
}

/// Removes what was appended since [`begin_frame`], for a frame that could not be finished.
pub fn abandon_frame(out: &mut BytesMut, frame: OpenFrame) {
    out.truncate(frame.start);
}

#[cfg(test)]
mod tests {
    use super::*;
    use kafka_protocol::messages::RequestHeader as TheirHeader;
    use kafka_protocol::protocol::{Encodable, StrBytes};
    use proptest::prelude::*;

    #[test]
    fn golden_request_headers() {
        let mut out = BytesMut::new();
        let header = RequestHeader {
            api_key: 3,
            api_version: 8,
            correlation_id: 7,
            client_id: Some("c1"),
        };
        encode_request_header(&mut out, &header);
        assert_eq!(&out[..], b"\x00\x03\x00\x08\x00\x00\x00\x07\x00\x02c1");
        out.clear();
        encode_request_header(
            &mut out,
            &RequestHeader {
                api_version: 9,
                client_id: None,
                ..header
            },
        );
        assert_eq!(&out[..], b"\x00\x03\x00\x09\x00\x00\x00\x07\xff\xff\x00");
    }

    #[test]
    fn the_api_versions_response_header_is_always_version_0() {
        for version in 0..=5 {
            let mut out = BytesMut::new();
            encode_response_header(&mut out, 18, version, 1);
            assert_eq!(out.len(), 4);
        }
        assert_eq!(decode_response_header(&[0, 0, 0, 1, 0], 3, 9), Ok((1, 5)));
        assert_eq!(decode_response_header(&[0, 0, 0, 1], 3, 8), Ok((1, 4)));
    }

    #[test]
    fn a_frame_gets_its_size_and_can_be_abandoned() {
        let mut out = BytesMut::from(&b"before"[..]);
        let frame = begin_frame(&mut out);
        out.put_slice(b"abc");
        end_frame(&mut out, frame, 10).unwrap();
        assert_eq!(&out[..], b"before\x00\x00\x00\x0dabc");
        let frame = begin_frame(&mut out);
        out.put_slice(b"half");
        abandon_frame(&mut out, frame);
        assert_eq!(&out[..], b"before\x00\x00\x00\x0dabc");
    }

    proptest! {
        #[test]
        fn headers_agree_with_kafka_protocol(
            api in proptest::sample::select(crate::ADVERTISED),
            choice: u16,
            correlation_id: i32,
            client_id in proptest::option::of("[a-z]{0,9}"),
        ) {
            let span = (api.max_version - api.min_version + 1) as u16;
            let api_version = api.min_version + (choice % span) as i16;
            let api_key = api.api.key();
            let theirs = TheirHeader::default()
                .with_request_api_key(api_key)
                .with_request_api_version(api_version)
                .with_correlation_id(correlation_id)
                .with_client_id(client_id.clone().map(StrBytes::from_string));
            let mut expected = BytesMut::new();
            theirs.encode(&mut expected, if is_flexible(api_key, api_version) { 2 } else { 1 }).unwrap();
            let header = RequestHeader { api_key, api_version, correlation_id, client_id: client_id.as_deref() };
            let mut out = BytesMut::new();
            encode_request_header(&mut out, &header);
            prop_assert_eq!(&out, &expected);
            prop_assert_eq!(decode_request_header(&expected), Ok((header, expected.len())));
        }

        #[test]
        fn any_bytes_give_a_header_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = decode_request_header(&bytes);
        }
    }
}
