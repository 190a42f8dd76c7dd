//! Three processes hold the replicas of a partition: what was acknowledged outlives any of them, and any of their disks.

#![allow(clippy::unwrap_used)]

mod support;

use kafka_protocol::messages::alter_partition_reassignments_request::{
    ReassignablePartition, ReassignableTopic,
};
use kafka_protocol::messages::describe_quorum_request::{PartitionData, TopicData};
use kafka_protocol::messages::{
    AddRaftVoterRequest, AlterPartitionReassignmentsRequest, BrokerId, DescribeQuorumRequest,
    ListPartitionReassignmentsRequest, RemoveRaftVoterRequest, UnregisterBrokerRequest,
    describe_quorum_response,
};
use support::nodes::{
    Acknowledged, REPLICATED, append, assert_kept, brokers, cluster, cluster_with, create_replicated,
    node_of, partition, read, seen, until,
};
use support::topic::{PRODUCE_VERSION, name};
use support::{Batch, Broker};

const NONE: i16 = 0;
const LEADER: i16 = 1;

#[test]
fn a_leader_killed_with_its_node_loses_nothing_and_returns_as_a_follower() {
    let mut nodes = cluster();
    create_replicated(&nodes);
    let mut acknowledged = Acknowledged::new();
    for n in 0..20 {
        append(&nodes, &format!("first {n}"), &mut acknowledged);
    }
    let (old, in_sync, replicas) = seen(&nodes);
    assert_eq!((replicas[0], in_sync.len()), (old, 3));
    nodes[node_of(old)].kill();
    until("another leader", || {
        let (leader, in_sync, _) = seen(&nodes);
        leader != old && leader >= 0 && in_sync.len() == 2
    });
    assert_kept(&nodes, &acknowledged);
    for n in 0..20 {
        append(&nodes, &format!("second {n}"), &mut acknowledged);
    }
    nodes[node_of(old)].launch();
    until("the old leader follows", || seen(&nodes).1.len() == 3);
    assert_ne!(seen(&nodes).0, old, "it does not lead at once");
    // It has what it missed: it leads again once the others are gone, first of all replicas.
    append(&nodes, "third", &mut acknowledged);
    let (second, ..) = seen(&nodes);
    nodes[node_of(second)].kill();
    until("the old leader leads", || seen(&nodes).0 == old);
    assert_kept(&nodes, &acknowledged);
    append(&nodes, "fourth", &mut acknowledged);
    assert_kept(&nodes, &acknowledged);
}

#[test]
fn an_old_leader_cuts_what_only_it_has() {
    let mut nodes = cluster();
    create_replicated(&nodes);
    let mut acknowledged = Acknowledged::new();
    for n in 0..5 {
        append(&nodes, &format!("kept {n}"), &mut acknowledged);
    }
    let (old, mut alone) = partition(&nodes);
    for other in (0..3).filter(|other| *other != node_of(old)) {
        nodes[other].kill();
    }
    // With acks=1 it takes what nobody else will ever have.
    for n in 0..5 {
        let batch = Batch::of_values([format!("cut {n}")]);
        let request = alone.produce_request(LEADER, batch.encode());
        let answer = alone.client.call(PRODUCE_VERSION, &request);
        assert_eq!(answer.responses[0].partition_responses[0].error_code, NONE);
    }
    assert_eq!(alone.list_offset(7, -1).offset, 5, "nobody reads it");
    nodes[node_of(old)].kill();

    let others: Vec<usize> = (0..3).filter(|other| *other != node_of(old)).collect();
    others.iter().for_each(|other| nodes[*other].spawn());
    others.iter().for_each(|other| nodes[*other].wait_until_ready());
    for n in 0..3 {
        append(&nodes, &format!("instead {n}"), &mut acknowledged);
    }
    assert_kept(&nodes, &acknowledged);
    nodes[node_of(old)].launch();
    until("the old leader follows", || seen(&nodes).1.len() == 3);
    let log = nodes[node_of(old)].log();
    assert!(log.contains("cut: the leader's log parts there"), "{log}");
    append(&nodes, "together", &mut acknowledged);
    let (second, ..) = seen(&nodes);
    nodes[node_of(second)].kill();
    until("the old leader leads", || seen(&nodes).0 == old);
    assert_kept(&nodes, &acknowledged);
    assert!(
        read(&nodes).values().all(|value| !value.starts_with("cut")),
        "what was cut is gone"
    );
}

fn quorum(node: &Broker) -> describe_quorum_response::PartitionData {
    let topic = TopicData::default()
        .with_topic_name(name("__cluster_metadata"))
        .with_partitions(vec![PartitionData::default()]);
    let request = DescribeQuorumRequest::default().with_topics(vec![topic]);
    let answer = node.client().call(2, &request);
    assert_eq!(answer.error_code, NONE, "{:?}", answer.error_message);
    answer.topics[0].partitions[0].clone()
}

#[test]
fn a_lost_disk_is_replaced_and_filled_from_the_others() {
    let mut nodes = cluster();
    create_replicated(&nodes);
    let mut acknowledged = Acknowledged::new();
    for n in 0..10 {
        append(&nodes, &format!("before {n}"), &mut acknowledged);
    }
    let lost_voter = {
        let voters = quorum(&nodes[1]).current_voters;
        voters.into_iter().find(|voter| voter.replica_id.0 == 3).unwrap()
    };
    nodes[2].kill();
    std::fs::remove_dir_all(nodes[2].data_directory()).unwrap();
    // It waits to be let in: nothing is elected from it.
    nodes[2].spawn();
    until("the lost node is forgotten", || {
        let request = UnregisterBrokerRequest::default().with_broker_id(3000.into());
        nodes[0].client().call(0, &request).error_code == NONE
    });
    let removed = RemoveRaftVoterRequest::default()
        .with_cluster_id(None)
        .with_voter_id(3)
        .with_voter_directory_id(lost_voter.replica_directory_id);
    let answer = nodes[1].client().call(0, &removed);
    assert_eq!(answer.error_code, NONE, "{:?}", answer.error_message);
    let mut new = None;
    until("the new one learns", || {
        let observers = quorum(&nodes[0]).observers;
        new = observers.into_iter().find(|observer| observer.replica_id.0 == 3);
        new.is_some()
    });
    let added = AddRaftVoterRequest::default()
        .with_cluster_id(None)
        .with_voter_id(3)
        .with_voter_directory_id(new.unwrap().replica_directory_id)
        .with_timeout_ms(30_000);
    let answer = nodes[0].client().call(0, &added);
    assert_eq!(answer.error_code, NONE, "{:?}", answer.error_message);
    nodes[2].wait_until_ready();
    until("its replica is in sync", || seen(&nodes).1 == [1000, 2000, 3000]);
    append(&nodes, "after", &mut acknowledged);
    // Now another one may be lost.
    nodes[0].kill();
    until("in sync without it", || {
        let (leader, in_sync, _) = seen(&nodes);
        leader >= 0 && in_sync == [2000, 3000]
    });
    append(&nodes, "later", &mut acknowledged);
    assert_kept(&nodes, &acknowledged);
}

/// Nobody waits for the session of a process that is seen to be dead: here none would end within the test.
#[test]
fn a_dead_process_is_known_by_its_ports() {
    let mut nodes = cluster_with(&["broker.session.timeout.ms=600000"]);
    create_replicated(&nodes);
    let mut acknowledged = Acknowledged::new();
    append(&nodes, "before", &mut acknowledged);
    // A follower's, by its leader.
    let (leader, _, replicas) = seen(&nodes);
    let follower = replicas[1];
    assert_ne!(follower, leader);
    nodes[node_of(follower)].kill();
    let known_dead = |nodes: &[Broker], broker: i32| {
        until("the dead process is known", || {
            let asked = nodes.iter().find(|node| node.runs()).unwrap();
            !brokers(asked).contains(&broker)
        });
    };
    known_dead(&nodes, follower);
    append(&nodes, "without a follower", &mut acknowledged);
    nodes[node_of(follower)].launch();
    until("it is back", || seen(&nodes).1 == [1000, 2000, 3000]);
    // A leader's, by its followers.
    nodes[node_of(leader)].kill();
    known_dead(&nodes, leader);
    until("another one leads", || seen(&nodes).0 >= 0);
    append(&nodes, "without the leader", &mut acknowledged);
    assert_kept(&nodes, &acknowledged);
}

fn reassign(node: &Broker, replicas: &[i32]) {
    let replicas = replicas.iter().copied().map(BrokerId).collect();
    let partition = ReassignablePartition::default().with_replicas(Some(replicas));
    let topic = ReassignableTopic::default()
        .with_name(name(REPLICATED))
        .with_partitions(vec![partition]);
    let request = AlterPartitionReassignmentsRequest::default()
        .with_topics(vec![topic])
        .with_timeout_ms(30_000);
    let answer = node.client().call(1, &request);
    let answer = &answer.responses[0].partitions[0];
    assert_eq!(answer.error_code, NONE, "{:?}", answer.error_message);
}

#[test]
fn a_partition_moves_from_node_to_node_while_it_is_written() {
    let nodes = cluster();
    create_replicated(&nodes);
    let mut acknowledged = Acknowledged::new();
    let mut target = seen(&nodes).2;
    for round in 0..4 {
        for n in 0..10 {
            append(&nodes, &format!("{round} {n}"), &mut acknowledged);
        }
        // Its first replica, which leads, gives way; who held none comes back in the next round.
        let dropped = target[0];
        let kept: Vec<i32> = seen(&nodes).2.into_iter().filter(|id| *id != dropped).collect();
        target = match kept.len() {
            2 if round == 0 => kept,
            _ => {
                let free = [1000, 2000, 3000].into_iter().find(|id| !target.contains(id));
                vec![kept[0], free.unwrap()]
            }
        };
        reassign(&nodes[round % 3], &target);
        let mut n = 0;
        until("moved", || {
            append(&nodes, &format!("{round} meanwhile {n}"), &mut acknowledged);
            n += 1;
            let mut in_sync = target.clone();
            in_sync.sort_unstable();
            let (leader, now_in_sync, replicas) = seen(&nodes);
            replicas == target && now_in_sync == in_sync && target.contains(&leader)
        });
        let request = ListPartitionReassignmentsRequest::default().with_topics(None);
        assert_eq!(nodes[0].client().call(0, &request).topics, []);
        assert_kept(&nodes, &acknowledged);
    }
    for node in &nodes {
        assert!(!node.log().contains("cannot delete the log"), "{}", node.log());
    }
}

#[test]
fn the_quorums_leader_gives_leaderships_back() {
    let mut nodes = cluster_with(&["leader.imbalance.check.interval.seconds=1"]);
    create_replicated(&nodes);
    let mut acknowledged = Acknowledged::new();
    append(&nodes, "first", &mut acknowledged);
    let (preferred, ..) = seen(&nodes);
    nodes[node_of(preferred)].kill();
    until("another leader", || ![-1, preferred].contains(&seen(&nodes).0));
    append(&nodes, "second", &mut acknowledged);
    nodes[node_of(preferred)].launch();
    until("it leads again", || seen(&nodes).0 == preferred);
    append(&nodes, "third", &mut acknowledged);
    assert_kept(&nodes, &acknowledged);
}
