//! Changes of a log that are not appends: epoch starts and the start offset.

use std::rc::Rc;

use strandline_runtime::local::{OneshotReceiver, oneshot};

use super::Log;
use super::state::{LogInner, LogState, WaitingEpoch};
use crate::disk::Disk;
use crate::error::StoreError;
use crate::format::piece::Control;
use crate::shard::Shard;
use crate::types::{Offset, Sequence};

impl<D: Disk> Log<D> {
    /// Starts a leader epoch at the log's end. The piece precedes the epoch's frames in the journal; it waits
    /// only for frames before it that are on their way straight to a segment. An epoch that is not above the
    /// newest one changes nothing.
    ///
    /// # Errors
    /// [`StoreError`] when the shard stopped or the log is gone.
    pub async fn begin_epoch(&self, epoch: i32) -> Result<Sequence, StoreError> {
        self.shard.check_running()?;
        let queued = {
            let mut state = self.inner.state.borrow_mut();
            let state = &mut *state;
            if state.deleted {
                return Err(StoreError::Unknown(self.inner.id));
            }
            if epoch <= state.epochs.latest() {
                return Ok(state.last_sequence);
            }
            match self.start_epoch(state, epoch, state.end_offset) {
                None => return Ok(state.last_sequence),
                Some(queued) => queued,
            }
        };
        match queued.await {
            Ok(sequence) => Ok(sequence),
            Err(_) => {
                self.shard.check_running()?;
                Err(StoreError::Unknown(self.inner.id))
            }
        }
    }

    /// Begins an epoch above all others; gives where its sequence comes from, if it waits for frames that bypass the journal.
    pub(super) fn start_epoch(
        &self,
        state: &mut LogState<D>,
        epoch: i32,
        offset: Offset,
    ) -> Option<OneshotReceiver<Sequence>> {
        state.epochs.begin(epoch, offset);
        state.touched = true;
        if state.direct.is_none() {
            let control = Control::EpochStart { epoch, offset };
            state.last_sequence = self.shard.push_control(&self.inner, &control, None);
            return None;
        }
        // The epoch start must come between two runs.
        state.seal_newest(self.inner.key, false);
        let (done, queued) = oneshot();
        let direct = state.direct.as_mut().expect("looked at above");
        direct
            .waiting_epochs
            .push_back(WaitingEpoch { epoch, offset, done });
        Some(queued)
    }

    /// Raises the start offset (DeleteRecords, retention); lower values change nothing. One beyond the end
    /// empties the log there.
    ///
    /// # Errors
    /// [`StoreError`] when the shard stopped or the log is gone.
    pub async fn set_start_offset(&self, offset: Offset) -> Result<Sequence, StoreError> {
        self.shard.check_running()?;
        let beyond = offset > self.end_offset();
        if beyond && !self.inner.make_busy().await {
            self.inner.end_busy();
            return Err(StoreError::Unknown(self.inner.id));
        }
        let result = raise_start(&self.shard, &self.inner, offset);
        if beyond {
            self.inner.end_busy();
        }
        self.shard.want_cleanup();
        result
    }
}

/// Raises the start offset now; of a log that is busy, not beyond its end.
pub(crate) fn raise_start<D: Disk>(
    shard: &Shard<D>,
    log: &Rc<LogInner<D>>,
    offset: Offset,
) -> Result<Sequence, StoreError> {
    let mut state = log.state.borrow_mut();
    let state = &mut *state;
    if state.deleted {
        return Err(StoreError::Unknown(log.id));
    }
    if offset <= state.start_offset {
        return Ok(state.last_sequence);
    }
    let journaled_end = state
        .direct
        .as_ref()
        .map_or(state.end_offset, |direct| direct.end_offset);
    if offset > journaled_end && state.direct.is_some() {
        return Err(StoreError::Invalid(
            "the start offset would pass frames that are in no journal entry yet",
        ));
    }
    if offset > state.end_offset {
        let dirty: u64 = state
            .runs
            .iter()
            .filter(|run| run.is_dirty())
            .map(|run| run.frame_bytes)
            .sum();
        shard.counters.dirty_bytes.subtract(dirty);
        state.empty_at(offset);
    }
    state.raise_start(offset);
    state.last_sequence = shard.push_control(log, &Control::StartOffset { offset }, None);
    Ok(state.last_sequence)
}
