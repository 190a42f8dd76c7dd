//! One log: the handle that the broker holds, and what it does.

use std::rc::Rc;

use strandline_wire::batch::ValidatedBatch;

use crate::disk::Disk;
use crate::error::{AppendError, ReadError, StoreError};
use crate::options::LogSettings;
use crate::types::{LogId, Offset, Sequence, TopicPartitionId};

/// What an append gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// The offset of the batch's first record.
    pub base_offset: Offset,
    /// The offset of its last one.
    pub last_offset: Offset,
}

/// What to read.
#[derive(Clone, Copy, Debug)]
pub struct ReadRequest {
    /// The first record wanted; the batch that holds it is returned whole.
    pub offset: Offset,
    /// How many payload bytes at most.
    pub max_bytes: usize,
    /// No batch that reaches this offset: the high watermark, last stable offset or log end offset.
    pub upper_bound: Offset,
    /// The first batch is returned even if it is larger than `max_bytes`.
    pub at_least_one: bool,
}

/// What a read gave: whole batches, in order, without gaps in between.
pub struct ReadResult<D: Disk> {
    /// The batches.
    pub batches: Vec<BatchSlice<D>>,
}

/// The bytes of one batch as stored; pins the memory they are in.
pub struct BatchSlice<D: Disk> {
    _disk: std::marker::PhantomData<D>,
}

impl<D: Disk> std::ops::Deref for BatchSlice<D> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        todo!()
    }
}

/// Where a timestamp was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimestampOffset {
    /// The record's offset.
    pub offset: Offset,
    /// Its timestamp.
    pub timestamp: i64,
    /// The leader epoch of its batch.
    pub leader_epoch: i32,
}

/// One segment of a log, for listings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentInfo {
    /// Its first offset.
    pub base_offset: Offset,
    /// The offset after its last one.
    pub end_offset: Offset,
    /// Its payload, in bytes.
    pub payload_bytes: u64,
    /// The largest timestamp in it; -1 when it is empty.
    pub max_timestamp: i64,
}

/// A log. Clones are handles of one log; they outlive its deletion and then give errors.
pub struct Log<D: Disk> {
    disk: Rc<D>,
}

impl<D: Disk> Clone for Log<D> {
    fn clone(&self) -> Self {
        Self { disk: self.disk.clone() }
    }
}

impl<D: Disk> Log<D> {
    /// The partition.
    pub fn id(&self) -> TopicPartitionId {
        todo!()
    }
    /// This life of the replica.
    pub fn log_id(&self) -> LogId {
        todo!()
    }
    /// The first offset that may be read.
    pub fn start_offset(&self) -> Offset {
        todo!()
    }
    /// The offset the next batch gets.
    pub fn end_offset(&self) -> Offset {
        todo!()
    }
    /// Everything below is flushed.
    pub fn flushed_end(&self) -> Offset {
        todo!()
    }
    /// Everything below is written.
    pub fn written_end(&self) -> Offset {
        todo!()
    }
    /// The end that counts for acknowledgement: flushed, or written for a relaxed topic.
    pub fn acknowledged_end(&self) -> Offset {
        todo!()
    }
    /// The high watermark as last set.
    pub fn high_watermark(&self) -> Offset {
        todo!()
    }
    /// Sets the high watermark; a lower bound of it is in the checkpoint.
    pub fn set_high_watermark(&self, _offset: Offset) {
        todo!()
    }
    /// The epoch that appends carry; -1 before the first [`Log::begin_epoch`].
    pub fn leader_epoch(&self) -> i32 {
        todo!()
    }
    /// Starts a leader epoch at the log's end. The piece precedes the epoch's frames in the journal.
    pub async fn begin_epoch(&self, _epoch: i32) -> Result<Sequence, StoreError> {
        todo!()
    }
    /// Appends a batch: never waits. It counts once [`Log::acknowledged_end`] is above its last offset; the
    /// observer tells when that moves.
    pub fn append(&self, _batch: &ValidatedBatch<'_>) -> Result<Appended, AppendError> {
        todo!()
    }
    /// Completes when [`Log::acknowledged_end`] is at least `offset`.
    pub async fn acknowledged(&self, _offset: Offset) -> Result<(), StoreError> {
        todo!()
    }
    /// Completes when the log's creation is durable.
    pub async fn created(&self) -> Result<(), StoreError> {
        todo!()
    }
    /// Reads whole batches; an empty result when `offset` is at or above the upper bound.
    pub async fn read(&self, _request: ReadRequest) -> Result<ReadResult<D>, ReadError> {
        todo!()
    }
    /// The first record whose timestamp is at least `timestamp`, in batches below `upper_bound`.
    pub async fn offset_for_timestamp(
        &self,
        _timestamp: i64,
        _upper_bound: Offset,
    ) -> Result<Option<TimestampOffset>, ReadError> {
        todo!()
    }
    /// The record with the largest timestamp: of several, the first of the earliest batch.
    pub async fn max_timestamp(&self, _upper_bound: Offset) -> Result<Option<TimestampOffset>, ReadError> {
        todo!()
    }
    /// The largest epoch at or below `epoch`, and the offset where the next one starts (or the log end);
    /// `None` when no such epoch is known.
    pub fn end_offset_for_epoch(&self, _epoch: i32) -> Option<(i32, Offset)> {
        todo!()
    }
    /// Raises the start offset (DeleteRecords, retention); lower values change nothing.
    pub async fn set_start_offset(&self, _offset: Offset) -> Result<Sequence, StoreError> {
        todo!()
    }
    /// Cuts everything at and above `offset`; the returned sequence carries the cut.
    pub async fn truncate_to(&self, _offset: Offset) -> Result<Sequence, StoreError> {
        todo!()
    }
    /// The settings in force.
    pub fn settings(&self) -> LogSettings {
        todo!()
    }
    /// Changes the settings.
    pub fn set_settings(&self, _settings: LogSettings) {
        todo!()
    }
    /// Payload bytes between start and end, whole segments counted.
    pub fn size_bytes(&self) -> u64 {
        todo!()
    }
    /// The segments, oldest first; the last may still be in memory alone.
    pub fn segments(&self) -> Vec<SegmentInfo> {
        todo!()
    }
    /// The first offset that may be gone, of a damaged log.
    pub fn damaged_from(&self) -> Option<Offset> {
        todo!()
    }
    /// Whether the log was deleted or set aside.
    pub fn is_deleted(&self) -> bool {
        todo!()
    }
}
