//! The checkpoint: what segments hold, and from where the journal continues.

use rkyv::{Archive, Deserialize, Serialize};
use uuid::Uuid;

use super::checkpoint_1::Checkpoint1;
use super::entry::RingPosition;
use super::envelope::{EnvelopeKind, unwrap, wrap};
use super::{FormatError, archive, unarchive};
use crate::types::{LogId, Sequence, TopicPartitionId};

/// A time that nobody noted: of a segment from before it was.
pub const TIME_UNKNOWN: i64 = -1;

/// The state of a shard as of one durable journal sequence.
#[derive(Archive, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
pub struct Checkpoint {
    /// Higher in each checkpoint; the newest whole slot counts.
    pub generation: u64,
    /// The journal's random id.
    pub journal_id: u64,
    /// Files of the ring.
    pub journal_files: u32,
    /// Whether the store was closed cleanly after it: nothing to replay, last segments may be continued.
    pub clean: bool,
    /// Bytes of each file.
    pub journal_file_bytes: u64,
    /// The opens whose entries may stand in the ring, oldest first; the last is the current one.
    pub incarnations: Vec<Incarnation>,
    /// Where the replay starts.
    pub replay_start: ReplayStart,
    /// The id of the next log to be created.
    pub next_log_id: u64,
    /// Up to which metadata offset assignments were applied.
    pub metadata_offset: u64,
    /// The logs, by log id.
    pub logs: Vec<LogCheckpoint>,
}

/// One open of the store, as the ring's entries know it.
#[derive(Archive, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Incarnation {
    /// Its number; higher than those before.
    pub incarnation: u64,
    /// The sequence of its first entry.
    pub first_sequence: u64,
    /// The last sequence that its replay accepted: higher ones of earlier incarnations were torn or never
    /// acknowledged, and are stale for ever.
    pub follows: u64,
}

/// Where the replay starts: behind the last entry that all logs' segments include.
#[derive(Archive, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplayStart {
    /// The file of the first entry to replay; it stands in the next file if it did not fit here.
    pub file: u32,
    /// The position of the first entry to replay.
    pub position: u64,
    /// The sequence of the entry before.
    pub sequence: u64,
    /// The checksum of the entry before.
    pub previous: u64,
}

impl ReplayStart {
    /// The place in the ring.
    pub fn at(&self) -> RingPosition {
        RingPosition {
            file: self.file,
            position: self.position,
        }
    }

    /// The sequence of the entry before.
    pub fn sequence(&self) -> Sequence {
        Sequence(self.sequence)
    }
}

/// One log.
#[derive(Archive, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
pub struct LogCheckpoint {
    /// This life of the replica.
    pub log_id: u64,
    /// The topic's id.
    pub topic_id: [u8; 16],
    /// The partition's index.
    pub partition: u32,
    /// The journal sequence that everything here includes; durable.
    pub sequence: u64,
    /// The first readable offset.
    pub start_offset: i64,
    /// The offset after the last frame.
    pub end_offset: i64,
    /// A lower bound, never a truncation point.
    pub high_watermark: i64,
    /// The last frame's origin; 0 when the log is empty.
    pub last_origin: u64,
    /// The number of the producers' snapshot file; 0 when there are none.
    pub snapshot: u64,
    /// The next number of a file of this log.
    pub next_file_number: u64,
    /// The first offset that may be gone; -1 when the log is whole.
    pub damaged_from: i64,
    /// Everything below was compacted; 0 when nothing was.
    pub cleaned_to: i64,
    /// The leader epochs.
    pub epochs: Vec<EpochStart>,
    /// The segments, by base offset.
    pub segments: Vec<SegmentCheckpoint>,
}

impl LogCheckpoint {
    /// This life of the replica.
    pub fn log_id(&self) -> LogId {
        LogId(self.log_id)
    }

    /// The partition.
    pub fn id(&self) -> TopicPartitionId {
        TopicPartitionId {
            topic_id: Uuid::from_bytes(self.topic_id),
            partition: self.partition,
        }
    }
}

/// A leader epoch and its first offset.
#[derive(Archive, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpochStart {
    /// The epoch.
    pub epoch: i32,
    /// The offset its leader's first record got or would have got.
    pub start_offset: i64,
}

/// One segment.
#[derive(Archive, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SegmentCheckpoint {
    /// Its first offset.
    pub base_offset: i64,
    /// The offset after its last frame.
    pub end_offset: i64,
    /// The number in its name.
    pub number: u64,
    /// Bytes that count, flushed; what the file holds beyond does not exist.
    pub valid_length: u64,
    /// Bytes of its batches.
    pub payload_bytes: u64,
    /// The largest timestamp in it; -1 when there is none.
    pub max_timestamp: i64,
    /// The base offset of the first batch that has it.
    pub max_timestamp_offset: i64,
    /// The largest timestamp of its first batch, from which `segment.ms` counts; -1 when that has none.
    pub first_timestamp: i64,
    /// When it got its first batch, by the broker's clock; [`TIME_UNKNOWN`]. Counts where batches have no timestamp.
    pub created_ms: i64,
    /// When it got its last batch, likewise.
    pub appended_ms: i64,
    /// The number of the producers' snapshot file at its base; 0 when there were none.
    pub snapshot: u64,
}

impl Checkpoint {
    /// The bytes of a slot.
    pub fn encode(&self) -> Vec<u8> {
        wrap(EnvelopeKind::Checkpoint, 0, self.generation, &archive(self))
    }

    /// Reads a slot.
    ///
    /// # Errors
    /// [`FormatError`] when the slot is torn, rotten or of another format, or contradicts itself.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let envelope = unwrap(EnvelopeKind::Checkpoint, 0, bytes)?;
        let checkpoint: Self = match envelope.format {
            1 => unarchive::<Checkpoint1>("checkpoint", envelope.body)?.into(),
            _ => unarchive("checkpoint", envelope.body)?,
        };
        let bad = |field| {
            Err(FormatError::Field {
                what: "checkpoint",
                field,
            })
        };
        if checkpoint.journal_files < 2 || checkpoint.incarnations.is_empty() {
            return bad("journal");
        }
        if checkpoint.replay_start.file >= checkpoint.journal_files
            || checkpoint.replay_start.position > checkpoint.journal_file_bytes
        {
            return bad("replay start");
        }
        for log in &checkpoint.logs {
            if log.log_id >= checkpoint.next_log_id {
                return bad("log id");
            }
            if log.start_offset < 0 || log.end_offset < log.start_offset {
                return bad("offsets");
            }
            if !log
                .segments
                .is_sorted_by(|left, right| left.end_offset <= right.base_offset)
            {
                return bad("segments");
            }
        }
        Ok(checkpoint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Checkpoint {
        Checkpoint {
            generation: 3,
            journal_id: 4,
            journal_files: 8,
            clean: true,
            journal_file_bytes: 1 << 20,
            incarnations: vec![Incarnation {
                incarnation: 1,
                first_sequence: 1,
                follows: 0,
            }],
            replay_start: ReplayStart {
                file: 1,
                position: 4096,
                sequence: 9,
                previous: 77,
            },
            next_log_id: 6,
            metadata_offset: 12,
            logs: vec![LogCheckpoint {
                log_id: 5,
                topic_id: [7; 16],
                partition: 2,
                sequence: 9,
                start_offset: 1,
                end_offset: 30,
                high_watermark: 20,
                last_origin: 8,
                snapshot: 3,
                next_file_number: 4,
                damaged_from: -1,
                cleaned_to: 10,
                epochs: vec![EpochStart {
                    epoch: 0,
                    start_offset: 0,
                }],
                segments: vec![SegmentCheckpoint {
                    end_offset: 30,
                    number: 1,
                    valid_length: 4096,
                    payload_bytes: 3000,
                    max_timestamp: 70,
                    max_timestamp_offset: 20,
                    first_timestamp: 60,
                    created_ms: 61,
                    appended_ms: 71,
                    ..Default::default()
                }],
            }],
        }
    }

    #[test]
    fn the_format_is_pinned_and_round_trips() {
        let checkpoint = example();
        let bytes = checkpoint.encode();
        crate::golden::check("checkpoint-2.bin", &bytes);
        assert_eq!(Checkpoint::decode(&bytes), Ok(checkpoint));
        assert!(Checkpoint::decode(&bytes[..100]).is_err());
    }

    #[test]
    fn format_1_is_read() {
        let bytes = include_bytes!("../../tests/golden/checkpoint-1.bin");
        let mut checkpoint = example();
        checkpoint.logs[0].cleaned_to = 0;
        checkpoint.logs[0].segments[0] = SegmentCheckpoint {
            end_offset: 30,
            number: 1,
            valid_length: 4096,
            created_ms: TIME_UNKNOWN,
            appended_ms: TIME_UNKNOWN,
            ..Default::default()
        };
        assert_eq!(Checkpoint::decode(bytes), Ok(checkpoint));
    }
}
