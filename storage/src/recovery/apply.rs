//! Applying the pieces of entries to logs, in order. What contradicts a log damages that log, never panics.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::rc::Rc;

use strandline_wire::batch::BatchHeader;
use uuid::Uuid;

use super::extent::add_extent;
use super::unreadable;
use crate::budget::MemoryBudget;
use crate::disk::{Disk, DiskFile, OpenMode};
use crate::error::OpenError;
use crate::format::checksum::log_key;
use crate::format::entry::{Piece, pieces};
use crate::format::frame::{FLAG_GAP, FRAME_HEADER_BYTES, FrameHeader, verify_frame};
use crate::format::names;
use crate::format::piece::{Control, Extent};
use crate::journal::proof::Durable;
use crate::journal::scan::Found;
use crate::log::append::{make_room, note_frame};
use crate::log::append_buffer::AppendBuffer;
use crate::log::state::{LogInner, LogState};
use crate::log::truncate;
use crate::options::{LogSettings, StoreOptions};
use crate::segment::index::SegmentError;
use crate::types::{LogId, Offset, Sequence, TopicPartitionId};

/// A replay under way, and afterwards what it gave.
pub(crate) struct Replay<D: Disk> {
    disk: D,
    budget: MemoryBudget,
    options: StoreOptions,
    pub(crate) now_ms: i64,
    logs: BTreeMap<LogId, Replayed<D>>,
    /// Logs that a replayed piece deleted; the checkpoint still names them.
    pub(crate) deleted: Vec<Rc<LogInner<D>>>,
    /// Logs whose pieces are not applied any more.
    indicted: BTreeSet<LogId>,
    pub(crate) next_log_id: u64,
    pub(crate) clean: bool,
    pub(crate) rot: bool,
    pub(crate) entries: u64,
    pub(crate) frames: u64,
    /// Entries with pieces of indicted logs, to be kept aside.
    pub(crate) quarantined: Vec<(Sequence, Vec<u8>)>,
}

struct Replayed<D: Disk> {
    log: Rc<LogInner<D>>,
    /// Pieces up to here are in the checkpoint.
    included: Sequence,
    /// Whether a frame was replayed: it opened a segment of its own.
    rolled: bool,
    /// Extents that do not reach the log's end yet: they count together with one that does.
    extents: Vec<Extent>,
}

impl<D: Disk> Replay<D> {
    pub(crate) fn new(disk: D, budget: MemoryBudget, options: StoreOptions, now_ms: i64) -> Self {
        Self {
            disk,
            budget,
            options,
            now_ms,
            logs: BTreeMap::new(),
            deleted: Vec::new(),
            indicted: BTreeSet::new(),
            next_log_id: 0,
            clean: false,
            rot: false,
            entries: 0,
            frames: 0,
            quarantined: Vec::new(),
        }
    }

    pub(crate) fn add_log(&mut self, log: Rc<LogInner<D>>, included: Sequence) {
        self.logs.insert(
            log.log_id,
            Replayed {
                log,
                included,
                rolled: false,
                extents: Vec::new(),
            },
        );
    }

    /// The logs that live.
    pub(crate) fn logs(&self) -> impl Iterator<Item = &Rc<LogInner<D>>> {
        self.logs.values().map(|known| &known.log)
    }

    /// A log's end may be gone from here on.
    fn indict(&mut self, log: LogId, reason: &str) {
        self.rot = true;
        self.indicted.insert(log);
        if let Some(known) = self.logs.get(&log) {
            let mut state = known.log.state.borrow_mut();
            let from = state.end_offset;
            tracing::error!(log = %known.log.id, from, reason, "the log is damaged");
            state.damaged_from = Some(state.damaged_from.map_or(from, |before| before.min(from)));
            state.touched = true;
        }
    }

    /// A directory is gone: it may have held pieces of every log that the checkpoint does not cover.
    pub(crate) fn indict_all(&mut self, reason: &str) {
        self.rot = true;
        let logs: Vec<LogId> = self.logs.keys().copied().collect();
        logs.into_iter().for_each(|log| self.indict(log, reason));
    }

    /// Applies an entry; `false` when it is torn, so that it and everything behind it does not exist.
    pub(crate) async fn entry(
        &mut self,
        bytes: &[u8],
        found: &Found,
        acknowledged: bool,
    ) -> Result<bool, OpenError> {
        let sequence = found.sequence();
        let pieces = match pieces(bytes, &found.header) {
            Ok(pieces) => pieces,
            Err(_) if !acknowledged => return Ok(false),
            Err(error) => {
                self.quarantined.push((sequence, bytes.to_vec()));
                self.indict_all(&error.to_string());
                return Ok(true);
            }
        };
        // All or nothing: every frame is looked at before the first piece is applied.
        let keys = self.keys_of_new_logs(&pieces);
        let mut rotten = Vec::new();
        for piece in &pieces {
            if let Piece::Frame { log, checksum, bytes } = piece
                && let Some(key) = self
                    .logs
                    .get(log)
                    .map(|known| known.log.key)
                    .or(keys.get(log).copied())
            {
                let whole = verify_frame(bytes, key).is_ok_and(|header| header.checksum == *checksum);
                if !whole && !acknowledged {
                    return Ok(false);
                }
                if !whole {
                    rotten.push(*log);
                }
            }
        }
        self.entries += 1;
        let mut quarantine = false;
        for piece in pieces {
            let (Piece::Frame { log, .. } | Piece::Control { log, .. }) = &piece;
            let log = *log;
            if rotten.contains(&log) && !self.indicted.contains(&log) && self.is_new_to(log, sequence) {
                self.indict(log, "a frame in the journal is rotten");
            }
            let deletes = matches!(
                piece,
                Piece::Control {
                    control: Control::Delete,
                    ..
                }
            );
            if self.indicted.contains(&log) && !deletes {
                quarantine = true;
                continue;
            }
            match piece {
                Piece::Control {
                    control:
                        Control::Create {
                            topic_id,
                            partition,
                            start_offset,
                            damaged,
                        },
                    ..
                } => {
                    let id = TopicPartitionId {
                        topic_id: Uuid::from_bytes(topic_id),
                        partition,
                    };
                    self.create(id, log, sequence, start_offset, damaged);
                }
                // Of a log whose creation is gone: nothing tells what it was, but its bytes may be wanted.
                _ if !self.is_new_to(log, sequence) => quarantine |= self.is_lost(log),
                Piece::Frame { bytes, .. } => self.frame(log, bytes),
                Piece::Control { control, .. } => self.control(log, control).await?,
            }
        }
        if quarantine {
            self.quarantined.push((sequence, bytes.to_vec()));
        }
        Ok(true)
    }

    fn keys_of_new_logs(&self, pieces: &[Piece<'_>]) -> HashMap<LogId, u64> {
        let created = pieces.iter().filter_map(|piece| match piece {
            Piece::Control {
                log,
                control: Control::Create {
                    topic_id, partition, ..
                },
            } => {
                let id = TopicPartitionId {
                    topic_id: Uuid::from_bytes(*topic_id),
                    partition: *partition,
                };
                Some((*log, log_key(id)))
            }
            _ => None,
        });
        created.collect()
    }

    /// Whether the log's end may be gone: what nothing names may be of it.
    pub(crate) fn is_indicted(&self, log: LogId) -> bool {
        self.indicted.contains(&log)
    }

    /// Whether the log's creation is gone.
    fn is_lost(&self, log: LogId) -> bool {
        !self.logs.contains_key(&log) && log.0 >= self.next_log_id
    }

    /// Whether a piece of the log in this entry is above the log's own sequence. A log that is not known was
    /// deleted, or its creation is gone.
    fn is_new_to(&mut self, log: LogId, sequence: Sequence) -> bool {
        match self.logs.get(&log) {
            Some(known) => sequence > known.included,
            None => {
                if self.is_lost(log) {
                    tracing::error!(%log, "the creation of a log is missing from the journal");
                    self.rot = true;
                }
                false
            }
        }
    }

    fn create(&mut self, id: TopicPartitionId, log: LogId, sequence: Sequence, start: Offset, damaged: bool) {
        // Known: the checkpoint has it. Below the next id: it was deleted before the checkpoint.
        if self.logs.contains_key(&log) || log.0 < self.next_log_id {
            return;
        }
        self.next_log_id = log.0 + 1;
        let mut state = LogState::new(LogSettings::default(), start);
        state.created = sequence;
        state.damaged_from = damaged.then_some(start);
        self.add_log(Rc::new(LogInner::new(id, log, state)), Sequence(0));
    }

    fn frame(&mut self, log: LogId, bytes: &[u8]) {
        let known = self.logs.get_mut(&log).expect("looked at before");
        let inner = known.log.clone();
        let mut state = inner.state.borrow_mut();
        let state = &mut *state;
        let Ok(header) = FrameHeader::decode(bytes) else {
            return self.indict_frame(log, "a frame has no header");
        };
        if let Err(reason) = follows(state, &header) {
            return self.indict_frame(log, reason);
        }
        let Ok(batch) = BatchHeader::decode(&bytes[FRAME_HEADER_BYTES..]) else {
            return self.indict_frame(log, "a frame holds no batch");
        };
        if header.leader_epoch > state.epochs.latest() {
            state.epochs.begin(header.leader_epoch, header.base_offset);
        }
        // What stands beyond the valid length of the last segment is of the open that died.
        if !std::mem::replace(&mut known.rolled, true) {
            state.open_segment = None;
        }
        let (disk, budget) = (&self.disk, &self.budget);
        make_room(
            &|capacity| allocate(disk, budget, capacity),
            &inner,
            state,
            (&header, self.now_ms),
            false,
        );
        let run = state.runs.back().expect("room was made in the newest run");
        let (position, ()) = run
            .memory
            .append(bytes.len(), |memory| memory.copy_from_slice(bytes));
        note_frame(state, &header, position, &batch, self.now_ms);
        self.frames += 1;
    }

    fn indict_frame(&mut self, log: LogId, reason: &str) {
        // The state is borrowed by the caller's frame; indicted at the end of the entry's piece instead.
        self.rot = true;
        self.indicted.insert(log);
        tracing::error!(%log, reason, "the log is damaged");
    }

    async fn control(&mut self, log: LogId, control: Control) -> Result<(), OpenError> {
        let known = self.logs.get_mut(&log).expect("looked at before");
        let inner = known.log.clone();
        inner.state.borrow_mut().touched = true;
        match control {
            Control::Create { .. } => {}
            Control::Delete => {
                if let Some(known) = self.logs.remove(&log) {
                    known.log.state.borrow_mut().deleted = true;
                    self.deleted.push(known.log);
                }
            }
            // Epochs without a record were forgotten; nothing was cut.
            Control::Truncate { offset } if offset == inner.state.borrow().end_offset => {
                inner.state.borrow_mut().epochs.truncate(offset);
            }
            Control::Truncate { offset } => {
                let folder = self.log_folder(&inner);
                let allocate = |capacity: usize| allocate(&self.disk, &self.budget, capacity);
                let cut = truncate::cut(&mut inner.state.borrow_mut(), inner.key, offset, allocate);
                match truncate::restore_producers(&self.disk, &folder, &inner, cut, self.now_ms).await {
                    Ok(()) => {}
                    Err(SegmentError::Damaged(reason)) => self.indict(log, &reason),
                    Err(SegmentError::Io(detail)) => return Err(unreadable(&folder, detail)),
                }
            }
            Control::StartOffset { offset } => {
                let mut state = inner.state.borrow_mut();
                if offset > state.end_offset {
                    state.empty_at(offset);
                }
                if offset > state.start_offset {
                    state.raise_start(offset);
                }
            }
            Control::EpochStart { epoch, offset } => inner.state.borrow_mut().epochs.begin(epoch, offset),
            Control::Extent(extent) => match self.extent(&inner, extent).await {
                Ok(()) => {}
                Err(SegmentError::Damaged(reason)) => self.indict(log, &reason),
                Err(SegmentError::Io(detail)) => {
                    return Err(unreadable(&self.log_folder(&inner), detail));
                }
            },
            Control::AcceptLoss => inner.state.borrow_mut().damaged_from = None,
        }
        Ok(())
    }

    /// An extent: the segment is whole up to its end, so the frames in memory below give way to it.
    async fn extent(&mut self, inner: &Rc<LogInner<D>>, extent: Extent) -> Result<(), SegmentError> {
        let path = self
            .log_folder(inner)
            .join(names::segment(extent.segment_base, extent.segment_number));
        let size = match self.disk.open(&path, OpenMode::Read).await {
            Ok(file) => file.size().await,
            Err(error) => Err(error),
        };
        let size = size.map_err(|error| SegmentError::of(&path, &error))?;
        let damaged = |detail: &str| SegmentError::damaged(&path, detail);
        if size < extent.position.saturating_add(extent.length) {
            return Err(damaged("the file ends before its extent does"));
        }
        let known = self.logs.get_mut(&inner.log_id).expect("looked at before");
        let mut state = inner.state.borrow_mut();
        let state = &mut *state;
        let continues = extent.base_offset == state.end_offset;
        if continues && state.last_origin != extent.previous && !is_empty(state) {
            return Err(damaged("an extent does not follow the frame before it"));
        }
        if extent.base_offset > state.end_offset {
            return Err(damaged("frames before an extent are missing"));
        }
        let reaches_end = extent.end_offset >= state.end_offset;
        known.extents.push(extent);
        if !reaches_end {
            return Ok(());
        }
        for extent in std::mem::take(&mut known.extents) {
            add_extent(state, &extent, self.now_ms).map_err(damaged)?;
        }
        state.runs.clear();
        self.frames += 1;
        Ok(())
    }

    fn log_folder(&self, log: &LogInner<D>) -> PathBuf {
        self.options
            .directory
            .join(names::LOGS)
            .join(names::log_folder(log.id, log.log_id))
    }

    /// After the last entry.
    pub(crate) fn finish(&mut self) {
        for log in self.indicted.clone() {
            if self
                .logs
                .get(&log)
                .is_some_and(|known| known.log.state.borrow().damaged_from.is_none())
            {
                self.indict(log, "its frames contradict each other");
            }
        }
    }

    /// The files that were replayed are flushed: every end counts.
    pub(crate) fn count_as_flushed(&self, durable: Durable) {
        for log in self.logs() {
            let mut state = log.state.borrow_mut();
            let (end, generation) = (state.end_offset, state.generation);
            state.advance_flushed(end, generation, durable);
            let start = state.start_offset;
            state.advance_start(start, durable);
        }
    }
}

fn allocate<D: Disk>(disk: &D, budget: &MemoryBudget, capacity: usize) -> Rc<AppendBuffer<D::Buffer>> {
    Rc::new(AppendBuffer::new(
        disk.allocate(capacity),
        budget.charge(capacity as u64),
    ))
}

fn is_empty<D: Disk>(state: &LogState<D>) -> bool {
    state.runs.is_empty() && state.segments.is_empty()
}

/// Whether a frame may stand behind what the log has.
pub(crate) fn follows<D: Disk>(state: &LogState<D>, header: &FrameHeader) -> Result<(), &'static str> {
    let gap = header.flags & FLAG_GAP != 0;
    if is_empty(state) {
        // An empty log takes as its first frame the one that contains its start offset.
        let contains = header.base_offset <= state.end_offset && header.end_offset() > state.end_offset;
        return if contains || (gap && header.base_offset > state.end_offset) {
            Ok(())
        } else {
            Err("the first frame does not hold the start offset")
        };
    }
    if header.base_offset != state.end_offset && !(gap && header.base_offset > state.end_offset) {
        return Err("a frame's offset does not follow");
    }
    // Without a `previous` its leader knew none: all before had been deleted there.
    if header.previous != state.last_origin && header.previous != 0 && !gap {
        return Err("a frame's chain does not follow");
    }
    if header.leader_epoch < state.epochs.latest() {
        return Err("a frame's leader epoch falls");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::SimDisk;
    use crate::format::checkpoint::SegmentCheckpoint;
    use crate::segment::Segment;

    /// A log of 10 records in epoch 3 whose last frame has the origin 77.
    fn log() -> LogState<SimDisk> {
        let mut state = LogState::new(LogSettings::default(), 0);
        state.segments.push(Segment::new(SegmentCheckpoint::default()));
        state.end_offset = 10;
        state.last_origin = 77;
        state.epochs.begin(3, 0);
        state
    }

    fn next() -> FrameHeader {
        FrameHeader {
            previous: 77,
            base_offset: 10,
            leader_epoch: 3,
            ..FrameHeader::default()
        }
    }

    #[test]
    fn a_frame_follows_by_chain_offset_and_epoch() {
        assert_eq!(follows(&log(), &next()), Ok(()));
        let bad = [
            FrameHeader {
                previous: 76,
                ..next()
            },
            FrameHeader {
                base_offset: 9,
                ..next()
            },
            FrameHeader {
                base_offset: 11,
                ..next()
            },
            FrameHeader {
                leader_epoch: 2,
                ..next()
            },
        ];
        for header in bad {
            assert!(follows(&log(), &header).is_err(), "{header:?}");
        }
    }

    #[test]
    fn behind_a_gap_neither_offset_nor_chain_follow() {
        let gap = FrameHeader {
            flags: FLAG_GAP,
            base_offset: 15,
            previous: 1,
            ..next()
        };
        assert_eq!(follows(&log(), &gap), Ok(()));
        assert!(
            follows(
                &log(),
                &FrameHeader {
                    base_offset: 9,
                    ..gap
                }
            )
            .is_err(),
            "a gap goes forward"
        );
    }

    #[test]
    fn an_empty_log_takes_the_frame_that_holds_its_start() {
        let mut empty = LogState::<SimDisk>::new(LogSettings::default(), 12);
        empty.last_origin = 5;
        let holds = FrameHeader {
            last_offset_delta: 2,
            previous: 1,
            ..next()
        };
        assert_eq!(follows(&empty, &holds), Ok(()), "10..=12 with any previous");
        assert!(
            follows(
                &empty,
                &FrameHeader {
                    last_offset_delta: 1,
                    ..holds
                }
            )
            .is_err()
        );
        assert!(
            follows(
                &empty,
                &FrameHeader {
                    base_offset: 13,
                    ..holds
                }
            )
            .is_err()
        );
    }
}
