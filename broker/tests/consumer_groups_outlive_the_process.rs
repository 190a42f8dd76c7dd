//! kill -9 and restart: groups of the consumer protocol go on where their acknowledged heartbeats left them.

#![allow(clippy::unwrap_used)]

mod support;

use std::collections::{BTreeMap, BTreeSet};

use kafka_protocol::messages::DeleteGroupsRequest;
use support::Broker;
use support::consumer::{Consumer, describe, owned, settle};
use support::group::{GROUP_ID_NOT_FOUND, committed, coordinator, group_id};
use support::topic::create;

fn start(topics: &[(&str, i32)]) -> Broker {
    let broker = Broker::start_with(&["--shards", "2", "--set", "offsets.topic.num.partitions=4"]);
    for (topic, partitions) in topics {
        create(&mut broker.client(), topic, *partitions, &[]);
    }
    broker
}

fn reconnect(broker: &Broker, member: &mut Consumer) {
    member.client = coordinator(broker, &member.group);
}

#[test]
fn a_stable_group_goes_on_after_a_kill() {
    let mut broker = start(&[("t", 3), ("u", 2)]);
    let mut one = Consumer::named(&broker, "g", "one", "first", &["t", "u"]);
    let mut two = Consumer::new(&broker, "g", "two", &[]);
    two.regex = Some("[tu]".to_owned());
    one.beat();
    two.beat();
    settle(&mut [&mut one, &mut two]);
    let epoch = one.epoch;
    assert_eq!(one.commit(9, epoch, "t", 0, 42), 0);
    for _ in 0..2 {
        broker.kill();
        broker.launch();
        reconnect(&broker, &mut one);
        reconnect(&broker, &mut two);
        // Neither notices: a heartbeat that says nothing is answered by the same epoch.
        for member in [&mut one, &mut two] {
            let answer = member.send(&member.bare(epoch));
            assert_eq!(
                (answer.error_code, answer.member_epoch),
                (0, epoch),
                "{}",
                member.id
            );
            assert_eq!(answer.assignment, None);
        }
        let described = describe(&mut one.client, "g");
        assert_eq!(
            (described.group_state.as_str(), described.group_epoch),
            ("Stable", epoch)
        );
        let shown: BTreeMap<String, _> = described
            .members
            .iter()
            .map(|member| (member.member_id.to_string(), owned(member)))
            .collect();
        assert_eq!((&shown["one"], &shown["two"]), (&one.owned, &two.owned));
        assert_eq!(committed(&mut one.client, "g", "t", 0), 42);
        assert_eq!(one.commit(9, epoch, "t", 0, 42), 0);
    }
    // And what it was is still told to who comes next.
    assert_eq!(two.leave(-1), 0);
    settle(&mut [&mut one]);
    assert_eq!(one.owned.len(), 5);
}

/// The process dies at every step of a rebalance: nobody owns what another one has not given up, and it comes to its end.
#[test]
fn a_rebalance_goes_on_after_a_kill_at_each_of_its_steps() {
    let mut broker = start(&[("t", 6)]);
    let mut members: Vec<Consumer> = Vec::new();
    for number in 0..3 {
        members.push(Consumer::new(&broker, "g", &format!("m{number}"), &["t"]));
        // Each heartbeat is a step: the new one joins, the others give up, the new one gets.
        for turn in 0..members.len() * 3 {
            let count = members.len();
            let turn = (count - 1 + turn) % count;
            let before = members[turn].epoch;
            members[turn].beat();
            assert!(members[turn].epoch >= before, "epochs never go back");
            let all: usize = members.iter().map(|member| member.owned.len()).sum();
            let distinct: BTreeSet<_> = members.iter().flat_map(|member| &member.owned).collect();
            assert_eq!(all, distinct.len(), "a partition has two owners");
            broker.kill();
            broker.launch();
            for member in &mut members {
                reconnect(&broker, member);
            }
        }
    }
    let mut all: Vec<&mut Consumer> = members.iter_mut().collect();
    settle(&mut all);
    assert!(members.iter().all(|member| member.owned.len() == 2));
}

#[test]
fn what_left_and_what_was_deleted_stays_away() {
    let mut broker = start(&[("t", 1)]);
    for group in ["left", "deleted"] {
        let mut member = Consumer::new(&broker, group, "m", &["t"]);
        member.beat();
        assert_eq!(member.commit(9, 1, "t", 0, 1), 0);
        assert_eq!(member.leave(-1), 0);
    }
    let delete = DeleteGroupsRequest::default().with_groups_names(vec![group_id("deleted")]);
    let answer = coordinator(&broker, "deleted").call(2, &delete);
    assert_eq!(answer.results[0].error_code, 0);
    broker.kill();
    broker.launch();
    let mut client = coordinator(&broker, "left");
    let left = describe(&mut client, "left");
    assert_eq!(
        (left.group_state.as_str(), left.members.len(), left.group_epoch),
        ("Empty", 0, 2)
    );
    assert_eq!(committed(&mut client, "left", "t", 0), 1);
    let mut client = coordinator(&broker, "deleted");
    assert_eq!(describe(&mut client, "deleted").error_code, GROUP_ID_NOT_FOUND);
    assert_eq!(committed(&mut client, "deleted", "t", 0), -1);
    // Its epochs begin anew.
    let mut member = Consumer::new(&broker, "deleted", "m", &["t"]);
    assert_eq!(member.beat().member_epoch, 1);
}
