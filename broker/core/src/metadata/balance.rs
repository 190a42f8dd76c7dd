//! Which partitions would be better led by their preferred replica, and when that is looked at.

use std::time::Duration;

use super::command::{Command, Election, PartitionReference};
use super::ids::BrokerId;
use super::image::{ClusterImage, Partition};

/// Elections of one look, at most; what is left comes with the next turn.
const ELECTIONS_MAX: usize = 1000;

/// When the balance of leaderships is looked at: on the quorum's leader, or on a node that is alone.
#[derive(Debug)]
pub struct Balance {
    /// `leader.imbalance.check.interval.seconds`; `None` while `auto.leader.rebalance.enable` is false.
    interval_ms: Option<i64>,
    due_ms: i64,
}

impl Balance {
    /// The first look comes an interval after `now_ms`, on the clock of all turns.
    pub fn new(interval: Option<Duration>, now_ms: i64) -> Self {
        let milliseconds = |span: Duration| i64::try_from(span.as_millis()).unwrap_or(i64::MAX);
        let mut balance = Self {
            interval_ms: interval.map(milliseconds),
            due_ms: i64::MAX,
        };
        balance.begin(now_ms);
        balance
    }

    /// It is this node's to look from now on: shards that are about to come back have an interval for it.
    pub fn begin(&mut self, now_ms: i64) {
        self.due_ms = self
            .interval_ms
            .map_or(i64::MAX, |interval| now_ms.saturating_add(interval));
    }

    /// What to propose now, if the time has come and a preferred leader could lead.
    pub fn turn(&mut self, image: &ClusterImage, now_ms: i64) -> Option<Command> {
        if now_ms < self.due_ms {
            return None;
        }
        let partitions = image.imbalanced_partitions(ELECTIONS_MAX);
        if partitions.len() < ELECTIONS_MAX {
            self.begin(now_ms);
        }
        (!partitions.is_empty()).then_some(Command::ElectLeaders {
            election: Election::Preferred,
            partitions,
        })
    }
}

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
