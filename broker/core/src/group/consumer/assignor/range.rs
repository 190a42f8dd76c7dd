//! The `range` assignor: of each topic every subscriber gets one contiguous range.
//!
//! Members are in the order of their instance ids, those without one after them in the order of their ids. So topics
//! with the same subscribers and as many partitions are split alike (co-partitioning), and static members keep their
//! ranges through restarts.

use std::collections::BTreeMap;

use strandline_wire::Uuid;

use super::{AssignorMember, PartitionCounts};
use crate::group::consumer::assignment::Assignment;

pub(super) fn assign(members: &[AssignorMember<'_>], partitions: &PartitionCounts) -> Vec<Assignment> {
    let mut order: Vec<usize> = (0..members.len()).collect();
    order.sort_by_key(|index| {
        let member = &members[*index];
        (member.instance_id.is_none(), member.instance_id, member.id)
    });
    let mut subscribers: BTreeMap<Uuid, Vec<usize>> = BTreeMap::new();
    for index in order {
        for topic in members[index].topics.iter() {
            subscribers.entry(*topic).or_default().push(index);
        }
    }
    let mut lists: Vec<Vec<(Uuid, i32)>> = vec![Vec::new(); members.len()];
    for (topic, subscribers) in subscribers {
        let count = partitions.get(&topic).copied().unwrap_or_default();
        let share = count / subscribers.len() as i32;
        let extra = count % subscribers.len() as i32;
        let mut next = 0;
        for (place, index) in subscribers.into_iter().enumerate() {
            let end = next + share + i32::from((place as i32) < extra);
            lists[index].extend((next..end).map(|number| (topic, number)));
            next = end;
        }
    }
    let targets = lists.into_iter().map(Assignment::from_iter);
    targets
        .zip(members)
        .map(|(target, member)| {
            if target == *member.target {
                member.target.clone()
            } else {
                target
            }
        })
        .collect()
}
