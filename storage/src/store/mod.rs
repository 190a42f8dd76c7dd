//! The store of one shard: the handle that the broker holds.

mod background;
mod lifecycle;
pub(crate) mod line;
mod manage;

use std::rc::Rc;

use futures_util::future::{Either, FutureExt, select};
use strandline_runtime::{Monotonic, Runtime};

use crate::budget::MemoryBudget;
use crate::checkpoint::cleanup::is_behind;
use crate::disk::Disk;
use crate::error::{Stopped, StoreError};
use crate::format::frame::frame_bytes;
use crate::log::Log;
use crate::log::run::RunState;
use crate::options::CleanerOptions;
use crate::shard::Shard;
use crate::stats::{LongestTurns, StoreStats};
use crate::types::{Offset, Sequence, TopicPartitionId};

use self::line::Place;

/// An append that takes more than this part of the budget does not wait in the line.
const LINE_PART: u64 = 4;

/// Told by the journal, in the same poll in which a flush (or, for relaxed topics, a write) completed.
/// Implementations may read ends and wake tasks; they must not append from inside the call.
pub trait StoreObserver<D: Disk> {
    /// The acknowledged end of each of `logs` moved; everything up to `sequence` is durable.
    fn advanced(&self, sequence: Sequence, logs: &[Log<D>]);

    /// The start offset of `log` moved, durably. Whoever has no use for that need not listen.
    fn start_moved(&self, _log: &Log<D>) {}

    /// The shard stopped: nothing will be acknowledged any more.
    fn stopped(&self, reason: &Stopped);
}

/// What a replay found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// Whether the store was closed cleanly before.
    pub clean: bool,
    /// Entries replayed.
    pub entries: u64,
    /// Frames and extents replayed.
    pub frames: u64,
    /// Whether the journal ended in entries that were never acknowledged.
    pub torn_tail: bool,
    /// Whether rot was met: then no unknown replica may be created empty.
    pub rot: bool,
    /// Logs with damage, and the first offset that may be gone.
    pub damaged: Vec<(TopicPartitionId, Offset)>,
    /// The metadata offset that the checkpoint covers.
    pub metadata_offset: u64,
}

/// The store of one shard. Clones are handles of one store.
pub struct Store<R: Runtime, D: Disk> {
    pub(crate) runtime: R,
    shard: Rc<Shard<D>>,
}

impl<R: Runtime, D: Disk> Clone for Store<R, D> {
    fn clone(&self) -> Self {
        Self {
            runtime: self.runtime.clone(),
            shard: self.shard.clone(),
        }
    }
}

impl<R: Runtime, D: Disk> Store<R, D> {
    /// The log of a partition.
    pub fn log(&self, id: TopicPartitionId) -> Option<Log<D>> {
        let inner = self.shard.logs.borrow().get(&id).cloned()?;
        Some(Log::new(inner, self.shard.clone()))
    }

    /// Changes what the cleaner is told; a cleaning under way keeps its memory.
    pub fn set_cleaner_options(&self, options: CleanerOptions) {
        if self.shard.cleaner.replace(options) != options {
            self.shard.cleaner_wake.notify_all();
        }
    }

    /// All logs, in no order.
    pub fn logs(&self) -> Vec<Log<D>> {
        let logs = self.shard.logs.borrow();
        logs.values()
            .map(|inner| Log::new(inner.clone(), self.shard.clone()))
            .collect()
    }

    /// Says up to which metadata offset assignments were applied; in the checkpoint once their creation is
    /// durable.
    pub fn set_metadata_offset(&self, offset: u64) {
        self.shard.metadata_offset.set(offset);
    }

    /// The offset last set, or the checkpoint's.
    pub fn metadata_offset(&self) -> u64 {
        self.shard.metadata_offset.get()
    }

    /// Waits until memory and journal have room for an append of `bytes`, behind those that wait already: small appends must not
    /// keep a larger one out for ever. What takes a large part of the whole budget waits beside the line instead, since it
    /// may wait long and must not hold up the others.
    ///
    /// # Errors
    /// [`StoreError::Busy`] when there was none before the deadline: back-pressure, nothing is lost.
    pub async fn admit(&self, bytes: usize, deadline: Monotonic) -> Result<(), StoreError> {
        let shard = &self.shard;
        let in_line = bytes as u64 <= shard.budget.limit() / LINE_PART;
        if (shard.line.is_empty() || !in_line) && self.has_room(bytes) {
            return Ok(shard.check_running()?);
        }
        let place = in_line.then(|| shard.line.enter());
        let mut timeout = None;
        loop {
            let (progress, freed) = (shard.progress.wait(), shard.budget.freed().wait());
            let turn = place.as_ref().filter(|place| !place.is_first()).map(Place::turn);
            shard.check_running()?;
            if turn.is_none() && self.has_room(bytes) {
                return Ok(());
            }
            let now = self.runtime.now();
            if now >= deadline {
                return Err(StoreError::Busy);
            }
            shard.request_useful_round();
            let sleep = timeout.get_or_insert_with(|| Box::pin(self.runtime.sleep(deadline.since(now))));
            let moved = match turn {
                Some(turn) => Either::Left(turn),
                None => Either::Right(select(progress, freed).map(drop)),
            };
            if let Either::Right(_) = select(moved, sleep).await {
                timeout = None;
            }
        }
    }

    fn has_room(&self, bytes: usize) -> bool {
        let shard = &self.shard;
        if shard.full.get() {
            // The append refuses it: nothing to wait for.
            return true;
        }
        if !self.journal_has_room(bytes) {
            return false;
        }
        let limit = shard.budget.limit();
        let dirty = shard.counters.dirty_bytes.get() + bytes as u64;
        let idle = shard.counters.dirty_bytes.get() == 0;
        (idle || dirty <= limit / 2) && shard.budget.has_room(bytes as u64)
    }

    fn journal_has_room(&self, bytes: usize) -> bool {
        let journal = self.shard.journal.borrow();
        let frame = frame_bytes(bytes);
        // What goes straight to a segment takes no more than its piece.
        let direct = bytes >= self.shard.options.direct_bytes || frame > journal.pending.frame_bytes_max();
        journal.has_room(if direct { 0 } else { frame })
    }

    /// Completes when the entry and all below are flushed.
    ///
    /// # Errors
    /// When the shard stops before.
    pub async fn durable(&self, sequence: Sequence) -> Result<(), Stopped> {
        self.shard.durable(sequence).await
    }

    /// Completes when the entry and all below are written.
    ///
    /// # Errors
    /// When the shard stops before.
    pub async fn written(&self, sequence: Sequence) -> Result<(), Stopped> {
        loop {
            let progress = self.shard.progress.wait();
            if self.shard.journal.borrow().in_flight.written() >= sequence {
                return Ok(());
            }
            if let Some(stopped) = self.stopped() {
                return Err(stopped);
            }
            progress.await;
        }
    }

    /// The highest durable sequence.
    pub fn durable_sequence(&self) -> Sequence {
        self.shard.journal.borrow().in_flight.durable()
    }

    /// Why the store stopped, once it has.
    pub fn stopped(&self) -> Option<Stopped> {
        self.shard.stopped.borrow().clone()
    }

    /// Whether appends are refused for want of disk space.
    pub fn is_full(&self) -> bool {
        self.shard.full.get()
    }

    /// The byte budget, also for connections.
    pub fn budget(&self) -> MemoryBudget {
        self.shard.budget.clone()
    }

    /// Runs a round of write-back and a checkpoint now.
    ///
    /// # Errors
    /// When the shard stops before it ends.
    pub async fn checkpoint(&self) -> Result<(), Stopped> {
        self.shard.checkpoint().await
    }

    /// Completes when the files that no checkpoint names any more are unlinked.
    ///
    /// # Errors
    /// When the shard stops before.
    pub async fn unlinked(&self) -> Result<(), Stopped> {
        loop {
            let progress = self.shard.progress.wait();
            if let Some(stopped) = self.stopped() {
                return Err(stopped);
            }
            if !is_behind(&self.shard) {
                return Ok(());
            }
            progress.await;
        }
    }

    /// The logs of which something cannot be read.
    pub fn damaged_logs(&self) -> Vec<TopicPartitionId> {
        let logs = self.shard.logs.borrow();
        let damaged = logs
            .values()
            .filter(|log| log.state.borrow().damaged_from.is_some());
        damaged.map(|log| log.id).collect()
    }

    /// Counters. Walks the runs in memory.
    pub fn stats(&self) -> StoreStats {
        let shard = &self.shard;
        let counters = &shard.counters;
        let journal = shard.journal.borrow();
        let logs = shard.logs.borrow();
        let cached_bytes = logs.values().map(|log| {
            let state = log.state.borrow();
            let clean = state.runs.iter().take_while(|run| run.state == RunState::Clean);
            clean.map(|run| run.memory.reserved_bytes()).sum::<u64>()
        });
        StoreStats {
            appends: counters.appends.get(),
            appends_refused: counters.appends_refused.get(),
            append_bytes: counters.append_bytes.get(),
            entries: counters.entries.get(),
            entry_bytes: counters.entry_bytes.get(),
            flushes: counters.flushes.get(),
            flush_ns: counters.flush_ns.get(),
            write_ns: counters.write_ns.get(),
            commit_ns: counters.commit_ns.get(),
            extents: counters.extents.get(),
            extent_bytes: counters.extent_bytes.get(),
            checkpoints: counters.checkpoints.get(),
            write_back_bytes: counters.write_back_bytes.get(),
            disk_full: shard.full.get(),
            disk_free_bytes: shard.free_bytes.get(),
            disk_reserve_bytes: shard.options.disk_free_min_bytes,
            damaged_logs: logs
                .values()
                .filter(|log| log.state.borrow().damaged_from.is_some())
                .count() as u64,
            journal_bytes: journal.ring.total_bytes(),
            journal_used_bytes: journal.ring.used_bytes(),
            dirty_bytes: counters.dirty_bytes.get(),
            cached_bytes: cached_bytes.sum(),
            memory_used_bytes: shard.budget.used(),
            memory_reads: counters.memory_reads.get(),
            disk_reads: counters.disk_reads.get(),
            disk_read_bytes: counters.disk_read_bytes.get(),
            open_files: shard.files.len() as u64,
            retention_rounds: counters.retention_rounds.get(),
            retention_segments_by_size: counters.retention_segments_by_size.get(),
            retention_segments_by_time: counters.retention_segments_by_time.get(),
            retention_bytes: counters.retention_bytes.get(),
            cleaner: counters.cleaner.get(),
            longest_turns: LongestTurns {
                retention: counters.retention_turn.get(),
                cleaner: counters.cleaner_turn.get(),
                write_back: counters.write_back_turn.get(),
            },
        }
    }
}
