//! `topic config` and `broker config`: `show`, `set`, `unset`.

use serde::Serialize;
use strandline_wire::ErrorCode;

use super::topic::parse_configs;
use crate::cli::{BrokerConfigCommand, TopicConfigCommand};
use crate::client::Client;
use crate::client::configs::{ConfigChange, ConfigEntry, Resource};
use crate::client_config::ClientConfig;
use crate::failure::Failure;
use crate::output::{Output, count};

/// `strandctl topic config`
pub fn of_topic(
    config: &ClientConfig,
    command: &TopicConfigCommand,
    output: &mut Output,
) -> Result<(), Failure> {
    let topic = |name: &String| Resource::Topic(name.clone());
    match command {
        TopicConfigCommand::Show { topic: name, all } => show(config, &topic(name), *all, output),
        TopicConfigCommand::Set { topic: name, configs } => set(config, &topic(name), configs, output),
        TopicConfigCommand::Unset { topic: name, keys } => unset(config, &topic(name), keys, output),
    }
}

/// `strandctl broker config`
pub fn of_broker(
    config: &ClientConfig,
    command: &BrokerConfigCommand,
    output: &mut Output,
) -> Result<(), Failure> {
    let brokers = |id: Option<i32>| id.map_or(Resource::AllBrokers, Resource::Broker);
    match command {
        BrokerConfigCommand::Show { broker, all } => show(config, &brokers(*broker), *all, output),
        BrokerConfigCommand::Set { broker, configs } => set(config, &brokers(*broker), configs, output),
        BrokerConfigCommand::Unset { broker, keys } => unset(config, &brokers(*broker), keys, output),
    }
}

fn set(
    config: &ClientConfig,
    resource: &Resource,
    configs: &[String],
    output: &mut Output,
) -> Result<(), Failure> {
    let changes = parse_configs(configs)?
        .into_iter()
        .map(|(key, value)| ConfigChange::Set { key, value });
    alter(config, resource, &changes.collect::<Vec<_>>(), output)
}

fn unset(
    config: &ClientConfig,
    resource: &Resource,
    keys: &[String],
    output: &mut Output,
) -> Result<(), Failure> {
    // A broker takes the deletion of a key that is not set, or that there is not.
    let set = Client::connect(config)?.configs(resource)?;
    let is_set = |key: &String| {
        set.iter()
            .any(|entry| entry.name == *key && entry.is_set_on(resource))
    };
    if let Some(key) = keys.iter().find(|key| !is_set(key)) {
        return Err(Failure::refused(
            resource.to_string(),
            ErrorCode::InvalidConfig,
            Some(format!("'{key}' is not set on it; nothing was changed")),
        ));
    }
    let changes: Vec<_> = keys
        .iter()
        .map(|key| ConfigChange::Unset { key: key.clone() })
        .collect();
    alter(config, resource, &changes, output)
}

#[derive(Serialize)]
struct Entry {
    key: String,
    value: Option<String>,
    source: &'static str,
    read_only: bool,
    sensitive: bool,
}

impl From<ConfigEntry> for Entry {
    fn from(entry: ConfigEntry) -> Self {
        Self {
            key: entry.name,
            value: entry.value,
            source: entry.source,
            read_only: entry.is_read_only,
            sensitive: entry.is_sensitive,
        }
    }
}

fn show(config: &ClientConfig, resource: &Resource, all: bool, output: &mut Output) -> Result<(), Failure> {
    let mut entries = Client::connect(config)?.configs(resource)?;
    entries.retain(|entry| all || entry.is_set_on(resource));
    let entries: Vec<Entry> = entries.into_iter().map(Entry::from).collect();
    if output.is_json() {
        return output.json(&entries);
    }
    if entries.is_empty() {
        return output.line(format_args!(
            "nothing is set on {resource} (--all shows what holds for it)"
        ));
    }
    let row = |entry: &Entry| {
        let value = match &entry.value {
            _ if entry.sensitive => "(secret)".to_owned(),
            Some(value) => value.clone(),
            None => "(null)".to_owned(),
        };
        [entry.key.clone(), value, entry.source.to_owned()]
    };
    let rows: Vec<_> = entries.iter().map(row).collect();
    output.table(["KEY", "VALUE", "SOURCE"], &rows)
}

#[derive(Serialize)]
struct Altered<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    topic: Option<&'a str>,
    /// Of all brokers without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    broker: Option<i32>,
    changed: usize,
}

fn alter(
    config: &ClientConfig,
    resource: &Resource,
    changes: &[ConfigChange],
    output: &mut Output,
) -> Result<(), Failure> {
    Client::connect(config)?.alter_configs(resource, changes)?;
    if output.is_json() {
        let (topic, broker) = match resource {
            Resource::Topic(topic) => (Some(topic.as_str()), None),
            Resource::Broker(broker) => (None, Some(*broker)),
            Resource::AllBrokers => (None, None),
        };
        return output.json(&Altered {
            topic,
            broker,
            changed: changes.len(),
        });
    }
    output.line(format_args!(
        "changed {} of {resource}",
        count(changes.len() as u64, "key")
    ))
}
