//! What a group takes in memory, kept as it changes so that it may be asked for after every call.

use std::collections::HashSet;
use std::rc::Rc;

use super::ClassicGroup;
use super::members::Member;
use super::request::{JoinRequest, Protocol};

/// A member's places in the books of its group, and the allocations around its strings.
const MEMBER_BYTES: usize = 512;
/// A topic's place in the set of those subscribed to.
const TOPIC_BYTES: usize = 64;

impl ClassicGroup {
    /// About what its members take, those that were only told their ids with them, in bytes.
    pub fn bytes(&self) -> usize {
        self.members.bytes() + self.pending.bytes() + self.subscribed_bytes
    }
}

/// By how much a join would let a group grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Growth {
    /// In bytes, about.
    pub bytes: usize,
    /// Whether it comes from a new member, not from one that says more of itself than before.
    pub is_new: bool,
}

impl Growth {
    /// Of a group that is not there yet.
    pub fn of_new(join: &JoinRequest) -> Self {
        Self {
            bytes: size_of::<Member>() + MEMBER_BYTES + join.profile_bytes(),
            is_new: true,
        }
    }
}

impl JoinRequest {
    /// What the member says of itself takes.
    pub fn profile_bytes(&self) -> usize {
        of_protocols(&self.protocols)
    }
}

impl ClassicGroup {
    /// By how much a join would let it grow. A member that is known by its id or by its static name takes its own place.
    pub fn growth(&self, join: &JoinRequest) -> Growth {
        let by_instance = || self.members.seat_of_instance(join.instance_id.as_deref()?);
        let Some(seat) = self.members.seat_of(&join.member_id).or_else(by_instance) else {
            return Growth::of_new(join);
        };
        let known = of_protocols(&self.members.get(seat).profile.protocols);
        Growth {
            bytes: join.profile_bytes().saturating_sub(known),
            is_new: false,
        }
    }
}

fn of_protocols(protocols: &[Protocol]) -> usize {
    let bytes = protocols
        .iter()
        .map(|protocol| size_of_val(protocol) + protocol.name.len() + protocol.metadata.len());
    bytes.sum()
}

pub(super) fn of_member(member: &Member) -> usize {
    let profile = &member.profile;
    let strings = member.id.len()
        + member.instance_id.as_ref().map_or(0, |instance| instance.len())
        + profile.client_id.len()
        + profile.client_host.len();
    size_of::<Member>()
        + MEMBER_BYTES
        + strings
        + member.assignment().len()
        + of_protocols(&profile.protocols)
}

pub(super) fn of_topics(topics: Option<&HashSet<Rc<str>>>) -> usize {
    let topics = topics.into_iter().flatten();
    topics.map(|topic| TOPIC_BYTES + topic.len()).sum()
}
