//! What a group tells about itself: to DescribeGroups and ListGroups, to deletions, to the expiry of offsets.

use std::rc::Rc;

use bytes::Bytes;

use super::ClassicGroup;
use super::state::GroupState;

/// A group as DescribeGroups answers it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupDescription {
    /// The state.
    pub state: GroupState,
    /// The kind of group; empty for one that only commits offsets.
    pub protocol_type: Rc<str>,
    /// The chosen protocol; empty unless the group is stable.
    pub protocol_name: Rc<str>,
    /// The members, in the order in which they joined.
    pub members: Vec<MemberDescription>,
}

/// A member as DescribeGroups answers it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberDescription {
    /// The member's id.
    pub member_id: Rc<str>,
    /// Its instance id, if it is a static member.
    pub instance_id: Option<Rc<str>>,
    /// Its client id.
    pub client_id: Rc<str>,
    /// Where its client is.
    pub client_host: Rc<str>,
    /// Its metadata for the chosen protocol; empty unless the group is stable.
    pub metadata: Bytes,
    /// Its assignment; empty unless the group is stable, or was before this rebalance.
    pub assignment: Bytes,
}

/// From when on the retention of a group's offsets counts (KIP-211). Offsets of topics that the group
/// [is subscribed to](super::ClassicGroup::is_subscribed_to) and those of pending transactions never expire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OffsetExpiry {
    /// From when the group became empty, for every offset.
    Since(i64),
    /// From when each offset was committed.
    SinceCommit,
    /// Nothing expires now.
    Never,
}

impl ClassicGroup {
    /// The group as DescribeGroups answers it. Members' metadata is told only while the group is stable.
    pub fn describe(&self) -> GroupDescription {
        let protocol = match self.state {
            GroupState::Stable => self.protocol_name.clone(),
            _ => None,
        };
        let members = self.members.iter().map(|(_, member)| MemberDescription {
            member_id: member.id.clone(),
            instance_id: member.instance_id.clone(),
            client_id: member.profile.client_id.clone(),
            client_host: member.profile.client_host.clone(),
            metadata: protocol
                .as_ref()
                .map_or_else(Bytes::new, |protocol| member.metadata(protocol)),
            assignment: member.assignment().clone(),
        });
        GroupDescription {
            state: self.state,
            protocol_type: self.protocol_type.clone().unwrap_or_default(),
            members: members.collect(),
            protocol_name: protocol.unwrap_or_default(),
        }
    }

    /// Whether a member may be reading a topic; true for every topic while its members' metadata cannot be read.
    pub fn is_subscribed_to(&self, topic: &str) -> bool {
        match &self.subscribed_topics {
            Some(topics) => topics.contains(topic),
            None => self.uses_consumer_protocol(),
        }
    }

    /// From when on the retention of its offsets counts.
    pub fn offset_expiry(&self) -> OffsetExpiry {
        if self.protocol_type.is_none() {
            return OffsetExpiry::SinceCommit;
        }
        match self.state {
            GroupState::Empty => self
                .state_since_ms
                .map_or(OffsetExpiry::SinceCommit, OffsetExpiry::Since),
            GroupState::Stable if self.uses_consumer_protocol() && self.subscribed_topics.is_some() => {
                OffsetExpiry::SinceCommit
            }
            _ => OffsetExpiry::Never,
        }
    }
}
