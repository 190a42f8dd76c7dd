//! Which broker serves a new partition.
//!
//! With one replica a partition, balance is all there is to it: a topic's partitions are spread over the shards, and
//! shards that lead fewer partitions come first. Deterministic: the same image and request give the same placement.

use std::collections::BTreeMap;

use crate::metadata::{BrokerId, ClusterImage};

/// How many partitions each candidate leads; carried from one placement to the next within a command.
#[derive(Clone, Debug)]
pub struct Load(BTreeMap<BrokerId, u64>);

impl Load {
    /// The load of the brokers that can take partitions.
    pub fn of(image: &ClusterImage) -> Self {
        let mut load: BTreeMap<BrokerId, u64> = image.live_brokers().map(|broker| (broker.id, 0)).collect();
        for partition in image.topics().flat_map(|topic| &topic.partitions) {
            if let Some(count) = partition.replicas.first().and_then(|broker| load.get_mut(broker)) {
                *count += 1;
            }
        }
        Self(load)
    }

    /// How many brokers can take partitions.
    pub fn brokers(&self) -> usize {
        self.0.len()
    }

    /// Counts partitions that were placed by hand.
    pub fn add(&mut self, broker: BrokerId) {
        if let Some(count) = self.0.get_mut(&broker) {
            *count += 1;
        }
    }

    /// Places `partitions` more partitions of a topic that has `existing` ones at these leaders; empty without brokers.
    pub fn place(&mut self, partitions: usize, existing: impl Iterator<Item = BrokerId>) -> Vec<BrokerId> {
        let mut of_topic: BTreeMap<BrokerId, u64> = BTreeMap::new();
        for broker in existing {
            *of_topic.entry(broker).or_default() += 1;
        }
        let mut placed = Vec::with_capacity(partitions);
        for _ in 0..partitions {
            let rank = |(broker, load): (&BrokerId, &u64)| {
                (of_topic.get(broker).copied().unwrap_or_default(), *load, *broker)
            };
            let Some((_, _, broker)) = self.0.iter().map(rank).min() else {
                break;
            };
            *of_topic.entry(broker).or_default() += 1;
            self.add(broker);
            placed.push(broker);
        }
        placed
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn counts(leaders: &[BrokerId], brokers: i32) -> Vec<usize> {
        (0..brokers)
            .map(|broker| leaders.iter().filter(|leader| leader.0 == broker).count())
            .collect()
    }

    proptest! {
        #[test]
        fn each_topic_and_the_whole_are_balanced(brokers in 1_i32..40, topics in prop::collection::vec(1_usize..50, 1..30)) {
            let mut load = Load((0..brokers).map(|broker| (BrokerId(broker), 0)).collect());
            let spread = |counts: &[usize]| counts.iter().max().unwrap() - counts.iter().min().unwrap();
            let mut all = Vec::new();
            for partitions in topics {
                let placed = load.place(partitions, std::iter::empty());
                prop_assert_eq!(placed.len(), partitions);
                prop_assert!(spread(&counts(&placed, brokers)) <= 1);
                all.extend(placed);
            }
            prop_assert!(spread(&counts(&all, brokers)) <= 1);
        }
    }

    #[test]
    fn without_brokers_nothing_is_placed() {
        assert!(Load(BTreeMap::new()).place(3, std::iter::empty()).is_empty());
    }
}
