//! Leaving, static members, and timeouts.

use strandline_wire::ErrorCode;

use super::record::ConsumerRecord;
use super::request::{FenceReason, FencedMember, HeartbeatRequest, LEAVE_STATIC_EPOCH};
use super::state::ConsumerGroupState;
use super::testing::{Rig, assignment, beat, join};
use super::{Assignment, HeartbeatAnswer};

fn fixed<'a>(id: &'a str, instance_id: &'a str) -> HeartbeatRequest<'a> {
    HeartbeatRequest {
        instance_id: Some(instance_id),
        ..join(id, &["t"])
    }
}

fn fixed_beat<'a>(id: &'a str, instance_id: &'a str, epoch: i32) -> HeartbeatRequest<'a> {
    HeartbeatRequest {
        instance_id: Some(instance_id),
        ..beat(id, epoch)
    }
}

fn left(id: &str, epoch: i32) -> HeartbeatAnswer {
    HeartbeatAnswer {
        member_id: id.into(),
        member_epoch: epoch,
        heartbeat_interval_ms: 0,
        assignment: None,
    }
}

#[test]
fn what_a_member_leaves_behind_goes_to_the_others_at_once() {
    let mut rig = Rig::new(&[("t", 2)]);
    let t = rig.topics.id("t");
    rig.join("a", &["t"]);
    rig.join("b", &["t"]);
    assert_eq!(rig.leave("a"), left("a", -1));
    let tombstones = &rig.last[..3];
    assert!(matches!(
        tombstones,
        [
            ConsumerRecord::Current(_, None),
            ConsumerRecord::Target(_, None),
            ConsumerRecord::Member(_, None)
        ]
    ));
    assert_eq!(rig.group.state(), ConsumerGroupState::Assigning);
    let b = rig.beat("b", 2);
    assert_eq!(
        (b.member_epoch, b.assignment),
        (3, Some(assignment(&[(t, &[0, 1])])))
    );
    rig.leave("b");
    assert_eq!(rig.group.state(), ConsumerGroupState::Empty);
    assert_eq!((rig.group.epoch(), rig.group.deadline_ms()), (4, None));
    // Epochs go on from there.
    assert_eq!(rig.join("c", &["t"]).member_epoch, 5);
}

#[test]
fn a_static_member_that_is_back_in_time_finds_everything_as_it_was() {
    let mut rig = Rig::new(&[("t", 2)]);
    let t = rig.topics.id("t");
    rig.send(&fixed("a1", "a")).unwrap();
    rig.join("b", &["t"]);
    rig.beat("a1", 1);
    rig.own("a1", 1, &[(t, &[0])]);
    rig.beat("b", 2);
    assert_eq!(
        rig.send(&fixed_beat("a1", "a", LEAVE_STATIC_EPOCH)),
        Ok(left("a1", -2))
    );
    assert_eq!(rig.group.epoch(), 2);
    assert_eq!(rig.beat("b", 2).assignment, None);
    let answer = rig.send(&fixed("a2", "a")).unwrap();
    assert_eq!(
        (answer.member_epoch, answer.assignment),
        (2, Some(assignment(&[(t, &[0])])))
    );
    assert_eq!(rig.group.state(), ConsumerGroupState::Stable);
    assert_eq!(rig.group.len(), 2);
    // The one before is nobody now.
    let error = rig.send(&fixed_beat("a1", "a", 2)).unwrap_err();
    assert_eq!(error.code, ErrorCode::FencedInstanceId);
    assert_eq!(
        error.message,
        "Static member a1 with instance id a was fenced by member a2."
    );
    let error = rig.send(&fixed_beat("a1", "a", -1)).unwrap_err();
    assert_eq!(error.code, ErrorCode::FencedInstanceId);
    assert_eq!(
        rig.send(&beat("a1", 2)).unwrap_err().code,
        ErrorCode::UnknownMemberId
    );
}

#[test]
fn a_static_member_that_comes_back_with_another_subscription_starts_a_rebalance() {
    let mut rig = Rig::new(&[("t", 1), ("u", 1)]);
    rig.send(&fixed("a1", "a")).unwrap();
    rig.send(&fixed_beat("a1", "a", LEAVE_STATIC_EPOCH)).unwrap();
    let other = HeartbeatRequest {
        topic_names: Some(vec!["u"]),
        ..fixed("a2", "a")
    };
    let answer = rig.send(&other).unwrap();
    let u = rig.topics.id("u");
    assert_eq!(
        (answer.member_epoch, answer.assignment),
        (2, Some(assignment(&[(u, &[0])])))
    );
}

#[test]
fn an_instance_that_did_not_leave_is_taken() {
    let mut rig = Rig::new(&[("t", 1)]);
    rig.send(&fixed("a1", "a")).unwrap();
    let error = rig.send(&fixed("a2", "a")).unwrap_err();
    assert_eq!(error.code, ErrorCode::UnreleasedInstanceId);
    assert_eq!(
        error.message,
        "Static member a2 with instance id a cannot join the group because the instance id is owned by a1 member."
    );
    // The same member tries again, its first answer lost.
    assert_eq!(rig.send(&fixed("a1", "a")).unwrap().member_epoch, 1);
    // Until the session ends.
    rig.pass(45_000);
    assert_eq!(rig.send(&fixed("a2", "a")).unwrap().member_epoch, 3);
}

#[test]
fn a_full_group_takes_static_members_back() {
    let mut rig = Rig::new(&[("t", 1)]);
    rig.config.size_max = 1;
    rig.send(&fixed("a1", "a")).unwrap();
    rig.send(&fixed_beat("a1", "a", LEAVE_STATIC_EPOCH)).unwrap();
    rig.send(&fixed("a2", "a")).unwrap();
    let error = rig.send(&fixed("b1", "b")).unwrap_err();
    assert_eq!(error.code, ErrorCode::GroupMaxSizeReached);
}

#[test]
fn unknown_instances() {
    let mut rig = Rig::new(&[("t", 1)]);
    rig.send(&fixed("a1", "a")).unwrap();
    for epoch in [1, -1, -2] {
        let error = rig.send(&fixed_beat("a1", "b", epoch)).unwrap_err();
        assert_eq!(error.code, ErrorCode::UnknownMemberId);
        assert_eq!(error.message, "Instance id b is unknown.");
    }
    // Who is away has no epoch to go on with.
    rig.send(&fixed_beat("a1", "a", -2)).unwrap();
    let error = rig.send(&fixed_beat("a1", "a", 1)).unwrap_err();
    assert_eq!(error.code, ErrorCode::FencedMemberEpoch);
    assert_eq!(rig.send(&fixed("a1", "a")).unwrap().member_epoch, 1);
}

#[test]
fn a_member_that_was_to_give_up_partitions_gives_them_up_when_it_leaves_for_a_while() {
    let mut rig = Rig::new(&[("t", 2)]);
    let t = rig.topics.id("t");
    rig.send(&fixed("a1", "a")).unwrap();
    rig.join("b", &["t"]);
    rig.beat("a1", 1);
    assert_eq!(rig.beat("b", 2).assignment, None);
    rig.send(&fixed_beat("a1", "a", -2)).unwrap();
    assert_eq!(rig.beat("b", 2).assignment, Some(assignment(&[(t, &[1])])));
    let answer = rig.send(&fixed("a2", "a")).unwrap();
    assert_eq!(
        (answer.member_epoch, answer.assignment),
        (2, Some(assignment(&[(t, &[0])])))
    );
}

#[test]
fn a_static_member_leaves_for_good_with_minus_one() {
    let mut rig = Rig::new(&[("t", 1)]);
    rig.send(&fixed("a1", "a")).unwrap();
    assert_eq!(rig.send(&fixed_beat("a1", "a", -1)), Ok(left("a1", -1)));
    assert!(rig.group.is_empty());
}

#[test]
fn a_member_may_become_static_and_change_its_instance() {
    let mut rig = Rig::new(&[("t", 1)]);
    rig.join("a", &["t"]);
    rig.send(&fixed("a", "one")).unwrap();
    rig.send(&fixed("a", "two")).unwrap();
    let error = rig.send(&fixed_beat("a", "one", 1)).unwrap_err();
    assert_eq!(error.code, ErrorCode::UnknownMemberId);
    rig.send(&fixed("b", "one")).unwrap();
    assert_eq!(rig.group.len(), 2);
}

#[test]
fn silence_ends_a_session() {
    let mut rig = Rig::new(&[("t", 2)]);
    let t = rig.topics.id("t");
    rig.join("a", &["t"]);
    rig.join("b", &["t"]);
    rig.pass(44_999);
    rig.beat("b", 2);
    let fenced = rig.pass(1);
    let expected = FencedMember {
        id: "a".into(),
        reason: FenceReason::SessionExpired,
    };
    assert_eq!(fenced, [expected]);
    assert_eq!(rig.group.epoch(), 3);
    assert_eq!(rig.beat("b", 2).assignment, Some(assignment(&[(t, &[0, 1])])));
    let error = rig.send(&beat("a", 1)).unwrap_err();
    assert_eq!(error.code, ErrorCode::UnknownMemberId);
}

#[test]
fn a_static_member_away_is_given_up_when_its_session_ends() {
    let mut rig = Rig::new(&[("t", 1)]);
    rig.send(&fixed("a1", "a")).unwrap();
    rig.pass(30_000);
    rig.send(&fixed_beat("a1", "a", -2)).unwrap();
    assert_eq!(rig.pass(14_999), []);
    assert_eq!(rig.pass(1).len(), 1);
    assert!(rig.group.is_empty());
}

#[test]
fn whoever_gives_up_nothing_in_time_is_fenced() {
    let mut rig = Rig::new(&[("t", 2)]);
    rig.join("a", &["t"]);
    rig.join("b", &["t"]);
    let t = rig.topics.id("t");
    rig.beat("a", 1);
    for _ in 0..5 {
        rig.pass(10_000);
        rig.own("a", 1, &[(t, &[0, 1])]);
        rig.beat("b", 2);
    }
    assert_eq!(rig.pass(9_999), []);
    rig.own("a", 1, &[(t, &[0, 1])]);
    let fenced = rig.pass(1);
    let expected = FencedMember {
        id: "a".into(),
        reason: FenceReason::RebalanceTimedOut,
    };
    assert_eq!(fenced, [expected]);
    assert_eq!(rig.beat("b", 2).assignment, Some(assignment(&[(t, &[0, 1])])));
}

#[test]
fn whoever_gives_up_in_time_is_not() {
    let mut rig = Rig::new(&[("t", 2)]);
    rig.join("a", &["t"]);
    rig.join("b", &["t"]);
    let t = rig.topics.id("t");
    rig.beat("a", 1);
    rig.pass(30_000);
    rig.own("a", 1, &[(t, &[0])]);
    rig.beat("b", 2);
    assert_eq!(rig.pass(31_000), []);
}

#[test]
fn a_restart_gives_everyone_a_new_session_and_the_time_to_revoke() {
    let mut rig = Rig::new(&[("t", 2)]);
    rig.join("a", &["t"]);
    rig.join("b", &["t"]);
    rig.beat("a", 1);
    rig.now_ms += 1_000_000;
    rig.restart();
    assert_eq!(rig.pass(44_999), []);
    rig.beat("a", 1);
    rig.beat("b", 2);
    assert_eq!(rig.pass(15_000), []);
    let fenced = rig.pass(1);
    assert_eq!(fenced[0].reason, FenceReason::RebalanceTimedOut);
    assert_eq!(&*fenced[0].id, "a");
}

#[test]
fn many_at_once_are_one_epoch() {
    let mut rig = Rig::new(&[("t", 2)]);
    rig.join("a", &["t"]);
    rig.join("b", &["t"]);
    assert_eq!(rig.pass(45_000).len(), 2);
    assert_eq!(rig.group.epoch(), 3);
    assert_eq!(rig.group.state(), ConsumerGroupState::Empty);
    assert_eq!(
        rig.join("c", &["t"]).assignment.as_ref().map(Assignment::len),
        Some(2)
    );
}
