//! Elections on request.

use super::super::command::{Election, PartitionReference};
use super::super::error::ApplyError;
use super::super::ids::BrokerId;
use super::super::image::{ClusterImage, Partition};
use super::partition_change::{Change, Policy, Wanted};

impl Election {
    /// Whether the partition has another leader than the one asked for.
    pub fn is_needed(self, partition: &Partition) -> bool {
        match self {
            Self::Preferred => partition.replicas.first() != Some(&partition.leader),
            Self::Unclean => partition.leader == BrokerId::NONE,
        }
    }
}

impl ClusterImage {
    pub(super) fn elect_leaders(
        &mut self,
        election: Election,
        partitions: &[PartitionReference],
    ) -> Vec<Result<(), ApplyError>> {
        partitions
            .iter()
            .map(|partition| self.elect_leader(election, *partition))
            .collect()
    }

    fn elect_leader(&mut self, election: Election, reference: PartitionReference) -> Result<(), ApplyError> {
        let (topic, partition) = self.find(reference)?;
        let preferred = partition.replicas.first().copied().unwrap_or(BrokerId::NONE);
        if !election.is_needed(partition) {
            return Err(ApplyError::ElectionNotNeeded);
        }
        let change = Change {
            wanted: match election {
                Election::Preferred => Wanted::Preferred,
                Election::Unclean => Wanted::Unclean,
            },
            ..Change::of(partition)
        };
        let next = change.finish(&Policy::of(self, topic), |broker| self.is_active(broker));
        match (next, election) {
            (Some(next), _) => {
                self.replace(reference, next);
                Ok(())
            }
            (None, Election::Preferred) => Err(ApplyError::PreferredLeaderNotAvailable(preferred)),
            (None, Election::Unclean) => Err(ApplyError::EligibleLeadersNotAvailable),
        }
    }
}
