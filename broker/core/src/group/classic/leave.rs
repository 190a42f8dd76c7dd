//! LeaveGroup: members that go by themselves, or are removed by an operator.

use strandline_wire::ErrorCode;

use super::ClassicGroup;
use super::effects::{Answer, Effects, LeaveAnswer, LeftMember, PersistId, Ticket};
use super::rebalance::Cause;
use super::request::LeavingMember;
use super::state::GroupState;
use super::sync::Purpose;

impl ClassicGroup {
    /// Members leave, several at once since KIP-345. The answer waits for the record if the group is empty then.
    pub fn leave(&mut self, leaving: Vec<LeavingMember>, ticket: Ticket, now_ms: i64, effects: &mut Effects) {
        if self.state == GroupState::Dead {
            return effects.leave_error(ticket, ErrorCode::CoordinatorNotAvailable);
        }
        let mut cause = None;
        let mut members = Vec::with_capacity(leaving.len());
        for member in leaving {
            let error = self.remove_leaving(&member, effects).err();
            if error.is_none() && cause.is_none() {
                let who = member
                    .instance_id
                    .as_ref()
                    .filter(|_| member.member_id.is_empty());
                let who = who.unwrap_or(&member.member_id).clone();
                cause = Some(Cause::client("leaves", who, member.reason));
            }
            members.push(LeftMember {
                member_id: member.member_id,
                instance_id: member.instance_id,
                error: error.unwrap_or(ErrorCode::None),
            });
        }
        let answer = LeaveAnswer {
            error: ErrorCode::None,
            members,
        };

        let first_persist = PersistId(self.next_persist);
        if let Some(cause) = cause
            && self.state != GroupState::Empty
        {
            self.rebalance_or_complete_join(&cause, now_ms, effects);
        }
        for purpose in self
            .persists
            .range_mut(first_persist..)
            .map(|(_, purpose)| purpose)
        {
            if let Purpose::Empty { leave } = purpose {
                *leave = Some((ticket, answer));
                return;
            }
        }
        effects.answers.push((ticket, Answer::Leave(answer)));
    }

    fn remove_leaving(&mut self, leaving: &LeavingMember, effects: &mut Effects) -> Result<(), ErrorCode> {
        let instance = leaving.instance_id.as_deref();
        if leaving.member_id.is_empty() {
            // By its instance id alone an operator removes a static member.
            let seat = instance.and_then(|instance| self.members.seat_of_instance(instance));
            self.drop_seat(seat.ok_or(ErrorCode::UnknownMemberId)?, effects);
        } else if !self.pending.remove(&leaving.member_id) {
            let seat = self.members.validate(&leaving.member_id, instance)?;
            self.drop_seat(seat, effects);
        }
        Ok(())
    }
}

impl Effects {
    pub(super) fn leave_error(&mut self, ticket: Ticket, error: ErrorCode) {
        let answer = LeaveAnswer {
            error,
            members: Vec::new(),
        };
        self.answers.push((ticket, Answer::Leave(answer)));
    }
}
