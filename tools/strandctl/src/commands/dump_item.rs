//! What `log dump` prints: one item a line, as text or as JSON.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::Serialize;
use strandline_storage::LogId;
use strandline_storage::format::checkpoint::Checkpoint;
use strandline_storage::format::frame::FrameHeader;
use strandline_storage::format::piece::Control;
use strandline_wire::batch::{BatchHeader, Record};

use crate::log_files::journal::Entry;
use crate::output::text_or_base64;

/// One thing found. Positions are bytes in the file; offsets are Kafka's, ends exclusive.
#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum Item {
    /// A whole checkpoint.
    Checkpoint {
        /// The slot.
        file: PathBuf,
        /// Higher in each checkpoint.
        generation: u64,
        /// True when the store was closed after it.
        clean: bool,
        /// The journal's id.
        journal_id: u64,
        /// Files of the ring.
        journal_files: u32,
        /// Bytes of each.
        journal_file_bytes: u64,
        /// The file where replay starts.
        replay_file: u32,
        /// The position in it.
        replay_position: u64,
        /// The sequence before it.
        replay_after_sequence: u64,
        /// The newest open.
        incarnation: u64,
        /// The next log's id.
        next_log_id: u64,
        /// The metadata offset it includes.
        metadata_offset: u64,
    },
    /// A log of a checkpoint.
    Log {
        /// Its id.
        log: u64,
        /// Topic id and partition.
        partition: String,
        /// The first readable offset.
        start_offset: i64,
        /// The offset after the last frame.
        end_offset: i64,
        /// A lower bound of the high watermark.
        high_watermark: i64,
        /// The journal sequence it includes.
        sequence: u64,
        /// The first offset that may be gone.
        damaged_from: Option<i64>,
        /// How many segments it has.
        segments: usize,
    },
    /// A file that does not read as what it should be.
    Unreadable {
        /// The file.
        file: PathBuf,
        /// Why.
        reason: String,
    },
    /// A journal entry.
    Entry {
        /// The file.
        file: PathBuf,
        /// Where in it.
        position: u64,
        /// Its sequence.
        sequence: u64,
        /// The open that wrote it.
        incarnation: u64,
        /// The highest sequence known durable then.
        durable: u64,
        /// How many pieces it has.
        pieces: u32,
        /// Its bytes.
        length: u32,
    },
    /// A piece of an entry that is not a frame.
    Change {
        /// The log.
        log: u64,
        /// What changes.
        change: String,
    },
    /// A frame.
    Frame {
        /// The log, in a journal.
        #[serde(skip_serializing_if = "Option::is_none")]
        log: Option<u64>,
        /// Its position, in a segment.
        #[serde(skip_serializing_if = "Option::is_none")]
        position: Option<u64>,
        /// The first offset.
        base_offset: i64,
        /// The offset after the last.
        end_offset: i64,
        /// The leader's epoch.
        leader_epoch: i32,
        /// The largest timestamp.
        max_timestamp: i64,
        /// Bytes of the batch.
        payload_bytes: u32,
        /// True after offsets that the cleaner removed.
        gap: bool,
    },
    /// A frame of a log that is not known here.
    FrameOfUnknownLog {
        /// The log.
        log: u64,
        /// Bytes of the frame.
        bytes: usize,
    },
    /// Filling up to the next page.
    Pad {
        /// Where.
        position: u64,
        /// How many bytes.
        bytes: usize,
    },
    /// The Kafka batch of the frame before.
    Batch {
        /// Its codec.
        codec: &'static str,
        /// Its records.
        records: i32,
        /// True when the broker set the timestamps.
        log_append_time: bool,
        /// The idempotent producer, or -1.
        producer_id: i64,
        /// Its epoch, or -1.
        producer_epoch: i16,
        /// The first sequence, or -1.
        base_sequence: i32,
        /// True inside a transaction.
        transactional: bool,
        /// True for a marker.
        control: bool,
    },
    /// A record.
    Record(RecordItem),
    /// A segment.
    Segment {
        /// The file.
        file: PathBuf,
        /// Topic id and partition.
        partition: String,
        /// The bytes that the checkpoint vouches for.
        valid_length: Option<u64>,
    },
    /// Nothing more stands in a segment.
    End {
        /// Where.
        position: u64,
        /// How that is known.
        reason: String,
    },
    /// Bytes that should be whole and are not.
    Damage {
        /// The file.
        file: PathBuf,
        /// Where in it.
        position: u64,
        /// What is wrong.
        reason: String,
    },
}

/// A record of a batch.
#[derive(Debug, Serialize)]
pub(super) struct RecordItem {
    offset: i64,
    timestamp: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_base64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value_base64: Option<String>,
    headers: usize,
}

impl RecordItem {
    /// A record of the batch with this header.
    pub(super) fn new(header: &BatchHeader, record: &Record<'_>) -> Self {
        let split = |bytes| match text_or_base64(bytes) {
            Ok(text) => (text.map(str::to_owned), None),
            Err(base64) => (None, Some(base64)),
        };
        let (key, key_base64) = split(record.key);
        let (value, value_base64) = split(record.value);
        Self {
            offset: header.base_offset.saturating_add(record.offset_delta.into()),
            timestamp: record.timestamp,
            key,
            key_base64,
            value,
            value_base64,
            headers: record.headers().count(),
        }
    }
}

impl Item {
    /// A checkpoint and its logs.
    pub(super) fn of_checkpoint(file: &Path, checkpoint: &Checkpoint) -> Vec<Self> {
        let head = Self::Checkpoint {
            file: file.to_owned(),
            generation: checkpoint.generation,
            clean: checkpoint.clean,
            journal_id: checkpoint.journal_id,
            journal_files: checkpoint.journal_files,
            journal_file_bytes: checkpoint.journal_file_bytes,
            replay_file: checkpoint.replay_start.file,
            replay_position: checkpoint.replay_start.position,
            replay_after_sequence: checkpoint.replay_start.sequence,
            incarnation: checkpoint
                .incarnations
                .last()
                .map_or(0, |newest| newest.incarnation),
            next_log_id: checkpoint.next_log_id,
            metadata_offset: checkpoint.metadata_offset,
        };
        let logs = checkpoint.logs.iter().map(|log| Self::Log {
            log: log.log_id,
            partition: log.id().to_string(),
            start_offset: log.start_offset,
            end_offset: log.end_offset,
            high_watermark: log.high_watermark,
            sequence: log.sequence,
            damaged_from: (log.damaged_from >= 0).then_some(log.damaged_from),
            segments: log.segments.len(),
        });
        std::iter::once(head).chain(logs).collect()
    }

    /// A journal entry.
    pub(super) fn of_entry(file: &Path, entry: &Entry) -> Self {
        Self::Entry {
            file: file.to_owned(),
            position: entry.at.position,
            sequence: entry.header.sequence,
            incarnation: entry.header.incarnation,
            durable: entry.header.durable,
            pieces: entry.header.piece_count,
            length: entry.header.length,
        }
    }

    /// A piece that is not a frame.
    pub(super) fn of_control(log: LogId, control: &Control) -> Self {
        let change = match control {
            Control::Create {
                topic_id,
                partition,
                start_offset,
                damaged,
            } => {
                let damaged = if *damaged { ", damaged" } else { "" };
                let topic_id = uuid::Uuid::from_bytes(*topic_id);
                format!("create {topic_id}-{partition} at offset {start_offset}{damaged}")
            }
            Control::Delete => "delete".to_owned(),
            Control::Truncate { offset } => format!("truncate to offset {offset}"),
            Control::StartOffset { offset } => format!("start offset {offset}"),
            Control::EpochStart { epoch, offset } => {
                format!("leader epoch {epoch} starts at offset {offset}")
            }
            Control::Extent(extent) => format!(
                "extent of offsets {} to {} in segment {:020}-{} at {}, {} bytes",
                extent.base_offset,
                extent.end_offset,
                extent.segment_base,
                extent.segment_number,
                extent.position,
                extent.length
            ),
            Control::AcceptLoss => "loss accepted".to_owned(),
        };
        Self::Change { log: log.0, change }
    }

    /// A frame of a journal (`log`) or of a segment (`position`).
    pub(super) fn of_frame(log: Option<LogId>, position: Option<u64>, header: &FrameHeader) -> Self {
        Self::Frame {
            log: log.map(|log| log.0),
            position,
            base_offset: header.base_offset,
            end_offset: header.end_offset(),
            leader_epoch: header.leader_epoch,
            max_timestamp: header.max_timestamp,
            payload_bytes: header.payload_length,
            gap: header.flags & strandline_storage::format::frame::FLAG_GAP != 0,
        }
    }

    /// A batch.
    pub(super) fn of_batch(header: &BatchHeader) -> Self {
        Self::Batch {
            codec: header.codec().map_or("unknown", |codec| codec.name()),
            records: header.record_count,
            log_append_time: header.is_log_append_time(),
            producer_id: header.producer_id,
            producer_epoch: header.producer_epoch,
            base_sequence: header.base_sequence,
            transactional: header.is_transactional(),
            control: header.is_control(),
        }
    }
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Checkpoint {
                file,
                generation,
                clean,
                journal_files,
                journal_file_bytes,
                replay_file,
                replay_position,
                replay_after_sequence,
                incarnation,
                next_log_id,
                metadata_offset,
                ..
            } => write!(
                f,
                "checkpoint {}: generation {generation}, {}, incarnation {incarnation}, journal of {journal_files} x \
                 {journal_file_bytes} bytes, replay from journal-{replay_file} at {replay_position} after sequence \
                 {replay_after_sequence}, next log {next_log_id}, metadata offset {metadata_offset}",
                file.display(),
                if *clean { "clean" } else { "in use" },
            ),
            Self::Log {
                log,
                partition,
                start_offset,
                end_offset,
                high_watermark,
                sequence,
                damaged_from,
                segments,
            } => {
                write!(
                    f,
                    "  log {log} is {partition}: offsets {start_offset} to {end_offset}, high watermark \
                     {high_watermark}, sequence {sequence}, {segments} segments"
                )?;
                damaged_from.map_or(Ok(()), |offset| write!(f, ", damaged from offset {offset}"))
            }
            Self::Unreadable { file, reason } => write!(f, "{}: {reason}", file.display()),
            Self::Entry {
                file,
                position,
                sequence,
                incarnation,
                durable,
                pieces,
                length,
            } => write!(
                f,
                "entry {} at {position}: sequence {sequence}, incarnation {incarnation}, durable {durable}, {pieces} \
                 pieces, {length} bytes",
                file.display()
            ),
            Self::Change { log, change } => write!(f, "  log {log}: {change}"),
            Self::Frame {
                log,
                position,
                base_offset,
                end_offset,
                leader_epoch,
                max_timestamp,
                payload_bytes,
                gap,
            } => {
                f.write_str("  frame")?;
                log.map_or(Ok(()), |log| write!(f, " of log {log}"))?;
                position.map_or(Ok(()), |position| write!(f, " at {position}"))?;
                write!(
                    f,
                    ": offsets {base_offset} to {end_offset}, leader epoch {leader_epoch}, max timestamp \
                     {max_timestamp}, {payload_bytes} bytes{}",
                    if *gap { ", after a gap" } else { "" }
                )
            }
            Self::FrameOfUnknownLog { log, bytes } => {
                write!(
                    f,
                    "  frame of log {log}, which is gone: {bytes} bytes, not verified"
                )
            }
            Self::Pad { position, bytes } => write!(f, "  pad at {position}: {bytes} bytes"),
            Self::Batch {
                codec,
                records,
                log_append_time,
                producer_id,
                producer_epoch,
                base_sequence,
                transactional,
                control,
            } => {
                write!(f, "    batch: {records} records, codec {codec}")?;
                if *producer_id >= 0 {
                    write!(
                        f,
                        ", producer {producer_id} epoch {producer_epoch} sequence {base_sequence}"
                    )?;
                }
                for (flag, name) in [
                    (log_append_time, "log append time"),
                    (transactional, "transactional"),
                    (control, "control"),
                ] {
                    if *flag {
                        write!(f, ", {name}")?;
                    }
                }
                Ok(())
            }
            Self::Record(record) => record.fmt(f),
            Self::Segment {
                file,
                partition,
                valid_length,
            } => {
                write!(f, "segment {} of {partition}", file.display())?;
                valid_length.map_or(Ok(()), |length| write!(f, ": {length} bytes in the checkpoint"))
            }
            Self::End { position, reason } => write!(f, "  end at {position}: {reason}"),
            Self::Damage {
                file,
                position,
                reason,
            } => {
                write!(f, "DAMAGE {} at {position}: {reason}", file.display())
            }
        }
    }
}

impl fmt::Display for RecordItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "      record {}: timestamp {}", self.offset, self.timestamp)?;
        let fields = [
            ("key", &self.key, &self.key_base64),
            ("value", &self.value, &self.value_base64),
        ];
        for (name, text, base64) in fields {
            match (text, base64) {
                (Some(text), _) => write!(f, ", {name} {text:?}")?,
                (None, Some(base64)) => write!(f, ", {name} base64 {base64}")?,
                (None, None) => write!(f, ", {name} null")?,
            }
        }
        if self.headers > 0 {
            write!(f, ", {} headers", self.headers)
        } else {
            Ok(())
        }
    }
}
