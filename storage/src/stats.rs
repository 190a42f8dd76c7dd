//! Plain counters of a store, for metrics.

use std::cell::Cell;
use std::time::Duration;

use crate::maintain::LongestTurn;

/// What a store did since it was opened, and what it holds now. Times in nanoseconds, sizes in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreStats {
    /// Batches appended.
    pub appends: u64,
    /// Batches refused because the disk is full, the shard has stopped, or the log is damaged.
    pub appends_refused: u64,
    /// Their payload.
    pub append_bytes: u64,
    /// Journal entries written, seals included.
    pub entries: u64,
    /// Their bytes, padding included.
    pub entry_bytes: u64,
    /// Journal flushes that completed, writes that flush by themselves among them.
    pub flushes: u64,
    /// Their time, summed.
    pub flush_ns: u64,
    /// Time of the other journal writes, summed.
    pub write_ns: u64,
    /// Time from an entry's first piece to the entry's flush, summed over entries.
    pub commit_ns: u64,
    /// Runs that went straight to a segment.
    pub extents: u64,
    /// Their bytes.
    pub extent_bytes: u64,
    /// Checkpoints written.
    pub checkpoints: u64,
    /// Bytes that write-back wrote to segments.
    pub write_back_bytes: u64,
    /// Whether appends are refused since the disk is full.
    pub disk_full: bool,
    /// The free space of the disk as it was last looked at, where the system tells.
    pub disk_free_bytes: Option<u64>,
    /// What must stay free.
    pub disk_reserve_bytes: u64,
    /// Logs of which something cannot be read: they serve up to the damage, and take nothing.
    pub damaged_logs: u64,
    /// The journal ring's size.
    pub journal_bytes: u64,
    /// How much of it holds entries that a replay would need.
    pub journal_used_bytes: u64,
    /// Frames that no checkpoint covers yet.
    pub dirty_bytes: u64,
    /// Frames in memory that a checkpoint covers.
    pub cached_bytes: u64,
    /// The byte budget in use.
    pub memory_used_bytes: u64,
    /// Reads served from memory.
    pub memory_reads: u64,
    /// Reads served from disk.
    pub disk_reads: u64,
    /// Bytes read from segments.
    pub disk_read_bytes: u64,
    /// Segment files open.
    pub open_files: u64,
    /// Rounds of retention over all logs.
    pub retention_rounds: u64,
    /// Segments it deleted because their log was too large.
    pub retention_segments_by_size: u64,
    /// Segments it deleted because they were too old.
    pub retention_segments_by_time: u64,
    /// Their payload.
    pub retention_bytes: u64,
    /// The cleaner.
    pub cleaner: CleanerStats,
    /// How long background work kept the shard to itself.
    pub longest_turns: LongestTurns,
}

/// The longest time that a task ran without giving way, since the store was opened; the time in which the system ran something
/// else counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LongestTurns {
    /// Retention.
    pub retention: Duration,
    /// The cleaner.
    pub cleaner: Duration,
    /// Write-back and checkpoints.
    pub write_back: Duration,
}

/// What the cleaner did since the store was opened, and what it found in its last round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CleanerStats {
    /// Rounds of all logs.
    pub rounds: u64,
    /// Cleanings of a log.
    pub cleanings: u64,
    /// Cleanings that are to be tried again: for want of space, or since a read was refused.
    pub failures: u64,
    /// Their time, summed, in nanoseconds.
    pub ns: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes of batches written.
    pub written_bytes: u64,
    /// Records met.
    pub records_read: u64,
    /// Records kept.
    pub records_kept: u64,
    /// Logs that are left alone, since what stands in them cannot be read.
    pub uncleanable_logs: u64,
    /// The largest dirty share of a log, in percent.
    pub max_dirty_percent: u64,
}

/// A counter of one thread.
#[derive(Default)]
pub(crate) struct Counter(Cell<u64>);

impl Counter {
    pub(crate) fn add(&self, amount: u64) {
        self.0.set(self.0.get().wrapping_add(amount));
    }

    pub(crate) fn subtract(&self, amount: u64) {
        self.0.set(self.0.get().saturating_sub(amount));
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.get()
    }
}

/// The counters behind [`StoreStats`].
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) appends: Counter,
    pub(crate) appends_refused: Counter,
    pub(crate) append_bytes: Counter,
    pub(crate) entries: Counter,
    pub(crate) entry_bytes: Counter,
    pub(crate) flushes: Counter,
    pub(crate) flush_ns: Counter,
    pub(crate) write_ns: Counter,
    pub(crate) commit_ns: Counter,
    pub(crate) extents: Counter,
    pub(crate) extent_bytes: Counter,
    pub(crate) checkpoints: Counter,
    pub(crate) write_back_bytes: Counter,
    pub(crate) dirty_bytes: Counter,
    pub(crate) memory_reads: Counter,
    pub(crate) disk_reads: Counter,
    pub(crate) disk_read_bytes: Counter,
    pub(crate) retention_rounds: Counter,
    pub(crate) retention_segments_by_size: Counter,
    pub(crate) retention_segments_by_time: Counter,
    pub(crate) retention_bytes: Counter,
    pub(crate) cleaner: Cell<CleanerStats>,
    pub(crate) retention_turn: LongestTurn,
    pub(crate) cleaner_turn: LongestTurn,
    pub(crate) write_back_turn: LongestTurn,
}

impl Counters {
    pub(crate) fn change_cleaner(&self, change: impl FnOnce(&mut CleanerStats)) {
        let mut stats = self.cleaner.get();
        change(&mut stats);
        self.cleaner.set(stats);
    }
}
