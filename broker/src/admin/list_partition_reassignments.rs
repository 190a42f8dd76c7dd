//! ListPartitionReassignments (46): the moves that are under way, by this node's image of the metadata (KIP-455).

use std::collections::BTreeSet;

use strandline_core::metadata::{BrokerId, Partition, Topic};
use strandline_runtime::local::Turns;
use strandline_wire::messages;
use strandline_wire::messages::list_partition_reassignments_request::ListPartitionReassignmentsRequest;
use strandline_wire::messages::list_partition_reassignments_response::{
    ListPartitionReassignmentsResponse, OngoingPartitionReassignment, OngoingTopicReassignment,
};

use super::context::AdminContext;
use super::text::topic_name;

/// Lists moves: all of them, or those of the partitions asked for. What does not move, or does not exist, is left out.
pub async fn handle(
    context: &AdminContext<'_>,
    request: ListPartitionReassignmentsRequest,
    _version: i16,
) -> ListPartitionReassignmentsResponse {
    let image = context.image();
    let mut turns = Turns::default();
    let mut found = Vec::new();
    match &request.topics {
        None => {
            for topic in image.topics_by_name() {
                found.extend(ongoing(topic, 0..topic.partitions.len()));
                turns.item().await;
            }
        }
        Some(asked) => {
            for asked in asked {
                if let Some(topic) = image.topic_by_name(asked.name.as_str()) {
                    let numbers = asked.partition_indexes.iter();
                    // Each once, however often it is named: an answer is larger than a number.
                    let numbers: BTreeSet<usize> =
                        numbers.filter_map(|number| (*number).try_into().ok()).collect();
                    found.extend(ongoing(topic, numbers));
                }
                turns.item().await;
            }
        }
    }
    ListPartitionReassignmentsResponse::default()
        .with_error_message(None)
        .with_topics(found)
}

fn ongoing(topic: &Topic, numbers: impl IntoIterator<Item = usize>) -> Option<OngoingTopicReassignment> {
    let moving = numbers.into_iter().filter_map(|number| {
        let partition = topic.partitions.get(number)?;
        partition.is_reassigning().then(|| row(number, partition))
    });
    let partitions: Vec<OngoingPartitionReassignment> = moving.collect();
    (!partitions.is_empty()).then(|| {
        OngoingTopicReassignment::default()
            .with_name(topic_name(&topic.name))
            .with_partitions(partitions)
    })
}

fn row(number: usize, partition: &Partition) -> OngoingPartitionReassignment {
    let ids = |brokers: &[BrokerId]| {
        brokers
            .iter()
            .map(|broker| messages::BrokerId(broker.0))
            .collect()
    };
    OngoingPartitionReassignment::default()
        .with_partition_index(number as i32)
        .with_replicas(ids(&partition.replicas))
        .with_adding_replicas(ids(&partition.adding))
        .with_removing_replicas(ids(&partition.removing))
}
