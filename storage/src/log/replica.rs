//! What a log does as one of several replicas: it says where it is, takes its leader's frames as they are, and starts anew
//! where they agree with nothing.

use strandline_runtime::Runtime;
use strandline_wire::batch::BatchHeader;

use super::Log;
use super::append::{goes_direct, make_room, take_in};
use crate::disk::Disk;
use crate::error::{FrameError, StoreError};
use crate::format::frame::{FRAME_HEADER_BYTES, verify_frame};
use crate::recovery::apply::follows;
use crate::store::Store;
use crate::types::{Offset, Sequence, TopicPartitionId};

/// Where a log is, as its leader is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplicaPosition {
    /// The first offset that may be read.
    pub start: Offset,
    /// The offset after the last appended record.
    pub end: Offset,
    /// Everything below is flushed (of a relaxed topic: written).
    pub flushed_end: Offset,
    /// The leader epoch of the last frame, not of an epoch that began after it; -1 without one.
    pub last_epoch: i32,
    /// The chain value of the last frame; `None` where it is not known.
    pub chain: Option<u64>,
}

impl<D: Disk> Log<D> {
    /// Where the log is.
    pub fn position(&self) -> ReplicaPosition {
        let state = self.inner.state.borrow();
        let (start, end) = (state.start_offset, state.end_offset);
        let has_last = end > start;
        let last_epoch = has_last.then(|| state.epochs.epoch_at(end - 1)).flatten();
        ReplicaPosition {
            start,
            end,
            flushed_end: state.acknowledged_end(),
            last_epoch: last_epoch.unwrap_or(-1),
            chain: (has_last && state.last_origin != 0).then_some(state.last_origin),
        }
    }

    /// Appends a frame of the leader as it is: verified, by the rules of the log. Never waits. It counts once
    /// [`Log::acknowledged_end`] is at its end.
    ///
    /// # Errors
    /// [`FrameError`]: nothing was appended.
    pub fn append_frame(&self, bytes: &[u8]) -> Result<(), FrameError> {
        let (shard, log) = (&self.shard, &self.inner);
        shard.check_running()?;
        if shard.full.get() {
            return Err(FrameError::StorageFull);
        }
        let invalid = |error: &dyn std::fmt::Display| FrameError::Invalid(error.to_string());
        let header = verify_frame(bytes, log.key).map_err(|error| invalid(&error))?;
        if header.is_pad() || header.frame_bytes() != bytes.len() {
            return Err(FrameError::Invalid("a pad, or more than a frame".to_owned()));
        }
        let batch = BatchHeader::decode(&bytes[FRAME_HEADER_BYTES..header.unpadded_bytes()])
            .map_err(|error| FrameError::Invalid(error.message.to_string()))?;
        if batch.base_offset != header.base_offset {
            return Err(FrameError::Invalid("its batch has another offset".to_owned()));
        }
        let mut state = log.state.borrow_mut();
        let state = &mut *state;
        if state.deleted || state.closed {
            return Err(FrameError::Deleted);
        }
        if let Some(from) = state.damaged_from {
            return Err(FrameError::Damaged { from });
        }
        follows(state, &header).map_err(FrameError::OutOfPlace)?;
        let direct = goes_direct(shard, state, &header);
        if header.leader_epoch > state.epochs.latest() {
            // Its start precedes it, as in the leader's journal; one that bypasses the journal follows what is there.
            let offset = match state.direct {
                None => header.base_offset.max(state.end_offset),
                Some(_) => state.end_offset,
            };
            // Nobody waits for it: the frame's own end says when it is durable.
            drop(self.start_epoch(state, header.leader_epoch, offset));
        }
        let now_ms = (shard.clock.wall_ms)();
        make_room(
            &|capacity| shard.allocate(capacity),
            log,
            state,
            (&header, now_ms),
            direct,
        );
        let run = state.runs.back().expect("room was made in the newest run");
        let (position, ()) = run
            .memory
            .append(bytes.len(), |memory| memory.copy_from_slice(bytes));
        take_in(shard, log, state, (&header, &batch), position, now_ms);
        Ok(())
    }

    /// Forgets the epochs that began at the log's end and have no record: the log follows another leader now, whose frames may
    /// be of an epoch before those.
    ///
    /// # Errors
    /// [`StoreError`] when the shard stopped or the log is gone.
    pub async fn forget_empty_epochs(&self) -> Result<Sequence, StoreError> {
        self.cut_at(None).await
    }
}

impl<R: Runtime, D: Disk> Store<R, D> {
    /// Starts the log of a partition anew, empty, at `start`: what it held agrees with nothing that its leader has. It is
    /// another life of the replica, under a log id of its own, so that nothing of the old one is ever taken for the new one's.
    ///
    /// # Errors
    /// [`StoreError::Unknown`]; [`StoreError::Stopped`].
    pub fn restart_log(&self, id: TopicPartitionId, start: Offset) -> Result<Log<D>, StoreError> {
        let settings = self.log(id).ok_or(StoreError::Unknown(id))?.settings();
        self.delete_log(id)?;
        self.create_at(id, settings, start)
    }
}
