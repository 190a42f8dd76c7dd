//! Format 1 of the checkpoint, as far as it is not that of today: it is read, never written.

use rkyv::{Archive, Deserialize, Serialize};

use super::checkpoint::{
    Checkpoint, EpochStart, Incarnation, LogCheckpoint, ReplayStart, SegmentCheckpoint, TIME_UNKNOWN,
};

/// See [`Checkpoint`].
#[derive(Archive, Serialize, Deserialize)]
pub struct Checkpoint1 {
    generation: u64,
    journal_id: u64,
    journal_files: u32,
    clean: bool,
    journal_file_bytes: u64,
    incarnations: Vec<Incarnation>,
    replay_start: ReplayStart,
    next_log_id: u64,
    metadata_offset: u64,
    logs: Vec<LogCheckpoint1>,
}

/// See [`LogCheckpoint`].
#[derive(Archive, Serialize, Deserialize)]
pub struct LogCheckpoint1 {
    log_id: u64,
    topic_id: [u8; 16],
    partition: u32,
    sequence: u64,
    start_offset: i64,
    end_offset: i64,
    high_watermark: i64,
    last_origin: u64,
    snapshot: u64,
    next_file_number: u64,
    damaged_from: i64,
    epochs: Vec<EpochStart>,
    segments: Vec<SegmentCheckpoint1>,
}

/// See [`SegmentCheckpoint`].
#[derive(Archive, Serialize, Deserialize)]
pub struct SegmentCheckpoint1 {
    base_offset: i64,
    end_offset: i64,
    number: u64,
    valid_length: u64,
    payload_bytes: u64,
    max_timestamp: i64,
    max_timestamp_offset: i64,
    first_timestamp: i64,
    snapshot: u64,
}

impl From<Checkpoint1> for Checkpoint {
    fn from(old: Checkpoint1) -> Self {
        Self {
            generation: old.generation,
            journal_id: old.journal_id,
            journal_files: old.journal_files,
            clean: old.clean,
            journal_file_bytes: old.journal_file_bytes,
            incarnations: old.incarnations,
            replay_start: old.replay_start,
            next_log_id: old.next_log_id,
            metadata_offset: old.metadata_offset,
            logs: old.logs.into_iter().map(Into::into).collect(),
        }
    }
}

impl From<LogCheckpoint1> for LogCheckpoint {
    fn from(old: LogCheckpoint1) -> Self {
        Self {
            log_id: old.log_id,
            topic_id: old.topic_id,
            partition: old.partition,
            sequence: old.sequence,
            start_offset: old.start_offset,
            end_offset: old.end_offset,
            high_watermark: old.high_watermark,
            last_origin: old.last_origin,
            snapshot: old.snapshot,
            next_file_number: old.next_file_number,
            damaged_from: old.damaged_from,
            cleaned_to: 0,
            epochs: old.epochs,
            segments: old.segments.into_iter().map(Into::into).collect(),
        }
    }
}

impl From<SegmentCheckpoint1> for SegmentCheckpoint {
    fn from(old: SegmentCheckpoint1) -> Self {
        Self {
            base_offset: old.base_offset,
            end_offset: old.end_offset,
            number: old.number,
            valid_length: old.valid_length,
            payload_bytes: old.payload_bytes,
            max_timestamp: old.max_timestamp,
            max_timestamp_offset: old.max_timestamp_offset,
            first_timestamp: old.first_timestamp,
            created_ms: TIME_UNKNOWN,
            appended_ms: TIME_UNKNOWN,
            snapshot: old.snapshot,
        }
    }
}
