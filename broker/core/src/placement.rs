//! Which brokers serve a new partition.
//!
//! Leaders are balanced first: a topic's partitions are spread over the shards, and shards that lead fewer partitions
//! come first. The other replicas go to other racks, then to other nodes, then to other shards; on another node to the
//! shard of the leader's number where there is one. Deterministic: the same image and request give the same placement.

use std::collections::BTreeMap;

use crate::metadata::{BrokerId, ClusterImage, NodeId, Partition};

/// Loads of nodes are compared by the shard, in parts of this.
const LOAD_SCALE: u64 = 1_000;

/// How many partitions each candidate holds; carried from one placement to the next within a command.
#[derive(Clone, Debug, Default)]
pub struct Load {
    brokers: BTreeMap<BrokerId, Counts>,
    racks: BTreeMap<BrokerId, usize>,
    nodes: BTreeMap<NodeId, NodeCounts>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    leads: u64,
    holds: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct NodeCounts {
    shards: u64,
    leads: u64,
    holds: u64,
}

impl Load {
    /// The load of the brokers that can take partitions.
    pub fn of(image: &ClusterImage) -> Self {
        let brokers = image
            .live_brokers()
            .map(|broker| (broker.id, broker.rack.as_str()));
        let mut load = Self::empty(brokers);
        for partition in image.topics().flat_map(|topic| &topic.partitions) {
            load.add(&partition.replicas);
        }
        load
    }

    fn empty<'a>(brokers: impl Iterator<Item = (BrokerId, &'a str)>) -> Self {
        let mut load = Self::default();
        let mut racks = BTreeMap::new();
        for (broker, rack) in brokers {
            let next = racks.len();
            load.racks.insert(broker, *racks.entry(rack).or_insert(next));
            load.brokers.insert(broker, Counts::default());
            load.nodes.entry(broker.node()).or_default().shards += 1;
        }
        load
    }

    /// How many brokers can take partitions.
    pub fn brokers(&self) -> usize {
        self.brokers.len()
    }

    /// Counts the replicas of a partition, the preferred leader first.
    pub fn add(&mut self, replicas: &[BrokerId]) {
        for (place, replica) in replicas.iter().enumerate() {
            if let Some(counts) = self.brokers.get_mut(replica) {
                counts.leads += u64::from(place == 0);
                counts.holds += 1;
                let node = self.nodes.entry(replica.node()).or_default();
                node.leads += u64::from(place == 0);
                node.holds += 1;
            }
        }
    }

    /// Places `partitions` more partitions of `factor` replicas each, of a topic that has `existing` ones; empty where there
    /// are fewer brokers than that.
    pub fn place<'a>(
        &mut self,
        partitions: usize,
        factor: usize,
        existing: impl Iterator<Item = &'a Partition>,
    ) -> Vec<Vec<BrokerId>> {
        if factor == 0 || self.brokers.len() < factor {
            return Vec::new();
        }
        let brokers = self.racks.iter();
        let mut topic = Self {
            brokers: brokers.map(|(broker, _)| (*broker, Counts::default())).collect(),
            racks: BTreeMap::new(),
            nodes: BTreeMap::new(),
        };
        for partition in existing {
            topic.add(&partition.replicas);
        }
        let mut placed = Vec::with_capacity(partitions);
        for _ in 0..partitions {
            let mut replicas = Vec::with_capacity(factor);
            while replicas.len() < factor {
                let Some(next) = self.next(&topic, &replicas) else {
                    break;
                };
                replicas.push(next);
            }
            self.add(&replicas);
            topic.add(&replicas);
            placed.push(replicas);
        }
        placed
    }

    fn next(&self, topic: &Self, chosen: &[BrokerId]) -> Option<BrokerId> {
        let free = self.brokers.iter().filter(|(broker, _)| !chosen.contains(broker));
        let by_shard = |count: u64, node: NodeId| count * LOAD_SCALE / self.nodes[&node].shards;
        let Some(leader) = chosen.first() else {
            let leader = free.min_by_key(|(broker, counts)| {
                let node = broker.node();
                let topic_on_node = topic.nodes.get(&node).map_or(0, |counts| counts.leads);
                (
                    (topic.brokers[broker].leads, counts.leads),
                    by_shard(topic_on_node, node),
                    by_shard(self.nodes[&node].leads, node),
                    **broker,
                )
            });
            return leader.map(|(broker, _)| *broker);
        };
        free.min_by_key(|(broker, counts)| {
            let node = broker.node();
            let same_rack = chosen
                .iter()
                .filter(|other| self.racks[other] == self.racks[broker])
                .count();
            let same_node = chosen.iter().filter(|other| other.node() == node).count();
            let topic_on_node = topic.nodes.get(&node).map_or(0, |counts| counts.holds);
            (
                (same_rack, same_node),
                by_shard(topic_on_node, node),
                by_shard(self.nodes[&node].holds, node),
                broker.shard() != leader.shard(),
                (topic.brokers[broker].holds, counts.holds),
                **broker,
            )
        })
        .map(|(broker, _)| *broker)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn cluster(nodes: i32, shards: u32, racks: i32) -> Load {
        let name: Vec<String> = (0..racks).map(|rack| format!("rack-{rack}")).collect();
        let node = |node: i32| (0..shards).map(move |shard| NodeId(node).broker(shard));
        let brokers = (1..=nodes).flat_map(node);
        Load::empty(brokers.map(|broker| (broker, name[(broker.node().0 % racks) as usize].as_str())))
    }

    fn spread(counts: impl Iterator<Item = usize> + Clone) -> usize {
        counts.clone().max().unwrap_or(0) - counts.min().unwrap_or(0)
    }

    fn count(brokers: &Load, held: impl Fn(BrokerId) -> usize) -> usize {
        let counts: Vec<usize> = brokers.brokers.keys().map(|broker| held(*broker)).collect();
        spread(counts.into_iter())
    }

    proptest! {
        #[test]
        fn leaders_of_each_topic_and_of_all_are_balanced(
            shards in 1_u32..40,
            topics in prop::collection::vec(1_usize..50, 1..30),
        ) {
            let mut load = cluster(1, shards, 1);
            let mut all = Vec::new();
            for partitions in topics {
                let placed = load.place(partitions, 1, std::iter::empty());
                prop_assert_eq!(placed.len(), partitions);
                let leads = |broker| placed.iter().filter(|replicas| replicas[0] == broker).count();
                prop_assert!(count(&load, leads) <= 1);
                all.extend(placed.iter().map(|replicas| replicas[0]));
            }
            prop_assert!(count(&load, |broker| all.iter().filter(|leader| **leader == broker).count()) <= 1);
        }

        #[test]
        fn replicas_span_racks_then_nodes_then_shards(
            nodes in 1_i32..7, shards in 1_u32..5, racks in 1_i32..5, factor in 1_usize..5, partitions in 1_usize..40,
        ) {
            let mut load = cluster(nodes, shards, racks);
            let placed = load.place(partitions, factor, std::iter::empty());
            if load.brokers() < factor {
                prop_assert!(placed.is_empty());
                return Ok(());
            }
            prop_assert_eq!(placed.len(), partitions);
            let racks_used = racks.min(nodes) as usize;
            for replicas in &placed {
                let distinct: BTreeSet<_> = replicas.iter().collect();
                prop_assert_eq!(distinct.len(), factor);
                let racks: BTreeSet<_> = replicas.iter().map(|replica| replica.node().0 % racks).collect();
                prop_assert_eq!(racks.len(), factor.min(racks_used));
            }
            if racks_used == 1 || racks_used == nodes as usize {
                for replicas in &placed {
                    let on: BTreeSet<_> = replicas.iter().map(|replica| replica.node()).collect();
                    prop_assert_eq!(on.len(), factor.min(nodes as usize));
                    let numbers: BTreeSet<_> = replicas.iter().map(|replica| replica.shard()).collect();
                    prop_assert!(factor > nodes as usize || numbers.len() == 1, "equal shard numbers: {replicas:?}");
                }
                let on = |node| placed.iter().flatten().filter(|replica| replica.node() == node).count();
                let on: Vec<usize> = load.nodes.keys().map(|node| on(*node)).collect();
                prop_assert!(spread(on.into_iter()) <= factor, "nodes are balanced: {placed:?}");
            }
        }
    }

    #[test]
    fn without_enough_brokers_nothing_is_placed() {
        assert!(Load::default().place(3, 1, std::iter::empty()).is_empty());
        assert!(cluster(1, 2, 1).place(1, 3, std::iter::empty()).is_empty());
    }

    #[test]
    fn one_process_spreads_over_its_shards() {
        let mut load = cluster(1, 3, 1);
        let placed = load.place(3, 3, std::iter::empty());
        let ids: Vec<Vec<i32>> = placed
            .iter()
            .map(|replicas| replicas.iter().map(|broker| broker.0).collect())
            .collect();
        assert_eq!(ids, [[1000, 1001, 1002], [1001, 1000, 1002], [1002, 1000, 1001]]);
    }
}
