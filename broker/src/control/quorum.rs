//! The quorum, as the control loop sees it, and the quorum of one.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use strandline_core::metadata::{
    Answer, BrokerEpoch, BrokerId, ClusterImage, Command, MetadataOffset, NodeId,
};
use strandline_core::sessions::ShardHeartbeat;
use thiserror::Error;

use super::raft::membership::{Change, Member, NoChange, Status};
use super::raft::types::{VoterAddress, VoterId};
use super::store::{QuorumStore, StoreError};

/// Who orders and keeps the cluster's commands.
///
/// Narrow on purpose: the quorum of one and openraft stand behind the same calls.
pub trait Quorum: 'static {
    /// Everything committed so far, as far as this node knows.
    fn image(&self) -> Arc<ClusterImage>;

    /// Completes once this node knows of more than `seen`, other than by its own commits.
    fn changed(&self, seen: MetadataOffset) -> impl Future<Output = ()>;

    /// Commits commands in this order, durably and all or none; gives apply's answers. Within a bounded time.
    fn commit(&self, commands: Vec<Command>) -> impl Future<Output = Result<Decided, QuorumError>>;

    /// Whether this node is all of the cluster: nobody watches over its shards, and nobody takes over from them.
    fn is_alone(&self) -> bool;

    /// What the quorum's leader knows of the quorum.
    fn status(&self) -> impl Future<Output = Result<Status, QuorumError>>;

    /// Changes who votes and who learns.
    fn change(&self, change: Change) -> impl Future<Output = Result<(), QuorumError>>;

    /// A link to `node` is gone, and its port refuses: if its controller's does too, the process is dead, and the quorum's leader
    /// hears of these shards of it. Whether it did.
    fn suspect(
        &self,
        node: NodeId,
        shards: Vec<(BrokerId, BrokerEpoch)>,
    ) -> impl Future<Output = Result<bool, QuorumError>>;

    /// Tells the quorum's leader how the node's shards are.
    fn heartbeat(&self, shards: Vec<ShardHeartbeat>) -> impl Future<Output = Result<(), QuorumError>>;
}

/// What apply made of commands that were committed as one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decided {
    /// The offset of the first command; the others follow it.
    pub first: MetadataOffset,
    /// One a command.
    pub answers: Vec<Answer>,
}

/// Why commands were not committed.
#[derive(Debug, Error)]
pub enum QuorumError {
    /// No room on the disk; nothing changed, and a later try may succeed.
    #[error("no space is left for the metadata: {0}")]
    Full(String),
    /// Nobody leads the quorum, or its leader is out of reach; nothing changed.
    #[error("the quorum cannot be asked: {0}")]
    NoLeader(String),
    /// The answer did not come in time: it may be committed, or may still be.
    #[error("the quorum did not answer: {0}")]
    Unknown(String),
    /// The quorum refuses it.
    #[error("{0}")]
    Refused(String),
    /// The membership is as asked for, or does not hold who was meant.
    #[error("{1}")]
    NoChange(NoChange, String),
    /// The store cannot be relied on any more: the node must stop.
    #[error("the metadata store failed: {0}")]
    Broken(String),
}

/// The quorum of a node that is alone: what its own store has flushed is committed.
pub struct SingleQuorum<S> {
    store: S,
    image: RefCell<Arc<ClusterImage>>,
    /// Bytes logged since the last snapshot.
    logged_bytes: Cell<u64>,
    snapshot_bytes_min: u64,
}

impl<S: QuorumStore> SingleQuorum<S> {
    /// Continues from `image`, which is the store's own; snapshots replace the log once it has grown by
    /// `snapshot_bytes_min`, so that a start replays no more than that.
    pub fn new(store: S, image: ClusterImage, snapshot_bytes_min: u64) -> Self {
        Self {
            store,
            image: RefCell::new(Arc::new(image)),
            logged_bytes: Cell::new(0),
            snapshot_bytes_min,
        }
    }
}

impl<S: QuorumStore + 'static> Quorum for SingleQuorum<S> {
    fn image(&self) -> Arc<ClusterImage> {
        self.image.borrow().clone()
    }

    async fn changed(&self, _seen: MetadataOffset) {
        std::future::pending().await
    }

    /// One at a time: the control loop has one commit in flight.
    async fn commit(&self, commands: Vec<Command>) -> Result<Decided, QuorumError> {
        let before = self.image();
        let first = MetadataOffset(before.offset().0 + 1);
        let stored = self
            .store
            .append(first.0, commands)
            .await
            .map_err(|error| match error {
                StoreError::Full(text) => QuorumError::Full(text),
                other => QuorumError::Broken(other.to_string()),
            })?;
        let mut image = ClusterImage::clone(&before);
        let answers = stored
            .commands
            .iter()
            .map(|command| image.apply(command))
            .collect();
        let image = Arc::new(image);
        self.image.replace(image.clone());
        self.logged_bytes.set(self.logged_bytes.get() + stored.bytes);
        if self.logged_bytes.get() >= self.snapshot_bytes_min {
            match self.store.save_snapshot(image).await {
                Ok(()) => self.logged_bytes.set(0),
                // The log is whole without it; the next commit tries again.
                Err(StoreError::Full(text)) => {
                    tracing::warn!("no metadata snapshot: no space is left: {text}")
                }
                Err(error) => return Err(QuorumError::Broken(error.to_string())),
            }
        }
        Ok(Decided { first, answers })
    }

    fn is_alone(&self) -> bool {
        true
    }

    async fn status(&self) -> Result<Status, QuorumError> {
        let image = self.image();
        let node = image.brokers().next().map(|broker| broker.id.node());
        let directory = node
            .and_then(|node| image.node(node))
            .map(|node| node.directory_id);
        let voter = VoterId {
            node: node.unwrap_or_default(),
            directory: directory.unwrap_or_default(),
        };
        let end = Some(image.offset().0);
        Ok(Status {
            voter,
            cluster_id: image.cluster_id().unwrap_or_default(),
            leader: Some(voter),
            term: 0,
            log_end: end,
            applied: end,
            members: vec![Member {
                voter,
                // Closed: nobody else is there.
                address: VoterAddress::default(),
                votes: true,
                log_end: end,
            }],
        })
    }

    async fn change(&self, _change: Change) -> Result<(), QuorumError> {
        Err(QuorumError::Refused(
            "this node is alone: name the voters in 'controller.quorum.voters', itself first, and start it again".to_owned(),
        ))
    }

    async fn suspect(
        &self,
        _node: NodeId,
        _shards: Vec<(BrokerId, BrokerEpoch)>,
    ) -> Result<bool, QuorumError> {
        Ok(false)
    }

    async fn heartbeat(&self, _shards: Vec<ShardHeartbeat>) -> Result<(), QuorumError> {
        Ok(())
    }
}
