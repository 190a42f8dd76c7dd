//! Replicas on the shards of one process, on virtual time: leaders die, followers lag, old leaders come back; what was
//! acknowledged stays.

#![allow(clippy::unwrap_used)]

#[path = "support/replicated.rs"]
mod replicated;
#[path = "support/simulated.rs"]
mod simulated;
mod support;

use std::time::Duration;

use replicated::{NOT_LEADER, Produced, with_cluster};
use strandline::control::client::ShardOrder;
use strandline_core::metadata::BrokerId;
use strandline_runtime::Runtime;

const TOPIC: &str = "t";

#[test]
fn a_topic_of_three_replicas_has_its_records_on_every_shard() {
    with_cluster(1, &[], |mut cluster| async move {
        cluster.create(TOPIC, 3, &[]).await;
        let partition = cluster.partition(TOPIC, 0);
        assert_eq!((partition.replicas.len(), partition.isr.len()), (3, 3));
        for number in 0..20 {
            assert_eq!(cluster.produce(TOPIC, &format!("v{number}")).await, number);
        }
        let values: Vec<String> = (0..20).map(|number| format!("v{number}")).collect();
        // Each of them leads in turn, and has all.
        for _ in 0..2 {
            assert_eq!(cluster.values(TOPIC).await, values);
            let leader = cluster.leader(TOPIC);
            cluster.order(leader, ShardOrder::Stop);
            cluster.until_leader_is_not(TOPIC, leader).await;
        }
        assert_eq!(cluster.values(TOPIC).await, values);
    });
}

#[test]
fn a_leader_dies_and_an_isr_member_takes_over_with_nothing_lost() {
    for seed in 1..=5 {
        let run = || {
            with_cluster(
                seed,
                &[("min.insync.replicas", "2")],
                move |mut cluster| async move {
                    cluster.create(TOPIC, 3, &[("min.insync.replicas", "2")]).await;
                    let mut acknowledged = Vec::new();
                    let mut killed: Option<BrokerId> = None;
                    for number in 0..60 {
                        let value = format!("v{number}");
                        if number % 20 == 10 {
                            let leader = cluster.leader(TOPIC);
                            // What is on its way when it dies may be there or not; what was acknowledged is.
                            cluster.kill(leader);
                            if let Some(before) = killed.replace(leader) {
                                cluster.start(before).await;
                            }
                            cluster.until_leader_is_not(TOPIC, leader).await;
                        }
                        cluster.produce(TOPIC, &value).await;
                        acknowledged.push(value);
                    }
                    let values = cluster.values(TOPIC).await;
                    let mut found = values.iter();
                    for value in &acknowledged {
                        assert!(
                            found.any(|there| there == value),
                            "{value} is gone, or out of order: {values:?}"
                        );
                    }
                },
            )
        };
        assert_eq!(run(), run(), "seed {seed} repeats");
    }
}

#[test]
fn a_returning_old_leader_truncates_its_uncommitted_tail() {
    with_cluster(7, &[], |mut cluster| async move {
        cluster.create(TOPIC, 3, &[]).await;
        cluster.produce(TOPIC, "committed").await;
        let old = cluster.leader(TOPIC);
        let others: Vec<BrokerId> = (1000..1003)
            .map(BrokerId)
            .filter(|broker| *broker != old)
            .collect();
        // Its followers hang: what it takes now is on nobody else.
        for other in &others {
            cluster.order(*other, ShardOrder::Pause);
        }
        let mut request = simulated::produce_request(TOPIC, replicated::batch("uncommitted"));
        request.acks = 1;
        let taken = cluster.produce_to(old, TOPIC, request).await;
        assert_eq!(taken, Produced::At(1));
        cluster.kill(old);
        for other in &others {
            cluster.order(*other, ShardOrder::Start);
        }
        cluster.until_leader_is_not(TOPIC, old).await;
        assert_eq!(cluster.produce(TOPIC, "instead").await, 1);
        cluster.start(old).await;
        cluster.until_isr(TOPIC, 3).await;
        // It leads again, with what the others have.
        for other in others {
            cluster.order(other, ShardOrder::Stop);
            cluster
                .until("it is gone", |image| image.broker(other).unwrap().fenced)
                .await;
        }
        assert_eq!(cluster.leader(TOPIC), old);
        assert_eq!(cluster.values(TOPIC).await, ["committed", "instead"]);
    });
}

#[test]
fn a_slow_follower_leaves_the_isr_and_comes_back() {
    with_cluster(3, &[], |mut cluster| async move {
        cluster.create(TOPIC, 3, &[]).await;
        cluster.produce(TOPIC, "before").await;
        let partition = cluster.partition(TOPIC, 0);
        let slow = partition.replicas[2];
        cluster.order(slow, ShardOrder::Pause);
        let start = cluster.runtime.now();
        // It waits for the slow one as long as that counts as in sync.
        assert_eq!(cluster.produce(TOPIC, "during").await, 1);
        let waited = cluster.runtime.now().since(start);
        assert!(waited >= Duration::from_secs(2), "{waited:?}");
        let isr = cluster.partition(TOPIC, 0).isr;
        assert!(isr.len() == 2 && !isr.contains(&slow), "{isr:?}");
        let start = cluster.runtime.now();
        cluster.produce(TOPIC, "without it").await;
        assert!(cluster.runtime.now().since(start) < Duration::from_secs(1));
        cluster.order(slow, ShardOrder::Start);
        cluster.until_isr(TOPIC, 3).await;
        for other in partition.replicas[..2].iter().copied() {
            cluster.kill(other);
        }
        cluster
            .until("the slow one leads", |image| {
                image.topic_by_name(TOPIC).unwrap().partitions[0].leader == slow
            })
            .await;
        assert_eq!(cluster.values(TOPIC).await, ["before", "during", "without it"]);
    });
}

/// Nobody hears of a shard that hangs but by its silence: a session later others lead, on a node that is alone too.
#[test]
fn a_leader_that_hangs_is_replaced_once_its_session_has_ended() {
    with_cluster(5, &[], |mut cluster| async move {
        cluster.create(TOPIC, 3, &[("min.insync.replicas", "2")]).await;
        cluster.produce(TOPIC, "before").await;
        let hangs = cluster.partition(TOPIC, 0).leader;
        cluster.order(hangs, ShardOrder::Pause);
        let start = cluster.runtime.now();
        cluster.until_leader_is_not(TOPIC, hangs).await;
        let waited = cluster.runtime.now().since(start);
        let session = Duration::from_secs(7)..Duration::from_secs(11);
        assert!(session.contains(&waited), "{waited:?}");
        cluster.produce(TOPIC, "meanwhile").await;
        cluster.order(hangs, ShardOrder::Start);
        cluster.until_isr(TOPIC, 3).await;
        assert_eq!(cluster.values(TOPIC).await, ["before", "meanwhile"]);
    });
}

#[test]
fn another_shard_says_who_leads() {
    with_cluster(4, &[], |mut cluster| async move {
        cluster.create(TOPIC, 2, &[]).await;
        let partition = cluster.partition(TOPIC, 0);
        let follower = partition.replicas[1];
        let request = simulated::produce_request(TOPIC, replicated::batch("v"));
        let refused = cluster.produce_to(follower, TOPIC, request).await;
        assert_eq!(refused, Produced::Refused(NOT_LEADER));
    });
}
