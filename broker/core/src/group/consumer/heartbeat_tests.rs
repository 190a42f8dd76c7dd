//! The rules of a heartbeat, one by one.

use strandline_wire::{ErrorCode, Uuid};

use super::record::{ConsumerRecord, CurrentAssignment, MemberState};
use super::request::{GroupError, HeartbeatRequest};
use super::state::ConsumerGroupState;
use super::testing::{Rig, assignment, beat, join};
use super::{Assignment, HeartbeatAnswer};

fn code(answer: Result<HeartbeatAnswer, GroupError>) -> ErrorCode {
    answer.unwrap_err().code
}

fn all(topic: Uuid, partitions: i32) -> Assignment {
    (0..partitions).map(|partition| (topic, partition)).collect()
}

fn kinds(records: &[ConsumerRecord]) -> Vec<&'static str> {
    let kind = |record: &ConsumerRecord| match record {
        ConsumerRecord::GroupEpoch(Some(_)) => "epoch",
        ConsumerRecord::TopicMetadata(false) => "-topics",
        ConsumerRecord::Member(_, Some(_)) => "member",
        ConsumerRecord::Member(_, None) => "-member",
        ConsumerRecord::TargetEpoch(Some(_)) => "target epoch",
        ConsumerRecord::Target(_, Some(_)) => "target",
        ConsumerRecord::Target(_, None) => "-target",
        ConsumerRecord::Current(_, Some(_)) => "current",
        ConsumerRecord::Current(_, None) => "-current",
        _ => "other",
    };
    records.iter().map(kind).collect()
}

#[test]
fn the_first_member_gets_everything_at_epoch_one() {
    let mut rig = Rig::new(&[("t", 3), ("other", 1)]);
    assert!(!rig.group.exists());
    let answer = rig.join("a", &["t"]);
    let expected = HeartbeatAnswer {
        member_id: "a".into(),
        member_epoch: 1,
        heartbeat_interval_ms: 5000,
        assignment: Some(all(rig.topics.id("t"), 3)),
    };
    assert_eq!(answer, expected);
    assert_eq!(
        kinds(&rig.last),
        ["member", "epoch", "target", "target epoch", "current"]
    );
    assert_eq!(rig.group.state(), ConsumerGroupState::Stable);
    // Nothing new, nothing to store, nothing to tell.
    assert_eq!(rig.beat("a", 1).assignment, None);
    assert_eq!(kinds(&rig.last), [""; 0]);
}

#[test]
fn partitions_move_once_their_owner_says_that_it_gave_them_up() {
    let mut rig = Rig::new(&[("t", 4)]);
    let t = rig.topics.id("t");
    rig.join("a", &["t"]);
    // b is at the new epoch at once, but owns nothing yet.
    let b = rig.join("b", &["t"]);
    assert_eq!((b.member_epoch, b.assignment), (2, Some(Assignment::default())));
    assert_eq!(rig.group.state(), ConsumerGroupState::Reconciling);
    // a is asked, and stays at its epoch as long as it owns the others.
    let a = rig.beat("a", 1);
    assert_eq!(
        (a.member_epoch, a.assignment),
        (1, Some(assignment(&[(t, &[0, 1])])))
    );
    for _ in 0..2 {
        assert_eq!(rig.own("a", 1, &[(t, &[0, 1, 2, 3])]).member_epoch, 1);
        assert_eq!(rig.own("a", 1, &[(t, &[0, 1, 3])]).member_epoch, 1);
        assert_eq!(rig.beat("b", 2).assignment, None);
    }
    let a = rig.own("a", 1, &[(t, &[0, 1])]);
    assert_eq!((a.member_epoch, a.assignment), (2, None));
    let b = rig.beat("b", 2);
    assert_eq!(
        (b.member_epoch, b.assignment),
        (2, Some(assignment(&[(t, &[2, 3])])))
    );
    assert_eq!(rig.group.state(), ConsumerGroupState::Stable);
}

#[test]
fn a_member_waits_for_part_of_its_target() {
    let mut rig = Rig::new(&[("t", 6)]);
    let t = rig.topics.id("t");
    rig.join("a", &["t"]);
    rig.join("b", &["t"]);
    rig.beat("a", 1);
    rig.own("a", 1, &[(t, &[0, 1, 2])]);
    rig.beat("b", 2);
    // c is to get one from each.
    let c = rig.join("c", &["t"]);
    assert_eq!(c.assignment, Some(Assignment::default()));
    rig.beat("a", 2);
    rig.own("a", 2, &[(t, &[0, 1])]);
    assert_eq!(rig.beat("c", 3).assignment, Some(assignment(&[(t, &[2])])));
    assert_eq!(rig.group.state(), ConsumerGroupState::Reconciling);
    rig.beat("b", 2);
    rig.own("b", 2, &[(t, &[3, 4])]);
    assert_eq!(rig.beat("c", 3).assignment, Some(assignment(&[(t, &[2, 5])])));
    assert_eq!(rig.group.state(), ConsumerGroupState::Stable);
}

#[test]
fn requests_that_make_no_sense() {
    let invalid = |request: HeartbeatRequest<'_>| {
        let mut rig = Rig::new(&[("t", 1)]);
        rig.join("known", &["t"]);
        let error = rig.send(&request).unwrap_err();
        assert_eq!(error.code, ErrorCode::InvalidRequest, "{request:?}");
        error.message
    };
    let t = Uuid::from_u128(1);
    assert_eq!(invalid(join("", &["t"])), "MemberId can't be empty.");
    assert_eq!(invalid(beat("", 1)), "MemberId can't be empty.");
    assert_eq!(
        invalid(HeartbeatRequest {
            version: 0,
            ..beat("", 1)
        }),
        "MemberId can't be empty."
    );
    assert_eq!(
        invalid(HeartbeatRequest {
            version: 0,
            ..beat("", -1)
        }),
        "MemberId can't be empty."
    );
    assert_eq!(
        invalid(HeartbeatRequest {
            instance_id: Some(""),
            ..beat("known", 1)
        }),
        "InstanceId can't be empty."
    );
    assert_eq!(
        invalid(HeartbeatRequest {
            rack_id: Some(""),
            ..beat("known", 1)
        }),
        "RackId can't be empty."
    );
    assert_eq!(
        invalid(HeartbeatRequest {
            rebalance_timeout_ms: -1,
            ..join("a", &["t"])
        }),
        "RebalanceTimeoutMs must be provided in first request."
    );
    for owned in [None, Some(assignment(&[(t, &[0])]))] {
        assert_eq!(
            invalid(HeartbeatRequest {
                owned,
                ..join("a", &["t"])
            }),
            "TopicPartitions must be empty when (re-)joining."
        );
    }
    assert_eq!(
        invalid(HeartbeatRequest {
            topic_names: None,
            ..join("a", &[])
        }),
        "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
    );
    assert_eq!(invalid(beat("known", -2)), "InstanceId can't be null.");
    assert_eq!(invalid(beat("known", -3)), "MemberEpoch is invalid.");

    let mut rig = Rig::new(&[]);
    rig.group = super::ConsumerGroup::new("");
    let error = rig.send(&join("a", &["t"])).unwrap_err();
    assert_eq!(error.message, "GroupId can't be empty.");
}

#[test]
fn version_0_lets_the_broker_make_the_id() {
    let mut rig = Rig::new(&[("t", 1)]);
    let answer = rig.send(&HeartbeatRequest {
        version: 0,
        new_member_id: "made",
        ..join("", &["t"])
    });
    assert_eq!(&*answer.unwrap().member_id, "made");
    assert_eq!(&*rig.beat("made", 1).member_id, "made");
}

#[test]
fn epochs_fence() {
    let mut rig = Rig::new(&[("t", 4)]);
    let t = rig.topics.id("t");
    rig.join("a", &["t"]);
    rig.join("b", &["t"]);
    rig.beat("a", 1);
    rig.own("a", 1, &[(t, &[0, 1])]);
    // a is at 2. An epoch that was never given:
    let error = rig.send(&beat("a", 3)).unwrap_err();
    assert_eq!(error.code, ErrorCode::FencedMemberEpoch);
    assert_eq!(
        error.message,
        "The consumer group member has a greater member epoch (3) than the one known by the group coordinator (2). \
         The member must abandon all its partitions and rejoin."
    );
    // The answer was lost: fine, as long as a owns nothing that was taken away.
    assert_eq!(rig.own("a", 1, &[(t, &[0])]).member_epoch, 2);
    let owned = Some(assignment(&[(t, &[0, 2])]));
    assert_eq!(
        code(rig.send(&HeartbeatRequest {
            owned,
            ..beat("a", 1)
        })),
        ErrorCode::FencedMemberEpoch
    );
    assert_eq!(code(rig.send(&beat("a", 1))), ErrorCode::FencedMemberEpoch);
    // b never was at 1.
    let owned = Some(Assignment::default());
    assert_eq!(
        code(rig.send(&HeartbeatRequest {
            owned,
            ..beat("b", 1)
        })),
        ErrorCode::FencedMemberEpoch
    );
    // A fenced member joins again under its id, and is where it was.
    let answer = rig.join("a", &["t"]);
    assert_eq!(
        (answer.member_epoch, answer.assignment),
        (2, Some(assignment(&[(t, &[0, 1])])))
    );
}

#[test]
fn strangers() {
    let mut rig = Rig::new(&[("t", 1)]);
    let error = rig.send(&beat("a", 1)).unwrap_err();
    assert_eq!(
        (error.code, error.message.as_str()),
        (ErrorCode::GroupIdNotFound, "Consumer group g not found.")
    );
    assert_eq!(code(rig.send(&beat("a", -1))), ErrorCode::GroupIdNotFound);
    assert!(!rig.group.exists());
    rig.join("a", &["t"]);
    let error = rig.send(&beat("b", 1)).unwrap_err();
    assert_eq!(
        (error.code, error.message.as_str()),
        (ErrorCode::UnknownMemberId, "Member b is not a member of group g.")
    );
    assert_eq!(code(rig.send(&beat("b", -1))), ErrorCode::UnknownMemberId);
}

#[test]
fn a_full_group_refuses_new_members() {
    let mut rig = Rig::new(&[("t", 2)]);
    rig.config.size_max = 1;
    rig.join("a", &["t"]);
    let error = rig.send(&join("b", &["t"])).unwrap_err();
    assert_eq!(error.code, ErrorCode::GroupMaxSizeReached);
    assert_eq!(
        error.message,
        "The consumer group has reached its maximum capacity of 1 members."
    );
    rig.beat("a", 1);
    rig.join("a", &["t"]);
}

#[test]
fn assignors_are_voted_for() {
    let mut rig = Rig::new(&[("t", 4)]);
    let t = rig.topics.id("t");
    let ask = |id, assignor| HeartbeatRequest {
        server_assignor: Some(assignor),
        ..join(id, &["t"])
    };
    let error = rig.send(&ask("a", "sticky")).unwrap_err();
    assert_eq!(error.code, ErrorCode::UnsupportedAssignor);
    assert_eq!(
        error.message,
        "ServerAssignor sticky is not supported. Supported assignors: uniform, range."
    );
    // b would keep 0 and 1 of what it had if the group were sticky.
    rig.join("b", &["t"]);
    rig.send(&ask("a", "range")).unwrap();
    assert_eq!(rig.group.describe(&rig.config, &rig.topics).assignor, "range");
    let target = &rig.group.describe(&rig.config, &rig.topics).members[0].target;
    assert_eq!(target[0].partitions, [0, 1]);
    // One against one: the first of the configured.
    rig.send(&ask("c", "uniform")).unwrap();
    assert_eq!(rig.group.describe(&rig.config, &rig.topics).assignor, "uniform");
    // An assignor that is not configured any more has no say.
    rig.config.assignors = vec![super::assignor::Assignor::Range];
    assert_eq!(rig.group.describe(&rig.config, &rig.topics).assignor, "range");
    assert!(rig.topics.id("t") == t);
}

#[test]
fn whoever_says_everything_is_told_everything() {
    let mut rig = Rig::new(&[("t", 1)]);
    let t = rig.topics.id("t");
    rig.join("a", &["t"]);
    let full = HeartbeatRequest {
        member_epoch: 1,
        owned: Some(all(t, 1)),
        ..join("a", &["t"])
    };
    assert_eq!(rig.send(&full).unwrap().assignment, Some(all(t, 1)));
    assert_eq!(kinds(&rig.last), [""; 0]);
    let partial = HeartbeatRequest {
        topic_names: None,
        ..full
    };
    assert_eq!(rig.send(&partial).unwrap().assignment, None);
}

#[test]
fn another_subscription_is_another_epoch() {
    let mut rig = Rig::new(&[("t", 2), ("u", 2)]);
    let (t, u) = (rig.topics.id("t"), rig.topics.id("u"));
    rig.join("a", &["t"]);
    let subscribe = |topics: &[&'static str], epoch| HeartbeatRequest {
        topic_names: Some(topics.to_vec()),
        ..beat("a", epoch)
    };
    // Added: no revocation, so at once.
    let answer = rig.send(&subscribe(&["t", "u"], 1)).unwrap();
    let both = assignment(&[(t, &[0, 1]), (u, &[0, 1])]);
    assert_eq!((answer.member_epoch, answer.assignment), (2, Some(both)));
    // The same in another order is nothing new.
    assert_eq!(rig.send(&subscribe(&["u", "t", "t"], 2)).unwrap().member_epoch, 2);
    assert_eq!(kinds(&rig.last), [""; 0]);
    // Taken away: t is revoked first.
    let answer = rig.send(&subscribe(&["u"], 2)).unwrap();
    assert_eq!((answer.member_epoch, answer.assignment), (2, Some(all(u, 2))));
    assert_eq!(rig.own("a", 2, &[(u, &[0, 1])]).member_epoch, 3);
    // Nothing at all, said at once with what is owned.
    let nothing = HeartbeatRequest {
        owned: Some(Assignment::default()),
        ..subscribe(&[], 3)
    };
    let answer = rig.send(&nothing).unwrap();
    assert_eq!(
        (answer.member_epoch, answer.assignment),
        (4, Some(Assignment::default()))
    );
}

#[test]
fn a_member_without_topics_is_a_member() {
    let mut rig = Rig::new(&[("t", 1)]);
    let answer = rig.join("a", &[]);
    assert_eq!(
        (answer.member_epoch, answer.assignment),
        (1, Some(Assignment::default()))
    );
    rig.join("b", &["t"]);
    // Not subscribing changes nothing for the others.
    assert_eq!(rig.join("c", &[]).member_epoch, 2);
    assert_eq!(rig.beat("a", 1).member_epoch, 2);
    assert_eq!(rig.group.state(), ConsumerGroupState::Stable);
}

#[test]
fn other_words_are_kept_without_a_new_epoch() {
    let mut rig = Rig::new(&[("t", 1)]);
    rig.join("a", &["t"]);
    let words = HeartbeatRequest {
        rack_id: Some("r1"),
        rebalance_timeout_ms: 7,
        server_assignor: Some("range"),
        client_id: "renamed",
        client_host: "/::1",
        ..beat("a", 1)
    };
    assert_eq!(rig.send(&words).unwrap().member_epoch, 1);
    assert_eq!(kinds(&rig.last), ["member"]);
    let member = &rig.group.describe(&rig.config, &rig.topics).members[0];
    assert_eq!(member.metadata.rack_id.as_deref(), Some("r1"));
    assert_eq!(
        (&*member.metadata.client_id, &*member.metadata.client_host),
        ("renamed", "/::1")
    );
    assert_eq!(member.metadata.rebalance_timeout_ms, 7);
    // What is not said stays.
    assert!(member.metadata.topic_names.contains("t"));
}

#[test]
fn topics_that_come_grow_and_go() {
    let mut rig = Rig::new(&[]);
    let answer = rig.join("a", &["t"]);
    assert_eq!(
        (answer.member_epoch, answer.assignment),
        (1, Some(Assignment::default()))
    );
    let t = rig.topics.create("t", 1);
    rig.topics.create("other", 1);
    let answer = rig.beat("a", 1);
    assert_eq!((answer.member_epoch, answer.assignment), (2, Some(all(t, 1))));
    rig.topics.create("another", 1);
    assert_eq!(rig.beat("a", 2).member_epoch, 2);
    assert_eq!(kinds(&rig.last), [""; 0]);
    rig.topics.grow("t", 3);
    let answer = rig.beat("a", 2);
    assert_eq!((answer.member_epoch, answer.assignment), (3, Some(all(t, 3))));
    // Gone and made again: another topic.
    rig.topics.delete("t");
    let again = rig.topics.create("t", 2);
    let answer = rig.beat("a", 3);
    assert_eq!(
        (answer.member_epoch, answer.assignment),
        (3, Some(Assignment::default()))
    );
    let answer = rig.own("a", 3, &[]);
    assert_eq!((answer.member_epoch, answer.assignment), (4, Some(all(again, 2))));
    rig.topics.delete("t");
    rig.beat("a", 4);
    assert_eq!(rig.own("a", 4, &[]).member_epoch, 5);
}

#[test]
fn a_change_between_two_heartbeats_is_noticed_after_a_restart() {
    let mut rig = Rig::new(&[("t", 1)]);
    let t = rig.topics.id("t");
    rig.join("a", &["t"]);
    rig.topics.grow("t", 2);
    rig.restart();
    let answer = rig.beat("a", 1);
    assert_eq!((answer.member_epoch, answer.assignment), (2, Some(all(t, 2))));
    rig.restart();
    assert_eq!(rig.beat("a", 2).member_epoch, 2);
    assert_eq!(kinds(&rig.last), [""; 0]);
}

#[test]
fn topic_metadata_of_older_brokers_goes_with_the_next_epoch() {
    let mut rig = Rig::new(&[("t", 1)]);
    rig.join("a", &["t"]);
    rig.log.push(ConsumerRecord::TopicMetadata(true));
    rig.restart();
    rig.beat("a", 1);
    assert_eq!(kinds(&rig.last), [""; 0]);
    rig.join("b", &["t"]);
    assert!(kinds(&rig.last).contains(&"-topics"));
}

#[test]
fn a_state_of_a_later_version_starts_over() {
    let mut rig = Rig::new(&[("t", 2)]);
    let t = rig.topics.id("t");
    rig.join("a", &["t"]);
    let current = CurrentAssignment {
        epoch: 1,
        previous_epoch: 0,
        state: MemberState::Unknown(77),
        assigned: assignment(&[(t, &[0])]),
        pending_revocation: Assignment::default(),
    };
    rig.log.push(ConsumerRecord::Current("a".into(), Some(current)));
    rig.restart();
    let error = rig.send(&beat("a", 1)).unwrap_err();
    assert_eq!(error.code, ErrorCode::FencedMemberEpoch);
    assert_eq!(
        error.message,
        "The consumer group member is in a unknown state. The member must abandon all its partitions and rejoin."
    );
    assert_eq!(rig.join("a", &["t"]).assignment, Some(all(t, 2)));
}

#[test]
fn intervals_are_the_groups_own() {
    let mut rig = Rig::new(&[("t", 1)]);
    rig.config = rig.config.clone().with_group(Some(50_000), Some(3_000));
    assert_eq!(rig.join("a", &["t"]).heartbeat_interval_ms, 3_000);
    assert_eq!(rig.group.deadline_ms(), Some(rig.now_ms + 50_000));
}
