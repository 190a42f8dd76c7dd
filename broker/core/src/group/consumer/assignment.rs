//! Sets of partitions by topic id: what members own, must give up, and are meant to own.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use uuid::Uuid;

/// Partitions by topic id; a topic in it has at least one. A clone shares, a change copies: an assignment stands in
/// the group's state, in a record and in an answer at the same time, and most never change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Assignment {
    topics: Rc<BTreeMap<Uuid, BTreeSet<i32>>>,
}

impl Assignment {
    /// Whether there is no partition in it.
    pub fn is_empty(&self) -> bool {
        self.topics.is_empty()
    }

    /// How many partitions there are.
    pub fn len(&self) -> usize {
        self.topics.values().map(BTreeSet::len).sum()
    }

    /// Whether a partition is in it.
    pub fn contains(&self, topic: Uuid, partition: i32) -> bool {
        self.topics
            .get(&topic)
            .is_some_and(|partitions| partitions.contains(&partition))
    }

    /// The topics with their partitions, in the order of the ids.
    pub fn topics(&self) -> impl ExactSizeIterator<Item = (Uuid, &BTreeSet<i32>)> {
        self.topics.iter().map(|(topic, partitions)| (*topic, partitions))
    }

    /// Every partition, in order.
    pub fn iter(&self) -> impl Iterator<Item = (Uuid, i32)> {
        self.topics()
            .flat_map(|(topic, partitions)| partitions.iter().map(move |partition| (topic, *partition)))
    }

    /// Whether no partition of it is outside `other`.
    pub fn is_subset(&self, other: &Self) -> bool {
        self.iter()
            .all(|(topic, partition)| other.contains(topic, partition))
    }

    /// Whether some partition is in both.
    pub fn intersects(&self, other: &Self) -> bool {
        self.iter()
            .any(|(topic, partition)| other.contains(topic, partition))
    }

    /// Adds a partition.
    pub fn insert(&mut self, topic: Uuid, partition: i32) {
        let topics = Rc::make_mut(&mut self.topics);
        topics.entry(topic).or_default().insert(partition);
    }

    /// The partitions that `keep` is true for; shared when that is all of them.
    pub fn filtered(&self, mut keep: impl FnMut(Uuid, i32) -> bool) -> Self {
        let kept: Vec<(Uuid, i32)> = self
            .iter()
            .filter(|(topic, partition)| keep(*topic, *partition))
            .collect();
        if kept.len() == self.len() {
            return self.clone();
        }
        kept.into_iter().collect()
    }
}

impl FromIterator<(Uuid, i32)> for Assignment {
    fn from_iter<I: IntoIterator<Item = (Uuid, i32)>>(partitions: I) -> Self {
        let mut topics: BTreeMap<Uuid, BTreeSet<i32>> = BTreeMap::new();
        for (topic, partition) in partitions {
            topics.entry(topic).or_default().insert(partition);
        }
        Self {
            topics: Rc::new(topics),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Uuid = Uuid::from_u128(1);
    const B: Uuid = Uuid::from_u128(2);

    #[test]
    fn partitions_are_a_set_in_order() {
        let assignment: Assignment = [(B, 1), (A, 3), (A, 0), (B, 1)].into_iter().collect();
        assert_eq!(assignment.iter().collect::<Vec<_>>(), [(A, 0), (A, 3), (B, 1)]);
        assert_eq!((assignment.len(), assignment.topics().len()), (3, 2));
        assert!(assignment.contains(A, 3) && !assignment.contains(B, 3));
    }

    #[test]
    fn filtering_leaves_no_topic_without_partitions() {
        let assignment: Assignment = [(A, 0), (B, 1)].into_iter().collect();
        let kept = assignment.filtered(|topic, _| topic == B);
        assert_eq!(kept.topics().len(), 1);
        assert!(kept.is_subset(&assignment) && kept.intersects(&assignment));
        assert!(!assignment.is_subset(&kept));
        assert!(Assignment::default().is_subset(&kept) && !Assignment::default().intersects(&kept));
    }
}
