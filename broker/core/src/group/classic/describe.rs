//! What a group tells about itself: to DescribeGroups and ListGroups, to deletions, to the expiry of offsets.

use std::rc::Rc;

use bytes::Bytes;

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
