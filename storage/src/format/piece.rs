//! The pieces of a journal entry. A frame is a piece by itself; everything else that changes a log is a
//! [`Control`] piece, archived inside the entry's directory.

use rkyv::{Archive, Deserialize, Serialize};

pub use super::control::{Control, Extent, ProducerBatch};
use super::{FormatError, archive_fixed, unarchive_fixed};
use crate::types::LogId;

/// Bytes of one record of the piece directory.
pub const PIECE_RECORD_BYTES: usize = 32;

/// The piece is a frame.
pub const KIND_FRAME: u32 = 1;
/// The piece is a [`Control`].
pub const KIND_CONTROL: u32 = 2;

/// One record of an entry's piece directory.
#[derive(Archive, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
pub struct PieceRecord {
    /// The log it belongs to.
    pub log_id: u64,
    /// Of a frame: its checksum. Otherwise zero: the entry's checksum covers the piece.
    pub checksum: u64,
    /// Where the piece begins, from the start of the entry.
    pub position: u32,
    /// Its bytes.
    pub length: u32,
    /// [`KIND_FRAME`] or [`KIND_CONTROL`].
    pub kind: u32,
    /// Zero.
    pub reserved: u32,
}

const _: () = assert!(size_of::<ArchivedPieceRecord>() == PIECE_RECORD_BYTES);

impl PieceRecord {
    /// The log it belongs to.
    pub fn log(&self) -> LogId {
        LogId(self.log_id)
    }

    /// The record's bytes.
    pub fn encode(&self) -> [u8; PIECE_RECORD_BYTES] {
        archive_fixed(self)
    }

    /// Decodes a record.
    ///
    /// # Errors
    /// [`FormatError`] when the bytes are too few.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        unarchive_fixed::<_, PIECE_RECORD_BYTES>("piece", "record", bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_formats_are_pinned_and_round_trip() {
        let record = PieceRecord {
            log_id: 3,
            checksum: 0xabcd,
            position: 4096,
            length: 120,
            kind: KIND_FRAME,
            reserved: 0,
        };
        crate::golden::check("piece-record-1.bin", &record.encode());
        assert_eq!(PieceRecord::decode(&record.encode()), Ok(record));
        let extent = Extent {
            segment_number: 2,
            length: 8192,
            end_offset: 10,
            producers: vec![ProducerBatch {
                producer_id: 7,
                base_offset: 4,
                timestamp: 5,
                base_sequence: 6,
                last_offset_delta: 1,
                epoch: 2,
            }],
            ..Extent::default()
        };
        let controls = [
            Control::Create {
                topic_id: [9; 16],
                partition: 1,
                start_offset: 0,
                damaged: false,
            },
            Control::Delete,
            Control::Truncate { offset: 5 },
            Control::StartOffset { offset: 6 },
            Control::EpochStart { epoch: 7, offset: 8 },
            Control::Extent(extent),
            Control::AcceptLoss,
        ];
        let mut all = Vec::new();
        for control in controls {
            let bytes = control.encode();
            assert_eq!(Control::decode(&bytes), Ok(control));
            all.extend_from_slice(&bytes);
        }
        crate::golden::check("control-1.bin", &all);
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_decode_or_fail(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..300)) {
            let _ = Control::decode(&bytes);
            let _ = PieceRecord::decode(&bytes);
        }
    }
}
