//! `--print-config`: every value in effect, as a `.properties` file that gives the same node.

use strandline_core::config::{Key, Kind, Layers, Scope, Source, keys};
use strandline_core::metadata::ConfigMap;

use super::broker::BrokerConfig;
use super::sources::Settings;

static NO_DYNAMIC: ConfigMap = ConfigMap::new();

/// The page; values that a restart takes from the data directory (dynamic ones) are not in it.
pub fn print(settings: &Settings, config: &BrokerConfig) -> String {
    let layers = Layers::of_broker(&config.static_config, &NO_DYNAMIC, &NO_DYNAMIC);
    let mut text = String::new();
    for key in keys().filter(|key| key.scope == Scope::Broker && !key.internal) {
        let origin = settings
            .iter()
            .find(|(name, _, _)| *name == key.name)
            .map(|(_, _, origin)| origin);
        let (value, comment) = match (derived(key, config), origin) {
            (_, Some(origin)) => (settings.get(key.name).map(str::to_owned), format!("{origin}")),
            (Some(value), None) => (Some(value), "derived".to_owned()),
            (None, None) => match layers.resolve(key) {
                (value, Source::Default) => (value, "default".to_owned()),
                (value, _) => (value, "a synonym".to_owned()),
            },
        };
        match (key.kind, value) {
            (_, None) => text.push_str(&format!("# {} is not set\n", key.name)),
            (Kind::Password, Some(_)) => text.push_str(&format!("# {} is hidden ({comment})\n", key.name)),
            (_, Some(value)) => text.push_str(&format!(
                "# {comment}\n{}={}\n",
                key.name,
                value.replace('\\', "\\\\")
            )),
        }
    }
    text
}

/// What a key without a default came to on this machine.
fn derived(key: &Key, config: &BrokerConfig) -> Option<String> {
    let shards = u64::from(config.shards);
    Some(match key.name {
        "strandline.shards" => config.shards.to_string(),
        "strandline.memory.bytes" => (config.shard_memory_bytes * shards).to_string(),
        "strandline.journal.bytes" => config.journal_bytes.to_string(),
        "strandline.disk.free.min.bytes" => config.disk_free_min_bytes.to_string(),
        "strandline.http.port" => config.http_address?.port().to_string(),
        "broker.rack" => config.rack.clone(),
        _ => return None,
    })
}
