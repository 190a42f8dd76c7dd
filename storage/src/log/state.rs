//! The state of one log, shared by its handles, the journal, write-back and recovery.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use strandline_runtime::local::{Event, OneshotSender};

use super::run::{BUFFER_BYTES_MAX, BUFFER_BYTES_MIN, Run, RunState};
use crate::disk::{Disk, PAGE};
use crate::epochs::Epochs;
use crate::format::checkpoint::SegmentCheckpoint;
use crate::format::checksum::{file_key, log_key};
use crate::format::frame::FrameHeader;
use crate::format::names;
use crate::format::snapshot;
use crate::journal::proof::{Durable, Written};
use crate::maintain::roll_after_ms;
use crate::options::LogSettings;
use crate::producers::Producers;
use crate::segment::{Segment, SegmentStart};
use crate::types::{LogId, Offset, Sequence, TopicPartitionId};

/// One log.
pub(crate) struct LogInner<D: Disk> {
    pub(crate) id: TopicPartitionId,
    pub(crate) log_id: LogId,
    /// The key of its frames' checksums.
    pub(crate) key: u64,
    pub(crate) state: RefCell<LogState<D>>,
    /// Happens when the log is no longer busy, its direct queue moved on, or it was deleted.
    pub(crate) changed: Event,
    /// Who waits to make it busy, in order of coming.
    turns: RefCell<VecDeque<u64>>,
    next_turn: Cell<u64>,
    /// The journal's note: in which pending entry the log has an end, and at which place of its list.
    pub(crate) pending_mark: Cell<(Sequence, usize)>,
}

/// What changes.
pub(crate) struct LogState<D: Disk> {
    pub(crate) settings: LogSettings,
    /// The start offset with every piece that was queued.
    pub(crate) start_offset: Offset,
    /// The start offset as far as it is durable: what readers are told. It never goes back.
    durable_start: Offset,
    pub(crate) end_offset: Offset,
    flushed_end: Offset,
    written_end: Offset,
    pub(crate) high_watermark: Offset,
    /// What the next frame's `previous` is.
    pub(crate) last_origin: u64,
    pub(crate) epochs: Epochs,
    pub(crate) producers: Producers,
    /// Frames in memory, a contiguous range of offsets that ends at the log's end. Clean ones come first.
    pub(crate) runs: VecDeque<Run<D>>,
    pub(crate) segments: Vec<Segment>,
    /// The next append buffer's capacity.
    pub(crate) next_capacity: usize,
    pub(crate) next_file_number: u64,
    /// Files that are no longer part of the log; unlinked after a checkpoint that does not name them.
    pub(crate) obsolete: Vec<String>,
    /// The producers' snapshot file that the last checkpoint names; 0 for none.
    pub(crate) snapshot: u64,
    /// The segment that the next frame belongs to; `None` when it opens a new one.
    pub(crate) open_segment: Option<OpenSegment>,
    /// The last entry that carries a piece of the log.
    pub(crate) last_sequence: Sequence,
    /// The entry that carries its creation.
    pub(crate) created: Sequence,
    /// Counts truncations: an entry's end from before one counts up to the cut alone.
    pub(crate) generation: u32,
    /// The generations that began with a cut, and where, as long as an entry from before may be in flight.
    cuts: Vec<(u32, Offset)>,
    pub(crate) deleted: bool,
    /// Takes no appends: it is being set aside.
    pub(crate) closed: bool,
    /// Whether its folder exists, durably.
    pub(crate) has_folder: bool,
    pub(crate) damaged_from: Option<Offset>,
    /// Set while frames wait to go straight to a segment.
    pub(crate) direct: Option<Direct>,
    /// Everything below was compacted; at or below the start when nothing was.
    pub(crate) cleaned_to: Offset,
    /// A cleaner reads segments and writes new ones beside them; its folder must stay where it is.
    pub(crate) cleaning: bool,
    /// What the cleaner cannot get over; it leaves the log alone until the next open.
    pub(crate) uncleanable: Option<String>,
    /// When a cleaning last ended, by the broker's clock; since the open.
    pub(crate) last_cleaned_ms: Option<i64>,
    /// Write-back, an extent or a truncation works on runs and segments.
    pub(crate) busy: bool,
    /// Whether anything changed since the last capture for a checkpoint.
    pub(crate) touched: bool,
}

/// The segment that appends go to, as decided at append time; its file may not exist yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenSegment {
    pub(crate) base_offset: Offset,
    pub(crate) payload_bytes: u64,
    pub(crate) first_timestamp: i64,
    pub(crate) created_ms: i64,
}

/// The log as the journal knows it, while frames behind that wait to become extents.
pub(crate) struct Direct {
    pub(crate) end_offset: Offset,
    pub(crate) last_origin: u64,
    pub(crate) epochs: Epochs,
    pub(crate) producers: Producers,
    /// Epoch starts that come after waiting frames, in order.
    pub(crate) waiting_epochs: VecDeque<WaitingEpoch>,
    /// Whether the extent task knows of it.
    pub(crate) queued: bool,
}

/// An epoch start behind frames that wait.
pub(crate) struct WaitingEpoch {
    pub(crate) epoch: i32,
    pub(crate) offset: Offset,
    pub(crate) done: OneshotSender<Sequence>,
}

impl<D: Disk> LogInner<D> {
    pub(crate) fn new(id: TopicPartitionId, log_id: LogId, state: LogState<D>) -> Self {
        Self {
            id,
            log_id,
            key: log_key(id),
            state: RefCell::new(state),
            changed: Event::new(),
            turns: RefCell::default(),
            next_turn: Cell::new(0),
            pending_mark: Cell::new((Sequence(0), 0)),
        }
    }

    /// Takes the log for work on its runs and segments; `false` when it was deleted meanwhile.
    ///
    /// In order of coming: write-back, one round after the other, would never let an extent in.
    pub(crate) async fn make_busy(&self) -> bool {
        let turn = Turn::take(self);
        loop {
            let changed = self.changed.wait();
            if turn.is_next() {
                let mut state = self.state.borrow_mut();
                if !state.busy {
                    state.busy = true;
                    return !state.deleted;
                }
            }
            changed.await;
        }
    }

    /// Completes when nobody cleans the log. A cleaner of one that was deleted or closed ends soon.
    pub(crate) async fn cleaning_ended(&self) {
        loop {
            let changed = self.changed.wait();
            if !self.state.borrow().cleaning {
                return;
            }
            changed.await;
        }
    }

    /// Ends [`LogInner::make_busy`].
    pub(crate) fn end_busy(&self) {
        let was_busy = std::mem::replace(&mut self.state.borrow_mut().busy, false);
        assert!(was_busy, "whoever ends it began it");
        self.changed.notify_all();
    }
}

/// A place in the queue of those who want to make a log busy.
struct Turn<'a, D: Disk> {
    log: &'a LogInner<D>,
    number: u64,
}

impl<'a, D: Disk> Turn<'a, D> {
    fn take(log: &'a LogInner<D>) -> Self {
        let number = log.next_turn.get();
        log.next_turn.set(number + 1);
        log.turns.borrow_mut().push_back(number);
        Self { log, number }
    }

    fn is_next(&self) -> bool {
        self.log.turns.borrow().front() == Some(&self.number)
    }
}

impl<D: Disk> Drop for Turn<'_, D> {
    fn drop(&mut self) {
        let mut turns = self.log.turns.borrow_mut();
        let was_next = turns.front() == Some(&self.number);
        turns.retain(|turn| *turn != self.number);
        drop(turns);
        // Given up before it was busy: the next one may go on.
        if was_next && !self.log.state.try_borrow().is_ok_and(|state| state.busy) {
            self.log.changed.notify_all();
        }
    }
}

impl<D: Disk> LogState<D> {
    /// An empty log.
    pub(crate) fn new(settings: LogSettings, start_offset: Offset) -> Self {
        Self {
            settings,
            start_offset,
            durable_start: start_offset,
            end_offset: start_offset,
            flushed_end: start_offset,
            written_end: start_offset,
            high_watermark: start_offset,
            last_origin: 0,
            epochs: Epochs::default(),
            producers: Producers::default(),
            runs: VecDeque::new(),
            segments: Vec::new(),
            next_capacity: BUFFER_BYTES_MIN,
            next_file_number: 1,
            obsolete: Vec::new(),
            snapshot: 0,
            open_segment: None,
            last_sequence: Sequence(0),
            created: Sequence(0),
            generation: 0,
            cuts: Vec::new(),
            deleted: false,
            closed: false,
            has_folder: false,
            damaged_from: None,
            direct: None,
            cleaned_to: 0,
            cleaning: false,
            uncleanable: None,
            last_cleaned_ms: None,
            busy: false,
            touched: true,
        }
    }

    /// The first offset that may be read.
    pub(crate) fn durable_start(&self) -> Offset {
        self.durable_start
    }

    /// An entry that raised the start offset is durable. Whether what readers are told moved.
    pub(crate) fn advance_start(&mut self, start: Offset, _proof: Durable) -> bool {
        let before = self.durable_start;
        assert!(
            start <= self.start_offset,
            "a start is raised before it is durable"
        );
        self.durable_start = before.max(start);
        self.durable_start > before
    }

    /// Everything below is flushed.
    pub(crate) fn flushed_end(&self) -> Offset {
        self.flushed_end
    }

    /// Everything below is written.
    pub(crate) fn written_end(&self) -> Offset {
        self.written_end
    }

    /// The end that counts for acknowledgement.
    pub(crate) fn acknowledged_end(&self) -> Offset {
        if self.settings.durable {
            self.flushed_end
        } else {
            self.written_end
        }
    }

    /// An entry that ended the log of `generation` at `end` is durable. Whether the acknowledged end moved.
    pub(crate) fn advance_flushed(&mut self, end: Offset, generation: u32, _proof: Durable) -> bool {
        let before = self.acknowledged_end();
        let end = self.end_now(end, generation);
        assert!(end <= self.end_offset, "nothing is flushed that was not appended");
        self.flushed_end = self.flushed_end.max(end);
        self.written_end = self.written_end.max(end);
        // Entries become durable in order: none from before these cuts is in flight any more.
        self.cuts.retain(|(cut, _)| *cut > generation);
        self.acknowledged_end() > before
    }

    /// An entry that ended the log of `generation` at `end` is written. Whether the acknowledged end moved.
    pub(crate) fn advance_written(&mut self, end: Offset, generation: u32, _proof: Written) -> bool {
        let before = self.acknowledged_end();
        let end = self.end_now(end, generation);
        assert!(end <= self.end_offset, "nothing is written that was not appended");
        self.written_end = self.written_end.max(end);
        self.acknowledged_end() > before
    }

    /// What an end of an earlier generation is after the cuts since.
    fn end_now(&self, end: Offset, generation: u32) -> Offset {
        let since = self.cuts.iter().filter(|(cut, _)| *cut > generation);
        since.fold(end, |end, (_, offset)| end.min(*offset))
    }

    /// From the checkpoint: everything it names is flushed.
    pub(crate) fn restore_ends(&mut self, end: Offset) {
        self.flushed_end = end;
        self.written_end = end;
    }

    /// The log was cut: what is flushed and written falls with it.
    pub(crate) fn reset_ends(&mut self, end: Offset) {
        self.generation += 1;
        self.cuts.push((self.generation, end));
        self.end_offset = end;
        self.flushed_end = self.flushed_end.min(end);
        self.written_end = self.written_end.min(end);
    }

    /// After a start offset beyond the end nothing is left that could be lost.
    pub(crate) fn empty_at(&mut self, offset: Offset) {
        self.generation += 1;
        self.end_offset = offset;
        self.durable_start = offset;
        self.flushed_end = offset;
        self.written_end = offset;
        self.high_watermark = offset;
        self.last_origin = 0;
        self.epochs = Epochs::default();
        self.runs.clear();
        self.drop_segments(|_| true);
        self.open_segment = None;
    }

    /// Raises the start offset over what the log has. At its end the segment is closed: nothing in it is readable any more.
    pub(crate) fn raise_start(&mut self, offset: Offset) {
        assert!(
            offset <= self.end_offset,
            "a start beyond the end empties the log there"
        );
        self.start_offset = offset;
        self.high_watermark = self.high_watermark.max(offset);
        self.epochs.raise_start(offset);
        if offset == self.end_offset {
            self.open_segment = None;
        }
        self.touched = true;
    }

    /// Whether there is a segment of which nothing is readable any more.
    pub(crate) fn has_segments_below_start(&self) -> bool {
        let oldest = self.segments.first();
        oldest.is_some_and(|oldest| oldest.meta.end_offset <= self.start_offset)
    }

    /// Takes the segments below `start` out of the log, but for one that still gets appends or runs.
    pub(crate) fn drop_segments_below(&mut self, start: Offset) {
        let goes_on = |newest: &SegmentCheckpoint| {
            let is_open = |open: &OpenSegment| open.base_offset == newest.base_offset;
            let mut behind = self.runs.iter().filter(|run| run.end_offset > newest.end_offset);
            self.open_segment.as_ref().is_some_and(is_open)
                || behind.next().is_some_and(|run| run.segment.is_none())
        };
        let newest = self.segments.last().map(|segment| segment.meta);
        let stays = newest.filter(goes_on).map(|newest| newest.number);
        self.drop_segments(|segment| segment.end_offset <= start && Some(segment.number) != stays);
    }

    /// Takes segments out of the log; their files go after the next checkpoint.
    pub(crate) fn drop_segments(&mut self, mut gone: impl FnMut(&SegmentCheckpoint) -> bool) {
        let obsolete = &mut self.obsolete;
        self.segments.retain(|segment| {
            let meta = &segment.meta;
            let is_gone = gone(meta);
            if is_gone {
                obsolete.push(names::segment(meta.base_offset, meta.number));
                obsolete.push(names::index(meta.base_offset, meta.number));
                if meta.snapshot != 0 {
                    obsolete.push(names::snapshot(meta.snapshot));
                }
            }
            !is_gone
        });
    }

    /// Whether a batch that comes at `now_ms` opens a new segment. Its age is told by timestamps where the first batch has
    /// one, so that a log of old records that is copied here rolls as the first one did; as in Kafka.
    pub(crate) fn must_roll(&self, log_key: u64, frame: &FrameHeader, now_ms: i64) -> bool {
        let Some(open) = &self.open_segment else {
            return true;
        };
        let bytes = u64::from(frame.payload_length);
        let full = open.payload_bytes > 0 && open.payload_bytes + bytes > self.settings.segment_bytes;
        let age_ms = match open.first_timestamp {
            none if none < 0 => now_ms.saturating_sub(open.created_ms),
            first => frame.max_timestamp.saturating_sub(first),
        };
        let old = age_ms > roll_after_ms(&self.settings, log_key, open.base_offset);
        // Kafka's indexes hold offsets relative to the segment's base in 32 bits, and so do its tools.
        let last_offset = frame.end_offset() - 1;
        full || (old && open.payload_bytes > 0) || last_offset - open.base_offset > i64::from(i32::MAX)
    }

    /// Draws a number for a file of this log.
    pub(crate) fn draw_file_number(&mut self) -> u64 {
        let number = self.next_file_number;
        self.next_file_number += 1;
        number
    }

    /// Opens a segment at the log's end.
    pub(crate) fn roll(&mut self, log: LogId, first_timestamp: i64, created_ms: i64) -> SegmentStart {
        let snapshot = (!self.producers.is_empty()).then(|| {
            let number = self.draw_file_number();
            let content =
                snapshot::encode(file_key(log, number), self.end_offset, &self.producers.snapshot());
            (number, content)
        });
        self.open_segment = Some(OpenSegment {
            base_offset: self.end_offset,
            payload_bytes: 0,
            first_timestamp,
            created_ms,
        });
        SegmentStart {
            base_offset: self.end_offset,
            number: self.draw_file_number(),
            first_timestamp,
            created_ms,
            snapshot,
        }
    }

    /// Seals the newest run if it takes frames still. `filled` says whether for want of room.
    pub(crate) fn seal_newest(&mut self, key: u64, filled: bool) {
        let Some(run) = self.runs.back_mut() else { return };
        if run.state != RunState::Filling {
            return;
        }
        let capacity = run.memory.capacity().min(BUFFER_BYTES_MAX);
        // A busy log's buffers grow; one that write-back came upon half empty gets what it used.
        self.next_capacity = match filled {
            true => (capacity * 2).clamp(BUFFER_BYTES_MIN, BUFFER_BYTES_MAX),
            false => run
                .memory
                .len()
                .next_power_of_two()
                .clamp(BUFFER_BYTES_MIN, capacity.max(BUFFER_BYTES_MIN)),
        };
        run.seal(key);
    }

    /// The capacity of the next append buffer, for a frame of `frame_bytes`.
    pub(crate) fn capacity_for(&self, frame_bytes: usize) -> usize {
        let pad = crate::format::frame::pad_bytes(frame_bytes);
        (frame_bytes + pad).max(self.next_capacity).next_multiple_of(PAGE)
    }

    /// The first offset in memory; the log's end when there is none.
    pub(crate) fn memory_start(&self) -> Offset {
        self.runs.front().map_or(self.end_offset, |run| run.base_offset)
    }

    /// Where segments end, as far as they are flushed.
    pub(crate) fn segments_end(&self) -> Offset {
        self.segments
            .last()
            .map_or(self.start_offset, |segment| segment.meta.end_offset)
    }
}
