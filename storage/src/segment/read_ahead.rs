//! What sequential readers left over: the memory of their last read, which holds the batches they want next.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::ops::Deref;

use strandline_runtime::local::{Event, EventWait};

use super::index::ReadMemory;
use crate::budget::MemoryBudget;
use crate::types::{LogId, Offset};

/// Readers remembered: more than these read their pages twice.
const READERS_MAX: usize = 32;

/// Memory that a read returned, and where it stands in its segment.
type Chunk<B> = (u64, ReadMemory<B>);

struct Left<B> {
    key: Key,
    offset: Offset,
    position: u64,
    chunk: Chunk<B>,
}

/// A batch's position, and memory that holds at least its first bytes.
pub(crate) type Known<B> = (u64, Chunk<B>);

/// A log's segment.
type Key = (LogId, u64);

/// The left-overs, oldest first.
pub(crate) struct ReadAhead<B> {
    left: VecDeque<Left<B>>,
    /// What the disk is bringing.
    coming: Vec<(Key, Offset)>,
    arrived: Event,
    budget: MemoryBudget,
}

impl<B: Deref<Target = [u8]>> ReadAhead<B> {
    pub(crate) fn new(budget: MemoryBudget) -> Self {
        Self {
            left: VecDeque::new(),
            coming: Vec::new(),
            arrived: Event::new(),
            budget,
        }
    }

    /// Whether the disk is bringing what a reader at `offset` wants.
    pub(crate) fn is_coming(&self, key: Key, offset: Offset) -> bool {
        self.coming.contains(&(key, offset))
    }

    /// Completes when something that was coming has come, or will not.
    pub(crate) fn arrived(&self) -> EventWait {
        self.arrived.wait()
    }

    /// The memory that holds the batch at `offset`, and the batch's position, if a reader left it here.
    pub(crate) fn take(&mut self, key: Key, offset: Offset) -> Option<Known<B>> {
        let at = self
            .left
            .iter()
            .position(|left| left.key == key && left.offset == offset)?;
        self.left.remove(at).map(|left| (left.position, left.chunk))
    }

    /// A reader will want `offset` next, which stands at `position`, partly in `chunk`.
    pub(crate) fn put(&mut self, key: Key, offset: Offset, position: u64, chunk: Chunk<B>) {
        while self.left.len() >= READERS_MAX {
            self.left.pop_front();
        }
        // What is read ahead is in the budget already; beyond it, memory is wanted more elsewhere.
        if self.budget.used() <= self.budget.limit() {
            self.left.push_back(Left {
                key,
                offset,
                position,
                chunk,
            });
        }
    }

    /// Gives the memory back.
    pub(crate) fn clear(&mut self) {
        self.left.clear();
    }
}

/// What the disk is bringing for one reader; whoever waits for it goes on when this is dropped.
pub(crate) struct Coming<'a, B: Deref<Target = [u8]>> {
    read_ahead: &'a RefCell<ReadAhead<B>>,
    key: Key,
    offset: Offset,
    left: Known<B>,
}

impl<'a, B: Deref<Target = [u8]>> Coming<'a, B> {
    /// Begins with what was left at `offset`; `None` when nothing was, since then nobody knows where the batch stands.
    pub(crate) fn begin(read_ahead: &'a RefCell<ReadAhead<B>>, key: Key, offset: Offset) -> Option<Self> {
        let left = {
            let mut all = read_ahead.borrow_mut();
            let left = all.take(key, offset)?;
            all.coming.push((key, offset));
            left
        };
        Some(Self {
            read_ahead,
            key,
            offset,
            left,
        })
    }

    /// The batch's position, and what is there already.
    pub(crate) fn left(&self) -> Known<B> {
        self.left.clone()
    }

    /// It is there.
    pub(crate) fn arrived(self, chunk: Chunk<B>) {
        let (key, offset, position) = (self.key, self.offset, self.left.0);
        self.read_ahead.borrow_mut().put(key, offset, position, chunk);
    }
}

impl<B: Deref<Target = [u8]>> Drop for Coming<'_, B> {
    fn drop(&mut self) {
        let mut all = self.read_ahead.borrow_mut();
        let place = (self.key, self.offset);
        if let Some(at) = all.coming.iter().position(|coming| *coming == place) {
            all.coming.swap_remove(at);
        }
        all.arrived.notify_all();
    }
}
