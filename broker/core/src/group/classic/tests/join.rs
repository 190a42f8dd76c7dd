use super::super::pending::PENDING_BYTES_MAX;
use super::bench::*;
use crate::group::classic::*;

#[test]
fn group_id_and_session_timeout_are_checked_before_a_group_is_made() {
    let config = ClassicConfig::default();
    let check = |id: &str, session_ms| Join::new().session(session_ms).request.validate(id, &config);
    assert_eq!(check("", 10_000), Err(ErrorCode::InvalidGroupId));
    assert_eq!(check("g", 5_999), Err(ErrorCode::InvalidSessionTimeout));
    assert_eq!(check("g", 6_000), Ok(()));
    assert_eq!(check("g", 1_800_000), Ok(()));
    assert_eq!(check("g", 1_800_001), Err(ErrorCode::InvalidSessionTimeout));
    assert_eq!(check("g", -1), Err(ErrorCode::InvalidSessionTimeout));
}

/// KIP-394: a dynamic member is told its id before it counts as a member.
#[test]
fn from_version_4_a_dynamic_member_first_gets_an_id() {
    let mut bench = Bench::new();
    let ticket = bench.join(Join::new().version(4));
    let answer = bench.join_answer(ticket).clone();
    assert_eq!(answer.error, ErrorCode::MemberIdRequired);
    assert_eq!(&*answer.member_id, "client-00000000-0000-0000-0000-000000000001");
    assert_eq!(answer.generation, -1);
    assert_eq!(bench.group.state(), GroupState::Empty);
    assert!(!bench.group.is_idle());

    let ticket = bench.join(Join::new().version(4).id(&answer.member_id));
    assert!(bench.waits(ticket));
    bench.pass(3_000);
    assert_eq!(bench.joined(ticket).id, &*answer.member_id);
}

#[test]
fn before_version_4_a_member_joins_at_once() {
    let mut bench = Bench::new();
    let ticket = bench.join(Join::new().version(3));
    assert!(bench.waits(ticket));
    assert_eq!(bench.group.state(), GroupState::PreparingRebalance);
    bench.pass(3_000);
    let joined = bench.joined(ticket);
    assert_eq!(joined.generation, 1);
    assert!(joined.id.starts_with("client-"));
}

/// KIP-394: the id is kept for a session timeout.
#[test]
fn an_id_that_nobody_joins_with_is_forgotten_after_the_session_timeout() {
    let mut bench = Bench::new();
    let ticket = bench.join(Join::new().session(6_000));
    let id = bench.join_answer(ticket).member_id.clone();
    bench.pass(5_999);
    assert!(!bench.group.is_idle());
    bench.pass(1);
    assert!(bench.group.is_idle());
    assert_eq!(bench.group.deadline_ms(), None);
    let ticket = bench.join(Join::new().id(&id));
    assert_eq!(bench.join_error(ticket), ErrorCode::UnknownMemberId);
}

#[test]
fn ids_that_nobody_joins_with_take_bounded_memory() {
    let mut bench = Bench::new();
    let mut long = Join::new().session(1_800_000);
    long.request.client_id = "c".repeat(30_000).into();
    let asks = PENDING_BYTES_MAX / 30_000 + 10;
    let mut ids = Vec::new();
    for _ in 0..asks {
        let ticket = bench.join(Join {
            request: long.request.clone(),
        });
        ids.push(bench.join_answer(ticket).member_id.clone());
    }
    assert!(bench.group.pending.len() * 30_000 <= PENDING_BYTES_MAX);
    let oldest = bench.join(Join::new().id(&ids[0]));
    assert_eq!(bench.join_error(oldest), ErrorCode::UnknownMemberId);
    let newest = bench.join(Join::new().id(&ids[asks - 1]));
    assert!(bench.waits(newest));
}

#[test]
fn ids_that_were_used_or_expired_make_room_again() {
    let mut bench = Bench::new();
    let ask = |bench: &mut Bench| {
        let mut join = Join::new();
        join.request.client_id = "c".repeat(30_000).into();
        let ticket = bench.join(join);
        bench.join_answer(ticket).member_id.clone()
    };
    for _ in 0..PENDING_BYTES_MAX / 30_000 {
        ask(&mut bench);
        let used = ask(&mut bench);
        bench.leave(&[leaving(&used)]);
        bench.pass(10_000);
    }
    let first = ask(&mut bench);
    ask(&mut bench);
    let ticket = bench.join(Join::new().id(&first));
    assert!(bench.waits(ticket), "it had to give way");
}

#[test]
fn an_unknown_id_is_refused_whatever_the_state() {
    let mut bench = Bench::new();
    let ticket = bench.join(Join::new().id("nobody"));
    assert_eq!(bench.join_error(ticket), ErrorCode::UnknownMemberId);
    assert_eq!(&*bench.join_answer(ticket).member_id, "nobody");
    bench.stable(1);
    let ticket = bench.join(Join::new().id("nobody"));
    assert_eq!(bench.join_error(ticket), ErrorCode::UnknownMemberId);
    assert_eq!(bench.group.state(), GroupState::Stable);
}

#[test]
fn a_dead_group_sends_its_members_to_look_for_the_coordinator() {
    let mut bench = Bench::new();
    let members = bench.stable(1);
    bench.die(ErrorCode::NotCoordinator);
    let ticket = bench.join(Join::new());
    assert_eq!(bench.join_error(ticket), ErrorCode::CoordinatorNotAvailable);
    let ticket = bench.join(Join::new().id(&members[0].id));
    assert_eq!(bench.join_error(ticket), ErrorCode::CoordinatorNotAvailable);
    let ticket = bench.sync(identity(&members[0].id, 1), &[]);
    assert_eq!(bench.synced(ticket), Err(ErrorCode::CoordinatorNotAvailable));
    let ticket = bench.leave(&[leaving(&members[0].id)]);
    assert_eq!(bench.left(ticket).0, ErrorCode::CoordinatorNotAvailable);
    let heartbeat = bench.heartbeat(&identity(&members[0].id, 1));
    assert_eq!(heartbeat, ErrorCode::CoordinatorNotAvailable);
}

#[test]
fn everyone_who_waits_is_answered_when_the_group_dies() {
    let mut bench = Bench::new();
    let members = bench.stable(2);
    let join = bench.join(Join::new().id(&members[0].id));
    bench.die(ErrorCode::NotCoordinator);
    assert_eq!(bench.join_error(join), ErrorCode::NotCoordinator);

    let mut bench = Bench::without_delay();
    let members = bench.stable(1);
    let rejoined = bench.join(Join::new().id(&members[0].id));
    let member = bench.joined(rejoined);
    let sync = bench.sync(identity(&member.id, member.generation), &[]);
    assert!(bench.waits(sync));
    bench.die(ErrorCode::NotCoordinator);
    assert_eq!(bench.synced(sync), Err(ErrorCode::NotCoordinator));
    bench.persist_all();

    let mut bench = Bench::without_delay();
    let members = bench.stable(1);
    let leave = bench.leave(&[leaving(&members[0].id)]);
    assert!(bench.waits(leave));
    bench.die(ErrorCode::NotCoordinator);
    assert_eq!(bench.left(leave).0, ErrorCode::NotCoordinator);
}

/// While a rebalance is prepared those count that have rejoined, so that a lowered size leaves out the last ones.
#[test]
fn group_max_size_refuses_new_members() {
    let config = ClassicConfig {
        size_max: 2,
        ..ClassicConfig::default()
    };
    let mut bench = Bench::with(config);
    let members = bench.stable(2);
    let ticket = bench.join(Join::new());
    assert_eq!(bench.join_error(ticket), ErrorCode::GroupMaxSizeReached);
    assert_eq!(bench.group.state(), GroupState::Stable);
    // Its own members it always lets in.
    let leader = bench.join(Join::new().id(&members[0].id));
    assert!(bench.waits(leader));
    let follower = bench.join(Join::new().id(&members[1].id));
    assert_eq!(bench.joined(follower).generation, 2);
}

#[test]
fn a_member_beyond_a_lowered_size_is_dropped_and_the_rest_go_on() {
    let mut bench = Bench::new();
    let members = bench.stable(3);
    let record = bench.group.current_record();
    let mut bench = Bench::with(ClassicConfig {
        size_max: 2,
        ..ClassicConfig::default()
    });
    bench.restart(&record);
    assert_eq!(bench.group.state(), GroupState::PreparingRebalance);
    let first = bench.join(Join::new().id(&members[2].id));
    let second = bench.join(Join::new().id(&members[0].id));
    let third = bench.join(Join::new().id(&members[1].id));
    assert_eq!(bench.join_error(third), ErrorCode::GroupMaxSizeReached);
    assert_eq!(&*bench.join_answer(third).member_id, "");
    assert_eq!(bench.joined(first).generation, 2);
    assert_eq!(bench.joined(second).generation, 2);
    assert_eq!(bench.group.len(), 2);
}

/// The client gave up on its first request; nobody reads that answer, but it frees the connection.
#[test]
fn a_repeated_join_takes_the_place_of_the_one_that_waits() {
    let mut bench = Bench::new();
    let (id, first) = bench.join_dynamic(Join::new);
    let second = bench.join(Join::new().id(&id));
    assert_eq!(bench.join_error(first), ErrorCode::RebalanceInProgress);
    bench.pass(3_000);
    assert_eq!(bench.joined(second).id, id);
}

/// KIP-800: why a client joins is seen in the log.
#[test]
fn the_reason_of_a_rebalance_names_the_client_and_what_it_says() {
    let mut bench = Bench::new();
    let mut join = Join::new().version(3);
    join.request.reason = Some("€".repeat(300).into());
    bench.join(join);
    let transition = &bench.transitions[0];
    assert_eq!(transition.to, GroupState::PreparingRebalance);
    let expected = format!(
        "client-00000000-0000-0000-0000-000000000001 joins as a new member; client reason: {}",
        "€".repeat(255)
    );
    assert_eq!(transition.reason, expected);
}

/// A request may be much larger than what is kept of it, and a slice of it would keep all of it.
#[test]
fn what_is_kept_of_a_request_does_not_keep_the_request() {
    let request = bytes::Bytes::from(vec![b'm'; 1 << 20]);
    let mut bench = Bench::without_delay();
    let mut join = Join::new().version(3);
    join.request.protocols[0].metadata = request.slice(..8);
    let ticket = bench.join(join);
    let member = bench.joined(ticket);
    let sync = SyncRequest {
        version: 3,
        identity: identity(&member.id, member.generation),
        protocol_type: None,
        protocol_name: None,
        assignments: vec![
            ((&*member.id).into(), request.slice(8..16)),
            ("a stranger".into(), request.slice(16..)),
        ],
    };
    bench.sync_request(sync);
    bench.persist_all();
    assert_eq!(bench.group.state(), GroupState::Stable);
    assert!(request.is_unique(), "the group still holds a part of it");
}

/// What is counted is what is kept, not what was asked.
#[test]
fn a_group_takes_no_more_memory_for_requests_that_change_nothing() {
    let mut bench = Bench::new();
    let nothing = bench.group.bytes();
    assert_eq!(nothing, 0);
    let members = bench.stable(2);
    let stable = bench.group.bytes();
    assert!(stable > nothing);
    for _ in 0..10 {
        bench.join(Join::new().id(&members[1].id));
        bench.join(Join::new().id("nobody"));
        bench.join(Join::new().protocols(&[("sticky", "metadata")]));
        assert_eq!(bench.group.bytes(), stable);
    }
    let told = bench.join(Join::new());
    assert!(bench.group.bytes() > stable);
    let id = bench.join_answer(told).member_id.clone();
    bench.leave(&[leaving(&id)]);
    assert_eq!(bench.group.bytes(), stable);
    bench.pass(70_000);
    bench.persist_all();
    assert_eq!(bench.group.bytes(), nothing);
}
