//! One cleaning of one log: a map of the newest offset of each dirty key, then every segment anew without what the map says is
//! old.

use std::collections::HashMap;
use std::io;
use std::rc::Rc;

use strandline_runtime::Runtime;
use strandline_wire::batch::{Batch, BatchHeader, Filter, FilterRules, Filtered, emptied};

use super::offset_map::OffsetMap;
use super::output::{Output, WriteError};
use super::swap::{Swap, swap};
use super::throttle::Throttle;
use super::transactions::Transactions;
use super::{CleanError, Cleaned, Cleaning};
use crate::disk::{Disk, OpenMode};
use crate::format::checkpoint::SegmentCheckpoint;
use crate::format::names;
use crate::log::state::LogInner;
use crate::segment::index::{FrameReader, ReadFrame, SegmentError};
use crate::shard::Shard;
use crate::space;
use crate::types::Offset;

/// Unpacked bytes of a batch between two looks at whether others want to run.
const STEP_BYTES: usize = 64 * 1024;

/// What a compressed batch may decompress to: what it did when it was let in, under the bound of then. One record at a time is
/// in memory.
const DECOMPRESSED_BYTES_MAX: usize = usize::MAX;

/// Bytes of one read; the next is under way meanwhile.
const READ_AHEAD_BYTES: usize = 2 << 20;

/// What a cleaning writes between two looks at the free space.
const SPACE_STEP_BYTES: u64 = 4 << 20;

/// A cleaning under way.
pub(super) struct Run<'a, R: Runtime, D: Disk> {
    pub(super) runtime: &'a R,
    pub(super) shard: &'a Rc<Shard<D>>,
    pub(super) log: &'a Rc<LogInner<D>>,
    pub(super) task: &'a Cleaning,
    pub(super) map: OffsetMap,
    pub(super) throttle: Throttle,
    /// The last offset of each producer's newest batch, which keeps its sequence in the log.
    pub(super) producers: HashMap<i64, Offset>,
    pub(super) now_ms: i64,
    /// Whether the topic was compacted when this began: then it ends once the topic no longer is.
    pub(super) while_compacted: bool,
    pub(super) done: Cleaned,
}

/// What is carried from frame to frame.
struct Walk {
    transactions: Transactions,
    /// Where the frame that was kept last ends.
    kept_end: Offset,
    /// The last offset that the map tells of.
    mapped_to: Offset,
}

impl<R: Runtime, D: Disk> Run<'_, R, D> {
    /// Whether to go on.
    fn check(&self) -> Result<(), CleanError> {
        self.shard.check_running()?;
        let state = self.log.state.borrow();
        let kept_whole = self.while_compacted && !state.settings.compacts;
        match state.deleted || state.closed || kept_whole {
            true => Err(CleanError::Changed),
            false => Ok(()),
        }
    }

    async fn breathe(&mut self, bytes: usize) -> Result<(), CleanError> {
        self.throttle.count(bytes as u64);
        self.runtime.yield_if_needed().await;
        loop {
            self.check()?;
            let limit = self.shard.cleaner.get().bytes_per_second;
            self.throttle.limit(limit, self.runtime.now());
            if self.throttle.pause(self.runtime).await {
                return Ok(());
            }
        }
    }

    /// Whether the segment is still one of the log: DeleteRecords and retention take it away at any time.
    fn check_segment(&self, segment: &SegmentCheckpoint) -> Result<(), CleanError> {
        let state = self.log.state.borrow();
        let mut known = state.segments.iter().map(|known| known.meta.number);
        match known.any(|number| number == segment.number) {
            true => Ok(()),
            false => Err(CleanError::Changed),
        }
    }

    async fn reader(&self, segment: &SegmentCheckpoint) -> Result<FrameReader<D::File>, CleanError> {
        self.check_segment(segment)?;
        let (shard, log) = (self.shard, self.log);
        let name = names::segment(segment.base_offset, segment.number);
        let path = shard.log_folder(log.id, log.log_id).join(name);
        let (files, disk) = (&shard.files, &shard.disk);
        let file = files
            .get(disk, &path, log.log_id, segment.number, OpenMode::ReadWrite)
            .await;
        let file = match file {
            Ok(file) => file,
            Err(error) => {
                self.check_segment(segment)?;
                return Err(self.read_error(SegmentError::of(&path, &error)));
            }
        };
        Ok(FrameReader::new(file, log.key, 0, segment.valid_length)
            .counted(&shard.budget)
            .ahead(READ_AHEAD_BYTES))
    }

    /// Of a log that is gone, a segment is gone for a reason.
    fn read_error(&self, error: SegmentError) -> CleanError {
        match self.check() {
            Err(error) => error,
            Ok(()) => match error {
                SegmentError::Damaged(reason) => CleanError::Unreadable(reason),
                SegmentError::Io(reason) => CleanError::Io(reason),
            },
        }
    }

    async fn next(
        &self,
        reader: &mut FrameReader<D::File>,
    ) -> Result<Option<(ReadFrame<D::File>, BatchHeader)>, CleanError> {
        let next = reader.next().await.map_err(|error| self.read_error(error))?;
        let Some((_, frame)) = next else { return Ok(None) };
        let header = BatchHeader::decode(frame.payload()).map_err(CleanError::unreadable)?;
        Ok(Some((frame, header)))
    }

    /// Maps the keys from `from` on; the offset after the last one that the map tells of.
    pub(super) async fn build_map(
        &mut self,
        segments: &[SegmentCheckpoint],
        from: Offset,
    ) -> Result<Offset, CleanError> {
        let mut transactions = Transactions::new(Vec::new());
        let mut mapped_to = from - 1;
        for segment in segments.iter().filter(|segment| segment.end_offset > from) {
            let mut reader = self.reader(segment).await?;
            while let Some((frame, header)) = self.next(&mut reader).await? {
                self.breathe(frame.header.frame_bytes()).await?;
                self.done.map_bytes_read += frame.header.frame_bytes() as u64;
                if header.last_offset() < from {
                    continue;
                }
                let batch = Batch {
                    bytes: frame.payload(),
                    header,
                };
                if !transactions.is_spent(&batch) && !header.is_control() {
                    let is_full = self.map_batch(&frame, &header, from, &mut mapped_to).await?;
                    if is_full {
                        return Ok(mapped_to + 1);
                    }
                }
                mapped_to = mapped_to.max(header.last_offset());
            }
            mapped_to = segment.end_offset - 1;
        }
        Ok(mapped_to + 1)
    }

    /// Maps the keys of a batch; whether the map became full before its end.
    async fn map_batch(
        &mut self,
        frame: &ReadFrame<D::File>,
        header: &BatchHeader,
        from: Offset,
        mapped_to: &mut Offset,
    ) -> Result<bool, CleanError> {
        let mut walk = Filter::new(frame.payload(), self.rules(false)).map_err(CleanError::unreadable)?;
        let mut is_full = false;
        loop {
            let map = &mut self.map;
            let step = walk.advance(STEP_BYTES, |record| {
                let offset = record.offset(header);
                if !is_full && offset >= from {
                    is_full = record.key.is_some_and(|key| !map.put(key, offset));
                    if !is_full {
                        *mapped_to = offset;
                    }
                }
                false
            });
            if step.map_err(CleanError::unreadable)?.is_some() || is_full {
                return Ok(is_full);
            }
            self.runtime.yield_if_needed().await;
        }
    }

    fn rules(&self, is_marker: bool) -> FilterRules {
        FilterRules {
            delete_horizon_ms: self.now_ms.saturating_add(self.task.settings.delete_retention_ms),
            is_marker,
            decompressed_max_bytes: DECOMPRESSED_BYTES_MAX,
        }
    }

    /// Writes the segments anew, as few as fit, and swaps each new one in; the log is clean up to `end` with the last one.
    pub(super) async fn clean(
        &mut self,
        inputs: &[SegmentCheckpoint],
        end: Offset,
    ) -> Result<(), CleanError> {
        let mut walk = Walk {
            transactions: Transactions::new(Vec::new()),
            kept_end: inputs.first().map_or(0, |first| first.base_offset),
            mapped_to: end - 1,
        };
        let mut rest = inputs;
        while let Some(first) = rest.first() {
            let (number, segment_bytes) = {
                let mut state = self.log.state.borrow_mut();
                (state.draw_file_number(), state.settings.segment_bytes)
            };
            let meta = SegmentCheckpoint {
                number,
                valid_length: 0,
                payload_bytes: 0,
                max_timestamp: -1,
                max_timestamp_offset: -1,
                ..*first
            };
            let created = Output::create(self.shard, self.log, meta).await;
            let output = created.map_err(|error| self.write_error(error, None))?;
            let result = self.clean_group(rest, segment_bytes, output, &mut walk).await;
            let (segment, count) = match result {
                Ok(done) => done,
                Err(error) => {
                    self.unlink(&meta, &error).await;
                    return Err(error);
                }
            };
            self.done.bytes_written += segment.meta.payload_bytes;
            let (group, left) = rest.split_at(count);
            rest = left;
            let cleaned_to = rest.is_empty().then_some(end);
            let change = Swap {
                inputs: group.to_vec(),
                segment,
                cleaned_to,
            };
            if let Err(error) = swap(self.shard, self.log, change, || self.check()).await {
                self.unlink(&meta, &error).await;
                return Err(error);
            }
            self.done.segments_before += count as u64;
            self.done.segments_after += 1;
        }
        Ok(())
    }

    /// Unlinks a new segment that no checkpoint named, at once: its space may be what is missing. A store that stopped or is
    /// being closed is left as it is: its last checkpoint may have taken the segment, and the next open removes what none names.
    async fn unlink(&self, meta: &SegmentCheckpoint, error: &CleanError) {
        if matches!(error, CleanError::Stopped(_)) || self.shard.is_stopped() {
            return;
        }
        let (shard, log) = (self.shard, self.log);
        shard.files.forget(log.log_id, meta.number);
        let name = names::segment(meta.base_offset, meta.number);
        let path = shard.log_folder(log.id, log.log_id).join(name);
        match shard.disk.remove_file(&path).await {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                tracing::warn!(log = %log.id, %error, "a segment that is not used stays until the next start");
            }
        }
    }

    /// Writes one new segment, and says of how many it was made.
    async fn clean_group(
        &mut self,
        inputs: &[SegmentCheckpoint],
        segment_bytes: u64,
        mut output: Output<D>,
        walk: &mut Walk,
    ) -> Result<(crate::segment::Segment, usize), CleanError> {
        let meta = output.segment.meta;
        let mut count = 0;
        let mut unlooked = SPACE_STEP_BYTES;
        loop {
            let input = inputs[count];
            // Whether the next one still fits, however much of it stays.
            let next = inputs.get(count + 1);
            let joins = |written: u64| {
                next.is_some_and(|next| {
                    written + next.payload_bytes <= segment_bytes
                        && next.end_offset - meta.base_offset <= i64::from(i32::MAX)
                })
            };
            let mut reader = self.reader(&input).await?;
            let mut joined = None;
            while let Some((frame, header)) = self.next(&mut reader).await? {
                let is_last = frame.header.end_offset() >= input.end_offset;
                if is_last {
                    joined = Some(joins(
                        output.payload_bytes() + u64::from(frame.header.payload_length),
                    ));
                }
                // The last batch of a segment stays, empty if need be: what follows the segment follows it without a gap.
                let keeps_end = is_last && joined == Some(false);
                let before = output.payload_bytes();
                let length = frame.header.frame_bytes();
                if unlooked + length as u64 > SPACE_STEP_BYTES {
                    self.check_space(length as u64).await?;
                    unlooked = 0;
                }
                let written = self
                    .clean_frame(frame, header, keeps_end, &mut output, walk)
                    .await;
                written?;
                self.done.bytes_read += length as u64;
                let wrote = (output.payload_bytes() - before) as usize;
                unlooked += wrote as u64;
                self.breathe(length + wrote).await?;
            }
            count += 1;
            output.segment.meta.end_offset = input.end_offset;
            output.segment.meta.appended_ms = input.appended_ms;
            if !joined.unwrap_or_else(|| joins(output.payload_bytes())) {
                break;
            }
        }
        let number = meta.number;
        let finished = output.finish().await;
        Ok((
            finished.map_err(|error| self.write_error(error, Some(number)))?,
            count,
        ))
    }

    async fn clean_frame(
        &mut self,
        frame: ReadFrame<D::File>,
        header: BatchHeader,
        keeps_end: bool,
        output: &mut Output<D>,
        walk: &mut Walk,
    ) -> Result<(), CleanError> {
        let batch = Batch {
            bytes: frame.payload(),
            header,
        };
        let is_spent = walk.transactions.is_spent(&batch);
        let horizon_passed = header
            .delete_horizon_ms()
            .is_some_and(|horizon| horizon <= self.now_ms);
        let is_marker = header.is_control();
        let filtered = match is_spent && (!is_marker || horizon_passed) {
            true => Filtered::Nothing,
            false => {
                self.filter(&batch, is_marker, is_spent, horizon_passed, walk.mapped_to)
                    .await?
            }
        };
        self.done.records_read += header.record_count.max(0) as u64;
        let last_of_producer = header.has_producer_id()
            && self.producers.get(&header.producer_id) == Some(&header.last_offset());
        let (gap, end_offset) = (
            frame.header.base_offset > walk.kept_end,
            frame.header.end_offset(),
        );
        let (kept, written) = match filtered {
            Filtered::Unchanged => (header.record_count, output.copy(&frame, gap).await),
            Filtered::Changed(bytes, new) => {
                let header = frame.header;
                // Of a large batch no more than two copies are in memory: what was read goes before what is written comes.
                drop(frame);
                let written = output.rewrite(&header, &bytes, &new, gap).await;
                (new.record_count, written)
            }
            Filtered::Nothing if !keeps_end && !last_of_producer => return Ok(()),
            Filtered::Nothing if header.record_count == 0 => (0, output.copy(&frame, gap).await),
            Filtered::Nothing => {
                let (bytes, new) = emptied(&header);
                (0, output.rewrite(&frame.header, &bytes, &new, gap).await)
            }
        };
        let number = output.segment.meta.number;
        written.map_err(|error| self.write_error(error, Some(number)))?;
        self.done.records_kept += kept.max(0) as u64;
        walk.kept_end = end_offset;
        Ok(())
    }

    async fn filter(
        &self,
        batch: &Batch<'_>,
        is_marker: bool,
        is_spent: bool,
        horizon_passed: bool,
        mapped_to: Offset,
    ) -> Result<Filtered, CleanError> {
        let rules = self.rules(is_marker && is_spent);
        let mut filter = Filter::new(batch.bytes, rules).map_err(CleanError::unreadable)?;
        loop {
            let step = filter.advance(STEP_BYTES, |record| {
                let offset = record.offset(&batch.header);
                if is_marker || offset > mapped_to {
                    return true;
                }
                // Without a key nothing tells what would replace it: such a record is from before the topic was compacted.
                let Some(key) = record.key else { return false };
                let is_newest = self.map.get(key).is_none_or(|newest| offset >= newest);
                is_newest && (!record.is_tombstone || !horizon_passed)
            });
            if let Some(filtered) = step.map_err(CleanError::unreadable)? {
                return Ok(filtered);
            }
            self.runtime.yield_if_needed().await;
        }
    }

    /// Whether the disk has room for the next step of a new segment, and for half of the reserve besides. A disk that is full
    /// of what can be cleaned gets space by nothing else, so the cleaner may use the other half; what the journals hold has a
    /// home in this one.
    async fn check_space(&self, batch: u64) -> Result<(), CleanError> {
        let free = space::look(self.shard).await;
        let needed = SPACE_STEP_BYTES + batch + self.shard.options.disk_free_min_bytes / 2;
        match free.is_none_or(|free| free >= needed) {
            true => Ok(()),
            false => Err(CleanError::NoSpace),
        }
    }

    fn write_error(&self, error: WriteError, number: Option<u64>) -> CleanError {
        if error.is_full {
            return CleanError::NoSpace;
        }
        if let Err(gone) = self.check() {
            return gone;
        }
        // As with any other write to a segment: nothing is known of the disk any more.
        if let Some(number) = number {
            self.shard.files.forget(self.log.log_id, number);
        }
        self.shard.stop(&error.reason);
        CleanError::Io(error.reason)
    }
}
