//! Why a command, or one item of it, was refused; each with Kafka's code.

use serde::{Deserialize, Serialize};
use strandline_wire::ErrorCode;
use thiserror::Error;
use uuid::Uuid;

use super::ids::{BrokerEpoch, BrokerId, LeaderEpoch, NodeId, PartitionEpoch};

/// A refusal; its text is meant for the client.
#[derive(Clone, Debug, PartialEq, Eq, Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApplyError {
    /// The log has a cluster id already.
    #[error("the cluster is initialized already")]
    ClusterInitialized,
    /// The command came before the cluster's id.
    #[error("the cluster is not initialized yet")]
    ClusterNotInitialized,
    /// Two live directories claim one node id.
    #[error(
        "node {node} is registered with another data directory ({registered}): if that one is lost, \
         `strandctl cluster replace {node}` forgets it"
    )]
    DuplicateNode {
        /// The id.
        node: NodeId,
        /// The directory that holds it.
        registered: Uuid,
    },
    /// The name is taken.
    #[error("topic '{0}' already exists")]
    TopicExists(String),
    /// The proposer drew an id that a topic has.
    #[error("topic id {0} is taken; try again")]
    TopicIdTaken(Uuid),
    /// No such topic.
    #[error("topic '{0}' does not exist")]
    UnknownTopic(String),
    /// No such topic.
    #[error("no topic has the id {0}")]
    UnknownTopicId(Uuid),
    /// Not a topic name.
    #[error("{0}")]
    InvalidTopicName(String),
    /// Too few partitions, or not more than before.
    #[error("{0}")]
    InvalidPartitions(String),
    /// More replicas than can be placed.
    #[error("{0}")]
    InvalidReplicationFactor(String),
    /// A manual placement that cannot be.
    #[error("{0}")]
    InvalidReplicaAssignment(String),
    /// An unknown key, or a value that does not fit it.
    #[error("{0}")]
    InvalidConfig(String),
    /// A request that contradicts itself.
    #[error("{0}")]
    InvalidRequest(String),
    /// The broker is not registered.
    #[error("broker {0} is not registered")]
    UnknownBroker(BrokerId),
    /// A newer registration of the broker is known.
    #[error("broker {broker} is registered with epoch {registered}, not {asked}")]
    StaleBrokerEpoch {
        /// The broker.
        broker: BrokerId,
        /// Its registration.
        registered: BrokerEpoch,
        /// The one it named.
        asked: BrokerEpoch,
    },
    /// The topic has fewer partitions.
    #[error("topic {topic} has no partition {partition}")]
    UnknownPartition {
        /// The topic.
        topic: Uuid,
        /// The number.
        partition: u32,
    },
    /// The caller knows more than this replica of the quorum's log.
    #[error("this controller has not seen epoch {0} of the partition yet")]
    NotController(i32),
    /// Another leader epoch began.
    #[error("the partition's leader epoch is {0}")]
    FencedLeaderEpoch(LeaderEpoch),
    /// The partition changed meanwhile.
    #[error("the partition's epoch is {0}")]
    InvalidUpdateVersion(PartitionEpoch),
    /// A member that may not be in sync.
    #[error("broker {0} is fenced, stopping, or registered anew")]
    IneligibleReplica(BrokerId),
    /// The change led to another leader.
    #[error("broker {0} leads now")]
    NewLeaderElected(BrokerId),
    /// The first replica cannot lead.
    #[error("the preferred leader {0} is not in sync")]
    PreferredLeaderNotAvailable(BrokerId),
    /// No replica can lead.
    #[error("no replica of the partition lives")]
    EligibleLeadersNotAvailable,
    /// It leads already.
    #[error("the partition has the leader that is asked for")]
    ElectionNotNeeded,
    /// Nothing to take back.
    #[error("no reassignment of the partition is under way")]
    NoReassignmentInProgress,
    /// A version that is older than the cluster's, or newer than this program.
    #[error("{0}")]
    InvalidMetadataVersion(String),
    /// All producer ids are given out.
    #[error("no producer ids are left")]
    ProducerIdsExhausted,
}

impl ApplyError {
    /// The code a client gets.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::ClusterInitialized | Self::InvalidRequest(_) => ErrorCode::InvalidRequest,
            Self::ClusterNotInitialized => ErrorCode::CoordinatorNotAvailable,
            Self::DuplicateNode { .. } => ErrorCode::DuplicateBrokerRegistration,
            Self::TopicExists(_) => ErrorCode::TopicAlreadyExists,
            Self::TopicIdTaken(_) => ErrorCode::RequestTimedOut,
            Self::UnknownTopic(_) => ErrorCode::UnknownTopicOrPartition,
            Self::UnknownTopicId(_) => ErrorCode::UnknownTopicId,
            Self::InvalidTopicName(_) => ErrorCode::InvalidTopicException,
            Self::InvalidPartitions(_) => ErrorCode::InvalidPartitions,
            Self::InvalidReplicationFactor(_) => ErrorCode::InvalidReplicationFactor,
            Self::InvalidReplicaAssignment(_) => ErrorCode::InvalidReplicaAssignment,
            Self::InvalidConfig(_) => ErrorCode::InvalidConfig,
            Self::UnknownBroker(_) => ErrorCode::BrokerIdNotRegistered,
            Self::StaleBrokerEpoch { .. } => ErrorCode::StaleBrokerEpoch,
            Self::UnknownPartition { .. } => ErrorCode::UnknownTopicOrPartition,
            Self::NotController(_) => ErrorCode::NotController,
            Self::FencedLeaderEpoch(_) => ErrorCode::FencedLeaderEpoch,
            Self::InvalidUpdateVersion(_) => ErrorCode::InvalidUpdateVersion,
            Self::IneligibleReplica(_) => ErrorCode::IneligibleReplica,
            Self::NewLeaderElected(_) => ErrorCode::NewLeaderElected,
            Self::PreferredLeaderNotAvailable(_) => ErrorCode::PreferredLeaderNotAvailable,
            Self::EligibleLeadersNotAvailable => ErrorCode::EligibleLeadersNotAvailable,
            Self::ElectionNotNeeded => ErrorCode::ElectionNotNeeded,
            Self::NoReassignmentInProgress => ErrorCode::NoReassignmentInProgress,
            Self::InvalidMetadataVersion(_) => ErrorCode::InvalidUpdateVersion,
            Self::ProducerIdsExhausted => ErrorCode::UnknownServerError,
        }
    }
}
