//! From one generation to the next: ask all to rejoin, wait, count who came.

use std::fmt;
use std::rc::Rc;

use strandline_wire::ErrorCode;

use super::effects::{Answer, Effects};
use super::state::GroupState;
use super::sync::Purpose;
use super::{ClassicGroup, memory, subscription};

/// The least time until a rebalance that nobody has joined is looked at again: members may have a rebalance timeout of a
/// millisecond, and the group would be busy with itself until their sessions end.
const REJOIN_WAIT_MIN_MS: i64 = 1_000;
/// How much of a client's own reason is kept, in characters (KIP-800).
const REASON_CHARS_MAX: usize = 255;

/// A rebalance that is being prepared.
#[derive(Debug)]
pub(super) struct JoinPhase {
    /// When it goes on without those that have not joined.
    pub(super) deadline_ms: i64,
    /// For the first rebalance of an empty group.
    pub(super) initial: Option<InitialDelay>,
}

/// The first rebalance of an empty group waits for more members, and longer while they keep coming.
#[derive(Debug)]
pub(super) struct InitialDelay {
    /// The current wait.
    delay_ms: i64,
    /// What is left of the rebalance timeout after the current wait.
    remaining_ms: i64,
    /// Whether another member has joined during the current wait.
    pub(super) someone_joined: bool,
}

/// Why a group changes its state.
#[derive(Debug)]
pub(super) struct Cause {
    what: &'static str,
    member_id: Option<Rc<str>>,
    client_reason: Option<Rc<str>>,
}

impl Cause {
    pub(super) fn plain(what: &'static str) -> Self {
        Self {
            what,
            member_id: None,
            client_reason: None,
        }
    }

    pub(super) fn client(what: &'static str, member_id: Rc<str>, client_reason: Option<Rc<str>>) -> Self {
        Self {
            what,
            member_id: Some(member_id),
            client_reason: client_reason.filter(|reason| !reason.is_empty()),
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(member_id) = &self.member_id {
            write!(out, "{member_id} ")?;
        }
        out.write_str(self.what)?;
        if let Some(reason) = &self.client_reason {
            let end = reason.char_indices().nth(REASON_CHARS_MAX);
            let end = end.map_or(reason.len(), |(end, _)| end);
            write!(out, "; client reason: {}", &reason[..end])?;
        }
        Ok(())
    }
}

impl ClassicGroup {
    /// Starts a rebalance, or if one is being prepared looks whether that was the last one to join.
    pub(super) fn rebalance_or_complete_join(&mut self, cause: &Cause, now_ms: i64, effects: &mut Effects) {
        if self.state.may_rebalance() {
            self.prepare_rebalance(cause, now_ms, effects);
        } else if self.previous_state != GroupState::Empty {
            // The first rebalance waits for its delay, whoever has joined.
            self.complete_join_if_all_joined(now_ms, effects);
        }
    }

    pub(super) fn complete_join_if_all_joined(&mut self, now_ms: i64, effects: &mut Effects) {
        if self.state == GroupState::PreparingRebalance && self.all_joined() {
            self.complete_join(now_ms, effects);
        }
    }

    fn all_joined(&self) -> bool {
        self.members.awaiting_join() == self.members.len() && self.pending.is_empty()
    }

    /// Asks all members to rejoin. Those that wait for their assignment learn of it at once, the others by their
    /// heartbeats.
    pub(super) fn prepare_rebalance(&mut self, cause: &Cause, now_ms: i64, effects: &mut Effects) {
        if self.state == GroupState::CompletingRebalance {
            self.fail_syncs(ErrorCode::RebalanceInProgress, now_ms, effects);
        }
        self.sync_deadline_ms = None;
        // Their records will be followed by another. The join of a replaced static member is now one of this rebalance.
        self.persists
            .retain(|_, purpose| matches!(purpose, Purpose::Empty { .. }));
        self.unpersisted_replacements.clear();

        let is_initial = self.state == GroupState::Empty;
        self.become_state(GroupState::PreparingRebalance, now_ms, cause, effects);
        let timeout_ms = self.members.rebalance_timeout_ms();
        if is_initial {
            let delay_ms = i64::from(self.config.initial_rebalance_delay_ms.max(0));
            self.join_phase = Some(JoinPhase {
                deadline_ms: now_ms.saturating_add(delay_ms),
                initial: Some(InitialDelay {
                    delay_ms,
                    remaining_ms: (timeout_ms - delay_ms).max(0),
                    someone_joined: false,
                }),
            });
            if delay_ms == 0 {
                self.complete_join(now_ms, effects);
            }
        } else {
            self.join_phase = Some(JoinPhase {
                deadline_ms: now_ms.saturating_add(timeout_ms),
                initial: None,
            });
            // Without members nobody is waited for, whoever was told an id.
            if self.members.is_empty() || self.all_joined() {
                self.complete_join(now_ms, effects);
            }
        }
    }

    /// The wait for members to join is over, unless others joined an empty group during it.
    pub(super) fn join_deadline(&mut self, now_ms: i64, effects: &mut Effects) {
        let longest_delay_ms = i64::from(self.config.initial_rebalance_delay_ms.max(0));
        if let Some(phase) = &mut self.join_phase
            && let Some(initial) = &mut phase.initial
            && initial.someone_joined
            && initial.remaining_ms > 0
        {
            let passed_ms = initial.delay_ms;
            *initial = InitialDelay {
                delay_ms: longest_delay_ms.min(initial.remaining_ms),
                remaining_ms: (initial.remaining_ms - passed_ms).max(0),
                someone_joined: false,
            };
            phase.deadline_ms = now_ms.saturating_add(initial.delay_ms);
            return;
        }
        self.complete_join(now_ms, effects);
    }

    /// Begins the next generation with those that have joined. Static members keep their seats until their sessions
    /// expire (KIP-345); the others that have not joined are out.
    fn complete_join(&mut self, now_ms: i64, effects: &mut Effects) {
        if self.members.awaiting_join() < self.members.len() {
            let absent = self
                .members
                .iter()
                .filter(|(_, member)| !member.awaits_join() && member.instance_id.is_none());
            let absent: Vec<_> = absent.map(|(seat, _)| seat).collect();
            absent.into_iter().for_each(|seat| self.drop_seat(seat, effects));
        }
        if !self.members.elect_joined_leader() && !self.members.is_empty() {
            let wait_ms = self.members.rebalance_timeout_ms().max(REJOIN_WAIT_MIN_MS);
            self.join_phase = Some(JoinPhase {
                deadline_ms: now_ms.saturating_add(wait_ms),
                initial: None,
            });
            return;
        }
        self.join_phase = None;
        // After two thousand million rebalances: again from the start.
        self.generation = self.generation.checked_add(1).unwrap_or(1);
        self.protocol_name = self.members.select_protocol();
        self.learn_subscribed_topics();
        if self.members.is_empty() {
            self.become_empty(now_ms, effects);
        } else {
            self.begin_generation(now_ms, effects);
        }
    }

    fn become_empty(&mut self, now_ms: i64, effects: &mut Effects) {
        let cause = Cause::plain("the last member is gone");
        self.become_state(GroupState::Empty, now_ms, &cause, effects);
        let record = self.current_record();
        self.persist(record, Purpose::Empty { leave: None }, effects);
    }

    fn begin_generation(&mut self, now_ms: i64, effects: &mut Effects) {
        let cause = Cause::plain("the members have joined");
        self.become_state(GroupState::CompletingRebalance, now_ms, &cause, effects);
        let leader = self.members.leader();
        for seat in self.members.all_seats() {
            if let Some(ticket) = self.members.take_join(seat) {
                let answer = self.join_answer(seat, leader == Some(seat));
                effects.answers.push((ticket, Answer::Join(answer)));
            }
            self.members.set_established(seat);
            self.members.renew_session(seat, now_ms);
            self.members.set_owes_sync(seat, true);
        }
        let timeout_ms = self.members.rebalance_timeout_ms();
        self.sync_deadline_ms = Some(now_ms.saturating_add(timeout_ms));
    }

    /// Learns what the members of this generation are subscribed to.
    pub(super) fn learn_subscribed_topics(&mut self) {
        self.subscribed_topics = self.read_subscribed_topics();
        self.subscribed_bytes = memory::of_topics(self.subscribed_topics.as_ref());
    }

    fn read_subscribed_topics(&self) -> Option<std::collections::HashSet<Rc<str>>> {
        if !self.uses_consumer_protocol() {
            return None;
        }
        let protocol = self.protocol_name.as_deref().unwrap_or_default();
        let subscriptions: Vec<_> = self
            .members
            .iter()
            .map(|(_, member)| member.metadata(protocol))
            .collect();
        subscription::topics(subscriptions.iter().map(|bytes| &bytes[..]))
    }
}
