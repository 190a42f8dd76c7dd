//! openraft's own tests of a store, and what they leave out: the file is opened again, a node that was alone is carried over.

use std::rc::Rc;

use openraft::storage::{RaftLogStorage, RaftStateMachine};
use openraft::testing::{StoreBuilder, Suite};
use redb::backends::InMemoryBackend;
use strandline_core::metadata::{ClusterImage, Command};
use strandline_runtime::sim::Simulation;
use tempfile::TempDir;
use uuid::Uuid;

use super::log::{RaftLog, carried_over};
use super::machine::Machine;
use super::runtime::adopt;
use super::types::{LogId, RaftStorageError, TypeConfig, VoterAddress, VoterId};
use crate::control::store::{Database, InlineStore, RunsOnStore, StoreError, ThreadedStore};

struct InMemory;

impl StoreBuilder<TypeConfig, RaftLog<InlineStore>, Machine<InlineStore>> for InMemory {
    async fn build(&self) -> Result<((), RaftLog<InlineStore>, Machine<InlineStore>), RaftStorageError> {
        let database = Database::open_backend(|| Ok(InMemoryBackend::new())).unwrap();
        database.begin_raft(|_| unreachable!("it is empty")).unwrap();
        let store = Rc::new(InlineStore(database));
        let (machine, _) = Machine::open(store.clone()).await?;
        Ok(((), RaftLog::new(store), machine))
    }
}

struct OnDisk;

impl StoreBuilder<TypeConfig, RaftLog<ThreadedStore>, Machine<ThreadedStore>, TempDir> for OnDisk {
    async fn build(
        &self,
    ) -> Result<(TempDir, RaftLog<ThreadedStore>, Machine<ThreadedStore>), RaftStorageError> {
        let directory = tempfile::tempdir().unwrap();
        let database = Database::open(&directory.path().join("quorum.redb")).unwrap();
        database.begin_raft(|_| unreachable!("it is empty")).unwrap();
        let store = Rc::new(ThreadedStore::start(database).unwrap());
        let (machine, _) = Machine::open(store.clone()).await?;
        Ok((directory, RaftLog::new(store), machine))
    }
}

#[test]
fn openrafts_own_suite_passes_in_memory() {
    adopt(Rc::new(Simulation::new(1).runtime("node")));
    Suite::test_all(InMemory).unwrap();
}

#[test]
fn openrafts_own_suite_passes_on_a_disk_with_a_thread_of_its_own() {
    adopt(Rc::new(Simulation::new(1).runtime("node")));
    Suite::test_all(OnDisk).unwrap();
}

#[tokio::test]
async fn what_a_node_alone_had_committed_is_carried_over_once() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("quorum.redb");
    let cluster_id = Uuid::from_u128(9);
    let voter = VoterId::from(4);
    let expected = {
        let database = Database::open(&path).unwrap();
        let commands = [
            Command::InitializeCluster { cluster_id },
            Command::InitializeCluster { cluster_id },
        ];
        database.append(1, &commands).unwrap();
        let image = database.load().unwrap();
        assert!(!database.is_raft().unwrap());
        let address = VoterAddress {
            host: "a".into(),
            port: 9,
        };
        database.begin_raft(carried_over(voter, address)).unwrap();
        image
    };
    let database = Database::open(&path).unwrap();
    assert!(database.is_raft().unwrap());
    assert_eq!(database.load().unwrap(), expected);
    let store = Rc::new(InlineStore(database));
    let (mut machine, images) = Machine::open(store.clone()).await.unwrap();
    assert_eq!(**images.borrow(), expected);
    let (last, membership) = machine.applied_state().await.unwrap();
    assert_eq!(last.map(|last: LogId| last.index), Some(2));
    assert_eq!(membership.voter_ids().collect::<Vec<_>>(), [voter]);
    let state = RaftLog::new(store).get_log_state().await.unwrap();
    assert_eq!((state.last_purged_log_id, state.last_log_id), (last, last));
}

#[tokio::test]
async fn an_image_that_does_not_read_is_an_error() {
    let database = Database::open_backend(|| Ok(InMemoryBackend::new())).unwrap();
    database.begin_raft(|_| unreachable!("it is empty")).unwrap();
    database
        .save_raft_snapshot(b"{\"last_log_id\":null}", b"no image")
        .unwrap();
    let store = Rc::new(InlineStore(database));
    assert!(Machine::open(store.clone()).await.is_err());
    let loaded = store.run(|database| database.load().map(drop)).await;
    assert!(matches!(loaded, Err(StoreError::Corrupt(_))), "{loaded:?}");
    assert_eq!(ClusterImage::default().offset().0, 0);
}
