//! Who is a member, in which generation, and what that allows: heartbeats, commits, deletions.

use strandline_wire::ErrorCode;

use super::ClassicGroup;
use super::members::Seat;
use super::request::Identity;
use super::state::GroupState;

impl ClassicGroup {
    /// A member lives. The answer: NONE, REBALANCE_IN_PROGRESS if it has to rejoin, or why it is none.
    pub fn heartbeat(&mut self, identity: &Identity, now_ms: i64) -> ErrorCode {
        match self.validate_in_generation(identity) {
            Err(error) => error,
            Ok(seat) => {
                self.members.renew_session(seat, now_ms);
                if self.state == GroupState::PreparingRebalance {
                    ErrorCode::RebalanceInProgress
                } else {
                    ErrorCode::None
                }
            }
        }
    }

    /// Whether offsets may be committed now. A member's commit is a sign of life, too.
    ///
    /// # Errors
    /// UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION: it is no member, or no longer. REBALANCE_IN_PROGRESS
    /// while assignments are awaited. COORDINATOR_NOT_AVAILABLE for a dead group.
    pub fn commit(
        &mut self,
        identity: &Identity,
        is_transactional: bool,
        now_ms: i64,
    ) -> Result<(), ErrorCode> {
        if self.state == GroupState::Dead {
            return Err(ErrorCode::CoordinatorNotAvailable);
        }
        if identity.generation < 0 && self.state == GroupState::Empty {
            // From outside: an operator, or a consumer that assigns partitions to itself.
            return Ok(());
        }
        let claims_membership =
            identity.generation >= 0 || !identity.member_id.is_empty() || identity.instance_id.is_some();
        let seat = if claims_membership {
            Some(self.validate_in_generation(identity)?)
        } else if is_transactional || self.state == GroupState::Empty {
            // Before KIP-447 transactional commits did not say who sends them.
            None
        } else {
            return Err(ErrorCode::UnknownMemberId);
        };
        if is_transactional {
            return Ok(());
        }
        if self.state == GroupState::CompletingRebalance {
            return Err(ErrorCode::RebalanceInProgress);
        }
        if let Some(seat) = seat {
            self.members.renew_session(seat, now_ms);
        }
        Ok(())
    }

    /// Whether offsets may be deleted; those of topics that it [is subscribed to](Self::is_subscribed_to) may not
    /// (GROUP_SUBSCRIBED_TO_TOPIC).
    ///
    /// # Errors
    /// NON_EMPTY_GROUP if others than consumers are in the group, GROUP_ID_NOT_FOUND for a dead group.
    pub fn validate_offset_delete(&self) -> Result<(), ErrorCode> {
        match self.state {
            GroupState::Dead => Err(ErrorCode::GroupIdNotFound),
            GroupState::Empty => Ok(()),
            _ if self.uses_consumer_protocol() => Ok(()),
            _ => Err(ErrorCode::NonEmptyGroup),
        }
    }

    /// Whether the group may be deleted.
    ///
    /// # Errors
    /// NON_EMPTY_GROUP, or GROUP_ID_NOT_FOUND for a dead group.
    pub fn validate_delete(&self) -> Result<(), ErrorCode> {
        match self.state {
            GroupState::Dead => Err(ErrorCode::GroupIdNotFound),
            GroupState::Empty => Ok(()),
            _ => Err(ErrorCode::NonEmptyGroup),
        }
    }

    /// The seat of a member of the current generation.
    pub(super) fn validate_in_generation(&self, identity: &Identity) -> Result<Seat, ErrorCode> {
        if self.state == GroupState::Dead {
            return Err(ErrorCode::CoordinatorNotAvailable);
        }
        let instance = identity.instance_id.as_deref();
        let seat = self.members.validate(&identity.member_id, instance)?;
        if identity.generation != self.generation {
            return Err(ErrorCode::IllegalGeneration);
        }
        Ok(seat)
    }
}
