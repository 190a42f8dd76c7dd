//! `topic add-partitions`, `topic delete-records`.

use std::collections::BTreeMap;

use serde::Serialize;

use super::sum_up;
use crate::cli::{TopicAddPartitionsArgs, TopicDeleteRecordsArgs};
use crate::client::Client;
use crate::client_config::ClientConfig;
use crate::confirm::confirm;
use crate::failure::Failure;
use crate::offset_spec::OffsetSpec;
use crate::output::{Output, count};

#[derive(Serialize)]
struct Grown<'a> {
    topic: &'a str,
    partitions: i32,
}

/// `strandctl topic add-partitions`
pub fn add(
    config: &ClientConfig,
    arguments: &TopicAddPartitionsArgs,
    output: &mut Output,
) -> Result<(), Failure> {
    let TopicAddPartitionsArgs { topic, partitions } = arguments;
    Client::connect(config)?.create_partitions(topic, *partitions)?;
    if output.is_json() {
        return output.json(&Grown {
            topic,
            partitions: *partitions,
        });
    }
    output.line(format_args!(
        "topic {topic} has {} now",
        count(*partitions as u64, "partition")
    ))
}

#[derive(Serialize)]
struct Cut<'a> {
    topic: &'a str,
    partition: i32,
    start_offset: i64,
}

/// `strandctl topic delete-records`
pub fn delete_records(
    config: &ClientConfig,
    arguments: &TopicDeleteRecordsArgs,
    output: &mut Output,
) -> Result<(), Failure> {
    let topic = &arguments.topic;
    let mut client = Client::connect(config)?;
    let all: Vec<i32> = client
        .topic(topic, false)?
        .partitions
        .iter()
        .map(|partition| partition.index)
        .collect();
    if let Some(unknown) = arguments
        .partitions
        .iter()
        .find(|partition| !all.contains(partition))
    {
        return Err(Failure::usage(format!(
            "topic {topic} has no partition {unknown}: it has {}",
            all.len()
        )));
    }
    let chosen = match arguments.partitions.is_empty() {
        true => all,
        false => arguments.partitions.clone(),
    };
    let before = before(&mut client, topic, &chosen, arguments.before)?;
    let question = format!(
        "Delete records of {} of topic {topic} for good?",
        count(chosen.len() as u64, "partition")
    );
    confirm(&question, arguments.yes)?;
    let mut results = Vec::new();
    for (partition, result) in client.delete_records(topic, &before) {
        if let Ok(start_offset) = result {
            if output.is_json() {
                output.json(&Cut {
                    topic,
                    partition,
                    start_offset,
                })?;
            } else {
                output.line(format_args!(
                    "{topic}-{partition} starts at offset {start_offset} now"
                ))?;
            }
        }
        results.push((format!("{topic}-{partition}"), result));
    }
    sum_up(results, output.is_json())
}

/// The first offset to keep of each partition; what an offset is beyond is the broker's to refuse.
fn before(
    client: &mut Client,
    topic: &str,
    partitions: &[i32],
    spec: OffsetSpec,
) -> Result<BTreeMap<i32, i64>, Failure> {
    let bounds = client.offset_bounds(topic, partitions.iter().copied())?;
    let by_time = match spec {
        OffsetSpec::Time(time) => {
            let wanted = partitions.iter().map(|&partition| (partition, time)).collect();
            client.list_offsets(topic, &wanted)?
        }
        _ => BTreeMap::new(),
    };
    let first_kept = |(partition, (start, end)): (i32, (i64, i64))| {
        let offset = match spec {
            OffsetSpec::Start => start,
            OffsetSpec::End => end,
            OffsetSpec::At(offset) => offset,
            OffsetSpec::Last(count) => end.saturating_sub(count).max(start),
            OffsetSpec::Time(_) => by_time.get(&partition).copied().flatten().unwrap_or(end),
        };
        (partition, offset)
    };
    Ok(bounds.into_iter().map(first_kept).collect())
}
