//! The log on disk: one journal a shard, one log a partition replica.

pub mod budget;
mod cache;
mod checkpoint;
pub mod disk;
pub mod epochs;
pub mod error;
pub mod format;
#[cfg(test)]
mod golden;
mod journal;
pub mod log;
pub mod options;
pub mod producers;
mod recovery;
mod segment;
mod shard;
pub mod stats;
pub mod store;
pub mod types;

pub use budget::{MemoryBudget, Reservation};
pub use error::{AppendError, OpenError, ReadError, Stopped, StoreError};
pub use log::{Appended, BatchSlice, Log, ReadRequest, ReadResult, SegmentInfo, TimestampOffset};
pub use options::{LogSettings, StoreOptions};
pub use stats::StoreStats;
pub use store::{RecoveryReport, Store, StoreObserver};
pub use types::{LogId, Offset, Sequence, TopicPartitionId};
