//! The one path by which metadata changes.

mod brokers;
mod configs;
mod elections;
mod isr;
mod partition_change;
mod reassignments;
mod registration;
#[cfg(test)]
mod replication_tests;
#[cfg(test)]
mod tests;
mod topics;

use std::sync::Arc;

use super::command::{Answer, BlockOfProducerIds, Command};
use super::error::ApplyError;
use super::ids::{BrokerId, MetadataOffset, MetadataVersion};
use super::image::ClusterImage;

pub(super) use topics::collision_key;

/// Ids a broker gets at once; a broker asks again when they are used up, and a restart wastes the rest.
const PRODUCER_IDS_PER_BLOCK: i64 = 1000;

impl ClusterImage {
    /// Decides and applies the next command of the quorum's log.
    ///
    /// Deterministic, and total: a refused command changes nothing but the offset. Items of one command see what
    /// earlier items of it did.
    pub fn apply(&mut self, command: &Command) -> Answer {
        self.offset = MetadataOffset(self.offset.0 + 1);
        match command {
            Command::InitializeCluster { cluster_id } => Answer::Whole(match self.cluster_id {
                Some(_) => Err(ApplyError::ClusterInitialized),
                None => {
                    self.cluster_id = Some(*cluster_id);
                    Ok(())
                }
            }),
            Command::RegisterNode(registration) => Answer::Registered(self.register_node(registration)),
            Command::UnfenceBrokers { brokers } => {
                self.unfence(brokers);
                Answer::Whole(Ok(()))
            }
            Command::RegisterShard {
                node,
                directory_id,
                shard,
            } => Answer::Registered(self.register_shard(*node, *directory_id, shard)),
            Command::FenceBrokers { brokers } => {
                self.fence(brokers);
                Answer::Whole(Ok(()))
            }
            Command::StopBrokers { brokers } => {
                self.stop_brokers(brokers);
                Answer::Whole(Ok(()))
            }
            Command::UnregisterNode { node } => Answer::Whole(self.unregister(*node)),
            Command::ReplicasDamaged {
                broker,
                epoch,
                replicas,
            } => Answer::Whole(self.damaged(*broker, *epoch, replicas)),
            Command::AlterPartitions {
                leader,
                epoch,
                changes,
            } => Answer::PartitionsAltered(self.alter_partitions(*leader, *epoch, changes)),
            Command::ElectLeaders { election, partitions } => {
                Answer::LeadersElected(self.elect_leaders(*election, partitions))
            }
            Command::AlterReassignments { reassignments } => {
                Answer::Reassigned(self.alter_reassignments(reassignments))
            }
            Command::FinalizeMetadataVersion { version } => {
                Answer::Whole(self.finalize_metadata_version(*version))
            }
            Command::CreateTopics { topics } => Answer::TopicsCreated(self.create_topics(topics)),
            Command::DeleteTopics { topics } => Answer::TopicsDeleted(self.delete_topics(topics)),
            Command::CreatePartitions { topics } => Answer::PartitionsCreated(self.create_partitions(topics)),
            Command::AlterConfigs { changes } => Answer::ConfigsAltered(self.alter_configs(changes)),
            Command::AllocateProducerIds { broker } => {
                Answer::ProducerIds(self.allocate_producer_ids(*broker))
            }
        }
    }

    /// What apply would answer now; nothing changes. For `validate_only`.
    pub fn check(&self, command: &Command) -> Answer {
        self.clone().apply(command)
    }

    fn finalize_metadata_version(&mut self, version: MetadataVersion) -> Result<(), ApplyError> {
        if version < self.metadata_version || version > MetadataVersion::NEWEST {
            return Err(ApplyError::InvalidMetadataVersion(format!(
                "metadata.version can go from {} to {} at most, not to {version}",
                self.metadata_version,
                MetadataVersion::NEWEST
            )));
        }
        self.metadata_version = version;
        Ok(())
    }

    fn allocate_producer_ids(&mut self, broker: BrokerId) -> Result<BlockOfProducerIds, ApplyError> {
        if !self.brokers.contains_key(&broker) {
            return Err(ApplyError::UnknownBroker(broker));
        }
        let first = self.next_producer_id;
        let next = first
            .checked_add(PRODUCER_IDS_PER_BLOCK)
            .ok_or(ApplyError::ProducerIdsExhausted)?;
        self.next_producer_id = next;
        Ok(first..next)
    }

    /// Changes one topic; the others keep their memory.
    fn edit_topic(&mut self, id: uuid::Uuid, edit: impl FnOnce(&mut super::image::Topic)) {
        if let Some(topic) = Arc::make_mut(&mut self.topics).get_mut(&id) {
            edit(Arc::make_mut(topic));
        }
    }
}
