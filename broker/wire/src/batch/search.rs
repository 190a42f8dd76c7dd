//! Finding a record by its timestamp inside a batch. A compressed batch is streamed, up to the record.

use std::ops::ControlFlow;

use super::walk::{split, walk};
use super::{BatchError, BatchHeader};

/// Where a record stands and when it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordPosition {
    /// The absolute offset.
    pub offset: i64,
    /// The timestamp in milliseconds.
    pub timestamp: i64,
}

impl RecordPosition {
    fn new(header: &BatchHeader, offset_delta: i32, timestamp: i64) -> Self {
        RecordPosition {
            offset: header.base_offset.wrapping_add(i64::from(offset_delta)),
            timestamp,
        }
    }
}

/// The first record from `from_offset` on whose timestamp is at or after `target_ms`. `None` when the batch has none: the log
/// may start in the middle of a batch. `decompressed_max_bytes` caps what a compressed batch may decompress to.
pub fn find_timestamp(
    batch: &[u8],
    target_ms: i64,
    from_offset: i64,
    decompressed_max_bytes: usize,
) -> Result<Option<RecordPosition>, BatchError> {
    let (header, data) = split(batch)?;
    walk(&header, data, decompressed_max_bytes, |_, record| {
        let timestamp = header.timestamp_of(record.timestamp_delta);
        let position = RecordPosition::new(&header, record.offset_delta, timestamp);
        if timestamp >= target_ms && position.offset >= from_offset {
            ControlFlow::Break(position)
        } else {
            ControlFlow::Continue(())
        }
    })
}

/// The first record that has the largest timestamp of all from `from_offset` on; of a batch with append time its first one.
/// `None` when there is none.
pub fn max_timestamp_record(
    batch: &[u8],
    from_offset: i64,
    decompressed_max_bytes: usize,
) -> Result<Option<RecordPosition>, BatchError> {
    let (header, data) = split(batch)?;
    let mut largest: Option<RecordPosition> = None;
    walk(&header, data, decompressed_max_bytes, |_, record| {
        let timestamp = header.timestamp_of(record.timestamp_delta);
        let position = RecordPosition::new(&header, record.offset_delta, timestamp);
        if position.offset < from_offset {
            return ControlFlow::Continue(());
        }
        if largest.is_none_or(|largest| timestamp > largest.timestamp) {
            largest = Some(position);
        }
        if header.is_log_append_time() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    })?;
    Ok(largest)
}
