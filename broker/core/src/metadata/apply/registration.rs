//! Nodes and their shards: registration, which supersedes what was there before.

use std::collections::BTreeSet;
use std::sync::Arc;

use uuid::Uuid;

use super::super::command::{NodeRegistration, PartitionReference, ShardRegistration};
use super::super::error::ApplyError;
use super::super::ids::{BrokerEpoch, BrokerId, LeaderEpoch, MetadataVersion, NodeId, PartitionEpoch};
use super::super::image::{Broker, ClusterImage, Node, Partition};
use super::partition_change::Change;

/// What a shard's registration says of its replicas.
struct Incarnation {
    broker: BrokerId,
    /// Its directory is another than before.
    lost: bool,
    damaged: BTreeSet<PartitionReference>,
}

impl ClusterImage {
    pub(super) fn register_node(
        &mut self,
        registration: &NodeRegistration,
    ) -> Result<BrokerEpoch, ApplyError> {
        if self.cluster_id.is_none() {
            return Err(ApplyError::ClusterNotInitialized);
        }
        let node = registration.node;
        let registered = self.nodes.get(&node);
        if let Some(registered) = registered
            && registered.directory_id != registration.directory_id
        {
            return Err(ApplyError::DuplicateNode {
                node,
                registered: registered.directory_id,
            });
        }
        let rebooted = registered.is_some_and(|node| node.boot_id != registration.boot_id);
        let shards = registration.shards.iter();
        let incarnations = shards
            .map(|shard| self.enter_shard(node, &registration.rack, shard))
            .collect();
        let entry = Node {
            directory_id: registration.directory_id,
            boot_id: registration.boot_id.clone(),
        };
        Arc::make_mut(&mut self.nodes).insert(node, entry);
        match self.metadata_version {
            MetadataVersion::ONE_REPLICA => self.begin_epochs_of(node),
            _ => self.supersede(incarnations, rebooted),
        }
        Ok(BrokerEpoch(self.offset.0 as i64))
    }

    pub(super) fn register_shard(
        &mut self,
        node: NodeId,
        directory_id: Uuid,
        shard: &ShardRegistration,
    ) -> Result<BrokerEpoch, ApplyError> {
        let id = node.broker(shard.shard);
        let registered = self.nodes.get(&node).ok_or(ApplyError::UnknownBroker(id))?;
        if registered.directory_id != directory_id {
            return Err(ApplyError::DuplicateNode {
                node,
                registered: registered.directory_id,
            });
        }
        let known = self.brokers.get(&id).ok_or(ApplyError::UnknownBroker(id))?;
        let rack = known.rack.clone();
        let incarnation = self.enter_shard(node, &rack, shard);
        match self.metadata_version {
            MetadataVersion::ONE_REPLICA => self.begin_epochs_of(node),
            _ => self.supersede(vec![incarnation], false),
        }
        Ok(BrokerEpoch(self.offset.0 as i64))
    }

    fn enter_shard(&mut self, node: NodeId, rack: &str, shard: &ShardRegistration) -> Incarnation {
        let broker = Broker {
            id: node.broker(shard.shard),
            epoch: BrokerEpoch(self.offset.0 as i64),
            rack: rack.to_owned(),
            endpoints: shard.endpoints.clone(),
            link: shard.link.clone(),
            directory_id: shard.directory_id,
            fenced: true,
            stopping: false,
        };
        let id = broker.id;
        let before = Arc::make_mut(&mut self.brokers).insert(id, Arc::new(broker));
        Incarnation {
            broker: id,
            lost: before.is_some_and(|before| before.directory_id != shard.directory_id),
            damaged: shard.damaged.iter().copied().collect(),
        }
    }

    /// What the previous incarnations led, others lead now, or nobody until these are unfenced: no shard serves in a leader
    /// epoch that it held before its restart. Replicas that lost bytes lose their standing in the same record.
    fn supersede(&mut self, incarnations: Vec<Incarnation>, rebooted: bool) {
        let concerned = |partition: &Partition| {
            let mut brokers = incarnations.iter().map(|incarnation| incarnation.broker);
            brokers.any(|broker| partition.replicas.contains(&broker))
        };
        self.change_partitions(
            |_, _, partition| concerned(partition),
            |topic, number, policy, partition| {
                let mut change = Change::of(partition);
                let name = PartitionReference {
                    topic: topic.id,
                    partition: number,
                };
                for incarnation in &incarnations {
                    if incarnation.lost {
                        change.lost.insert(incarnation.broker);
                    } else if incarnation.damaged.contains(&name) || (rebooted && policy.relaxed) {
                        change.unclean.insert(incarnation.broker);
                    }
                }
                change
            },
        );
    }

    /// With one replica a partition, its leader stays in office while it restarts, in a new epoch.
    fn begin_epochs_of(&mut self, node: NodeId) {
        let leads = |broker: BrokerId| broker != BrokerId::NONE && broker.node() == node;
        let topics = Arc::make_mut(&mut self.topics);
        for topic in topics.values_mut() {
            if !topic.partitions.iter().any(|partition| leads(partition.leader)) {
                continue;
            }
            for partition in Arc::make_mut(topic)
                .partitions
                .iter_mut()
                .filter(|partition| leads(partition.leader))
            {
                partition.leader_epoch = LeaderEpoch(partition.leader_epoch.0 + 1);
                partition.partition_epoch = PartitionEpoch(partition.partition_epoch.0 + 1);
            }
        }
    }
}
