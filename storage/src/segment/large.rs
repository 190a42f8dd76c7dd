//! Frames that are too large to be looked at, or copied, in one turn: a hundred megabytes take tens of milliseconds.

use strandline_runtime::local::Turns;

use crate::format::FormatError;
use crate::format::checksum::ChecksumInParts;
use crate::format::frame::{FRAME_HEADER_BYTES, FrameHeader};

/// Frames from this size on are.
pub(crate) const LARGE_BYTES: usize = 1 << 20;

/// A part; a turn has some dozens.
const PART_BYTES: usize = 16 << 10;

/// [`verify_frame`](crate::format::frame::verify_frame) in turns.
///
/// # Errors
/// As that.
pub(crate) async fn verify_frame_in_turns(bytes: &[u8], key: u64) -> Result<FrameHeader, FormatError> {
    let header = FrameHeader::decode(bytes)?;
    let want = header.frame_bytes();
    if bytes.len() < want {
        return Err(FormatError::Short {
            what: "frame",
            have: bytes.len(),
            want,
        });
    }
    let (first, rest) = bytes[..header.unpadded_bytes()].split_at(FRAME_HEADER_BYTES);
    let mut parts = ChecksumInParts::begin(first, key);
    let mut turns = Turns::default();
    for part in rest.chunks(PART_BYTES) {
        parts.add(part);
        turns.item().await;
    }
    match parts.end() == header.checksum {
        true => Ok(header),
        false => Err(FormatError::Checksum { what: "frame" }),
    }
}

/// Puts a payload in place behind its header and seals the frame, as [`seal_frame`](crate::format::frame::seal_frame) does, in turns.
pub(crate) async fn fill_frame_in_turns(frame: &mut [u8], header: &FrameHeader, payload: &[u8], key: u64) {
    assert_eq!(frame.len(), header.frame_bytes(), "the slice is the frame");
    assert_eq!(header.checksum, 0, "the checksum is computed here");
    let encoded = header.encode();
    let mut parts = ChecksumInParts::begin(&encoded, key);
    let (first, rest) = frame.split_at_mut(FRAME_HEADER_BYTES);
    first.copy_from_slice(&encoded);
    let (place, pad) = rest.split_at_mut(payload.len());
    pad.fill(0);
    let mut turns = Turns::default();
    for (to, from) in place.chunks_mut(PART_BYTES).zip(payload.chunks(PART_BYTES)) {
        to.copy_from_slice(from);
        parts.add(from);
        turns.item().await;
    }
    first[..8].copy_from_slice(&parts.end().to_le_bytes());
}

/// Copies in turns.
pub(crate) async fn copy_in_turns(to: &mut [u8], from: &[u8]) {
    let mut turns = Turns::default();
    for (to, from) in to.chunks_mut(PART_BYTES).zip(from.chunks(PART_BYTES)) {
        to.copy_from_slice(from);
        turns.item().await;
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;
    use crate::format::frame::{FRAME_FORMAT, FRAME_MAGIC, frame_bytes, seal_frame, verify_frame};

    async fn check(length: usize) {
        let payload: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
        let header = FrameHeader {
            base_offset: 42,
            payload_length: length as u32,
            magic: FRAME_MAGIC,
            format: FRAME_FORMAT,
            ..FrameHeader::default()
        };
        let mut right = vec![0xff; frame_bytes(length)];
        right[FRAME_HEADER_BYTES..][..length].copy_from_slice(&payload);
        seal_frame(&mut right, &header, 7);
        let mut frame = vec![0xff; frame_bytes(length)];
        fill_frame_in_turns(&mut frame, &header, &payload, 7).await;
        assert_eq!(frame, right);
        assert_eq!(verify_frame_in_turns(&frame, 7).await, verify_frame(&frame, 7));
        let short = &frame[..frame.len() - 8];
        assert_eq!(verify_frame_in_turns(short, 7).await, verify_frame(short, 7));
        let mut copied = vec![0; frame.len()];
        copy_in_turns(&mut copied, &frame).await;
        assert_eq!(copied, frame);
        frame[FRAME_HEADER_BYTES + length - 1] ^= 1;
        assert!(verify_frame_in_turns(&frame, 7).await.is_err());
    }

    #[test]
    fn in_turns_is_as_at_once() {
        for length in [1, 8, PART_BYTES - 1, PART_BYTES, 3 * PART_BYTES + 5] {
            check(length).now_or_never().expect("few parts are one turn");
        }
    }
}
