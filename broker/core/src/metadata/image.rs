//! The state that apply builds: an immutable value, cheap to clone, shared by every shard of a node.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use uuid::Uuid;

use super::command::{Endpoint, LinkAddress};
use super::ids::{
    BrokerEpoch, BrokerId, LeaderEpoch, MetadataOffset, MetadataVersion, NodeId, PartitionEpoch,
};
use crate::config::{Layers, StaticConfig};

/// The dynamic configuration of one resource.
pub type ConfigMap = BTreeMap<String, String>;

/// Everything the cluster knows at one offset of the quorum's log.
///
/// A clone copies pointers; a change copies the one map it touches, so readers of the old image are never disturbed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClusterImage {
    pub(super) offset: MetadataOffset,
    pub(super) cluster_id: Option<Uuid>,
    pub(super) nodes: Arc<BTreeMap<NodeId, Node>>,
    pub(super) brokers: Arc<BTreeMap<BrokerId, Arc<Broker>>>,
    pub(super) topics: Arc<BTreeMap<Uuid, Arc<Topic>>>,
    pub(super) topic_ids: Arc<BTreeMap<String, Uuid>>,
    /// Names with `.` or `_`, both written as `_`: two topics may not differ in that alone.
    pub(super) collisions: Arc<BTreeMap<String, String>>,
    /// The topics that were deleted last, oldest first: a shard that did not hear of it finishes a deletion when it starts.
    pub(super) deleted_topics: Arc<VecDeque<Uuid>>,
    pub(super) broker_configs: Arc<BTreeMap<BrokerId, ConfigMap>>,
    pub(super) cluster_config: Arc<ConfigMap>,
    pub(super) group_configs: Arc<BTreeMap<String, ConfigMap>>,
    pub(super) next_producer_id: i64,
    pub(super) metadata_version: MetadataVersion,
}

/// A node, as it registered last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its data directory's random id.
    pub directory_id: Uuid,
    /// The boot of its machine.
    pub boot_id: String,
}

/// A shard, as its node registered it last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broker {
    /// Its id.
    pub id: BrokerId,
    /// The registration.
    pub epoch: BrokerEpoch,
    /// The failure domain.
    pub rack: String,
    /// Where clients reach it, one a listener.
    pub endpoints: Vec<Endpoint>,
    /// Where shards of other nodes reach it; `None` for a node that is alone.
    pub link: Option<LinkAddress>,
    /// The id of the directory that holds its logs.
    pub directory_id: Uuid,
    /// True until it says that it serves, and once it no longer does.
    pub fenced: bool,
    /// It is shutting down: it leads nothing and is in sync nowhere.
    pub stopping: bool,
}

/// A topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topic {
    /// Its identity, in requests, in fetch sessions and on disk.
    pub id: Uuid,
    /// Its name.
    pub name: String,
    /// By number.
    pub partitions: Vec<Partition>,
    /// Its own configuration.
    pub configs: ConfigMap,
}

/// A partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Who serves it; [`BrokerId::NONE`] while nobody can.
    pub leader: BrokerId,
    /// Raised at each change of the leader and each registration of it.
    pub leader_epoch: LeaderEpoch,
    /// Raised at each change.
    pub partition_epoch: PartitionEpoch,
    /// Its replicas, the preferred leader first; those that a reassignment adds or removes included.
    pub replicas: Vec<BrokerId>,
    /// Those in sync.
    pub isr: Vec<BrokerId>,
    /// Those that left the ISR when the rest no longer sufficed, and so hold all that was acknowledged (KIP-966); one of
    /// them leads once the ISR is empty.
    pub elr: Vec<BrokerId>,
    /// Who led last, while nobody leads; [`BrokerId::NONE`] otherwise.
    pub last_known_leader: BrokerId,
    /// Replicas that a reassignment adds.
    pub adding: Vec<BrokerId>,
    /// Replicas that a reassignment removes once those that stay are in sync.
    pub removing: Vec<BrokerId>,
    /// The newest leader epoch from which on committed records may be missing: an unclean election, or a last member that
    /// lost bytes.
    pub lossy_epoch: Option<LeaderEpoch>,
    /// The offset of the command that made the partition.
    pub assigned_at: MetadataOffset,
    /// For replicas that came later, the offset of the command that assigned each.
    pub added_at: Vec<(BrokerId, MetadataOffset)>,
}

impl Partition {
    /// The offset of the command that assigned the partition to `broker`: a log that storage lacks is created empty only
    /// when this lies above what the shard's checkpoint covers.
    pub fn assigned_at(&self, broker: BrokerId) -> MetadataOffset {
        let added = self.added_at.iter().find(|(replica, _)| *replica == broker);
        added.map_or(self.assigned_at, |(_, offset)| *offset)
    }

    /// Whether a reassignment is under way.
    pub fn is_reassigning(&self) -> bool {
        !self.adding.is_empty() || !self.removing.is_empty()
    }
}

impl ClusterImage {
    /// The last command in it.
    pub fn offset(&self) -> MetadataOffset {
        self.offset
    }

    /// The cluster's id, once it has one.
    pub fn cluster_id(&self) -> Option<Uuid> {
        self.cluster_id
    }

    /// A node as it registered last.
    pub fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(&id)
    }

    /// Every broker, by id, the fenced included.
    pub fn brokers(&self) -> impl ExactSizeIterator<Item = &Arc<Broker>> {
        self.brokers.values()
    }

    /// The brokers that serve, by id; those that shut down are on their way out.
    pub fn live_brokers(&self) -> impl Iterator<Item = &Arc<Broker>> {
        self.brokers.values().filter(|broker| broker.is_active())
    }

    /// Whether the brokers of `other` are these, as far as a look at pointers tells.
    pub fn has_same_brokers(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.brokers, &other.brokers)
    }

    /// A broker.
    pub fn broker(&self, id: BrokerId) -> Option<&Arc<Broker>> {
        self.brokers.get(&id)
    }

    /// Every topic, by id.
    pub fn topics(&self) -> impl ExactSizeIterator<Item = &Arc<Topic>> {
        self.topics.values()
    }

    /// Every topic, by name.
    pub fn topics_by_name(&self) -> impl Iterator<Item = &Arc<Topic>> {
        self.topic_ids.values().filter_map(|id| self.topics.get(id))
    }

    /// The topics whose name is `name` or sorts after it, by name.
    pub fn topics_from(&self, name: &str) -> impl Iterator<Item = &Arc<Topic>> {
        self.topic_ids
            .range::<str, _>((std::ops::Bound::Included(name), std::ops::Bound::Unbounded))
            .filter_map(|(_, id)| self.topics.get(id))
    }

    /// A topic by id.
    pub fn topic(&self, id: Uuid) -> Option<&Arc<Topic>> {
        self.topics.get(&id)
    }

    /// A topic by name.
    pub fn topic_by_name(&self, name: &str) -> Option<&Arc<Topic>> {
        self.topic_ids.get(name).and_then(|id| self.topics.get(id))
    }

    /// The topics that were deleted last, as far as the quorum remembers.
    pub fn deleted_topics(&self) -> impl ExactSizeIterator<Item = Uuid> {
        self.deleted_topics.iter().copied()
    }

    /// A partition.
    pub fn partition(&self, topic: Uuid, partition: u32) -> Option<&Partition> {
        self.topics.get(&topic)?.partitions.get(partition as usize)
    }

    /// The partitions that `broker` holds a replica of: topic, number, partition.
    pub fn partitions_of(&self, broker: BrokerId) -> impl Iterator<Item = (&Arc<Topic>, u32, &Partition)> {
        self.topics.values().flat_map(move |topic| {
            let held = topic.partitions.iter().enumerate();
            let held = held.filter(move |(_, partition)| partition.replicas.contains(&broker));
            held.map(move |(number, partition)| (topic, number as u32, partition))
        })
    }

    /// The dynamic configuration of one broker, without the cluster's default.
    pub fn broker_config(&self, broker: BrokerId) -> Option<&ConfigMap> {
        self.broker_configs.get(&broker)
    }

    /// The brokers that have dynamic configuration of their own, by id.
    pub fn configured_brokers(&self) -> impl Iterator<Item = BrokerId> {
        self.broker_configs.keys().copied()
    }

    /// The dynamic configuration of every broker without a value of its own.
    pub fn cluster_config(&self) -> &ConfigMap {
        &self.cluster_config
    }

    /// What the cluster's records may say; raised by an operator once every node understands it.
    pub fn metadata_version(&self) -> MetadataVersion {
        self.metadata_version
    }

    /// `min.insync.replicas` of a topic. By what the quorum knows alone, so that its leaders and the quorum, which decides
    /// who is eligible to lead, never differ.
    pub fn min_insync_replicas(&self, topic: &Topic) -> usize {
        let minimum: i64 = self.layers(topic, |layers| layers.number("min.insync.replicas"));
        usize::try_from(minimum).unwrap_or_default()
    }

    /// Reads a topic's layers as far as the quorum knows them: the topic's own, the cluster's, the default.
    pub(super) fn layers<T>(&self, topic: &Topic, read: impl FnOnce(&Layers<'_>) -> T) -> T {
        let (node, broker) = (StaticConfig::default(), ConfigMap::new());
        read(&Layers::of_topic(
            &node,
            &self.cluster_config,
            &broker,
            &topic.configs,
        ))
    }

    /// The configuration of a group that has some of its own.
    pub fn group_config(&self, group: &str) -> Option<&ConfigMap> {
        self.group_configs.get(group)
    }

    /// The groups that have configuration of their own, by name.
    pub fn configured_groups(&self) -> impl Iterator<Item = &str> {
        self.group_configs.keys().map(String::as_str)
    }

    /// The first producer id that was never given out.
    pub fn next_producer_id(&self) -> i64 {
        self.next_producer_id
    }
}

impl Broker {
    /// Whether it may lead and be in sync.
    pub fn is_active(&self) -> bool {
        !self.fenced && !self.stopping
    }

    /// The address it advertises on a listener.
    pub fn endpoint(&self, listener: &str) -> Option<&Endpoint> {
        self.endpoints
            .iter()
            .find(|endpoint| endpoint.listener == listener)
    }
}
