//! Why a batch is refused, and the error code that says so.

use crate::ErrorCode;

/// What is wrong with a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BatchErrorKind {
    /// Damaged on the way: the CRC does not match, or the length is below a header's. Clients send it again.
    Corrupt,
    /// The CRC matches, but the batch breaks a rule: not exactly one batch, counts, control bit, sequence, records that do
    /// not parse or decompress, a null key in a compacted topic.
    InvalidRecord,
    /// A timestamp outside the bounds, or of a type that clients may not set.
    InvalidTimestamp,
    /// Larger than `max.message.bytes`, as sent or after recompression.
    TooLarge,
    /// Decompresses to more than the cap.
    DecompressedTooLarge,
    /// A magic below 2 (or above).
    UnsupportedMagic,
    /// A codec that the request's version may not carry, or that Kafka does not have.
    UnsupportedCompression,
}

/// One record's part in a refusal (`record_errors` of the Produce answer, KIP-467).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordError {
    /// The record's index in its batch.
    pub batch_index: i32,
    /// Why this record.
    pub message: Option<String>,
}

/// Why a batch is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct BatchError {
    /// What is wrong.
    pub kind: BatchErrorKind,
    /// The text for the client and the log line.
    pub message: String,
    /// The records that caused it; empty when it is the whole batch. At most [`BatchError::RECORD_ERRORS_MAX`].
    pub record_errors: Vec<RecordError>,
}

impl BatchError {
    /// At most this many records are named: a batch of a million keyless records must not make an answer of a hundred
    /// megabytes.
    pub const RECORD_ERRORS_MAX: usize = 1_000;

    /// An error of the whole batch.
    pub fn new(kind: BatchErrorKind, message: impl Into<String>) -> Self {
        BatchError {
            kind,
            message: message.into(),
            record_errors: Vec::new(),
        }
    }

    pub(crate) fn corrupt(message: impl Into<String>) -> Self {
        BatchError::new(BatchErrorKind::Corrupt, message)
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        BatchError::new(BatchErrorKind::InvalidRecord, message)
    }

    /// The error code of the Produce answer.
    pub fn code(&self) -> ErrorCode {
        match self.kind {
            BatchErrorKind::Corrupt => ErrorCode::CorruptMessage,
            BatchErrorKind::InvalidRecord | BatchErrorKind::UnsupportedMagic => ErrorCode::InvalidRecord,
            BatchErrorKind::InvalidTimestamp => ErrorCode::InvalidTimestamp,
            BatchErrorKind::TooLarge | BatchErrorKind::DecompressedTooLarge => ErrorCode::MessageTooLarge,
            BatchErrorKind::UnsupportedCompression => ErrorCode::UnsupportedCompressionType,
        }
    }
}
