//! The frame: a 64-byte header and one Kafka record batch, padded to 8 bytes. The same bytes stand in the
//! journal, the segment, on a follower and in memory.
//!
//! A pad is a frame without a batch: it fills a segment up to the next page, outside the chain.

use rkyv::{Archive, Deserialize, Serialize};

use super::checksum::{checksum, checksum_of_zeroed};
use super::{FormatError, archive_fixed, round_up, unarchive_fixed};
use crate::disk::PAGE;

/// Bytes of a frame's header.
pub const FRAME_HEADER_BYTES: usize = 64;
/// Frames start at multiples of this.
pub const FRAME_ALIGN: usize = 8;
/// "SLFR".
pub const FRAME_MAGIC: u32 = 0x5246_4c53;
/// The format written.
pub const FRAME_FORMAT: u8 = 1;
/// The largest payload: a batch's length is an i32.
pub const PAYLOAD_BYTES_MAX: usize = i32::MAX as usize;

/// The frame is a pad.
pub const FLAG_PAD: u8 = 1;
/// Offsets before this frame are missing: the cleaner removed them.
pub const FLAG_GAP: u8 = 2;

const WHAT: &str = "frame";

/// The header of a frame.
#[derive(Archive, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameHeader {
    /// XXH3-64 of the frame up to its padding, this field as zero, under the log's key.
    pub checksum: u64,
    /// The origin of the frame appended before it; 0 for the first.
    pub previous: u64,
    /// 0, or the checksum that the frame was first appended with, once the cleaner rewrote it.
    pub origin: u64,
    /// The offset of the batch's first record.
    pub base_offset: i64,
    /// The batch's largest timestamp.
    pub max_timestamp: i64,
    /// Bytes of the batch; of a pad, all bytes after its header.
    pub payload_length: u32,
    /// The last record's offset less the base offset.
    pub last_offset_delta: u32,
    /// The epoch of the leader that appended it.
    pub leader_epoch: i32,
    /// [`FRAME_MAGIC`].
    pub magic: u32,
    /// [`FRAME_FORMAT`].
    pub format: u8,
    /// [`FLAG_PAD`], [`FLAG_GAP`].
    pub flags: u8,
    /// Zero.
    pub reserved: [u8; 6],
}

const _: () = assert!(size_of::<ArchivedFrameHeader>() == FRAME_HEADER_BYTES);

impl FrameHeader {
    /// The header's bytes.
    pub fn encode(&self) -> [u8; FRAME_HEADER_BYTES] {
        archive_fixed(self)
    }

    /// Decodes the header at the start of `bytes`, without the payload's checksum.
    ///
    /// # Errors
    /// [`FormatError`] when the bytes are too few or hold no frame header.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let header: Self = unarchive_fixed::<_, FRAME_HEADER_BYTES>(WHAT, "header", bytes)?;
        if header.magic != FRAME_MAGIC {
            return Err(FormatError::Magic { what: WHAT });
        }
        if header.format != FRAME_FORMAT {
            return Err(FormatError::Version {
                what: WHAT,
                format: u32::from(header.format),
            });
        }
        if header.payload_length as usize > PAYLOAD_BYTES_MAX {
            return Err(FormatError::Field {
                what: WHAT,
                field: "payload length",
            });
        }
        if header.last_offset_delta > i32::MAX as u32 || header.base_offset < 0 {
            return Err(FormatError::Field {
                what: WHAT,
                field: "offset",
            });
        }
        if header
            .base_offset
            .checked_add(i64::from(header.last_offset_delta) + 1)
            .is_none()
        {
            return Err(FormatError::Field {
                what: WHAT,
                field: "offset",
            });
        }
        Ok(header)
    }

    /// Whether the frame is a pad.
    pub fn is_pad(&self) -> bool {
        self.flags & FLAG_PAD != 0
    }

    /// The offset after the frame's last record.
    pub fn end_offset(&self) -> i64 {
        self.base_offset + i64::from(self.last_offset_delta) + 1
    }

    /// What the next frame's `previous` is compared with.
    pub fn chain(&self) -> u64 {
        if self.origin == 0 {
            self.checksum
        } else {
            self.origin
        }
    }

    /// Bytes of header and payload, without padding.
    pub fn unpadded_bytes(&self) -> usize {
        FRAME_HEADER_BYTES + self.payload_length as usize
    }

    /// Bytes of the frame, padding included.
    pub fn frame_bytes(&self) -> usize {
        frame_bytes(self.payload_length as usize)
    }
}

/// Bytes of the frame of a batch.
pub const fn frame_bytes(payload_bytes: usize) -> usize {
    round_up(FRAME_HEADER_BYTES + payload_bytes, FRAME_ALIGN)
}

/// Finishes a frame whose payload stands in place: writes the header before it, zeroes the padding behind
/// it, and returns the checksum. `frame` is exactly the frame, `header.payload_length` of it payload.
pub fn seal_frame(frame: &mut [u8], header: &FrameHeader, key: u64) -> u64 {
    assert_eq!(frame.len(), header.frame_bytes(), "the slice is the frame");
    assert_eq!(header.checksum, 0, "the checksum is computed here");
    let unpadded = header.unpadded_bytes();
    frame[..FRAME_HEADER_BYTES].copy_from_slice(&header.encode());
    frame[unpadded..].fill(0);
    let checksum = checksum_of_zeroed(&frame[..unpadded], key);
    frame[..8].copy_from_slice(&checksum.to_le_bytes());
    checksum
}

/// Decodes and verifies the frame at the start of `bytes`.
///
/// # Errors
/// [`FormatError`]; [`FormatError::Short`] says how many bytes the frame needs.
pub fn verify_frame(bytes: &[u8], key: u64) -> Result<FrameHeader, FormatError> {
    let header = FrameHeader::decode(bytes)?;
    let want = header.frame_bytes();
    if bytes.len() < want {
        return Err(FormatError::Short {
            what: WHAT,
            have: bytes.len(),
            want,
        });
    }
    if checksum(&bytes[..header.unpadded_bytes()], key) != header.checksum {
        return Err(FormatError::Checksum { what: WHAT });
    }
    Ok(header)
}

/// Bytes that a pad takes at `position` so that what follows starts a page; 0 at a page boundary. A rest
/// too small for a header takes the next page too.
pub const fn pad_bytes(position: usize) -> usize {
    let rest = round_up(position, PAGE) - position;
    if rest == 0 || rest >= FRAME_HEADER_BYTES {
        rest
    } else {
        rest + PAGE
    }
}

/// Writes a pad over all of `pad`, which is [`pad_bytes`] long.
pub fn seal_pad(pad: &mut [u8], next_offset: i64, key: u64) {
    let header = FrameHeader {
        base_offset: next_offset,
        payload_length: (pad.len() - FRAME_HEADER_BYTES) as u32,
        magic: FRAME_MAGIC,
        format: FRAME_FORMAT,
        flags: FLAG_PAD,
        ..FrameHeader::default()
    };
    pad[FRAME_HEADER_BYTES..].fill(0);
    seal_frame(pad, &header, key);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sample() -> FrameHeader {
        FrameHeader {
            previous: 0x1122_3344_5566_7788,
            base_offset: 42,
            max_timestamp: 1_700_000_000_000,
            payload_length: 13,
            last_offset_delta: 2,
            leader_epoch: 5,
            magic: FRAME_MAGIC,
            format: FRAME_FORMAT,
            ..FrameHeader::default()
        }
    }

    #[test]
    fn the_format_is_pinned() {
        let mut frame = vec![0xff; frame_bytes(13)];
        frame[64..77].copy_from_slice(b"golden batch!");
        seal_frame(&mut frame, &sample(), 7);
        crate::golden::check("frame-1.bin", &frame);
        assert_eq!(verify_frame(&frame, 7).expect("whole").end_offset(), 45);
    }

    #[test]
    fn another_log_or_one_flipped_bit_never_validates() {
        let mut frame = vec![0; frame_bytes(13)];
        seal_frame(&mut frame, &sample(), 7);
        assert_eq!(verify_frame(&frame, 8), Err(FormatError::Checksum { what: WHAT }));
        for bit in 0..(FRAME_HEADER_BYTES + 13) * 8 {
            frame[bit / 8] ^= 1 << (bit % 8);
            assert!(verify_frame(&frame, 7).is_err(), "bit {bit}");
            frame[bit / 8] ^= 1 << (bit % 8);
        }
    }

    #[test]
    fn pads_reach_the_page() {
        for position in (0..3 * PAGE).step_by(FRAME_ALIGN) {
            let pad = pad_bytes(position);
            assert_eq!((position + pad) % PAGE, 0);
            assert!(pad == 0 || pad >= FRAME_HEADER_BYTES);
            if pad > 0 {
                let mut bytes = vec![1; pad];
                seal_pad(&mut bytes, 9, 3);
                let header = verify_frame(&bytes, 3).expect("whole");
                assert!(header.is_pad());
                assert_eq!(header.frame_bytes(), pad);
            }
        }
    }

    proptest! {
        #[test]
        fn any_bytes_decode_or_fail(bytes in proptest::collection::vec(any::<u8>(), 0..200), key: u64) {
            let _ = verify_frame(&bytes, key);
        }

        #[test]
        fn any_frame_round_trips(payload in proptest::collection::vec(any::<u8>(), 0..600), base in 0..i64::MAX / 2, key: u64) {
            let header = FrameHeader { payload_length: payload.len() as u32, base_offset: base, ..sample() };
            let mut frame = vec![0; header.frame_bytes()];
            frame[64..64 + payload.len()].copy_from_slice(&payload);
            let checksum = seal_frame(&mut frame, &header, key);
            prop_assert_eq!(verify_frame(&frame, key), Ok(FrameHeader { checksum, ..header }));
        }
    }
}
