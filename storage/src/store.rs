//! The store of one shard: the handle that the broker holds.

use std::rc::Rc;

use strandline_runtime::{Monotonic, Runtime};

use crate::budget::MemoryBudget;
use crate::disk::Disk;
use crate::error::{OpenError, Stopped, StoreError};
use crate::log::Log;
use crate::options::{LogSettings, StoreOptions};
use crate::stats::StoreStats;
use crate::types::{Offset, Sequence, TopicPartitionId};

/// Told by the journal, in the same poll in which a flush (or, for relaxed topics, a write) completed.
/// Implementations must not append from inside the call; they may read ends and wake tasks.
pub trait StoreObserver<D: Disk> {
    /// The acknowledged end of each of `logs` moved; everything up to `sequence` is durable.
    fn advanced(&self, sequence: Sequence, logs: &[Log<D>]);

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
    inner: Rc<(R, D)>,
}

impl<R: Runtime, D: Disk> Clone for Store<R, D> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone() }
    }
}

impl<R: Runtime, D: Disk> Store<R, D> {
    /// Makes an empty store in a new directory.
    pub async fn format(_runtime: R, _disk: D, _options: &StoreOptions) -> Result<(), OpenError> {
        todo!()
    }
    /// Opens a store; its replay is done on return.
    pub async fn open(
        _runtime: R,
        _disk: D,
        _options: StoreOptions,
        _observer: Rc<dyn StoreObserver<D>>,
    ) -> Result<(Self, RecoveryReport), OpenError> {
        todo!()
    }
    /// Creates a log, empty, starting at offset 0; durable at [`Log::created`].
    pub fn create_log(&self, _id: TopicPartitionId, _settings: LogSettings) -> Result<Log<D>, StoreError> {
        todo!()
    }
    /// Registers a log that metadata assigns, storage does not know, and which must not pass for empty.
    pub fn create_damaged(&self, _id: TopicPartitionId, _settings: LogSettings) -> Result<Log<D>, StoreError> {
        todo!()
    }
    /// Accepts the loss of a damaged log: it serves and appends again, with what it has.
    pub async fn accept_loss(&self, _id: TopicPartitionId) -> Result<(), StoreError> {
        todo!()
    }
    /// Deletes a log; durable with the returned sequence. Its files go after the next checkpoint.
    pub fn delete_log(&self, _id: TopicPartitionId) -> Result<Sequence, StoreError> {
        todo!()
    }
    /// Moves a log that metadata does not know under `stray/`.
    pub async fn set_aside(&self, _id: TopicPartitionId) -> Result<(), StoreError> {
        todo!()
    }
    /// The log of a partition.
    pub fn log(&self, _id: TopicPartitionId) -> Option<Log<D>> {
        todo!()
    }
    /// All logs, in no order.
    pub fn logs(&self) -> Vec<Log<D>> {
        todo!()
    }
    /// Says up to which metadata offset assignments were applied; in the checkpoint once their creation is durable.
    pub fn set_metadata_offset(&self, _offset: u64) {
        todo!()
    }
    /// The offset last set, or the checkpoint's.
    pub fn metadata_offset(&self) -> u64 {
        todo!()
    }
    /// Waits until memory and journal have room for an append of `bytes`.
    pub async fn admit(&self, _bytes: usize, _deadline: Monotonic) -> Result<(), StoreError> {
        todo!()
    }
    /// Completes when the entry and all below are flushed.
    pub async fn durable(&self, _sequence: Sequence) -> Result<(), Stopped> {
        todo!()
    }
    /// Completes when the entry and all below are written.
    pub async fn written(&self, _sequence: Sequence) -> Result<(), Stopped> {
        todo!()
    }
    /// The highest durable sequence.
    pub fn durable_sequence(&self) -> Sequence {
        todo!()
    }
    /// Why the store stopped, once it has.
    pub fn stopped(&self) -> Option<Stopped> {
        todo!()
    }
    /// Whether appends are refused for want of disk space.
    pub fn is_full(&self) -> bool {
        todo!()
    }
    /// The byte budget, also for connections.
    pub fn budget(&self) -> MemoryBudget {
        todo!()
    }
    /// Counters.
    pub fn stats(&self) -> StoreStats {
        todo!()
    }
    /// Flushes, writes back, checkpoints and ends. Appends during it are refused.
    pub async fn close(&self) -> Result<(), Stopped> {
        todo!()
    }
}
