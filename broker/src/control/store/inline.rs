//! The store on the caller's own thread, for the simulator: a simulated disk takes no real time.

use std::sync::Arc;

use strandline_core::metadata::{ClusterImage, Command};

use super::{Database, QuorumStore, RunsOnStore, StoreError, Stored};

/// A [`Database`] called directly.
pub struct InlineStore(pub Database);

impl QuorumStore for InlineStore {
    async fn append(&self, first: u64, commands: Vec<Command>) -> Result<Stored, StoreError> {
        let bytes = self.0.append(first, &commands)?;
        Ok(Stored { commands, bytes })
    }

    async fn save_snapshot(&self, image: Arc<ClusterImage>) -> Result<(), StoreError> {
        self.0.save_snapshot(&image)
    }
}

impl RunsOnStore for InlineStore {
    async fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Database) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        job(&self.0)
    }
}
