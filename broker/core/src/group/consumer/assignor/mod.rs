//! Who is meant to own what: the assignors that the broker runs for a group.
//!
//! An assignor is a function of the members, what they subscribe to, and the target they had. Every partition of a
//! subscribed topic goes to exactly one of its subscribers.
//!
//! - [`uniform`]: balanced over the group, and sticky.
//! - [`range`]: contiguous ranges of each topic, so that topics with as many partitions are split alike.

mod range;
mod uniform;
mod uniform_mixed;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::rc::Rc;

use strandline_wire::Uuid;

use super::assignment::Assignment;

/// An assignor that the broker runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Assignor {
    /// Balanced and sticky; Kafka's default.
    Uniform,
    /// Contiguous ranges of each topic.
    Range,
}

impl Assignor {
    /// Its name in requests and configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Range => "range",
        }
    }

    /// The assignor of a name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Uniform, Self::Range]
            .into_iter()
            .find(|assignor| assignor.name() == name)
    }

    /// The target of each member, in the order of `members`. One that does not change is the old one, shared.
    pub fn assign(self, members: &[AssignorMember<'_>], partitions: &PartitionCounts) -> Vec<Assignment> {
        match self {
            Self::Range => range::assign(members, partitions),
            Self::Uniform if is_homogeneous(members) => uniform::assign(members, partitions),
            Self::Uniform => uniform_mixed::assign(members, partitions),
        }
    }
}

/// How many partitions each subscribed topic has.
pub type PartitionCounts = BTreeMap<Uuid, i32>;

/// A member as an assignor sees it.
#[derive(Clone, Debug)]
pub struct AssignorMember<'a> {
    /// Its id.
    pub id: &'a str,
    /// The instance id of a static member.
    pub instance_id: Option<&'a str>,
    /// The topics it subscribes to that exist, in order; shared by members with the same subscription.
    pub topics: Rc<[Uuid]>,
    /// Its target so far.
    pub target: &'a Assignment,
}

/// Whether all members subscribe to the same topics.
fn is_homogeneous(members: &[AssignorMember<'_>]) -> bool {
    let Some((first, others)) = members.split_first() else {
        return true;
    };
    others
        .iter()
        .all(|member| Rc::ptr_eq(&member.topics, &first.topics) || member.topics == first.topics)
}

/// The subscribed partitions, numbered through, with the member that each one goes to.
struct Board<'a> {
    partitions: &'a PartitionCounts,
    /// Of each topic, the number of its first partition.
    first: BTreeMap<Uuid, usize>,
    /// By number, the index of the member.
    owners: Vec<Option<u32>>,
    /// By member, how many partitions it has.
    load: Vec<usize>,
    /// By member, whether its assignment is no longer its old target.
    changed: Vec<bool>,
}

impl<'a> Board<'a> {
    /// A board where everyone keeps what it still subscribes to. A partition that two targets name, as they do while
    /// a change of the target is half written, stays with the first.
    fn keeping(members: &[AssignorMember<'_>], partitions: &'a PartitionCounts) -> Self {
        let mut first = BTreeMap::new();
        let mut total = 0;
        for (topic, count) in partitions {
            first.insert(*topic, total);
            total += *count as usize;
        }
        let mut board = Self {
            partitions,
            first,
            owners: vec![None; total],
            load: vec![0; members.len()],
            changed: vec![false; members.len()],
        };
        for (index, member) in members.iter().enumerate() {
            for (topic, numbers) in member.target.topics() {
                let subscribed = member.topics.binary_search(&topic).is_ok();
                for number in numbers {
                    match board.slot(topic, *number) {
                        Some(slot) if subscribed && board.owners[slot].is_none() => {
                            board.owners[slot] = Some(index as u32);
                            board.load[index] += 1;
                        }
                        _ => board.changed[index] = true,
                    }
                }
            }
        }
        board
    }

    fn slot(&self, topic: Uuid, number: i32) -> Option<usize> {
        let count = *self.partitions.get(&topic)?;
        (0..count)
            .contains(&number)
            .then(|| self.first[&topic] + number as usize)
    }

    /// The slots of a topic.
    fn slots(&self, topic: Uuid) -> std::ops::Range<usize> {
        let first = self.first[&topic];
        first..first + self.partitions[&topic] as usize
    }

    fn give(&mut self, slot: usize, member: usize) {
        self.owners[slot] = Some(member as u32);
        self.load[member] += 1;
        self.changed[member] = true;
    }

    fn take(&mut self, slot: usize) {
        if let Some(member) = self.owners[slot].take() {
            self.load[member as usize] -= 1;
            self.changed[member as usize] = true;
        }
    }

    fn into_assignments(self, members: &[AssignorMember<'_>]) -> Vec<Assignment> {
        let mut lists: Vec<Vec<(Uuid, i32)>> = vec![Vec::new(); members.len()];
        for (topic, count) in self.partitions {
            let first = self.first[topic];
            for number in 0..*count {
                match self.owners[first + number as usize] {
                    Some(member) if self.changed[member as usize] => {
                        lists[member as usize].push((*topic, number));
                    }
                    _ => {}
                }
            }
        }
        let unchanged = members.iter().zip(self.changed);
        unchanged
            .zip(lists)
            .map(|((member, changed), list)| {
                if changed {
                    list.into_iter().collect()
                } else {
                    member.target.clone()
                }
            })
            .collect()
    }
}
