//! A group that goes from the classic protocol to the consumer protocol and back, with its members.

use std::rc::Rc;

use bytes::{BufMut, Bytes, BytesMut};
use strandline_wire::primitives::WriteExt;
use strandline_wire::{ErrorCode, Uuid};

use super::embedded::{Assigned, by_id, write_assignment};
use super::request::{FenceReason, HeartbeatRequest};
use super::testing::{Rig, Topics, assignment, beat, compacted, join};
use super::{Assignment, ConsumerGroup, ConsumerGroupConfig, ConsumerGroupState, MigrationPolicy};
use crate::group::classic::{
    ClassicConfig, ClassicGroup, Identity, JoinAnswer, JoinRequest, LeavingMember, MigratingMember, Protocol,
    SyncRequest,
};

/// A subscription of version 1: topics, and the partitions that a cooperative member still owns.
fn subscription(topics: &[&str], owned: &[(&str, &[i32])]) -> Bytes {
    let mut bytes = BytesMut::new();
    bytes.put_i16(1);
    bytes.put_length(false, Some(topics.len()));
    for topic in topics {
        bytes.put_string(false, topic);
    }
    bytes.put_length(false, None);
    bytes.put_length(false, Some(owned.len()));
    for (topic, partitions) in owned {
        bytes.put_string(false, topic);
        bytes.put_length(false, Some(partitions.len()));
        for partition in *partitions {
            bytes.put_i32(*partition);
        }
    }
    bytes.freeze()
}

fn protocol(name: &str, metadata: Bytes) -> Protocol {
    Protocol {
        name: name.into(),
        metadata,
    }
}

fn migrating(id: &str, assignment: Bytes) -> MigratingMember {
    MigratingMember {
        member_id: id.into(),
        instance_id: None,
        client_id: "client".into(),
        client_host: "/127.0.0.1".into(),
        session_timeout_ms: 10_000,
        rebalance_timeout_ms: 20_000,
        protocols: vec![protocol("range", subscription(&["t"], &[]))],
        assignment,
    }
}

pub(super) fn rejoin(id: &str, owned: &[(&str, &[i32])]) -> JoinRequest {
    JoinRequest {
        version: 5,
        member_id: id.into(),
        instance_id: None,
        client_id: "client".into(),
        client_host: "/127.0.0.1".into(),
        session_timeout_ms: 10_000,
        rebalance_timeout_ms: 20_000,
        protocol_type: "consumer".into(),
        protocols: vec![protocol("range", subscription(&["t"], owned))],
        reason: None,
        random: Uuid::from_u128(7),
    }
}

fn identity(id: &str, generation: i32) -> Identity {
    Identity {
        member_id: id.into(),
        instance_id: None,
        generation,
    }
}

fn sync_request(id: &str, generation: i32) -> SyncRequest {
    SyncRequest {
        version: 5,
        identity: identity(id, generation),
        protocol_type: Some("consumer".into()),
        protocol_name: Some("range".into()),
        assignments: Vec::new(),
    }
}

pub(super) fn leaving(id: &str) -> LeavingMember {
    LeavingMember {
        member_id: id.into(),
        instance_id: None,
        reason: None,
    }
}

impl Rig {
    pub(super) fn classic_join(&mut self, request: &JoinRequest) -> JoinAnswer {
        let effects = self
            .group
            .classic_join(self.now_ms, &self.config, request, &self.topics);
        self.store(effects)
    }

    /// The assignment that a sync gives.
    pub(super) fn sync(&mut self, id: &str, generation: i32) -> Result<Assignment, ErrorCode> {
        let effects = self
            .group
            .classic_sync(self.now_ms, &sync_request(id, generation), &self.topics);
        let answer = self.store(effects);
        if answer.error != ErrorCode::None {
            return Err(answer.error);
        }
        let assigned = Assigned::read(&answer.assignment).unwrap();
        Ok(by_id(&assigned.partitions, &self.topics))
    }

    pub(super) fn classic_beat(&mut self, id: &str, generation: i32) -> ErrorCode {
        let effects = self
            .group
            .classic_heartbeat(self.now_ms, &identity(id, generation));
        self.store(effects)
    }

    pub(super) fn classic_leave(&mut self, members: &[LeavingMember]) -> Vec<ErrorCode> {
        let effects = self.group.classic_leave(members, &self.topics);
        let answer = self.store(effects);
        answer.members.iter().map(|member| member.error).collect()
    }

    /// A classic group of generation 5 becomes this group.
    fn upgrade(members: &[MigratingMember], topics: Topics) -> Self {
        let mut rig = Self::new(&[]);
        rig.topics = topics;
        let (group, effects) =
            ConsumerGroup::upgraded("g", 5, members, rig.now_ms, &rig.config, &rig.topics).unwrap();
        rig.group = group;
        rig.store(effects);
        rig
    }
}

/// a has 0 and 1, b has 2 and 3.
pub(super) fn two() -> (Rig, Uuid) {
    let topics = Topics::new(&[("t", 4)]);
    let t = topics.id("t");
    let assigned = |partitions| write_assignment(1, &assignment(&[(t, partitions)]), &topics);
    let members = [
        migrating("a", assigned(&[0, 1])),
        migrating("b", assigned(&[2, 3])),
    ];
    (Rig::upgrade(&members, topics), t)
}

#[test]
fn members_keep_what_they_have_when_the_group_goes_over() {
    let (mut rig, t) = two();
    assert_eq!(
        (rig.group.epoch(), rig.group.state()),
        (5, ConsumerGroupState::Stable)
    );
    let description = rig.group.describe(&rig.config, &rig.topics);
    assert!(description.members.iter().all(|member| member.member_type() == 0));
    assert_eq!(rig.classic_beat("a", 5), ErrorCode::None);
    assert_eq!(rig.sync("b", 5), Ok(assignment(&[(t, &[2, 3])])));
    rig.restart();
    assert_eq!(rig.classic_beat("a", 5), ErrorCode::None);
    // Commits are by generation.
    assert_eq!(rig.group.commit_allowed("a", None, 5, Some(8)), Ok(()));
    let refused = rig.group.commit_allowed("a", None, 4, Some(9)).unwrap_err();
    assert_eq!(refused.code, ErrorCode::IllegalGeneration);
}

#[test]
fn a_new_member_gets_its_share_from_cooperative_ones() {
    let (mut rig, t) = two();
    let c = rig.join("c", &["t"]);
    assert_eq!((c.member_epoch, c.assignment), (6, Some(Assignment::default())));
    // Whoever is behind must join again.
    assert_eq!(rig.classic_beat("a", 5), ErrorCode::RebalanceInProgress);
    assert_eq!(rig.sync("a", 5), Err(ErrorCode::RebalanceInProgress));
    let mut given_up = None;
    for (id, owned) in [("a", [0, 1]), ("b", [2, 3])] {
        let target = rig.group.targets[id].clone();
        let keeps: Vec<i32> = owned.into_iter().filter(|p| target.contains(t, *p)).collect();
        let answer = rig.classic_join(&rejoin(id, &[("t", &owned)]));
        assert_eq!(
            (answer.error, answer.protocol_name.as_deref()),
            (ErrorCode::None, Some("range"))
        );
        assert_eq!((&*answer.leader, answer.members.len()), ("", 0));
        assert_eq!(rig.sync(id, answer.generation), Ok(assignment(&[(t, &keeps)])));
        if keeps.len() == 1 {
            // It was told to keep one: it gives up the other, is told to join, and says so.
            assert_eq!(answer.generation, 5);
            assert_eq!(rig.classic_beat(id, 5), ErrorCode::RebalanceInProgress);
            assert_eq!(rig.beat("c", 6).assignment, None);
            let answer = rig.classic_join(&rejoin(id, &[("t", &keeps)]));
            assert_eq!(answer.generation, 6);
            given_up = owned.into_iter().find(|partition| !keeps.contains(partition));
            assert_eq!(rig.sync(id, 6), Ok(assignment(&[(t, &keeps)])));
        } else {
            assert_eq!(answer.generation, 6);
        }
        assert_eq!(rig.classic_beat(id, 6), ErrorCode::None);
    }
    let given_up = given_up.unwrap();
    assert_eq!(rig.beat("c", 6).assignment, Some(assignment(&[(t, &[given_up])])));
    assert_eq!(rig.group.state(), ConsumerGroupState::Stable);
}

#[test]
fn eager_members_own_nothing_when_they_join() {
    let (mut rig, t) = two();
    rig.join("c", &["t"]);
    for id in ["a", "b"] {
        assert_eq!(rig.classic_join(&rejoin(id, &[])).generation, 6);
        let target = rig.group.targets[id].clone();
        assert_eq!(rig.sync(id, 6), Ok(target));
    }
    assert_eq!(rig.beat("c", 6).assignment, Some(rig.group.targets["c"].clone()));
    assert!(rig.group.targets["c"].contains(t, 1) || rig.group.targets["c"].contains(t, 3));
}

#[test]
fn a_classic_member_waits_for_partitions_without_joining_in_vain() {
    let mut rig = Rig::new(&[("t", 2)]);
    let t = rig.topics.id("t");
    rig.join("c", &["t"]);
    let asked = rig.classic_join(&JoinRequest {
        version: 5,
        ..rejoin("", &[])
    });
    assert_eq!(asked.error, ErrorCode::MemberIdRequired);
    assert_eq!(rig.group.len(), 1);
    let joined = rig.classic_join(&rejoin(&asked.member_id, &[]));
    assert_eq!((joined.error, joined.generation), (ErrorCode::None, 2));
    assert_eq!(rig.sync(&asked.member_id, 2), Ok(Assignment::default()));
    assert_eq!(rig.classic_beat(&asked.member_id, 2), ErrorCode::None);
    rig.beat("c", 1);
    rig.own("c", 1, &[(t, &[0])]);
    // Now it is free.
    assert_eq!(
        rig.classic_beat(&asked.member_id, 2),
        ErrorCode::RebalanceInProgress
    );
    assert_eq!(rig.classic_join(&rejoin(&asked.member_id, &[])).generation, 2);
    assert_eq!(rig.sync(&asked.member_id, 2), Ok(assignment(&[(t, &[1])])));
}

#[test]
fn members_go_over_one_by_one_and_back() {
    let (mut rig, t) = two();
    // a leaves and comes back with the new protocol, then b.
    assert_eq!(rig.classic_leave(&[leaving("a")]), [ErrorCode::None]);
    rig.join("a2", &["t"]);
    assert!(!rig.group.may_downgrade());
    assert_eq!(rig.classic_leave(&[leaving("b")]), [ErrorCode::None]);
    rig.join("b2", &["t"]);
    for _ in 0..3 {
        for id in ["a2", "b2"] {
            let current = rig.group.members[id].current.clone();
            let owned = Some(current.assigned);
            rig.send(&HeartbeatRequest {
                owned,
                ..beat(id, current.epoch)
            })
            .unwrap();
        }
    }
    assert_eq!(rig.group.state(), ConsumerGroupState::Stable);
    // And back: a classic member joins, the others leave.
    let id = rig.classic_join(&rejoin("c", &[])).member_id;
    rig.leave("a2");
    assert!(!rig.group.may_downgrade());
    rig.leave("b2");
    assert!(rig.group.may_downgrade());
    let members = rig.group.migrating_members(&rig.topics);
    assert_eq!(members.len(), 1);
    assert_eq!(
        (&members[0].member_id, members[0].session_timeout_ms),
        (&id, 10_000)
    );
    let config = Rc::new(ClassicConfig::default());
    let (classic, _) = ClassicGroup::downgraded(config, rig.group.epoch(), members, rig.now_ms).unwrap();
    assert_eq!(classic.migrating_members()[0].member_id, id);
    let records = rig.group.dissolve();
    rig.log.extend(records);
    rig.check();
    assert!(!rig.group.exists());
    assert_eq!(compacted(&rig.log), []);
    assert_eq!(rig.topics.id("t"), t);
}

#[test]
fn what_cannot_go_over_stays() {
    let topics = Topics::new(&[("t", 2)]);
    let refused = |members: &[MigratingMember], config: &ConsumerGroupConfig| {
        let error = ConsumerGroup::upgraded("g", 5, members, 0, config, &topics).unwrap_err();
        assert_eq!(error.code, ErrorCode::GroupIdNotFound);
        error.message
    };
    let config = ConsumerGroupConfig::default();
    let small = ConsumerGroupConfig {
        size_max: 0,
        ..config.clone()
    };
    let ok = migrating("a", Bytes::new());
    assert_eq!(
        refused(std::slice::from_ref(&ok), &small),
        "Cannot upgrade classic group g to consumer group because the group size exceeds the consumer group maximum size."
    );
    let malformed = "Cannot upgrade classic group g to consumer group because the embedded consumer protocol is malformed.";
    let odd = MigratingMember {
        protocols: vec![protocol("range", Bytes::from_static(b"x"))],
        ..ok.clone()
    };
    assert_eq!(refused(&[odd], &config), malformed);
    assert_eq!(
        refused(
            &[MigratingMember {
                protocols: Vec::new(),
                ..ok
            }],
            &config
        ),
        malformed
    );
    assert_eq!(
        refused(&[migrating("a", Bytes::from_static(b"x"))], &config),
        malformed
    );
    let mut with_data = write_assignment(1, &Assignment::default(), &topics)[..6].to_vec();
    with_data.extend(b"\0\0\0\x01x");
    assert!(refused(&[migrating("a", with_data.into())], &config).contains("unsupported custom assignor"));
}

#[test]
fn a_partition_that_a_leader_gave_twice_has_one_owner() {
    let topics = Topics::new(&[("t", 2)]);
    let t = topics.id("t");
    let both = write_assignment(1, &assignment(&[(t, &[0, 1])]), &topics);
    let mut rig = Rig::upgrade(&[migrating("a", both.clone()), migrating("b", both)], topics);
    assert_eq!(rig.sync("a", 5), Ok(assignment(&[(t, &[0, 1])])));
    assert_eq!(rig.sync("b", 5), Ok(Assignment::default()));
}

#[test]
fn classic_members_are_held_to_their_timeouts() {
    // Its session.
    let (mut rig, _) = two();
    rig.pass(9_999);
    rig.classic_beat("a", 5);
    let fenced = rig.pass(1);
    assert_eq!(
        (fenced.len(), &*fenced[0].id, fenced[0].reason),
        (1, "b", FenceReason::SessionExpired)
    );
    // The time to join again, however lively it is.
    assert_eq!(rig.classic_beat("a", 5), ErrorCode::RebalanceInProgress);
    rig.pass(9_000);
    assert_eq!(rig.classic_beat("a", 5), ErrorCode::RebalanceInProgress);
    rig.pass(9_000);
    assert_eq!(rig.classic_beat("a", 5), ErrorCode::RebalanceInProgress);
    let fenced = rig.pass(2_000);
    assert_eq!(
        (&*fenced[0].id, fenced[0].reason),
        ("a", FenceReason::RebalanceTimedOut)
    );
    // The time to sync.
    assert_eq!(rig.classic_join(&rejoin("c", &[])).generation, 8);
    rig.pass(9_000);
    rig.classic_beat("c", 8);
    rig.pass(9_000);
    rig.classic_beat("c", 8);
    assert_eq!(rig.pass(2_000)[0].reason, FenceReason::RebalanceTimedOut);
    // Who syncs has all the time.
    assert_eq!(rig.classic_join(&rejoin("d", &[])).generation, 10);
    assert!(rig.sync("d", 10).is_ok());
    for _ in 0..4 {
        rig.pass(9_000);
        assert_eq!(rig.classic_beat("d", 10), ErrorCode::None);
    }
}

#[test]
fn refusals() {
    let (mut rig, _) = two();
    rig.join("c", &["t"]);
    // Strangers, other generations, members of the other protocol.
    assert_eq!(rig.classic_beat("x", 5), ErrorCode::UnknownMemberId);
    assert_eq!(rig.classic_beat("a", 4), ErrorCode::IllegalGeneration);
    assert_eq!(rig.classic_beat("c", 6), ErrorCode::UnknownMemberId);
    assert_eq!(rig.sync("c", 6), Err(ErrorCode::UnknownMemberId));
    let unknown = ErrorCode::UnknownMemberId;
    assert_eq!(
        rig.classic_leave(&[leaving("c"), leaving("x"), leaving("a"), leaving("a")]),
        [unknown, unknown, ErrorCode::None, unknown]
    );
    // Protocols that the others do not support, and none at all.
    let inconsistent = ErrorCode::InconsistentGroupProtocol;
    let other = JoinRequest {
        protocols: vec![protocol("roundrobin", subscription(&["t"], &[]))],
        ..rejoin("n", &[])
    };
    assert_eq!(rig.classic_join(&other).error, inconsistent);
    let none = JoinRequest {
        protocols: Vec::new(),
        ..rejoin("n", &[])
    };
    assert_eq!(rig.classic_join(&none).error, inconsistent);
    let connect = JoinRequest {
        protocol_type: "connect".into(),
        ..rejoin("n", &[])
    };
    assert_eq!(rig.classic_join(&connect).error, inconsistent);
    let malformed = JoinRequest {
        protocols: vec![protocol("range", Bytes::from_static(b"\0"))],
        ..rejoin("n", &[])
    };
    assert_eq!(rig.classic_join(&malformed).error, inconsistent);
    let mut request = sync_request("b", 5);
    request.protocol_name = Some("sticky".into());
    let effects = rig.group.classic_sync(rig.now_ms, &request, &rig.topics);
    assert_eq!(effects.answer.error, inconsistent);
    rig.config.size_max = 2;
    assert_eq!(
        rig.classic_join(&rejoin("n", &[])).error,
        ErrorCode::GroupMaxSizeReached
    );
}

#[test]
fn a_member_that_was_removed_loses_its_partitions_before_it_joins_again() {
    let (mut rig, t) = two();
    rig.join("c", &["t"]);
    assert_eq!(rig.pass(10_000).len(), 2);
    rig.beat("c", 6);
    assert_eq!(
        rig.classic_join(&rejoin("b", &[("t", &[2, 3])])).error,
        ErrorCode::UnknownMemberId
    );
    assert_eq!(
        rig.group.members["c"].current.assigned,
        assignment(&[(t, &[0, 1, 2, 3])])
    );
    assert_eq!(rig.classic_join(&rejoin("b", &[])).error, ErrorCode::None);
}

#[test]
fn static_members_change_their_protocol_in_place() {
    let topics = Topics::new(&[("t", 2)]);
    let t = topics.id("t");
    let all = write_assignment(1, &assignment(&[(t, &[0, 1])]), &topics);
    let fixed = MigratingMember {
        instance_id: Some("i".into()),
        ..migrating("a", all)
    };
    let mut rig = Rig::upgrade(&[fixed], topics);
    // No need to leave first: the protocols do not know each other's epochs.
    let request = HeartbeatRequest {
        instance_id: Some("i"),
        ..join("a2", &["t"])
    };
    let answer = rig.send(&request).unwrap();
    assert_eq!(
        (answer.member_epoch, answer.assignment),
        (5, Some(assignment(&[(t, &[0, 1])])))
    );
    assert!(!rig.group.may_downgrade());
    // And back.
    let named = |id: &str| JoinRequest {
        instance_id: Some("i".into()),
        ..rejoin(id, &[])
    };
    assert_eq!(rig.classic_join(&named("a")).error, ErrorCode::FencedInstanceId);
    let answer = rig.classic_join(&named(""));
    assert_eq!((answer.error, answer.generation), (ErrorCode::None, 5));
    assert!(rig.group.may_downgrade() && rig.group.len() == 1);
    // An operator removes it by its instance alone.
    let removed = LeavingMember {
        instance_id: Some("i".into()),
        ..leaving("")
    };
    assert_eq!(rig.classic_leave(&[removed]), [ErrorCode::None]);
    assert_eq!(rig.classic_join(&named("z")).error, ErrorCode::UnknownMemberId);
}

#[test]
fn policies() {
    use MigrationPolicy::{Bidirectional, Disabled, Downgrade, Upgrade};
    for (name, policy, up, down) in [
        ("BIDIRECTIONAL", Bidirectional, true, true),
        ("disabled", Disabled, false, false),
        ("Upgrade", Upgrade, true, false),
        ("downgrade", Downgrade, false, true),
    ] {
        assert_eq!(MigrationPolicy::from_name(name), Some(policy));
        assert_eq!((policy.allows_upgrade(), policy.allows_downgrade()), (up, down));
    }
    assert_eq!(MigrationPolicy::from_name("sideways"), None);
}
