//! Bringing the shard in line with a new image of the cluster: logs created, led, reconfigured, deleted, set aside.

use std::rc::Rc;
use std::sync::Arc;

use strandline_core::metadata::{
    BrokerId, ClusterImage, Partition as AssignedPartition, Topic as ImageTopic,
};
use strandline_core::replica::Assignment;
use strandline_runtime::Runtime;
use strandline_storage::disk::Disk;
use strandline_storage::{Log, RecoveryReport, StoreError, TopicPartitionId};
use strandline_wire::{ErrorCode, topic_name};

use super::{Partition, Shard, TopicRules};

/// What replay found, as far as it decides whether a log that storage lacks may start empty.
#[derive(Clone, Copy, Debug)]
pub(super) struct Recovered {
    rot: bool,
    metadata_offset: u64,
}

impl From<&RecoveryReport> for Recovered {
    fn from(report: &RecoveryReport) -> Self {
        Self {
            rot: report.rot,
            metadata_offset: report.metadata_offset,
        }
    }
}

/// Applies images to one shard, one after the other.
pub(super) struct ImageApplier<R: Runtime, D: Disk> {
    shard: Rc<Shard<R, D>>,
    recovered: Recovered,
    is_first: bool,
}

impl<R: Runtime, D: Disk> ImageApplier<R, D> {
    pub(super) fn new(shard: Rc<Shard<R, D>>, recovered: Recovered) -> Self {
        Self {
            shard,
            recovered,
            is_first: true,
        }
    }

    /// Serves by `image` from here on.
    pub(super) async fn apply(&mut self, image: Arc<ClusterImage>) {
        let shard = self.shard.clone();
        let before = shard.image();
        let reconfigured = self.is_first
            || before.cluster_config() != image.cluster_config()
            || before.broker_config(shard.broker_id) != image.broker_config(shard.broker_id);
        if reconfigured {
            let settings = shard.config.broker_settings(&image, shard.broker_id);
            let cleaner = super::lifecycle::cleaner_options(&shard.config, &settings);
            shard.store.set_cleaner_options(cleaner);
            *shard.settings.borrow_mut() = Rc::new(settings);
        }
        for topic in before.topics().filter(|topic| image.topic(topic.id).is_none()) {
            self.delete_topic(topic);
        }
        for topic in image.topics() {
            let unchanged = before
                .topic(topic.id)
                .is_some_and(|known| Arc::ptr_eq(known, topic));
            if reconfigured || !unchanged {
                self.apply_topic(&image, topic).await;
                shard.runtime.yield_if_needed().await;
            }
        }
        if self.is_first {
            self.set_strays_aside(&image).await;
        }
        shard.store.set_metadata_offset(image.offset().0);
        *shard.image.borrow_mut() = image.clone();
        crate::group::image_changed(&shard, &before, &image);
        self.is_first = false;
        shard.control.applied(shard.number, image.offset());
    }

    async fn apply_topic(&self, image: &ClusterImage, topic: &ImageTopic) {
        let shard = &self.shard;
        let mut rules = None;
        for (number, assigned) in topic.partitions.iter().enumerate() {
            if assigned.leader != shard.broker_id {
                self.stop_leading(topic, number as u32);
                continue;
            }
            let rules = rules.get_or_insert_with(|| {
                let settings = shard.config.topic_settings(image, shard.broker_id, topic);
                Rc::new(TopicRules::new(
                    &settings,
                    topic_name::is_internal(&topic.name),
                    shard.config.decompressed_batch_max_bytes,
                ))
            });
            let entry = shard.topics.enter(topic.id, &topic.name, || rules.clone());
            entry.set_rules(rules.clone());
            if let Some(led) = entry.partition(number as i32) {
                if led.leader_epoch() == assigned.leader_epoch.0 {
                    led.log.set_settings(rules.log.clone());
                    continue;
                }
                // Whoever waits at the old one would wait for what only the new one hears of.
                let now = shard.runtime.now();
                led.lose(
                    ErrorCode::NotLeaderOrFollower,
                    "a new leader epoch of the partition began",
                    now,
                );
            }
            let id = TopicPartitionId {
                topic_id: topic.id,
                partition: number as u32,
            };
            let assignment = Assignment::of(image, topic, assigned);
            match self.lead(id, assigned, assignment, rules).await {
                Ok(partition) => entry.set_partition(number as u32, Some(Rc::new(partition))),
                Err(error) => {
                    entry.set_partition(number as u32, None);
                    tracing::error!(topic = topic.name, partition = number, %error, "cannot lead the partition");
                }
            }
        }
    }

    async fn lead(
        &self,
        id: TopicPartitionId,
        assigned: &AssignedPartition,
        assignment: Assignment,
        rules: &TopicRules,
    ) -> Result<Partition<D>, StoreError> {
        let log = self.open_or_create(id, assigned, rules)?;
        match log.begin_epoch(assigned.leader_epoch.0).await {
            // Damaged: served up to the damage, without appends, until an operator accepts the loss.
            Ok(_) | Err(StoreError::Damaged { .. }) => {}
            Err(error) => return Err(error),
        }
        let shard = &self.shard;
        Ok(Partition::lead(
            id.partition as i32,
            log,
            shard.broker_id,
            assignment,
            shard.config.replica_lag_time_max_ms(),
            shard.runtime.now(),
        ))
    }

    /// A log that storage lacks starts empty only where it cannot have been lost.
    fn open_or_create(
        &self,
        id: TopicPartitionId,
        assigned: &AssignedPartition,
        rules: &TopicRules,
    ) -> Result<Log<D>, StoreError> {
        let store = &self.shard.store;
        if let Some(log) = store.log(id) {
            log.set_settings(rules.log.clone());
            return Ok(log);
        }
        let assigned_since_checkpoint =
            assigned.assigned_at(self.shard.broker_id).0 > self.recovered.metadata_offset;
        if !self.is_first || (assigned_since_checkpoint && !self.recovered.rot) {
            return store.create_log(id, rules.log.clone());
        }
        tracing::error!(
            partition = %id,
            "storage has no log of a partition that it should hold: registered as damaged"
        );
        store.create_damaged(id, rules.log.clone())
    }

    fn stop_leading(&self, topic: &ImageTopic, number: u32) {
        let Some(entry) = self.shard.topics.by_id(topic.id) else {
            return;
        };
        if let Some(led) = entry.partition(number as i32) {
            entry.set_partition(number, None);
            let now = self.shard.runtime.now();
            led.lose(
                ErrorCode::NotLeaderOrFollower,
                "another broker leads the partition now",
                now,
            );
        }
    }

    /// Deletes what a committed record deleted.
    fn delete_topic(&self, topic: &ImageTopic) {
        let shard = &self.shard;
        if let Some(entry) = shard.topics.by_id(topic.id) {
            shard.topics.remove(topic.id);
            let now = shard.runtime.now();
            for partition in entry.led() {
                partition.lose(ErrorCode::UnknownTopicOrPartition, "the topic was deleted", now);
            }
        }
        for id in logs_of(topic, shard.broker_id) {
            // One that could not be led may have a log, or none.
            match shard.store.delete_log(id) {
                Ok(_) | Err(StoreError::Unknown(_)) => {}
                Err(error) => {
                    tracing::error!(topic = topic.name, partition = id.partition, %error, "cannot delete the log");
                }
            }
        }
    }

    /// Logs that the metadata does not know are kept out of the way, never deleted.
    async fn set_strays_aside(&self, image: &ClusterImage) {
        for log in self.shard.store.logs() {
            let id = log.id();
            let known = image
                .partition(id.topic_id, id.partition)
                .is_some_and(|assigned| assigned.replicas.contains(&self.shard.broker_id));
            if known {
                continue;
            }
            tracing::warn!(partition = %id, "no topic of the cluster has this log: moved under stray/");
            if let Err(error) = self.shard.store.set_aside(id).await {
                tracing::error!(partition = %id, %error, "cannot set the log aside");
            }
        }
    }
}

/// The logs of a topic that a broker holds by the metadata, led there or not.
fn logs_of(topic: &ImageTopic, broker: BrokerId) -> impl Iterator<Item = TopicPartitionId> + '_ {
    (0..)
        .zip(&topic.partitions)
        .filter(move |(_, assigned)| assigned.leader == broker || assigned.replicas.contains(&broker))
        .map(|(partition, _)| TopicPartitionId {
            topic_id: topic.id,
            partition,
        })
}

#[cfg(test)]
mod tests {
    use strandline_core::metadata::{LeaderEpoch, MetadataOffset, PartitionEpoch};
    use strandline_wire::Uuid;

    use super::*;

    /// A deletion went by the partitions that are led: a log that could not be led stayed on the disk.
    #[test]
    fn a_deletion_takes_every_log_that_the_metadata_assigns() {
        let assigned = |leader, replicas: &[i32]| AssignedPartition {
            leader: BrokerId(leader),
            leader_epoch: LeaderEpoch(0),
            partition_epoch: PartitionEpoch(0),
            replicas: replicas.iter().copied().map(BrokerId).collect(),
            isr: Vec::new(),
            elr: Vec::new(),
            last_known_leader: BrokerId::NONE,
            adding: Vec::new(),
            removing: Vec::new(),
            lossy_epoch: None,
            assigned_at: MetadataOffset(0),
            added_at: Vec::new(),
        };
        let topic = ImageTopic {
            id: Uuid::from_u128(1),
            name: "t".to_owned(),
            partitions: vec![
                assigned(1, &[1]),
                assigned(2, &[2]),
                assigned(2, &[2, 1]),
                assigned(BrokerId::NONE.0, &[1]),
            ],
            configs: Default::default(),
        };
        let numbers: Vec<u32> = logs_of(&topic, BrokerId(1)).map(|id| id.partition).collect();
        assert_eq!(numbers, [0, 2, 3]);
    }
}
