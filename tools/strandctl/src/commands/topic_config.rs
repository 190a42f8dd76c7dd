//! `topic config show`, `set`, `unset`.

use serde::Serialize;
use strandline_wire::ErrorCode;

use super::topic::parse_configs;
use crate::cli::TopicConfigCommand;
use crate::client::Client;
use crate::client::admin::{ConfigChange, ConfigEntry};
use crate::client_config::ClientConfig;
use crate::failure::Failure;
use crate::output::{Output, count};

/// `strandctl topic config`
pub fn run(config: &ClientConfig, command: &TopicConfigCommand, output: &mut Output) -> Result<(), Failure> {
    match command {
        TopicConfigCommand::Show { topic, all } => show(config, topic, *all, output),
        TopicConfigCommand::Set { topic, configs } => {
            let changes = parse_configs(configs)?
                .into_iter()
                .map(|(key, value)| ConfigChange::Set { key, value });
            alter(config, topic, &changes.collect::<Vec<_>>(), output)
        }
        TopicConfigCommand::Unset { topic, keys } => {
            // A broker takes the deletion of a key that is not set, or that there is not.
            let set = Client::connect(config)?.topic_configs(topic)?;
            let is_set = |key: &String| {
                set.iter()
                    .any(|entry| entry.name == *key && entry.is_set_on_topic())
            };
            if let Some(key) = keys.iter().find(|key| !is_set(key)) {
                return Err(Failure::refused(
                    format!("topic {topic}"),
                    ErrorCode::InvalidConfig,
                    Some(format!("'{key}' is not set on it; nothing was changed")),
                ));
            }
            let changes: Vec<_> = keys
                .iter()
                .map(|key| ConfigChange::Unset { key: key.clone() })
                .collect();
            alter(config, topic, &changes, output)
        }
    }
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

fn show(config: &ClientConfig, topic: &str, all: bool, output: &mut Output) -> Result<(), Failure> {
    let mut entries = Client::connect(config)?.topic_configs(topic)?;
    entries.retain(|entry| all || entry.is_set_on_topic());
    let entries: Vec<Entry> = entries.into_iter().map(Entry::from).collect();
    if output.is_json() {
        return output.json(&entries);
    }
    if entries.is_empty() {
        return output.line(format_args!(
            "nothing is set on topic {topic} (--all shows the defaults)"
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
    topic: &'a str,
    changed: usize,
}

fn alter(
    config: &ClientConfig,
    topic: &str,
    changes: &[ConfigChange],
    output: &mut Output,
) -> Result<(), Failure> {
    Client::connect(config)?.alter_topic_configs(topic, changes)?;
    if output.is_json() {
        return output.json(&Altered {
            topic,
            changed: changes.len(),
        });
    }
    output.line(format_args!(
        "changed {} of topic {topic}",
        count(changes.len() as u64, "key")
    ))
}
