//! The quorum, as the control loop sees it, and the quorum of one.

use std::sync::Arc;

use strandline_core::metadata::{Answer, ClusterImage, Command};
use thiserror::Error;

use super::store::{QuorumStore, StoreError};

/// Who orders and keeps the cluster's commands.
///
/// Narrow on purpose: a consensus library stands behind the same two calls.
pub trait Quorum {
    /// Everything committed so far.
    fn image(&self) -> &Arc<ClusterImage>;

    /// Commits commands in this order, durably and all or none; gives apply's answers.
    fn commit(&mut self, commands: Vec<Command>) -> impl Future<Output = Result<Vec<Answer>, QuorumError>>;
}

/// Why commands were not committed.
#[derive(Debug, Error)]
pub enum QuorumError {
    /// No room on the disk; nothing changed, and a later try may succeed.
    #[error("no space is left for the metadata: {0}")]
    Full(String),
    /// The store cannot be relied on any more: the node must stop.
    #[error("the metadata store failed: {0}")]
    Broken(String),
}

/// The quorum of a node that is alone: what its own store has flushed is committed.
pub struct SingleQuorum<S> {
    store: S,
    image: Arc<ClusterImage>,
    /// Bytes logged since the last snapshot.
    logged_bytes: u64,
    snapshot_bytes_min: u64,
}

impl<S: QuorumStore> SingleQuorum<S> {
    /// Continues from `image`, which is the store's own; snapshots replace the log once it has grown by
    /// `snapshot_bytes_min`, so that a start replays no more than that.
    pub fn new(store: S, image: ClusterImage, snapshot_bytes_min: u64) -> Self {
        Self {
            store,
            image: Arc::new(image),
            logged_bytes: 0,
            snapshot_bytes_min,
        }
    }
}

impl<S: QuorumStore> Quorum for SingleQuorum<S> {
    fn image(&self) -> &Arc<ClusterImage> {
        &self.image
    }

    async fn commit(&mut self, commands: Vec<Command>) -> Result<Vec<Answer>, QuorumError> {
        let first = self.image.offset().0 + 1;
        let stored = self
            .store
            .append(first, commands)
            .await
            .map_err(|error| match error {
                StoreError::Full(text) => QuorumError::Full(text),
                other => QuorumError::Broken(other.to_string()),
            })?;
        let mut image = ClusterImage::clone(&self.image);
        let answers = stored
            .commands
            .iter()
            .map(|command| image.apply(command))
            .collect();
        self.image = Arc::new(image);
        self.logged_bytes += stored.bytes;
        if self.logged_bytes >= self.snapshot_bytes_min {
            match self.store.save_snapshot(self.image.clone()).await {
                Ok(()) => self.logged_bytes = 0,
                // The log is whole without it; the next commit tries again.
                Err(StoreError::Full(text)) => {
                    tracing::warn!("no metadata snapshot: no space is left: {text}")
                }
                Err(error) => return Err(QuorumError::Broken(error.to_string())),
            }
        }
        Ok(answers)
    }
}
