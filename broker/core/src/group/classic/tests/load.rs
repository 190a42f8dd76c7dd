use super::bench::*;
use crate::group::classic::*;

fn record_of(bench: &Bench) -> GroupRecord {
    bench.group.current_record()
}

#[test]
fn members_go_on_after_a_restart_with_ids_and_assignments_of_before() {
    let mut bench = Bench::new();
    let members = bench.stable(3);
    let record = record_of(&bench);
    bench.now_ms += 3_600_000;
    bench.restart(&record);
    assert_eq!(bench.group.state(), GroupState::Stable);
    assert_eq!(record_of(&bench), record);
    for member in &members {
        let known = identity(&member.id, 1);
        assert_eq!(bench.heartbeat(&known), ErrorCode::None);
        assert_eq!(bench.group.commit(&known, false, bench.now_ms), Ok(()));
        let sync = bench.sync(known, &[]);
        assert_eq!(bench.synced(sync), Ok(&*member.id));
    }
    assert!(bench.group.has_record());
}

#[test]
fn sessions_count_from_the_load_on() {
    let mut bench = Bench::new();
    let members = bench.stable(2);
    let record = record_of(&bench);
    bench.restart(&record);
    bench.pass(9_000);
    bench.heartbeat(&identity(&members[1].id, 1));
    bench.pass(1_000);
    assert_eq!(bench.group.state(), GroupState::PreparingRebalance);
    assert_eq!(bench.group.len(), 1);
}

#[test]
fn a_follower_that_rejoins_after_a_restart_needs_no_rebalance() {
    let mut bench = Bench::new();
    let members = bench.stable(2);
    let record = record_of(&bench);
    bench.restart(&record);
    let follower = bench.join(Join::new().id(&members[1].id));
    assert_eq!(bench.joined(follower).generation, 1);
    let leader = bench.join(Join::new().id(&members[0].id));
    assert!(bench.waits(leader), "the leader is still the leader");
}

#[test]
fn the_leader_of_the_record_leads_whoever_joined_first() {
    let mut bench = Bench::new();
    let members = bench.stable(2);
    let mut record = record_of(&bench);
    record.leader = Some((&*members[1].id).into());
    bench.restart(&record);
    let first = bench.join(Join::new().id(&members[0].id));
    assert_eq!(&*bench.join_answer(first).leader, &*members[1].id);
    let leader = bench.join(Join::new().id(&members[1].id));
    assert!(bench.waits(leader));
    let first = bench.join(Join::new().id(&members[0].id));
    assert_eq!(&*bench.join_answer(first).leader, &*members[1].id);
}

#[test]
fn the_subscribed_topics_are_known_after_a_restart() {
    let mut bench = Bench::new();
    bench.stable(1);
    let mut record = record_of(&bench);
    record.members[0].subscription = "\0\0\0\0\0\u{1}\0\u{1}y".into();
    bench.restart(&record);
    assert!(bench.group.is_subscribed_to("y"));
    assert!(!bench.group.is_subscribed_to("x"));
    assert_eq!(bench.group.offset_expiry(), OffsetExpiry::SinceCommit);
}

#[test]
fn an_empty_group_keeps_the_time_since_which_it_is_empty() {
    let mut bench = Bench::new();
    bench.stable(1);
    bench.pass(10_000);
    let record = bench.persisted(Ok(()));
    let emptied_ms = bench.now_ms;
    bench.pass(5_000);
    bench.restart(&record);
    assert_eq!(bench.group.state(), GroupState::Empty);
    assert_eq!(bench.group.offset_expiry(), OffsetExpiry::Since(emptied_ms));
    assert_eq!(bench.group.generation(), 2);
    // Records of before KIP-211 do not have that time.
    let mut old = record;
    old.state_since_ms = None;
    bench.restart(&old);
    assert_eq!(bench.group.offset_expiry(), OffsetExpiry::SinceCommit);
}

#[test]
fn the_next_generation_counts_on_from_the_record() {
    let mut bench = Bench::without_delay();
    bench.stable(1);
    bench.pass(10_000);
    let record = bench.persisted(Ok(()));
    bench.restart(&record);
    let ticket = bench.join(Join::new().version(3));
    assert_eq!(bench.joined(ticket).generation, 3);
}

#[test]
fn static_members_are_known_by_their_instance_ids_after_a_restart() {
    let mut bench = Bench::new();
    let members = bench.stable_static(&["one", "two"]);
    let record = record_of(&bench);
    bench.restart(&record);
    let ticket = bench.join(Join::new().instance("two"));
    bench.persist_all();
    assert_eq!(bench.joined(ticket).generation, 1);
    let old = static_identity(&members[1].id, "two", 1);
    assert_eq!(bench.heartbeat(&old), ErrorCode::FencedInstanceId);
}

#[test]
fn a_member_without_a_rebalance_timeout_in_its_record_has_the_session_timeout() {
    let mut bench = Bench::new();
    let members = bench.stable(2);
    let mut record = record_of(&bench);
    for member in &mut record.members {
        member.rebalance_timeout_ms = -1;
    }
    bench.restart(&record);
    let leader = bench.join(Join::new().id(&members[0].id).rebalance(1_000));
    bench.pass_alive(9_000, &members[1..]);
    assert!(bench.waits(leader));
    bench.pass_alive(1_000, &members[1..]);
    assert_eq!(bench.joined(leader).generation, 2);
}

/// Whatever a record says, loading must give a group that works.
#[test]
fn a_record_that_no_coordinator_wrote_loads_as_far_as_it_makes_sense() {
    let member = |id: &str, instance: Option<&str>| MemberRecord {
        member_id: id.into(),
        instance_id: instance.map(Into::into),
        client_id: "".into(),
        client_host: "".into(),
        rebalance_timeout_ms: i32::MIN,
        session_timeout_ms: i32::MIN,
        subscription: Bytes::new(),
        assignment: Bytes::new(),
    };
    let record = GroupRecord {
        protocol_type: Some("".into()),
        generation: -5,
        protocol_name: None,
        leader: Some("nobody".into()),
        state_since_ms: Some(-7),
        members: vec![
            member("a", Some("one")),
            member("a", None),
            member("b", Some("one")),
            member("c", Some("two")),
            member("", None),
        ],
    };
    let mut bench = Bench::new();
    bench.restart(&record);
    assert_eq!(bench.group.len(), 3);
    assert_eq!(bench.group.protocol_type(), None);
    bench.group.describe();
    bench.pass(10_000);
    assert_eq!(bench.group.state(), GroupState::Empty);
}

use bytes::Bytes;
