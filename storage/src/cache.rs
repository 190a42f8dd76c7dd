//! The cache of recent frames: the clean runs of all logs, oldest first. The append buffers themselves are
//! the cache; here is only the order in which they go when the budget needs room.

use std::collections::VecDeque;
use std::rc::{Rc, Weak};

use crate::disk::Disk;
use crate::log::run::RunState;
use crate::log::state::LogInner;
use crate::types::Offset;

/// Clean runs in the order in which they became clean. Readers of old data put nothing here, so they never
/// evict the tail.
pub(crate) struct Cache<D: Disk> {
    runs: VecDeque<(Weak<LogInner<D>>, Offset)>,
}

impl<D: Disk> Cache<D> {
    pub(crate) fn new() -> Self {
        Self {
            runs: VecDeque::new(),
        }
    }

    /// A run became clean.
    pub(crate) fn push(&mut self, log: &Rc<LogInner<D>>, base_offset: Offset) {
        self.runs.push_back((Rc::downgrade(log), base_offset));
    }

    /// Drops clean runs of at least `bytes`, if there are so many.
    pub(crate) fn evict(&mut self, bytes: u64) {
        let mut dropped = 0;
        while dropped < bytes {
            let Some((log, base_offset)) = self.runs.pop_front() else {
                return;
            };
            let Some(log) = log.upgrade() else { continue };
            let Ok(mut state) = log.state.try_borrow_mut() else {
                self.runs.push_front((Rc::downgrade(&log), base_offset));
                return;
            };
            // The run may be gone already, by a truncation, a deletion or a raised start offset.
            let is_front = state
                .runs
                .front()
                .is_some_and(|run| run.base_offset == base_offset && run.state == RunState::Clean);
            if is_front && let Some(run) = state.runs.pop_front() {
                dropped += run.memory.reserved_bytes();
            }
        }
    }
}
