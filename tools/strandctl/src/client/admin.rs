//! Creating and deleting topics, and describing the cluster.

use std::collections::BTreeMap;

use strandline_wire::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use strandline_wire::messages::delete_topics_request::DeleteTopicState;
use strandline_wire::messages::{
    CreateTopicsRequest, DeleteTopicsRequest, DescribeClusterRequest, TopicName,
};
use strandline_wire::protocol::StrBytes;
use strandline_wire::{ErrorCode, Uuid};

use super::metadata::{Broker, Topics};
use super::{Client, ClientError, Connection, NamedResults, Retry, check};
use crate::client_config::Address;

/// The first version of CreateTopics in which -1 means the broker's default (KIP-464).
const CREATE_DEFAULTS_VERSION: i16 = 4;

/// The first version of DeleteTopics that names topics one by one, with their ids.
const DELETE_STATES_VERSION: i16 = 6;

/// A topic to be created.
#[derive(Debug)]
pub struct NewTopic {
    /// Its name.
    pub name: String,
    /// Partitions; the broker's default when not given.
    pub partitions: Option<i32>,
    /// Replicas; the broker's default when not given.
    pub replication_factor: Option<i16>,
    /// Topic configuration.
    pub configs: Vec<(String, String)>,
}

/// A topic that was created.
#[derive(Debug)]
pub struct CreatedTopic {
    /// Its id, from Kafka 2.8 on.
    pub id: Option<Uuid>,
    /// Its partitions, where the broker told.
    pub partitions: Option<i32>,
    /// Its replicas, where the broker told.
    pub replication_factor: Option<i16>,
}

/// The cluster as a whole.
#[derive(Debug)]
pub struct ClusterDescription {
    /// Its id.
    pub id: Option<String>,
    /// The controller, or in KRaft a broker that stands for it.
    pub controller: Option<i32>,
    /// Brokers, by id.
    pub brokers: BTreeMap<i32, Broker>,
}

impl Client {
    /// Creates topics.
    pub fn create_topics(&mut self, topics: &[NewTopic]) -> Result<NamedResults<CreatedTopic>, ClientError> {
        let timeout_ms = self.config().request_timeout.as_millis() as i32;
        let response = self.ask_controller(|connection| {
            let version = connection.version::<CreateTopicsRequest>(i16::MAX)?;
            let request = CreateTopicsRequest::default()
                .with_timeout_ms(timeout_ms)
                .with_topics(topics.iter().map(|topic| creatable(topic, version)).collect());
            let response = connection.call(version, &request)?;
            repeatable(response.topics.iter().map(|topic| topic.error_code))?;
            Ok(response)
        })?;
        let mut results = Vec::new();
        for topic in topics {
            let answer = response
                .topics
                .iter()
                .find(|answer| answer.name.as_str() == topic.name);
            let result = match answer {
                None => Err(left_out(&topic.name)),
                Some(answer) => check(
                    format!("topic {}", topic.name),
                    answer.error_code,
                    answer.error_message.as_ref(),
                )
                .map(|()| CreatedTopic {
                    id: (!answer.topic_id.is_nil()).then_some(answer.topic_id),
                    partitions: (answer.num_partitions > 0).then_some(answer.num_partitions),
                    replication_factor: (answer.replication_factor > 0).then_some(answer.replication_factor),
                }),
            };
            results.push((topic.name.clone(), result));
        }
        Ok(results)
    }

    /// Deletes topics.
    pub fn delete_topics(&mut self, names: &[String]) -> Result<NamedResults<()>, ClientError> {
        let timeout_ms = self.config().request_timeout.as_millis() as i32;
        let response = self.ask_controller(|connection| {
            let version = connection.version::<DeleteTopicsRequest>(i16::MAX)?;
            let request = DeleteTopicsRequest::default().with_timeout_ms(timeout_ms);
            let request = if version >= DELETE_STATES_VERSION {
                let state = |name: &String| DeleteTopicState::default().with_name(Some(topic_name(name)));
                request.with_topics(names.iter().map(state).collect())
            } else {
                request.with_topic_names(names.iter().map(|name| topic_name(name)).collect())
            };
            let response = connection.call(version, &request)?;
            repeatable(response.responses.iter().map(|topic| topic.error_code))?;
            Ok(response)
        })?;
        let mut results = Vec::new();
        for name in names {
            let answer = response.responses.iter().find(|answer| {
                answer
                    .name
                    .as_ref()
                    .is_some_and(|answered| answered.as_str() == name)
            });
            let result = match answer {
                None => Err(left_out(name)),
                Some(answer) => check(
                    format!("topic {name}"),
                    answer.error_code,
                    answer.error_message.as_ref(),
                ),
            };
            results.push((name.clone(), result));
        }
        Ok(results)
    }

    /// Cluster id, controller and brokers (KIP-700), or what Metadata tells of them.
    pub fn describe_cluster(&mut self) -> Result<ClusterDescription, ClientError> {
        if !self.ask_any(|connection| Ok(connection.serves::<DescribeClusterRequest>()))? {
            let metadata = self.metadata(Topics::None)?;
            return Ok(ClusterDescription {
                id: metadata.cluster_id,
                controller: metadata.controller,
                brokers: metadata.brokers,
            });
        }
        let response = self.ask_any(|connection| {
            let version = connection.version::<DescribeClusterRequest>(i16::MAX)?;
            connection.call(version, &DescribeClusterRequest::default())
        })?;
        check("cluster", response.error_code, response.error_message.as_ref())?;
        let brokers = response.brokers.iter().filter_map(|broker| {
            let address = Address {
                host: broker.host.to_string(),
                port: u16::try_from(broker.port).ok()?,
            };
            let rack = broker.rack.as_ref().map(|rack| rack.to_string());
            Some((
                broker.broker_id.0,
                Broker {
                    id: broker.broker_id.0,
                    address,
                    rack,
                },
            ))
        });
        Ok(ClusterDescription {
            id: Some(response.cluster_id.to_string()),
            controller: (response.controller_id.0 >= 0).then_some(response.controller_id.0),
            brokers: brokers.collect(),
        })
    }

    /// Asks the controller: with ZooKeeper only it changes topics, with KRaft any broker forwards, and Metadata names
    /// one. Repeats only what surely did nothing.
    pub(super) fn ask_controller<T>(
        &mut self,
        mut ask: impl FnMut(&mut Connection) -> Result<T, ClientError>,
    ) -> Result<T, ClientError> {
        let mut retry = Retry::new(self.config());
        loop {
            let result = self
                .metadata(Topics::None)
                .and_then(|metadata| match metadata.controller {
                    Some(controller) if metadata.brokers.contains_key(&controller) => {
                        self.ask(controller, &mut ask)
                    }
                    _ => self.ask_any(&mut ask),
                });
            match result {
                Ok(answer) => return Ok(answer),
                Err(error) if surely_did_nothing(&error) => retry.pause_after(error)?,
                Err(error) => return Err(error),
            }
        }
    }
}

/// True for errors after which a change can be asked for again without the risk of meeting its own result.
fn surely_did_nothing(error: &ClientError) -> bool {
    matches!(error, ClientError::Resolve { .. } | ClientError::Connect { .. })
        || error.code().is_some_and(is_repeatable)
}

fn is_repeatable(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::NotController | ErrorCode::LeaderNotAvailable | ErrorCode::ThrottlingQuotaExceeded
    )
}

/// Turns an answer in which any part asks to be repeated into that error.
pub(super) fn repeatable(codes: impl Iterator<Item = i16>) -> Result<(), ClientError> {
    let codes: Vec<_> = codes.map(ErrorCode::from_code).collect();
    // A mixed answer has done something: its parts are told one by one.
    match codes.first() {
        Some(&code) if codes.iter().all(|&code| is_repeatable(code)) => {
            Err(ClientError::broker("the controller", code, None))
        }
        _ => Ok(()),
    }
}

fn creatable(topic: &NewTopic, version: i16) -> CreatableTopic {
    let default = if version >= CREATE_DEFAULTS_VERSION { -1 } else { 1 };
    let config = |(key, value): &(String, String)| {
        CreatableTopicConfig::default()
            .with_name(StrBytes::from_string(key.clone()))
            .with_value(Some(StrBytes::from_string(value.clone())))
    };
    CreatableTopic::default()
        .with_name(topic_name(&topic.name))
        .with_num_partitions(topic.partitions.unwrap_or(default))
        .with_replication_factor(topic.replication_factor.unwrap_or(default as i16))
        .with_configs(topic.configs.iter().map(config).collect())
}

pub(super) fn topic_name(name: &str) -> TopicName {
    TopicName(StrBytes::from_string(name.to_owned()))
}

pub(super) fn left_out(topic: &str) -> ClientError {
    let text = Some("the broker left it out of its answer".to_owned());
    ClientError::broker(format!("topic {topic}"), ErrorCode::UnknownServerError, text)
}
