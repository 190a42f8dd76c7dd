//! Truncation: a follower's log gives way to its leader's. The cut segment ends at the cut for good; the
//! next frame opens a new one.

use std::path::Path;
use std::rc::Rc;

use strandline_wire::batch::BatchHeader;

use super::Log;
use super::append_buffer::AppendBuffer;
use super::run::RunState;
use super::state::{LogInner, LogState};
use crate::disk::{Disk, OpenMode};
use crate::error::StoreError;
use crate::format::frame::{FRAME_HEADER_BYTES, FrameHeader, verify_frame};
use crate::format::names;
use crate::format::piece::Control;
use crate::producers::{Producers, producer_batch};
use crate::segment::index::{FrameReader, SegmentError};
use crate::types::{Offset, Sequence};

/// What a cut needs from disk.
pub(crate) struct Cut {
    offset: Offset,
    /// The snapshot of the first segment that went. With no segment left below the cut it is as of the cut.
    first_gone: Option<SnapshotAt>,
}

/// Where a snapshot of the producers is.
enum SnapshotAt {
    /// In its file; 0 without producers.
    Disk(u64),
    /// In memory, until its segment is written.
    Memory(u64, Vec<u8>),
}

impl<D: Disk> Log<D> {
    /// Cuts everything at and above `offset`, which must be a batch's first; the returned sequence carries
    /// the cut. Waits for the log's writes in flight first.
    ///
    /// # Errors
    /// [`StoreError`] when the shard stopped, the log is gone or damaged below the cut.
    pub async fn truncate_to(&self, offset: Offset) -> Result<Sequence, StoreError> {
        self.cut_at(Some(offset)).await
    }

    /// Cuts at `offset`, or of an unchanged log only the epochs without a record.
    pub(super) async fn cut_at(&self, offset: Option<Offset>) -> Result<Sequence, StoreError> {
        loop {
            self.shard.check_running()?;
            if !self.inner.make_busy().await {
                self.inner.end_busy();
                return Err(StoreError::Unknown(self.inner.id));
            }
            if self.inner.state.borrow().direct.is_none() {
                break;
            }
            // Frames on their way to a segment go first. What ends here is no reason to look again: only what
            // happens from now on is.
            self.inner.end_busy();
            self.inner.changed.wait().await;
        }
        let result = match offset {
            Some(offset) => self.truncate_busy(offset).await,
            None => Ok(self.forget_epochs()),
        };
        self.inner.end_busy();
        result
    }

    fn forget_epochs(&self) -> Sequence {
        let mut state = self.inner.state.borrow_mut();
        let end = state.end_offset;
        if state.epochs.has_start_at(end) {
            state.epochs.truncate(end);
            state.touched = true;
            let control = Control::Truncate { offset: end };
            state.last_sequence = self.shard.push_control(&self.inner, &control, None);
        }
        state.last_sequence
    }

    async fn truncate_busy(&self, offset: Offset) -> Result<Sequence, StoreError> {
        let (cut, sequence) = {
            let mut state = self.inner.state.borrow_mut();
            if offset >= state.end_offset {
                return Ok(state.last_sequence);
            }
            if offset < state.start_offset {
                return Err(StoreError::Invalid("a truncation below the start offset"));
            }
            let before: u64 = state
                .runs
                .iter()
                .filter(|run| run.is_dirty())
                .map(|run| run.frame_bytes)
                .sum();
            let cut = cut(&mut state, self.inner.key, offset, |capacity| {
                self.shard.allocate(capacity)
            });
            let after: u64 = state
                .runs
                .iter()
                .filter(|run| run.is_dirty())
                .map(|run| run.frame_bytes)
                .sum();
            self.shard.counters.dirty_bytes.subtract(before - after);
            state.last_sequence = self
                .shard
                .push_control(&self.inner, &Control::Truncate { offset }, None);
            (cut, state.last_sequence)
        };
        let folder = self.shard.log_folder(self.inner.id, self.inner.log_id);
        let now_ms = (self.shard.clock.wall_ms)();
        match restore_producers(&self.shard.disk, &folder, &self.inner, cut, now_ms).await {
            Ok(()) => Ok(sequence),
            Err(SegmentError::Damaged(reason)) => {
                tracing::error!(log = %self.inner.id, reason, "the log is damaged");
                let mut state = self.inner.state.borrow_mut();
                state.damaged_from = Some(state.end_offset);
                Err(StoreError::Damaged {
                    id: self.inner.id,
                    from: state.end_offset,
                })
            }
            Err(SegmentError::Io(reason)) => {
                // The cut is in the journal, the state behind it unknown: the next start reads it again.
                self.shard.stop(&format!("a truncation could not read: {reason}"));
                self.shard.check_running()?;
                Ok(sequence)
            }
        }
    }
}

/// Cuts runs, segments, epochs and ends; the producers need [`restore_producers`] afterwards. The frames'
/// chain continues at the last frame that stays, which may be known only then.
pub(crate) fn cut<D: Disk>(
    state: &mut LogState<D>,
    key: u64,
    offset: Offset,
    allocate: impl Fn(usize) -> Rc<AppendBuffer<D::Buffer>>,
) -> Cut {
    state.seal_newest(key, false);
    let first_gone = first_gone(state, offset);
    state.runs.retain(|run| run.base_offset < offset);
    if let Some(run) = state.runs.back_mut()
        && run.end_offset > offset
    {
        *run = run.copy_below(offset, key, allocate);
    }
    // A segment keeps its file up to the cut frame, whose position the restore finds.
    state.drop_segments(|segment| segment.base_offset >= offset);
    if let Some(last) = state.segments.last_mut() {
        last.meta.end_offset = last.meta.end_offset.min(offset);
    }
    state.epochs.truncate(offset);
    state.reset_ends(offset);
    state.high_watermark = state.high_watermark.min(offset);
    state.cleaned_to = state.cleaned_to.min(offset);
    state.open_segment = None;
    state.touched = true;
    if let Some(damaged) = state.damaged_from
        && offset <= damaged
    {
        state.damaged_from = None;
    }
    Cut { offset, first_gone }
}

fn first_gone<D: Disk>(state: &LogState<D>, offset: Offset) -> Option<SnapshotAt> {
    let written = state
        .segments
        .iter()
        .find(|segment| segment.meta.base_offset >= offset);
    if let Some(segment) = written {
        return Some(SnapshotAt::Disk(segment.meta.snapshot));
    }
    let mut starts = state.runs.iter().filter_map(|run| run.segment.as_ref());
    let start = starts.find(|start| start.base_offset >= offset)?;
    Some(match &start.snapshot {
        Some((number, content)) => SnapshotAt::Memory(*number, content.clone()),
        None => SnapshotAt::Disk(0),
    })
}

/// Restores the producers as of the cut: the newest snapshot at or below it, then the frames up to it. Also
/// finds the cut's position in its segment, and the frame that the next one follows.
pub(crate) async fn restore_producers<D: Disk>(
    disk: &D,
    folder: &Path,
    log: &LogInner<D>,
    cut: Cut,
    now_ms: i64,
) -> Result<(), SegmentError> {
    let (mut producers, from) = base_producers(disk, folder, log, &cut).await?;
    let mut last_origin = 0;
    let mut next = from;
    let on_disk = log.state.borrow().segments.last().map(|segment| segment.meta);
    if let Some(meta) = on_disk
        && next < meta.end_offset
        && next >= meta.base_offset
    {
        let path = folder.join(names::segment(meta.base_offset, meta.number));
        let file = disk
            .open(&path, OpenMode::Read)
            .await
            .map_err(|error| SegmentError::of(&path, &error))?;
        let mut reader = FrameReader::new(file, log.key, 0, meta.valid_length);
        let (mut payload, mut max_timestamp, mut max_offset) = (0, -1, -1);
        while let Some((position, frame)) = reader.next().await? {
            if frame.header.base_offset >= cut.offset {
                let mut state = log.state.borrow_mut();
                let last = state.segments.last_mut().expect("seen above");
                last.meta.valid_length = position;
                last.index.cut(position);
                break;
            }
            apply(&mut producers, &frame.header, frame.payload(), now_ms);
            payload += u64::from(frame.header.payload_length);
            if frame.header.max_timestamp > max_timestamp {
                (max_timestamp, max_offset) = (frame.header.max_timestamp, frame.header.base_offset);
            }
            last_origin = frame.header.chain();
            next = frame.header.end_offset();
        }
        let mut state = log.state.borrow_mut();
        let last = state.segments.last_mut().expect("seen above");
        last.meta.payload_bytes = payload;
        last.meta.max_timestamp = max_timestamp;
        last.meta.max_timestamp_offset = max_offset;
    }
    let mut state = log.state.borrow_mut();
    for run in &state.runs {
        for frame in run.frames.iter().filter(|frame| frame.base_offset >= next) {
            let bytes = run.memory.bytes(frame.position as usize..run.memory.len());
            let header =
                verify_frame(bytes, log.key).map_err(|error| SegmentError::Damaged(error.to_string()))?;
            apply(
                &mut producers,
                &header,
                &bytes[FRAME_HEADER_BYTES..header.unpadded_bytes()],
                now_ms,
            );
            last_origin = header.chain();
        }
    }
    state.producers = producers;
    state.last_origin = last_origin;
    Ok(())
}

fn apply(producers: &mut Producers, frame: &FrameHeader, payload: &[u8], now_ms: i64) {
    if let Ok(header) = BatchHeader::decode(payload)
        && let Some(batch) = producer_batch(&header, frame.base_offset)
    {
        producers.apply(&batch, now_ms);
    }
}

/// The newest snapshot at or below the cut, and the offset it is as of: the base of the newest segment.
async fn base_producers<D: Disk>(
    disk: &D,
    folder: &Path,
    log: &LogInner<D>,
    cut: &Cut,
) -> Result<(Producers, Offset), SegmentError> {
    let (snapshot, base) = {
        let state = log.state.borrow();
        let newest = state.segments.last().map(|segment| segment.meta);
        // A segment that is in memory alone carries its snapshot with its first run.
        let start = state
            .runs
            .iter()
            .rev()
            .filter(|run| run.state != RunState::Clean)
            .find_map(|run| {
                run.segment
                    .as_ref()
                    .filter(|start| start.base_offset < cut.offset)
            })
            .filter(|start| newest.is_none_or(|newest| newest.base_offset < start.base_offset));
        match (start, newest, &cut.first_gone) {
            (Some(start), _, _) => {
                let producers = match &start.snapshot {
                    Some((number, content)) => decoded(log, *number, content)?,
                    None => Producers::default(),
                };
                return Ok((producers, start.base_offset));
            }
            (None, Some(newest), _) => (newest.snapshot, newest.base_offset),
            (None, None, Some(SnapshotAt::Memory(number, content))) => {
                return Ok((decoded(log, *number, content)?, cut.offset));
            }
            (None, None, Some(SnapshotAt::Disk(number))) => (*number, cut.offset),
            (None, None, None) => (0, cut.offset),
        }
    };
    if snapshot == 0 {
        return Ok((Producers::default(), base));
    }
    let producers = crate::recovery::read_snapshot(disk, folder, log.log_id, snapshot).await?;
    Ok((producers, base))
}

fn decoded<D: Disk>(log: &LogInner<D>, number: u64, content: &[u8]) -> Result<Producers, SegmentError> {
    let key = crate::format::checksum::file_key(log.log_id, number);
    let (_, producers) = crate::format::snapshot::decode(key, content)
        .map_err(|error| SegmentError::Damaged(error.to_string()))?;
    Ok(Producers::restore(&producers))
}
