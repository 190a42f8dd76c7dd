//! What the metadata says of a partition, as its leader uses it.

use super::sufficiency::suffices;
use crate::metadata::{BrokerEpoch, BrokerId, ClusterImage, LeaderEpoch, Partition, PartitionEpoch, Topic};

/// A partition as one image assigns it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// The epoch that its leader leads in.
    pub leader_epoch: LeaderEpoch,
    /// Orders the changes within a leader epoch.
    pub partition_epoch: PartitionEpoch,
    /// All of them, the preferred leader first.
    pub replicas: Vec<AssignedReplica>,
    /// Those in sync, by the quorum.
    pub isr: Vec<BrokerId>,
    /// `min.insync.replicas` of the topic.
    pub min_insync_replicas: usize,
}

/// A replica of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AssignedReplica {
    /// Where it is.
    pub broker: BrokerId,
    /// That broker's registration; -1 when it has none.
    pub epoch: BrokerEpoch,
    /// Whether the quorum would take it into the ISR: unfenced and not stopping.
    pub eligible: bool,
    /// Whether a reassignment is adding it.
    pub adding: bool,
}

impl Assignment {
    /// A partition of `topic` by `image`.
    pub fn of(image: &ClusterImage, topic: &Topic, partition: &Partition) -> Self {
        let replica = |id: &BrokerId| {
            let broker = image.broker(*id);
            AssignedReplica {
                broker: *id,
                epoch: broker.map_or(BrokerEpoch(-1), |broker| broker.epoch),
                eligible: broker.is_some_and(|broker| broker.is_active()),
                adding: partition.adding.contains(id),
            }
        };
        Self {
            leader_epoch: partition.leader_epoch,
            partition_epoch: partition.partition_epoch,
            replicas: partition.replicas.iter().map(replica).collect(),
            isr: partition.isr.clone(),
            min_insync_replicas: image.min_insync_replicas(topic),
        }
    }

    /// A replica of it.
    pub fn replica(&self, broker: BrokerId) -> Option<&AssignedReplica> {
        self.replicas.iter().find(|replica| replica.broker == broker)
    }

    pub(super) fn isr_suffices(&self) -> bool {
        let all: Vec<BrokerId> = self.replicas.iter().map(|replica| replica.broker).collect();
        let adding = self.replicas.iter().filter(|replica| replica.adding);
        let adding: Vec<BrokerId> = adding.map(|replica| replica.broker).collect();
        suffices(&self.isr, &all, &adding, self.min_insync_replicas)
    }
}
