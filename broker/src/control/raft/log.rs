//! openraft's log and vote in `quorum.redb`: what is answered to it is durable.

use std::cell::Cell;
use std::fmt::Debug;
use std::ops::{Bound, RangeBounds};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use openraft::storage::{LogFlushed, LogState, RaftLogStorage};
use openraft::{AnyError, AsyncRuntime, RaftLogReader, StorageIOError};
use serde::de::DeserializeOwned;

use super::runtime::Seam;
use super::types::{Entry, LogId, RaftStorageError, TypeConfig, Vote, VoterId};
use crate::control::store::raft::RaftValue;
use crate::control::store::{self, Database, RunsOnStore, StoreError, encode};

/// How long after a full disk the same entries are tried again. Meanwhile this node answers nobody, and others lead.
const FULL_DISK_RETRY: Duration = Duration::from_secs(1);

/// The log of one node, on a file that its state machine shares.
pub struct RaftLog<S> {
    store: Rc<S>,
    /// Known to be committed; stored with the next entries, since the leader tells it again anyway.
    committed: Cell<Option<LogId>>,
}

impl<S: RunsOnStore> RaftLog<S> {
    /// The log in `store`, whose file is one of a quorum of several nodes.
    pub fn new(store: Rc<S>) -> Self {
        Self {
            store,
            committed: Cell::default(),
        }
    }

    async fn value<T: DeserializeOwned>(&self, value: RaftValue) -> Result<Option<T>, RaftStorageError> {
        let bytes = self.store.run(move |database| database.raft_value(value)).await;
        let bytes = bytes.map_err(read_failed)?;
        bytes.map(|bytes| decode(&bytes)).transpose()
    }
}

/// Has `job` done, as often as it takes: a full disk heals, and any other failure is final.
pub(super) async fn durably<S: RunsOnStore>(
    store: &S,
    job: impl Fn(&Database) -> Result<(), StoreError> + Clone + Send + 'static,
) -> Result<(), StoreError> {
    loop {
        match store.run(job.clone()).await {
            Err(StoreError::Full(text)) => {
                tracing::warn!("no space is left for the metadata, and it waits for some: {text}");
                Seam::sleep(FULL_DISK_RETRY).await;
            }
            result => return result,
        }
    }
}

pub(super) fn write_failed(error: StoreError) -> RaftStorageError {
    StorageIOError::write(AnyError::error(error)).into()
}

pub(super) fn read_failed(error: StoreError) -> RaftStorageError {
    StorageIOError::read(AnyError::error(error)).into()
}

pub(super) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, RaftStorageError> {
    store::decode(bytes, "a value of the quorum").map_err(read_failed)
}

fn from_bounds(range: &impl RangeBounds<u64>) -> std::ops::Range<u64> {
    let start = match range.start_bound() {
        Bound::Included(start) => *start,
        Bound::Excluded(before) => before.saturating_add(1),
        Bound::Unbounded => 0,
    };
    let end = match range.end_bound() {
        Bound::Included(last) => last.saturating_add(1),
        Bound::Excluded(end) => *end,
        Bound::Unbounded => u64::MAX,
    };
    start..end.max(start)
}

/// Reads of the log, for replication.
pub struct RaftLogReaderOf<S>(Rc<S>);

impl<S: RunsOnStore> RaftLogReader<TypeConfig> for RaftLogReaderOf<S> {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug>(
        &mut self,
        range: RB,
    ) -> Result<Vec<Entry>, RaftStorageError> {
        let range = from_bounds(&range);
        let entries = self.0.run(move |database| database.raft_entries(range)).await;
        let entries = entries.map_err(read_failed)?;
        entries.iter().map(|bytes| decode(bytes)).collect()
    }
}

impl<S: RunsOnStore> RaftLogReader<TypeConfig> for RaftLog<S> {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug>(
        &mut self,
        range: RB,
    ) -> Result<Vec<Entry>, RaftStorageError> {
        RaftLogReaderOf(self.store.clone())
            .try_get_log_entries(range)
            .await
    }
}

impl<S: RunsOnStore> RaftLogStorage<TypeConfig> for RaftLog<S> {
    type LogReader = RaftLogReaderOf<S>;

    async fn get_log_state(&mut self) -> Result<LogState<TypeConfig>, RaftStorageError> {
        let last_purged_log_id = self.value::<LogId>(RaftValue::Purged).await?;
        let last = self.store.run(Database::raft_last).await.map_err(read_failed)?;
        let last = last.map(|bytes| decode::<Entry>(&bytes)).transpose()?;
        Ok(LogState {
            last_purged_log_id,
            last_log_id: last.map(|entry| entry.log_id).or(last_purged_log_id),
        })
    }

    async fn get_log_reader(&mut self) -> Self::LogReader {
        RaftLogReaderOf(self.store.clone())
    }

    async fn save_vote(&mut self, vote: &Vote) -> Result<(), RaftStorageError> {
        let bytes = Arc::new(encode(vote));
        let job = move |database: &Database| database.set_raft_value(RaftValue::Vote, &bytes);
        durably(&*self.store, job).await.map_err(write_failed)
    }

    async fn read_vote(&mut self) -> Result<Option<Vote>, RaftStorageError> {
        self.value(RaftValue::Vote).await
    }

    async fn save_committed(&mut self, committed: Option<LogId>) -> Result<(), RaftStorageError> {
        self.committed.set(committed);
        Ok(())
    }

    async fn read_committed(&mut self) -> Result<Option<LogId>, RaftStorageError> {
        match self.committed.get() {
            Some(committed) => Ok(Some(committed)),
            None => self.value(RaftValue::Committed).await,
        }
    }

    async fn append<I>(
        &mut self,
        entries: I,
        callback: LogFlushed<TypeConfig>,
    ) -> Result<(), RaftStorageError>
    where
        I: IntoIterator<Item = Entry>,
    {
        let entries = entries
            .into_iter()
            .map(|entry| (entry.log_id.index, encode(&entry)));
        let entries: Arc<Vec<(u64, Vec<u8>)>> = Arc::new(entries.collect());
        let committed = self.committed.get().map(|committed| encode(&committed));
        let job = move |database: &Database| database.raft_append(&entries, committed.as_deref());
        match durably(&*self.store, job).await {
            Ok(()) => {
                callback.log_io_completed(Ok(()));
                Ok(())
            }
            Err(error) => Err(write_failed(error)),
        }
    }

    async fn truncate(&mut self, log_id: LogId) -> Result<(), RaftStorageError> {
        let job = move |database: &Database| database.raft_truncate(log_id.index);
        durably(&*self.store, job).await.map_err(write_failed)
    }

    async fn purge(&mut self, log_id: LogId) -> Result<(), RaftStorageError> {
        let purged = Arc::new(encode(&log_id));
        let job = move |database: &Database| database.raft_purge(log_id.index, &purged);
        durably(&*self.store, job).await.map_err(write_failed)
    }
}

/// The first entry of a quorum that grew out of a node that was alone, and what its snapshot covers.
pub fn carried_over(
    voter: VoterId,
    address: super::types::VoterAddress,
) -> impl FnOnce(&strandline_core::metadata::ClusterImage) -> (Vec<u8>, Vec<u8>) {
    move |image| {
        let leader = openraft::CommittedLeaderId::new(0, voter);
        let last = LogId::new(leader, image.offset().0);
        let membership = openraft::Membership::new(
            vec![std::iter::once(voter).collect()],
            std::collections::BTreeMap::from([(voter, address)]),
        );
        let meta = openraft::SnapshotMeta::<VoterId, super::types::VoterAddress> {
            last_log_id: Some(last),
            last_membership: super::types::StoredMembership::new(Some(last), membership),
            snapshot_id: "alone".to_owned(),
        };
        (encode(&meta), encode(&last))
    }
}
