//! The `uniform` assignor where all members subscribe to the same topics: loads differ by at most one, and no partition
//! moves that need not.

use std::collections::VecDeque;

use super::{AssignorMember, Board, PartitionCounts};
use crate::group::consumer::assignment::Assignment;

pub(super) fn assign(members: &[AssignorMember<'_>], partitions: &PartitionCounts) -> Vec<Assignment> {
    if members.is_empty() {
        return Vec::new();
    }
    let mut board = Board::keeping(members, partitions);
    let quotas = quotas(&board);
    // From the end, so that ranges stay together.
    for slot in (0..board.owners.len()).rev() {
        if let Some(member) = board.owners[slot]
            && board.load[member as usize] > quotas[member as usize]
        {
            board.take(slot);
        }
    }
    // In turn, so that a topic is spread over the members instead of filling one after the other.
    let mut unfilled: VecDeque<usize> = (0..members.len())
        .filter(|member| board.load[*member] < quotas[*member])
        .collect();
    for slot in 0..board.owners.len() {
        if board.owners[slot].is_some() {
            continue;
        }
        let Some(member) = unfilled.pop_front() else {
            break;
        };
        board.give(slot, member);
        if board.load[member] < quotas[member] {
            unfilled.push_back(member);
        }
    }
    board.into_assignments(members)
}

/// How many partitions each member is to have. The odd ones go to members that have more than the others already.
fn quotas(board: &Board<'_>) -> Vec<usize> {
    let members = board.load.len();
    let (share, mut extra) = (board.owners.len() / members, board.owners.len() % members);
    let mut quotas = vec![share; members];
    for has_more in [true, false] {
        for (quota, load) in quotas.iter_mut().zip(&board.load) {
            if extra > 0 && (*load > share) == has_more {
                *quota += 1;
                extra -= 1;
            }
        }
    }
    quotas
}
