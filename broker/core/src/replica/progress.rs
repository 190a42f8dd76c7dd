//! How far one follower is, as its leader knows.

use super::assignment::AssignedReplica;
use super::message::{Ack, Open};

/// A follower in its leader's eyes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Progress {
    pub(super) assigned: AssignedReplica,
    /// Its newest open; 0 before the first.
    open: u32,
    /// Its flushed end, once it told one in the newest open.
    pub(super) end: Option<i64>,
    pub(super) log_start: i64,
    /// When it last had all that the leader had; `None` if never known.
    caught_up_ms: Option<i64>,
    last_ack_ms: i64,
    /// The leader's end when the last ack came.
    leader_end_at_ack: i64,
}

impl Progress {
    /// Members of the ISR count as caught up at the start, so that a new leader does not shrink it before it heard of them.
    pub(super) fn new(assigned: AssignedReplica, in_sync: bool, now_ms: i64) -> Self {
        Self {
            assigned,
            open: 0,
            end: None,
            log_start: -1,
            caught_up_ms: in_sync.then_some(now_ms),
            last_ack_ms: now_ms,
            leader_end_at_ack: i64::MAX,
        }
    }

    /// A stream from the follower's end starts; how much of it is flushed is not known yet.
    pub(super) fn opened(&mut self, open: &Open) {
        self.open = open.open;
        self.end = None;
        self.log_start = open.start;
    }

    /// Whether `open` is newer than what is known.
    pub(super) fn is_next(&self, open: u32) -> bool {
        open > self.open
    }

    /// Whether the ack belongs to the newest open.
    pub(super) fn is_current(&self, ack: &Ack) -> bool {
        self.open != 0 && ack.open == self.open
    }

    /// Takes an ack. Kafka's rule: who has what the leader had at the ack before was caught up then.
    pub(super) fn acked(&mut self, ack: &Ack, leader_end: i64, now_ms: i64) {
        // Within one open ends only rise.
        let end = self.end.map_or(ack.end, |known| known.max(ack.end));
        self.end = Some(end);
        self.log_start = ack.log_start;
        let caught_up_ms = if end >= leader_end {
            Some(now_ms)
        } else if end >= self.leader_end_at_ack {
            Some(self.last_ack_ms)
        } else {
            None
        };
        self.caught_up_ms = self.caught_up_ms.max(caught_up_ms);
        self.last_ack_ms = now_ms;
        self.leader_end_at_ack = leader_end;
    }

    /// It cannot take what it is sent: no longer caught up, until it acks again.
    pub(super) fn stuck(&mut self) {
        self.caught_up_ms = None;
        self.leader_end_at_ack = i64::MAX;
    }

    /// The leader's log grows from `before`: who had all of it was caught up until now.
    pub(super) fn leader_grows(&mut self, before: i64, now_ms: i64) {
        if self.end.is_some_and(|end| end >= before) {
            self.caught_up_ms = self.caught_up_ms.max(Some(now_ms));
        }
    }

    /// Whether it had all that the leader had within the last `lag_time_max_ms`.
    pub(super) fn is_caught_up(&self, leader_end: i64, lag_time_max_ms: i64, now_ms: i64) -> bool {
        self.end.is_some_and(|end| end >= leader_end)
            || self
                .caught_up_ms
                .is_some_and(|caught_up_ms| now_ms - caught_up_ms <= lag_time_max_ms)
    }
}
