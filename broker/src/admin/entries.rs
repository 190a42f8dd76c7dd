//! The configuration of a resource as answers list it: every key of the table, its value, and where that comes from.

use strandline_core::config::{Key, Kind, LayerValue, Layers, Scope, Source, Update, keys};
use strandline_core::metadata::{BrokerId, ClusterImage, ConfigMap};

use crate::config::BrokerConfig;

static NOTHING: ConfigMap = ConfigMap::new();

/// One key of a resource.
pub(super) struct Entry {
    pub(super) key: &'static Key,
    /// `None` for null, and for what is secret.
    pub(super) value: Option<String>,
    pub(super) source: Source,
    pub(super) read_only: bool,
    pub(super) synonyms: Vec<LayerValue>,
}

/// Every key of a topic that has `configs` of its own.
pub(super) fn of_topic(
    config: &BrokerConfig,
    image: &ClusterImage,
    broker: BrokerId,
    configs: &ConfigMap,
) -> Vec<Entry> {
    let own = image.broker_config(broker).unwrap_or(&NOTHING);
    let layers = Layers::of_topic(&config.static_config, image.cluster_config(), own, configs);
    visible(Scope::Topic).map(|key| entry(&layers, key)).collect()
}

/// Every key of a broker.
pub(super) fn of_broker(config: &BrokerConfig, image: &ClusterImage, broker: BrokerId) -> Vec<Entry> {
    let own = image.broker_config(broker).unwrap_or(&NOTHING);
    let layers = Layers::of_broker(&config.static_config, image.cluster_config(), own);
    let mut entries: Vec<Entry> = visible(Scope::Broker).map(|key| entry(&layers, key)).collect();
    for entry in &mut entries {
        if entry.value.is_none() || entry.key.name == "broker.id" {
            entry.value = derived(config, broker, entry.key.name);
        }
    }
    entries
}

/// The keys that the cluster's default has, and no others.
pub(super) fn of_cluster_default(image: &ClusterImage) -> Vec<Entry> {
    let node = Default::default();
    let layers = Layers::of_broker(&node, image.cluster_config(), &NOTHING);
    let set = visible(Scope::Broker).filter(|key| image.cluster_config().contains_key(key.name));
    let mut entries: Vec<Entry> = set.map(|key| entry(&layers, key)).collect();
    for entry in &mut entries {
        entry
            .synonyms
            .retain(|synonym| synonym.source == Source::DynamicDefaultBroker);
    }
    entries
}

/// Every key of a group.
pub(super) fn of_group(config: &BrokerConfig, image: &ClusterImage, group: &str) -> Vec<Entry> {
    let own = image.group_config(group).unwrap_or(&NOTHING);
    let layers = Layers::of_group(&config.static_config, own);
    visible(Scope::Group).map(|key| entry(&layers, key)).collect()
}

fn visible(scope: Scope) -> impl Iterator<Item = &'static Key> {
    keys().filter(move |key| key.scope == scope && !key.internal)
}

fn entry(layers: &Layers<'_>, key: &'static Key) -> Entry {
    let (value, source) = layers.resolve(key);
    let mut synonyms = layers.chain(key);
    let secret = key.kind == Kind::Password;
    if secret {
        for synonym in &mut synonyms {
            synonym.value = None;
        }
    }
    Entry {
        key,
        value: value.filter(|_| !secret),
        source,
        read_only: key.update == Update::ReadOnly,
        synonyms,
    }
}

/// What a key that nobody set came to on this node.
fn derived(config: &BrokerConfig, broker: BrokerId, key: &str) -> Option<String> {
    match key {
        "broker.id" => Some(broker.to_string()),
        "broker.rack" => Some(config.rack.clone()),
        "strandline.shards" => Some(config.shards.to_string()),
        "strandline.memory.bytes" => Some((config.shard_memory_bytes * u64::from(config.shards)).to_string()),
        "strandline.journal.bytes" => Some(config.journal_bytes.to_string()),
        "strandline.disk.free.min.bytes" => Some(config.disk_free_min_bytes.to_string()),
        "strandline.http.port" => config.http_address.map(|address| address.port().to_string()),
        _ => None,
    }
}
