//! Nodes and their shards: registration and fencing.

use std::sync::Arc;

use super::super::command::NodeRegistration;
use super::super::error::ApplyError;
use super::super::ids::{BrokerEpoch, BrokerId, LeaderEpoch, NodeId, PartitionEpoch};
use super::super::image::{Broker, ClusterImage, Node};

impl ClusterImage {
    pub(super) fn register_node(
        &mut self,
        registration: &NodeRegistration,
    ) -> Result<BrokerEpoch, ApplyError> {
        if self.cluster_id.is_none() {
            return Err(ApplyError::ClusterNotInitialized);
        }
        let node = registration.node;
        if let Some(registered) = self.nodes.get(&node)
            && registered.directory_id != registration.directory_id
        {
            return Err(ApplyError::DuplicateNode {
                node,
                registered: registered.directory_id,
            });
        }
        let epoch = BrokerEpoch(self.offset.0 as i64);
        let brokers = Arc::make_mut(&mut self.brokers);
        for shard in &registration.shards {
            let broker = Broker {
                id: node.broker(shard.shard),
                epoch,
                rack: registration.rack.clone(),
                endpoints: shard.endpoints.clone(),
                directory_id: shard.directory_id,
                fenced: true,
            };
            brokers.insert(broker.id, Arc::new(broker));
        }
        let entry = Node {
            directory_id: registration.directory_id,
            boot_id: registration.boot_id.clone(),
        };
        Arc::make_mut(&mut self.nodes).insert(node, entry);
        self.begin_epochs_of(node);
        Ok(epoch)
    }

    /// Raises the leader epoch of every partition that the node leads: no shard serves in an epoch that it held before
    /// its restart, since frames of it that were lost could be followed by others at the same offsets.
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

    pub(super) fn unfence(&mut self, brokers: &[(BrokerId, BrokerEpoch)]) {
        let registered = Arc::make_mut(&mut self.brokers);
        for (id, epoch) in brokers {
            if let Some(broker) = registered.get_mut(id)
                && broker.epoch == *epoch
            {
                Arc::make_mut(broker).fenced = false;
            }
        }
    }
}
