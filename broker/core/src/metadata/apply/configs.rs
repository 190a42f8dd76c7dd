//! Dynamic configuration: of topics, of brokers, of the cluster, and of groups.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::super::command::{ConfigAnswer, ConfigChange, ConfigOperation, ConfigResource};
use super::super::error::ApplyError;
use super::super::image::{ClusterImage, ConfigMap};
use crate::config;

impl ClusterImage {
    pub(super) fn alter_configs(&mut self, changes: &[ConfigChange]) -> Vec<ConfigAnswer> {
        let answers = changes.iter().map(|change| self.alter_config(change)).collect();
        // Another `min.insync.replicas` is another ELR, in the same record.
        self.settle();
        answers
    }

    /// All operations of one resource hold or none does.
    fn alter_config(&mut self, change: &ConfigChange) -> ConfigAnswer {
        let current = match &change.resource {
            ConfigResource::Topic(name) => match self.topic_by_name(name) {
                Some(topic) => topic.configs.clone(),
                None => return Err(ApplyError::UnknownTopic(name.clone())),
            },
            ConfigResource::Broker(id) if !self.brokers.contains_key(id) => {
                return Err(ApplyError::UnknownBroker(*id));
            }
            ConfigResource::Broker(id) => self.broker_configs.get(id).cloned().unwrap_or_default(),
            ConfigResource::ClusterDefault => (*self.cluster_config).clone(),
            ConfigResource::Group(group) => self.group_configs.get(group).cloned().unwrap_or_default(),
        };
        let mut next = if change.replace { ConfigMap::new() } else { current };
        for (key, operation) in &change.operations {
            operate(&mut next, key, operation)?;
        }
        match &change.resource {
            ConfigResource::Topic(name) => {
                config::validate_topic(&next).map_err(ApplyError::InvalidConfig)?;
                if let Some(id) = self.topic_ids.get(name).copied() {
                    self.edit_topic(id, |topic| topic.configs = next);
                }
            }
            ConfigResource::Broker(id) => {
                // Kafka's code for a broker's configuration, while a topic's is INVALID_CONFIG.
                config::validate_dynamic_broker(&next, true).map_err(ApplyError::InvalidRequest)?;
                let configs = Arc::make_mut(&mut self.broker_configs);
                match next.is_empty() {
                    true => configs.remove(id),
                    false => configs.insert(*id, next),
                };
            }
            ConfigResource::ClusterDefault => {
                config::validate_dynamic_broker(&next, false).map_err(ApplyError::InvalidRequest)?;
                self.cluster_config = Arc::new(next);
            }
            ConfigResource::Group(group) => {
                config::validate_group(&next).map_err(ApplyError::InvalidConfig)?;
                let configs = Arc::make_mut(&mut self.group_configs);
                match next.is_empty() {
                    true => configs.remove(group),
                    false => configs.insert(group.clone(), next),
                };
            }
        }
        Ok(())
    }
}

fn operate(configs: &mut ConfigMap, key: &str, operation: &ConfigOperation) -> Result<(), ApplyError> {
    match operation {
        ConfigOperation::Set(value) => {
            configs.insert(key.to_owned(), value.clone());
        }
        ConfigOperation::Delete => {
            configs.remove(key);
        }
        ConfigOperation::Append { items, inherited } | ConfigOperation::Subtract { items, inherited } => {
            if !config::is_list(key) {
                return Err(ApplyError::InvalidConfig(format!(
                    "'{key}' is not a list: APPEND and SUBTRACT apply to lists only"
                )));
            }
            let current = configs.get(key).unwrap_or(inherited);
            let list: Vec<&str> = match operation {
                ConfigOperation::Append { .. } => {
                    let mut seen = BTreeSet::new();
                    let both = split(current).chain(split(items));
                    both.filter(|item| seen.insert(*item)).collect()
                }
                _ => {
                    let removed: BTreeSet<&str> = split(items).collect();
                    split(current).filter(|item| !removed.contains(item)).collect()
                }
            };
            let list = list.join(",");
            configs.insert(key.to_owned(), list);
        }
    }
    Ok(())
}

fn split(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(str::trim).filter(|item| !item.is_empty())
}
