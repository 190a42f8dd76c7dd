//! DescribeTopicPartitions (75): topics by name, a bounded number of partitions an answer, with a cursor.

use std::collections::BTreeSet;

use strandline_core::metadata::{BrokerId, ClusterImage, Topic};
use strandline_runtime::local::{Turns, collect_in_turns};
use strandline_wire::messages::describe_topic_partitions_request::DescribeTopicPartitionsRequest;
use strandline_wire::messages::describe_topic_partitions_response::{
    Cursor, DescribeTopicPartitionsResponse, DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
};
use strandline_wire::{ErrorCode, topic_name as names};

use super::context::AdminContext;
use super::operations;
use super::text::topic_name;
use super::topology::{broker_ids, leader, offline};

/// Answers from the newest image, from the cursor on.
pub async fn handle(
    context: &AdminContext<'_>,
    request: DescribeTopicPartitionsRequest,
    _version: i16,
) -> DescribeTopicPartitionsResponse {
    let image = context.image();
    let limit = usize::try_from(request.response_partition_limit).unwrap_or_default();
    let limit = limit.clamp(1, context.config.request_partitions_max.max(1));
    let (first, first_partition) = match &request.cursor {
        Some(cursor) => (
            cursor.topic_name.to_string(),
            usize::try_from(cursor.partition_index).unwrap_or_default(),
        ),
        None => (String::new(), 0),
    };
    let asked = request.topics.iter().map(|topic| topic.name.to_string());
    let asked: BTreeSet<String> = collect_in_turns(asked).await;
    if let Some(cursor) = &request.cursor
        && (cursor.partition_index < 0 || !(asked.is_empty() || asked.contains(&first)))
    {
        return refuse(&asked).await;
    }
    let named: Vec<&str> = match asked.is_empty() {
        true => {
            let names = image.topics_from(&first).map(|topic| topic.name.as_str());
            collect_in_turns(names).await
        }
        false => collect_in_turns(asked.range(first.clone()..).map(String::as_str)).await,
    };
    page(&image, context.listener, &named, (&first, first_partition), limit).await
}

/// A cursor must name a partition, of one of the topics asked for.
async fn refuse(asked: &BTreeSet<String>) -> DescribeTopicPartitionsResponse {
    let topics = asked.iter().map(|name| {
        DescribeTopicPartitionsResponseTopic::default()
            .with_error_code(ErrorCode::InvalidRequest.code())
            .with_name(Some(topic_name(name)))
            .with_is_internal(names::is_internal(name))
            .with_topic_authorized_operations(operations::OMITTED)
    });
    DescribeTopicPartitionsResponse::default()
        .with_topics(collect_in_turns(topics).await)
        .with_next_cursor(None)
}

async fn page(
    image: &ClusterImage,
    listener: &str,
    names: &[&str],
    (first, first_partition): (&str, usize),
    limit: usize,
) -> DescribeTopicPartitionsResponse {
    let mut left = limit;
    let mut topics = Vec::new();
    let mut next_cursor = None;
    let mut turns = Turns::default();
    for name in names {
        turns.item().await;
        let Some(topic) = image.topic_by_name(name) else {
            topics.push(missing(name));
            continue;
        };
        // The cursor's topic goes on where the last answer ended, if it is still the same size or larger.
        let from = if *name == first {
            first_partition.min(topic.partitions.len())
        } else {
            0
        };
        if left == 0 {
            next_cursor = Some(
                Cursor::default()
                    .with_topic_name(topic_name(name))
                    .with_partition_index(from as i32),
            );
            break;
        }
        let until = topic.partitions.len().min(from + left);
        left -= until - from;
        topics.push(describe(image, topic, from..until, listener));
        if until < topic.partitions.len() {
            next_cursor = Some(
                Cursor::default()
                    .with_topic_name(topic_name(name))
                    .with_partition_index(until as i32),
            );
            break;
        }
    }
    DescribeTopicPartitionsResponse::default()
        .with_topics(topics)
        .with_next_cursor(next_cursor)
}

fn missing(name: &str) -> DescribeTopicPartitionsResponseTopic {
    let code = match names::validate(name) {
        Ok(()) => ErrorCode::UnknownTopicOrPartition,
        Err(_) => ErrorCode::InvalidTopicException,
    };
    DescribeTopicPartitionsResponseTopic::default()
        .with_error_code(code.code())
        .with_name(Some(topic_name(name)))
        .with_is_internal(names::is_internal(name))
        .with_topic_authorized_operations(operations::OMITTED)
}

fn describe(
    image: &ClusterImage,
    topic: &Topic,
    range: std::ops::Range<usize>,
    listener: &str,
) -> DescribeTopicPartitionsResponseTopic {
    let partitions = range.map(|number| {
        let partition = &topic.partitions[number];
        let (code, leader_id) = leader(image, partition, listener);
        let last_known = match partition.last_known_leader {
            BrokerId::NONE => &[][..],
            ref last => std::slice::from_ref(last),
        };
        DescribeTopicPartitionsResponsePartition::default()
            .with_error_code(code.code())
            .with_partition_index(number as i32)
            .with_leader_id(leader_id)
            .with_leader_epoch(partition.leader_epoch.0)
            .with_replica_nodes(broker_ids(&partition.replicas))
            .with_isr_nodes(broker_ids(&partition.isr))
            .with_eligible_leader_replicas(Some(broker_ids(&partition.elr)))
            .with_last_known_elr(Some(broker_ids(last_known)))
            .with_offline_replicas(offline(image, partition))
    });
    DescribeTopicPartitionsResponseTopic::default()
        .with_name(Some(topic_name(&topic.name)))
        .with_topic_id(topic.id)
        .with_is_internal(names::is_internal(&topic.name))
        .with_partitions(partitions.collect())
        .with_topic_authorized_operations(operations::TOPIC)
}
