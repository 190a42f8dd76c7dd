//! Where the quorum keeps its commands and snapshots: `quorum.redb`.
//!
//! [`Database`] is the file itself, synchronous. The node runs it on a thread of its own ([`ThreadedStore`]), since the
//! control thread never waits for a disk; the simulator runs it inline ([`InlineStore`]) over a simulated one.

mod backend;
mod database;
mod inline;
pub mod raft;
mod simulated;
mod threaded;

use std::sync::Arc;

use strandline_core::metadata::{ClusterImage, Command};
use thiserror::Error;

pub use database::Database;
pub(super) use database::{decode, encode};
pub use inline::InlineStore;
pub use simulated::SimulatedBackend;
pub use threaded::ThreadedStore;

/// A durable log of commands with snapshots.
pub trait QuorumStore {
    /// Stores commands, the first at offset `first`, and flushes them.
    fn append(&self, first: u64, commands: Vec<Command>) -> impl Future<Output = Result<Stored, StoreError>>;

    /// Stores a snapshot and drops the commands it contains, in one flushed step.
    fn save_snapshot(&self, image: Arc<ClusterImage>) -> impl Future<Output = Result<(), StoreError>>;
}

/// Work on the store's file, where it is done without holding up the control thread; in the order it was asked for.
pub trait RunsOnStore: 'static {
    /// Runs `job` and gives its result.
    fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Database) -> Result<T, StoreError> + Send + 'static,
    ) -> impl Future<Output = Result<T, StoreError>>;
}

/// Commands that are durable now.
#[derive(Debug)]
pub struct Stored {
    /// Given back to be applied.
    pub commands: Vec<Command>,
    /// What they took in the log.
    pub bytes: u64,
}

/// Why the store failed.
#[derive(Debug, Error)]
pub enum StoreError {
    /// The disk is full; the transaction was rolled back.
    #[error("{0}")]
    Full(String),
    /// Another process has the file open.
    #[error("another process has it open")]
    InUse,
    /// The file is of a version that this one does not know.
    #[error("it has format {found}, and this version reads up to {known}; start the newer version again")]
    Newer {
        /// What the file says.
        found: u64,
        /// What this version writes.
        known: u64,
    },
    /// The content does not read.
    #[error("it does not read: {0}")]
    Corrupt(String),
    /// Anything else: after a failed write or flush nothing is retried.
    #[error("{0}")]
    Failed(String),
    /// The store's thread is gone.
    #[error("the store's thread has ended")]
    Gone,
}
