//! What lost records elsewhere, scripted: each test names where. On virtual time, with shards that die alone.

#![allow(clippy::unwrap_used)]

#[path = "support/replicated.rs"]
mod replicated;
#[path = "support/simulated.rs"]
mod simulated;
mod support;

use std::time::Duration;

use kafka_protocol::messages::ListOffsetsRequest;
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use replicated::{Cluster, NOT_ENOUGH_REPLICAS, Produced, batch, fetch_from, with_cluster};
use simulated::{FETCH_VERSION, name, produce_request};
use strandline::control::client::ShardOrder;
use strandline_core::metadata::BrokerId;
use strandline_runtime::Runtime;

const TOPIC: &str = "t";
const LIST_OFFSETS_VERSION: i16 = 5;
const LATEST: i64 = -1;

fn others(cluster: &Cluster) -> (BrokerId, Vec<BrokerId>) {
    let partition = cluster.partition(TOPIC, 0);
    let others = partition.replicas.iter().copied();
    let others = others.filter(|replica| *replica != partition.leader).collect();
    (partition.leader, others)
}

/// Kafka 0.8: the ISR shrank to the leader, which acknowledged alone and died; another led without its records.
#[test]
fn what_the_last_member_acknowledged_alone_is_not_lost_with_it() {
    for seed in 61..=64 {
        with_cluster(seed, &[], |mut cluster| async move {
            cluster.create(TOPIC, 3, &[]).await;
            cluster.produce(TOPIC, "with all").await;
            let (last, others) = others(&cluster);
            for other in &others {
                cluster.order(*other, ShardOrder::Pause);
            }
            cluster.produce(TOPIC, "alone").await;
            assert_eq!(cluster.partition(TOPIC, 0).isr, [last]);
            cluster.kill(last);
            for other in &others {
                cluster.order(*other, ShardOrder::Start);
            }
            cluster.runtime.sleep(Duration::from_secs(20)).await;
            assert_eq!(
                cluster.leader(TOPIC),
                BrokerId::NONE,
                "nobody else has what it acknowledged"
            );
            cluster.start(last).await;
            cluster.until_isr(TOPIC, 3).await;
            assert_eq!(cluster.values(TOPIC).await, ["with all", "alone"]);
        });
    }
}

/// The same with a minimum of two: the lone leader acknowledges nothing, so those that have all the rest may lead.
#[test]
fn heirs_of_a_lone_leader_have_all_that_was_acknowledged() {
    for seed in 65..=68 {
        with_cluster(seed, &[], |mut cluster| async move {
            cluster.create(TOPIC, 3, &[("min.insync.replicas", "2")]).await;
            cluster.produce(TOPIC, "with all").await;
            let (lone, others) = others(&cluster);
            for other in &others {
                cluster.order(*other, ShardOrder::Pause);
            }
            cluster.until_isr(TOPIC, 1).await;
            assert_eq!(
                cluster.try_produce(TOPIC, "refused").await,
                Produced::Refused(NOT_ENOUGH_REPLICAS)
            );
            let mut alone = produce_request(TOPIC, batch("for the leader alone"));
            alone.acks = 1;
            assert_eq!(cluster.produce_to(lone, TOPIC, alone).await, Produced::At(1));
            cluster.kill(lone);
            for other in &others {
                cluster.order(*other, ShardOrder::Start);
            }
            cluster.until_leader_is_not(TOPIC, lone).await;
            assert_eq!(cluster.produce(TOPIC, "by the heirs").await, 1);
            cluster.start(lone).await;
            cluster.until_isr(TOPIC, 3).await;
            assert_eq!(cluster.values(TOPIC).await, ["with all", "by the heirs"]);
        });
    }
}

/// Redpanda 21.10: leaders that had been replaced still answered, and offsets had two records.
#[test]
fn a_leader_that_slept_through_its_end_acknowledges_nothing() {
    for seed in 71..=76 {
        with_cluster(seed, &[], |mut cluster| async move {
            cluster.create(TOPIC, 3, &[("min.insync.replicas", "2")]).await;
            cluster.produce(TOPIC, "before").await;
            let old = cluster.leader(TOPIC);
            cluster.order(old, ShardOrder::Pause);
            cluster.until_leader_is_not(TOPIC, old).await;
            assert_eq!(cluster.produce(TOPIC, "meanwhile").await, 1);
            // It wakes with this request before it, and with an image in which it leads.
            cluster.order(old, ShardOrder::Start);
            let stale = produce_request(TOPIC, batch("stale")).with_timeout_ms(3_000);
            let stale = cluster.produce_to(old, TOPIC, stale).await;
            assert!(!matches!(stale, Produced::At(_)), "{stale:?}");
            let read = cluster.ask(old, FETCH_VERSION, &fetch_from(TOPIC, 1, -1)).await;
            let read = &read.unwrap().responses[0].partitions[0];
            assert!(
                read.error_code != 0 || read.records.as_ref().is_none_or(|records| records.is_empty()),
                "{read:?}"
            );
            cluster.until_isr(TOPIC, 3).await;
            assert_eq!(cluster.values(TOPIC).await, ["before", "meanwhile"]);
        });
    }
}

/// Bufstream 0.1: offsets of zero, told while nobody knew better; consumers began anew or stood still.
#[test]
fn no_end_is_told_that_is_behind_what_was_acknowledged() {
    for seed in 81..=85 {
        with_cluster(seed, &[], |mut cluster| async move {
            cluster.create(TOPIC, 3, &[("min.insync.replicas", "2")]).await;
            for number in 0..20 {
                cluster.produce(TOPIC, &format!("v{number}")).await;
            }
            let (dead, others) = others(&cluster);
            cluster.kill(dead);
            let partition = ListOffsetsPartition::default()
                .with_current_leader_epoch(-1)
                .with_timestamp(LATEST);
            let topic = ListOffsetsTopic::default()
                .with_name(name(TOPIC))
                .with_partitions(vec![partition]);
            let request = ListOffsetsRequest::default()
                .with_replica_id((-1).into())
                .with_topics(vec![topic]);
            let mut told = 0;
            for _ in 0..400 {
                for other in &others {
                    let answer = cluster.ask(*other, LIST_OFFSETS_VERSION, &request).await.unwrap();
                    let answer = &answer.topics[0].partitions[0];
                    if answer.error_code == 0 {
                        assert_eq!(answer.offset, 20);
                        told += 1;
                    }
                }
                cluster.runtime.sleep(Duration::from_millis(5)).await;
            }
            assert!(told > 100, "a leader knew it {told} times only");
        });
    }
}
