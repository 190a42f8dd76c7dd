//! What a group's members take in memory.

use super::ClassicGroup;
use super::members::Member;

/// A member's places in the books of its group, and the allocations around its strings.
const MEMBER_BYTES: usize = 512;

impl ClassicGroup {
    /// About what the members take, in bytes; walks over them.
    pub fn member_bytes(&self) -> usize {
        self.members.iter().map(|(_, member)| bytes_of(member)).sum()
    }
}

fn bytes_of(member: &Member) -> usize {
    let profile = &member.profile;
    let protocols = profile
        .protocols
        .iter()
        .map(|protocol| size_of_val(protocol) + protocol.name.len() + protocol.metadata.len());
    let strings = member.id.len()
        + member.instance_id.as_ref().map_or(0, |instance| instance.len())
        + profile.client_id.len()
        + profile.client_host.len();
    size_of::<Member>() + MEMBER_BYTES + strings + member.assignment.len() + protocols.sum::<usize>()
}
