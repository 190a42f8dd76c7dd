//! What happens by itself as time passes.

use super::ClassicGroup;
use super::effects::Effects;
use super::members::Seat;
use super::rebalance::Cause;

/// What a group waits for with a deadline. Of those due at the same time the first in this order comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    /// Members to join.
    Join,
    /// Members to sync.
    Sync,
    /// A member that was told its id to join with it.
    Pending,
    /// A member to be heard of.
    Session(Seat),
}

impl ClassicGroup {
    /// When [`Self::tick`] is due, in milliseconds since 1970; `None` if nothing happens by itself.
    pub fn deadline_ms(&self) -> Option<i64> {
        self.next_timer().map(|(deadline_ms, _)| deadline_ms)
    }

    fn next_timer(&self) -> Option<(i64, Timer)> {
        let join = self
            .join_phase
            .as_ref()
            .map(|phase| (phase.deadline_ms, Timer::Join));
        let sync = self.sync_deadline_ms.map(|deadline| (deadline, Timer::Sync));
        let pending = self.pending.first_expiration();
        let pending = pending.map(|(deadline, _)| (deadline, Timer::Pending));
        let session = self.members.first_expiration();
        let session = session.map(|(deadline, seat)| (deadline, Timer::Session(seat)));
        [join, sync, pending, session].into_iter().flatten().min()
    }

    /// Time has passed: does what is due, in the order in which it fell due.
    pub fn tick(&mut self, now_ms: i64, effects: &mut Effects) {
        while let Some((deadline_ms, timer)) = self.next_timer() {
            if deadline_ms > now_ms {
                return;
            }
            match timer {
                Timer::Join => self.join_deadline(now_ms, effects),
                Timer::Sync => self.sync_deadline(now_ms, effects),
                Timer::Pending => self.expire_pending(now_ms, effects),
                Timer::Session(seat) => self.expire_session(seat, now_ms, effects),
            }
        }
    }

    /// Members that have not sent their SyncGroup in time are out.
    fn sync_deadline(&mut self, now_ms: i64, effects: &mut Effects) {
        for seat in self.members.who_owes_sync() {
            self.drop_seat(seat, effects);
        }
        self.sync_deadline_ms = None;
        let cause = Cause::plain("members did not sync in time");
        self.rebalance_or_complete_join(&cause, now_ms, effects);
    }

    fn expire_pending(&mut self, now_ms: i64, effects: &mut Effects) {
        if let Some((_, member_id)) = self.pending.first_expiration() {
            self.pending.remove(&member_id);
            self.complete_join_if_all_joined(now_ms, effects);
        }
    }

    fn expire_session(&mut self, seat: Seat, now_ms: i64, effects: &mut Effects) {
        let member = self.members.get(seat);
        if member.may_be_silent() {
            // It gets a session again with its answer.
            return self.members.set_expiration(seat, None);
        }
        let cause = Cause::client("has not been heard of", member.id.clone(), None);
        self.drop_seat(seat, effects);
        self.rebalance_or_complete_join(&cause, now_ms, effects);
    }
}
