//! What is kept of a group: the fields of Kafka's `GroupMetadataValue`, neither more nor less.

use std::rc::Rc;

use bytes::Bytes;

/// A group as `__consumer_offsets` keeps it; the next record of the same group replaces it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupRecord {
    /// The kind of group; `None` (an empty string on disk) for a group that only commits offsets.
    pub protocol_type: Option<Rc<str>>,
    /// The generation.
    pub generation: i32,
    /// The chosen protocol; `None` when empty.
    pub protocol_name: Option<Rc<str>>,
    /// The leader's member id; `None` when empty.
    pub leader: Option<Rc<str>>,
    /// When the group came into its state, in milliseconds since 1970; `None` (-1 on disk) in old records.
    pub state_since_ms: Option<i64>,
    /// The members; empty for an empty group.
    pub members: Vec<MemberRecord>,
}

/// A member as `__consumer_offsets` keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberRecord {
    /// The member's id.
    pub member_id: Rc<str>,
    /// Its instance id, if it is a static member.
    pub instance_id: Option<Rc<str>>,
    /// Its client id.
    pub client_id: Rc<str>,
    /// Where its client was.
    pub client_host: Rc<str>,
    /// Its rebalance timeout; -1 in old records, where the session timeout stands in.
    pub rebalance_timeout_ms: i32,
    /// Its session timeout.
    pub session_timeout_ms: i32,
    /// Its metadata for the chosen protocol.
    pub subscription: Bytes,
    /// Its assignment.
    pub assignment: Bytes,
}
