//! Finding records by timestamp.

use strandline_wire::batch::{BatchHeader, RecordPosition, find_timestamp, max_timestamp_record};

use super::Log;
use super::read::{BatchSlice, ReadRequest};
use crate::disk::Disk;
use crate::error::ReadError;
use crate::segment::index::{READ_BYTES, ensure_index};
use crate::types::Offset;

/// What a compressed batch may decompress to while it is searched.
const DECOMPRESSED_BYTES_MAX: usize = 100 << 20;

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

impl TimestampOffset {
    fn new(found: RecordPosition, header: &BatchHeader) -> Self {
        Self {
            offset: found.offset,
            timestamp: found.timestamp,
            leader_epoch: header.partition_leader_epoch,
        }
    }
}

impl<D: Disk> Log<D> {
    /// The first record whose timestamp is at least `timestamp`, in batches below `upper_bound`.
    ///
    /// # Errors
    /// [`ReadError`] as a read of the batches that are looked at.
    pub async fn offset_for_timestamp(
        &self,
        timestamp: i64,
        upper_bound: Offset,
    ) -> Result<Option<TimestampOffset>, ReadError> {
        let start = self.start_offset();
        let Some(mut next) = self.search_start(timestamp).await? else {
            return Ok(None);
        };
        loop {
            let batches = self.read_from(next, upper_bound).await?;
            let Some(last) = batches.last() else {
                return Ok(None);
            };
            for batch in &batches {
                let header = self.header(batch, next)?;
                if header.max_timestamp < timestamp {
                    continue;
                }
                let found = self.find(batch, timestamp, start, next)?;
                if let Some(found) = found {
                    return Ok(Some(TimestampOffset::new(found, &header)));
                }
            }
            next = self.header(last, next)?.last_offset() + 1;
        }
    }

    /// The record with the largest timestamp: of several, the first of the earliest batch.
    ///
    /// # Errors
    /// [`ReadError`] as a read of the batches that are looked at.
    pub async fn max_timestamp(&self, upper_bound: Offset) -> Result<Option<TimestampOffset>, ReadError> {
        let (largest, known) = self.largest_timestamp(upper_bound);
        if let (Some((_, offset)), true) = (largest, known) {
            let batches = self.read_from(offset, upper_bound).await?;
            let Some(batch) = batches.first() else {
                return Ok(None);
            };
            let header = self.header(batch, offset)?;
            return self.largest_record(batch, &header);
        }
        // The batch that a segment names as its largest is out of bounds: look at all of them.
        let mut best: Option<TimestampOffset> = None;
        let mut next = self.start_offset();
        loop {
            let batches = self.read_from(next, upper_bound).await?;
            let Some(last) = batches.last() else {
                return Ok(best);
            };
            for batch in &batches {
                let header = self.header(batch, next)?;
                if best.is_some_and(|best| header.max_timestamp <= best.timestamp) {
                    continue;
                }
                // The log may start behind the record that the batch's header means.
                let found = self.largest_record(batch, &header)?;
                best = match (best, found) {
                    (Some(best), Some(found)) if found.timestamp <= best.timestamp => Some(best),
                    (best, found) => found.or(best),
                };
            }
            next = self.header(last, next)?.last_offset() + 1;
        }
    }

    /// The largest timestamp and its batch, and whether that is exact within the bounds.
    fn largest_timestamp(&self, upper_bound: Offset) -> (Option<(i64, Offset)>, bool) {
        let state = self.inner.state.borrow();
        let segments_end = state.segments_end();
        let segments = state.segments.iter().map(|segment| {
            (
                segment.meta.max_timestamp,
                segment.meta.max_timestamp_offset,
                segment.meta.end_offset,
            )
        });
        let runs = state.runs.iter().filter(|run| run.base_offset >= segments_end);
        let runs = runs.map(|run| (run.max_timestamp, run.max_timestamp_offset, run.end_offset));
        let mut largest: Option<(i64, Offset)> = None;
        let mut exact = upper_bound >= state.end_offset;
        for (timestamp, offset, end) in segments.chain(runs) {
            if end <= state.start_offset || offset < 0 {
                continue;
            }
            exact &= offset >= state.start_offset;
            if largest.is_none_or(|(best, _)| timestamp > best) {
                largest = Some((timestamp, offset));
            }
        }
        (largest, exact)
    }

    /// Where to begin the search: at or before the first batch with such a timestamp.
    async fn search_start(&self, timestamp: i64) -> Result<Option<Offset>, ReadError> {
        let number = {
            let state = self.inner.state.borrow();
            let start = state.start_offset;
            let segment = state
                .segments
                .iter()
                .find(|segment| segment.meta.end_offset > start && segment.meta.max_timestamp >= timestamp);
            match segment {
                Some(segment) => segment.meta.number,
                None => {
                    let run = state
                        .runs
                        .iter()
                        .find(|run| run.end_offset > start && run.max_timestamp >= timestamp);
                    return Ok(run.map(|run| run.base_offset.max(start)));
                }
            }
        };
        let built = ensure_index(&self.shard, &self.inner, number).await;
        built.map_err(|error| self.read_error(self.start_offset(), error))?;
        let state = self.inner.state.borrow();
        let segment = state
            .segments
            .iter()
            .find(|segment| segment.meta.number == number);
        let offset = segment.map_or(state.start_offset, |segment| {
            segment
                .index
                .offset_for_timestamp(timestamp)
                .unwrap_or(segment.meta.base_offset)
        });
        Ok(Some(offset.max(state.start_offset)))
    }

    async fn read_from(&self, offset: Offset, upper_bound: Offset) -> Result<Vec<BatchSlice<D>>, ReadError> {
        let request = ReadRequest {
            offset,
            max_bytes: READ_BYTES,
            upper_bound,
            at_least_one: true,
        };
        Ok(self.read(request).await?.batches)
    }

    fn header(&self, batch: &[u8], near: Offset) -> Result<BatchHeader, ReadError> {
        BatchHeader::decode(batch).map_err(|error| self.damaged(near, error.to_string()))
    }

    fn find(
        &self,
        batch: &[u8],
        timestamp: i64,
        start: Offset,
        near: Offset,
    ) -> Result<Option<RecordPosition>, ReadError> {
        find_timestamp(batch, timestamp, start, DECOMPRESSED_BYTES_MAX)
            .map_err(|error| self.damaged(near, error.to_string()))
    }

    fn largest_record(
        &self,
        batch: &[u8],
        header: &BatchHeader,
    ) -> Result<Option<TimestampOffset>, ReadError> {
        let found = max_timestamp_record(batch, self.start_offset(), DECOMPRESSED_BYTES_MAX)
            .map_err(|error| self.damaged(header.base_offset, error.to_string()))?;
        Ok(found.map(|found| TimestampOffset::new(found, header)))
    }
}
