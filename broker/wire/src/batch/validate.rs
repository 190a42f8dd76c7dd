//! Validating a produced batch as Kafka does.

use std::borrow::Cow;

use super::{BatchError, BatchHeader, TimestampType, TopicCompression};

/// What a topic (and the request) ask of a produced batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValidationRules {
    /// The broker's clock, milliseconds.
    pub now_ms: i64,
    /// `message.timestamp.type`.
    pub timestamp_type: TimestampType,
    /// `message.timestamp.before.max.ms`.
    pub before_max_ms: i64,
    /// `message.timestamp.after.max.ms`.
    pub after_max_ms: i64,
    /// `max.message.bytes`: the batch as sent, and as stored.
    pub max_message_bytes: usize,
    /// `compression.type`.
    pub compression: TopicCompression,
    /// `cleanup.policy` includes `compact`: every record needs a key.
    pub compacted: bool,
    /// `strandline.decompressed.batch.max.bytes`.
    pub decompressed_max_bytes: usize,
    /// False for Produce below version 7.
    pub zstd_allowed: bool,
}

impl Default for ValidationRules {
    /// Kafka's topic defaults, at time 0.
    fn default() -> Self {
        ValidationRules {
            now_ms: 0,
            timestamp_type: TimestampType::CreateTime,
            before_max_ms: i64::MAX,
            after_max_ms: 3_600_000,
            max_message_bytes: 1_048_588,
            compression: TopicCompression::Producer,
            compacted: false,
            decompressed_max_bytes: 100 << 20,
            zstd_allowed: true,
        }
    }
}

/// A batch that may be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidatedBatch<'a> {
    /// The batch: as sent, or rewritten (then its header is already `header`, CRC included).
    pub bytes: Cow<'a, [u8]>,
    /// The header as it shall be stored; base offset and leader epoch are still as sent.
    pub header: BatchHeader,
    /// True when `header` differs from the one in `bytes`: after the copy, [`super::patch_and_recrc`] is needed.
    pub header_changed: bool,
    /// The offset delta of the first record with the largest timestamp (0 with append time).
    pub offset_of_max_timestamp: i32,
}

/// Validates a produced record set, which must be exactly one batch, and says how it shall be stored.
pub fn validate<'a>(batch: &'a [u8], rules: &ValidationRules) -> Result<ValidatedBatch<'a>, BatchError> {
    let _ = (batch, rules);
    todo!()
}
