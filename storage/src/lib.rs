//! The log on disk: one journal a shard, one log a partition replica, generic over the [`disk`].
//!
//! A batch is copied once into its log's append buffer, behind a frame header; the journal task copies it
//! once more into the entry that makes it durable. Segments are written lazily from the append buffers;
//! a checkpoint then frees the journal. A restart reads checkpoint and journal, never whole logs.
//!
//! Map, along the life of a batch:
//! - [`store`]: the handle of a shard; format, open, close. [`log`]: the handle of a log; append, read, change.
//! - `journal`: pending pieces, the ring, the task that writes and flushes, and the proofs of durability.
//! - [`maintain`]: retention. [`cleaner`]: compaction. `checkpoint`: write-back rounds. `segment`: files, runs, indexes.
//! - `recovery`: the open.
//! - [`format`]: every byte on disk, pure; [`inspect`]: the same, for tools.
//! - [`producers`], [`epochs`]: what a log knows of its producers and leaders, pure.
//!
//! Invariants:
//! - Nothing is acknowledged without a proof that only the flush path makes; a flush covers only writes that had
//!   completed when it started.
//! - A page that a write was dispatched to is never written again while the store is open.
//! - Journal space is freed, and a file unlinked, only after a flushed checkpoint that does without them.
//! - A failed write or flush stops the shard; nothing is ever tried again.
//! - Bytes from disk give typed errors. Invariants of our own assert, in release too.
//!
//! This crate never reads a clock or random numbers but through the runtime, never blocks its thread, never
//! copies a batch on its way to a reader, and never deletes what no committed deletion names.

pub mod budget;
mod cache;
mod checkpoint;
pub mod cleaner;
pub mod disk;
pub mod epochs;
pub mod error;
pub mod format;
#[cfg(test)]
mod golden;
pub mod inspect;
mod journal;
mod lock;
pub mod log;
pub mod maintain;
pub mod options;
pub mod producers;
mod recovery;
mod segment;
mod shard;
mod space;
pub mod stats;
pub mod store;
pub mod types;

pub use budget::{MemoryBudget, Reservation};
pub use cleaner::{CleanError, Cleaned, Cleaning, CompactionSettings, Dirtiness};
pub use error::{AppendError, FrameError, OpenError, ReadError, Stopped, StoreError};
pub use log::{
    Appended, BatchSlice, Log, ReadRequest, ReadResult, ReplicaPosition, SegmentInfo, TimestampOffset,
};
pub use options::{CleanerOptions, JOURNAL_BYTES_MIN, LogSettings, MEMORY_BYTES_MIN, StoreOptions};
pub use stats::{CleanerStats, LongestTurns, StoreStats};
pub use store::{RecoveryReport, Store, StoreObserver};
pub use types::{LogId, Offset, Sequence, TopicPartitionId};
