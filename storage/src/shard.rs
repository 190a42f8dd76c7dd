//! The shard: what the store's handles, logs and tasks share. One thread, no locks.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::rc::{Rc, Weak};

use strandline_runtime::Monotonic;
use strandline_runtime::local::Event;

use crate::budget::MemoryBudget;
use crate::cache::Cache;
use crate::checkpoint::cleanup::Unlink;
use crate::disk::Disk;
use crate::error::Stopped;
use crate::format::checkpoint::Checkpoint;
use crate::format::names;
use crate::format::piece::Control;
use crate::journal::Journal;
use crate::lock::Lock;
use crate::log::append_buffer::AppendBuffer;
use crate::log::state::LogInner;
use crate::options::{CleanerOptions, StoreOptions};
use crate::segment::files::Files;
use crate::segment::read_ahead::ReadAhead;
use crate::stats::Counters;
use crate::store::StoreObserver;
use crate::store::line::Line;
use crate::types::{LogId, Offset, Sequence, TopicPartitionId};

/// How many appended bytes may pass between two looks at the free space.
const SPACE_CHECK_BYTES: u64 = 8 << 20;

/// The runtime's clocks, without its type.
pub(crate) struct Clock {
    pub(crate) monotonic: Box<dyn Fn() -> Monotonic>,
    pub(crate) wall_ms: Box<dyn Fn() -> i64>,
}

/// One shard.
pub(crate) struct Shard<D: Disk> {
    pub(crate) disk: D,
    pub(crate) options: StoreOptions,
    pub(crate) clock: Clock,
    pub(crate) journal: RefCell<Journal<D>>,
    /// Something is pending for the journal task.
    pub(crate) journal_wake: Event,
    /// The durable or written sequence moved, or the shard stopped.
    pub(crate) progress: Event,
    /// Appends that wait for room.
    pub(crate) line: Line,
    /// Write-back has a reason for a round.
    pub(crate) round_wake: Event,
    pub(crate) round_requested: Cell<bool>,
    pub(crate) round_running: Cell<bool>,
    /// A round ended.
    pub(crate) round_done: Event,
    /// Logs with frames that go straight to a segment.
    pub(crate) direct_queue: RefCell<VecDeque<Rc<LogInner<D>>>>,
    pub(crate) direct_wake: Event,
    /// A journal file is to be zero-filled, or space looked at.
    pub(crate) background_wake: Event,
    /// Maintenance is to end.
    pub(crate) maintain_wake: Event,
    pub(crate) cleaner: Cell<CleanerOptions>,
    /// The cleaner is to look at once: its options changed.
    pub(crate) cleaner_wake: Event,
    pub(crate) logs: RefCell<BTreeMap<TopicPartitionId, Rc<LogInner<D>>>>,
    pub(crate) by_log_id: RefCell<BTreeMap<LogId, Rc<LogInner<D>>>>,
    /// Deleted logs, until a checkpoint no longer names them.
    pub(crate) deleted: RefCell<Vec<Rc<LogInner<D>>>>,
    pub(crate) budget: MemoryBudget,
    pub(crate) cache: RefCell<Cache<D>>,
    pub(crate) files: Files<D>,
    pub(crate) read_ahead: RefCell<ReadAhead<D::ReadBuffer>>,
    /// The last flushed checkpoint.
    pub(crate) committed: RefCell<Checkpoint>,
    /// Held by whoever writes the next one: a round, or a swap of the cleaner.
    pub(crate) committing: Lock,
    pub(crate) next_log_id: Cell<u64>,
    pub(crate) metadata_offset: Cell<u64>,
    pub(crate) observer: Rc<dyn StoreObserver<D>>,
    pub(crate) counters: Counters,
    pub(crate) stopped: RefCell<Option<Stopped>>,
    pub(crate) closing: Cell<bool>,
    /// While closing: the extent task, the journal task and the last round are through, in this order.
    pub(crate) direct_ended: Cell<bool>,
    pub(crate) journal_ended: Cell<bool>,
    pub(crate) closed: Cell<bool>,
    /// Files wait to be unlinked: a round is due soon even if nothing else asks for one.
    pub(crate) cleanup_wanted: Cell<bool>,
    /// What flushed checkpoints no longer name, for the task that unlinks.
    pub(crate) unlinks: RefCell<VecDeque<Unlink<D>>>,
    pub(crate) unlink_wake: Event,
    pub(crate) unlinking: Cell<bool>,
    pub(crate) full: Cell<bool>,
    /// The free space of the disk as it was last looked at.
    pub(crate) free_bytes: Cell<Option<u64>>,
    /// Bytes appended since the free space was last looked at.
    pub(crate) since_space_check: Cell<u64>,
    pub(crate) itself: Weak<Shard<D>>,
}

impl<D: Disk> Shard<D> {
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.borrow().is_some()
    }

    /// Why the shard takes nothing any more.
    pub(crate) fn check_running(&self) -> Result<(), Stopped> {
        match &*self.stopped.borrow() {
            Some(stopped) => Err(stopped.clone()),
            None if self.closing.get() => Err(Stopped {
                reason: "the store is being closed".into(),
            }),
            None => Ok(()),
        }
    }

    /// A write or flush failed: nothing is acknowledged any more, nothing is tried again.
    pub(crate) fn stop(&self, reason: &str) {
        if self.is_stopped() {
            return;
        }
        tracing::error!(shard = self.options.shard, reason, "the shard's storage stopped");
        let stopped = Stopped {
            reason: reason.into(),
        };
        *self.stopped.borrow_mut() = Some(stopped.clone());
        self.observer.stopped(&stopped);
        self.wake_everybody();
    }

    pub(crate) fn wake_everybody(&self) {
        for event in [
            &self.journal_wake,
            &self.progress,
            &self.round_wake,
            &self.round_done,
            &self.direct_wake,
            &self.background_wake,
            &self.maintain_wake,
            &self.cleaner_wake,
            &self.unlink_wake,
        ] {
            event.notify_all();
        }
        self.budget.freed().notify_all();
        for log in self.logs.borrow().values() {
            log.changed.notify_all();
        }
    }

    pub(crate) fn wake_journal(&self) {
        if self.journal.borrow().wants_wake() {
            self.journal_wake.notify_all();
        }
    }

    /// Asks for a round of write-back and a checkpoint.
    pub(crate) fn request_round(&self) {
        if !self.round_requested.replace(true) {
            self.round_wake.notify_all();
        }
    }

    /// Asks for a round if one may free memory or journal space. Frames that wait to become extents are in no
    /// entry yet: rounds do nothing for them, and would only take the disk from them.
    pub(crate) fn request_useful_round(&self) {
        let useful = {
            let journal = self.journal.borrow();
            journal.ring.used_bytes() > 0 || !journal.pending.is_empty()
        };
        if useful {
            self.request_round();
        }
    }

    /// Asks for a round before long, to unlink files.
    pub(crate) fn want_cleanup(&self) {
        if !self.cleanup_wanted.replace(true) {
            self.round_wake.notify_all();
        }
    }

    /// Completes when the entry and all below are flushed.
    pub(crate) async fn durable(&self, sequence: Sequence) -> Result<(), Stopped> {
        loop {
            let progress = self.progress.wait();
            if self.journal.borrow().in_flight.durable() >= sequence {
                return Ok(());
            }
            if let Some(stopped) = &*self.stopped.borrow() {
                return Err(stopped.clone());
            }
            progress.await;
        }
    }

    /// Queues a control piece of a log; its state is borrowed by the caller, who notes the sequence there.
    pub(crate) fn push_control(
        &self,
        log: &Rc<LogInner<D>>,
        control: &Control,
        end: Option<(Offset, u32)>,
    ) -> Sequence {
        let sequence = self
            .journal
            .borrow_mut()
            .pending
            .push_control(log, control, end, || (self.clock.monotonic)());
        self.wake_journal();
        sequence
    }

    /// Runs a round of write-back and a checkpoint now.
    pub(crate) async fn checkpoint(&self) -> Result<(), Stopped> {
        let target = self.counters.checkpoints.get() + 1 + u64::from(self.round_running.get());
        loop {
            let done = self.round_done.wait();
            if self.counters.checkpoints.get() >= target {
                return Ok(());
            }
            self.check_running()?;
            self.request_round();
            done.await;
        }
    }

    /// A new append buffer.
    pub(crate) fn allocate(&self, capacity: usize) -> Rc<AppendBuffer<D::Buffer>> {
        let buffer = self.disk.allocate(capacity);
        Rc::new(AppendBuffer::new(buffer, self.budget.charge(capacity as u64)))
    }

    /// Drops clean cached frames and what readers left.
    pub(crate) fn evict(&self, bytes: u64) {
        let before = self.budget.used();
        if let Ok(mut cache) = self.cache.try_borrow_mut() {
            cache.evict(bytes);
        }
        if before - self.budget.used() < bytes
            && let Ok(mut left) = self.read_ahead.try_borrow_mut()
        {
            left.clear();
        }
    }

    /// A log by the id of this life.
    pub(crate) fn live_log(&self, log: LogId) -> Option<Rc<LogInner<D>>> {
        self.by_log_id.borrow().get(&log).cloned()
    }

    pub(crate) fn logs_folder(&self) -> PathBuf {
        self.options.directory.join(names::LOGS)
    }

    pub(crate) fn log_folder(&self, id: TopicPartitionId, log: LogId) -> PathBuf {
        self.logs_folder().join(names::log_folder(id, log))
    }

    /// A frame of so many bytes was appended: the free space is looked at now and then, and write-back kept up.
    pub(crate) fn after_append(&self, bytes: usize) {
        let since = &self.since_space_check;
        since.set(since.get() + bytes as u64);
        if since.get() >= SPACE_CHECK_BYTES {
            self.background_wake.notify_all();
        }
        if self.counters.dirty_bytes.get() > self.dirty_bytes_target() {
            self.request_round();
        }
    }

    /// Dirty bytes beyond which write-back begins, whatever the journal holds.
    pub(crate) fn dirty_bytes_target(&self) -> u64 {
        self.budget.limit() / 3
    }
}
