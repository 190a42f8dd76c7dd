//! What sequential readers left over: the memory of their last read, which holds the batches they want next.

use std::collections::VecDeque;

use super::index::ReadMemory;
use crate::budget::MemoryBudget;
use crate::types::{LogId, Offset};

/// Readers remembered: more than these read their pages twice.
const READERS_MAX: usize = 32;

/// Memory that a read returned, and where it stands in its segment.
type Chunk<B> = (u64, ReadMemory<B>);

struct Left<B> {
    key: (LogId, u64),
    offset: Offset,
    position: u64,
    chunk: Chunk<B>,
}

/// The left-overs, oldest first.
pub(crate) struct ReadAhead<B> {
    left: VecDeque<Left<B>>,
    budget: MemoryBudget,
}

impl<B: std::ops::Deref<Target = [u8]>> ReadAhead<B> {
    pub(crate) fn new(budget: MemoryBudget) -> Self {
        Self {
            left: VecDeque::new(),
            budget,
        }
    }

    /// The memory that holds the batch at `offset`, and the batch's position, if a reader left it here.
    pub(crate) fn take(&mut self, key: (LogId, u64), offset: Offset) -> Option<(u64, Chunk<B>)> {
        let at = self
            .left
            .iter()
            .position(|left| left.key == key && left.offset == offset)?;
        self.left.remove(at).map(|left| (left.position, left.chunk))
    }

    /// A reader will want `offset` next, which stands at `position`, partly in `chunk`.
    pub(crate) fn put(&mut self, key: (LogId, u64), offset: Offset, position: u64, chunk: Chunk<B>) {
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
