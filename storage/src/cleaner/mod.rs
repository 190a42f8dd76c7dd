//! Compaction: of each key the newest record stays, at its offset; older ones go, and tombstones after their time.
//!
//! A cleaning reads the dirty part of a log and maps each key to its newest offset, as far as the memory for that goes. Then it
//! writes every segment up to there anew and swaps it in, one after the other: a change of the next checkpoint, so that a crash
//! at any time leaves the old segments or the new ones. What it must never do:
//!
//! - touch a segment that is not wholly under the checkpoint, or that the log goes on in;
//! - reach the high watermark, a transaction that is open, or a record younger than `min.compaction.lag.ms`;
//! - change an offset: what is missing is a gap, which the frame behind it says;
//! - lose the last batch of a producer, which holds its sequence, or the last one of a segment, which holds its end;
//! - drop a tombstone before a reader had `delete.retention.ms` to see it.

mod choice;
mod offset_map;
mod output;
mod run;
pub(crate) mod swap;
mod throttle;
mod transactions;

use strandline_runtime::Runtime;

pub use self::choice::{CompactionSettings, Dirtiness};
use self::choice::{SegmentFacts, look};
use self::offset_map::OffsetMap;
use self::run::Run;
use self::swap::Mark;
use self::throttle::Throttle;
use crate::disk::Disk;
use crate::error::Stopped;
use crate::format::checkpoint::SegmentCheckpoint;
use crate::log::Log;
use crate::store::Store;
use crate::types::Offset;

/// What a cleaning is told.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cleaning {
    /// The topic's settings.
    pub settings: CompactionSettings,
    /// Nothing from here on is touched: the high watermark, or the first offset of a transaction that is open.
    pub bound: Offset,
    /// Memory for the map of keys. What has no place in it waits for another cleaning.
    pub map_bytes: u64,
    /// How full the map may be (`log.cleaner.io.buffer.load.factor`).
    pub map_load: f64,
}

/// What a cleaning did.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cleaned {
    /// Where the log was dirty from.
    pub from: Offset,
    /// Up to where it is clean; equal to `from` when nothing could be cleaned.
    pub to: Offset,
    /// Whether the map had room for all that may be cleaned.
    pub is_whole: bool,
    /// Bytes read to map keys.
    pub map_bytes_read: u64,
    /// Bytes read to be written anew.
    pub bytes_read: u64,
    /// Bytes of batches written.
    pub bytes_written: u64,
    /// Records met.
    pub records_read: u64,
    /// Records kept.
    pub records_kept: u64,
    /// Segments that went.
    pub segments_before: u64,
    /// Segments that took their place.
    pub segments_after: u64,
    /// Keys in the map.
    pub keys: u64,
}

/// Why a log was not cleaned, or not to the end. What was swapped in before is in force.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CleanError {
    /// The shard stopped.
    #[error(transparent)]
    Stopped(#[from] Stopped),
    /// The log was deleted, cut or moved on meanwhile, is no longer to be compacted, or is being cleaned: nothing is wrong.
    #[error("the log changed while it was being cleaned")]
    Changed,
    /// The new segment has no home: to be tried again.
    #[error("free space is too low for a cleaned segment and half of strandline.disk.free.min.bytes")]
    NoSpace,
    /// The system refused a read: to be tried again.
    #[error("{0}")]
    Io(String),
    /// What stands in a segment is no batch, or not what was written: no use trying again.
    #[error("{0}")]
    Unreadable(String),
}

impl CleanError {
    fn unreadable(error: impl std::fmt::Display) -> Self {
        Self::Unreadable(error.to_string())
    }
}

impl<D: Disk> Log<D> {
    /// How dirty the log is; `None` when it is damaged or gone. `bound` as in [`Cleaning`].
    pub fn dirtiness(&self, settings: &CompactionSettings, bound: Offset) -> Option<Dirtiness> {
        let facts = self.segment_facts();
        let state = self.inner.state.borrow();
        if state.deleted || state.closed || state.damaged_from.is_some() {
            return None;
        }
        let now_ms = (self.shard.clock.wall_ms)();
        let ends = (state.start_offset, state.end_offset);
        Some(look(&facts, ends, state.cleaned_to, bound, settings, now_ms))
    }

    /// Whether a checkpoint has all that may be cleaned.
    pub(crate) fn is_settled(&self, settings: &CompactionSettings, bound: Offset) -> bool {
        let Some(dirty) = self
            .dirtiness(settings, bound)
            .filter(|dirty| dirty.dirty_bytes > 0)
        else {
            return true;
        };
        let settled = self.settled(dirty.first_uncleanable);
        settled
            .last()
            .is_some_and(|last| last.end_offset >= dirty.first_uncleanable)
    }

    /// Everything below was cleaned; the log's start when nothing was.
    pub fn cleaned_to(&self) -> Offset {
        let state = self.inner.state.borrow();
        state.cleaned_to.clamp(state.start_offset, state.end_offset)
    }

    /// What the cleaner could not get over, if so: it leaves the log alone until the next open.
    pub fn uncleanable(&self) -> Option<String> {
        self.inner.state.borrow().uncleanable.clone()
    }

    /// When a cleaning last ended, milliseconds since the Unix epoch; since the open.
    pub fn last_cleaned_ms(&self) -> Option<i64> {
        self.inner.state.borrow().last_cleaned_ms
    }

    fn segment_facts(&self) -> Vec<SegmentFacts> {
        let infos = self.segments();
        let facts = infos.iter().map(|info| SegmentFacts {
            base_offset: info.base_offset,
            end_offset: info.end_offset,
            payload_bytes: info.payload_bytes,
            first_timestamp: info.first_timestamp,
            max_timestamp: info.max_timestamp,
        });
        facts.collect()
    }

    /// The segments that the last checkpoint has as they are, from the oldest on, up to `bound`; never the newest one.
    fn settled(&self, bound: Offset) -> Vec<SegmentCheckpoint> {
        let state = self.inner.state.borrow();
        let committed = self.shard.committed.borrow();
        let known = committed
            .logs
            .binary_search_by_key(&self.inner.log_id.0, |log| log.log_id);
        let Ok(at) = known else { return Vec::new() };
        let known = &committed.logs[at].segments;
        let closed = state.segments.split_last().map_or(&[][..], |(_, closed)| closed);
        let is_known = |meta: &SegmentCheckpoint| {
            let same = known.iter().find(|known| known.number == meta.number);
            same.is_some_and(|known| {
                known.valid_length == meta.valid_length && known.end_offset == meta.end_offset
            })
        };
        let metas = closed.iter().map(|segment| segment.meta);
        // The next round drops what is below the start.
        metas
            .skip_while(|meta| meta.end_offset <= state.start_offset)
            .take_while(|meta| meta.end_offset <= bound && is_known(meta))
            .collect()
    }
}

impl<R: Runtime, D: Disk> Store<R, D> {
    /// Cleans a log, however dirty it is; one cleaning of a store at a time keeps the memory bounded.
    ///
    /// # Errors
    /// [`CleanError`].
    pub async fn clean(&self, log: &Log<D>, task: &Cleaning) -> Result<Cleaned, CleanError> {
        if !log.is_settled(&task.settings, task.bound) {
            log.shard.checkpoint().await?;
        }
        clean(&self.runtime, log, task).await
    }
}

/// See [`Store::clean`]; what no checkpoint covers yet is left for another cleaning.
pub(crate) async fn clean<R: Runtime, D: Disk>(
    runtime: &R,
    log: &Log<D>,
    task: &Cleaning,
) -> Result<Cleaned, CleanError> {
    let _mark = Mark::set(&log.inner).ok_or(CleanError::Changed)?;
    let while_compacted = log.inner.state.borrow().settings.compacts;
    let dirty = log
        .dirtiness(&task.settings, task.bound)
        .ok_or(CleanError::Changed)?;
    let mut done = Cleaned {
        from: dirty.first_dirty,
        to: dirty.first_dirty,
        is_whole: true,
        ..Cleaned::default()
    };
    if dirty.dirty_bytes == 0 {
        return Ok(done);
    }
    let mut segments = log.settled(dirty.first_uncleanable);
    let Some(last) = segments.last().filter(|last| last.end_offset > dirty.first_dirty) else {
        return Ok(done);
    };
    let offsets = (last.end_offset - dirty.first_dirty) as u64;
    let map = OffsetMap::new(task.map_bytes, task.map_load, offsets, runtime.random_u64());
    let _reserved = log.shard.budget.claim(map.bytes());
    done.is_whole = last.end_offset == dirty.first_uncleanable;
    let producers = log.inner.state.borrow().producers.last_offsets();
    let mut run = Run {
        runtime,
        shard: &log.shard,
        log: &log.inner,
        task,
        map,
        throttle: Throttle::new(log.shard.cleaner.get().bytes_per_second, runtime.now()),
        producers,
        now_ms: runtime.wall_clock_ms(),
        while_compacted,
        done,
    };
    let end = run.build_map(&segments, dirty.first_dirty).await?;
    run.done.keys = run.map.len() as u64;
    segments.retain(|segment| segment.base_offset < end);
    run.done.is_whole &= end >= dirty.first_uncleanable;
    run.clean(&segments, end).await?;
    run.done.to = end;
    Ok(run.done)
}
