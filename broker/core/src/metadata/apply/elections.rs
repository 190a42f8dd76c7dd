//! Elections on request.

use super::super::command::{Election, PartitionReference};
use super::super::error::ApplyError;
use super::super::ids::BrokerId;
use super::super::image::ClusterImage;
use super::partition_change::{Change, Policy, Wanted};

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
        let needed = match election {
            Election::Preferred => partition.leader != preferred,
            Election::Unclean => partition.leader == BrokerId::NONE,
        };
        if !needed {
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
