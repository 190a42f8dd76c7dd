//! The image as the quorum stores it: plain data, so that the stored form does not follow the image's own structure.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::apply::collision_key;
use super::command::{Endpoint, LinkAddress};
use super::ids::{
    BrokerEpoch, BrokerId, LeaderEpoch, MetadataOffset, MetadataVersion, NodeId, PartitionEpoch,
};
use super::image::{Broker, ClusterImage, ConfigMap, Node, Partition, Topic};

/// A whole image. Fields added later must have a default, so that old snapshots are read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    offset: MetadataOffset,
    cluster_id: Option<Uuid>,
    nodes: Vec<NodeEntry>,
    brokers: Vec<BrokerEntry>,
    topics: Vec<TopicEntry>,
    #[serde(default)]
    deleted_topics: VecDeque<Uuid>,
    broker_configs: BTreeMap<BrokerId, ConfigMap>,
    cluster_config: ConfigMap,
    #[serde(default)]
    group_configs: BTreeMap<String, ConfigMap>,
    next_producer_id: i64,
    #[serde(default)]
    metadata_version: MetadataVersion,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct NodeEntry {
    id: NodeId,
    directory_id: Uuid,
    boot_id: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct BrokerEntry {
    id: BrokerId,
    epoch: BrokerEpoch,
    rack: String,
    endpoints: Vec<Endpoint>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    link: Option<LinkAddress>,
    directory_id: Uuid,
    fenced: bool,
    #[serde(default)]
    stopping: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct TopicEntry {
    id: Uuid,
    name: String,
    partitions: Vec<PartitionEntry>,
    configs: ConfigMap,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct PartitionEntry {
    leader: BrokerId,
    leader_epoch: LeaderEpoch,
    partition_epoch: PartitionEpoch,
    replicas: Vec<BrokerId>,
    isr: Vec<BrokerId>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    elr: Vec<BrokerId>,
    #[serde(default = "nobody")]
    last_known_leader: BrokerId,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    adding: Vec<BrokerId>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    removing: Vec<BrokerId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lossy_epoch: Option<LeaderEpoch>,
    assigned_at: MetadataOffset,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    added_at: Vec<(BrokerId, MetadataOffset)>,
}

fn nobody() -> BrokerId {
    BrokerId::NONE
}

impl Snapshot {
    /// The last command in it.
    pub fn offset(&self) -> MetadataOffset {
        self.offset
    }
}

impl From<&ClusterImage> for Snapshot {
    fn from(image: &ClusterImage) -> Self {
        Self {
            offset: image.offset,
            cluster_id: image.cluster_id,
            nodes: image
                .nodes
                .iter()
                .map(|(id, node)| NodeEntry::new(*id, node))
                .collect(),
            brokers: image
                .brokers
                .values()
                .map(|broker| BrokerEntry::new(broker))
                .collect(),
            topics: image
                .topics
                .values()
                .map(|topic| TopicEntry::new(topic))
                .collect(),
            deleted_topics: (*image.deleted_topics).clone(),
            broker_configs: (*image.broker_configs).clone(),
            cluster_config: (*image.cluster_config).clone(),
            group_configs: (*image.group_configs).clone(),
            next_producer_id: image.next_producer_id,
            metadata_version: image.metadata_version,
        }
    }
}

impl From<Snapshot> for ClusterImage {
    fn from(snapshot: Snapshot) -> Self {
        let topics: Vec<Arc<Topic>> = snapshot
            .topics
            .into_iter()
            .map(|topic| Arc::new(topic.into()))
            .collect();
        let names = topics
            .iter()
            .map(|topic| (topic.name.clone(), topic.id))
            .collect();
        let collisions = topics
            .iter()
            .filter_map(|topic| Some((collision_key(&topic.name)?, topic.name.clone())));
        let brokers = snapshot
            .brokers
            .into_iter()
            .map(|broker| (broker.id, Arc::new(broker.into())));
        let nodes = snapshot.nodes.into_iter().map(|node| {
            (
                node.id,
                Node {
                    directory_id: node.directory_id,
                    boot_id: node.boot_id,
                },
            )
        });
        Self {
            offset: snapshot.offset,
            cluster_id: snapshot.cluster_id,
            nodes: Arc::new(nodes.collect()),
            brokers: Arc::new(brokers.collect()),
            collisions: Arc::new(collisions.collect()),
            topics: Arc::new(topics.into_iter().map(|topic| (topic.id, topic)).collect()),
            topic_ids: Arc::new(names),
            deleted_topics: Arc::new(snapshot.deleted_topics),
            broker_configs: Arc::new(snapshot.broker_configs),
            cluster_config: Arc::new(snapshot.cluster_config),
            group_configs: Arc::new(snapshot.group_configs),
            next_producer_id: snapshot.next_producer_id,
            metadata_version: snapshot.metadata_version,
        }
    }
}

impl NodeEntry {
    fn new(id: NodeId, node: &Node) -> Self {
        Self {
            id,
            directory_id: node.directory_id,
            boot_id: node.boot_id.clone(),
        }
    }
}

impl BrokerEntry {
    fn new(broker: &Broker) -> Self {
        let Broker {
            id,
            epoch,
            rack,
            endpoints,
            link,
            directory_id,
            fenced,
            stopping,
        } = broker.clone();
        Self {
            id,
            epoch,
            rack,
            endpoints,
            link,
            directory_id,
            fenced,
            stopping,
        }
    }
}

impl From<BrokerEntry> for Broker {
    fn from(entry: BrokerEntry) -> Self {
        let BrokerEntry {
            id,
            epoch,
            rack,
            endpoints,
            link,
            directory_id,
            fenced,
            stopping,
        } = entry;
        Self {
            id,
            epoch,
            rack,
            endpoints,
            link,
            directory_id,
            fenced,
            stopping,
        }
    }
}

impl TopicEntry {
    fn new(topic: &Topic) -> Self {
        let partitions = topic.partitions.iter().map(PartitionEntry::new).collect();
        Self {
            id: topic.id,
            name: topic.name.clone(),
            partitions,
            configs: topic.configs.clone(),
        }
    }
}

impl From<TopicEntry> for Topic {
    fn from(entry: TopicEntry) -> Self {
        let partitions = entry.partitions.into_iter().map(Partition::from).collect();
        Self {
            id: entry.id,
            name: entry.name,
            partitions,
            configs: entry.configs,
        }
    }
}

impl PartitionEntry {
    fn new(partition: &Partition) -> Self {
        let Partition {
            leader,
            leader_epoch,
            partition_epoch,
            replicas,
            isr,
            elr,
            last_known_leader,
            adding,
            removing,
            lossy_epoch,
            assigned_at,
            added_at,
        } = partition.clone();
        Self {
            leader,
            leader_epoch,
            partition_epoch,
            replicas,
            isr,
            elr,
            last_known_leader,
            adding,
            removing,
            lossy_epoch,
            assigned_at,
            added_at,
        }
    }
}

impl From<PartitionEntry> for Partition {
    fn from(entry: PartitionEntry) -> Self {
        let PartitionEntry {
            leader,
            leader_epoch,
            partition_epoch,
            replicas,
            isr,
            elr,
            last_known_leader,
            adding,
            removing,
            lossy_epoch,
            assigned_at,
            added_at,
        } = entry;
        Self {
            leader,
            leader_epoch,
            partition_epoch,
            replicas,
            isr,
            elr,
            last_known_leader,
            adding,
            removing,
            lossy_epoch,
            assigned_at,
            added_at,
        }
    }
}
