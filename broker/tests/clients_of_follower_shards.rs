//! What clients see of replicas on the shards of one process, on virtual time: refusals, fail-over, groups that move.

#![allow(clippy::unwrap_used)]

#[path = "support/replicated.rs"]
mod replicated;
#[path = "support/simulated.rs"]
mod simulated;
mod support;

use std::time::Duration;

use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::{
    DescribeTopicPartitionsRequest, FindCoordinatorRequest, MetadataRequest, OffsetCommitRequest,
    ProduceRequest,
};
use replicated::{
    Cluster, FENCED_LEADER_EPOCH, NOT_ENOUGH_REPLICAS, NOT_ENOUGH_REPLICAS_AFTER_APPEND, NOT_LEADER,
    Produced, UNKNOWN_LEADER_EPOCH, batch, fetch_from, with_cluster,
};
use simulated::{FETCH_VERSION, name, produce_request};
use strandline::control::client::ShardOrder;
use strandline_core::metadata::{BrokerId, Command, Election, PartitionReference};
use strandline_runtime::Runtime;
use support::batch::{Batch, Record};
use support::group::{LOAD_IN_PROGRESS, commit_request, fetch_request, text};

const TOPIC: &str = "t";
const GROUP: &str = "g";
const NOT_COORDINATOR: i16 = 16;
const COORDINATOR_NOT_AVAILABLE: i16 = 15;

fn produce_in_time(topic: &str, value: &str, timeout_ms: i32) -> ProduceRequest {
    produce_request(topic, batch(value)).with_timeout_ms(timeout_ms)
}

#[test]
fn min_insync_replicas_refuses_writes() {
    with_cluster(11, &[], |mut cluster| async move {
        cluster.create(TOPIC, 3, &[("min.insync.replicas", "2")]).await;
        cluster.produce(TOPIC, "one").await;
        let partition = cluster.partition(TOPIC, 0);
        let (leader, others) = (partition.leader, partition.replicas[1..].to_vec());
        // Both are gone from the ISR once the record is on its way: it is there, and not acknowledged.
        for other in &others {
            cluster.order(*other, ShardOrder::Pause);
        }
        let after = cluster
            .produce_to(leader, TOPIC, produce_in_time(TOPIC, "two", 10_000))
            .await;
        assert_eq!(after, Produced::Refused(NOT_ENOUGH_REPLICAS_AFTER_APPEND));
        let partition = cluster.partition(TOPIC, 0);
        assert_eq!(partition.isr, [leader]);
        assert_eq!(
            partition.elr, others,
            "they left together, with all that was acknowledged"
        );
        let before = cluster
            .produce_to(leader, TOPIC, produce_in_time(TOPIC, "three", 10_000))
            .await;
        assert_eq!(before, Produced::Refused(NOT_ENOUGH_REPLICAS));
        // acks=1 asks for nobody else.
        let mut alone = produce_in_time(TOPIC, "four", 10_000);
        alone.acks = 1;
        assert_eq!(cluster.produce_to(leader, TOPIC, alone).await, Produced::At(2));
        assert_eq!(
            cluster.values(TOPIC).await,
            ["one"],
            "what is not committed is not read"
        );
        for other in &others {
            cluster.order(*other, ShardOrder::Start);
        }
        cluster.until_isr(TOPIC, 3).await;
        assert_eq!(cluster.produce(TOPIC, "five").await, 3);
        assert_eq!(cluster.values(TOPIC).await, ["one", "two", "four", "five"]);
    });
}

#[test]
fn epochs_and_leaders_are_told() {
    with_cluster(12, &[], |mut cluster| async move {
        cluster.create(TOPIC, 3, &[]).await;
        cluster.produce(TOPIC, "one").await;
        let before = cluster.partition(TOPIC, 0);
        cluster.order(before.leader, ShardOrder::Stop);
        cluster.until_leader_is_not(TOPIC, before.leader).await;
        cluster.produce(TOPIC, "two").await;
        let now = cluster.partition(TOPIC, 0);
        assert!(now.leader_epoch > before.leader_epoch);
        for (epoch, code) in [
            (before.leader_epoch.0, FENCED_LEADER_EPOCH),
            (now.leader_epoch.0 + 1, UNKNOWN_LEADER_EPOCH),
            (now.leader_epoch.0, 0),
        ] {
            let request = fetch_from(TOPIC, 0, epoch);
            let answer = cluster.ask(now.leader, FETCH_VERSION, &request).await.unwrap();
            assert_eq!(
                answer.responses[0].partitions[0].error_code, code,
                "epoch {epoch}"
            );
        }
        // A follower names the leader, in the answer itself (KIP-951).
        let follower = *now.isr.iter().find(|member| **member != now.leader).unwrap();
        let answer = cluster
            .ask(follower, 10, &produce_request(TOPIC, batch("v")))
            .await
            .unwrap();
        let refused = &answer.responses[0].partition_responses[0];
        assert_eq!(refused.error_code, NOT_LEADER);
        assert_eq!(refused.current_leader.leader_id.0, now.leader.0);
        assert_eq!(refused.current_leader.leader_epoch, now.leader_epoch.0);
        assert_eq!(answer.node_endpoints[0].node_id.0, now.leader.0);
        // Metadata shows replicas, ISR, and who is away.
        let topic = MetadataRequestTopic::default().with_name(Some(name(TOPIC)));
        let request = MetadataRequest::default().with_topics(Some(vec![topic]));
        let answer = cluster.ask(follower, 9, &request).await.unwrap();
        let shown = &answer.topics[0].partitions[0];
        assert_eq!(shown.leader_id.0, now.leader.0);
        assert_eq!((shown.replica_nodes.len(), shown.isr_nodes.len()), (3, 2));
        assert_eq!(shown.offline_replicas[0].0, before.leader.0);
        assert_eq!(answer.brokers.len(), 2, "who is fenced is not told of");
        let topics = vec![
            kafka_protocol::messages::describe_topic_partitions_request::TopicRequest::default()
                .with_name(name(TOPIC)),
        ];
        let request = DescribeTopicPartitionsRequest::default()
            .with_topics(topics)
            .with_response_partition_limit(10);
        let answer = cluster.ask(follower, 0, &request).await.unwrap();
        let shown = &answer.topics[0].partitions[0];
        assert_eq!(shown.isr_nodes.len(), 2);
        assert_eq!(shown.eligible_leader_replicas.as_deref(), Some(&[][..]));
    });
}

/// B04: a batch that is retried over its leader's death is stored once.
#[test]
fn a_batch_retried_over_a_leaders_death_is_stored_once() {
    for seed in 21..=25 {
        with_cluster(seed, &[], |mut cluster| async move {
            cluster.create(TOPIC, 3, &[("min.insync.replicas", "2")]).await;
            let of = |sequence: i32| {
                let value = format!("v{sequence}");
                let record = Record::new(1_735_689_600_000, None, Some(value.as_bytes()));
                let batch = Batch::new(vec![record]).by_producer(77, 0, sequence);
                produce_request(TOPIC, batch.encode())
            };
            for sequence in 0..6 {
                let leader = cluster.leader(TOPIC);
                let stored = cluster.produce_to(leader, TOPIC, of(sequence)).await;
                assert_eq!(stored, Produced::At(i64::from(sequence)));
            }
            let leader = cluster.leader(TOPIC);
            cluster.kill(leader);
            cluster.until_leader_is_not(TOPIC, leader).await;
            let leader = cluster.leader(TOPIC);
            for sequence in 1..6 {
                let again = cluster.produce_to(leader, TOPIC, of(sequence)).await;
                assert_eq!(again, Produced::At(i64::from(sequence)), "its first offset");
            }
            let next = cluster.produce_to(leader, TOPIC, of(6)).await;
            assert_eq!(next, Produced::At(6));
            let values: Vec<String> = (0..7).map(|sequence| format!("v{sequence}")).collect();
            assert_eq!(cluster.values(TOPIC).await, values);
        });
    }
}

#[test]
fn consumers_fail_over_without_losing_their_place() {
    for seed in 31..=35 {
        with_cluster(seed, &[], |mut cluster| async move {
            cluster.create(TOPIC, 3, &[("min.insync.replicas", "2")]).await;
            let (mut read, mut down) = (Vec::new(), None);
            for number in 0..40_i64 {
                if number % 10 == 5 {
                    let leader = cluster.leader(TOPIC);
                    cluster.kill(leader);
                    if let Some(before) = down.replace(leader) {
                        cluster.start(before).await;
                    }
                    cluster.until_leader_is_not(TOPIC, leader).await;
                }
                cluster.produce(TOPIC, &format!("v{number}")).await;
                // From where it was, whoever leads now: each offset once, in order.
                let next = read.len() as i64;
                let more = cluster.read(TOPIC, next).await;
                for (offset, value) in more {
                    assert_eq!(offset, read.len() as i64);
                    read.push(value);
                }
            }
            let first_of = |number: i64| read.iter().position(|value| *value == format!("v{number}"));
            let places: Vec<usize> = (0..40).map(|number| first_of(number).unwrap()).collect();
            assert!(places.is_sorted(), "{read:?}");
        });
    }
}

async fn coordinator(cluster: &mut Cluster, ask: BrokerId) -> BrokerId {
    let request = FindCoordinatorRequest::default().with_coordinator_keys(vec![text(GROUP)]);
    for _ in 0..2_000 {
        if let Some(answer) = cluster.ask(ask, 4, &request).await {
            let found = &answer.coordinators[0];
            match found.error_code {
                0 => return BrokerId(found.node_id.0),
                code => assert_eq!(code, COORDINATOR_NOT_AVAILABLE),
            }
        }
        cluster.runtime.sleep(Duration::from_millis(5)).await;
    }
    panic!("the group has no coordinator");
}

async fn commit(cluster: &mut Cluster, broker: BrokerId, offset: i64) -> Option<i16> {
    let request: OffsetCommitRequest = commit_request(GROUP, TOPIC, 0, offset);
    let answer = cluster.ask(broker, 8, &request).await?;
    Some(answer.topics[0].partitions[0].error_code)
}

/// Commits until that is acknowledged; every refusal is one that clients retry.
async fn commit_until(cluster: &mut Cluster, ask: BrokerId, offset: i64) -> BrokerId {
    for _ in 0..2_000 {
        let broker = coordinator(cluster, ask).await;
        match commit(cluster, broker, offset).await {
            Some(0) => return broker,
            Some(code) => assert!(
                [LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR].contains(&code),
                "{code}"
            ),
            None => {}
        }
        cluster.runtime.sleep(Duration::from_millis(5)).await;
    }
    panic!("offset {offset} is never committed");
}

async fn committed(cluster: &mut Cluster, ask: BrokerId) -> i64 {
    for _ in 0..2_000 {
        let broker = coordinator(cluster, ask).await;
        if let Some(answer) = cluster.ask(broker, 8, &fetch_request(GROUP, TOPIC, &[0])).await {
            let group = &answer.groups[0];
            match group.error_code {
                0 => return group.topics[0].partitions[0].committed_offset,
                code => assert!([LOAD_IN_PROGRESS, NOT_COORDINATOR].contains(&code), "{code}"),
            }
        }
        cluster.runtime.sleep(Duration::from_millis(5)).await;
    }
    panic!("the offset is never told");
}

/// B25: what was committed is there whoever coordinates the group, and the old coordinator says that it is none.
#[test]
fn a_groups_coordinator_moves() {
    for seed in 41..=43 {
        with_cluster(
            seed,
            &[("offsets.topic.replication.factor", "3")],
            |mut cluster| async move {
                cluster.create(TOPIC, 1, &[]).await;
                let first = commit_until(&mut cluster, BrokerId(1000), 1).await;
                let image = cluster.image();
                let offsets = image.topic_by_name("__consumer_offsets").unwrap();
                assert!(
                    offsets
                        .partitions
                        .iter()
                        .all(|partition| partition.replicas.len() == 3)
                );
                let mut down = first;
                for round in 0..10 {
                    let offset = 10 + round;
                    let alive = (1000..1003).map(BrokerId).find(|broker| *broker != down).unwrap();
                    if round % 2 == 0 {
                        down = coordinator(&mut cluster, alive).await;
                        cluster.kill(down);
                    } else {
                        cluster.start(down).await;
                        // And back, while everybody lives.
                        let image = cluster.image();
                        let topic = image.topic_by_name("__consumer_offsets").unwrap();
                        let partitions = 0..topic.partitions.len() as u32;
                        let partitions = partitions.map(|partition| PartitionReference {
                            topic: topic.id,
                            partition,
                        });
                        let command = Command::ElectLeaders {
                            election: Election::Preferred,
                            partitions: partitions.collect(),
                        };
                        cluster
                            .until("all in sync", |image| {
                                let topic = image.topic_by_name("__consumer_offsets").unwrap();
                                topic.partitions.iter().all(|partition| partition.isr.len() == 3)
                            })
                            .await;
                        let old = coordinator(&mut cluster, down).await;
                        let wait = Duration::from_secs(10);
                        cluster.node.client.propose(command, wait).await.unwrap();
                        let new = coordinator(&mut cluster, down).await;
                        if new != old {
                            assert_eq!(commit(&mut cluster, old, 999).await, Some(NOT_COORDINATOR));
                        }
                    }
                    let ask = (1000..1003).map(BrokerId).find(|broker| *broker != down).unwrap();
                    assert_eq!(
                        committed(&mut cluster, ask).await,
                        if round == 0 { 1 } else { offset - 1 }
                    );
                    commit_until(&mut cluster, ask, offset).await;
                    assert_eq!(committed(&mut cluster, ask).await, offset);
                }
            },
        );
    }
}
