//! The memory that a shard's groups take: members with what they said, and committed offsets.
//!
//! What is there is kept: offsets were acknowledged, and members are in the middle of something. So a bound holds for what is
//! new: beyond it no member and no offset of another partition is taken, until some go.

use std::cell::{Cell, RefCell};

use strandline_storage::{MemoryBudget, Reservation};

/// Changes below this are not counted one by one in the shard's memory.
const COUNTED_BYTES: usize = 64 << 10;

/// What the groups of a shard hold.
pub(super) struct GroupMemory {
    budget: MemoryBudget,
    limit: usize,
    held: Cell<usize>,
    counted: RefCell<Option<Reservation>>,
}

impl GroupMemory {
    pub(super) fn new(budget: MemoryBudget, limit: usize) -> Self {
        Self {
            budget,
            limit,
            held: Cell::new(0),
            counted: RefCell::new(None),
        }
    }

    /// Whether nothing new is taken.
    pub(super) fn is_full(&self) -> bool {
        self.held.get() >= self.limit
    }

    /// Whether `bytes` more may be taken.
    pub(super) fn has_room_for(&self, bytes: usize) -> bool {
        bytes == 0 || self.held.get().saturating_add(bytes) <= self.limit
    }

    /// What took `before` bytes takes `after`.
    pub(super) fn change(&self, before: usize, after: usize) {
        let held = self.held.get() + after - before;
        self.held.set(held);
        let mut counted = self.counted.borrow_mut();
        let known = counted.as_ref().map_or(0, |counted| counted.bytes() as usize);
        if known.abs_diff(held) >= COUNTED_BYTES {
            *counted = None;
            *counted = Some(self.budget.claim(held as u64));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_groups_hold_is_counted_in_the_shards_memory() {
        let budget = MemoryBudget::new(10 << 20);
        let memory = GroupMemory::new(budget.clone(), 1 << 20);
        memory.change(0, 1000);
        assert_eq!(budget.used(), 0, "too little to count");
        memory.change(0, 512 << 10);
        assert_eq!(budget.used(), (512 << 10) + 1000);
        assert!(!memory.is_full());
        assert!(memory.has_room_for(500 << 10) && !memory.has_room_for(512 << 10));
        memory.change(1000, 512 << 10);
        assert!(memory.has_room_for(0) && !memory.has_room_for(1));
        assert!(memory.is_full());
        memory.change(1 << 20, 0);
        assert!(!memory.is_full());
        assert_eq!(budget.used(), 0);
    }
}
