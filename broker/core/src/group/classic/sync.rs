//! SyncGroup, and what becomes of a group's records.

use std::collections::BTreeMap;
use std::rc::Rc;

use bytes::Bytes;
use strandline_wire::ErrorCode;

use super::super::code_of_failed_append;
use super::ClassicGroup;
use super::effects::{Answer, Effects, LeaveAnswer, Persist, PersistId, SyncAnswer, Ticket};
use super::members::{Member, Seat};
use super::rebalance::Cause;
use super::record::{GroupRecord, MemberRecord};
use super::request::SyncRequest;
use super::state::GroupState;
use super::static_member::Replacement;

/// What waits for a record to be durable.
#[derive(Debug)]
pub(super) enum Purpose {
    /// The assignment of the current generation.
    Assignment(BTreeMap<Seat, Bytes>),
    /// Static members' new ids.
    Replacements(Vec<Replacement>),
    /// That the group is empty, and the LeaveGroup that made it so.
    Empty { leave: Option<(Ticket, LeaveAnswer)> },
}

impl Purpose {
    /// The group ends before the record's fate is known.
    pub(super) fn abandon(self, error: ErrorCode, effects: &mut Effects) {
        if let Self::Empty {
            leave: Some((ticket, _)),
        } = self
        {
            effects.leave_error(ticket, error);
        }
    }
}

impl ClassicGroup {
    /// A member asks for its assignment, the leader bringing everyone's. The answers wait for the leader, and then until
    /// the record with the assignment is durable.
    pub fn sync(&mut self, request: SyncRequest, ticket: Ticket, now_ms: i64, effects: &mut Effects) {
        let seat = match self.validate_sync(&request) {
            Ok(seat) => seat,
            Err(error) => return effects.sync(ticket, SyncAnswer::error(error)),
        };
        self.members.set_owes_sync(seat, false);
        if !self.members.anyone_owes_sync() {
            self.sync_deadline_ms = None;
        }
        if self.state == GroupState::Stable {
            self.members.renew_session(seat, now_ms);
            let answer = self.sync_answer(self.members.get(seat).assignment().clone());
            return effects.sync(ticket, answer);
        }
        // The one that it replaces comes from a connection that its client gave up.
        if let Some(before) = self.members.await_sync(seat, ticket) {
            effects.sync(before, SyncAnswer::error(ErrorCode::RebalanceInProgress));
        }
        if self.members.leader() == Some(seat) {
            self.persist_assignment(request.assignments, effects);
        }
    }

    /// The seat of who may sync now.
    fn validate_sync(&self, request: &SyncRequest) -> Result<Seat, ErrorCode> {
        if request.lacks_protocol() {
            return Err(ErrorCode::InconsistentGroupProtocol);
        }
        let seat = self.validate_in_generation(&request.identity)?;
        let differs = |named: &Option<Rc<str>>, own: &Option<Rc<str>>| {
            named.is_some() && named.as_deref() != own.as_deref()
        };
        if differs(&request.protocol_type, &self.protocol_type)
            || differs(&request.protocol_name, &self.protocol_name)
        {
            return Err(ErrorCode::InconsistentGroupProtocol);
        }
        if self.state == GroupState::PreparingRebalance {
            return Err(ErrorCode::RebalanceInProgress);
        }
        Ok(seat)
    }

    /// Has the leader's assignment persisted; one of this generation that is under way stands.
    fn persist_assignment(&mut self, assignments: Vec<(Rc<str>, Bytes)>, effects: &mut Effects) {
        let under_way = |purpose: &Purpose| matches!(purpose, Purpose::Assignment(_));
        if self.persists.values().any(under_way) {
            return;
        }
        // In memory of their own, as the request may be much larger; those of strangers are nobody's.
        let to_members = assignments.into_iter().filter_map(|(id, assignment)| {
            let seat = self.members.seat_of(&id)?;
            Some((seat, Bytes::copy_from_slice(&assignment)))
        });
        let assignments: BTreeMap<Seat, Bytes> = to_members.collect();
        let record = self.record(|seat, _| assignments.get(&seat).cloned().unwrap_or_default());
        self.persist(record, Purpose::Assignment(assignments), effects);
    }

    /// A record is durable, or never will be: `result` has the error of the append then.
    pub fn persisted(
        &mut self,
        id: PersistId,
        result: Result<(), ErrorCode>,
        now_ms: i64,
        effects: &mut Effects,
    ) {
        // None where the group has moved on meanwhile.
        let Some(purpose) = self.persists.remove(&id) else {
            return;
        };
        match (purpose, result.map_err(code_of_failed_append)) {
            (Purpose::Assignment(assignments), Ok(())) => self.stabilize(assignments, now_ms, effects),
            (Purpose::Assignment(_), Err(error)) => {
                self.fail_syncs(error, now_ms, effects);
                let cause = Cause::plain("the assignment could not be persisted");
                self.rebalance_or_complete_join(&cause, now_ms, effects);
            }
            (Purpose::Replacements(replacements), result) => {
                self.replacements_persisted(replacements, result, now_ms, effects);
            }
            (Purpose::Empty { leave: None }, _) => {}
            (
                Purpose::Empty {
                    leave: Some((ticket, answer)),
                },
                Ok(()),
            ) => effects.answers.push((ticket, Answer::Leave(answer))),
            (
                Purpose::Empty {
                    leave: Some((ticket, _)),
                },
                Err(error),
            ) => effects.leave_error(ticket, error),
        }
    }

    /// The assignment is durable: all who wait for it get it.
    fn stabilize(&mut self, mut assignments: BTreeMap<Seat, Bytes>, now_ms: i64, effects: &mut Effects) {
        let cause = Cause::plain("the assignment is durable");
        self.become_state(GroupState::Stable, now_ms, &cause, effects);
        for seat in self.members.all_seats() {
            let assignment = assignments.remove(&seat).unwrap_or_default();
            self.members.assign(seat, assignment.clone());
            if let Some(ticket) = self.members.take_sync(seat) {
                effects.sync(ticket, self.sync_answer(assignment));
                self.members.renew_session(seat, now_ms);
            }
        }
    }

    /// There will be no assignment in this generation: all who wait for it learn so.
    pub(super) fn fail_syncs(&mut self, error: ErrorCode, now_ms: i64, effects: &mut Effects) {
        for seat in self.members.all_seats() {
            self.members.assign(seat, Bytes::new());
            if self.answer_sync_error(seat, error, effects) {
                self.members.renew_session(seat, now_ms);
            }
        }
    }

    /// Answers a waiting sync with an error; whether one waited.
    pub(super) fn answer_sync_error(&mut self, seat: Seat, error: ErrorCode, effects: &mut Effects) -> bool {
        let ticket = self.members.take_sync(seat);
        ticket
            .inspect(|&ticket| effects.sync(ticket, SyncAnswer::error(error)))
            .is_some()
    }

    fn sync_answer(&self, assignment: Bytes) -> SyncAnswer {
        SyncAnswer {
            error: ErrorCode::None,
            protocol_type: self.protocol_type.clone(),
            protocol_name: self.protocol_name.clone(),
            assignment,
        }
    }

    /// The group's record as of now, with the given assignments.
    fn record(&self, assignment: impl Fn(Seat, &Member) -> Bytes) -> GroupRecord {
        let protocol = self.protocol_name.as_deref().unwrap_or_default();
        let members = self.members.iter().map(|(seat, member)| MemberRecord {
            member_id: member.id.clone(),
            instance_id: member.instance_id.clone(),
            client_id: member.profile.client_id.clone(),
            client_host: member.profile.client_host.clone(),
            rebalance_timeout_ms: member.profile.rebalance_timeout_ms,
            session_timeout_ms: member.profile.session_timeout_ms,
            subscription: member.metadata(protocol),
            assignment: assignment(seat, member),
        });
        GroupRecord {
            protocol_type: self.protocol_type.clone(),
            generation: self.generation,
            protocol_name: self.protocol_name.clone(),
            leader: self.members.leader_id().cloned(),
            state_since_ms: self.state_since_ms,
            members: members.collect(),
        }
    }

    /// The group's record as of now, with the assignments that members have.
    pub(super) fn current_record(&self) -> GroupRecord {
        self.record(|_, member| member.assignment().clone())
    }

    pub(super) fn persist(&mut self, record: GroupRecord, purpose: Purpose, effects: &mut Effects) {
        let id = PersistId(self.next_persist);
        self.next_persist += 1;
        self.has_record = true;
        self.persists.insert(id, purpose);
        effects.persists.push(Persist { id, record });
    }
}

impl Effects {
    pub(super) fn sync(&mut self, ticket: Ticket, answer: SyncAnswer) {
        self.answers.push((ticket, Answer::Sync(answer)));
    }
}
