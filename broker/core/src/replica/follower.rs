//! A follower's view of one partition: what it asks its leader for, what it takes, and what it cuts.

use super::message::{Ack, FrameInfo, FramesHead, Open, OpenAnswer, Opened};
use crate::metadata::{BrokerEpoch, BrokerId, LeaderEpoch};

/// How long an open waits for its answer before it is asked again.
const OPEN_TIMEOUT_MS: i64 = 1_000;

/// Where the follower's own log is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogPosition {
    /// The first offset that may be read.
    pub start: i64,
    /// The offset after the last appended record.
    pub end: i64,
    /// Everything below is flushed (of a relaxed topic: written).
    pub flushed_end: i64,
    /// The leader epoch of the last frame, not of an epoch that began after it; -1 without one.
    pub last_epoch: i32,
    /// The chain value of the last frame; `None` without one, or where it is not known: then the next frame is taken with
    /// any `previous`.
    pub chain: Option<u64>,
}

/// Whom a follower follows, and as who.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FollowerState {
    /// The follower.
    pub broker: BrokerId,
    /// Its registration.
    pub broker_epoch: BrokerEpoch,
    /// The epoch it follows in.
    pub leader_epoch: LeaderEpoch,
    /// The leader's registration.
    pub leader_broker_epoch: BrokerEpoch,
    /// The newest leader epoch that began with a log which may lack committed records: an unclean election, or a last
    /// member that lost bytes. Logs of older epochs may be cut below their high watermark.
    pub lossy_epoch: Option<LeaderEpoch>,
}

/// What a follower hears of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FollowerEvent<'a> {
    /// The link to the leader is there, for the first time or again.
    Connected,
    /// The leader answered an open. `local` is what the own log knows of the epoch that a diverging answer names: the
    /// largest one at or below it, and where that ends.
    Opened {
        /// The answer.
        opened: Opened,
        /// The own log's.
        local: Option<(i32, i64)>,
    },
    /// Frames came, or only news of the leader's high watermark and log start.
    Frames {
        /// The head.
        head: FramesHead,
        /// In order.
        frames: &'a [FrameInfo],
    },
    /// The own flushed end is this now, by the log itself: bytes that were cut do not count.
    Flushed(i64),
    /// What [`FollowerEffect::Truncate`] or [`FollowerEffect::Restart`] asked for is done.
    Cut(LogPosition),
    /// Time passed; about twice a second.
    Tick,
}

/// What a follower wants done, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FollowerEffect {
    /// Send.
    Open(Open),
    /// Send.
    Ack(Ack),
    /// Append the first so many frames of the message.
    Append(usize),
    /// The high watermark is this now.
    HighWatermark(i64),
    /// Raise the log's start.
    RaiseStart(i64),
    /// Cut everything at and above this offset, then say where the log is.
    Truncate(i64),
    /// Empty the log and let it start at this offset, then say where the log is.
    Restart(i64),
    /// The replica contradicts what was committed: it is damaged, and follows no more.
    Quarantine(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// No link.
    Idle,
    /// An open waits for its answer.
    Opening { since_ms: i64 },
    /// The log is being cut.
    Cutting,
    /// Frames come.
    Streaming,
    /// Damaged.
    Quarantined,
}

/// The follower's state of one partition in one leader epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FollowerReplica {
    state: FollowerState,
    stage: Stage,
    connected: bool,
    log: LogPosition,
    /// What the leader told last; the own one is the smaller of it and the flushed end.
    leader_high_watermark: i64,
    high_watermark: i64,
    opens: u32,
}

impl FollowerReplica {
    /// Starts to follow; frames come once there is a link. `high_watermark` is the last one known, a lower bound.
    pub fn follow(state: FollowerState, log: LogPosition, high_watermark: i64) -> Self {
        assert!(
            log.start <= log.end && log.flushed_end <= log.end,
            "a log's ends are in order"
        );
        Self {
            state,
            stage: Stage::Idle,
            connected: false,
            log,
            leader_high_watermark: 0,
            high_watermark: high_watermark.clamp(log.start, log.end),
            opens: 0,
        }
    }

    /// The number of its newest open.
    pub fn opens(&self) -> u32 {
        self.opens
    }

    /// Its opens are numbered after `opens`, the newest that this broker has sent in this registration: a leader takes none
    /// that is older than one that it knows.
    #[must_use]
    pub fn opening_after(mut self, opens: u32) -> Self {
        self.opens = opens;
        self
    }

    /// Whom it follows.
    pub fn state(&self) -> &FollowerState {
        &self.state
    }

    /// What readers of this replica may see.
    pub fn high_watermark(&self) -> i64 {
        self.high_watermark
    }

    /// Where its log is.
    pub fn log(&self) -> &LogPosition {
        &self.log
    }

    /// Whether it follows no more.
    pub fn is_quarantined(&self) -> bool {
        self.stage == Stage::Quarantined
    }

    /// Takes an event, at a time on one clock that never goes back.
    pub fn step(&mut self, event: FollowerEvent<'_>, now_ms: i64, effects: &mut Vec<FollowerEffect>) {
        if self.stage == Stage::Quarantined {
            return;
        }
        match event {
            FollowerEvent::Connected => {
                self.connected = true;
                if self.stage != Stage::Cutting {
                    self.open(now_ms, effects);
                }
            }
            FollowerEvent::Opened { opened, local } => self.opened(&opened, local, effects),
            FollowerEvent::Frames { head, frames } => self.frames(&head, frames, now_ms, effects),
            FollowerEvent::Flushed(end) => self.flushed(end, effects),
            FollowerEvent::Cut(log) => {
                assert_eq!(self.stage, Stage::Cutting, "nothing was to be cut");
                self.log = log;
                self.high_watermark = self.high_watermark.clamp(log.start, log.end);
                self.stage = Stage::Idle;
                if self.connected {
                    self.open(now_ms, effects);
                }
            }
            FollowerEvent::Tick => match self.stage {
                Stage::Opening { since_ms } if now_ms - since_ms >= OPEN_TIMEOUT_MS => {
                    self.open(now_ms, effects);
                }
                // An ack may have gone to a leader that did not know this registration yet.
                Stage::Streaming => effects.push(self.ack()),
                _ => {}
            },
        }
    }

    fn open(&mut self, now_ms: i64, effects: &mut Vec<FollowerEffect>) {
        self.opens += 1;
        self.stage = Stage::Opening { since_ms: now_ms };
        effects.push(FollowerEffect::Open(Open {
            broker: self.state.broker,
            broker_epoch: self.state.broker_epoch,
            leader_epoch: self.state.leader_epoch,
            open: self.opens,
            last_epoch: self.log.last_epoch,
            end: self.log.end,
            start: self.log.start,
        }));
    }

    fn ack(&self) -> FollowerEffect {
        FollowerEffect::Ack(Ack {
            broker: self.state.broker,
            broker_epoch: self.state.broker_epoch,
            leader_epoch: self.state.leader_epoch,
            open: self.opens,
            end: self.log.flushed_end,
            log_start: self.log.start,
        })
    }

    fn is_current(&self, broker_epoch: BrokerEpoch, leader_epoch: LeaderEpoch, open: u32) -> bool {
        broker_epoch == self.state.leader_broker_epoch
            && leader_epoch == self.state.leader_epoch
            && open == self.opens
    }

    fn opened(&mut self, opened: &Opened, local: Option<(i32, i64)>, effects: &mut Vec<FollowerEffect>) {
        if !self.is_current(opened.broker_epoch, opened.leader_epoch, opened.open)
            || !matches!(self.stage, Stage::Opening { .. })
        {
            return;
        }
        match opened.answer {
            OpenAnswer::Stream => {
                self.stage = Stage::Streaming;
                effects.push(self.ack());
            }
            OpenAnswer::StartsAt { log_start } => self.restart(log_start, effects),
            OpenAnswer::Diverging { epoch, end } => {
                // Without any local epoch at or below the leader's, nothing here is in the leader's log.
                let agreed = local.map_or(self.log.start, |(_, local_end)| local_end.min(end));
                self.cut(
                    agreed.min(end).max(0),
                    &format!("epoch {epoch} ends at {end}"),
                    effects,
                );
            }
        }
    }

    /// Whether the quorum gave up records that this log may have below its high watermark.
    fn may_lose(&self) -> bool {
        let lossy = |lossy: LeaderEpoch| self.log.last_epoch < lossy.0 && lossy <= self.state.leader_epoch;
        self.state.lossy_epoch.is_some_and(lossy)
    }

    /// The leader's log starts at `start`, and agrees with nothing here.
    fn restart(&mut self, start: i64, effects: &mut Vec<FollowerEffect>) {
        if start < self.high_watermark && !self.may_lose() {
            let text = format!(
                "the leader of epoch {} knows nothing of what is committed here from {start} to {}",
                self.state.leader_epoch, self.high_watermark
            );
            return self.quarantine(text, effects);
        }
        self.stage = Stage::Cutting;
        effects.push(FollowerEffect::Restart(start));
    }

    /// The leader's log and this one agree below `to` at most.
    fn cut(&mut self, to: i64, reason: &str, effects: &mut Vec<FollowerEffect>) {
        let (state, log) = (&self.state, &self.log);
        if to < self.high_watermark && !self.may_lose() {
            let text = format!(
                "the leader of epoch {} would have it cut to {to}, below its high watermark {}: {reason}",
                state.leader_epoch, self.high_watermark
            );
            return self.quarantine(text, effects);
        }
        if to >= log.end {
            let text = format!(
                "the leader refused the end {} without anything to cut: {reason}",
                log.end
            );
            return self.quarantine(text, effects);
        }
        self.stage = Stage::Cutting;
        effects.push(match to < log.start || log.last_epoch < 0 {
            true => FollowerEffect::Restart(to),
            false => FollowerEffect::Truncate(to),
        });
    }

    fn quarantine(&mut self, text: String, effects: &mut Vec<FollowerEffect>) {
        self.stage = Stage::Quarantined;
        effects.push(FollowerEffect::Quarantine(text));
    }

    fn frames(
        &mut self,
        head: &FramesHead,
        frames: &[FrameInfo],
        now_ms: i64,
        effects: &mut Vec<FollowerEffect>,
    ) {
        if !self.is_current(head.broker_epoch, head.leader_epoch, head.open) || self.stage != Stage::Streaming
        {
            return;
        }
        let taken = frames.iter().take_while(|frame| self.take(frame)).count();
        if taken > 0 {
            effects.push(FollowerEffect::Append(taken));
        }
        self.leader_high_watermark = self.leader_high_watermark.max(head.high_watermark);
        self.raise_high_watermark(effects);
        // What is not here yet cannot be given up: the leader says it again with the next frames.
        if head.log_start > self.log.start && head.log_start <= self.high_watermark {
            self.log.start = head.log_start;
            effects.push(FollowerEffect::RaiseStart(head.log_start));
            // DeleteRecords waits for it.
            effects.push(self.ack());
        }
        if let Some(refused) = frames.get(taken) {
            self.refuse(refused, now_ms, effects);
        }
    }

    /// Whether `frame` comes next, by the rules of the log.
    fn take(&mut self, frame: &FrameInfo) -> bool {
        let log = &mut self.log;
        let follows = match (log.last_epoch < 0, frame.gap) {
            // An empty log takes the frame that contains its start.
            (true, _) => frame.end_offset > log.end && (frame.gap || frame.base_offset <= log.end),
            (false, true) => frame.base_offset >= log.end,
            (false, false) => {
                let chained = log.chain.is_none_or(|chain| chain == frame.previous);
                frame.base_offset == log.end && (chained || frame.previous == 0)
            }
        };
        let in_order = frame.end_offset > frame.base_offset
            && (log.last_epoch..=self.state.leader_epoch.0).contains(&frame.leader_epoch);
        if follows && in_order {
            log.end = frame.end_offset;
            log.last_epoch = frame.leader_epoch;
            log.chain = Some(frame.chain);
        }
        follows && in_order
    }

    /// A frame that does not follow: out of step, or another log than the leader's.
    fn refuse(&mut self, frame: &FrameInfo, now_ms: i64, effects: &mut Vec<FollowerEffect>) {
        if frame.base_offset != self.log.end {
            return self.open(now_ms, effects);
        }
        let text = format!(
            "the leader's frame at {} does not follow this log's last one",
            frame.base_offset
        );
        if self.log.end <= self.high_watermark {
            return self.quarantine(text, effects);
        }
        self.stage = Stage::Cutting;
        effects.push(FollowerEffect::Truncate(self.high_watermark));
    }

    fn flushed(&mut self, end: i64, effects: &mut Vec<FollowerEffect>) {
        self.log.flushed_end = self.log.flushed_end.max(end.min(self.log.end));
        if self.stage == Stage::Streaming {
            effects.push(self.ack());
            self.raise_high_watermark(effects);
        }
    }

    fn raise_high_watermark(&mut self, effects: &mut Vec<FollowerEffect>) {
        let reached = self.leader_high_watermark.min(self.log.flushed_end);
        if reached > self.high_watermark {
            self.high_watermark = reached;
            effects.push(FollowerEffect::HighWatermark(reached));
        }
    }
}
