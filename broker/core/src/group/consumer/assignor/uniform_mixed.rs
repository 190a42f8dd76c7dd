//! The `uniform` assignor where subscriptions differ.
//!
//! Everyone keeps what it can; what nobody has goes to the subscriber with the least; then partitions move one by one
//! from a member to a subscriber of the same topic that has at least two fewer, until there is no such pair. Each move
//! makes the sum of the squared loads smaller, so it ends; and of two members with the same subscription neither can
//! have two more than the other.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use strandline_wire::Uuid;

use super::{AssignorMember, Board, PartitionCounts};
use crate::group::consumer::assignment::Assignment;

pub(super) fn assign(members: &[AssignorMember<'_>], partitions: &PartitionCounts) -> Vec<Assignment> {
    let mut by_topic: BTreeMap<Uuid, Vec<usize>> = BTreeMap::new();
    for (index, member) in members.iter().enumerate() {
        for topic in member.topics.iter() {
            by_topic.entry(*topic).or_default().push(index);
        }
    }
    let mut subscribers: Vec<(Uuid, Vec<usize>)> = by_topic.into_iter().collect();
    // Topics with few subscribers first: theirs have the least choice.
    subscribers.sort_by_key(|(topic, members)| (members.len(), *topic));

    let mut board = Board::keeping(members, partitions);
    for (topic, subscribers) in &subscribers {
        fill(&mut board, *topic, subscribers);
    }
    loop {
        let mut moved = false;
        for (topic, subscribers) in &subscribers {
            moved |= balance(&mut board, *topic, subscribers);
        }
        if !moved {
            return board.into_assignments(members);
        }
    }
}

/// Gives the partitions of a topic that nobody has to those with the least.
fn fill(board: &mut Board<'_>, topic: Uuid, subscribers: &[usize]) {
    let mut free = board
        .slots(topic)
        .filter(|slot| board.owners[*slot].is_none())
        .collect::<Vec<_>>()
        .into_iter()
        .peekable();
    if free.peek().is_none() {
        return;
    }
    let mut least: BinaryHeap<_> = subscribers
        .iter()
        .map(|member| Reverse((board.load[*member], *member)))
        .collect();
    for slot in free {
        if let Some(Reverse((load, member))) = least.pop() {
            board.give(slot, member);
            least.push(Reverse((load + 1, member)));
        }
    }
}

/// Moves partitions of one topic from members with much to members with little; whether one moved.
fn balance(board: &mut Board<'_>, topic: Uuid, subscribers: &[usize]) -> bool {
    let holders = |board: &Board<'_>| {
        let owners = board.slots(topic).filter_map(|slot| board.owners[slot]);
        owners.map(|member| member as usize).collect::<BTreeSet<usize>>()
    };
    let most = holders(board).into_iter().map(|member| board.load[member]).max();
    let least = subscribers.iter().map(|member| board.load[*member]).min();
    if most.zip(least).is_none_or(|(most, least)| most < least + 2) {
        return false;
    }
    let mut slots_of: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for slot in board.slots(topic) {
        if let Some(member) = board.owners[slot] {
            slots_of.entry(member as usize).or_default().push(slot);
        }
    }
    let mut holding: BTreeSet<(usize, usize)> = slots_of.keys().map(|m| (board.load[*m], *m)).collect();
    let mut waiting: BTreeSet<(usize, usize)> = subscribers.iter().map(|m| (board.load[*m], *m)).collect();
    while let (Some(&(most, giver)), Some(&(least, taker))) = (holding.last(), waiting.first()) {
        if most < least + 2 {
            break;
        }
        let slots = slots_of.entry(giver).or_default();
        let Some(slot) = slots.pop() else {
            holding.remove(&(most, giver));
            continue;
        };
        board.take(slot);
        board.give(slot, taker);
        holding.remove(&(most, giver));
        waiting.remove(&(most, giver));
        waiting.remove(&(least, taker));
        holding.remove(&(least, taker));
        if !slots.is_empty() {
            holding.insert((most - 1, giver));
        }
        waiting.insert((most - 1, giver));
        waiting.insert((least + 1, taker));
        holding.insert((least + 1, taker));
        slots_of.entry(taker).or_default().push(slot);
    }
    true
}
