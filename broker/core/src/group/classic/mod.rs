//! A group of the classic protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup, and what they mean for commits.
//!
//! Pure: the shell passes the time in milliseconds since 1970 and the random part of new member ids, answers the
//! tickets, appends the records and says when they are durable. The rules are Apache Kafka 4.2's; each names its KIP.
//!
//! # How the shell drives a group
//!
//! | what happens | what the shell calls |
//! |---|---|
//! | a JoinGroup | [`JoinRequest::validate`]; without a group: [`ClassicGroup::new`] if the member id is empty, else UNKNOWN_MEMBER_ID; then [`ClassicGroup::join`] |
//! | a SyncGroup, LeaveGroup | [`ClassicGroup::sync`], [`ClassicGroup::leave`]; without a group UNKNOWN_MEMBER_ID (for each leaving member) |
//! | a Heartbeat | [`ClassicGroup::heartbeat`], answered at once; without a group UNKNOWN_MEMBER_ID |
//! | OffsetCommit, TxnOffsetCommit | [`ClassicGroup::commit`]; without a group: generation < 0 makes one, else ILLEGAL_GENERATION |
//! | OffsetDelete, DeleteGroups, expiry of offsets | [`ClassicGroup::validate_offset_delete`], [`ClassicGroup::validate_delete`], [`ClassicGroup::offset_expiry`] |
//! | [`ClassicGroup::deadline_ms`] has come | [`ClassicGroup::tick`] |
//! | a record is durable, or never will be | [`ClassicGroup::persisted`] |
//! | the offsets partition is loaded | [`ClassicGroup::load`] with the last record of each group |
//! | the partition moves away, the group is deleted | [`ClassicGroup::die`]; drop it |
//!
//! After each call the shell takes the [`Effects`] and looks at the deadline again. A group that
//! [`is_idle`](ClassicGroup::is_idle) and has no offsets may be dropped; with a tombstone if it
//! [`has_record`](ClassicGroup::has_record).
//!
//! # Map
//! `join` and `static_member`: JoinGroup. `rebalance`: from one generation to the next. `sync`: SyncGroup, and what became of
//! the records. `timers`: what happens by itself. `members`, `pending`: who is there. `standing`: who may heartbeat and
//! commit. `load`: from the record back to a group. `migrate`: to the consumer protocol and back.
//!
//! # Invariants
//! - A ticket is answered exactly once: by the call that brought it or by a later one, at the latest when its deadline or
//!   its record's fate is reported. Of two requests that wait for the same thing the older is answered first.
//! - A member that does not wait for an answer has a time by which it must be heard of.
//! - An assignment is answered only once the record that holds it is durable; so in one generation there is one assignment.
//! - No event costs more than a few walks over the members, and heartbeats and commits none.

mod config;
mod describe;
mod effects;
mod join;
mod leave;
mod load;
mod members;
mod memory;
mod migrate;
mod pending;
mod rebalance;
mod record;
mod request;
mod standing;
mod state;
mod static_member;
mod subscription;
mod sync;
#[cfg(test)]
mod tests;
mod timers;

use std::collections::{BTreeMap, HashSet};
use std::rc::Rc;

use strandline_wire::ErrorCode;

pub use config::ClassicConfig;
pub use describe::{GroupDescription, MemberDescription, OffsetExpiry};
pub use effects::{
    Answer, Effects, JoinAnswer, JoinedMember, LeaveAnswer, LeftMember, Persist, PersistId, SyncAnswer,
    Ticket, Transition,
};
pub use memory::Growth;
pub use migrate::MigratingMember;
pub use record::{GroupRecord, MemberRecord};
pub use request::{Identity, JoinRequest, LeavingMember, Protocol, SyncRequest};
pub use state::GroupState;

use members::Members;
use pending::PendingMembers;
use rebalance::{Cause, JoinPhase};
use static_member::Replacement;
use sync::Purpose;

/// A group of the classic protocol.
#[derive(Debug)]
pub struct ClassicGroup {
    config: Rc<ClassicConfig>,
    state: GroupState,
    previous_state: GroupState,
    state_since_ms: Option<i64>,
    generation: i32,
    protocol_type: Option<Rc<str>>,
    protocol_name: Option<Rc<str>>,
    /// `None` while they are not known.
    subscribed_topics: Option<HashSet<Rc<str>>>,
    subscribed_bytes: usize,
    members: Members,
    pending: PendingMembers,
    /// While the group is in PreparingRebalance.
    join_phase: Option<JoinPhase>,
    /// Until when all members have to send their SyncGroup; `None` once they have.
    sync_deadline_ms: Option<i64>,
    /// What waits for a record.
    persists: BTreeMap<PersistId, Purpose>,
    next_persist: u64,
    /// Static members that came back while a record was under way.
    unpersisted_replacements: Vec<Replacement>,
    has_record: bool,
}

impl ClassicGroup {
    /// A group without members, as the first JoinGroup or a commit from outside makes one.
    pub fn new(config: Rc<ClassicConfig>, now_ms: i64) -> Self {
        Self {
            config,
            state: GroupState::Empty,
            previous_state: GroupState::Dead,
            state_since_ms: Some(now_ms),
            generation: 0,
            protocol_type: None,
            protocol_name: None,
            subscribed_topics: None,
            subscribed_bytes: 0,
            members: Members::default(),
            pending: PendingMembers::default(),
            join_phase: None,
            sync_deadline_ms: None,
            persists: BTreeMap::new(),
            next_persist: 0,
            unpersisted_replacements: Vec::new(),
            has_record: false,
        }
    }

    /// The state.
    pub fn state(&self) -> GroupState {
        self.state
    }

    /// The generation: 0 before the first rebalance.
    pub fn generation(&self) -> i32 {
        self.generation
    }

    /// The kind of group; `None` for one that only commits offsets.
    pub fn protocol_type(&self) -> Option<&Rc<str>> {
        self.protocol_type.as_ref()
    }

    /// How many members it has.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether it has no members.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Whether nothing but offsets can keep it: no members, none that was told its id, no record whose fate is open.
    pub fn is_idle(&self) -> bool {
        let is_left = matches!(self.state, GroupState::Empty | GroupState::Dead);
        is_left && self.pending.is_empty() && self.persists.is_empty()
    }

    /// Whether a record of it may be in the offsets partition, so that dropping it takes a tombstone.
    pub fn has_record(&self) -> bool {
        self.has_record
    }

    /// Ends the group's life here: whoever waits is answered `error` (NOT_COORDINATOR when its partition moves away), and
    /// no record's fate matters any more.
    pub fn die(&mut self, error: ErrorCode, now_ms: i64, effects: &mut Effects) {
        for seat in self.members.all_seats() {
            self.answer_join_error(seat, error, effects);
            self.answer_sync_error(seat, error, effects);
        }
        for purpose in std::mem::take(&mut self.persists).into_values() {
            purpose.abandon(error, effects);
        }
        self.become_state(
            GroupState::Dead,
            now_ms,
            &Cause::plain("unloaded or deleted"),
            effects,
        );
        self.unpersisted_replacements.clear();
        self.members = Members::default();
        self.pending = PendingMembers::default();
        self.join_phase = None;
        self.sync_deadline_ms = None;
    }

    fn become_state(&mut self, next: GroupState, now_ms: i64, cause: &Cause, effects: &mut Effects) {
        let from = self.state;
        assert!(from.may_become(next), "a group goes from {from} to {next}");
        self.previous_state = from;
        self.state = next;
        self.state_since_ms = Some(now_ms);
        effects.transitions.push(Transition {
            from,
            to: next,
            generation: self.generation,
            reason: cause.to_string(),
        });
    }

    /// Checks what always holds.
    #[cfg(test)]
    pub(super) fn check(&self) {
        self.members.check();
        let preparing = self.state == GroupState::PreparingRebalance;
        assert_eq!(self.join_phase.is_some(), preparing);
        assert!(self.unpersisted_replacements.is_empty() || !self.persists.is_empty());
        assert!(self.sync_deadline_ms.is_none() || self.members.anyone_owes_sync());
        match self.state {
            GroupState::Empty | GroupState::Dead => assert!(self.members.is_empty()),
            GroupState::CompletingRebalance | GroupState::Stable => assert!(!self.members.is_empty()),
            GroupState::PreparingRebalance => {}
        }
    }
}
