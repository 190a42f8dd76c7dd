//! Finding a record by its timestamp inside a batch.

use super::BatchError;

/// Where a record stands and when it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordPosition {
    /// The absolute offset.
    pub offset: i64,
    /// The timestamp in milliseconds.
    pub timestamp: i64,
}

/// The first record whose timestamp is at or after `target_ms`. `None` when the batch has none. `decompressed_max_bytes`
/// caps what a compressed batch may decompress to.
pub fn find_timestamp(
    batch: &[u8],
    target_ms: i64,
    decompressed_max_bytes: usize,
) -> Result<Option<RecordPosition>, BatchError> {
    let _ = (batch, target_ms, decompressed_max_bytes);
    todo!()
}

/// The first record that has the batch's largest timestamp; of a batch with append time its first record. `None` only for a
/// batch without records.
pub fn max_timestamp_record(
    batch: &[u8],
    decompressed_max_bytes: usize,
) -> Result<Option<RecordPosition>, BatchError> {
    let _ = (batch, decompressed_max_bytes);
    todo!()
}
