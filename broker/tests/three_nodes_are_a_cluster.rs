//! Three processes are one cluster: each is a broker of its own partitions, the metadata is everyone's and outlives any node.

#![allow(clippy::unwrap_used)]

mod support;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use kafka_protocol::messages::create_topics_request::CreatableTopic;
use kafka_protocol::messages::describe_quorum_request::{PartitionData, TopicData};
use kafka_protocol::messages::{
    CreateTopicsRequest, DescribeQuorumRequest, DescribeQuorumResponse, InitProducerIdRequest,
    RemoveRaftVoterRequest, UnregisterBrokerRequest, describe_quorum_response,
};
use support::nodes::{brokers, cluster, until};
use support::topic::{create, metadata, name};
use support::{Batch, Broker, Partition};

const NONE: i16 = 0;
const LEADER_NOT_AVAILABLE: i16 = 5;
const NOT_LEADER_OR_FOLLOWER: i16 = 6;
const REQUEST_TIMED_OUT: i16 = 7;
const INVALID_REQUEST: i16 = 42;
const BROKER_ID_NOT_REGISTERED: i16 = 102;
const INCONSISTENT_CLUSTER_ID: i16 = 104;

fn leaders(node: &Broker, topic: &str) -> Vec<(i16, i32)> {
    let found = metadata(&mut node.client(), &[topic]);
    let mut partitions: Vec<_> = found.topics[0].partitions.iter().collect();
    partitions.sort_by_key(|partition| partition.partition_index);
    partitions
        .iter()
        .map(|partition| (partition.error_code, partition.leader_id.0))
        .collect()
}

fn try_create(node: &Broker, topic: &str) -> i16 {
    let topic = CreatableTopic::default()
        .with_name(name(topic))
        .with_num_partitions(3)
        .with_replication_factor(1);
    let request = CreateTopicsRequest::default()
        .with_topics(vec![topic])
        .with_timeout_ms(30_000);
    node.client().call(7, &request).topics[0].error_code
}

/// Every partition of a topic, through its leader.
fn partition<'a>(nodes: &'a [Broker], topic: &str, index: i32) -> (&'a Broker, Partition) {
    let asked = nodes.iter().find(|node| node.runs()).unwrap();
    let (_, leader) = leaders(asked, topic)[index as usize];
    let node = &nodes[(leader / 1000 - 1) as usize];
    (node, Partition::find(node, topic, index))
}

#[test]
fn every_node_is_a_broker_and_knows_all() {
    let nodes = cluster();
    for node in &nodes {
        until("all brokers", || brokers(node) == [1000, 2000, 3000]);
    }
    let found: Vec<_> = nodes
        .iter()
        .map(|node| metadata(&mut node.client(), &[]))
        .collect();
    let ids: BTreeSet<String> = found
        .iter()
        .map(|found| format!("{:?}", found.cluster_id))
        .collect();
    assert_eq!(ids.len(), 1, "{ids:?}");
    for (broker, node) in found[0].brokers.iter().zip(&nodes) {
        assert_eq!(broker.port, i32::from(node.address().port()));
        let rack = format!("node-{}", broker.node_id.0 / 1000);
        assert_eq!(broker.rack.as_ref().map(|rack| rack.to_string()), Some(rack));
    }

    // Created through one, served by all, known to all.
    create(&mut nodes[1].client(), "spread", 6, &[]);
    for node in &nodes {
        until("the topic", || leaders(node, "spread").len() == 6);
        let led: BTreeSet<i32> = leaders(node, "spread")
            .iter()
            .map(|(_, leader)| *leader)
            .collect();
        assert_eq!(led, BTreeSet::from([1000, 2000, 3000]));
    }
    for index in 0..6 {
        let (_, mut found) = partition(&nodes, "spread", index);
        for n in 0..10 {
            assert_eq!(found.append(&Batch::of_values([format!("{index}-{n}")])), n);
        }
        assert_eq!(found.read_all(0).len(), 10);
    }
    let (leader, found) = partition(&nodes, "spread", 0);
    let other = nodes
        .iter()
        .find(|node| node.address() != leader.address())
        .unwrap();
    let request = found.produce_request(-1, Batch::of_values(["v"]).encode());
    let answer = other.client().call(support::topic::PRODUCE_VERSION, &request);
    assert_eq!(
        answer.responses[0].partition_responses[0].error_code,
        NOT_LEADER_OR_FOLLOWER
    );

    // Ids are given out once, whoever asks.
    let mut given = BTreeSet::new();
    for _ in 0..4 {
        for node in &nodes {
            let request = InitProducerIdRequest::default()
                .with_transactional_id(None)
                .with_transaction_timeout_ms(1_000);
            let answer = node.client().call(4, &request);
            assert_eq!(answer.error_code, NONE);
            assert!(
                given.insert(answer.producer_id.0),
                "{} twice",
                answer.producer_id.0
            );
        }
    }
}

#[test]
fn the_metadata_outlives_any_node_and_its_partitions_come_back_with_it() {
    let mut nodes = cluster();
    create(&mut nodes[0].client(), "kept", 3, &[]);
    for (index, value) in [(0, "a"), (1, "b"), (2, "c")] {
        until("the topic", || {
            leaders(&nodes[0], "kept").iter().all(|(code, _)| *code == NONE)
        });
        partition(&nodes, "kept", index)
            .1
            .append(&Batch::of_values([value]));
    }
    // Whichever of them leads the quorum.
    for victim in 0..3 {
        nodes[victim].kill();
        let other = (victim + 1) % 3;
        let topic = format!("while-{victim}-is-down");
        until("another topic", || match try_create(&nodes[other], &topic) {
            NONE => true,
            code => {
                assert_eq!(code, REQUEST_TIMED_OUT, "retriable until another node leads");
                false
            }
        });
        let broker = (victim as i32 + 1) * 1000;
        until("the node is fenced", || !brokers(&nodes[other]).contains(&broker));
        let known = leaders(&nodes[other], "kept");
        assert_eq!(
            known
                .iter()
                .filter(|(code, _)| *code == LEADER_NOT_AVAILABLE)
                .count(),
            1
        );
        nodes[victim].launch();
        until("it is back", || {
            leaders(&nodes[other], "kept")
                .iter()
                .all(|(code, _)| *code == NONE)
        });
        assert_eq!(leaders(&nodes[victim], &topic).len(), 3, "it missed the creation");
    }
    for index in 0..3 {
        assert_eq!(partition(&nodes, "kept", index).1.read_all(0).len(), 1);
    }
    // A node that stops says so: nobody waits for its session.
    assert!(nodes[2].stop().success());
    assert!(!brokers(&nodes[0]).contains(&3000));
}

fn describe(node: &Broker) -> DescribeQuorumResponse {
    let topic = TopicData::default()
        .with_topic_name(name("__cluster_metadata"))
        .with_partitions(vec![PartitionData::default()]);
    let request = DescribeQuorumRequest::default().with_topics(vec![topic]);
    let answer = node.client().call(2, &request);
    assert_eq!(answer.error_code, NONE, "{:?}", answer.error_message);
    answer
}

fn quorum(node: &Broker) -> describe_quorum_response::PartitionData {
    describe(node).topics[0].partitions[0].clone()
}

fn unregister(node: &Broker, broker: i32) -> i16 {
    let request = UnregisterBrokerRequest::default().with_broker_id(broker.into());
    node.client().call(0, &request).error_code
}

#[test]
fn the_quorum_is_described_and_a_lost_node_is_unregistered() {
    let mut nodes = cluster();
    create(&mut nodes[0].client(), "kept", 3, &[]);
    for node in &nodes {
        until("where every node is reached", || {
            let names = |node: &describe_quorum_response::Node| {
                let reached = node.listeners.iter().filter(|listener| listener.port > 0);
                reached.map(|listener| listener.name.to_string()).collect()
            };
            let told: Vec<Vec<String>> = describe(node).nodes.iter().map(names).collect();
            told == vec![vec!["CONTROLLER", "LINK-0"]; 3]
        });
        let seen = quorum(node);
        assert!((1..=3).contains(&seen.leader_id.0), "{seen:?}");
        let voters: Vec<i32> = seen
            .current_voters
            .iter()
            .map(|voter| voter.replica_id.0)
            .collect();
        assert_eq!((voters, seen.observers.len()), (vec![1, 2, 3], 0));
    }
    assert_eq!(unregister(&nodes[0], 3000), INVALID_REQUEST, "it lives");
    assert_eq!(unregister(&nodes[0], 9000), BROKER_ID_NOT_REGISTERED);

    nodes[2].kill();
    std::fs::remove_dir_all(nodes[2].data_directory()).unwrap();
    nodes[2].spawn();
    until("the lost node is fenced", || !brokers(&nodes[0]).contains(&3000));
    until("it is unregistered", || unregister(&nodes[0], 3000) == NONE);
    let seen = quorum(&nodes[1]);
    let lost = seen
        .current_voters
        .iter()
        .find(|voter| voter.replica_id.0 == 3)
        .unwrap();
    // The default means a cluster without an id.
    let request = RemoveRaftVoterRequest::default()
        .with_voter_id(3)
        .with_voter_directory_id(lost.replica_directory_id);
    let answer = nodes[1].client().call(0, &request);
    assert_eq!(answer.error_code, INCONSISTENT_CLUSTER_ID);
}

#[test]
fn without_a_majority_led_partitions_are_served_and_changes_time_out() {
    let mut nodes = cluster();
    create(&mut nodes[0].client(), "led", 3, &[]);
    until("the topic", || {
        leaders(&nodes[0], "led").iter().all(|(code, _)| *code == NONE)
    });
    let index = leaders(&nodes[0], "led")
        .iter()
        .position(|(_, leader)| *leader == 1000)
        .unwrap();
    let mut own = Partition::find(&nodes[0], "led", index as i32);
    nodes[1].kill();
    nodes[2].kill();
    let before = Instant::now();
    assert_eq!(try_create(&nodes[0], "refused"), REQUEST_TIMED_OUT);
    assert!(
        before.elapsed() < Duration::from_secs(15),
        "{:?}",
        before.elapsed()
    );
    assert_eq!(own.append(&Batch::of_values(["still"])), 0);
    assert_eq!(own.read_all(0).len(), 1);
    nodes[1].launch();
    until("a majority", || try_create(&nodes[0], "taken") == NONE);
    assert_eq!(leaders(&nodes[1], "taken").len(), 3);
}

#[test]
fn a_voter_without_its_log_does_not_start() {
    let mut nodes = cluster();
    assert!(nodes[0].stop().success());
    std::fs::remove_file(nodes[0].data_directory().join("quorum.redb")).unwrap();
    let (code, text) = nodes[0].refused();
    assert_eq!(code, Some(2));
    assert!(text.contains("strandctl cluster replace 1"), "{text}");
}
