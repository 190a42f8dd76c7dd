//! AlterPartition: a leader changes the ISR of a partition.

use std::collections::BTreeSet;

use super::super::command::{IsrChange, PartitionReference};
use super::super::error::ApplyError;
use super::super::ids::{BrokerEpoch, BrokerId};
use super::super::image::{ClusterImage, Partition, Topic};
use super::partition_change::{Change, Policy};
use crate::replica::AlteredPartition;

impl ClusterImage {
    pub(super) fn alter_partitions(
        &mut self,
        leader: BrokerId,
        epoch: BrokerEpoch,
        changes: &[IsrChange],
    ) -> Vec<Result<AlteredPartition, ApplyError>> {
        changes
            .iter()
            .map(|change| {
                self.check_epoch(leader, epoch)?;
                self.alter_partition(leader, change)
            })
            .collect()
    }

    fn alter_partition(
        &mut self,
        leader: BrokerId,
        asked: &IsrChange,
    ) -> Result<AlteredPartition, ApplyError> {
        let (topic, partition) = self.find(asked.partition)?;
        check(partition, leader, asked)?;
        let member = |(member, epoch): &(BrokerId, BrokerEpoch)| {
            let known = self.brokers.get(member);
            match known.is_some_and(|known| known.is_active() && known.epoch == *epoch) {
                true => Ok(*member),
                false => Err(ApplyError::IneligibleReplica(*member)),
            }
        };
        let isr: Vec<BrokerId> = asked.isr.iter().map(member).collect::<Result<_, _>>()?;
        let change = Change {
            isr,
            ..Change::of(partition)
        };
        let before = partition.leader_epoch;
        let next = change.finish(&Policy::of(self, topic), |broker| self.is_active(broker));
        let next = next.unwrap_or_else(|| partition.clone());
        let altered = AlteredPartition {
            leader_epoch: next.leader_epoch,
            partition_epoch: next.partition_epoch,
            isr: next.isr.clone(),
            min_insync_replicas: self.min_insync_replicas(topic),
        };
        let new_leader = next.leader;
        self.replace(asked.partition, next);
        match altered.leader_epoch > before && new_leader != leader {
            true => Err(ApplyError::NewLeaderElected(new_leader)),
            false => Ok(altered),
        }
    }

    /// A partition and its topic.
    pub(super) fn find(&self, reference: PartitionReference) -> Result<(&Topic, &Partition), ApplyError> {
        let PartitionReference { topic, partition } = reference;
        let found = self.topics.get(&topic).ok_or(ApplyError::UnknownTopicId(topic))?;
        let number = partition as usize;
        match found.partitions.get(number) {
            Some(known) => Ok((found, known)),
            None => Err(ApplyError::UnknownPartition { topic, partition }),
        }
    }

    pub(super) fn replace(&mut self, reference: PartitionReference, next: Partition) {
        self.edit_topic(reference.topic, |topic| {
            topic.partitions[reference.partition as usize] = next;
        });
    }
}

fn check(partition: &Partition, leader: BrokerId, asked: &IsrChange) -> Result<(), ApplyError> {
    if asked.leader_epoch > partition.leader_epoch {
        return Err(ApplyError::NotController(asked.leader_epoch.0));
    }
    if asked.partition_epoch > partition.partition_epoch {
        return Err(ApplyError::NotController(asked.partition_epoch.0));
    }
    if asked.leader_epoch < partition.leader_epoch {
        return Err(ApplyError::FencedLeaderEpoch(partition.leader_epoch));
    }
    if partition.leader != leader {
        return Err(ApplyError::InvalidRequest(format!(
            "broker {} leads the partition, not {leader}",
            partition.leader
        )));
    }
    if asked.partition_epoch < partition.partition_epoch {
        return Err(ApplyError::InvalidUpdateVersion(partition.partition_epoch));
    }
    let members: BTreeSet<BrokerId> = asked.isr.iter().map(|(member, _)| *member).collect();
    if members.len() < asked.isr.len() || !members.iter().all(|member| partition.replicas.contains(member)) {
        return Err(ApplyError::InvalidRequest(
            "the in-sync set names a broker twice, or one that holds no replica".to_owned(),
        ));
    }
    if !members.contains(&leader) {
        return Err(ApplyError::InvalidRequest(
            "the in-sync set lacks the leader".to_owned(),
        ));
    }
    Ok(())
}
