//! What a control piece says.

use rkyv::{Archive, Deserialize, Serialize};

use super::{FormatError, archive, unarchive};

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
    /// The largest timestamp of the segment's first batch; -1 when that has none.
    pub segment_first_timestamp: i64,
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
