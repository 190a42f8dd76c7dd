use super::message::{Ack, FrameInfo, FramesHead, Open, OpenAnswer, Opened};
use super::*;
use crate::metadata::{BrokerEpoch, BrokerId, LeaderEpoch};

const STATE: FollowerState = FollowerState {
    broker: BrokerId(2000),
    broker_epoch: BrokerEpoch(7),
    leader_epoch: LeaderEpoch(5),
    leader_broker_epoch: BrokerEpoch(3),
    lossy_epoch: None,
};

fn log(end: i64) -> LogPosition {
    LogPosition {
        start: 0,
        end,
        flushed_end: end,
        last_epoch: if end == 0 { -1 } else { 4 },
        chain: (end > 0).then_some(end as u64),
    }
}

struct Subject(FollowerReplica);

impl Subject {
    /// Follows with a log that ends at `end`, of which `high_watermark` is known to be committed.
    fn new(end: i64, high_watermark: i64) -> Self {
        Self(FollowerReplica::follow(STATE, log(end), high_watermark))
    }

    fn step(&mut self, event: FollowerEvent<'_>, now_ms: i64) -> Vec<FollowerEffect> {
        let mut effects = Vec::new();
        self.0.step(event, now_ms, &mut effects);
        effects
    }

    /// Connects; the number of its open.
    fn connects(&mut self) -> u32 {
        match &self.step(FollowerEvent::Connected, 0)[..] {
            [FollowerEffect::Open(open)] => open.open,
            other => panic!("{other:?}"),
        }
    }

    fn streams(&mut self) -> u32 {
        let open = self.connects();
        let effects = self.answered(open, OpenAnswer::Stream, None);
        assert!(matches!(effects[..], [FollowerEffect::Ack(_)]));
        open
    }

    fn answered(&mut self, open: u32, answer: OpenAnswer, local: Option<(i32, i64)>) -> Vec<FollowerEffect> {
        let opened = Opened {
            broker_epoch: BrokerEpoch(3),
            leader_epoch: LeaderEpoch(5),
            open,
            answer,
        };
        self.step(FollowerEvent::Opened { opened, local }, 1)
    }

    fn frames(&mut self, open: u32, high_watermark: i64, frames: &[FrameInfo]) -> Vec<FollowerEffect> {
        let head = head(open, high_watermark);
        self.step(FollowerEvent::Frames { head, frames }, 2)
    }
}

fn head(open: u32, high_watermark: i64) -> FramesHead {
    FramesHead {
        broker_epoch: BrokerEpoch(3),
        leader_epoch: LeaderEpoch(5),
        open,
        high_watermark,
        log_start: 0,
    }
}

/// A frame of offsets `base..end` whose chain value is its end.
fn frame(base: i64, end: i64) -> FrameInfo {
    FrameInfo {
        base_offset: base,
        end_offset: end,
        leader_epoch: 5,
        previous: base as u64,
        chain: end as u64,
        gap: false,
    }
}

fn acked(effect: &FollowerEffect) -> i64 {
    match effect {
        FollowerEffect::Ack(ack) => ack.end,
        other => panic!("{other:?}"),
    }
}

#[test]
fn it_opens_takes_frames_and_acknowledges_what_it_flushed() {
    let mut follower = Subject::new(10, 4);
    let opened = follower.step(FollowerEvent::Connected, 0);
    let expected = Open {
        broker: BrokerId(2000),
        broker_epoch: BrokerEpoch(7),
        leader_epoch: LeaderEpoch(5),
        open: 1,
        last_epoch: 4,
        end: 10,
        start: 0,
    };
    assert_eq!(opened, [FollowerEffect::Open(expected)]);
    let streaming = follower.answered(1, OpenAnswer::Stream, None);
    let first = Ack {
        broker: BrokerId(2000),
        broker_epoch: BrokerEpoch(7),
        leader_epoch: LeaderEpoch(5),
        open: 1,
        end: 10,
        log_start: 0,
    };
    assert_eq!(streaming, [FollowerEffect::Ack(first)]);
    let effects = follower.frames(1, 12, &[frame(10, 12), frame(12, 15)]);
    assert_eq!(
        effects,
        [FollowerEffect::Append(2), FollowerEffect::HighWatermark(10)]
    );
    let effects = follower.step(FollowerEvent::Flushed(15), 3);
    assert_eq!(acked(&effects[0]), 15);
    assert_eq!(effects[1..], [FollowerEffect::HighWatermark(12)]);
    assert_eq!(follower.frames(1, 15, &[]), [FollowerEffect::HighWatermark(15)]);
    assert_eq!(
        acked(&follower.step(FollowerEvent::Tick, 500)[0]),
        15,
        "and says it again"
    );
}

#[test]
fn what_belongs_to_others_is_dropped() {
    let mut follower = Subject::new(10, 4);
    let open = follower.streams();
    for other in [
        FramesHead {
            broker_epoch: BrokerEpoch(2),
            ..head(open, 12)
        },
        FramesHead {
            leader_epoch: LeaderEpoch(4),
            ..head(open, 12)
        },
        head(open - 1, 12),
    ] {
        let frames = &[frame(10, 12)];
        assert_eq!(
            follower.step(FollowerEvent::Frames { head: other, frames }, 2),
            []
        );
    }
    assert_eq!(
        follower.answered(open, OpenAnswer::Diverging { epoch: 1, end: 2 }, None),
        []
    );
    assert_eq!(follower.0.log().end, 10);
}

#[test]
fn an_open_without_an_answer_is_asked_again() {
    let mut follower = Subject::new(10, 4);
    let first = follower.connects();
    assert_eq!(follower.step(FollowerEvent::Tick, 999), []);
    let again = follower.step(FollowerEvent::Tick, 1_000);
    assert!(matches!(again[..], [FollowerEffect::Open(open)] if open.open == first + 1));
    assert_eq!(
        follower.answered(first, OpenAnswer::Stream, None),
        [],
        "an answer to the first"
    );
}

#[test]
fn it_cuts_where_the_epochs_part() {
    // Its last epoch is longer than the leader's.
    let mut follower = Subject::new(10, 4);
    let open = follower.connects();
    let effects = follower.answered(open, OpenAnswer::Diverging { epoch: 4, end: 8 }, Some((4, 10)));
    assert_eq!(effects, [FollowerEffect::Truncate(8)]);
    assert_eq!(
        follower.frames(open, 9, &[frame(10, 12)]),
        [],
        "nothing is taken meanwhile"
    );
    let effects = follower.step(FollowerEvent::Cut(log(8)), 5);
    assert!(matches!(effects[..], [FollowerEffect::Open(open)] if open.end == 8));
    // The leader never had its last epoch.
    let mut follower = Subject::new(10, 4);
    let open = follower.connects();
    let effects = follower.answered(open, OpenAnswer::Diverging { epoch: 3, end: 9 }, Some((2, 6)));
    assert_eq!(effects, [FollowerEffect::Truncate(6)]);
    // Nothing of what it has is in the leader's log.
    let mut follower = Subject::new(10, 0);
    let open = follower.connects();
    let effects = follower.answered(open, OpenAnswer::Diverging { epoch: 3, end: 9 }, None);
    assert_eq!(effects, [FollowerEffect::Truncate(0)]);
}

#[test]
fn a_cut_below_the_high_watermark_is_damage_unless_records_were_given_up() {
    let diverging = OpenAnswer::Diverging { epoch: 3, end: 5 };
    let mut follower = Subject::new(10, 6);
    let open = follower.connects();
    let effects = follower.answered(open, diverging, Some((3, 5)));
    assert!(matches!(effects[..], [FollowerEffect::Quarantine(_)]));
    assert!(follower.0.is_quarantined());
    assert_eq!(follower.step(FollowerEvent::Tick, 9_000), []);
    let lossy = FollowerState {
        lossy_epoch: Some(LeaderEpoch(5)),
        ..STATE
    };
    let mut follower = Subject(FollowerReplica::follow(lossy, log(10), 6));
    let open = follower.connects();
    assert_eq!(
        follower.answered(open, diverging, Some((3, 5))),
        [FollowerEffect::Truncate(5)]
    );
    follower.step(FollowerEvent::Cut(log(5)), 3);
    assert_eq!(follower.0.high_watermark(), 5);
    // Its log is from after that.
    let older = FollowerState {
        lossy_epoch: Some(LeaderEpoch(4)),
        ..STATE
    };
    let mut follower = Subject(FollowerReplica::follow(older, log(10), 6));
    let open = follower.connects();
    assert!(matches!(
        follower.answered(open, diverging, Some((3, 5)))[..],
        [FollowerEffect::Quarantine(_)]
    ));
}

#[test]
fn a_start_within_what_is_committed_here_is_damage() {
    let mut follower = Subject::new(10, 6);
    let open = follower.connects();
    let effects = follower.answered(open, OpenAnswer::StartsAt { log_start: 5 }, None);
    assert!(matches!(effects[..], [FollowerEffect::Quarantine(_)]));
    let mut follower = Subject::new(10, 6);
    let open = follower.connects();
    let effects = follower.answered(open, OpenAnswer::StartsAt { log_start: 6 }, None);
    assert_eq!(effects, [FollowerEffect::Restart(6)]);
}

#[test]
fn a_leader_that_refuses_without_a_cut_is_not_followed_for_ever() {
    let mut follower = Subject::new(10, 4);
    let open = follower.connects();
    let effects = follower.answered(open, OpenAnswer::Diverging { epoch: 4, end: 10 }, Some((4, 10)));
    assert!(matches!(effects[..], [FollowerEffect::Quarantine(_)]));
}

#[test]
fn it_restarts_where_the_leader_starts() {
    let mut follower = Subject::new(10, 4);
    let open = follower.connects();
    let effects = follower.answered(open, OpenAnswer::StartsAt { log_start: 20 }, None);
    assert_eq!(effects, [FollowerEffect::Restart(20)]);
    let empty = LogPosition {
        start: 20,
        end: 20,
        flushed_end: 20,
        last_epoch: -1,
        chain: None,
    };
    let effects = follower.step(FollowerEvent::Cut(empty), 3);
    assert!(matches!(effects[..], [FollowerEffect::Open(open)] if (open.last_epoch, open.end) == (-1, 20)));
    follower.answered(open + 1, OpenAnswer::Stream, None);
    // The first frame contains the start.
    assert_eq!(
        follower.frames(open + 1, 0, &[frame(18, 19)])[..1],
        [reopened(&follower.0)]
    );
    let open = follower.0.log().end;
    assert_eq!(open, 20);
    follower.answered(3, OpenAnswer::Stream, None);
    assert_eq!(
        follower.frames(3, 0, &[frame(18, 23)]),
        [FollowerEffect::Append(1)]
    );
    assert_eq!(follower.0.log().end, 23);
}

fn reopened(follower: &FollowerReplica) -> FollowerEffect {
    FollowerEffect::Open(Open {
        broker: BrokerId(2000),
        broker_epoch: BrokerEpoch(7),
        leader_epoch: LeaderEpoch(5),
        open: 3,
        last_epoch: -1,
        end: follower.log().end,
        start: follower.log().start,
    })
}

#[test]
fn a_frame_out_of_step_is_asked_for_again() {
    let mut follower = Subject::new(10, 4);
    let open = follower.streams();
    let effects = follower.frames(open, 0, &[frame(10, 12), frame(13, 14)]);
    assert_eq!(effects[0], FollowerEffect::Append(1));
    assert!(matches!(effects[1], FollowerEffect::Open(again) if again.end == 12 && again.open == open + 1));
}

#[test]
fn a_broken_chain_is_cut_to_the_high_watermark_and_then_is_damage() {
    let mut follower = Subject::new(10, 4);
    let open = follower.streams();
    let other = FrameInfo {
        previous: 99,
        ..frame(10, 12)
    };
    assert_eq!(follower.frames(open, 0, &[other]), [FollowerEffect::Truncate(4)]);
    let again = follower.step(FollowerEvent::Cut(log(4)), 3);
    assert!(matches!(again[..], [FollowerEffect::Open(open)] if open.end == 4));
    follower.answered(open + 1, OpenAnswer::Stream, None);
    let other = FrameInfo {
        previous: 99,
        ..frame(4, 12)
    };
    let effects = follower.frames(open + 1, 0, &[other]);
    assert!(matches!(effects[..], [FollowerEffect::Quarantine(_)]));
}

/// A replica that came when all was deleted led, and its first frame had nothing before it.
#[test]
fn the_first_frame_of_an_emptied_log_is_taken() {
    let mut follower = Subject::new(10, 10);
    let open = follower.streams();
    let first = FrameInfo {
        previous: 0,
        ..frame(10, 12)
    };
    assert_eq!(follower.frames(open, 0, &[first]), [FollowerEffect::Append(1)]);
}

#[test]
fn a_gap_is_taken_only_where_the_cleaner_says_so() {
    let mut follower = Subject::new(10, 4);
    let open = follower.streams();
    let gap = FrameInfo {
        previous: 99,
        gap: true,
        ..frame(14, 16)
    };
    assert_eq!(follower.frames(open, 0, &[gap]), [FollowerEffect::Append(1)]);
    assert_eq!(follower.0.log().end, 16);
}

#[test]
fn epochs_of_frames_never_fall_nor_pass_the_leaders() {
    for epoch in [3, 6] {
        let mut follower = Subject::new(10, 10);
        let open = follower.streams();
        let other = FrameInfo {
            leader_epoch: epoch,
            ..frame(10, 12)
        };
        let effects = follower.frames(open, 0, &[other]);
        assert!(matches!(effects[..], [FollowerEffect::Quarantine(_)]), "{epoch}");
    }
}

#[test]
fn the_leaders_start_is_adopted_up_to_the_high_watermark() {
    let mut follower = Subject::new(10, 4);
    let open = follower.streams();
    let starts_at = |log_start, high_watermark| FollowerEvent::Frames {
        head: FramesHead {
            log_start,
            ..head(open, high_watermark)
        },
        frames: &[],
    };
    assert_eq!(follower.step(starts_at(5, 4), 3), []);
    let effects = follower.step(starts_at(5, 7), 3);
    assert_eq!(
        effects[..2],
        [FollowerEffect::HighWatermark(7), FollowerEffect::RaiseStart(5)]
    );
    assert!(matches!(effects[2], FollowerEffect::Ack(ack) if ack.log_start == 5));
}

#[test]
fn what_is_cut_does_not_count_as_flushed() {
    let mut follower = Subject::new(10, 4);
    let open = follower.connects();
    follower.answered(open, OpenAnswer::Diverging { epoch: 4, end: 8 }, Some((4, 10)));
    let cut = LogPosition {
        flushed_end: 6,
        ..log(8)
    };
    follower.step(FollowerEvent::Cut(cut), 3);
    let effects = follower.answered(open + 1, OpenAnswer::Stream, None);
    assert_eq!(acked(&effects[0]), 6);
}
