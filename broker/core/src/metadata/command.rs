//! What can be asked of the cluster's metadata, and what apply answers.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::error::ApplyError;
use super::ids::{BrokerEpoch, BrokerId, LeaderEpoch, MetadataVersion, NodeId, PartitionEpoch};
use crate::replica::AlteredPartition;

/// One entry of the quorum's log.
///
/// Serialised with names, not positions: a field added later reads as its default in old logs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    /// The first record of a cluster; a second one is refused.
    InitializeCluster {
        /// Random, drawn by the node that formatted.
        cluster_id: Uuid,
    },
    /// A node has started, with all its shards; supersedes its previous incarnation.
    RegisterNode(NodeRegistration),
    /// These shards replayed their logs, hold the image of their registration and listen.
    UnfenceBrokers {
        /// The shards, with the epoch each was registered at; another epoch's are left as they are.
        brokers: Vec<(BrokerId, BrokerEpoch)>,
    },
    /// One shard has started again in a living process; supersedes its previous incarnation.
    RegisterShard {
        /// The node.
        node: NodeId,
        /// The id of the node's data directory.
        directory_id: Uuid,
        /// The shard.
        shard: ShardRegistration,
    },
    /// These shards are silent, gone or failed: they lead nothing and are in sync nowhere.
    FenceBrokers {
        /// The shards, with the epoch each was registered at; another epoch's are left as they are.
        brokers: Vec<(BrokerId, BrokerEpoch)>,
    },
    /// These shards are about to stop: their leaderships move first.
    StopBrokers {
        /// The shards, with the epoch each was registered at; another epoch's are left as they are.
        brokers: Vec<(BrokerId, BrokerEpoch)>,
    },
    /// A node is lost for good, its disks with it; another may take its id.
    UnregisterNode {
        /// The node.
        node: NodeId,
    },
    /// A shard found that these replicas of its lost bytes.
    ReplicasDamaged {
        /// The shard.
        broker: BrokerId,
        /// Its registration.
        epoch: BrokerEpoch,
        /// The replicas.
        replicas: Vec<PartitionReference>,
    },
    /// A leader changes the in-sync sets of partitions, each decided on its own.
    AlterPartitions {
        /// Who asks.
        leader: BrokerId,
        /// Its registration.
        epoch: BrokerEpoch,
        /// In the order of the answer.
        changes: Vec<IsrChange>,
    },
    /// Elections that an operator or the balancer asks for, each decided on its own.
    ElectLeaders {
        /// Of which kind.
        election: Election,
        /// In the order of the answer.
        partitions: Vec<PartitionReference>,
    },
    /// Moves partitions, each decided on its own.
    AlterReassignments {
        /// In the order of the answer.
        reassignments: Vec<Reassignment>,
    },
    /// Every node understands this version now.
    FinalizeMetadataVersion {
        /// The new one.
        version: MetadataVersion,
    },
    /// New topics, each decided on its own.
    CreateTopics {
        /// In the order of the answer.
        topics: Vec<NewTopic>,
    },
    /// Topics to delete, each decided on its own.
    DeleteTopics {
        /// In the order of the answer.
        topics: Vec<TopicReference>,
    },
    /// More partitions for existing topics, each decided on its own.
    CreatePartitions {
        /// In the order of the answer.
        topics: Vec<NewPartitions>,
    },
    /// Changes of dynamic configuration, each resource decided on its own and changed whole or not at all.
    AlterConfigs {
        /// In the order of the answer.
        changes: Vec<ConfigChange>,
    },
    /// A block of producer ids for one broker, never given out again.
    AllocateProducerIds {
        /// Who asks.
        broker: BrokerId,
    },
}

/// What apply decided; the variants answer the command of the same name, item by item.
///
/// Serialised where a node asks another one to propose for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// The command was applied, or refused as a whole.
    Whole(Result<(), ApplyError>),
    /// The node is registered; all its shards have this epoch.
    Registered(Result<BrokerEpoch, ApplyError>),
    /// For [`Command::AlterPartitions`].
    PartitionsAltered(Vec<Result<AlteredPartition, ApplyError>>),
    /// For [`Command::ElectLeaders`].
    LeadersElected(Vec<Result<(), ApplyError>>),
    /// For [`Command::AlterReassignments`].
    Reassigned(Vec<Result<(), ApplyError>>),
    /// For [`Command::CreateTopics`].
    TopicsCreated(Vec<Result<CreatedTopic, ApplyError>>),
    /// For [`Command::DeleteTopics`]: id and name of each deleted topic.
    TopicsDeleted(Vec<Result<(Uuid, String), ApplyError>>),
    /// For [`Command::CreatePartitions`].
    PartitionsCreated(Vec<Result<(), ApplyError>>),
    /// For [`Command::AlterConfigs`].
    ConfigsAltered(Vec<ConfigAnswer>),
    /// For [`Command::AllocateProducerIds`].
    ProducerIds(Result<BlockOfProducerIds, ApplyError>),
}

/// The outcome for one resource of [`Command::AlterConfigs`].
pub type ConfigAnswer = Result<(), ApplyError>;

/// Producer ids that belong to one broker alone.
pub type BlockOfProducerIds = Range<i64>;

/// A node that has started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRegistration {
    /// Its configured id.
    pub node: NodeId,
    /// Random, made at format: proves that this is the node that held the id before.
    pub directory_id: Uuid,
    /// The machine's boot; another one means that unflushed bytes of relaxed topics may be gone.
    pub boot_id: String,
    /// Failure domain.
    pub rack: String,
    /// All its shards.
    pub shards: Vec<ShardRegistration>,
}

/// A shard that has started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardRegistration {
    /// Its number within the node.
    pub shard: u32,
    /// The id of the data directory that holds its logs.
    pub directory_id: Uuid,
    /// Where clients reach it, one a listener.
    pub endpoints: Vec<Endpoint>,
    /// Where shards of other nodes reach it; `None` for a node that is alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<LinkAddress>,
    /// Replicas whose recovery found damage, or which lost bytes in another way that the shard knows of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub damaged: Vec<PartitionReference>,
}

/// A partition, by its topic's id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PartitionReference {
    /// The topic.
    pub topic: Uuid,
    /// Its number.
    pub partition: u32,
}

/// A leader's wish for the ISR of one partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IsrChange {
    /// Which.
    pub partition: PartitionReference,
    /// The epoch it leads in.
    pub leader_epoch: LeaderEpoch,
    /// The state it changes.
    pub partition_epoch: PartitionEpoch,
    /// The new set, each member with the registration that the leader knows it by.
    pub isr: Vec<(BrokerId, BrokerEpoch)>,
}

/// How a leader is elected on request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Election {
    /// The first replica, if it is in sync.
    Preferred,
    /// Any replica that lives, where nobody leads: what only others have is lost.
    Unclean,
}

/// Where a partition shall be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reassignment {
    /// Which.
    pub partition: PartitionReference,
    /// Its new replicas, the preferred leader first; `None` takes back a move that is under way.
    pub replicas: Option<Vec<BrokerId>>,
    /// Whether their number may change.
    #[serde(default = "allowed")]
    pub allow_factor_change: bool,
}

fn allowed() -> bool {
    true
}

/// An advertised address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoint {
    /// The listener's name, for example `PLAINTEXT`.
    pub listener: String,
    /// A host name or address, without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
}

/// Where the shards of other nodes reach a shard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkAddress {
    /// A host name or address, without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
}

/// A topic to create.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewTopic {
    /// Checked by Kafka's rules.
    pub name: String,
    /// Random, drawn by the proposer.
    pub id: Uuid,
    /// Its partitions.
    pub layout: PartitionLayout,
    /// The topic's own configuration.
    pub configs: BTreeMap<String, String>,
}

/// How many partitions, and where.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PartitionLayout {
    /// Placed by the cluster.
    Automatic {
        /// At least 1.
        partitions: i32,
        /// At least 1.
        replication_factor: i16,
    },
    /// Placed by the caller: the brokers of each partition, the preferred leader first.
    Manual(Vec<Vec<BrokerId>>),
}

/// A topic by name or by id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TopicReference {
    /// By name.
    Name(String),
    /// By id.
    Id(Uuid),
}

/// More partitions for a topic.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewPartitions {
    /// The topic.
    pub name: String,
    /// The total it shall have.
    pub total: i32,
    /// The brokers of each new partition; `None` lets the cluster place them.
    pub assignments: Option<Vec<Vec<BrokerId>>>,
}

/// A created topic, as the answer reports it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreatedTopic {
    /// Its id.
    pub id: Uuid,
    /// How many partitions it has.
    pub partitions: i32,
    /// Replicas of each.
    pub replication_factor: i16,
}

/// Whose configuration.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConfigResource {
    /// A topic, by name.
    Topic(String),
    /// One broker.
    Broker(BrokerId),
    /// Every broker that has no value of its own.
    ClusterDefault,
    /// A group, by name, whether or not it has members or offsets.
    Group(String),
}

/// Changes to one resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigChange {
    /// Whose.
    pub resource: ConfigResource,
    /// Whether keys that are not named lose their value (the legacy AlterConfigs).
    pub replace: bool,
    /// In order.
    pub operations: Vec<(String, ConfigOperation)>,
}

/// A change of one key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConfigOperation {
    /// Set the value.
    Set(String),
    /// Forget the value, so that the inherited one holds.
    Delete,
    /// Add the items to a list.
    Append {
        /// Separated by commas.
        items: String,
        /// The list that holds while the resource has no value of its own, as the proposer sees it.
        inherited: String,
    },
    /// Take the items out of a list.
    Subtract {
        /// Separated by commas.
        items: String,
        /// The list that holds while the resource has no value of its own, as the proposer sees it.
        inherited: String,
    },
}
