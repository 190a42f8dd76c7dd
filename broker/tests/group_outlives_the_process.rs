//! kill -9 and restart: what a group committed, deleted and agreed on is as it was acknowledged.

#![allow(clippy::unwrap_used)]

mod support;

use std::io;
use std::sync::atomic::{AtomicI64, Ordering};
use std::thread;

use kafka_protocol::messages::{DeleteGroupsRequest, DeleteTopicsRequest, OffsetCommitRequest};
use support::group::{
    GROUP_ID_NOT_FOUND, LOAD_IN_PROGRESS, Member, REBALANCE_IN_PROGRESS, commit, commit_request, committed,
    coordinator, describe, group_id,
};
use support::topic::{create, name};
use support::{Broker, Client};

const VERSION: i16 = 8;

fn start() -> Broker {
    Broker::start_with(&[
        "--shards",
        "2",
        "--set",
        "group.initial.rebalance.delay.ms=0",
        "--set",
        "offsets.topic.num.partitions=4",
    ])
}

/// Commits 1, 2, 3 and so on until the broker goes away; notes what was sent and what was acknowledged.
fn commit_until_the_end(
    mut client: Client,
    group: &str,
    first: i64,
    sent: &AtomicI64,
    acknowledged: &AtomicI64,
) {
    for offset in first.. {
        sent.store(offset, Ordering::SeqCst);
        let request = commit_request(group, "t", 0, offset);
        let answer: io::Result<_> = client.try_call::<OffsetCommitRequest>(VERSION, &request);
        match answer {
            Ok(answer) => assert_eq!(answer.topics[0].partitions[0].error_code, 0),
            Err(_) => return,
        }
        acknowledged.store(offset, Ordering::SeqCst);
    }
}

#[test]
fn every_acknowledged_commit_is_there_after_a_kill() {
    let mut broker = start();
    create(&mut broker.client(), "t", 1, &[]);
    let groups: Vec<String> = (0..6).map(|number| format!("group-{number}")).collect();
    let sent: Vec<AtomicI64> = groups.iter().map(|_| AtomicI64::new(0)).collect();
    let acknowledged: Vec<AtomicI64> = groups.iter().map(|_| AtomicI64::new(0)).collect();
    for round in 1..=3 {
        thread::scope(|scope| {
            let mut writers = Vec::new();
            for (number, group) in groups.iter().enumerate() {
                let client = coordinator(&broker, group);
                let (sent, acknowledged) = (&sent[number], &acknowledged[number]);
                let first = sent.load(Ordering::SeqCst) + 1;
                writers.push(
                    scope.spawn(move || commit_until_the_end(client, group, first, sent, acknowledged)),
                );
            }
            while acknowledged
                .iter()
                .any(|count| count.load(Ordering::SeqCst) < round * 100)
            {
                assert!(
                    writers.iter().all(|writer| !writer.is_finished()),
                    "a writer failed"
                );
                thread::yield_now();
            }
            broker.kill();
        });
        broker.launch();
        for (number, group) in groups.iter().enumerate() {
            let found = committed(&mut coordinator(&broker, group), group, "t", 0);
            let least = acknowledged[number].load(Ordering::SeqCst);
            let most = sent[number].load(Ordering::SeqCst);
            assert!(
                (least..=most).contains(&found),
                "{group}: {least} <= {found} <= {most}"
            );
        }
    }
}

/// Deleted groups and offsets of deleted topics stay away (field report B20).
#[test]
fn what_was_deleted_stays_away() {
    let mut broker = start();
    for topic in ["t", "u"] {
        create(&mut broker.client(), topic, 1, &[]);
    }
    for group in ["deleted", "kept"] {
        let mut client = coordinator(&broker, group);
        assert_eq!(commit(&mut client, group, "t", 0, 1), 0);
        assert_eq!(commit(&mut client, group, "u", 0, 2), 0);
    }
    let request = DeleteGroupsRequest::default().with_groups_names(vec![group_id("deleted")]);
    let answer = coordinator(&broker, "deleted").call(2, &request);
    assert_eq!(answer.results[0].error_code, 0);
    let request = DeleteTopicsRequest::default()
        .with_topic_names(vec![name("u")])
        .with_timeout_ms(30_000);
    assert_eq!(broker.client().call(4, &request).responses[0].error_code, 0);
    broker.kill();
    broker.launch();
    create(&mut broker.client(), "u", 1, &[]);
    let mut client = coordinator(&broker, "deleted");
    assert_eq!(committed(&mut client, "deleted", "t", 0), -1);
    assert_eq!(describe(&mut client, "deleted").error_code, GROUP_ID_NOT_FOUND);
    let mut client = coordinator(&broker, "kept");
    assert_eq!(committed(&mut client, "kept", "t", 0), 1);
    assert_eq!(committed(&mut client, "kept", "u", 0), -1);
}

/// Members do not notice the coordinator's restart but by their connections.
#[test]
fn a_stable_group_goes_on_after_a_kill() {
    let mut broker = start();
    create(&mut broker.client(), "t", 1, &[]);
    let mut member = Member::named(&broker, "g", "a");
    let mut other = Member::new(&broker, "g");
    member.join_alone();
    other.learn_id();
    other.send_join(5);
    while member.heartbeat() != REBALANCE_IN_PROGRESS {}
    member.join();
    assert_eq!(other.receive_join(5).error_code, 0);
    let (one, two) = (member.id.clone(), other.id.clone());
    assert_eq!(member.sync(&[(&one, "x"), (&two, "y")]).error_code, 0);
    assert_eq!(&other.sync(&[]).assignment[..], b"y");
    let generation = member.generation;
    broker.kill();
    broker.launch();
    for member in [&mut member, &mut other] {
        member.client = coordinator(&broker, "g");
        let synced = loop {
            // As its client asks again.
            let answer = member.sync(&[]);
            if answer.error_code != LOAD_IN_PROGRESS {
                break answer;
            }
        };
        assert_eq!(synced.error_code, 0);
        assert_eq!(member.heartbeat(), 0);
        assert_eq!(member.commit("t", 0, 7), 0);
    }
    assert_eq!(&member.sync(&[]).assignment[..], b"x");
    assert_eq!(&other.sync(&[]).assignment[..], b"y");
    let described = describe(&mut member.client, "g");
    assert_eq!(
        (described.group_state.as_str(), described.members.len()),
        ("Stable", 2)
    );
    assert_eq!(member.generation, generation);
}
