//! What goes out: answers, records to persist, and what an operator may want to read in the log.

use std::rc::Rc;

use bytes::Bytes;
use strandline_wire::ErrorCode;

use super::record::GroupRecord;
use super::state::GroupState;

/// A request that waits in the shell for its answer. Each is answered exactly once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket(pub u64);

/// A record that a group has asked to persist; numbered within the group's life in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PersistId(pub u64);

/// A record to append to the group's offsets partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Persist {
    /// What [`ClassicGroup::persisted`](super::ClassicGroup::persisted) is to be told about.
    pub id: PersistId,
    /// The record. Records of a group are appended in the order in which they were emitted.
    pub record: GroupRecord,
}

/// The answer to a ticket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// To a JoinGroup.
    Join(JoinAnswer),
    /// To a SyncGroup.
    Sync(SyncAnswer),
    /// To a LeaveGroup.
    Leave(LeaveAnswer),
}

/// The answer to a JoinGroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinAnswer {
    /// The error, or NONE.
    pub error: ErrorCode,
    /// The generation; -1 with most errors.
    pub generation: i32,
    /// The kind of group.
    pub protocol_type: Option<Rc<str>>,
    /// The chosen protocol.
    pub protocol_name: Option<Rc<str>>,
    /// The leader's member id; empty with errors.
    pub leader: Rc<str>,
    /// Whether the leader must not compute an assignment (KIP-814).
    pub skip_assignment: bool,
    /// The member's id.
    pub member_id: Rc<str>,
    /// For the leader, every member.
    pub members: Vec<JoinedMember>,
}

impl JoinAnswer {
    /// An answer that carries nothing but an error.
    pub fn error(member_id: Rc<str>, error: ErrorCode) -> Self {
        Self {
            error,
            generation: -1,
            protocol_type: None,
            protocol_name: None,
            leader: "".into(),
            skip_assignment: false,
            member_id,
            members: Vec::new(),
        }
    }
}

/// A member as the leader sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinedMember {
    /// The member's id.
    pub member_id: Rc<str>,
    /// Its instance id, if it is a static member.
    pub instance_id: Option<Rc<str>>,
    /// Its metadata for the chosen protocol.
    pub metadata: Bytes,
}

/// The answer to a SyncGroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyncAnswer {
    /// The error, or NONE.
    pub error: ErrorCode,
    /// The kind of group.
    pub protocol_type: Option<Rc<str>>,
    /// The chosen protocol.
    pub protocol_name: Option<Rc<str>>,
    /// What the leader assigned to the member.
    pub assignment: Bytes,
}

impl SyncAnswer {
    /// An answer that carries nothing but an error.
    pub fn error(error: ErrorCode) -> Self {
        Self {
            error,
            protocol_type: None,
            protocol_name: None,
            assignment: Bytes::new(),
        }
    }
}

/// The answer to a LeaveGroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaveAnswer {
    /// The error of the whole request, or NONE. In versions below 3 the only member's error takes this place.
    pub error: ErrorCode,
    /// What became of each member, in the order of the request.
    pub members: Vec<LeftMember>,
}

/// What became of one leaving member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftMember {
    /// The member id of the request.
    pub member_id: Rc<str>,
    /// The instance id of the request.
    pub instance_id: Option<Rc<str>>,
    /// The error, or NONE.
    pub error: ErrorCode,
}

/// A change of a group's state, for logs and metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transition {
    /// The state before.
    pub from: GroupState,
    /// The state after.
    pub to: GroupState,
    /// The generation after.
    pub generation: i32,
    /// Why; for a rebalance with the client's own reason (KIP-800).
    pub reason: String,
}

/// What the shell has to do after a call; calls only ever add to it.
#[derive(Debug, Default)]
pub struct Effects {
    /// Answers that are due.
    pub answers: Vec<(Ticket, Answer)>,
    /// Records to append, in this order, after all earlier ones of the group.
    pub persists: Vec<Persist>,
    /// What happened, in order.
    pub transitions: Vec<Transition>,
}
