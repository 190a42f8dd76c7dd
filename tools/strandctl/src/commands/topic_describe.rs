//! `topic describe`: partitions, leaders, replicas, offsets, sizes, changed configuration.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::client::metadata::{Topic, Topics};
use crate::client::offsets::{EARLIEST, LATEST};
use crate::client::{Client, ClientError};
use crate::client_config::ClientConfig;
use crate::failure::Failure;
use crate::output::{Output, join, topic_id_text};

#[derive(Serialize)]
struct Description {
    topic: String,
    id: Option<String>,
    internal: bool,
    replication_factor: usize,
    configs: BTreeMap<String, Option<String>>,
    partitions: Vec<PartitionDescription>,
}

#[derive(Serialize)]
struct PartitionDescription {
    partition: i32,
    leader: Option<i32>,
    leader_epoch: i32,
    replicas: Vec<i32>,
    isr: Vec<i32>,
    offline: Vec<i32>,
    /// Null where the leader could not be asked.
    start_offset: Option<i64>,
    end_offset: Option<i64>,
    /// Payload bytes.
    size_bytes: Option<i64>,
    /// Null where the broker does not tell, as Kafka's does not.
    segments: Option<u32>,
}

/// `strandctl topic describe`
pub fn describe(config: &ClientConfig, names: &[String], output: &mut Output) -> Result<(), Failure> {
    let mut client = Client::connect(config)?;
    let topics = if names.is_empty() {
        client.metadata(Topics::All)?.topics
    } else {
        names
            .iter()
            .map(|name| client.topic(name, false))
            .collect::<Result<Vec<_>, ClientError>>()?
    };
    let mut descriptions = Vec::new();
    for topic in topics {
        descriptions.push(describe_one(&mut client, topic)?);
    }
    if output.is_json() {
        return output.json(&descriptions);
    }
    for (position, description) in descriptions.iter().enumerate() {
        if position > 0 {
            output.line("")?;
        }
        print(description, output)?;
    }
    Ok(())
}

fn describe_one(client: &mut Client, topic: Topic) -> Result<Description, ClientError> {
    let configs = client.topic_configs(&topic.name)?;
    let configs = configs.into_iter().filter(|config| config.is_set_on_topic());
    // Partitions without a leader have no offsets to tell, and must not hide the rest.
    let led: Vec<i32> = topic.leaders().into_keys().collect();
    let offsets = |client: &mut Client, timestamp| {
        client.list_offsets(
            &topic.name,
            &led.iter().map(|&partition| (partition, timestamp)).collect(),
        )
    };
    let starts = offsets(client, EARLIEST)?;
    let ends = offsets(client, LATEST)?;
    let sizes = client.log_sizes(&topic);
    Ok(Description {
        id: topic.id.map(topic_id_text),
        internal: topic.is_internal,
        replication_factor: topic.replication_factor(),
        configs: configs.map(|config| (config.name, config.value)).collect(),
        partitions: topic
            .partitions
            .into_iter()
            .map(|partition| PartitionDescription {
                start_offset: starts.get(&partition.index).copied().flatten(),
                end_offset: ends.get(&partition.index).copied().flatten(),
                size_bytes: sizes.get(&partition.index).map(|size| size.bytes),
                segments: sizes.get(&partition.index).and_then(|size| size.segments),
                partition: partition.index,
                leader: partition.leader,
                leader_epoch: partition.leader_epoch,
                replicas: partition.replicas,
                isr: partition.isr,
                offline: partition.offline,
            })
            .collect(),
        topic: topic.name,
    })
}

fn print(description: &Description, output: &mut Output) -> Result<(), Failure> {
    let id = description
        .id
        .as_ref()
        .map(|id| format!("  id {id}"))
        .unwrap_or_default();
    let internal = if description.internal { "  internal" } else { "" };
    output.line(format_args!(
        "topic {}{id}  partitions {}  replication factor {}{internal}",
        description.topic,
        description.partitions.len(),
        description.replication_factor
    ))?;
    for (key, value) in &description.configs {
        output.line(format_args!("  {key}={}", value.as_deref().unwrap_or_default()))?;
    }
    let number = |value: Option<i64>| value.map_or("-".to_owned(), |value| value.to_string());
    let row = |partition: &PartitionDescription| {
        [
            partition.partition.to_string(),
            number(partition.leader.map(i64::from)),
            partition.leader_epoch.to_string(),
            join(&partition.replicas),
            join(&partition.isr),
            join(&partition.offline),
            number(partition.start_offset),
            number(partition.end_offset),
            number(partition.size_bytes),
            number(partition.segments.map(i64::from)),
        ]
    };
    let rows: Vec<_> = description.partitions.iter().map(row).collect();
    output.table(
        [
            "PARTITION",
            "LEADER",
            "EPOCH",
            "REPLICAS",
            "ISR",
            "OFFLINE",
            "START",
            "END",
            "BYTES",
            "SEGMENTS",
        ],
        &rows,
    )
}
