//! The pieces of a journal entry. A frame is a piece by itself; everything else that changes a log is a
//! [`Control`] piece, archived inside the entry's directory.

// The derive writes undocumented fields for the archived forms of enum variants.
#![allow(missing_docs)]

use rkyv::{Archive, Deserialize, Serialize};

use super::{FormatError, archive, archive_fixed, unarchive};
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
        let Some(record) = bytes.first_chunk::<PIECE_RECORD_BYTES>() else {
            return Err(FormatError::Short { what: "piece", have: bytes.len(), want: PIECE_RECORD_BYTES });
        };
        let aligned = rkyv::util::Align(*record);
        rkyv::api::low::from_bytes::<Self, rkyv::rancor::Failure>(&aligned.0)
            .map_err(|_| FormatError::Field { what: "piece", field: "record" })
    }
}

/// A change of a log that is not a frame.
#[derive(Archive, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub enum Control {
    /// The log begins to exist, empty.
    Create {
        /// The topic's id.
        topic_id: [u8; 16],
        /// The partition's index.
        partition: u32,
        /// The first offset.
        start_offset: i64,
        /// Whether it must not pass for empty: metadata knew it, storage did not.
        damaged: bool,
    },
    /// The log ends.
    Delete,
    /// Everything at and above the offset is cut.
    Truncate {
        /// The new end.
        offset: i64,
    },
    /// Everything below the offset is gone.
    StartOffset {
        /// The new start.
        offset: i64,
    },
    /// A leader epoch starts.
    EpochStart {
        /// The epoch.
        epoch: i32,
        /// Its first offset.
        offset: i64,
    },
    /// A run stands in a segment, flushed there.
    Extent(Extent),
    /// The loss of a damaged log was accepted.
    AcceptLoss,
}

/// A run of frames that went straight to its segment.
#[derive(Archive, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// The segment's base offset.
    pub segment_base: i64,
    /// The segment's number.
    pub segment_number: u64,
    /// Where the run begins in the segment.
    pub position: u64,
    /// The run's bytes, pad included.
    pub length: u64,
    /// The run's first offset.
    pub base_offset: i64,
    /// The offset after its last one.
    pub end_offset: i64,
    /// The leader epoch of its last frame.
    pub leader_epoch: i32,
    /// The first frame's `previous`.
    pub previous: u64,
    /// The last frame's origin: what the next frame's `previous` must be.
    pub last_origin: u64,
    /// XXH3-64 of the run, keyed as the log's frames.
    pub checksum: u64,
    /// Bytes of its batches.
    pub payload_bytes: u64,
    /// The largest timestamp in it.
    pub max_timestamp: i64,
    /// The base offset of the first batch that has it.
    pub max_timestamp_offset: i64,
    /// When the segment got its first batch, milliseconds since the Unix epoch.
    pub segment_created_ms: i64,
    /// The producers' snapshot file at the segment's base; 0 when there were none.
    pub segment_snapshot: u64,
    /// What its batches did to the producers, so that a replay need not read them.
    pub producers: Vec<ProducerBatch>,
}

/// What one batch of an idempotent producer did.
#[derive(Archive, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProducerBatch {
    /// The producer.
    pub producer_id: i64,
    /// The batch's base offset.
    pub base_offset: i64,
    /// The batch's largest timestamp.
    pub timestamp: i64,
    /// The first sequence.
    pub base_sequence: i32,
    /// The last offset less the base offset.
    pub last_offset_delta: i32,
    /// The producer's epoch.
    pub epoch: i16,
}

impl Control {
    /// The piece's bytes.
    pub fn encode(&self) -> Vec<u8> {
        archive(self).into_vec()
    }

    /// Decodes a piece.
    ///
    /// # Errors
    /// [`FormatError`] when the bytes are not an archive of a piece.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        unarchive("control piece", bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_formats_are_pinned_and_round_trip() {
        let record =
            PieceRecord { log_id: 3, checksum: 0xabcd, position: 4096, length: 120, kind: KIND_FRAME, reserved: 0 };
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
            Control::Create { topic_id: [9; 16], partition: 1, start_offset: 0, damaged: false },
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
