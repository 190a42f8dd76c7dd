//! Topics: creation, growth, deletion.

use std::collections::BTreeSet;
use std::sync::Arc;

use strandline_wire::topic_name;
use uuid::Uuid;

use super::super::command::{CreatedTopic, NewPartitions, NewTopic, PartitionLayout, TopicReference};
use super::super::error::ApplyError;
use super::super::ids::{BrokerId, LeaderEpoch, MetadataVersion, PartitionEpoch};
use super::super::image::{ClusterImage, Partition, Topic};
use crate::config;
use crate::placement::Load;

/// Partitions one request may create, as in Kafka: more in one command would stall every reader of the image.
const PARTITIONS_PER_COMMAND_MAX: usize = 10_000;

/// Deleted topics that are remembered for shards that were down or died just then: as many as one command may make. Logs of
/// topics that were deleted before those are set aside.
pub(super) const DELETED_TOPICS_MAX: usize = PARTITIONS_PER_COMMAND_MAX;

/// What two topic names may not share: the name with `.` as `_`, since metric names write both alike. `None` for a name
/// with neither.
pub(in super::super) fn collision_key(name: &str) -> Option<String> {
    name.contains(['.', '_']).then(|| name.replace('.', "_"))
}

impl ClusterImage {
    pub(super) fn create_topics(&mut self, topics: &[NewTopic]) -> Vec<Result<CreatedTopic, ApplyError>> {
        let mut load = Load::of(self);
        let mut budget = PARTITIONS_PER_COMMAND_MAX;
        topics
            .iter()
            .map(|topic| self.create_topic(topic, &mut load, &mut budget))
            .collect()
    }

    fn create_topic(
        &mut self,
        new: &NewTopic,
        load: &mut Load,
        budget: &mut usize,
    ) -> Result<CreatedTopic, ApplyError> {
        topic_name::validate(&new.name).map_err(|error| ApplyError::InvalidTopicName(error.to_string()))?;
        if self.topic_ids.contains_key(&new.name) {
            return Err(ApplyError::TopicExists(new.name.clone()));
        }
        let collision = collision_key(&new.name);
        if let Some(other) = collision.as_ref().and_then(|key| self.collisions.get(key)) {
            return Err(ApplyError::InvalidTopicName(format!(
                "topic '{}' collides with '{other}': names may not differ only in '.' and '_'",
                new.name
            )));
        }
        if new.id.is_nil() || self.topics.contains_key(&new.id) {
            return Err(ApplyError::TopicIdTaken(new.id));
        }
        config::validate_topic(&new.configs).map_err(ApplyError::InvalidConfig)?;
        let placements = self.lay_out(&new.layout, load, budget)?;
        let created = CreatedTopic {
            id: new.id,
            partitions: placements.len() as i32,
            replication_factor: placements.first().map_or(0, Vec::len) as i16,
        };
        let partitions = placements
            .into_iter()
            .map(|replicas| self.new_partition(replicas))
            .collect();
        let topic = Topic {
            id: new.id,
            name: new.name.clone(),
            partitions,
            configs: new.configs.clone(),
        };
        Arc::make_mut(&mut self.topics).insert(topic.id, Arc::new(topic));
        Arc::make_mut(&mut self.topic_ids).insert(new.name.clone(), new.id);
        if let Some(key) = collision {
            Arc::make_mut(&mut self.collisions).insert(key, new.name.clone());
        }
        Ok(created)
    }

    fn lay_out(
        &self,
        layout: &PartitionLayout,
        load: &mut Load,
        budget: &mut usize,
    ) -> Result<Vec<Vec<BrokerId>>, ApplyError> {
        match layout {
            PartitionLayout::Automatic {
                partitions,
                replication_factor,
            } => {
                if *partitions <= 0 {
                    return Err(ApplyError::InvalidPartitions(format!(
                        "the number of partitions must be at least 1, not {partitions}"
                    )));
                }
                self.check_replication_factor(*replication_factor, load)?;
                spend(budget, *partitions as usize)?;
                Ok(load.place(
                    *partitions as usize,
                    *replication_factor as usize,
                    std::iter::empty(),
                ))
            }
            PartitionLayout::Manual(assignments) => {
                self.check_assignments(assignments)?;
                spend(budget, assignments.len())?;
                assignments.iter().for_each(|replicas| load.add(replicas));
                Ok(assignments.clone())
            }
        }
    }

    fn check_assignments(&self, assignments: &[Vec<BrokerId>]) -> Result<(), ApplyError> {
        if assignments.is_empty() {
            return Err(ApplyError::InvalidReplicaAssignment(
                "the assignment names no partition".to_owned(),
            ));
        }
        for (number, replicas) in assignments.iter().enumerate() {
            let invalid = |text: String| {
                Err(ApplyError::InvalidReplicaAssignment(format!(
                    "partition {number}: {text}"
                )))
            };
            if replicas.is_empty() {
                return invalid("the replica list is empty".to_owned());
            }
            let distinct: BTreeSet<_> = replicas.iter().collect();
            if distinct.len() < replicas.len() {
                return invalid("the replica list names a broker twice".to_owned());
            }
            if let Some(unknown) = replicas.iter().find(|broker| !self.brokers.contains_key(broker)) {
                return invalid(format!("broker {unknown} is not registered"));
            }
            if replicas.len() > 1 && !self.is_replicated() {
                return Err(ApplyError::InvalidReplicationFactor(one_replica_only(
                    replicas.len(),
                )));
            }
        }
        Ok(())
    }

    pub(super) fn create_partitions(&mut self, topics: &[NewPartitions]) -> Vec<Result<(), ApplyError>> {
        let mut load = Load::of(self);
        let mut budget = PARTITIONS_PER_COMMAND_MAX;
        topics
            .iter()
            .map(|topic| self.grow_topic(topic, &mut load, &mut budget))
            .collect()
    }

    fn grow_topic(
        &mut self,
        new: &NewPartitions,
        load: &mut Load,
        budget: &mut usize,
    ) -> Result<(), ApplyError> {
        let Some(topic) = self.topic_by_name(&new.name).cloned() else {
            return Err(ApplyError::UnknownTopic(new.name.clone()));
        };
        let current = topic.partitions.len();
        if topic_name::is_internal(&new.name) {
            return Err(ApplyError::InvalidPartitions(format!(
                "topic '{}' keeps its {current} partitions: what it holds is found by their number",
                new.name
            )));
        }
        let total = usize::try_from(new.total).unwrap_or_default();
        if total <= current {
            let relation = if total == current {
                "has"
            } else {
                "cannot shrink from"
            };
            return Err(ApplyError::InvalidPartitions(format!(
                "topic '{}' {relation} {current} partitions; asked for {}",
                new.name, new.total
            )));
        }
        let placements = match &new.assignments {
            None => {
                let first = topic.partitions.first();
                let factor = first.map_or(1, |first| first.replicas.len() - first.adding.len());
                self.check_replication_factor(factor as i16, load)?;
                spend(budget, total - current)?;
                load.place(total - current, factor, topic.partitions.iter())
            }
            Some(assignments) if assignments.len() != total - current => {
                return Err(ApplyError::InvalidReplicaAssignment(format!(
                    "{} new partitions need as many assignments, not {}",
                    total - current,
                    assignments.len()
                )));
            }
            Some(assignments) => {
                self.check_assignments(assignments)?;
                spend(budget, assignments.len())?;
                assignments.iter().for_each(|replicas| load.add(replicas));
                assignments.clone()
            }
        };
        let placements = placements.into_iter();
        let partitions: Vec<Partition> = placements.map(|replicas| self.new_partition(replicas)).collect();
        self.edit_topic(topic.id, |topic| topic.partitions.extend(partitions));
        Ok(())
    }

    fn is_replicated(&self) -> bool {
        self.metadata_version > MetadataVersion::ONE_REPLICA
    }

    /// All replicas that live are in sync: nothing was written yet.
    fn new_partition(&self, replicas: Vec<BrokerId>) -> Partition {
        let in_sync = |replica: &&BrokerId| !self.is_replicated() || self.is_active(**replica);
        let isr: Vec<BrokerId> = replicas.iter().filter(in_sync).copied().collect();
        Partition {
            leader: isr.first().copied().unwrap_or(BrokerId::NONE),
            leader_epoch: LeaderEpoch(0),
            partition_epoch: PartitionEpoch(0),
            // Without any, the first that serves leads.
            elr: if isr.is_empty() {
                replicas.clone()
            } else {
                Vec::new()
            },
            last_known_leader: BrokerId::NONE,
            adding: Vec::new(),
            removing: Vec::new(),
            lossy_epoch: None,
            assigned_at: self.offset,
            added_at: Vec::new(),
            isr,
            replicas,
        }
    }

    fn check_replication_factor(&self, factor: i16, load: &Load) -> Result<(), ApplyError> {
        if factor <= 0 {
            return Err(ApplyError::InvalidReplicationFactor(format!(
                "the replication factor must be at least 1, not {factor}"
            )));
        }
        if load.brokers() == 0 {
            return Err(ApplyError::InvalidReplicationFactor(
                "no broker serves yet".to_owned(),
            ));
        }
        if factor > 1 && !self.is_replicated() {
            return Err(ApplyError::InvalidReplicationFactor(one_replica_only(
                factor as usize,
            )));
        }
        if load.brokers() < factor as usize {
            return Err(ApplyError::InvalidReplicationFactor(format!(
                "replication factor {factor} needs as many brokers; {} serve",
                load.brokers()
            )));
        }
        Ok(())
    }

    pub(super) fn delete_topics(
        &mut self,
        topics: &[TopicReference],
    ) -> Vec<Result<(Uuid, String), ApplyError>> {
        topics.iter().map(|topic| self.delete_topic(topic)).collect()
    }

    fn delete_topic(&mut self, reference: &TopicReference) -> Result<(Uuid, String), ApplyError> {
        let id = match reference {
            TopicReference::Id(id) => *id,
            TopicReference::Name(name) => match self.topic_ids.get(name) {
                Some(id) => *id,
                None => return Err(ApplyError::UnknownTopic(name.clone())),
            },
        };
        let Some(topic) = Arc::make_mut(&mut self.topics).remove(&id) else {
            return Err(ApplyError::UnknownTopicId(id));
        };
        Arc::make_mut(&mut self.topic_ids).remove(&topic.name);
        if let Some(key) = collision_key(&topic.name) {
            Arc::make_mut(&mut self.collisions).remove(&key);
        }
        let deleted = Arc::make_mut(&mut self.deleted_topics);
        if deleted.len() == DELETED_TOPICS_MAX {
            deleted.pop_front();
        }
        deleted.push_back(id);
        Ok((id, topic.name.clone()))
    }
}

fn one_replica_only(asked: usize) -> String {
    format!("replication factor {asked} needs metadata.version 1, and this cluster has 0: use 1 or -1")
}

fn spend(budget: &mut usize, partitions: usize) -> Result<(), ApplyError> {
    *budget = budget.checked_sub(partitions).ok_or_else(|| {
        ApplyError::InvalidPartitions(format!(
            "one request may create {PARTITIONS_PER_COMMAND_MAX} partitions in all; split it"
        ))
    })?;
    Ok(())
}
