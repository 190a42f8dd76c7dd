use std::sync::Arc;

use strandline_core::metadata::{BrokerId, Command, MetadataVersion};
use strandline_wire::ErrorCode;
use strandline_wire::messages;
use strandline_wire::messages::alter_partition_reassignments_request::{
    AlterPartitionReassignmentsRequest, ReassignablePartition, ReassignableTopic,
};
use strandline_wire::messages::create_topics_request::{
    CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest,
};
use strandline_wire::messages::elect_leaders_request::{ElectLeadersRequest, TopicPartitions};
use strandline_wire::messages::elect_leaders_response::ElectLeadersResponse;
use strandline_wire::messages::list_partition_reassignments_request::{
    ListPartitionReassignmentsRequest, ListPartitionReassignmentsTopics,
};
use strandline_wire::messages::list_partition_reassignments_response::OngoingTopicReassignment;

use super::super::text::topic_name;
use super::super::{
    alter_partition_reassignments, create_topics, elect_leaders, list_partition_reassignments,
};
use super::Cluster;

fn ids(brokers: &[i32]) -> Vec<messages::BrokerId> {
    brokers.iter().copied().map(messages::BrokerId).collect()
}

/// Four shards, and a topic with these replicas of each partition.
fn cluster_with(topic: &str, partitions: &[&[i32]]) -> Cluster {
    let mut cluster = Cluster::new(4, &[]);
    let mut image = (*cluster.image()).clone();
    let version = MetadataVersion::NEWEST;
    image.apply(&Command::FinalizeMetadataVersion { version });
    cluster.images.publish(Arc::new(image));
    let assignments = (0..).zip(partitions).map(|(number, replicas)| {
        CreatableReplicaAssignment::default()
            .with_partition_index(number)
            .with_broker_ids(ids(replicas))
    });
    let topic = CreatableTopic::default()
        .with_name(topic_name(topic))
        .with_num_partitions(-1)
        .with_replication_factor(-1)
        .with_assignments(assignments.collect());
    let request = CreateTopicsRequest::default().with_topics(vec![topic]);
    let answer = cluster.run(async |context| create_topics::handle(context, request, 7).await);
    assert_eq!(
        answer.topics[0].error_code, 0,
        "{:?}",
        answer.topics[0].error_message
    );
    cluster
}

fn alter(
    cluster: &mut Cluster,
    topic: &str,
    partition: i32,
    replicas: Option<&[i32]>,
    allow_factor_change: bool,
) -> ErrorCode {
    let partition = ReassignablePartition::default()
        .with_partition_index(partition)
        .with_replicas(replicas.map(ids));
    let topic = ReassignableTopic::default()
        .with_name(topic_name(topic))
        .with_partitions(vec![partition]);
    let request = AlterPartitionReassignmentsRequest::default()
        .with_allow_replication_factor_change(allow_factor_change)
        .with_topics(vec![topic]);
    let answer =
        cluster.run(async |context| alter_partition_reassignments::handle(context, request, 1).await);
    assert_eq!((answer.error_code, answer.responses.len()), (0, 1));
    assert_eq!(answer.error_message, None);
    let row = &answer.responses[0].partitions[0];
    assert_eq!(row.error_code != 0, row.error_message.is_some());
    ErrorCode::from_code(row.error_code)
}

fn list(cluster: &mut Cluster, asked: Option<&[(&str, &[i32])]>) -> Vec<OngoingTopicReassignment> {
    let topics = asked.map(|asked| {
        let topics = asked.iter().map(|(topic, partitions)| {
            ListPartitionReassignmentsTopics::default()
                .with_name(topic_name(topic))
                .with_partition_indexes(partitions.to_vec())
        });
        topics.collect()
    });
    let request = ListPartitionReassignmentsRequest::default().with_topics(topics);
    let answer = cluster.run(async |context| list_partition_reassignments::handle(context, request, 0).await);
    assert_eq!((answer.error_code, &answer.error_message), (0, &None));
    answer.topics
}

fn elect(
    cluster: &mut Cluster,
    kind: i8,
    asked: Option<&[(&str, &[i32])]>,
    version: i16,
) -> ElectLeadersResponse {
    let topics = asked.map(|asked| {
        let topics = asked.iter().map(|(topic, partitions)| {
            TopicPartitions::default()
                .with_topic(topic_name(topic))
                .with_partitions(partitions.to_vec())
        });
        topics.collect()
    });
    let request = ElectLeadersRequest::default()
        .with_election_type(kind)
        .with_topic_partitions(topics);
    cluster.run(async |context| elect_leaders::handle(context, request, version).await)
}

/// Topic, partition and code of each row.
fn rows(answer: &ElectLeadersResponse) -> Vec<(String, i32, i16)> {
    let results = answer.replica_election_results.iter();
    let rows = results.flat_map(|topic| {
        for row in &topic.partition_result {
            assert_eq!(row.error_code != 0, row.error_message.is_some());
        }
        let name = topic.topic.to_string();
        let partitions = topic.partition_result.iter();
        partitions.map(move |row| (name.clone(), row.partition_id, row.error_code))
    });
    rows.collect()
}

/// Fences shards and unfences them again: others lead now.
fn bounce(cluster: &mut Cluster, brokers: &[i32]) {
    let mut image = (*cluster.image()).clone();
    let epoch = |id: &i32| (BrokerId(*id), image.broker(BrokerId(*id)).unwrap().epoch);
    let brokers: Vec<_> = brokers.iter().map(epoch).collect();
    image.apply(&Command::FenceBrokers {
        brokers: brokers.clone(),
    });
    image.apply(&Command::UnfenceBrokers { brokers });
    cluster.images.publish(Arc::new(image));
}

#[test]
fn a_move_is_begun_listed_and_taken_back() {
    let mut cluster = cluster_with("t", &[&[1000, 1001], &[1001, 1000]]);
    assert_eq!(
        alter(&mut cluster, "t", 0, None, true),
        ErrorCode::NoReassignmentInProgress
    );
    assert_eq!(list(&mut cluster, None), []);
    assert_eq!(
        alter(&mut cluster, "t", 0, Some(&[1002, 1003, 1000]), true),
        ErrorCode::None
    );
    let moving = list(&mut cluster, None);
    assert_eq!((moving.len(), moving[0].partitions.len()), (1, 1));
    let row = &moving[0].partitions[0];
    assert_eq!(row.partition_index, 0);
    assert_eq!(row.replicas, ids(&[1002, 1003, 1000, 1001]));
    assert_eq!(row.adding_replicas, ids(&[1002, 1003]));
    assert_eq!(row.removing_replicas, ids(&[1001]));
    assert_eq!(
        list(&mut cluster, Some(&[("t", &[0, 0, 1, -1, 9]), ("none", &[0])])),
        moving
    );
    assert_eq!(list(&mut cluster, Some(&[("t", &[1])])), []);
    assert_eq!(list(&mut cluster, Some(&[])), []);
    assert_eq!(alter(&mut cluster, "t", 0, None, true), ErrorCode::None);
    assert_eq!(list(&mut cluster, None), []);
    let image = cluster.image();
    let replicas = &image.topic_by_name("t").unwrap().partitions[0].replicas;
    assert_eq!(replicas, &[BrokerId(1000), BrokerId(1001)]);
}

#[test]
fn moves_that_cannot_be_are_refused_with_kafkas_codes() {
    let mut cluster = cluster_with("t", &[&[1000, 1001]]);
    for wrong in [&[][..], &[1000, 1000], &[1000, 9000], &[-1]] {
        let code = alter(&mut cluster, "t", 0, Some(wrong), true);
        assert_eq!(code, ErrorCode::InvalidReplicaAssignment, "{wrong:?}");
    }
    for (topic, partition) in [("none", 0), ("t", 1), ("t", -1)] {
        let code = alter(&mut cluster, topic, partition, Some(&[1000]), true);
        assert_eq!(code, ErrorCode::UnknownTopicOrPartition, "{topic}-{partition}");
    }
    assert_eq!(
        alter(&mut cluster, "t", 0, Some(&[1002]), false),
        ErrorCode::InvalidReplicationFactor
    );
    assert_eq!(list(&mut cluster, None), []);
    // Under way it is the factor that the partition is headed for.
    assert_eq!(alter(&mut cluster, "t", 0, Some(&[1002]), true), ErrorCode::None);
    assert_eq!(
        alter(&mut cluster, "t", 0, Some(&[1002, 1003]), false),
        ErrorCode::InvalidReplicationFactor
    );
    assert_eq!(alter(&mut cluster, "t", 0, Some(&[1003]), false), ErrorCode::None);
}

#[test]
fn elections_are_answered_for_what_was_asked() {
    let mut cluster = cluster_with("t", &[&[1000, 1001], &[1001, 1000], &[1002]]);
    let asked: &[(&str, &[i32])] = &[("t", &[0, 1, 7]), ("none", &[0])];
    let (needless, unknown) = (
        ErrorCode::ElectionNotNeeded.code(),
        ErrorCode::UnknownTopicOrPartition.code(),
    );
    let row = |topic: &str, partition, code| (topic.to_owned(), partition, code);
    assert_eq!(
        rows(&elect(&mut cluster, 0, Some(asked), 2)),
        [
            row("t", 0, needless),
            row("t", 1, needless),
            row("t", 7, unknown),
            row("none", 0, unknown)
        ]
    );
    assert_eq!(rows(&elect(&mut cluster, 0, None, 2)), []);
    bounce(&mut cluster, &[1000]);
    // It is in sync again once its leader says so; until then it cannot lead.
    let unavailable = ErrorCode::PreferredLeaderNotAvailable.code();
    assert_eq!(rows(&elect(&mut cluster, 0, None, 2)), [row("t", 0, unavailable)]);
    assert_eq!(
        rows(&elect(&mut cluster, 1, None, 2)),
        [],
        "somebody leads everywhere"
    );
    // The first version knows one kind, and no code of the whole.
    assert_eq!(
        rows(&elect(&mut cluster, 0, Some(&[("t", &[1])]), 0)),
        [row("t", 1, needless)]
    );
}

#[test]
fn an_unknown_kind_of_election_is_refused_as_a_whole() {
    let mut cluster = cluster_with("t", &[&[1000, 1001]]);
    let invalid = ErrorCode::InvalidRequest.code();
    let answer = elect(&mut cluster, 7, Some(&[("t", &[0])]), 2);
    assert_eq!(answer.error_code, invalid);
    assert_eq!(rows(&answer), [("t".to_owned(), 0, invalid)]);
    let answer = elect(&mut cluster, 7, None, 1);
    assert_eq!((answer.error_code, rows(&answer)), (invalid, Vec::new()));
}
