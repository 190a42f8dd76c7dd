//! What a group takes in memory, kept as it changes so that it may be asked for after every call.

use std::collections::HashSet;
use std::rc::Rc;

use super::ClassicGroup;
use super::members::Member;

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

pub(super) fn of_member(member: &Member) -> usize {
    let profile = &member.profile;
    let protocols = profile
        .protocols
        .iter()
        .map(|protocol| size_of_val(protocol) + protocol.name.len() + protocol.metadata.len());
    let strings = member.id.len()
        + member.instance_id.as_ref().map_or(0, |instance| instance.len())
        + profile.client_id.len()
        + profile.client_host.len();
    size_of::<Member>() + MEMBER_BYTES + strings + member.assignment().len() + protocols.sum::<usize>()
}

pub(super) fn of_topics(topics: Option<&HashSet<Rc<str>>>) -> usize {
    let topics = topics.into_iter().flatten();
    topics.map(|topic| TOPIC_BYTES + topic.len()).sum()
}
