//! The append: checks, one copy behind a frame header, one note for the journal. Never waits.

use std::rc::Rc;

use strandline_wire::batch::{
    BatchHeader, ValidatedBatch, patch_and_recrc, set_base_offset, set_leader_epoch,
};

use super::append_buffer::AppendBuffer;
use super::run::{Run, RunState};
use super::state::{Direct, LogInner, LogState};
use super::{Appended, Log};
use crate::disk::Disk;
use crate::error::AppendError;
use crate::format::frame::{
    FRAME_FORMAT, FRAME_HEADER_BYTES, FRAME_MAGIC, FrameHeader, PAYLOAD_BYTES_MAX, frame_bytes, seal_frame,
};
use crate::journal::pending::PendingFrame;
use crate::producers::producer_batch;
use crate::shard::Shard;
use crate::types::{Offset, Sequence};

impl<D: Disk> Log<D> {
    /// Appends a batch: never waits. It counts once [`Log::acknowledged_end`] is above its last offset; the
    /// observer tells when that moves.
    ///
    /// # Errors
    /// [`AppendError`]: nothing was appended.
    pub fn append(&self, batch: &ValidatedBatch<'_>) -> Result<Appended, AppendError> {
        self.try_append(batch).inspect_err(|error| {
            let is_of_storage = matches!(
                error,
                AppendError::Stopped(_) | AppendError::StorageFull | AppendError::Damaged { .. }
            );
            if is_of_storage {
                self.shard.counters.appends_refused.add(1);
            }
        })
    }

    fn try_append(&self, batch: &ValidatedBatch<'_>) -> Result<Appended, AppendError> {
        let (shard, log) = (&self.shard, &self.inner);
        shard.check_running()?;
        if shard.full.get() {
            return Err(AppendError::StorageFull);
        }
        let mut state = log.state.borrow_mut();
        let state = &mut *state;
        if state.deleted || state.closed {
            return Err(AppendError::Deleted);
        }
        if let Some(from) = state.damaged_from {
            return Err(AppendError::Damaged { from });
        }
        let payload = batch.bytes.len();
        if payload + FRAME_HEADER_BYTES > PAYLOAD_BYTES_MAX {
            return Err(AppendError::TooLarge { bytes: payload });
        }
        let now_ms = (shard.clock.wall_ms)();
        state
            .producers
            .check(&batch.header, now_ms, shard.options.producer_expiration_ms)?;

        let header = BatchHeader {
            base_offset: state.end_offset,
            partition_leader_epoch: state.epochs.latest(),
            ..batch.header
        };
        let frame = frame_header(&header, payload, state.last_origin);
        let length = frame_bytes(payload);
        let direct = goes_direct(shard, state, &frame);
        make_room(
            &|capacity| shard.allocate(capacity),
            log,
            state,
            (&frame, now_ms),
            direct,
        );
        let run = state.runs.back_mut().expect("room was made in the newest run");
        let (position, checksum) = run.memory.append(length, |bytes| {
            let payload_end = FRAME_HEADER_BYTES + payload;
            let stored = &mut bytes[FRAME_HEADER_BYTES..payload_end];
            stored.copy_from_slice(&batch.bytes);
            if batch.header_changed {
                patch_and_recrc(stored, &header);
            } else {
                set_base_offset(stored, header.base_offset);
                set_leader_epoch(stored, header.partition_leader_epoch);
            }
            seal_frame(bytes, &frame, log.key)
        });
        let frame = FrameHeader { checksum, ..frame };
        take_in(shard, log, state, (&frame, &header), position, now_ms);
        Ok(Appended {
            base_offset: header.base_offset,
            last_offset: header.last_offset(),
        })
    }
}

/// Whether a frame goes straight to its segment.
pub(crate) fn goes_direct<D: Disk>(shard: &Shard<D>, state: &LogState<D>, frame: &FrameHeader) -> bool {
    state.direct.is_some()
        || frame.payload_length as usize >= shard.options.direct_bytes
        || frame.frame_bytes() > shard.journal.borrow().pending.frame_bytes_max()
}

/// Makes a frame that stands in the newest run part of the log: on its way to the journal, or to its segment.
pub(crate) fn take_in<D: Disk>(
    shard: &Shard<D>,
    log: &Rc<LogInner<D>>,
    state: &mut LogState<D>,
    (frame, batch): (&FrameHeader, &BatchHeader),
    position: usize,
    now_ms: i64,
) {
    let length = frame.frame_bytes();
    note_frame(state, frame, position, batch, now_ms);
    shard.counters.appends.add(1);
    shard.counters.append_bytes.add(u64::from(frame.payload_length));
    shard.counters.dirty_bytes.add(length as u64);
    let run = state.runs.back().expect("just written");
    if run.direct {
        queue_direct(shard, log, state);
    } else {
        let pending = PendingFrame {
            memory: run.memory.clone(),
            position,
            length,
            checksum: frame.checksum,
        };
        state.last_sequence = push_frame(shard, log, state, pending, state.end_offset);
    }
    shard.after_append(length);
}

/// The frame header of a batch as it shall be stored.
pub(crate) fn frame_header(header: &BatchHeader, payload: usize, previous: u64) -> FrameHeader {
    FrameHeader {
        previous,
        base_offset: header.base_offset,
        max_timestamp: header.max_timestamp,
        payload_length: payload as u32,
        last_offset_delta: header.last_offset_delta as u32,
        leader_epoch: header.partition_leader_epoch,
        magic: FRAME_MAGIC,
        format: FRAME_FORMAT,
        ..FrameHeader::default()
    }
}

/// Makes sure that the newest run takes the frame: rolls the segment, seals, allocates as needed.
pub(crate) fn make_room<D: Disk>(
    allocate: &dyn Fn(usize) -> Rc<AppendBuffer<D::Buffer>>,
    log: &LogInner<D>,
    state: &mut LogState<D>,
    (frame, now_ms): (&FrameHeader, i64),
    direct: bool,
) {
    let rolls = state.must_roll(log.key, frame, now_ms);
    let newest = state
        .runs
        .back()
        .filter(|run| run.state == RunState::Filling && run.direct == direct);
    let fits = newest.is_some_and(|run| run.fits(frame.frame_bytes()));
    if fits && !rolls {
        return;
    }
    let lacks_room = newest.is_some() && !fits;
    state.seal_newest(log.key, lacks_room);
    let segment = rolls.then(|| state.roll(log.log_id, frame.max_timestamp, now_ms));
    let memory = allocate(state.capacity_for(frame.frame_bytes()));
    state
        .runs
        .push_back(Run::new(memory, state.end_offset, direct, segment));
}

/// Takes note of a frame that stands in the newest run.
pub(crate) fn note_frame<D: Disk>(
    state: &mut LogState<D>,
    frame: &FrameHeader,
    position: usize,
    header: &BatchHeader,
    now_ms: i64,
) {
    // The log as the journal knows it is kept aside before the first frame that bypasses the journal.
    let bypasses = state.runs.back().is_some_and(|run| run.direct);
    if bypasses && state.direct.is_none() {
        state.direct = Some(Direct {
            end_offset: state.end_offset,
            last_origin: state.last_origin,
            epochs: state.epochs.clone(),
            producers: state.producers.clone(),
            waiting_epochs: std::collections::VecDeque::new(),
            queued: false,
        });
    }
    state
        .runs
        .back_mut()
        .expect("the frame stands in it")
        .note(frame, position, now_ms);
    state.end_offset = frame.end_offset();
    state.last_origin = frame.chain();
    if let Some(batch) = producer_batch(header, frame.base_offset) {
        state.producers.apply(&batch, now_ms);
    }
    let open = state.open_segment.as_mut().expect("a frame belongs to a segment");
    open.payload_bytes += u64::from(frame.payload_length);
    state.touched = true;
}

/// Gives a frame to the journal.
pub(crate) fn push_frame<D: Disk>(
    shard: &Shard<D>,
    log: &Rc<LogInner<D>>,
    state: &LogState<D>,
    frame: PendingFrame<D>,
    end: Offset,
) -> Sequence {
    let (ends, durable) = ((end, state.generation), state.settings.durable);
    let now = || (shard.clock.monotonic)();
    let sequence = shard
        .journal
        .borrow_mut()
        .pending
        .push_frame(log, frame, ends, durable, now);
    shard.wake_journal();
    sequence
}

fn queue_direct<D: Disk>(shard: &Shard<D>, log: &Rc<LogInner<D>>, state: &mut LogState<D>) {
    let direct = state.direct.as_mut().expect("set when the frame was noted");
    if !std::mem::replace(&mut direct.queued, true) {
        shard.direct_queue.borrow_mut().push_back(log.clone());
        shard.direct_wake.notify_all();
    }
}
