//! The journal: one ring of files a shard, into which every change of every log goes, in order.
//!
//! Changes gather in [`pending`] while a commit is in flight. The [`writer`] task makes entries of them,
//! places them in the [`ring`], writes and flushes; [`proof`] alone says what is durable. [`scan`] finds the
//! entries again after a crash.

pub(crate) mod pending;
pub(crate) mod proof;
pub(crate) mod ring;
pub(crate) mod scan;
pub(crate) mod writer;

use crate::disk::Disk;
use crate::format::entry::entry_bytes;
use crate::types::Sequence;

/// Entries in flight at most.
pub(crate) const IN_FLIGHT_MAX: usize = 4;

/// Files that frames leave free for control pieces. A checkpoint waits for the entries before it, and nothing but a
/// checkpoint frees the ring: what is pending must find a place without one, at any time.
const CONTROL_FILES: u32 = 1;

/// The state of a shard's journal.
pub(crate) struct Journal<D: Disk> {
    pub(crate) journal_id: u64,
    pub(crate) incarnation: u64,
    pub(crate) files: Vec<D::File>,
    pub(crate) pending: pending::Pending<D>,
    pub(crate) in_flight: proof::InFlight,
    /// What the in-flight entries do to logs, by sequence.
    pub(crate) dispatched: std::collections::VecDeque<writer::Dispatched<D>>,
    pub(crate) ring: ring::Ring,
    /// The last non-empty entry, and the highest durable sequence that an entry states.
    pub(crate) last_content: Sequence,
    pub(crate) stated_durable: Sequence,
    /// Page buffers for reuse.
    pub(crate) pages: Vec<writer::Page<D>>,
}

impl<D: Disk> Journal<D> {
    /// Whether the ring takes everything that is pending and frames of `bytes` besides, without a checkpoint.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        let more = (bytes > 0).then(|| entry_bytes(1, 0, bytes) as u64);
        // Nor may what waits grow without end: a quarter of the ring is some seconds of it.
        let waiting: u64 = self.pending.lengths().chain(more).sum();
        if more.is_some() && waiting > self.ring.total_bytes() / 4 {
            return false;
        }
        let left = self.ring.files_left(self.pending.lengths().chain(more));
        left.is_some_and(|left| left >= CONTROL_FILES)
    }

    /// Whether the journal task has something to do for what was just appended: otherwise the commit in flight
    /// takes it along.
    pub(crate) fn wants_wake(&self) -> bool {
        let committing = self.in_flight.committing();
        committing == 0
            || (committing < IN_FLIGHT_MAX
                && self
                    .pending
                    .front()
                    .is_some_and(|front| front.closed || front.bytes() >= writer::PIPELINE_BYTES))
    }
}
