//! A static member that comes back (KIP-345): it is known by its instance id, takes over the seat of the one before, and
//! if nothing changes for the others no rebalance happens.

use std::rc::Rc;

use strandline_wire::ErrorCode;

use super::ClassicGroup;
use super::effects::{Answer, Effects, Ticket};
use super::members::{Profile, Seat};
use super::rebalance::Cause;
use super::request::JoinRequest;
use super::state::GroupState;
use super::sync::Purpose;

/// A replaced static member whose new id is not durable yet.
#[derive(Debug)]
pub(super) struct Replacement {
    seat: Seat,
    old_id: Rc<str>,
    old_profile: Profile,
    /// The leader before, which an older client is told so that it does not think to lead.
    old_leader: Rc<str>,
    /// Whether the client understands that it leads but is not to assign (KIP-814).
    may_skip_assignment: bool,
}

impl ClassicGroup {
    /// A static member joins without its member id: it has restarted.
    pub(super) fn replace_static_member(
        &mut self,
        seat: Seat,
        new_id: Rc<str>,
        request: JoinRequest,
        ticket: Ticket,
        now_ms: i64,
        effects: &mut Effects,
    ) {
        // Whoever still waits with the old id is a duplicate.
        if let Some(old) = self.members.take_join(seat) {
            let old_id = self.members.get(seat).id.clone();
            effects.join_error(old, old_id, ErrorCode::FencedInstanceId);
        }
        self.answer_sync_error(seat, ErrorCode::FencedInstanceId, effects);
        self.forget_replacement(seat);

        let old_leader = self.members.leader_id().cloned().unwrap_or_default();
        let profile = request.profile();
        let Some((old_id, old_profile)) = self.members.replace(seat, new_id.clone(), profile) else {
            return;
        };
        self.members.await_join(seat, ticket);

        let cause = Cause::client("replaces a static member", new_id, request.reason.clone());
        if self.state != GroupState::Stable {
            // In CompletingRebalance the leader may already know the old id, and assign to it.
            self.rebalance_or_complete_join(&cause, now_ms, effects);
        } else if self.members.select_protocol() != self.protocol_name {
            self.rebalance_or_complete_join(&cause, now_ms, effects);
        } else {
            self.unpersisted_replacements.push(Replacement {
                seat,
                old_id,
                old_profile,
                old_leader,
                may_skip_assignment: request.may_skip_assignment(),
            });
            self.persist_replacements(effects);
        }
    }

    /// Has the new ids persisted, unless a record with others is under way: then one more record will tell of all that
    /// came back meanwhile. A record holds the whole group, and all the members of a large one may restart at once.
    pub(super) fn persist_replacements(&mut self, effects: &mut Effects) {
        let under_way = |purpose: &Purpose| matches!(purpose, Purpose::Replacements(_));
        if self.unpersisted_replacements.is_empty() || self.persists.values().any(under_way) {
            return;
        }
        let replacements = std::mem::take(&mut self.unpersisted_replacements);
        let record = self.current_record();
        self.persist(record, Purpose::Replacements(replacements), effects);
    }

    /// The member in a seat was replaced again, so what becomes of the replacement before does not matter.
    fn forget_replacement(&mut self, seat: Seat) {
        let under_way = self.persists.values_mut().filter_map(|purpose| match purpose {
            Purpose::Replacements(replacements) => Some(replacements),
            _ => None,
        });
        for replacements in under_way.chain([&mut self.unpersisted_replacements]) {
            replacements.retain(|of| of.seat != seat);
        }
    }

    /// The fate of a record with new ids is known.
    pub(super) fn replacements_persisted(
        &mut self,
        replacements: Vec<Replacement>,
        result: Result<(), ErrorCode>,
        now_ms: i64,
        effects: &mut Effects,
    ) {
        for of in replacements {
            match result {
                Ok(()) => self.finish_replacement(of, now_ms, effects),
                Err(error) => self.revert_replacement(of, error, now_ms, effects),
            }
        }
        self.persist_replacements(effects);
    }

    /// The new id is durable: the member goes on where the one before ended.
    fn finish_replacement(&mut self, of: Replacement, now_ms: i64, effects: &mut Effects) {
        let Some(ticket) = self.members.take_join(of.seat) else {
            return;
        };
        let is_leader = self.members.leader() == Some(of.seat);
        let mut answer = self.join_answer(of.seat, is_leader && of.may_skip_assignment);
        if of.may_skip_assignment {
            answer.skip_assignment = is_leader;
        } else {
            answer.leader = of.old_leader;
        }
        effects.answers.push((ticket, Answer::Join(answer)));
        self.members.renew_session(of.seat, now_ms);
    }

    /// The new id will not be durable: the one before is the member again.
    fn revert_replacement(&mut self, of: Replacement, error: ErrorCode, now_ms: i64, effects: &mut Effects) {
        self.members.replace(of.seat, of.old_id, of.old_profile);
        self.members.renew_session(of.seat, now_ms);
        self.answer_join_error(of.seat, error, effects);
    }
}
