//! CreateTopics (19).

use std::collections::BTreeMap;

use strandline_core::metadata::{
    Answer, BrokerId, ClusterImage, Command, ConfigMap, CreatedTopic, NewTopic, PartitionLayout,
};
use strandline_runtime::local::{Turns, collect_in_turns};
use strandline_wire::ErrorCode;
use strandline_wire::messages::create_topics_request::{CreatableTopic, CreateTopicsRequest};
use strandline_wire::messages::create_topics_response::{
    CreatableTopicConfigs, CreatableTopicResult, CreateTopicsResponse,
};

use super::context::{AdminContext, shard_timeout};
use super::entries;
use super::text::{Refusal, duplicates};

/// The log of KRaft's own metadata: its name stays free of other use.
const METADATA_TOPIC: &str = "__cluster_metadata";

/// Creates topics; answers once every shard serves them, so that they are usable at once.
pub async fn handle(
    context: &AdminContext<'_>,
    request: CreateTopicsRequest,
    _version: i16,
) -> CreateTopicsResponse {
    let twice = duplicates(request.topics.iter().map(|topic| topic.name.as_str())).await;
    let mut checked: Vec<Result<NewTopic, Refusal>> = Vec::with_capacity(request.topics.len());
    let mut turns = Turns::default();
    for topic in &request.topics {
        checked.push(match twice.contains(topic.name.as_str()) {
            true => Err(Refusal::new(
                ErrorCode::InvalidRequest,
                "the request names this topic twice",
            )),
            false => new_topic(context, topic).await,
        });
        turns.item().await;
    }
    let topics: Vec<NewTopic> = collect_in_turns(checked.iter().flatten().cloned()).await;
    let command = Command::CreateTopics { topics };
    let decided = decide(context, command, request.validate_only, request.timeout_ms).await;
    let image = context.image();
    // Most topics of a large request have no configuration of their own: what they inherit is listed once.
    let inherited = configs(context, &image, &BTreeMap::new());
    let configs = |new: &NewTopic| match new.configs.is_empty() {
        true => inherited.clone(),
        false => configs(context, &image, &new.configs),
    };
    let mut decided = decided.into_iter();
    let results = checked.into_iter().zip(&request.topics).map(|(checked, topic)| {
        let outcome = match checked {
            Err(refusal) => Err(refusal),
            Ok(new) => decided
                .next()
                .expect("apply answers every topic of the command")
                .map(|created| (new, created)),
        };
        result(topic, outcome, &configs, request.validate_only)
    });
    CreateTopicsResponse::default().with_topics(collect_in_turns(results).await)
}

/// Has a creation decided: by apply if it is real, on a copy of the image if it is only to be validated.
pub(super) async fn decide(
    context: &AdminContext<'_>,
    command: Command,
    validate_only: bool,
    timeout_ms: i32,
) -> Vec<Result<CreatedTopic, Refusal>> {
    let Command::CreateTopics { topics } = &command else {
        return Vec::new();
    };
    let count = topics.len();
    if count == 0 {
        return Vec::new();
    }
    let answer = match validate_only {
        true => Ok(context.image().check(&command)),
        false => context.control.propose(command, shard_timeout(timeout_ms)).await,
    };
    match answer {
        Ok(Answer::TopicsCreated(answers)) => {
            collect_in_turns(answers.into_iter().map(|answer| answer.map_err(Refusal::from))).await
        }
        Ok(other) => unreachable!("apply answers a creation with topics, not {other:?}"),
        Err(error) => collect_in_turns((0..count).map(|_| Err(Refusal::from(error.clone())))).await,
    }
}

async fn new_topic(context: &AdminContext<'_>, topic: &CreatableTopic) -> Result<NewTopic, Refusal> {
    if topic.name.as_str() == METADATA_TOPIC {
        return Err(Refusal::new(
            ErrorCode::InvalidRequest,
            format!("the name {METADATA_TOPIC} is reserved"),
        ));
    }
    let mut configs = BTreeMap::new();
    for config in &topic.configs {
        let Some(value) = &config.value else {
            let text = format!("'{}' has no value: leave it out to have its default", config.name);
            return Err(Refusal::new(ErrorCode::InvalidConfig, text));
        };
        configs.insert(config.name.to_string(), value.to_string());
    }
    Ok(NewTopic {
        name: topic.name.to_string(),
        id: context.random_id(),
        layout: layout(context, topic).await?,
        configs,
    })
}

async fn layout(context: &AdminContext<'_>, topic: &CreatableTopic) -> Result<PartitionLayout, Refusal> {
    if topic.assignments.is_empty() {
        let default = |asked: i32, default: i32| if asked == -1 { default } else { asked };
        let config = context.config;
        let factor = default(
            i32::from(topic.replication_factor),
            i32::from(config.default_replication_factor),
        );
        return Ok(PartitionLayout::Automatic {
            partitions: default(topic.num_partitions, config.num_partitions),
            replication_factor: factor as i16,
        });
    }
    if topic.num_partitions != -1 || topic.replication_factor != -1 {
        let text = "with a manual assignment, the numbers of partitions and replicas must both be -1";
        return Err(Refusal::new(ErrorCode::InvalidRequest, text));
    }
    let mut by_number = BTreeMap::new();
    let mut turns = Turns::default();
    for assignment in &topic.assignments {
        let brokers: Vec<BrokerId> = assignment
            .broker_ids
            .iter()
            .map(|broker| BrokerId(broker.0))
            .collect();
        if by_number.insert(assignment.partition_index, brokers).is_some() {
            let text = format!(
                "the assignment names partition {} twice",
                assignment.partition_index
            );
            return Err(Refusal::new(ErrorCode::InvalidReplicaAssignment, text));
        }
        turns.item().await;
    }
    if by_number
        .keys()
        .zip(0..)
        .any(|(number, expected)| *number != expected)
    {
        let text = "the assignment must name the partitions from 0 on, without a gap";
        return Err(Refusal::new(ErrorCode::InvalidReplicaAssignment, text));
    }
    Ok(PartitionLayout::Manual(by_number.into_values().collect()))
}

fn result(
    topic: &CreatableTopic,
    outcome: Result<(NewTopic, CreatedTopic), Refusal>,
    configs: &impl Fn(&NewTopic) -> Vec<CreatableTopicConfigs>,
    validate_only: bool,
) -> CreatableTopicResult {
    let answer = CreatableTopicResult::default().with_name(topic.name.clone());
    match outcome {
        Err(refusal) => answer
            .with_error_code(refusal.code.code())
            .with_error_message(refusal.message())
            .with_num_partitions(-1)
            .with_replication_factor(-1)
            .with_configs(Some(Vec::new())),
        Ok((new, created)) => answer
            // A topic that was only validated has no id.
            .with_topic_id(if validate_only {
                uuid::Uuid::nil()
            } else {
                created.id
            })
            .with_num_partitions(created.partitions)
            .with_replication_factor(created.replication_factor)
            .with_configs(Some(configs(&new))),
    }
}

/// The configuration that the new topic has, as the answer of version 5 and later lists it.
fn configs(context: &AdminContext<'_>, image: &ClusterImage, own: &ConfigMap) -> Vec<CreatableTopicConfigs> {
    let entries = entries::of_topic(context.config, image, context.broker_id, own);
    let config = |entry: entries::Entry| {
        CreatableTopicConfigs::default()
            .with_name(super::text::string(entry.key.name))
            .with_value(entry.value.map(|value| super::text::string(&value)))
            .with_read_only(false)
            .with_config_source(entry.source as i8)
            .with_is_sensitive(false)
    };
    entries.into_iter().map(config).collect()
}
