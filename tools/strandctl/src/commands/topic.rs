//! `topic create`, `topic list`, `topic delete`.

use serde::Serialize;
use strandline_wire::{ErrorCode, topic_name};

use super::sum_up;
use crate::cli::{TopicCreateArgs, TopicDeleteArgs};
use crate::client::Client;
use crate::client::admin::{CreatedTopic, NewTopic};
use crate::client::metadata::Topics;
use crate::client_config::{ClientConfig, split_key_value};
use crate::confirm::confirm;
use crate::failure::Failure;
use crate::output::{Output, count, topic_id_text};

/// Parses `key=value` arguments.
pub(super) fn parse_configs(arguments: &[String]) -> Result<Vec<(String, String)>, Failure> {
    let parse = |argument: &String| {
        split_key_value(argument)
            .map(|(key, value)| (key.trim().to_owned(), value.to_owned()))
            .map_err(Failure::usage)
    };
    arguments.iter().map(parse).collect()
}

#[derive(Serialize)]
struct Created<'a> {
    topic: &'a str,
    created: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    partitions: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    replication_factor: Option<i16>,
}

/// `strandctl topic create`
pub fn create(
    config: &ClientConfig,
    arguments: &TopicCreateArgs,
    output: &mut Output,
) -> Result<(), Failure> {
    let configs = parse_configs(&arguments.configs)?;
    let topics: Vec<_> = unique(&arguments.topics)
        .into_iter()
        .map(|name| NewTopic {
            name,
            partitions: arguments.partitions,
            replication_factor: arguments.replication_factor,
            configs: configs.clone(),
        })
        .collect();
    let mut results = Client::connect(config)?.create_topics(&topics)?;
    let mut existing = Vec::new();
    if arguments.if_not_exists {
        results.retain(|(name, result)| {
            let exists = matches!(result, Err(error) if error.code() == Some(ErrorCode::TopicAlreadyExists));
            if exists {
                existing.push(name.clone());
            }
            !exists
        });
    }
    for (topic, result) in &results {
        if let Ok(created) = result {
            print_created(topic, created, output)?;
        }
    }
    for topic in &existing {
        if output.is_json() {
            output.json(&Created {
                topic,
                created: false,
                id: None,
                partitions: None,
                replication_factor: None,
            })?;
        } else {
            output.line(format_args!("topic {topic} exists already"))?;
        }
    }
    sum_up(results, output.is_json())
}

fn print_created(topic: &str, created: &CreatedTopic, output: &mut Output) -> Result<(), Failure> {
    let id = created.id.map(topic_id_text);
    let CreatedTopic {
        partitions,
        replication_factor,
        ..
    } = *created;
    if output.is_json() {
        return output.json(&Created {
            topic,
            created: true,
            id,
            partitions,
            replication_factor,
        });
    }
    let mut details = Vec::new();
    if let Some(partitions) = partitions {
        details.push(count(partitions as u64, "partition"));
    }
    if let Some(replication_factor) = replication_factor {
        details.push(format!("replication factor {replication_factor}"));
    }
    if let Some(id) = id {
        details.push(format!("id {id}"));
    }
    let details = if details.is_empty() {
        String::new()
    } else {
        format!(" ({})", details.join(", "))
    };
    output.line(format_args!("created topic {topic}{details}"))
}

#[derive(Serialize)]
struct Listed {
    topic: String,
    id: Option<String>,
    partitions: usize,
    replication_factor: usize,
    internal: bool,
}

/// `strandctl topic list`
pub fn list(config: &ClientConfig, output: &mut Output) -> Result<(), Failure> {
    let metadata = Client::connect(config)?.metadata(Topics::All)?;
    let topics: Vec<_> = metadata
        .topics
        .into_iter()
        .map(|topic| Listed {
            id: topic.id.map(topic_id_text),
            partitions: topic.partitions.len(),
            replication_factor: topic.replication_factor(),
            internal: topic.is_internal,
            topic: topic.name,
        })
        .collect();
    if output.is_json() {
        return output.json(&topics);
    }
    let row = |topic: &Listed| {
        let internal = if topic.internal { "internal" } else { "" };
        [
            topic.topic.clone(),
            topic.partitions.to_string(),
            topic.replication_factor.to_string(),
            internal.to_owned(),
        ]
    };
    let rows: Vec<_> = topics.iter().map(row).collect();
    output.table(["TOPIC", "PARTITIONS", "REPLICATION", ""], &rows)
}

#[derive(Serialize)]
struct Deleted<'a> {
    topic: &'a str,
    deleted: bool,
}

/// `strandctl topic delete`
pub fn delete(
    config: &ClientConfig,
    arguments: &TopicDeleteArgs,
    output: &mut Output,
) -> Result<(), Failure> {
    let topics = unique(&arguments.topics);
    if let Some(internal) = topics.iter().find(|topic| topic_name::is_internal(topic))
        && !arguments.internal
    {
        return Err(Failure::usage(format!(
            "{internal} is the cluster's own topic: without it every group or transaction that it keeps is forgotten; \
             --internal deletes it all the same"
        )));
    }
    let question = format!("Delete {} with all records?", name_topics(&topics));
    confirm(&question, arguments.yes)?;
    let mut results = Client::connect(config)?.delete_topics(&topics)?;
    if arguments.if_exists {
        results.retain(|(_, result)| {
            !matches!(result, Err(error) if error.code() == Some(ErrorCode::UnknownTopicOrPartition))
        });
    }
    for (topic, result) in &results {
        if result.is_ok() && output.is_json() {
            output.json(&Deleted { topic, deleted: true })?;
        } else if result.is_ok() {
            output.line(format_args!("deleted topic {topic}"))?;
        }
    }
    sum_up(results, output.is_json())
}

fn name_topics(topics: &[String]) -> String {
    let noun = if topics.len() == 1 { "topic" } else { "topics" };
    format!("{noun} {}", topics.join(", "))
}

/// The names without repetitions: a broker refuses a request that names one twice.
fn unique(names: &[String]) -> Vec<String> {
    let mut unique: Vec<String> = Vec::new();
    for name in names {
        if !unique.contains(name) {
            unique.push(name.clone());
        }
    }
    unique
}
