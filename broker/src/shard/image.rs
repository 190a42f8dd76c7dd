//! Bringing the shard in line with a new image of the cluster: logs created, led, reconfigured, deleted, set aside.

use std::cell::RefCell;
use std::collections::HashSet;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use strandline_core::metadata::{
    BrokerId, ClusterImage, Command, MetadataVersion, Partition as AssignedPartition, PartitionReference,
    Topic as ImageTopic,
};
use strandline_core::replica::Assignment;
use strandline_runtime::Runtime;
use strandline_storage::disk::Disk;
use strandline_storage::{Log, RecoveryReport, StoreError, TopicPartitionId};
use strandline_wire::{ErrorCode, Uuid, topic_name};

use super::{Partition, Shard, TopicRules};
use crate::replica;

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
    /// Replicas that the last image assigns and storage lost.
    lost: RefCell<Vec<PartitionReference>>,
}

impl<R: Runtime, D: Disk> ImageApplier<R, D> {
    pub(super) fn new(shard: Rc<Shard<R, D>>, recovered: Recovered) -> Self {
        Self {
            shard,
            recovered,
            is_first: true,
            lost: RefCell::default(),
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
        shard.changing.set(true);
        let is_another = shard.replicas.registered(&image);
        for topic in before.topics().filter(|topic| image.topic(topic.id).is_none()) {
            self.delete_topic(topic).await;
        }
        // Followers go by the registrations of others.
        let other_brokers = !before.has_same_brokers(&image);
        for topic in image.topics() {
            let unchanged = before
                .topic(topic.id)
                .is_some_and(|known| Arc::ptr_eq(known, topic));
            if reconfigured || is_another || !unchanged {
                self.apply_topic(&before, &image, topic).await;
                shard.runtime.yield_if_needed().await;
            }
        }
        if other_brokers {
            self.reassign_all(&image);
        }
        replica::retry_early_opens(&shard);
        if self.is_first {
            self.finish_deletions(&image);
            self.set_strays_aside(&image).await;
        }
        shard.store.set_metadata_offset(image.offset().0);
        *shard.image.borrow_mut() = image.clone();
        shard.changing.set(false);
        crate::group::image_changed(&shard, &before, &image);
        self.is_first = false;
        self.tell_lost(&image).await;
        shard.control.applied(shard.number, image.offset());
    }

    async fn apply_topic(&self, before: &ClusterImage, image: &ClusterImage, topic: &ImageTopic) {
        let shard = &self.shard;
        let mut rules = None;
        for (number, assigned) in (0..).zip(&topic.partitions) {
            let id = TopicPartitionId {
                topic_id: topic.id,
                partition: number,
            };
            if !assigned.replicas.contains(&shard.broker_id) && assigned.leader != shard.broker_id {
                self.stop_leading(id, assigned);
                replica::stop_following(&shard.replicas, id).await;
                self.delete_dropped(before, id);
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
            let applied = match assigned.leader == shard.broker_id {
                true => self.apply_led(id, image, topic, assigned, rules).await,
                false => {
                    self.stop_leading(id, assigned);
                    self.apply_followed(id, image, assigned, rules).await
                }
            };
            if let Err(error) = applied {
                tracing::error!(topic = topic.name, partition = number, %error, "the replica cannot be served");
            }
        }
    }

    async fn apply_led(
        &self,
        id: TopicPartitionId,
        image: &ClusterImage,
        topic: &ImageTopic,
        assigned: &AssignedPartition,
        rules: &Rc<TopicRules>,
    ) -> Result<(), StoreError> {
        let shard = &self.shard;
        let entry = shard.topics.enter(topic.id, &topic.name, || rules.clone());
        entry.set_rules(rules.clone());
        let assignment = Assignment::of(image, topic, assigned);
        if let Some(led) = entry.partition(id.partition as i32) {
            // One that was alone begins anew to have others: it counts differently from then on.
            let same_kind = led.is_replicated() == (assignment.replicas.len() > 1);
            if led.leader_epoch() == assigned.leader_epoch.0 && same_kind {
                led.log.set_settings(rules.log.clone());
                self.reassign(&led, assignment);
                return Ok(());
            }
            // Whoever waits at the old one would wait for what only the new one hears of.
            let now = shard.runtime.now();
            led.lose(
                ErrorCode::NotLeaderOrFollower,
                "a new leader epoch of the partition began",
                now,
            );
            shard.replicas.stop_leading(id);
            entry.set_partition(id.partition, None);
        }
        replica::stop_following(&shard.replicas, id).await;
        let partition = Rc::new(self.lead(id, assigned, assignment, rules).await?);
        if partition.is_replicated() {
            shard.replicas.lead(&partition);
        }
        entry.set_partition(id.partition, Some(partition));
        Ok(())
    }

    /// Tells a leader of a change within its epoch.
    fn reassign(&self, led: &Rc<Partition<D>>, assignment: Assignment) {
        if led.is_replicated()
            && let Some(alter) = led.assigned(assignment, self.shard.runtime.now())
        {
            replica::propose(&self.shard, led, alter);
        }
    }

    async fn apply_followed(
        &self,
        id: TopicPartitionId,
        image: &ClusterImage,
        assigned: &AssignedPartition,
        rules: &TopicRules,
    ) -> Result<(), StoreError> {
        let log = self.open_or_create(id, assigned, rules)?;
        replica::follow(&self.shard, image, assigned, log, rules.log.clone()).await
    }

    /// Deletes the log of a replica that a committed reassignment took away.
    fn delete_dropped(&self, before: &ClusterImage, id: TopicPartitionId) {
        let own = self.shard.broker_id;
        let held = before.partition(id.topic_id, id.partition);
        if self.is_first || !held.is_some_and(|held| held.replicas.contains(&own)) {
            return;
        }
        self.delete_log(id);
    }

    /// Deletes a log, if there is one.
    fn delete_log(&self, id: TopicPartitionId) {
        match self.shard.store.delete_log(id) {
            Ok(_) | Err(StoreError::Unknown(_)) => {}
            Err(error) => tracing::error!(partition = %id, %error, "cannot delete the log"),
        }
    }

    /// Who is registered or fenced changed: leaders go by that too, in partitions that did not change.
    fn reassign_all(&self, image: &ClusterImage) {
        for led in self.shard.replicas.all_led() {
            let id = led.log.id();
            if let Some(topic) = image.topic(id.topic_id)
                && let Some(assigned) = topic.partitions.get(id.partition as usize)
                && assigned.leader_epoch.0 == led.leader_epoch()
            {
                self.reassign(&led, Assignment::of(image, topic, assigned));
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
        self.lost.borrow_mut().push(replica::reference(id));
        store.create_damaged(id, rules.log.clone())
    }

    /// Tells the quorum of replicas that are gone before this shard may lead: they must not pass for what they were.
    async fn tell_lost(&self, image: &ClusterImage) {
        let replicas = std::mem::take(&mut *self.lost.borrow_mut());
        if replicas.is_empty() || image.metadata_version() == MetadataVersion::ONE_REPLICA {
            return;
        }
        let Some(own) = image.broker(self.shard.broker_id) else {
            return;
        };
        let command = Command::ReplicasDamaged {
            broker: own.id,
            epoch: own.epoch,
            replicas,
        };
        if let Err(error) = self.shard.control.propose(command, Duration::ZERO).await {
            tracing::error!(shard = self.shard.number, %error, "the quorum could not be told of lost replicas");
        }
    }

    fn stop_leading(&self, id: TopicPartitionId, assigned: &AssignedPartition) {
        let shard = &self.shard;
        let Some(entry) = shard.topics.by_id(id.topic_id) else {
            return;
        };
        if let Some(led) = entry.partition(id.partition as i32) {
            entry.set_partition(id.partition, None);
            shard.replicas.stop_leading(id);
            let reason = match assigned.leader {
                BrokerId::NONE => "no replica leads the partition now",
                _ => "another broker leads the partition now",
            };
            led.lose(ErrorCode::NotLeaderOrFollower, reason, shard.runtime.now());
        }
    }

    /// Deletes what a committed record deleted.
    async fn delete_topic(&self, topic: &ImageTopic) {
        let shard = &self.shard;
        if let Some(entry) = shard.topics.by_id(topic.id) {
            shard.topics.remove(topic.id);
            let now = shard.runtime.now();
            for partition in entry.led() {
                partition.lose(ErrorCode::UnknownTopicOrPartition, "the topic was deleted", now);
            }
        }
        for id in logs_of(topic, shard.broker_id) {
            shard.replicas.stop_leading(id);
            replica::stop_following(&shard.replicas, id).await;
            // One that could not be led may have a log, or none.
            self.delete_log(id);
        }
    }

    /// Deletes the logs of topics whose deletion was committed while this shard was down, or died before it had noted it, and those of
    /// replicas that a move dropped meanwhile.
    fn finish_deletions(&self, image: &ClusterImage) {
        let deleted: HashSet<Uuid> = image.deleted_topics().collect();
        for log in self.shard.store.logs() {
            let id = log.id();
            let why = match image.topic(id.topic_id) {
                None if deleted.contains(&id.topic_id) => "its topic was deleted",
                Some(_) if self.was_dropped(image, id) => "a move dropped the replica",
                _ => continue,
            };
            tracing::info!(partition = %id, "while this shard did not run, {why}: the log is deleted now");
            self.delete_log(id);
        }
    }

    /// Whether others have the replica by metadata that is no older than what this shard went by when it had the log: an older one, from
    /// a backup for example, may not know of the replica yet.
    fn was_dropped(&self, image: &ClusterImage, id: TopicPartitionId) -> bool {
        let is_newer = image.offset().0 >= self.recovered.metadata_offset && !self.recovered.rot;
        let assigned = image.partition(id.topic_id, id.partition);
        is_newer && assigned.is_some_and(|assigned| !assigned.replicas.contains(&self.shard.broker_id))
    }

    /// Logs that the metadata does not know, and does not remember as deleted, are kept out of the way, never deleted.
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
    use super::*;
    use strandline_core::metadata::{LeaderEpoch, MetadataOffset, PartitionEpoch};

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
