//! The leader's view of one partition: how far its replicas are, and so what may be acknowledged and read.

use strandline_wire::ErrorCode;

use super::assignment::Assignment;
use super::message::{Ack, Open, OpenAnswer, Opened};
use super::progress::Progress;
use super::proposal::{AlterPartition, AlteredPartition, Proposals};
use crate::metadata::{BrokerEpoch, BrokerId, LeaderEpoch};

/// Which replicas must have a batch before it is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acks {
    /// `acks=0`: nobody waits.
    None,
    /// `acks=1`: the leader.
    Leader,
    /// `acks=all`: every replica in sync, and enough of them.
    All,
}

/// Where an append stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acknowledgement {
    /// It is acknowledged.
    Given,
    /// Not yet.
    Waits,
    /// It is on all that are in sync, which are no longer enough: NOT_ENOUGH_REPLICAS_AFTER_APPEND.
    NotEnoughReplicas,
}

/// The leader's own log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaderLog {
    /// The first offset that may be read.
    pub start: i64,
    /// The offset after the last appended record.
    pub end: i64,
    /// Everything below is flushed (of a relaxed topic: written).
    pub own_end: i64,
}

/// What a leader hears of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaderEvent {
    /// Its log moved: appends, a flush, a new start.
    Log(LeaderLog),
    /// A follower told how far it is.
    Ack(Ack),
    /// The image assigns the partition so, in the same leader epoch.
    Assigned(Assignment),
    /// The quorum decided a proposal, or refused it.
    Altered {
        /// Which try.
        attempt: u64,
        /// The new state, or why not.
        outcome: Result<AlteredPartition, ErrorCode>,
    },
    /// A follower cannot take what it asked for (its loan is overdue): it does not count as caught up until it acks again.
    Stuck(BrokerId),
    /// Time passed; at least twice in `replica.lag.time.max.ms`.
    Tick,
}

/// What follows from an event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaderEffects {
    /// The high watermark rose to this.
    pub high_watermark: Option<i64>,
    /// To be proposed to the quorum.
    pub alter_partition: Option<AlterPartition>,
}

/// The leader's state of one partition in one leader epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaderReplica {
    broker: BrokerId,
    broker_epoch: BrokerEpoch,
    assignment: Assignment,
    isr_suffices: bool,
    lag_time_max_ms: i64,
    /// The log end when it began to lead: all that earlier leaders may have acknowledged is below.
    epoch_start: i64,
    log: LeaderLog,
    high_watermark: i64,
    followers: Vec<Progress>,
    proposals: Proposals,
}

impl LeaderReplica {
    /// `broker` starts to lead by `assignment`, whose leader epoch the quorum has committed and whose start is in the log.
    /// `high_watermark` is the last one known, a lower bound.
    pub fn lead(
        broker: BrokerId,
        assignment: Assignment,
        log: LeaderLog,
        high_watermark: i64,
        lag_time_max_ms: i64,
        now_ms: i64,
    ) -> Self {
        assert!(log.own_end <= log.end, "flushed beyond the log end");
        let own = assignment.replica(broker);
        let mut leader = Self {
            broker,
            broker_epoch: own.map_or(BrokerEpoch(-1), |own| own.epoch),
            isr_suffices: false,
            lag_time_max_ms,
            epoch_start: log.end,
            log,
            high_watermark: high_watermark.clamp(log.start.min(log.end), log.end),
            followers: Vec::new(),
            proposals: Proposals::default(),
            assignment,
        };
        leader.meet_followers(now_ms);
        if let Some(high_watermark) = leader.possible_high_watermark(now_ms) {
            leader.high_watermark = high_watermark;
        }
        leader
    }

    /// The epoch it leads in.
    pub fn leader_epoch(&self) -> LeaderEpoch {
        self.assignment.leader_epoch
    }

    /// What may be read, and what `acks=all` waits for.
    pub fn high_watermark(&self) -> i64 {
        self.high_watermark
    }

    /// What the leader alone has, for `acks=1`.
    pub fn own_end(&self) -> i64 {
        self.log.own_end
    }

    /// The followers that told how far they are, and how many records each has not flushed.
    pub fn lags(&self) -> impl Iterator<Item = (BrokerId, u64)> + '_ {
        self.followers.iter().filter_map(|follower| {
            let lag = self.log.end - follower.end?;
            Some((follower.assigned.broker, lag.unsigned_abs()))
        })
    }

    /// The committed in-sync set, as last known.
    pub fn isr(&self) -> &[BrokerId] {
        &self.assignment.isr
    }

    /// Whether the latest offset may be told, and coordinators may serve: only once all that earlier leaders may have
    /// acknowledged is readable again (KIP-207). Until then it is OFFSET_NOT_AVAILABLE.
    pub fn latest_is_known(&self) -> bool {
        self.high_watermark >= self.epoch_start
    }

    /// What `acks=all` is refused with before an append.
    ///
    /// # Errors
    /// NOT_ENOUGH_REPLICAS while the ISR does not suffice.
    pub fn may_append(&self, acks: Acks) -> Result<(), ErrorCode> {
        match acks {
            Acks::All if !self.isr_suffices => Err(ErrorCode::NotEnoughReplicas),
            _ => Ok(()),
        }
    }

    /// Where an append that ends at `end` stands; of a duplicate, where its original would.
    pub fn acknowledgement(&self, acks: Acks, end: i64) -> Acknowledgement {
        match acks {
            Acks::None => Acknowledgement::Given,
            Acks::Leader if self.log.own_end >= end => Acknowledgement::Given,
            Acks::All if self.high_watermark >= end && self.isr_suffices => Acknowledgement::Given,
            Acks::All if self.high_watermark >= end => Acknowledgement::NotEnoughReplicas,
            Acks::Leader | Acks::All => Acknowledgement::Waits,
        }
    }

    /// What a request gets whose time is up before its acknowledgement.
    pub fn timeout_code(&self, acks: Acks) -> ErrorCode {
        match acks {
            Acks::All if !self.isr_suffices => ErrorCode::NotEnoughReplicasAfterAppend,
            _ => ErrorCode::RequestTimedOut,
        }
    }

    /// The smallest log start among the replicas that serve: what DeleteRecords has reached.
    pub fn low_watermark(&self) -> i64 {
        let serving = self
            .followers
            .iter()
            .filter(|follower| follower.assigned.eligible);
        let starts = serving.map(|follower| follower.log_start);
        starts.fold(self.log.start, i64::min)
    }

    /// A follower asks for frames; `None` for one that is not to be answered. `known` is what the leader's log knows of
    /// the asked epoch: the largest one at or below it, and where that ends.
    pub fn open(&mut self, open: &Open, known: Option<(i32, i64)>) -> Option<Opened> {
        if open.leader_epoch != self.leader_epoch() {
            return None;
        }
        let log = self.log;
        let follower = self.follower(open.broker, open.broker_epoch)?;
        if !follower.is_next(open.open) {
            return None;
        }
        let answer = answer(open, known, &log);
        follower.opened(open);
        Some(Opened {
            broker_epoch: self.broker_epoch,
            leader_epoch: self.leader_epoch(),
            open: open.open,
            answer,
        })
    }

    /// Takes an event, at a time on one clock that never goes back.
    pub fn step(&mut self, event: LeaderEvent, now_ms: i64) -> LeaderEffects {
        let mut alter_partition = None;
        match event {
            LeaderEvent::Log(log) => self.log_moved(log, now_ms),
            LeaderEvent::Ack(ack) => {
                if self.acked(&ack, now_ms) {
                    alter_partition = self.propose(now_ms, Some(ack.broker));
                }
            }
            LeaderEvent::Assigned(assignment) => self.assigned(assignment, now_ms),
            LeaderEvent::Altered { attempt, outcome } => self.altered(attempt, outcome, now_ms),
            LeaderEvent::Stuck(broker) => {
                if let Some(follower) = self.followers.iter_mut().find(|f| f.assigned.broker == broker) {
                    follower.stuck();
                    alter_partition = self.propose(now_ms, None);
                }
            }
            LeaderEvent::Tick => {
                alter_partition = match self.proposals.resend(now_ms) {
                    Some(again) => Some(again),
                    None => self.propose(now_ms, None),
                }
            }
        }
        let high_watermark = self.possible_high_watermark(now_ms);
        if let Some(high_watermark) = high_watermark {
            self.high_watermark = high_watermark;
        }
        LeaderEffects {
            high_watermark,
            alter_partition,
        }
    }

    fn log_moved(&mut self, log: LeaderLog, now_ms: i64) {
        assert!(log.own_end <= log.end, "flushed beyond the log end");
        if log.end > self.log.end {
            for follower in &mut self.followers {
                follower.leader_grows(self.log.end, now_ms);
            }
        }
        self.log = LeaderLog {
            start: self.log.start.max(log.start),
            end: self.log.end.max(log.end),
            own_end: self.log.own_end.max(log.own_end),
        };
    }

    fn acked(&mut self, ack: &Ack, now_ms: i64) -> bool {
        if ack.leader_epoch != self.leader_epoch() {
            return false;
        }
        let leader_end = self.log.end;
        // A follower that claims what its leader does not have is not believed.
        if ack.end > leader_end {
            return false;
        }
        let Some(follower) = self.follower(ack.broker, ack.broker_epoch) else {
            return false;
        };
        if !follower.is_current(ack) {
            return false;
        }
        follower.acked(ack, leader_end, now_ms);
        true
    }

    fn assigned(&mut self, assignment: Assignment, now_ms: i64) {
        assert_eq!(
            assignment.leader_epoch,
            self.leader_epoch(),
            "another leader epoch is another leader"
        );
        // An answer of the quorum may have come before its image.
        if assignment.partition_epoch < self.assignment.partition_epoch {
            return;
        }
        if assignment.partition_epoch > self.assignment.partition_epoch {
            self.proposals.decided();
        }
        self.assignment = assignment;
        self.meet_followers(now_ms);
    }

    fn altered(&mut self, attempt: u64, outcome: Result<AlteredPartition, ErrorCode>, now_ms: i64) {
        let altered = match outcome {
            Ok(altered) => altered,
            Err(code) => return self.proposals.refused(attempt, code, now_ms),
        };
        // A new leader epoch, or none any more: the image tells.
        if altered.leader_epoch == self.leader_epoch()
            && altered.partition_epoch > self.assignment.partition_epoch
        {
            self.assignment.partition_epoch = altered.partition_epoch;
            self.assignment.isr = altered.isr;
            self.assignment.min_insync_replicas = altered.min_insync_replicas;
            self.isr_suffices = self.assignment.isr_suffices();
            self.proposals.decided();
        }
    }

    /// Keeps what is known of followers whose registration is the same.
    fn meet_followers(&mut self, now_ms: i64) {
        self.isr_suffices = self.assignment.isr_suffices();
        let mut known = std::mem::take(&mut self.followers);
        let others = self.assignment.replicas.iter();
        for assigned in others.filter(|replica| replica.broker != self.broker) {
            let same = known.iter().position(|follower| {
                follower.assigned.broker == assigned.broker && follower.assigned.epoch == assigned.epoch
            });
            self.followers.push(match same {
                Some(at) => {
                    let mut follower = known.swap_remove(at);
                    follower.assigned = *assigned;
                    follower
                }
                None => {
                    let in_sync = self.assignment.isr.contains(&assigned.broker);
                    Progress::new(*assigned, in_sync, now_ms)
                }
            });
        }
    }

    fn follower(&mut self, broker: BrokerId, epoch: BrokerEpoch) -> Option<&mut Progress> {
        self.followers
            .iter_mut()
            .find(|follower| follower.assigned.broker == broker && follower.assigned.epoch == epoch)
    }

    /// The smallest end over the maximal ISR, if that is above the high watermark. Eligible replicas that are caught up
    /// are waited for too, so that they can join.
    fn possible_high_watermark(&self, now_ms: i64) -> Option<i64> {
        if !self.isr_suffices {
            return None;
        }
        let mut lowest = self.log.own_end;
        for follower in &self.followers {
            let broker = follower.assigned.broker;
            let in_sync = self.assignment.isr.contains(&broker) || self.proposals.may_contain(broker);
            let joins = || {
                follower.assigned.eligible
                    && follower.is_caught_up(self.log.end, self.lag_time_max_ms, now_ms)
            };
            match follower.end {
                Some(end) if in_sync || joins() => lowest = lowest.min(end),
                None if in_sync => return None,
                _ => {}
            }
        }
        (lowest > self.high_watermark).then_some(lowest)
    }

    /// The change of the ISR that is wanted now, if one may be asked for. Who just `acked` may come in; members go out for
    /// their lag at other times, and at once if one lacks what was committed.
    fn propose(&mut self, now_ms: i64, acked: Option<BrokerId>) -> Option<AlterPartition> {
        if !self.proposals.may_propose(now_ms) {
            return None;
        }
        let own = self.assignment.replica(self.broker)?;
        if !own.eligible {
            return None;
        }
        let mut wanted = vec![(own.broker, own.epoch)];
        let mut changed = !self.assignment.isr.contains(&self.broker);
        for follower in &self.followers {
            let member = self.assignment.isr.contains(&follower.assigned.broker);
            let wants = match member {
                true => !self.is_behind(follower, acked.is_none(), now_ms),
                false => acked == Some(follower.assigned.broker) && self.may_join(follower),
            };
            if wants {
                wanted.push((follower.assigned.broker, follower.assigned.epoch));
            }
            changed |= wants != member;
        }
        let epochs = (self.assignment.leader_epoch, self.assignment.partition_epoch);
        changed.then(|| self.proposals.propose(epochs, wanted, now_ms))
    }

    fn is_behind(&self, follower: &Progress, by_lag: bool, now_ms: i64) -> bool {
        let lacks_committed = follower.end.is_some_and(|end| end < self.high_watermark);
        lacks_committed
            || !follower.assigned.eligible
            || (by_lag && !follower.is_caught_up(self.log.end, self.lag_time_max_ms, now_ms))
    }

    fn may_join(&self, follower: &Progress) -> bool {
        follower.assigned.eligible
            && follower
                .end
                .is_some_and(|end| end >= self.high_watermark && end >= self.epoch_start)
    }
}

/// Compares the follower's last epoch and end with the leader's log (KIP-101, KIP-279, KIP-320).
fn answer(open: &Open, known: Option<(i32, i64)>, log: &LeaderLog) -> OpenAnswer {
    if open.end < log.start {
        return OpenAnswer::StartsAt { log_start: log.start };
    }
    if open.last_epoch < 0 {
        return match open.end > log.end {
            true => OpenAnswer::Diverging {
                epoch: -1,
                end: log.end,
            },
            false => OpenAnswer::Stream,
        };
    }
    // Nothing is kept of an epoch that old: the follower's records below the start cannot be compared, nor are they
    // needed, and those above are not the leader's.
    let Some((epoch, end)) = known else {
        return OpenAnswer::StartsAt { log_start: log.start };
    };
    match epoch < open.last_epoch || end < open.end {
        true => OpenAnswer::Diverging { epoch, end },
        false => OpenAnswer::Stream,
    }
}
