//! One member's next step towards its target (KIP-848, "Reconciliation of the group").
//!
//! First the member is told to give up what is not in its target, at its old epoch; once its owned partitions show that
//! it did, it moves to the target's epoch and gets those new partitions that nobody else owns; the others it gets when
//! their owners let go of them.

use strandline_wire::Uuid;

use super::assignment::Assignment;
use super::record::{CurrentAssignment, MemberState};

/// What a member's next step depends on.
pub(super) struct Reconciliation<'a> {
    /// Where it stands.
    pub(super) current: &'a CurrentAssignment,
    /// The epoch of the target assignment.
    pub(super) target_epoch: i32,
    /// Its target.
    pub(super) target: &'a Assignment,
    /// Whether this heartbeat changed its subscription.
    pub(super) subscription_changed: bool,
    /// What it says it owns, if it says.
    pub(super) owned: Option<&'a Assignment>,
    /// Whether it subscribes to a topic that exists.
    pub(super) subscribes: &'a dyn Fn(Uuid) -> bool,
    /// Whether another member owns a partition.
    pub(super) is_taken: &'a dyn Fn(Uuid, i32) -> bool,
}

impl Reconciliation<'_> {
    /// Where the member stands then; the same as before if it cannot move.
    pub(super) fn step(&self) -> CurrentAssignment {
        let current = self.current;
        match current.state {
            MemberState::Stable if current.epoch != self.target_epoch => self.next(current.epoch),
            MemberState::UnrevokedPartitions if !self.owns_any(&current.pending_revocation) => {
                self.next(current.epoch)
            }
            MemberState::Stable | MemberState::UnrevokedPartitions if self.subscription_changed => {
                self.without_unsubscribed()
            }
            MemberState::Stable | MemberState::UnrevokedPartitions => current.clone(),
            MemberState::UnreleasedPartitions => self.next(current.epoch),
            MemberState::Unknown(_) => self.next(self.target_epoch),
        }
    }

    /// Whether the member still owns one of `partitions`, as far as it says. Silence means that it does.
    fn owns_any(&self, partitions: &Assignment) -> bool {
        self.owned.is_none_or(|owned| owned.intersects(partitions))
    }

    fn next(&self, epoch: i32) -> CurrentAssignment {
        let current = self.current;
        let target = self.target.filtered(|topic, _| (self.subscribes)(topic));
        let mut assigned = current
            .assigned
            .filtered(|topic, partition| target.contains(topic, partition));
        let revoked = current
            .assigned
            .filtered(|topic, partition| !target.contains(topic, partition));
        if !revoked.is_empty() && self.owns_any(&revoked) {
            return CurrentAssignment {
                epoch,
                previous_epoch: current.epoch,
                state: MemberState::UnrevokedPartitions,
                assigned,
                pending_revocation: revoked,
            };
        }
        let mut waits = false;
        for (topic, partition) in target.iter() {
            if assigned.contains(topic, partition) {
                continue;
            }
            if (self.is_taken)(topic, partition) {
                waits = true;
            } else {
                assigned.insert(topic, partition);
            }
        }
        CurrentAssignment {
            epoch: self.target_epoch,
            previous_epoch: current.epoch,
            state: if waits {
                MemberState::UnreleasedPartitions
            } else {
                MemberState::Stable
            },
            assigned,
            pending_revocation: Assignment::default(),
        }
    }

    /// Gives up the topics that the member no longer subscribes to, without looking at the target.
    fn without_unsubscribed(&self) -> CurrentAssignment {
        let current = self.current;
        let assigned = current.assigned.filtered(|topic, _| (self.subscribes)(topic));
        if assigned == current.assigned {
            return current.clone();
        }
        let mut pending_revocation = current.pending_revocation.clone();
        for (topic, partition) in current.assigned.iter() {
            if !assigned.contains(topic, partition) {
                pending_revocation.insert(topic, partition);
            }
        }
        let mut next = CurrentAssignment {
            previous_epoch: current.epoch,
            assigned,
            ..current.clone()
        };
        if self.owns_any(&pending_revocation) {
            next.state = MemberState::UnrevokedPartitions;
            next.pending_revocation = pending_revocation;
        }
        next
    }
}
