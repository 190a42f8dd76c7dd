//! The one path by which metadata changes.

mod configs;
mod registration;
#[cfg(test)]
mod tests;
mod topics;

use std::sync::Arc;

use super::command::{Answer, BlockOfProducerIds, Command};
use super::error::ApplyError;
use super::ids::{BrokerId, MetadataOffset};
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
