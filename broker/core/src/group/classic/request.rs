//! What comes in: the requests of the classic protocol, as far as a group looks at them.

use std::rc::Rc;

use bytes::Bytes;
use strandline_wire::ErrorCode;
use uuid::Uuid;

use super::config::ClassicConfig;

/// Of a member's client or instance id, so much stands in its member id.
const ID_PREFIX_BYTES_MAX: usize = 32_000;

/// From this version of JoinGroup on a dynamic member first learns its id, and joins with it (KIP-394).
const JOIN_NEEDS_MEMBER_ID: i16 = 4;
/// From this version of JoinGroup on a leader may be told to skip the assignment (KIP-814).
const JOIN_MAY_SKIP_ASSIGNMENT: i16 = 9;
/// From this version of SyncGroup on protocol type and name are mandatory (KIP-559).
const SYNC_NEEDS_PROTOCOL: i16 = 5;

/// One protocol that a member can follow: for a consumer an assignor, with its subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Protocol {
    /// The name, for example `range`.
    pub name: Rc<str>,
    /// What the group's leader learns of the member; its meaning is the clients' own.
    pub metadata: Bytes,
}

/// A JoinGroup request.
#[derive(Clone, Debug)]
pub struct JoinRequest {
    /// The version of JoinGroup.
    pub version: i16,
    /// The member's id; empty if it has none yet.
    pub member_id: Rc<str>,
    /// `group.instance.id` of a static member (KIP-345).
    pub instance_id: Option<Rc<str>>,
    /// The client id of the request's header.
    pub client_id: Rc<str>,
    /// Where the client is, as DescribeGroups tells it.
    pub client_host: Rc<str>,
    /// How long the member may be silent, in milliseconds.
    pub session_timeout_ms: i32,
    /// How long it needs to rejoin, in milliseconds; if not positive, as in version 0, the session timeout stands in.
    pub rebalance_timeout_ms: i32,
    /// The kind of group, for example `consumer`.
    pub protocol_type: Rc<str>,
    /// What the member can follow, the preferred one first.
    pub protocols: Vec<Protocol>,
    /// Why it joins (KIP-800).
    pub reason: Option<Rc<str>>,
    /// The random part of a new member id.
    pub random: Uuid,
}

impl JoinRequest {
    /// Checks what does not depend on the group; to be called before a group is looked up or made for the request.
    ///
    /// # Errors
    /// INVALID_GROUP_ID for an empty group id, INVALID_SESSION_TIMEOUT beyond `group.min.session.timeout.ms` and
    /// `group.max.session.timeout.ms`.
    pub fn validate(&self, group_id: &str, config: &ClassicConfig) -> Result<(), ErrorCode> {
        if group_id.is_empty() {
            return Err(ErrorCode::InvalidGroupId);
        }
        let allowed = config.session_timeout_min_ms..=config.session_timeout_max_ms;
        if !allowed.contains(&self.session_timeout_ms) {
            return Err(ErrorCode::InvalidSessionTimeout);
        }
        Ok(())
    }

    pub(in crate::group) fn needs_member_id(&self) -> bool {
        self.version >= JOIN_NEEDS_MEMBER_ID
    }

    pub(in crate::group) fn may_skip_assignment(&self) -> bool {
        self.version >= JOIN_MAY_SKIP_ASSIGNMENT
    }

    /// The rebalance timeout that counts. Where there is none, as in version 0, the session timeout stands in: without,
    /// members would be dropped from each rebalance before they could take part, and evict each other for ever.
    pub(in crate::group) fn effective_rebalance_timeout_ms(&self) -> i32 {
        if self.rebalance_timeout_ms <= 0 {
            self.session_timeout_ms
        } else {
            self.rebalance_timeout_ms
        }
    }

    /// The id of a new member: its instance id or client id, and the random part.
    pub(in crate::group) fn new_member_id(&self) -> Rc<str> {
        let prefix = self.instance_id.as_ref().unwrap_or(&self.client_id);
        // The id must fit a string of the protocol, in every answer that names it.
        let cut = prefix.floor_char_boundary(ID_PREFIX_BYTES_MAX);
        format!("{}-{}", &prefix[..cut], self.random).into()
    }
}

/// Who sends a request other than JoinGroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The member's id.
    pub member_id: Rc<str>,
    /// Its instance id, if it is a static member.
    pub instance_id: Option<Rc<str>>,
    /// The generation it believes in; -1 in commits from outside the group.
    pub generation: i32,
}

/// A SyncGroup request.
#[derive(Clone, Debug)]
pub struct SyncRequest {
    /// The version of SyncGroup.
    pub version: i16,
    /// Who sends it.
    pub identity: Identity,
    /// The kind of group, from version 5 on.
    pub protocol_type: Option<Rc<str>>,
    /// The chosen protocol, from version 5 on.
    pub protocol_name: Option<Rc<str>>,
    /// From the leader: the assignment of each member.
    pub assignments: Vec<(Rc<str>, Bytes)>,
}

impl SyncRequest {
    pub(in crate::group) fn lacks_protocol(&self) -> bool {
        self.version >= SYNC_NEEDS_PROTOCOL && (self.protocol_type.is_none() || self.protocol_name.is_none())
    }
}

/// One member of a LeaveGroup request; a request of a version below 3 names exactly one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeavingMember {
    /// The member's id; empty where an operator removes a static member by its instance id.
    pub member_id: Rc<str>,
    /// The instance id.
    pub instance_id: Option<Rc<str>>,
    /// Why it leaves (KIP-800).
    pub reason: Option<Rc<str>>,
}
