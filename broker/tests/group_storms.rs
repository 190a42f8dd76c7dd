//! Many members that come, go and change their minds at once: they end up in one generation, and nobody is left behind.

#![allow(clippy::unwrap_used)]

mod support;

use std::collections::BTreeSet;
use std::sync::{Barrier, Mutex};
use std::thread;

use support::Broker;
use support::group::{Member, REBALANCE_IN_PROGRESS, describe};

/// Where each member of a group is: its generation once it has its assignment; none while it changes its mind.
struct Progress(Mutex<Vec<Option<i32>>>);

impl Progress {
    fn new(members: usize) -> Self {
        Self(Mutex::new(vec![None; members]))
    }

    fn is(&self, member: usize, generation: Option<i32>) {
        self.0.lock().unwrap()[member] = generation;
    }

    /// The generation that all are in.
    fn common(&self) -> Option<i32> {
        let generations: BTreeSet<_> = self.0.lock().unwrap().iter().copied().collect();
        if generations.len() == 1 {
            *generations.first()?
        } else {
            None
        }
    }
}

/// Joins, and gets an assignment: again when another rebalance comes in between.
fn join(member: &mut Member) {
    loop {
        let joined = member.join();
        let ids: Vec<String> = joined
            .members
            .iter()
            .map(|member| member.member_id.to_string())
            .collect();
        let assignments: Vec<(&str, &str)> = ids.iter().map(|id| (&**id, "some")).collect();
        match member.sync(&assignments) {
            answer if answer.error_code == 0 => {
                assert_eq!(&answer.assignment[..], b"some");
                return;
            }
            answer => assert_eq!(answer.error_code, REBALANCE_IN_PROGRESS),
        }
    }
}

/// Heartbeats, and joins again when told to, until all members are in one generation.
fn live(member: &mut Member, number: usize, progress: &Progress) {
    progress.is(number, Some(member.generation));
    while progress.common().is_none() {
        match member.heartbeat() {
            0 => thread::yield_now(),
            REBALANCE_IN_PROGRESS => {
                join(member);
                progress.is(number, Some(member.generation));
            }
            code => panic!("heartbeat of member {number}: {code}"),
        }
    }
}

/// Field report B21: a hundred clients that start in the same second are one group, without a rebalance for each.
#[test]
fn a_hundred_clients_that_start_at_once_are_one_group() {
    const MEMBERS: usize = 100;
    let broker = Broker::start_with(&["--shards", "2"]);
    let (progress, start) = (Progress::new(MEMBERS), Barrier::new(MEMBERS));
    thread::scope(|scope| {
        for number in 0..MEMBERS {
            let (broker, progress, start) = (&broker, &progress, &start);
            scope.spawn(move || {
                let mut member = Member::new(broker, "g");
                start.wait();
                join(&mut member);
                live(&mut member, number, progress);
            });
        }
    });
    let generation = progress.common().unwrap();
    assert!((1..=3).contains(&generation), "{generation} generations");
    let described = describe(&mut Member::new(&broker, "g").client, "g");
    assert_eq!(
        (described.group_state.as_str(), described.members.len()),
        ("Stable", MEMBERS)
    );
}

/// Members that change their subscriptions, and some that leave and come again, all at the same time and again and again.
#[test]
fn a_storm_of_rebalances_ends_with_everybody_in_one_generation() {
    const MEMBERS: usize = 24;
    const ROUNDS: usize = 12;
    let broker = Broker::start_set(&["group.initial.rebalance.delay.ms=0"]);
    let progress = Progress::new(MEMBERS);
    thread::scope(|scope| {
        for number in 0..MEMBERS {
            let (broker, progress) = (&broker, &progress);
            scope.spawn(move || {
                let mut member = Member::new(broker, "g");
                for round in 0..ROUNDS {
                    member.topics = vec![format!("topic-{number}-{round}")];
                    join(&mut member);
                    if (number + round) % 5 == 0 {
                        assert_eq!(member.leave(), 0);
                        member = Member::new(broker, "g");
                    }
                }
                join(&mut member);
                live(&mut member, number, progress);
            });
        }
    });
    let described = describe(&mut Member::new(&broker, "g").client, "g");
    assert_eq!(
        (described.group_state.as_str(), described.members.len()),
        ("Stable", MEMBERS)
    );
    let assigned: Vec<_> = described
        .members
        .iter()
        .map(|member| &member.member_assignment[..])
        .collect();
    assert!(
        assigned.iter().all(|assignment| *assignment == b"some"),
        "{assigned:?}"
    );
}
