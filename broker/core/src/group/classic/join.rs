//! JoinGroup.

use std::collections::HashSet;
use std::rc::Rc;

use bytes::Bytes;
use strandline_wire::ErrorCode;

use super::config::NEW_MEMBER_JOIN_TIMEOUT_MS;
use super::effects::{Answer, Effects, JoinAnswer, JoinedMember, Ticket};
use super::members::{Member, Profile, Seat};
use super::rebalance::Cause;
use super::request::{JoinRequest, Protocol};
use super::state::GroupState;
use super::{ClassicGroup, subscription};

impl JoinRequest {
    /// What the request says of the member, in memory of its own: the request may be much larger. Of protocols with one
    /// name the first counts.
    pub(super) fn profile(&self) -> Profile {
        let mut names = HashSet::with_capacity(self.protocols.len());
        let mut protocols = Vec::with_capacity(self.protocols.len());
        for protocol in &self.protocols {
            if names.insert(&*protocol.name) {
                protocols.push(Protocol {
                    name: protocol.name.clone(),
                    metadata: Bytes::copy_from_slice(&protocol.metadata),
                });
            }
        }
        Profile {
            client_id: self.client_id.clone(),
            client_host: self.client_host.clone(),
            session_timeout_ms: self.session_timeout_ms,
            rebalance_timeout_ms: self.effective_rebalance_timeout_ms(),
            protocols,
        }
    }
}

impl ClassicGroup {
    /// A member wants to be in the next generation. The answer may wait for others to join, for their timeouts, or for a
    /// record.
    pub fn join(&mut self, request: JoinRequest, ticket: Ticket, now_ms: i64, effects: &mut Effects) {
        let id = &request.member_id;
        if !self.has_room_for(id) {
            let refused = self.pending.remove(id) || self.drop_member(id, effects);
            effects.join_error(ticket, "".into(), ErrorCode::GroupMaxSizeReached);
            if refused {
                self.complete_join_if_all_joined(now_ms, effects);
            }
        } else if self.state == GroupState::Dead {
            effects.join_error(ticket, id.clone(), ErrorCode::CoordinatorNotAvailable);
        } else if !self.can_follow(&request) {
            effects.join_error(ticket, id.clone(), ErrorCode::InconsistentGroupProtocol);
        } else if id.is_empty() {
            self.join_new(request, ticket, now_ms, effects);
        } else if self.pending.contains(id) && request.instance_id.is_none() {
            let id = id.clone();
            self.add_member(id, request, ticket, now_ms, effects);
        } else {
            match self.members.validate(id, request.instance_id.as_deref()) {
                Ok(seat) => self.rejoin(seat, request, ticket, now_ms, effects),
                Err(error) => effects.join_error(ticket, id.clone(), error),
            }
        }
    }

    /// Whether `group.max.size` lets it in. While a rebalance is prepared those count that have rejoined: the last ones
    /// are left out, also when the size was lowered.
    fn has_room_for(&self, member_id: &str) -> bool {
        let member = self.members.seat_of(member_id);
        match self.state {
            GroupState::Empty | GroupState::Dead => true,
            GroupState::PreparingRebalance => {
                member.is_some_and(|seat| self.members.get(seat).awaits_join())
                    || self.members.awaiting_join() < self.config.size_max
            }
            GroupState::CompletingRebalance | GroupState::Stable => {
                member.is_some() || self.members.len() < self.config.size_max
            }
        }
    }

    /// Whether it is of the group's kind, and has a protocol that all members have.
    fn can_follow(&self, request: &JoinRequest) -> bool {
        if self.state == GroupState::Empty {
            !request.protocol_type.is_empty() && !request.protocols.is_empty()
        } else {
            self.protocol_type.as_ref() == Some(&request.protocol_type)
                && self.members.share_one_of(&request.protocols)
        }
    }

    fn join_new(&mut self, request: JoinRequest, ticket: Ticket, now_ms: i64, effects: &mut Effects) {
        let id = request.new_member_id();
        let instance = request.instance_id.as_deref();
        if let Some(seat) = instance.and_then(|instance| self.members.seat_of_instance(instance)) {
            self.replace_static_member(seat, id, request, ticket, now_ms, effects);
        } else if request.instance_id.is_none() && request.needs_member_id() {
            let expires_ms = now_ms.saturating_add(i64::from(request.session_timeout_ms));
            self.pending.insert(id.clone(), expires_ms);
            effects.join_error(ticket, id, ErrorCode::MemberIdRequired);
        } else {
            self.add_member(id, request, ticket, now_ms, effects);
        }
    }

    fn add_member(
        &mut self,
        id: Rc<str>,
        request: JoinRequest,
        ticket: Ticket,
        now_ms: i64,
        effects: &mut Effects,
    ) {
        let cause = Cause::client("joins as a new member", id.clone(), request.reason.clone());
        if let Some(initial) = self.join_phase.as_mut().and_then(|phase| phase.initial.as_mut()) {
            initial.someone_joined = true;
        }
        if self.members.is_empty() {
            self.protocol_type = Some(request.protocol_type.clone());
        }
        self.pending.remove(&id);
        let profile = request.profile();
        let mut member = Member::new(id, request.instance_id, profile, Bytes::new());
        member.is_new = true;
        let seat = self.members.insert(member);
        self.members.await_join(seat, ticket);
        let expires_ms = now_ms.saturating_add(NEW_MEMBER_JOIN_TIMEOUT_MS);
        self.members.set_expiration(seat, Some(expires_ms));
        self.rebalance_or_complete_join(&cause, now_ms, effects);
    }

    /// A member joins again, for one of many reasons: a rebalance, a lost answer, a new subscription, or as the leader
    /// because what it assigns has changed.
    fn rejoin(
        &mut self,
        seat: Seat,
        request: JoinRequest,
        ticket: Ticket,
        now_ms: i64,
        effects: &mut Effects,
    ) {
        let profile = request.profile();
        let is_leader = self.members.leader() == Some(seat);
        let changed = self.members.get(seat).profile.protocols != profile.protocols;
        let needs_rebalance = match self.state {
            GroupState::PreparingRebalance => true,
            GroupState::CompletingRebalance => changed,
            GroupState::Stable => changed || is_leader,
            GroupState::Empty | GroupState::Dead => false,
        };
        if !needs_rebalance {
            let with_members = is_leader && self.state == GroupState::CompletingRebalance;
            let answer = self.join_answer(seat, with_members);
            effects.answers.push((ticket, Answer::Join(answer)));
            return;
        }
        let what = if changed {
            "joins with other metadata"
        } else if is_leader {
            "joins again as the leader"
        } else {
            "joins again"
        };
        let cause = Cause::client(what, request.member_id, request.reason);
        self.members.update(seat, profile);
        self.await_join(seat, ticket, effects);
        self.rebalance_or_complete_join(&cause, now_ms, effects);
    }

    /// Lets a join wait. The one that it replaces comes from a connection that its client gave up.
    pub(super) fn await_join(&mut self, seat: Seat, ticket: Ticket, effects: &mut Effects) {
        if let Some(before) = self.members.await_join(seat, ticket) {
            let id = self.members.get(seat).id.clone();
            effects.join_error(before, id, ErrorCode::RebalanceInProgress);
        }
    }

    /// The answer that makes a member part of the current generation.
    pub(super) fn join_answer(&self, seat: Seat, with_members: bool) -> JoinAnswer {
        JoinAnswer {
            error: ErrorCode::None,
            generation: self.generation,
            protocol_type: self.protocol_type.clone(),
            protocol_name: self.protocol_name.clone(),
            leader: self.members.leader_id().cloned().unwrap_or_default(),
            skip_assignment: false,
            member_id: self.members.get(seat).id.clone(),
            members: if with_members {
                self.joined_members()
            } else {
                Vec::new()
            },
        }
    }

    fn joined_members(&self) -> Vec<JoinedMember> {
        let protocol = self.protocol_name.as_deref().unwrap_or_default();
        let members = self.members.iter().map(|(_, member)| JoinedMember {
            member_id: member.id.clone(),
            instance_id: member.instance_id.clone(),
            metadata: member.metadata(protocol),
        });
        members.collect()
    }

    /// Answers a waiting join with an error, if one waits. The member is told no id: it starts anew.
    pub(super) fn answer_join_error(&mut self, seat: Seat, error: ErrorCode, effects: &mut Effects) {
        if let Some(ticket) = self.members.take_join(seat) {
            effects.join_error(ticket, "".into(), error);
        }
    }

    /// Takes a member out, whatever waits for it answered; whether it was one.
    pub(super) fn drop_member(&mut self, member_id: &str, effects: &mut Effects) -> bool {
        let seat = self.members.seat_of(member_id);
        seat.inspect(|&seat| self.drop_seat(seat, effects)).is_some()
    }

    pub(super) fn drop_seat(&mut self, seat: Seat, effects: &mut Effects) {
        self.answer_join_error(seat, ErrorCode::UnknownMemberId, effects);
        self.answer_sync_error(seat, ErrorCode::UnknownMemberId, effects);
        self.members.remove(seat);
    }

    pub(super) fn uses_consumer_protocol(&self) -> bool {
        self.protocol_type.as_deref() == Some(subscription::CONSUMER)
    }
}

impl Effects {
    pub(super) fn join_error(&mut self, ticket: Ticket, member_id: Rc<str>, error: ErrorCode) {
        let answer = JoinAnswer::error(member_id, error);
        self.answers.push((ticket, Answer::Join(answer)));
    }
}
