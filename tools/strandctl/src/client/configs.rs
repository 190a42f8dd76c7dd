//! The configuration of topics and of brokers.

use std::fmt;

use strandline_wire::ErrorCode;
use strandline_wire::messages::describe_configs_request::DescribeConfigsResource;
use strandline_wire::messages::incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig};
use strandline_wire::messages::{DescribeConfigsRequest, IncrementalAlterConfigsRequest};
use strandline_wire::protocol::StrBytes;

use super::metadata::Topics;
use super::{BrokerId, Client, ClientError, Connection, Retry, check};

/// Kafka's resource types.
const RESOURCE_TOPIC: i8 = 2;
const RESOURCE_BROKER: i8 = 4;

/// Whose configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resource {
    /// A topic's, by name.
    Topic(String),
    /// One broker's.
    Broker(BrokerId),
    /// What holds for every broker that has no value of its own.
    AllBrokers,
}

impl Resource {
    fn kind(&self) -> i8 {
        match self {
            Self::Topic(_) => RESOURCE_TOPIC,
            Self::Broker(_) | Self::AllBrokers => RESOURCE_BROKER,
        }
    }

    fn name(&self) -> StrBytes {
        StrBytes::from_string(match self {
            Self::Topic(topic) => topic.clone(),
            Self::Broker(broker) => broker.to_string(),
            Self::AllBrokers => String::new(),
        })
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Topic(topic) => write!(formatter, "topic {topic}"),
            Self::Broker(broker) => write!(formatter, "broker {broker}"),
            Self::AllBrokers => formatter.write_str("all brokers"),
        }
    }
}

/// One key of a configuration.
#[derive(Debug)]
pub struct ConfigEntry {
    /// The key.
    pub name: String,
    /// The value; none where it is secret or null.
    pub value: Option<String>,
    /// Where the value comes from, in Kafka's words.
    pub source: &'static str,
    /// True when it cannot be changed.
    pub is_read_only: bool,
    /// True when the value is secret.
    pub is_sensitive: bool,
}

impl ConfigEntry {
    /// True when it was set on the resource itself, not inherited or from a file.
    pub fn is_set_on(&self, resource: &Resource) -> bool {
        self.source
            == match resource {
                Resource::Topic(_) => config_source(1),
                Resource::Broker(_) => config_source(2),
                Resource::AllBrokers => config_source(3),
            }
    }
}

/// What to do with one key.
#[derive(Debug)]
pub enum ConfigChange {
    /// Give it a value.
    Set {
        /// The key.
        key: String,
        /// Its value.
        value: String,
    },
    /// Take the resource's own value away.
    Unset {
        /// The key.
        key: String,
    },
}

impl Client {
    /// The whole configuration of a resource, by key.
    pub fn configs(&mut self, resource: &Resource) -> Result<Vec<ConfigEntry>, ClientError> {
        let mut retry = Retry::new(self.config());
        loop {
            match self.ask_about(resource, |connection| describe(connection, resource)) {
                Ok(entries) => return Ok(entries),
                Err(error) if error.code() == Some(ErrorCode::UnknownTopicOrPartition) => return Err(error),
                Err(error) => retry.pause_after(error)?,
            }
        }
    }

    /// Changes keys of a resource's configuration, all or none.
    pub fn alter_configs(
        &mut self,
        resource: &Resource,
        changes: &[ConfigChange],
    ) -> Result<(), ClientError> {
        match resource {
            Resource::Broker(_) => {
                self.ask_about(resource, |connection| alter(connection, resource, changes))
            }
            _ => self.ask_controller(|connection| alter(connection, resource, changes)),
        }
    }

    /// What concerns one broker that broker alone answers.
    fn ask_about<T>(
        &mut self,
        resource: &Resource,
        ask: impl FnOnce(&mut Connection) -> Result<T, ClientError>,
    ) -> Result<T, ClientError> {
        let Resource::Broker(broker) = *resource else {
            return self.ask_any(ask);
        };
        let metadata = self.metadata(Topics::None)?;
        if !metadata.brokers.contains_key(&broker) {
            let text = Some("there is no broker of this id: see `cluster describe`".to_owned());
            return Err(ClientError::broker(
                resource.to_string(),
                ErrorCode::BrokerNotAvailable,
                text,
            ));
        }
        self.ask(broker, ask)
    }
}

fn describe(connection: &mut Connection, resource: &Resource) -> Result<Vec<ConfigEntry>, ClientError> {
    let version = connection.version::<DescribeConfigsRequest>(i16::MAX)?;
    let asked = DescribeConfigsResource::default()
        .with_resource_type(resource.kind())
        .with_resource_name(resource.name())
        .with_configuration_keys(None);
    let request = DescribeConfigsRequest::default().with_resources(vec![asked]);
    let response = connection.call(version, &request)?;
    let answer = response
        .results
        .into_iter()
        .next()
        .ok_or_else(|| left_out(resource))?;
    check(
        resource.to_string(),
        answer.error_code,
        answer.error_message.as_ref(),
    )?;
    let mut entries: Vec<_> = answer
        .configs
        .into_iter()
        .map(|config| ConfigEntry {
            name: config.name.to_string(),
            value: config.value.map(|value| value.to_string()),
            source: config_source(config.config_source),
            is_read_only: config.read_only,
            is_sensitive: config.is_sensitive,
        })
        .collect();
    entries.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(entries)
}

fn alter(
    connection: &mut Connection,
    resource: &Resource,
    changes: &[ConfigChange],
) -> Result<(), ClientError> {
    let version = connection.version::<IncrementalAlterConfigsRequest>(i16::MAX)?;
    let configs = changes.iter().map(|change| match change {
        ConfigChange::Set { key, value } => AlterableConfig::default()
            .with_name(StrBytes::from_string(key.clone()))
            .with_config_operation(0)
            .with_value(Some(StrBytes::from_string(value.clone()))),
        ConfigChange::Unset { key } => AlterableConfig::default()
            .with_name(StrBytes::from_string(key.clone()))
            .with_config_operation(1)
            .with_value(None),
    });
    let asked = AlterConfigsResource::default()
        .with_resource_type(resource.kind())
        .with_resource_name(resource.name())
        .with_configs(configs.collect());
    let request = IncrementalAlterConfigsRequest::default().with_resources(vec![asked]);
    let response = connection.call(version, &request)?;
    let answer = response.responses.first().ok_or_else(|| left_out(resource))?;
    check(
        resource.to_string(),
        answer.error_code,
        answer.error_message.as_ref(),
    )
}

fn left_out(resource: &Resource) -> ClientError {
    let text = Some("the broker left it out of its answer".to_owned());
    ClientError::broker(resource.to_string(), ErrorCode::UnknownServerError, text)
}

/// Kafka's names of config sources.
const fn config_source(source: i8) -> &'static str {
    match source {
        1 => "DYNAMIC_TOPIC_CONFIG",
        2 => "DYNAMIC_BROKER_CONFIG",
        3 => "DYNAMIC_DEFAULT_BROKER_CONFIG",
        4 => "STATIC_BROKER_CONFIG",
        5 => "DEFAULT_CONFIG",
        6 => "DYNAMIC_BROKER_LOGGER_CONFIG",
        7 => "DYNAMIC_CLIENT_METRICS_CONFIG",
        8 => "DYNAMIC_GROUP_CONFIG",
        _ => "UNKNOWN",
    }
}
