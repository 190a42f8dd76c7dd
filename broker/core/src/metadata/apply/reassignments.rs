//! Moves of partitions: replicas are added, catch up, and only then others are dropped (KIP-455).

use std::collections::BTreeSet;

use super::super::command::Reassignment;
use super::super::error::ApplyError;
use super::super::ids::{BrokerId, MetadataVersion};
use super::super::image::{ClusterImage, Partition};
use super::partition_change::{Change, Policy};

impl ClusterImage {
    pub(super) fn alter_reassignments(
        &mut self,
        reassignments: &[Reassignment],
    ) -> Vec<Result<(), ApplyError>> {
        reassignments
            .iter()
            .map(|reassignment| self.reassign(reassignment))
            .collect()
    }

    fn reassign(&mut self, asked: &Reassignment) -> Result<(), ApplyError> {
        if self.metadata_version == MetadataVersion::ONE_REPLICA {
            return Err(ApplyError::InvalidMetadataVersion(
                "this cluster's metadata.version knows no reassignments".to_owned(),
            ));
        }
        let (topic, partition) = self.find(asked.partition)?;
        let policy = Policy::of(self, topic);
        let change = match &asked.replicas {
            None => cancel(partition, &policy)?,
            Some(target) => {
                self.check_target(partition, target, asked.allow_factor_change)?;
                begin(partition, target, &policy)?
            }
        };
        let offset = self.offset;
        let newcomers: Vec<BrokerId> = change
            .replicas
            .iter()
            .filter(|replica| !partition.replicas.contains(replica))
            .copied()
            .collect();
        let next = change.finish(&policy, |broker| self.is_active(broker));
        if let Some(mut next) = next {
            next.added_at
                .extend(newcomers.into_iter().map(|replica| (replica, offset)));
            self.replace(asked.partition, next);
        }
        Ok(())
    }

    fn check_target(
        &self,
        partition: &Partition,
        target: &[BrokerId],
        allow_factor_change: bool,
    ) -> Result<(), ApplyError> {
        let invalid = |text: String| Err(ApplyError::InvalidReplicaAssignment(text));
        if target.is_empty() {
            return invalid("the replica list is empty".to_owned());
        }
        let distinct: BTreeSet<&BrokerId> = target.iter().collect();
        if distinct.len() < target.len() {
            return invalid("the replica list names a broker twice".to_owned());
        }
        if let Some(unknown) = target.iter().find(|broker| !self.brokers.contains_key(broker)) {
            return invalid(format!("broker {unknown} is not registered"));
        }
        // Under way, it is the number that the partition is headed for (KIP-860).
        let stays = |replica: &&BrokerId| !partition.removing.contains(replica);
        let factor = partition.replicas.iter().filter(stays).count();
        if !allow_factor_change && target.len() != factor {
            return Err(ApplyError::InvalidReplicationFactor(format!(
                "the partition has {factor} replicas, the new list {}",
                target.len()
            )));
        }
        Ok(())
    }
}

/// The replicas as they were before the move that is under way.
fn originals(partition: &Partition) -> impl Iterator<Item = &BrokerId> {
    let replicas = partition.replicas.iter();
    replicas.filter(|replica| !partition.adding.contains(replica))
}

fn begin<'a>(
    partition: &'a Partition,
    target: &[BrokerId],
    policy: &Policy,
) -> Result<Change<'a>, ApplyError> {
    let adding = target
        .iter()
        .filter(|replica| !originals(partition).any(|known| known == *replica));
    // What an earlier move was adding and this one does not want is dropped at once: nobody counts on it.
    let removing: Vec<BrokerId> = originals(partition)
        .filter(|replica| !target.contains(replica))
        .copied()
        .collect();
    let replicas = target.iter().chain(&removing).copied().collect();
    let change = with_replicas(partition, replicas, policy)?;
    Ok(Change {
        adding: adding.copied().collect(),
        removing,
        ..change
    })
}

fn cancel<'a>(partition: &'a Partition, policy: &Policy) -> Result<Change<'a>, ApplyError> {
    if !partition.is_reassigning() {
        return Err(ApplyError::NoReassignmentInProgress);
    }
    let change = with_replicas(partition, originals(partition).copied().collect(), policy)?;
    Ok(Change {
        adding: Vec::new(),
        removing: Vec::new(),
        ..change
    })
}

fn with_replicas<'a>(
    partition: &'a Partition,
    replicas: Vec<BrokerId>,
    policy: &Policy,
) -> Result<Change<'a>, ApplyError> {
    let stands = |replica: &BrokerId| partition.isr.contains(replica) || partition.elr.contains(replica);
    let stood = partition.replicas.iter().any(stands);
    if stood && !replicas.iter().any(stands) && !policy.allows_unclean_elections() {
        return Err(ApplyError::InvalidReplicaAssignment(
            "only replicas that an earlier move added are in sync: to drop them would lose records"
                .to_owned(),
        ));
    }
    let mut change = Change::of(partition);
    change.isr.retain(|member| replicas.contains(member));
    change.replicas = replicas;
    Ok(change)
}
