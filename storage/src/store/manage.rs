//! Creating, deleting and setting aside logs.

use std::rc::Rc;

use strandline_runtime::Runtime;

use super::Store;
use crate::disk::Disk;
use crate::error::StoreError;
use crate::format::names;
use crate::format::piece::Control;
use crate::log::Log;
use crate::log::state::{LogInner, LogState};
use crate::options::LogSettings;
use crate::segment::write::at;
use crate::types::{LogId, Offset, Sequence, TopicPartitionId};

impl<R: Runtime, D: Disk> Store<R, D> {
    /// Creates a log, empty, starting at offset 0; durable at [`Log::created`].
    ///
    /// # Errors
    /// [`StoreError::Exists`]; [`StoreError::Stopped`].
    pub fn create_log(&self, id: TopicPartitionId, settings: LogSettings) -> Result<Log<D>, StoreError> {
        self.create(id, settings, 0, false)
    }

    /// The same, starting at another offset.
    pub(crate) fn create_at(
        &self,
        id: TopicPartitionId,
        settings: LogSettings,
        start: Offset,
    ) -> Result<Log<D>, StoreError> {
        self.create(id, settings, start, false)
    }

    /// Registers a log that metadata assigns, storage does not know, and which must not pass for empty.
    ///
    /// # Errors
    /// As [`Store::create_log`].
    pub fn create_damaged(&self, id: TopicPartitionId, settings: LogSettings) -> Result<Log<D>, StoreError> {
        self.create(id, settings, 0, true)
    }

    fn create(
        &self,
        id: TopicPartitionId,
        settings: LogSettings,
        start_offset: Offset,
        damaged: bool,
    ) -> Result<Log<D>, StoreError> {
        let shard = &self.shard;
        shard.check_running()?;
        if shard.logs.borrow().contains_key(&id) {
            return Err(StoreError::Exists(id));
        }
        let log_id = LogId(shard.next_log_id.get());
        shard.next_log_id.set(log_id.0 + 1);
        let mut state = LogState::new(settings, start_offset);
        state.damaged_from = damaged.then_some(0);
        let inner = Rc::new(LogInner::new(id, log_id, state));
        let topic_id = *id.topic_id.as_bytes();
        let control = Control::Create {
            topic_id,
            partition: id.partition,
            start_offset,
            damaged,
        };
        let sequence = shard.push_control(&inner, &control, None);
        {
            let mut state = inner.state.borrow_mut();
            state.created = sequence;
            state.last_sequence = sequence;
        }
        shard.logs.borrow_mut().insert(id, inner.clone());
        shard.by_log_id.borrow_mut().insert(log_id, inner.clone());
        Ok(Log::new(inner, shard.clone()))
    }

    /// Accepts the loss of a damaged log: it serves and appends again, with what it has.
    ///
    /// # Errors
    /// [`StoreError::Unknown`]; [`StoreError::Stopped`].
    pub async fn accept_loss(&self, id: TopicPartitionId) -> Result<(), StoreError> {
        self.shard.check_running()?;
        let log = self.log(id).ok_or(StoreError::Unknown(id))?;
        let Some(from) = log.damaged_from() else {
            return Ok(());
        };
        if from < log.end_offset() {
            // Rot in the middle: what lies behind it goes with it.
            log.inner.state.borrow_mut().damaged_from = None;
            let start = log.inner.state.borrow().start_offset;
            log.truncate_to(from.max(start)).await?;
        }
        let sequence = {
            let mut state = log.inner.state.borrow_mut();
            state.damaged_from = None;
            state.touched = true;
            state.last_sequence = self.shard.push_control(&log.inner, &Control::AcceptLoss, None);
            state.last_sequence
        };
        Ok(self.shard.durable(sequence).await?)
    }

    /// Deletes a log; durable with the returned sequence. Its files go after the next checkpoint.
    ///
    /// # Errors
    /// [`StoreError::Unknown`]; [`StoreError::Stopped`].
    pub fn delete_log(&self, id: TopicPartitionId) -> Result<Sequence, StoreError> {
        self.shard.check_running()?;
        let inner = self.forget(id)?;
        let sequence = self.shard.push_control(&inner, &Control::Delete, None);
        self.shard.deleted.borrow_mut().push(inner);
        self.shard.want_cleanup();
        Ok(sequence)
    }

    /// Takes a log out of the store's sight; its handles give errors from now on.
    fn forget(&self, id: TopicPartitionId) -> Result<Rc<LogInner<D>>, StoreError> {
        let shard = &self.shard;
        let inner = shard
            .logs
            .borrow_mut()
            .remove(&id)
            .ok_or(StoreError::Unknown(id))?;
        shard.by_log_id.borrow_mut().remove(&inner.log_id);
        let mut state = inner.state.borrow_mut();
        state.deleted = true;
        let dirty: u64 = state
            .runs
            .iter()
            .filter(|run| run.is_dirty())
            .map(|run| run.frame_bytes)
            .sum();
        shard.counters.dirty_bytes.subtract(dirty);
        state.runs.clear();
        state.direct = None;
        drop(state);
        inner.changed.notify_all();
        shard.progress.notify_all();
        Ok(inner)
    }

    /// Moves a log that metadata does not know under `stray/`, with everything it holds.
    ///
    /// # Errors
    /// [`StoreError::Unknown`]; [`StoreError::Stopped`].
    pub async fn set_aside(&self, id: TopicPartitionId) -> Result<(), StoreError> {
        let shard = &self.shard;
        shard.check_running()?;
        let log = self.log(id).ok_or(StoreError::Unknown(id))?;
        log.inner.state.borrow_mut().closed = true;
        log.inner.cleaning_ended().await;
        // Whatever is in the journal alone goes to the folder first.
        log.inner.state.borrow_mut().touched = true;
        self.checkpoint().await?;
        if !log.inner.make_busy().await {
            log.inner.end_busy();
            return Err(StoreError::Unknown(id));
        }
        let result = self.rename_stray(&log).await;
        log.inner.end_busy();
        if let Err(reason) = result {
            shard.stop(&reason);
            shard.check_running()?;
        }
        let inner = self.forget(id)?;
        shard.files.forget_log(inner.log_id);
        // The folder is gone from `logs/`; the next checkpoint no longer names the log.
        shard.deleted.borrow_mut().push(inner);
        Ok(self.checkpoint().await?)
    }

    async fn rename_stray(&self, log: &Log<D>) -> Result<(), String> {
        let shard = &self.shard;
        if !log.inner.state.borrow().has_folder {
            return Ok(());
        }
        let from = shard.log_folder(log.id(), log.log_id());
        let stray = shard.options.directory.join(names::STRAY);
        let to = stray.join(names::log_folder(log.id(), log.log_id()));
        shard.disk.rename(&from, &to).await.map_err(at("rename", &from))?;
        shard
            .disk
            .flush_directory(&stray)
            .await
            .map_err(at("flush folder", &stray))?;
        let logs = shard.logs_folder();
        shard
            .disk
            .flush_directory(&logs)
            .await
            .map_err(at("flush folder", &logs))
    }
}
