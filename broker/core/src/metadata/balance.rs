//! Which partitions would be better led by their preferred replica.

use super::command::PartitionReference;
use super::ids::BrokerId;
use super::image::{ClusterImage, Partition};

impl ClusterImage {
    /// Partitions whose preferred leader is in sync and yet does not lead, at most `max` of them, in order: what
    /// `auto.leader.rebalance.enable` elects. Partitions on the move wait for their end.
    pub fn imbalanced_partitions(&self, max: usize) -> Vec<PartitionReference> {
        let partitions = self.topics().flat_map(|topic| {
            let numbered = (0..).zip(&topic.partitions);
            let imbalanced = numbered.filter(|(_, partition)| is_imbalanced(partition));
            imbalanced.map(|(partition, _)| PartitionReference {
                topic: topic.id,
                partition,
            })
        });
        partitions.take(max).collect()
    }
}

fn is_imbalanced(partition: &Partition) -> bool {
    let preferred = partition.replicas.first();
    let could_lead =
        |preferred: &BrokerId| partition.leader != *preferred && partition.isr.contains(preferred);
    !partition.is_reassigning() && preferred.is_some_and(could_lead)
}
