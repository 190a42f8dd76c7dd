//! Finding records by timestamp.

use strandline_wire::batch::{BatchHeader, RecordPosition, find_timestamp, max_timestamp_record};

use super::Log;
use super::read::{BatchSlice, ReadRequest};
use crate::disk::Disk;
use crate::error::ReadError;
use crate::segment::index::{READ_BYTES, ensure_index};
use crate::types::Offset;

/// What a compressed batch may decompress to while it is searched: what it did when it was let in, under the bound of then.
/// It is walked as a stream, so that this takes no memory.
const DECOMPRESSED_BYTES_MAX: usize = usize::MAX;

/// Batches in a row, of a segment or a run, and what is recorded of them.
#[derive(Clone, Copy)]
struct Part {
    /// The largest timestamp, and the first offset of its batch.
    timestamp: i64,
    offset: Offset,
    /// The part of it that is in bounds.
    from: Offset,
    to: Offset,
    /// Whether the batch that has the largest timestamp is surely in bounds.
    is_exact: bool,
}

/// Where a search begins.
enum Begin {
    /// In the segment of this number.
    Segment(u64),
    /// At this offset, in memory; or there is nothing to be found.
    Memory(Option<Offset>),
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

impl TimestampOffset {
    fn new(found: RecordPosition, header: &BatchHeader) -> Self {
        Self {
            offset: found.offset,
            timestamp: found.timestamp,
            leader_epoch: header.partition_leader_epoch,
        }
    }
}

/// Whether a timestamp at an offset is larger, or as large and earlier.
fn may_be_before(timestamp: i64, offset: Offset, best: &TimestampOffset) -> bool {
    (timestamp, best.offset) > (best.timestamp, offset)
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
        loop {
            let start = self.start_offset();
            let result = self.search_timestamp(timestamp, upper_bound).await;
            if !self.was_overtaken(start, &result) {
                return result;
            }
        }
    }

    /// The record with the largest timestamp: of several, the first of the earliest batch.
    ///
    /// # Errors
    /// [`ReadError`] as a read of the batches that are looked at.
    pub async fn max_timestamp(&self, upper_bound: Offset) -> Result<Option<TimestampOffset>, ReadError> {
        loop {
            let start = self.start_offset();
            let result = self.search_max_timestamp(upper_bound).await;
            if !self.was_overtaken(start, &result) {
                return result;
            }
        }
    }

    /// Whether the log's start went past a search that began at `start`: then it is to begin anew.
    fn was_overtaken<T>(&self, start: Offset, result: &Result<T, ReadError>) -> bool {
        matches!(result, Err(ReadError::OutOfRange { .. })) && self.start_offset() > start
    }

    async fn search_timestamp(
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

    async fn search_max_timestamp(&self, upper_bound: Offset) -> Result<Option<TimestampOffset>, ReadError> {
        let parts = self.parts(upper_bound);
        let mut known: Option<Part> = None;
        for part in parts.iter().filter(|part| part.is_exact) {
            if known.is_none_or(|known| part.timestamp > known.timestamp) {
                known = Some(*part);
            }
        }
        let mut best = None;
        if let Some(known) = known
            && let Some(batch) = self.read_up_to(1, known.offset, upper_bound).await?.first()
        {
            let header = self.header(batch, known.offset)?;
            best = self.largest_record(batch, &header)?;
        }
        // Where a bound cuts off what is recorded, the batches themselves tell: of the newest appends that are not
        // acknowledged yet, and of those around the log's start.
        for part in parts.iter().filter(|part| !part.is_exact) {
            if best.is_none_or(|best| may_be_before(part.timestamp, part.from, &best)) {
                self.look_through(part, &mut best).await?;
            }
        }
        Ok(best)
    }

    /// What the log consists of within its start and the bound, oldest first.
    fn parts(&self, upper_bound: Offset) -> Vec<Part> {
        let state = self.inner.state.borrow();
        let segments_end = state.segments_end();
        let segments = state.segments.iter().map(|segment| {
            let meta = &segment.meta;
            (
                meta.max_timestamp,
                meta.max_timestamp_offset,
                meta.base_offset,
                meta.end_offset,
            )
        });
        let runs = state.runs.iter().filter(|run| run.end_offset > segments_end);
        let runs = runs.map(|run| {
            (
                run.max_timestamp,
                run.max_timestamp_offset,
                run.base_offset,
                run.end_offset,
            )
        });
        let parts = segments.chain(runs).map(|(timestamp, offset, base, end)| Part {
            timestamp,
            offset,
            from: base.max(state.durable_start()),
            to: end.min(upper_bound),
            is_exact: offset >= state.durable_start() && end <= upper_bound,
        });
        parts
            .filter(|part| part.offset >= 0 && part.from < part.to)
            .collect()
    }

    /// Looks at every batch of a part for a record that comes before `best`.
    async fn look_through(&self, part: &Part, best: &mut Option<TimestampOffset>) -> Result<(), ReadError> {
        let mut next = part.from;
        while next < part.to {
            let batches = self.read_from(next, part.to).await?;
            let Some(last) = batches.last() else {
                return Ok(());
            };
            for batch in &batches {
                let header = self.header(batch, next)?;
                let may =
                    |best: &TimestampOffset| may_be_before(header.max_timestamp, header.base_offset, best);
                if !best.as_ref().is_none_or(may) {
                    continue;
                }
                // The log may start behind the record that the batch's header means.
                let found = self.largest_record(batch, &header)?;
                if let Some(found) = found
                    && best.is_none_or(|best| may_be_before(found.timestamp, found.offset, &best))
                {
                    *best = Some(found);
                }
            }
            next = self.header(last, next)?.last_offset() + 1;
        }
        Ok(())
    }

    /// Where to begin the search: at or before the first batch with such a timestamp.
    async fn search_start(&self, timestamp: i64) -> Result<Option<Offset>, ReadError> {
        loop {
            let number = match self.first_with_timestamp(timestamp) {
                Begin::Segment(number) => number,
                Begin::Memory(offset) => return Ok(offset),
            };
            let built = ensure_index(&self.shard, &self.inner, number).await;
            if !self.has_segment(number) && !self.is_deleted() {
                // Cleaned or dropped meanwhile.
                continue;
            }
            built.map_err(|error| self.read_error(number, self.start_offset(), error))?;
            let state = self.inner.state.borrow();
            let segment = state
                .segments
                .iter()
                .find(|segment| segment.meta.number == number);
            let offset = segment.map_or(state.durable_start(), |segment| {
                segment
                    .index
                    .offset_for_timestamp(timestamp)
                    .unwrap_or(segment.meta.base_offset)
            });
            return Ok(Some(offset.max(state.durable_start())));
        }
    }

    /// Where the first batch with such a timestamp may be.
    fn first_with_timestamp(&self, timestamp: i64) -> Begin {
        let state = self.inner.state.borrow();
        let start = state.durable_start();
        let segment = state
            .segments
            .iter()
            .find(|segment| segment.meta.end_offset > start && segment.meta.max_timestamp >= timestamp);
        match segment {
            Some(segment) => Begin::Segment(segment.meta.number),
            None => {
                let run = state
                    .runs
                    .iter()
                    .find(|run| run.end_offset > start && run.max_timestamp >= timestamp);
                Begin::Memory(run.map(|run| run.base_offset.max(start)))
            }
        }
    }

    async fn read_from(&self, offset: Offset, upper_bound: Offset) -> Result<Vec<BatchSlice<D>>, ReadError> {
        self.read_up_to(READ_BYTES, offset, upper_bound).await
    }

    /// Batches of so many bytes, one at least.
    async fn read_up_to(
        &self,
        max_bytes: usize,
        offset: Offset,
        upper_bound: Offset,
    ) -> Result<Vec<BatchSlice<D>>, ReadError> {
        let request = ReadRequest {
            offset,
            max_bytes,
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
