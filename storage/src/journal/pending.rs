//! What waits for the next journal entries: pieces, packed into entries as they come, so that each piece
//! knows its sequence at once.

use std::collections::VecDeque;
use std::rc::Rc;

use strandline_runtime::Monotonic;

use crate::disk::{Buffer, Disk};
use crate::format::entry::{EntryIdentity, EntryWriter, entry_bytes};
use crate::format::piece::Control;
use crate::format::round_up;
use crate::log::append_buffer::AppendBuffer;
use crate::log::state::LogInner;
use crate::types::{LogId, Offset, Sequence};

/// A frame in an append buffer.
pub(crate) struct PendingFrame<D: Disk> {
    pub(crate) memory: Rc<AppendBuffer<D::Buffer>>,
    pub(crate) position: usize,
    pub(crate) length: usize,
    pub(crate) checksum: u64,
}

enum PendingPiece<D: Disk> {
    Frame(LogId, PendingFrame<D>),
    Control(LogId, Vec<u8>),
}

/// Where an entry ends a log.
pub(crate) struct LogEnd<D: Disk> {
    pub(crate) log: Rc<LogInner<D>>,
    pub(crate) end: Offset,
    pub(crate) generation: u32,
}

/// An entry in the making.
pub(crate) struct PendingEntry<D: Disk> {
    pub(crate) sequence: Sequence,
    pub(crate) first_at: Monotonic,
    pub(crate) needs_flush: bool,
    /// Takes no more pieces.
    pub(crate) closed: bool,
    pub(crate) ends: Vec<LogEnd<D>>,
    /// The logs whose start it raises, and to where.
    pub(crate) starts: Vec<(Rc<LogInner<D>>, Offset)>,
    pieces: Vec<PendingPiece<D>>,
    control_bytes: usize,
    frame_bytes: usize,
}

impl<D: Disk> PendingEntry<D> {
    /// Its size as an entry.
    pub(crate) fn bytes(&self) -> usize {
        entry_bytes(self.pieces.len(), self.control_bytes, self.frame_bytes)
    }

    /// Whether it is a seal.
    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Writes the entry; copies each frame into the page buffer. Returns the entry's checksum.
    pub(crate) fn write_into(&self, page: &mut D::Buffer, identity: &EntryIdentity) -> u64 {
        let bytes = &mut page.as_mut_slice()[..self.bytes()];
        let mut writer = EntryWriter::new(bytes, self.pieces.len(), self.control_bytes, self.frame_bytes);
        for piece in &self.pieces {
            match piece {
                PendingPiece::Frame(log, frame) => {
                    let bytes = frame.memory.bytes(frame.position..frame.position + frame.length);
                    writer.frame(*log, frame.checksum, bytes);
                }
                PendingPiece::Control(log, bytes) => writer.control(*log, bytes),
            }
        }
        writer.finish(identity)
    }
}

/// The pending entries, oldest first.
pub(crate) struct Pending<D: Disk> {
    entries: VecDeque<PendingEntry<D>>,
    next_sequence: Sequence,
    entry_bytes_max: usize,
}

impl<D: Disk> Pending<D> {
    pub(crate) fn new(next_sequence: Sequence, entry_bytes_max: usize) -> Self {
        Self {
            entries: VecDeque::new(),
            next_sequence,
            entry_bytes_max,
        }
    }

    /// The largest frame that fits an entry.
    pub(crate) fn frame_bytes_max(&self) -> usize {
        self.entry_bytes_max - entry_bytes(1, 0, 0)
    }

    /// The sizes of the entries, oldest first.
    pub(crate) fn lengths(&self) -> impl Iterator<Item = u64> {
        self.entries.iter().map(|entry| entry.bytes() as u64)
    }

    pub(crate) fn front(&self) -> Option<&PendingEntry<D>> {
        self.entries.front()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The last sequence given out.
    pub(crate) fn last_sequence(&self) -> Sequence {
        Sequence(self.next_sequence.0 - 1)
    }

    /// The oldest entry, to be dispatched.
    pub(crate) fn pop(&mut self) -> Option<PendingEntry<D>> {
        self.entries.pop_front()
    }

    /// Pieces to come go into a later entry than all pieces so far. Returns the sequence of the latter.
    pub(crate) fn cut(&mut self) -> Sequence {
        if let Some(last) = self.entries.back_mut() {
            last.closed = true;
        }
        self.last_sequence()
    }

    /// An empty entry, to state what is durable.
    pub(crate) fn push_seal(&mut self, now: Monotonic) {
        self.open_entry(now).closed = true;
    }

    /// Adds a frame that ends its log at `end`.
    pub(crate) fn push_frame(
        &mut self,
        log: &Rc<LogInner<D>>,
        frame: PendingFrame<D>,
        (end, generation): (Offset, u32),
        durable: bool,
        now: impl FnOnce() -> Monotonic,
    ) -> Sequence {
        let bytes = frame.length;
        assert!(
            bytes <= self.frame_bytes_max(),
            "a larger frame goes as an extent"
        );
        let entry = self.entry_for(0, bytes, now);
        entry.frame_bytes += bytes;
        entry.needs_flush |= durable;
        entry.pieces.push(PendingPiece::Frame(log.log_id, frame));
        entry.set_end(log, end, generation);
        entry.sequence
    }

    /// Adds a control piece; `end` is given when it moves the log's end up.
    pub(crate) fn push_control(
        &mut self,
        log: &Rc<LogInner<D>>,
        control: &Control,
        end: Option<(Offset, u32)>,
        now: impl FnOnce() -> Monotonic,
    ) -> Sequence {
        let bytes = control.encode();
        let padded = round_up(bytes.len(), 8);
        let entry = self.entry_for(padded, 0, now);
        entry.control_bytes += padded;
        entry.needs_flush = true;
        entry.pieces.push(PendingPiece::Control(log.log_id, bytes));
        if let Some((end, generation)) = end {
            entry.set_end(log, end, generation);
        }
        if let Control::StartOffset { offset } = control {
            entry.starts.push((log.clone(), *offset));
        }
        entry.sequence
    }

    fn entry_for(
        &mut self,
        control: usize,
        frame: usize,
        now: impl FnOnce() -> Monotonic,
    ) -> &mut PendingEntry<D> {
        let fits = self.entries.back().is_some_and(|last| {
            let bytes = entry_bytes(
                last.pieces.len() + 1,
                last.control_bytes + control,
                last.frame_bytes + frame,
            );
            !last.closed && bytes <= self.entry_bytes_max
        });
        if !fits {
            if let Some(last) = self.entries.back_mut() {
                last.closed = true;
            }
            return self.open_entry(now());
        }
        self.entries.back_mut().expect("one fits")
    }

    fn open_entry(&mut self, now: Monotonic) -> &mut PendingEntry<D> {
        let sequence = self.next_sequence;
        self.next_sequence = sequence.next();
        self.entries.push_back(PendingEntry {
            sequence,
            first_at: now,
            needs_flush: false,
            closed: false,
            ends: Vec::new(),
            starts: Vec::new(),
            pieces: Vec::new(),
            control_bytes: 0,
            frame_bytes: 0,
        });
        self.entries.back_mut().expect("just pushed")
    }
}

impl<D: Disk> PendingEntry<D> {
    fn set_end(&mut self, log: &Rc<LogInner<D>>, end: Offset, generation: u32) {
        let (sequence, at) = log.pending_mark.get();
        if sequence == self.sequence {
            let known = &mut self.ends[at];
            known.end = end;
            known.generation = generation;
        } else {
            log.pending_mark.set((self.sequence, self.ends.len()));
            self.ends.push(LogEnd {
                log: log.clone(),
                end,
                generation,
            });
        }
    }
}
