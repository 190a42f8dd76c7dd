//! Online up- and downgrade (KIP-848): a group goes from the classic protocol to the consumer protocol and back, its members
//! one by one, and no commit is lost.

#![allow(clippy::unwrap_used)]

mod support;

use support::Broker;
use support::consumer::{Consumer, describe, settle};
use support::group::{
    GROUP_ID_NOT_FOUND, ILLEGAL_GENERATION, MEMBER_ID_REQUIRED, Member, REBALANCE_IN_PROGRESS,
    UNKNOWN_MEMBER_ID, committed, coordinator, describe as describe_classic,
};
use support::topic::create;
use uuid::Uuid;

fn start(settings: &[&str]) -> Broker {
    let mut all = vec!["group.initial.rebalance.delay.ms=0"];
    all.extend(settings);
    let broker = Broker::start_set(&all);
    create(&mut broker.client(), "t", 4, &[]);
    broker
}

/// An assignment of version 0 of the consumers' own protocol.
fn assignment(topic: &str, partitions: &[i32]) -> String {
    let mut bytes = vec![0, 0];
    bytes.extend(1_i32.to_be_bytes());
    bytes.extend((topic.len() as i16).to_be_bytes());
    bytes.extend(topic.as_bytes());
    bytes.extend((partitions.len() as i32).to_be_bytes());
    for partition in partitions {
        bytes.extend(partition.to_be_bytes());
    }
    bytes.extend((-1_i32).to_be_bytes());
    // Every byte is below 128 or part of the -1 at its end, which the test's helper takes as text: leave it out.
    bytes.truncate(bytes.len() - 4);
    bytes.extend(0_i32.to_be_bytes());
    String::from_utf8(bytes).unwrap()
}

/// The partitions of `t` in such an assignment.
fn assigned(bytes: &[u8]) -> Vec<i32> {
    let number = |at: usize| i32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
    if number(2) == 0 {
        return Vec::new();
    }
    assert_eq!((number(2), &bytes[6..9]), (1, &b"\x00\x01t"[..]));
    (0..number(9) as usize)
        .map(|index| number(13 + 4 * index))
        .collect()
}

/// A classic member that is alone with everything.
fn classic_alone(broker: &Broker, group: &str) -> Member {
    let mut member = Member::new(broker, group);
    let joined = member.join();
    assert_eq!(joined.leader, joined.member_id);
    let id = member.id.clone();
    let all = assignment("t", &[0, 1, 2, 3]);
    assert_eq!(member.sync(&[(&id, &all)]).error_code, 0);
    assert_eq!(member.commit("t", 0, 10), 0);
    member
}

/// Joins again when it is told to, and takes what it is given.
fn rejoin(member: &mut Member) -> Vec<i32> {
    let joined = member.join();
    assert!(joined.members.is_empty(), "the broker assigns, nobody leads");
    let synced = member.sync(&[]);
    assert_eq!(synced.error_code, 0);
    assigned(&synced.assignment)
}

#[test]
fn a_group_goes_over_with_its_members_and_comes_back() {
    let mut broker = start(&[]);
    let mut classic = classic_alone(&broker, "g");
    let generation = classic.generation;
    let mut consumer = Consumer::new(&broker, "g", "new", &["t"]);
    consumer.beat();
    assert!(consumer.epoch > generation);
    assert!(consumer.owned.is_empty(), "the classic member has everything");
    let described = describe(&mut consumer.client, "g");
    let kinds: Vec<_> = described
        .members
        .iter()
        .map(|member| member.member_type)
        .collect();
    assert_eq!(kinds.len(), 2);
    assert!(kinds.contains(&0) && kinds.contains(&1));
    assert_eq!(committed(&mut consumer.client, "g", "t", 0), 10);
    // Until it joins again it goes on in its generation.
    assert_eq!(classic.commit("t", 0, 11), 0);
    assert_eq!(classic.heartbeat(), REBALANCE_IN_PROGRESS);
    let mut has = rejoin(&mut classic);
    // What it gives up it says by its next join; its subscription of version 0 says that it owns nothing.
    while classic.heartbeat() == REBALANCE_IN_PROGRESS {
        has = rejoin(&mut classic);
    }
    consumer.beat();
    assert_eq!(has.len(), 2);
    assert_eq!(consumer.owned.len(), 2);
    let gained: Vec<i32> = consumer.owned.iter().map(|(_, number)| *number).collect();
    assert!(
        gained.iter().all(|number| !has.contains(number)),
        "{gained:?} {has:?}"
    );
    assert_eq!(classic.commit("t", has[0], 12), 0);
    classic.generation -= 1;
    assert_eq!(classic.commit("t", has[0], 13), ILLEGAL_GENERATION);
    classic.generation += 1;

    // The same after a kill.
    broker.kill();
    broker.launch();
    classic.client = coordinator(&broker, "g");
    consumer.client = coordinator(&broker, "g");
    consumer.beat();
    assert_eq!((consumer.owned.len(), classic.heartbeat()), (2, 0));

    // The last member of the consumer protocol leaves: a classic group again, which rebalances.
    assert_eq!(consumer.leave(-1), 0);
    let described = describe(&mut consumer.client, "g");
    assert_eq!(described.error_code, GROUP_ID_NOT_FOUND);
    let described = describe_classic(&mut consumer.client, "g");
    assert_eq!((described.error_code, described.members.len()), (0, 1));
    // Its generation is the epoch of the group that was, as in Kafka.
    assert_eq!(classic.heartbeat(), ILLEGAL_GENERATION);
    let joined = classic.join();
    assert_eq!((joined.leader.as_str(), joined.members.len()), (&*classic.id, 1));
    let id = classic.id.clone();
    assert_eq!(classic.sync(&[(&id, "all")]).error_code, 0);
    assert_eq!(committed(&mut consumer.client, "g", "t", has[0]), 12);
    broker.kill();
    broker.launch();
    classic.client = coordinator(&broker, "g");
    let described = loop {
        let described = describe_classic(&mut classic.client, "g");
        if described.error_code == 0 {
            break described;
        }
    };
    assert_eq!(
        (described.group_state.as_str(), described.members.len()),
        ("Stable", 1)
    );
    assert_eq!(classic.heartbeat(), 0);
}

/// Members that wait in a join of the classic group are told to come again, and get into the new one.
#[test]
fn who_waits_while_the_group_goes_over_joins_again() {
    let broker = start(&[]);
    let mut first = classic_alone(&broker, "g");
    let mut waiting = Member::new(&broker, "g");
    waiting.learn_id();
    waiting.send_join(5);
    while first.heartbeat() != REBALANCE_IN_PROGRESS {}
    let mut consumer = Consumer::new(&broker, "g", "new", &["t"]);
    consumer.beat();
    assert_eq!(waiting.receive_join(5).error_code, REBALANCE_IN_PROGRESS);
    let mut of_waiting = rejoin(&mut waiting);
    let mut of_first = rejoin(&mut first);
    // Everyone acts on what it is told until nobody is told anything.
    loop {
        let epoch = consumer.epoch;
        consumer.beat();
        let mut moved = epoch != consumer.epoch;
        for (member, has) in [(&mut first, &mut of_first), (&mut waiting, &mut of_waiting)] {
            if member.heartbeat() == REBALANCE_IN_PROGRESS {
                *has = rejoin(member);
                moved = true;
            }
        }
        if !moved && describe(&mut consumer.client, "g").group_state.as_str() == "Stable" {
            break;
        }
    }
    let mut all: Vec<i32> = of_first
        .into_iter()
        .chain(of_waiting)
        .chain(consumer.owned.iter().map(|(_, number)| *number))
        .collect();
    all.sort_unstable();
    assert_eq!(all, [0, 1, 2, 3]);
    assert_eq!(waiting.leave(), 0);
    assert_eq!(waiting.heartbeat(), UNKNOWN_MEMBER_ID);
}

#[test]
fn an_empty_group_takes_the_protocol_of_who_comes() {
    let mut broker = start(&["group.consumer.migration.policy=disabled"]);
    let mut consumer = Consumer::new(&broker, "g", "new", &["t"]);
    consumer.beat();
    let mut classic = Member::new(&broker, "g");
    classic.send_join(5);
    assert_eq!(classic.receive_join(5).error_code, MEMBER_ID_REQUIRED);
    // Members of both protocols may meet in it; the policy is about groups that change.
    assert_eq!(consumer.leave(-1), 0);
    classic.id.clear();
    let mut classic = classic_alone(&broker, "g");
    assert_eq!(describe(&mut classic.client, "g").error_code, GROUP_ID_NOT_FOUND);
    // Not while it has members, by this policy.
    assert_eq!(consumer.refused(), GROUP_ID_NOT_FOUND);
    assert_eq!(classic.leave(), 0);
    settle(&mut [&mut consumer]);
    assert_eq!(consumer.owned.len(), 4);
    broker.kill();
    broker.launch();
    consumer.client = coordinator(&broker, "g");
    let had = consumer.owned.clone();
    consumer.beat();
    assert_eq!(consumer.owned, had);
    assert_eq!(committed(&mut consumer.client, "g", "t", 0), 10);
    assert!(consumer.owned.iter().all(|(topic, _)| *topic != Uuid::nil()));
}
