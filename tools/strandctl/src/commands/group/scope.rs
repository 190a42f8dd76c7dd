//! Which partitions a reset is about.

use std::collections::BTreeMap;

use strandline_wire::ErrorCode;

use crate::cli::TopicPartitions;
use crate::client::group::Position;
use crate::client::{Client, ClientError};

/// The named partitions: of a topic without numbers all, of one with numbers those, which must exist.
pub(super) fn named(client: &mut Client, topics: &[TopicPartitions]) -> Result<Vec<Position>, ClientError> {
    let mut named = Vec::new();
    for wanted in topics {
        let partitions = client.topic(&wanted.topic, false)?.partitions;
        let exists = |number: &i32| partitions.iter().any(|partition| partition.index == *number);
        match &wanted.partitions {
            None => named.extend(
                partitions
                    .iter()
                    .map(|partition| (wanted.topic.clone(), partition.index)),
            ),
            Some(numbers) => {
                if let Some(missing) = numbers.iter().find(|number| !exists(number)) {
                    return Err(missing_partition(&wanted.topic, *missing, partitions.len()));
                }
                named.extend(numbers.iter().map(|number| (wanted.topic.clone(), *number)));
            }
        }
    }
    Ok(named)
}

/// Checks that partitions exist.
pub(super) fn check<'a>(
    client: &mut Client,
    positions: impl Iterator<Item = &'a Position>,
) -> Result<(), ClientError> {
    let mut by_topic: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
    for (topic, partition) in positions {
        by_topic.entry(topic).or_default().push(*partition);
    }
    let topics: Vec<_> = by_topic
        .into_iter()
        .map(|(topic, partitions)| TopicPartitions {
            topic: topic.to_owned(),
            partitions: Some(partitions),
        })
        .collect();
    named(client, &topics).map(drop)
}

fn missing_partition(topic: &str, number: i32, count: usize) -> ClientError {
    let text = Some(format!("the topic has {count} partitions, numbered from 0"));
    ClientError::broker(
        format!("{topic}-{number}"),
        ErrorCode::UnknownTopicOrPartition,
        text,
    )
}
