//! Shards that come, go and report damage.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::super::command::PartitionReference;
use super::super::error::ApplyError;
use super::super::ids::{BrokerEpoch, BrokerId, MetadataVersion, NodeId};
use super::super::image::{Broker, ClusterImage};
use super::partition_change::Change;

impl ClusterImage {
    pub(super) fn unfence(&mut self, brokers: &[(BrokerId, BrokerEpoch)]) {
        self.mark(brokers, |broker| broker.fenced = false);
    }

    pub(super) fn fence(&mut self, brokers: &[(BrokerId, BrokerEpoch)]) {
        self.mark(brokers, |broker| broker.fenced = true);
    }

    pub(super) fn stop_brokers(&mut self, brokers: &[(BrokerId, BrokerEpoch)]) {
        self.mark(brokers, |broker| broker.stopping = true);
    }

    fn mark(&mut self, brokers: &[(BrokerId, BrokerEpoch)], mark: impl Fn(&mut Broker)) {
        let registered = Arc::make_mut(&mut self.brokers);
        for (id, epoch) in brokers {
            if let Some(broker) = registered.get_mut(id)
                && broker.epoch == *epoch
            {
                mark(Arc::make_mut(broker));
            }
        }
        self.settle();
    }

    /// Brings every partition in line with who is active now, and with what its topic's configuration asks for.
    pub(super) fn settle(&mut self) {
        if self.metadata_version == MetadataVersion::ONE_REPLICA {
            return;
        }
        let active = self.live_brokers().map(|broker| broker.id);
        let active: BTreeSet<BrokerId> = active.collect();
        self.change_partitions(
            |_, _, partition| {
                let open = partition.leader == BrokerId::NONE || !partition.elr.is_empty();
                open || partition.is_reassigning()
                    || !partition.isr.iter().all(|member| active.contains(member))
            },
            |_, _, _, partition| Change::of(partition),
        );
    }

    pub(super) fn unregister(&mut self, node: NodeId) -> Result<(), ApplyError> {
        if !self.nodes.contains_key(&node) {
            return Err(ApplyError::UnknownBroker(node.broker(0)));
        }
        let of_node = |broker: &&Arc<Broker>| broker.id.node() == node;
        if let Some(live) = self
            .brokers
            .values()
            .filter(of_node)
            .find(|broker| !broker.fenced)
        {
            return Err(ApplyError::InvalidRequest(format!(
                "node {node} lives: its broker {} is not fenced",
                live.id
            )));
        }
        let lost: BTreeSet<BrokerId> = self
            .brokers
            .values()
            .filter(of_node)
            .map(|broker| broker.id)
            .collect();
        Arc::make_mut(&mut self.nodes).remove(&node);
        Arc::make_mut(&mut self.brokers).retain(|id, _| !lost.contains(id));
        self.change_partitions(
            |_, _, partition| partition.replicas.iter().any(|replica| lost.contains(replica)),
            |_, _, _, partition| Change {
                lost: lost.clone(),
                ..Change::of(partition)
            },
        );
        Ok(())
    }

    pub(super) fn damaged(
        &mut self,
        broker: BrokerId,
        epoch: BrokerEpoch,
        replicas: &[PartitionReference],
    ) -> Result<(), ApplyError> {
        self.check_epoch(broker, epoch)?;
        let replicas: BTreeSet<&PartitionReference> = replicas.iter().collect();
        self.change_partitions(
            |topic, number, partition| {
                let name = PartitionReference {
                    topic: topic.id,
                    partition: number,
                };
                replicas.contains(&name) && partition.replicas.contains(&broker)
            },
            |_, _, _, partition| Change {
                unclean: BTreeSet::from([broker]),
                ..Change::of(partition)
            },
        );
        Ok(())
    }

    pub(super) fn check_epoch(&self, broker: BrokerId, epoch: BrokerEpoch) -> Result<(), ApplyError> {
        let registered = self
            .brokers
            .get(&broker)
            .ok_or(ApplyError::UnknownBroker(broker))?;
        if registered.epoch != epoch {
            return Err(ApplyError::StaleBrokerEpoch {
                broker,
                registered: registered.epoch,
                asked: epoch,
            });
        }
        Ok(())
    }
}
