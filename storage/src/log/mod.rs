//! One log: the handle that the broker holds, and what it does.

mod ahead;
pub(crate) mod append;
pub(crate) mod append_buffer;
pub(crate) mod change;
pub(crate) mod extent;
mod read;
mod replica;
pub(crate) mod run;
mod search;
mod segments;
pub(crate) mod state;
pub(crate) mod truncate;

use std::rc::Rc;

pub use self::read::{BatchSlice, ReadRequest, ReadResult};
pub use self::replica::ReplicaPosition;
pub use self::search::TimestampOffset;
pub use self::segments::SegmentInfo;
use self::state::LogInner;
use crate::disk::Disk;
use crate::error::StoreError;
use crate::options::LogSettings;
use crate::shard::Shard;
use crate::types::{LogId, Offset, TopicPartitionId};

/// What an append gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// The offset of the batch's first record.
    pub base_offset: Offset,
    /// The offset of its last one.
    pub last_offset: Offset,
}

/// A log. Clones are handles of one log; they outlive its deletion and then give errors.
pub struct Log<D: Disk> {
    pub(crate) inner: Rc<LogInner<D>>,
    pub(crate) shard: Rc<Shard<D>>,
}

impl<D: Disk> Clone for Log<D> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            shard: self.shard.clone(),
        }
    }
}

impl<D: Disk> Log<D> {
    pub(crate) fn new(inner: Rc<LogInner<D>>, shard: Rc<Shard<D>>) -> Self {
        Self { inner, shard }
    }

    /// The partition.
    pub fn id(&self) -> TopicPartitionId {
        self.inner.id
    }

    /// This life of the replica.
    pub fn log_id(&self) -> LogId {
        self.inner.log_id
    }

    /// The first offset that may be read: a raised start counts once it is durable, so that it never goes back.
    pub fn start_offset(&self) -> Offset {
        self.inner.state.borrow().durable_start()
    }

    /// The offset the next batch gets.
    pub fn end_offset(&self) -> Offset {
        self.inner.state.borrow().end_offset
    }

    /// Everything below is flushed.
    pub fn flushed_end(&self) -> Offset {
        self.inner.state.borrow().flushed_end()
    }

    /// Everything below is written.
    pub fn written_end(&self) -> Offset {
        self.inner.state.borrow().written_end()
    }

    /// The end that counts for acknowledgement: flushed, or written for a relaxed topic.
    pub fn acknowledged_end(&self) -> Offset {
        self.inner.state.borrow().acknowledged_end()
    }

    /// The high watermark as last set; after an open, the checkpoint's lower bound.
    pub fn high_watermark(&self) -> Offset {
        self.inner.state.borrow().high_watermark
    }

    /// Sets the high watermark; a lower bound of it is in the checkpoint.
    pub fn set_high_watermark(&self, offset: Offset) {
        self.inner.state.borrow_mut().high_watermark = offset;
    }

    /// The epoch that appends carry; -1 before the first [`Log::begin_epoch`].
    pub fn leader_epoch(&self) -> i32 {
        self.inner.state.borrow().epochs.latest()
    }

    /// The largest epoch at or below `epoch`, and the offset where the next one starts (or the log end);
    /// `None` when no such epoch is known.
    pub fn end_offset_for_epoch(&self, epoch: i32) -> Option<(i32, Offset)> {
        let state = self.inner.state.borrow();
        state.epochs.end_offset(epoch, state.end_offset)
    }

    /// The leader epoch of the record at `offset`, where known.
    pub fn epoch_at(&self, offset: Offset) -> Option<i32> {
        self.inner.state.borrow().epochs.epoch_at(offset)
    }

    /// The settings in force.
    pub fn settings(&self) -> LogSettings {
        self.inner.state.borrow().settings.clone()
    }

    /// Changes the settings. A topic that becomes durable counts flushed ends from now on; one that becomes relaxed written
    /// ends, of which nobody else would tell: their writes are done.
    pub fn set_settings(&self, settings: LogSettings) {
        let moved = {
            let mut state = self.inner.state.borrow_mut();
            let before = state.acknowledged_end();
            state.settings = settings;
            state.acknowledged_end() > before
        };
        if moved {
            let durable = self.shard.journal.borrow().in_flight.durable();
            self.shard.observer.advanced(durable, std::slice::from_ref(self));
            self.shard.progress.notify_all();
        }
    }

    /// The first offset that may be gone, of a damaged log.
    pub fn damaged_from(&self) -> Option<Offset> {
        self.inner.state.borrow().damaged_from
    }

    /// Whether the log was deleted or set aside.
    pub fn is_deleted(&self) -> bool {
        self.inner.state.borrow().deleted
    }

    /// Completes when [`Log::acknowledged_end`] is at least `offset`.
    ///
    /// # Errors
    /// When the shard stops or the log is deleted meanwhile.
    pub async fn acknowledged(&self, offset: Offset) -> Result<(), StoreError> {
        loop {
            let progress = self.shard.progress.wait();
            {
                let state = self.inner.state.borrow();
                if state.acknowledged_end() >= offset {
                    return Ok(());
                }
                if state.deleted {
                    return Err(StoreError::Unknown(self.inner.id));
                }
            }
            if let Some(stopped) = &*self.shard.stopped.borrow() {
                return Err(stopped.clone().into());
            }
            progress.await;
        }
    }

    /// Completes when the log's creation is durable.
    ///
    /// # Errors
    /// When the shard stops before.
    pub async fn created(&self) -> Result<(), StoreError> {
        let created = self.inner.state.borrow().created;
        Ok(self.shard.durable(created).await?)
    }
}
