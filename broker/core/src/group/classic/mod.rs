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
//! ```ignore
//! impl ClassicGroup {
//!     fn new(config: Rc<ClassicConfig>, now_ms: i64) -> Self;
//!     fn load(config: Rc<ClassicConfig>, record: &GroupRecord, now_ms: i64, effects: &mut Effects) -> Self;
//!     fn join(&mut self, request: JoinRequest, ticket: Ticket, now_ms: i64, effects: &mut Effects);
//!     fn sync(&mut self, request: SyncRequest, ticket: Ticket, now_ms: i64, effects: &mut Effects);
//!     fn leave(&mut self, members: Vec<LeavingMember>, ticket: Ticket, now_ms: i64, effects: &mut Effects);
//!     fn heartbeat(&mut self, identity: &Identity, now_ms: i64) -> ErrorCode;
//!     fn commit(&mut self, identity: &Identity, is_transactional: bool, now_ms: i64) -> Result<(), ErrorCode>;
//!     fn tick(&mut self, now_ms: i64, effects: &mut Effects);
//!     fn deadline_ms(&self) -> Option<i64>;
//!     fn persisted(&mut self, id: PersistId, result: Result<(), ErrorCode>, now_ms: i64, effects: &mut Effects);
//!     fn die(&mut self, error: ErrorCode, now_ms: i64, effects: &mut Effects);
//!     fn describe(&self) -> GroupDescription;
//!     fn validate_offset_delete(&self) -> Result<(), ErrorCode>;
//!     fn validate_delete(&self) -> Result<(), ErrorCode>;
//!     fn is_subscribed_to(&self, topic: &str) -> bool;
//!     fn offset_expiry(&self) -> OffsetExpiry;
//!     fn state(&self) -> GroupState;
//!     fn protocol_type(&self) -> Option<&Rc<str>>;
//!     fn is_idle(&self) -> bool;
//!     fn has_record(&self) -> bool;
//! }
//! ```
#![allow(dead_code)]

mod config;
mod describe;
mod effects;
mod record;
mod request;
mod state;

pub use config::ClassicConfig;
pub use describe::{GroupDescription, MemberDescription, OffsetExpiry};
pub use effects::{
    Answer, Effects, JoinAnswer, JoinedMember, LeaveAnswer, LeftMember, Persist, PersistId, SyncAnswer,
    Ticket, Transition,
};
pub use record::{GroupRecord, MemberRecord};
pub use request::{Identity, JoinRequest, LeavingMember, Protocol, SyncRequest};
pub use state::GroupState;

/// A group of the classic protocol.
#[derive(Debug)]
pub struct ClassicGroup {
    state: GroupState,
}
