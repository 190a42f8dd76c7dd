//! Requests that name a great many topics or partitions are served in turns: whoever else asks meanwhile waits for a turn of
//! theirs, not for their end.

#![allow(clippy::unwrap_used)]

#[path = "support/simulated.rs"]
mod simulated;
mod support;

use kafka_protocol::messages::alter_configs_request::AlterConfigsResource as LegacyResource;
use kafka_protocol::messages::create_partitions_request::CreatePartitionsTopic;
use kafka_protocol::messages::create_topics_request::{CreatableReplicaAssignment, CreatableTopic};
use kafka_protocol::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::describe_log_dirs_request::DescribableLogDirTopic;
use kafka_protocol::messages::describe_topic_partitions_request::TopicRequest;
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::incremental_alter_configs_request::AlterConfigsResource;
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::offset_for_leader_epoch_request::{
    OffsetForLeaderPartition, OffsetForLeaderTopic,
};
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::{
    AlterConfigsRequest, CreatePartitionsRequest, CreateTopicsRequest, DeleteRecordsRequest,
    DeleteTopicsRequest, DescribeConfigsRequest, DescribeLogDirsRequest, DescribeTopicPartitionsRequest,
    FetchRequest, IncrementalAlterConfigsRequest, ListOffsetsRequest, MetadataRequest,
    OffsetForLeaderEpochRequest, ProduceRequest, TopicName,
};
use kafka_protocol::protocol::{Request, StrBytes};
use simulated::{FETCH_VERSION, PRODUCE_VERSION, SimClient, config, with_node};
use strandline_runtime::sim::SimRuntime;
use strandline_storage::disk::SimDiskOptions;
use uuid::Uuid;

const ITEMS: i32 = 10_000;
/// Items of one turn, at most.
const TURN_MAX: u64 = 64;
const TOPIC: i8 = 2;

fn text(number: i32) -> StrBytes {
    StrBytes::from_string(format!("topic-{number}"))
}

fn name(number: i32) -> TopicName {
    TopicName(text(number))
}

fn each<T>(item: impl Fn(i32) -> T) -> Vec<T> {
    (0..ITEMS).map(item).collect()
}

/// Serves a request whose items are passed in so many loops; a loop of handlers on the data path ends a turn at every fourth
/// item here, and counts for 16.
async fn serve<Q: Request>(runtime: &SimRuntime, version: i16, loops: u64, request: Q) {
    let mut client = SimClient::connect(runtime).await;
    let before = runtime.polls();
    client.ask(version, &request).await;
    let polls = runtime.polls() - before;
    // What the network takes for the bytes is a small part of it.
    let least = loops * ITEMS as u64 / TURN_MAX;
    assert!(polls >= least, "API {}: {polls} polls, at least {least}", Q::KEY);
}

#[test]
fn those_about_partitions() {
    with_node(
        1,
        SimDiskOptions::default(),
        config(&[]),
        |runtime, node| async move {
            node.ready.await.unwrap();
            let partitions = each(|n| PartitionProduceData::default().with_index(n));
            let topic = TopicProduceData::default()
                .with_name(name(0))
                .with_partition_data(partitions);
            let produce = ProduceRequest::default()
                .with_acks(-1)
                .with_topic_data(vec![topic]);
            serve(&runtime, PRODUCE_VERSION, 1, produce).await;

            let partitions = each(|n| FetchPartition::default().with_partition(n));
            let topic = FetchTopic::default()
                .with_topic(name(0))
                .with_partitions(partitions);
            let fetch = FetchRequest::default()
                .with_replica_id((-1).into())
                .with_session_epoch(-1);
            serve(&runtime, FETCH_VERSION, 1, fetch.with_topics(vec![topic])).await;

            let partitions = each(|n| ListOffsetsPartition::default().with_partition_index(n));
            let topic = ListOffsetsTopic::default()
                .with_name(name(0))
                .with_partitions(partitions);
            let list = ListOffsetsRequest::default().with_replica_id((-1).into());
            serve(&runtime, 7, 24, list.with_topics(vec![topic])).await;

            let partitions = each(|n| OffsetForLeaderPartition::default().with_partition(n));
            let topic = OffsetForLeaderTopic::default()
                .with_topic(name(0))
                .with_partitions(partitions);
            let epochs = OffsetForLeaderEpochRequest::default().with_replica_id((-1).into());
            serve(&runtime, 4, 1, epochs.with_topics(vec![topic])).await;

            let partitions = each(|n| DeleteRecordsPartition::default().with_partition_index(n));
            let topic = DeleteRecordsTopic::default()
                .with_name(name(0))
                .with_partitions(partitions);
            let delete = DeleteRecordsRequest::default().with_topics(vec![topic]);
            serve(&runtime, 2, 24, delete).await;

            let topic = DescribableLogDirTopic::default()
                .with_topic(name(0))
                .with_partitions(each(|n| n));
            let directories = DescribeLogDirsRequest::default().with_topics(Some(vec![topic]));
            serve(&runtime, 4, 1, directories).await;

            let assignment = |n| CreatableReplicaAssignment::default().with_partition_index(n);
            let topic = CreatableTopic::default()
                .with_name(name(0))
                .with_num_partitions(-1)
                .with_replication_factor(-1)
                .with_assignments(each(assignment));
            let create = CreateTopicsRequest::default().with_topics(vec![topic]);
            serve(&runtime, 7, 1, create).await;
        },
    );
}

#[test]
fn those_about_topics() {
    with_node(
        2,
        SimDiskOptions::default(),
        config(&[]),
        |runtime, node| async move {
            node.ready.await.unwrap();
            let topics = each(|n| MetadataRequestTopic::default().with_name(Some(name(n))));
            let metadata = MetadataRequest::default().with_allow_auto_topic_creation(false);
            serve(&runtime, 12, 2, metadata.clone().with_topics(Some(topics))).await;
            let id = |n| Uuid::from_u128(n as u128 + 1);
            let topics = each(|n| {
                MetadataRequestTopic::default()
                    .with_name(None)
                    .with_topic_id(id(n))
            });
            serve(&runtime, 12, 2, metadata.with_topics(Some(topics))).await;

            let topics = each(|n| TopicRequest::default().with_name(name(n)));
            let describe = DescribeTopicPartitionsRequest::default().with_response_partition_limit(2000);
            serve(&runtime, 0, 3, describe.with_topics(topics)).await;

            let topics = each(|n| DescribableLogDirTopic::default().with_topic(name(n)));
            let directories = DescribeLogDirsRequest::default().with_topics(Some(topics));
            serve(&runtime, 4, 1, directories).await;

            // Refused, each: nothing is created.
            let topic = |n| {
                CreatableTopic::default()
                    .with_name(name(n))
                    .with_replication_factor(9)
            };
            let create = CreateTopicsRequest::default().with_topics(each(topic));
            serve(&runtime, 7, 5, create).await;

            let topics = each(|n| DeleteTopicState::default().with_name(Some(name(n))));
            serve(&runtime, 6, 6, DeleteTopicsRequest::default().with_topics(topics)).await;

            let topics = each(|n| CreatePartitionsTopic::default().with_name(name(n)).with_count(3));
            serve(
                &runtime,
                3,
                4,
                CreatePartitionsRequest::default().with_topics(topics),
            )
            .await;
        },
    );
}

#[test]
fn those_about_configurations() {
    with_node(
        3,
        SimDiskOptions::default(),
        config(&[]),
        |runtime, node| async move {
            node.ready.await.unwrap();
            let resource = |n| {
                DescribeConfigsResource::default()
                    .with_resource_type(TOPIC)
                    .with_resource_name(text(n))
            };
            let describe = DescribeConfigsRequest::default().with_resources(each(resource));
            serve(&runtime, 4, 1, describe).await;

            let resource = |n| {
                AlterConfigsResource::default()
                    .with_resource_type(TOPIC)
                    .with_resource_name(text(n))
            };
            let alter = IncrementalAlterConfigsRequest::default().with_resources(each(resource));
            serve(&runtime, 1, 5, alter).await;

            let resource = |n| {
                LegacyResource::default()
                    .with_resource_type(TOPIC)
                    .with_resource_name(text(n))
            };
            let alter = AlterConfigsRequest::default().with_resources(each(resource));
            serve(&runtime, 2, 5, alter).await;
        },
    );
}
