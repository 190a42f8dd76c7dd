//! `topic describe`: partitions, leaders, replicas, offsets, sizes, changed configuration, what the cleaner did.

use std::collections::BTreeMap;
use std::time::{Duration, UNIX_EPOCH};

use serde::Serialize;
use strandline_wire::log_details::CompactionDetails;

use crate::client::configs::Resource;
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
    /// Null where the log is not compacted, or the broker does not tell.
    compaction: Option<Compaction>,
}

/// What the broker's cleaner knows of a log.
#[derive(Serialize)]
struct Compaction {
    /// Everything below this offset was cleaned.
    cleaned_to: i64,
    /// The dirty share of what may be cleaned, from 0 to 1.
    dirty_ratio: f64,
    clean_bytes: u64,
    dirty_bytes: u64,
    /// When a cleaning last ended; null when none did since the broker started.
    last_cleaned: Option<String>,
    /// Whether the cleaner leaves the log alone, since it cannot read it.
    uncleanable: bool,
}

impl Compaction {
    fn of(details: &CompactionDetails) -> Self {
        Self {
            cleaned_to: details.cleaned_to,
            dirty_ratio: details.dirty_ratio(),
            clean_bytes: details.clean_bytes,
            dirty_bytes: details.dirty_bytes,
            last_cleaned: details.last_cleaned_ms.and_then(time_text),
            uncleanable: details.is_uncleanable,
        }
    }
}

/// A time as `2026-01-31T12:00:00Z`; `None` for what no calendar has.
fn time_text(ms: i64) -> Option<String> {
    // What the format can express ends with the year 9999.
    const FORMATTED_MAX_MS: u64 = 253_402_300_799_999;
    let ms = u64::try_from(ms).ok().filter(|ms| *ms <= FORMATTED_MAX_MS)?;
    let time = UNIX_EPOCH + Duration::from_millis(ms);
    Some(humantime::format_rfc3339_seconds(time).to_string())
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
    let resource = Resource::Topic(topic.name.clone());
    let configs = client.configs(&resource)?;
    let configs = configs.into_iter().filter(|config| config.is_set_on(&resource));
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
                compaction: sizes
                    .get(&partition.index)
                    .and_then(|size| size.compaction.as_ref().map(Compaction::of)),
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
    )?;
    print_compaction(description, output)
}

/// What is known of the cleaner's work; nothing where it has none, or the broker does not tell.
fn print_compaction(description: &Description, output: &mut Output) -> Result<(), Failure> {
    let told = description.partitions.iter();
    let told: Vec<_> = told
        .filter_map(|partition| Some((partition.partition, partition.compaction.as_ref()?)))
        .collect();
    if told.is_empty() {
        return Ok(());
    }
    let row = |(partition, compaction): &(i32, &Compaction)| {
        let cleaned = match (compaction.uncleanable, &compaction.last_cleaned) {
            (true, _) => "cannot be cleaned: the broker's log says why".to_owned(),
            (false, Some(time)) => time.clone(),
            (false, None) => "not since the broker started".to_owned(),
        };
        [
            partition.to_string(),
            compaction.cleaned_to.to_string(),
            compaction.clean_bytes.to_string(),
            compaction.dirty_bytes.to_string(),
            format!("{:.3}", compaction.dirty_ratio),
            cleaned,
        ]
    };
    let rows: Vec<_> = told.iter().map(row).collect();
    output.table(
        [
            "PARTITION",
            "CLEAN TO",
            "CLEAN BYTES",
            "DIRTY BYTES",
            "DIRTY RATIO",
            "LAST CLEANED",
        ],
        &rows,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_of_this_calendar() {
        assert_eq!(
            time_text(1_700_000_000_999).as_deref(),
            Some("2023-11-14T22:13:20Z")
        );
        assert_eq!((time_text(-1), time_text(i64::MAX)), (None, None));
    }
}
