//! The classic protocol over TCP: joins, assignments, heartbeats, rebalances, leaving, and what is refused.

#![allow(clippy::unwrap_used)]

mod support;

use kafka_protocol::messages::{
    FindCoordinatorRequest, HeartbeatRequest, JoinGroupRequest, LeaveGroupRequest, SyncGroupRequest,
};
use support::Broker;
use support::group::{
    FENCED_INSTANCE_ID, ILLEGAL_GENERATION, MEMBER_ID_REQUIRED, Member, REBALANCE_IN_PROGRESS,
    UNKNOWN_MEMBER_ID, coordinator, describe, find, group_id, text,
};

/// No wait for more members, and sessions that a test can outlast.
const QUICK: [&str; 2] = [
    "group.initial.rebalance.delay.ms=0",
    "group.min.session.timeout.ms=100",
];

fn start() -> Broker {
    Broker::start_set(&QUICK)
}

#[test]
fn two_members_share_and_one_takes_over() {
    let broker = start();
    let mut first = Member::new(&broker, "g");
    first.join_alone();
    assert_eq!(first.heartbeat(), 0);
    assert_eq!(describe(&mut first.client, "g").group_state.as_str(), "Stable");

    let mut second = Member::new(&broker, "g");
    second.learn_id();
    second.send_join(5);
    // The first hears of it and joins again; only then are both answered.
    while first.heartbeat() != REBALANCE_IN_PROGRESS {}
    let led = first.join();
    let followed = second.receive_join(5);
    assert_eq!((led.error_code, followed.error_code), (0, 0));
    assert_eq!(led.generation_id, followed.generation_id);
    assert_eq!(led.leader, followed.leader);
    assert_eq!(led.leader.as_str(), first.id);
    assert_eq!(led.members.len(), 2);
    assert!(followed.members.is_empty());

    let (one, two) = (first.id.clone(), second.id.clone());
    let request = second.sync_request(3, &[]);
    second.client.send(3, &request).unwrap();
    let own = first.sync(&[(&one, "zero"), (&two, "rest")]);
    let (_, other) = second.client.receive::<SyncGroupRequest>(3).unwrap();
    assert_eq!((own.error_code, &own.assignment[..]), (0, &b"zero"[..]));
    assert_eq!((other.error_code, &other.assignment[..]), (0, &b"rest"[..]));
    assert_eq!((first.heartbeat(), second.heartbeat()), (0, 0));

    assert_eq!(second.leave(), 0);
    assert_eq!(first.heartbeat(), REBALANCE_IN_PROGRESS);
    first.join_alone();
    assert_eq!(second.heartbeat(), UNKNOWN_MEMBER_ID);
    assert_eq!(first.leave(), 0);
    assert_eq!(describe(&mut first.client, "g").group_state.as_str(), "Empty");
}

#[test]
fn a_silent_member_is_dropped() {
    let broker = start();
    let mut silent = Member::new(&broker, "g");
    silent.session_timeout_ms = 300;
    silent.join_alone();
    let mut other = Member::new(&broker, "g");
    // Waits for the silent one, until its session ends.
    let joined = other.join();
    assert_eq!(joined.leader.as_str(), other.id);
    assert_eq!(joined.members.len(), 1);
    assert_eq!(silent.heartbeat(), UNKNOWN_MEMBER_ID);
}

#[test]
fn every_version_of_the_protocol_is_answered_in_its_own_shape() {
    let broker = start();
    for join_version in 0..=9 {
        let group = format!("g{join_version}");
        let mut member = Member::new(&broker, &group);
        let static_name = (join_version >= 5).then(|| "instance".to_owned());
        member.instance = static_name;
        member.send_join(join_version);
        let mut joined = member.receive_join(join_version);
        if join_version == 4 {
            assert_eq!(joined.error_code, MEMBER_ID_REQUIRED);
            member.send_join(join_version);
            joined = member.receive_join(join_version);
        }
        assert_eq!(joined.error_code, 0, "v{join_version}");
        assert_eq!(joined.protocol_name.as_deref(), Some("range"), "v{join_version}");
        let kind = joined.protocol_type.as_deref();
        assert_eq!(kind, (join_version >= 7).then_some("consumer"), "v{join_version}");

        let version = join_version.min(5);
        let id = member.id.clone();
        let request = member.sync_request(version, &[(&id, "all")]);
        let synced = member.client.call(version, &request);
        assert_eq!((synced.error_code, &synced.assignment[..]), (0, &b"all"[..]));

        let version = join_version.min(4);
        let heartbeat = HeartbeatRequest::default()
            .with_group_id(group_id(&group))
            .with_generation_id(member.generation)
            .with_member_id(text(&member.id));
        let heartbeat = match version >= 3 {
            true => heartbeat.with_group_instance_id(member.instance.as_deref().map(text)),
            false => heartbeat,
        };
        assert_eq!(member.client.call(version, &heartbeat).error_code, 0);

        let version = join_version.min(5);
        if version >= 3 {
            assert_eq!(member.leave(), 0);
        } else {
            let leave = LeaveGroupRequest::default()
                .with_group_id(group_id(&group))
                .with_member_id(text(&member.id));
            assert_eq!(member.client.call(version, &leave).error_code, 0);
            assert_eq!(
                member.client.call(version, &leave).error_code,
                UNKNOWN_MEMBER_ID,
                "v{version}"
            );
        }
    }
}

#[test]
fn unknown_members_and_stale_generations_are_told_so() {
    let broker = start();
    let mut member = Member::new(&broker, "g");
    assert_eq!(member.heartbeat(), UNKNOWN_MEMBER_ID, "no such group");
    assert_eq!(member.leave(), UNKNOWN_MEMBER_ID);
    assert_eq!(member.sync(&[]).error_code, UNKNOWN_MEMBER_ID);
    member.id = "made-up".to_owned();
    member.send_join(5);
    assert_eq!(member.receive_join(5).error_code, UNKNOWN_MEMBER_ID);

    member.id.clear();
    member.join_alone();
    let real = std::mem::replace(&mut member.id, "made-up".to_owned());
    assert_eq!(member.heartbeat(), UNKNOWN_MEMBER_ID);
    assert_eq!(member.sync(&[]).error_code, UNKNOWN_MEMBER_ID);
    member.id = real;
    member.generation += 1;
    assert_eq!(member.heartbeat(), ILLEGAL_GENERATION);
    assert_eq!(member.sync(&[]).error_code, ILLEGAL_GENERATION);
    member.generation -= 1;
    assert_eq!(member.heartbeat(), 0);
}

#[test]
fn what_no_group_can_take_is_refused() {
    let broker = start();
    let mut member = Member::new(&broker, "g");
    let refused = |member: &mut Member, code: i16, why: &str| {
        member.send_join(5);
        let answer = member.receive_join(5);
        assert_eq!(answer.error_code, code, "{why}");
        assert_eq!(answer.generation_id, -1);
        member.id.clear();
    };
    member.group.clear();
    refused(&mut member, 24, "empty group id");
    assert_eq!(member.heartbeat(), 24);
    assert_eq!(member.sync(&[]).error_code, 24);
    member.group = "g".to_owned();
    for timeout in [0, 99, 1_800_001] {
        member.session_timeout_ms = timeout;
        refused(&mut member, 26, "session timeout out of bounds");
    }
    member.session_timeout_ms = 10_000;
    let protocols = std::mem::take(&mut member.protocols);
    refused(&mut member, 23, "no protocol");
    member.protocols = protocols;
    member.join_alone();
    let mut other = Member::new(&broker, "g");
    other.protocols = vec!["sticky".to_owned()];
    refused(&mut other, 23, "no protocol in common");
}

#[test]
fn a_static_member_comes_back_without_a_rebalance() {
    let broker = start();
    let mut before = Member::named(&broker, "g", "a");
    before.join_alone();
    let mut other = Member::named(&broker, "g", "b");
    other.send_join(5);
    while before.heartbeat() != REBALANCE_IN_PROGRESS {}
    before.join();
    assert_eq!(other.receive_join(5).error_code, 0);
    let (one, two) = (before.id.clone(), other.id.clone());
    let request = other.sync_request(3, &[]);
    other.client.send(3, &request).unwrap();
    assert_eq!(before.sync(&[(&one, "x"), (&two, "y")]).error_code, 0);
    assert_eq!(
        other.client.receive::<SyncGroupRequest>(3).unwrap().1.error_code,
        0
    );

    let mut after = Member::named(&broker, "g", "b");
    after.send_join(5);
    let joined = after.receive_join(5);
    assert_eq!(joined.error_code, 0);
    assert_eq!(joined.generation_id, before.generation);
    assert_ne!(after.id, other.id);
    let synced = after.sync(&[]);
    assert_eq!((synced.error_code, &synced.assignment[..]), (0, &b"y"[..]));
    assert_eq!(before.heartbeat(), 0, "nobody has to join again");
    assert_eq!(other.heartbeat(), FENCED_INSTANCE_ID);
    assert_eq!(after.heartbeat(), 0);
}

#[test]
fn groups_are_spread_over_the_shards_and_others_say_so() {
    let broker = Broker::start_with(&["--shards", "2", "--set", "group.initial.rebalance.delay.ms=0"]);
    let mut client = broker.client();
    let keys: Vec<String> = (0..16).map(|number| format!("group-{number}")).collect();
    let request =
        FindCoordinatorRequest::default().with_coordinator_keys(keys.iter().map(|key| text(key)).collect());
    let answer = client.call(5, &request);
    assert_eq!(answer.coordinators.len(), keys.len());
    let mut by_shard = [0, 0];
    for (key, found) in keys.iter().zip(&answer.coordinators) {
        assert_eq!((found.key.as_str(), found.error_code), (&**key, 0));
        let shard = (found.node_id.0 % 1000) as usize;
        by_shard[shard] += 1;
        assert_eq!(found.port, i32::from(broker.addresses()[shard].port()));
        // An older version names the same.
        let single = FindCoordinatorRequest::default().with_key(text(key));
        for version in 0..4 {
            let alone = client.call(version, &single);
            assert_eq!(
                (alone.error_code, alone.node_id),
                (0, found.node_id),
                "v{version}"
            );
        }
        let mut wrong = Member::new(&broker, key);
        wrong.client = broker.client_of(1_000 + (1 - shard as i32));
        assert_eq!(wrong.heartbeat(), 16, "NOT_COORDINATOR");
        wrong.send_join(5);
        assert_eq!(wrong.receive_join(5).error_code, 16);
    }
    assert!(by_shard.iter().all(|count| *count > 0), "{by_shard:?}");
    // Transactions are not served, and other kinds do not exist.
    for (kind, code) in [(1, 53), (2, 42)] {
        let request = FindCoordinatorRequest::default()
            .with_key_type(kind)
            .with_coordinator_keys(vec![text("x")]);
        assert_eq!(client.call(5, &request).coordinators[0].error_code, code);
    }
}

/// The client that waits in a join goes away; its member is forgotten, and the group goes on.
#[test]
fn a_join_whose_client_went_away_leaves_no_ghost() {
    let broker = start();
    let mut first = Member::new(&broker, "g");
    first.join_alone();
    let mut gone = Member::new(&broker, "g");
    gone.session_timeout_ms = 300;
    gone.learn_id();
    gone.send_join(5);
    while first.heartbeat() != REBALANCE_IN_PROGRESS {}
    drop(gone);
    let joined = first.join();
    let members: Vec<_> = joined
        .members
        .iter()
        .map(|member| member.member_id.to_string())
        .collect();
    // It had joined in time; it is dropped when it does not ask for its assignment or says nothing.
    assert!(members.contains(&first.id));
    let own = first.id.clone();
    assert_eq!(first.sync(&[(&own, "all")]).error_code, 0);
    loop {
        match first.heartbeat() {
            0 => {}
            REBALANCE_IN_PROGRESS => {
                first.join_alone();
                break;
            }
            code => panic!("{code}"),
        }
    }
    assert_eq!(describe(&mut coordinator(&broker, "g"), "g").members.len(), 1);
    assert_eq!(find(&mut broker.client(), "g").error_code, 0);
}

/// Requests behind a parked join wait for their turn; their answers come in order.
#[test]
fn answers_keep_their_order_behind_a_parked_join() {
    let broker = start();
    let mut first = Member::new(&broker, "g");
    first.join_alone();
    let mut second = Member::new(&broker, "g");
    second.learn_id();
    let join = second.join_request(5);
    let parked = second.client.send(5, &join).unwrap();
    let find = FindCoordinatorRequest::default().with_coordinator_keys(vec![text("g")]);
    let behind = second.client.send(4, &find).unwrap();
    while first.heartbeat() != REBALANCE_IN_PROGRESS {}
    first.join();
    let (correlation, joined) = second.client.receive::<JoinGroupRequest>(5).unwrap();
    assert_eq!((correlation, joined.error_code), (parked, 0));
    let (correlation, _) = second.client.receive::<FindCoordinatorRequest>(4).unwrap();
    assert_eq!(correlation, behind);
}

/// Field report B18: the last member dies while another was told its id and never comes back; the group empties, and a new
/// member gets in at once.
#[test]
fn a_group_whose_last_member_dies_is_not_stuck() {
    let broker = start();
    let mut last = Member::new(&broker, "g");
    last.session_timeout_ms = 500;
    last.join_alone();
    let mut pending = Member::new(&broker, "g");
    pending.session_timeout_ms = 500;
    pending.learn_id();
    let mut client = coordinator(&broker, "g");
    // Nobody says anything more.
    while describe(&mut client, "g").group_state.as_str() != "Empty" {}
    let mut new = Member::new(&broker, "g");
    new.join_alone();
    assert!(new.generation > last.generation);
    assert_eq!(describe(&mut client, "g").members.len(), 1);
}

/// Field report B18: members of version 0 have no rebalance timeout; the session timeout stands in, and all three are stable.
#[test]
fn three_members_without_a_rebalance_timeout_settle() {
    let broker = start();
    let mut first = Member::new(&broker, "g");
    first.send_join(0);
    assert_eq!(first.receive_join(0).error_code, 0);
    let mut others: Vec<Member> = (0..2).map(|_| Member::new(&broker, "g")).collect();
    for other in &mut others {
        other.send_join(0);
    }
    while describe(&mut first.client, "g").members.len() < 3 {}
    first.send_join(0);
    let joined = first.receive_join(0);
    assert_eq!((joined.error_code, joined.members.len()), (0, 3));
    let ids: Vec<String> = joined
        .members
        .iter()
        .map(|member| member.member_id.to_string())
        .collect();
    let assignments: Vec<(&str, &str)> = ids.iter().map(|id| (&**id, "part")).collect();
    let request = first.sync_request(0, &assignments);
    assert_eq!(first.client.call(0, &request).error_code, 0);
    for other in &mut others {
        assert_eq!(other.receive_join(0).generation_id, joined.generation_id);
        let request = other.sync_request(0, &[]);
        let synced = other.client.call(0, &request);
        assert_eq!((synced.error_code, &synced.assignment[..]), (0, &b"part"[..]));
    }
}

/// Field report B18: a member that was told its id and leaves does not keep the others waiting.
#[test]
fn a_pending_member_that_leaves_is_not_waited_for() {
    let broker = start();
    let mut first = Member::new(&broker, "g");
    first.join_alone();
    let mut pending = Member::new(&broker, "g");
    pending.learn_id();
    let mut third = Member::new(&broker, "g");
    third.learn_id();
    third.send_join(5);
    while first.heartbeat() != REBALANCE_IN_PROGRESS {}
    first.send_join(5);
    assert_eq!(pending.leave(), 0);
    assert_eq!(first.receive_join(5).error_code, 0);
    assert_eq!(third.receive_join(5).error_code, 0);
}
