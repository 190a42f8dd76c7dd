//! From texts by key to typed values.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use strandline_core::config::{ConsumerGroupSettings, Layers, StaticConfig};
use strandline_core::metadata::{ConfigMap, NodeId, SHARDS_PER_NODE_MAX};
use strandline_runtime::SocketAddr;

use super::broker::{BrokerConfig, CONNECTION_BYTES};
use super::controller::{self, ControllerConfig, ControllerKeys};
use super::descriptors;
use super::error::{ConfigError, Errors};
use super::hosts;
use super::links::{self, LinkConfig, LinkKeys};
use super::listeners::{self, ListenerKeys};
use super::machine::Machine;
use super::sources::Settings;

/// Shards by default, even if the machine has more cores: each is a broker that every client connects to.
const SHARDS_DEFAULT_MAX: usize = 8;
/// Replicas of a topic by default, where so many voters are configured.
const REPLICATION_FACTOR: i16 = 3;
const REPLICATED_FROM: usize = 3;
/// Memory of one shard by default, at most.
const SHARD_MEMORY_BYTES_DEFAULT: u64 = 256 << 20;
/// Connections that rest take at most this part of the memory; requests and answers have parts of their own.
const CONNECTIONS_PART: u64 = 4;
/// Memory registered with the rings takes at most this part of a shard's share.
const IO_MEMORY_PART: u64 = 8;
/// Below this a journal worth having does not fit.
const SHARD_MEMORY_BYTES_MIN: u64 = 32 << 20;
/// A journal by default, at most.
const JOURNAL_BYTES_DEFAULT: u64 = 128 << 20;
/// What the journals hold always has a home: twice their size, but at least this.
const DISK_FREE_BYTES_MIN: u64 = 256 << 20;

static NO_DYNAMIC: ConfigMap = ConfigMap::new();

/// What is needed before the data directories are looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeIdentity {
    /// `node.id`.
    pub node_id: NodeId,
    /// `log.dirs`, else `log.dir`.
    pub log_dirs: Vec<PathBuf>,
    /// `strandline.shards`, if set.
    pub shards_asked: Option<u32>,
    /// How many shards a new node has if nobody says.
    pub shards_default: u32,
}

/// Reads the node's identity.
///
/// # Errors
/// [`ConfigError`].
pub fn identity(settings: &Settings, machine: &Machine) -> Result<NodeIdentity, ConfigError> {
    let read = Reader::new(settings);
    // The default of the older name says nothing.
    let older = settings.get("broker.id").filter(|id| *id != "-1");
    let node_id = match (older, settings.get("node.id")) {
        (Some(older), Some(node_id)) if older != node_id => {
            return Err(ConfigError::Conflict(
                "'broker.id' and 'node.id' differ: remove 'broker.id'".to_owned(),
            ));
        }
        (Some(_), _) => NodeId(read.number("broker.id")?),
        (None, _) => NodeId(read.number("node.id")?),
    };
    if node_id > NodeId::MAX || node_id.0 < 0 {
        return Err(ConfigError::Conflict(format!(
            "invalid value '{node_id}' for 'node.id': it must be from 0 to {}",
            NodeId::MAX
        )));
    }
    let log_dirs = settings
        .get("log.dirs")
        .map_or_else(|| read.text("log.dir"), str::to_owned);
    let log_dirs: Vec<PathBuf> = log_dirs
        .split(',')
        .map(str::trim)
        .filter(|entry| !entry.is_empty())
        .map(PathBuf::from)
        .collect();
    if log_dirs.is_empty() {
        return Err(ConfigError::Conflict("'log.dirs' names no directory".to_owned()));
    }
    for (index, directory) in log_dirs.iter().enumerate() {
        if log_dirs[..index]
            .iter()
            .any(|other| same_directory(other, directory))
        {
            return Err(ConfigError::Conflict(format!(
                "'log.dirs' names {} twice",
                directory.display()
            )));
        }
    }
    let shards_asked = match settings.get("strandline.shards") {
        None => None,
        Some(_) => Some(read.number("strandline.shards")?),
    };
    let shards_default = machine.cores.len().clamp(1, SHARDS_DEFAULT_MAX) as u32;
    Ok(NodeIdentity {
        node_id,
        log_dirs,
        shards_asked,
        shards_default,
    })
}

fn same_directory(left: &Path, right: &Path) -> bool {
    let resolved = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    resolved(left) == resolved(right)
}

/// Resolves everything else for a node of `shards` shards.
///
/// # Errors
/// [`ConfigError`]: everything that does not fit together.
pub fn resolve(
    settings: &Settings,
    identity: &NodeIdentity,
    shards: u32,
    machine: &Machine,
) -> Result<BrokerConfig, ConfigError> {
    assert!(
        (1..=SHARDS_PER_NODE_MAX).contains(&shards),
        "the directories or the table bound the number of shards"
    );
    let mut errors = Errors::default();
    errors.take(check_role(settings));
    let read = Reader::new(settings);
    let listeners = errors.take(listeners::resolve(
        ListenerKeys {
            listeners: &read.text("listeners"),
            advertised: settings.get("advertised.listeners"),
            per_shard: settings.get("strandline.advertised.listeners.per.shard"),
            protocols: &read.text("listener.security.protocol.map"),
            controllers: &read.text("controller.listener.names"),
        },
        shards,
    ));
    let base_port = listeners.as_ref().map_or(0, |listeners| listeners[0].base_port);
    let http_address = errors.take(http_address(&read, base_port));
    let controller = errors.take(controller::resolve(
        ControllerKeys {
            voters: settings.get("controller.quorum.voters").unwrap_or_default(),
            names: &read.text("controller.listener.names"),
            listeners: &read.text("listeners"),
            advertised: settings.get("advertised.listeners").unwrap_or_default(),
            base_port,
        },
        identity.node_id,
    ));
    let links = match &controller {
        None => None,
        Some(controller) => errors.take(links(&read, base_port, controller.as_ref(), shards)),
    };
    if let (Some(listeners), Some(http_address), Some(controller), Some(links)) =
        (&listeners, http_address, &controller, &links)
    {
        let link = |links: &LinkConfig| ("LINK", SocketAddr::new(links.bind, links.base_port), shards);
        let of_node = [
            http_address.map(|address| ("HTTP", address, 1)),
            controller
                .as_ref()
                .map(|controller| ("CONTROLLER", controller.bind, 1)),
            links.as_ref().map(link),
        ];
        let of_node: Vec<_> = of_node.into_iter().flatten().collect();
        errors.take(listeners::check_ports(listeners, &of_node, shards));
    }
    let memory = errors.take(memory(settings, shards, machine));
    let groups = ConsumerGroupSettings::new(&read.node);
    errors.take(groups.validate().map_err(ConfigError::Conflict));
    let descriptors = errors.take(descriptors::share_out(machine.descriptors_max, shards));
    errors.result()?;
    let (Some(listeners), Some(http_address), Some(controller), Some(links), Some(memory), Some(descriptors)) =
        (listeners, http_address, controller, links, memory, descriptors)
    else {
        unreachable!("what is missing is among the errors");
    };
    let idle_ms: i64 = read.number("connections.max.idle.ms")?;
    let default_replication_factor = default_replication_factor(&read, controller.as_ref())?;
    let mut static_config = static_config(settings);
    if default_replication_factor == REPLICATION_FACTOR {
        // What is not set is told as what holds.
        let key = "default.replication.factor".to_owned();
        let factor = REPLICATION_FACTOR.to_string();
        static_config.0.entry(key).or_insert(factor);
    }
    let direct_bytes = read.number("strandline.direct.bytes")?;
    Ok(BrokerConfig {
        node_id: identity.node_id,
        shards,
        rack: settings
            .get("broker.rack")
            .map_or_else(|| format!("node-{}", identity.node_id), str::to_owned),
        log_dirs: identity.log_dirs.clone(),
        http_address,
        controller,
        links,
        cores: if read.flag("strandline.shard.pin") {
            machine.cores.clone()
        } else {
            Vec::new()
        },
        listeners,
        socket_request_max_bytes: read.number("socket.request.max.bytes")?,
        connections_max_idle: u64::try_from(idle_ms).ok().map(Duration::from_millis),
        connections_of_machine_max: u32::try_from(descriptors.connections.min(memory.connections))
            .unwrap_or(u32::MAX),
        segments_open_max: usize::try_from(descriptors.segments_of_shard).unwrap_or(usize::MAX),
        fetch_max_bytes: read.number("fetch.max.bytes")?,
        fetch_sessions_max: read.number("max.incremental.fetch.session.cache.slots")?,
        request_partitions_max: read.number("max.request.partition.size.limit")?,
        auto_create_topics: read.flag("auto.create.topics.enable"),
        num_partitions: read.number("num.partitions")?,
        default_replication_factor,
        delete_topic_enable: read.flag("delete.topic.enable"),
        shard_memory_bytes: memory.of_shard,
        journal_bytes: memory.journal,
        direct_bytes,
        disk_free_min_bytes: memory.disk_free_min,
        decompressed_batch_max_bytes: read.number("strandline.decompressed.batch.max.bytes")?,
        shard_spin: Duration::from_micros(read.number("strandline.shard.spin.us")?),
        shard_preempt: Duration::from_micros(read.number("strandline.shard.preempt.us")?),
        shard_ring_depth: read.number("strandline.shard.ring.depth")?,
        shard_io_memory_bytes: read.number("strandline.shard.io.memory.bytes")?,
        static_config,
    })
}

/// What was set, as DescribeConfigs and the defaults of topics read it.
pub fn static_config(settings: &Settings) -> StaticConfig {
    StaticConfig(
        settings
            .iter()
            .map(|(key, value, _)| (key.to_owned(), value.trim().to_owned()))
            .collect(),
    )
}

fn check_role(settings: &Settings) -> Result<(), ConfigError> {
    if let Some(roles) = settings.get("process.roles") {
        let mut roles: Vec<&str> = roles.split(',').map(str::trim).collect();
        roles.sort_unstable();
        if roles != ["broker", "controller"] {
            return Err(ConfigError::Conflict(
                "'process.roles' must be broker,controller: a node is both".to_owned(),
            ));
        }
    }
    let key = "controller.quorum.bootstrap.servers";
    if settings
        .get(key)
        .is_some_and(|list| list.split(',').filter(|item| !item.trim().is_empty()).count() > 1)
    {
        return Err(ConfigError::Conflict(format!(
            "'{key}' names several nodes: name the voters with their ids in 'controller.quorum.voters' instead"
        )));
    }
    Ok(())
}

struct Memory {
    of_shard: u64,
    journal: u64,
    disk_free_min: u64,
    /// Connections of the node, resting ones in a part of its memory.
    connections: u64,
}

fn memory(settings: &Settings, shards: u32, machine: &Machine) -> Result<Memory, ConfigError> {
    let read = Reader::new(settings);
    let shards = u64::from(shards);
    let set = |key: &str| settings.get(key).map(|_| read.number::<u64>(key)).transpose();
    let of_node = match set("strandline.memory.bytes")? {
        Some(bytes) => bytes,
        None => (machine.memory_bytes / 4).min(shards * SHARD_MEMORY_BYTES_DEFAULT),
    };
    let of_shard = of_node / shards;
    if of_shard < SHARD_MEMORY_BYTES_MIN {
        return Err(ConfigError::Conflict(format!(
            "{of_node} bytes of memory for {shards} shards leave each {of_shard}, and it needs {SHARD_MEMORY_BYTES_MIN}: \
             raise 'strandline.memory.bytes' or lower 'strandline.shards'"
        )));
    }
    let io_memory: u64 = read.number("strandline.shard.io.memory.bytes")?;
    if io_memory > of_shard / IO_MEMORY_PART {
        return Err(ConfigError::Conflict(format!(
            "'strandline.shard.io.memory.bytes' is {io_memory}, more than an eighth of a shard's {of_shard} bytes of memory: \
             lower it or raise 'strandline.memory.bytes'"
        )));
    }
    let journal = set("strandline.journal.bytes")?
        .unwrap_or(JOURNAL_BYTES_DEFAULT)
        .min(of_shard / 2);
    let disk_free_min = match set("strandline.disk.free.min.bytes")? {
        Some(bytes) => bytes,
        None => (2 * journal * shards).max(DISK_FREE_BYTES_MIN),
    };
    Ok(Memory {
        of_shard,
        journal,
        disk_free_min,
        connections: of_node / CONNECTIONS_PART / CONNECTION_BYTES,
    })
}

fn http_address(read: &Reader<'_>, base_port: u16) -> Result<Option<SocketAddr>, ConfigError> {
    if !read.flag("strandline.http.enable") {
        return Ok(None);
    }
    let port = match read.settings.get("strandline.http.port") {
        Some(_) => read.number("strandline.http.port")?,
        // The listener takes free ports: so does this.
        None if base_port == 0 => 0,
        None => base_port - 1,
    };
    let host = read.text("strandline.http.host");
    let address = hosts::resolve(&host).map_err(|error| {
        ConfigError::Conflict(format!(
            "the host '{host}' in 'strandline.http.host' does not resolve: {error}"
        ))
    })?;
    Ok(Some(SocketAddr::new(address, port)))
}

/// A cluster of enough nodes keeps records through the loss of one, unless somebody says otherwise.
fn default_replication_factor(
    read: &Reader<'_>,
    controller: Option<&ControllerConfig>,
) -> Result<i16, ConfigError> {
    let voters = controller.map_or(0, |controller| controller.voters.len());
    match read.settings.get("default.replication.factor") {
        None if voters >= REPLICATED_FROM => Ok(REPLICATION_FACTOR),
        _ => read.number("default.replication.factor"),
    }
}

fn links(
    read: &Reader<'_>,
    base_port: u16,
    controller: Option<&ControllerConfig>,
    shards: u32,
) -> Result<Option<LinkConfig>, ConfigError> {
    let port = match read.settings.get("strandline.link.port") {
        Some(_) => Some(read.number("strandline.link.port")?),
        None => None,
    };
    let keys = LinkKeys {
        host: read.settings.get("strandline.link.host"),
        port,
        advertised_host: read.settings.get("strandline.link.advertised.host"),
        base_port,
    };
    links::resolve(keys, controller, shards)
}

/// Reads single keys, with the table's default behind what was set.
struct Reader<'a> {
    settings: &'a Settings,
    node: StaticConfig,
}

impl<'a> Reader<'a> {
    fn new(settings: &'a Settings) -> Self {
        Self {
            settings,
            node: static_config(settings),
        }
    }

    fn text(&self, key: &str) -> String {
        Layers::of_broker(&self.node, &NO_DYNAMIC, &NO_DYNAMIC).text(key)
    }

    fn flag(&self, key: &str) -> bool {
        self.text(key).eq_ignore_ascii_case("true")
    }

    fn number<T: FromStr>(&self, key: &str) -> Result<T, ConfigError> {
        let text = self.text(key);
        text.parse()
            .map_err(|_| ConfigError::Conflict(format!("invalid value '{text}' for '{key}'")))
    }
}

#[cfg(test)]
mod tests {
    use strandline_core::config::{Scope, check_value, lookup};

    use super::*;
    use crate::config::sources::Origin;

    fn machine() -> Machine {
        Machine {
            cores: (0..16).collect(),
            memory_bytes: 64 << 30,
            descriptors_max: 65_536,
        }
    }

    fn settings(pairs: &[(&str, &str)]) -> Settings {
        let mut settings = Settings::default();
        for (key, value) in pairs {
            settings.set(key, value, Origin::Set);
        }
        settings
    }

    fn resolved(pairs: &[(&str, &str)], shards: u32) -> Result<BrokerConfig, String> {
        let settings = settings(pairs);
        let identity = identity(&settings, &machine()).map_err(|error| error.to_string())?;
        resolve(&settings, &identity, shards, &machine()).map_err(|error| error.to_string())
    }

    #[test]
    fn the_defaults_are_those_of_the_design() {
        let identity = identity(&settings(&[]), &machine()).unwrap();
        assert_eq!((identity.node_id, identity.shards_default), (NodeId(1), 8));
        assert_eq!(identity.log_dirs, [PathBuf::from("./data")]);
        let config = resolved(&[], 4).unwrap();
        assert_eq!(config.shard_memory_bytes, 256 << 20);
        assert_eq!(config.journal_bytes, 128 << 20);
        assert_eq!(config.rack, "node-1");
        assert_eq!(config.http_address.unwrap().to_string(), "127.0.0.1:9091");
        assert_eq!(config.listeners[0].base_port, 9092);
    }

    #[test]
    fn three_voters_are_enough_for_three_replicas() {
        let factor = |pairs: &[(&str, &str)]| resolved(pairs, 1).unwrap().default_replication_factor;
        let three = (
            "controller.quorum.voters",
            "1@127.0.0.1:9,2@127.0.0.2:9,3@127.0.0.3:9",
        );
        assert_eq!(factor(&[three]), 3);
        assert_eq!(factor(&[three, ("default.replication.factor", "2")]), 2);
        assert_eq!(
            factor(&[("controller.quorum.voters", "1@127.0.0.1:9,2@127.0.0.2:9")]),
            1
        );
        assert_eq!(factor(&[]), 1);
    }

    #[test]
    fn too_little_memory_is_refused() {
        let error = resolved(&[("strandline.memory.bytes", "67108864")], 4).unwrap_err();
        assert!(error.contains("raise 'strandline.memory.bytes'"), "{error}");
        let config = resolved(&[("strandline.memory.bytes", "134217728")], 4).unwrap();
        assert_eq!(config.journal_bytes, 16 << 20);
        assert!(config.shard_budget_bytes() >= strandline_storage::MEMORY_BYTES_MIN);
        assert!(resolved(&[("strandline.shard.io.memory.bytes", "1073741824")], 4).is_err());
    }

    #[test]
    fn the_table_and_the_storage_agree_on_the_least_journal() {
        let key = lookup(Scope::Broker, "strandline.journal.bytes").unwrap();
        let least = strandline_storage::JOURNAL_BYTES_MIN;
        assert!(check_value(key, &least.to_string()).is_ok());
        assert!(check_value(key, &(least - 1).to_string()).is_err());
    }

    #[test]
    fn what_a_single_node_cannot_be_is_refused() {
        assert!(resolved(&[("process.roles", "broker")], 1).is_err());
        assert!(resolved(&[("controller.quorum.bootstrap.servers", "a:9,b:9")], 1).is_err());
        assert!(resolved(&[("controller.quorum.voters", "1@a:9,b:9")], 1).is_err());
        let alone = resolved(&[("controller.quorum.voters", "1@a:9")], 1).unwrap();
        assert_eq!(alone.controller, None);
        let voters = "1@127.0.0.1:9,2@b:9";
        assert!(
            resolved(&[("controller.quorum.voters", voters)], 1)
                .unwrap()
                .controller
                .is_some()
        );
        let taken = resolved(&[("controller.quorum.voters", "1@127.0.0.1:9092,2@b:9")], 1).unwrap_err();
        assert!(taken.contains("both need port 9092"), "{taken}");
        assert!(resolved(&[("node.id", "2147483")], 1).is_err());
        assert!(resolved(&[("node.id", "2"), ("broker.id", "3")], 1).is_err());
    }

    #[test]
    fn all_that_does_not_fit_is_told() {
        let error = resolved(
            &[
                ("process.roles", "broker"),
                ("strandline.memory.bytes", "67108864"),
                ("listeners", "PLAINTEXT://127.0.0.1:65535"),
                ("group.consumer.session.timeout.ms", "44999"),
            ],
            4,
        )
        .unwrap_err();
        assert_eq!(error.lines().count(), 4, "{error}");
    }

    #[test]
    fn timeouts_of_groups_stay_within_their_bounds() {
        let error = resolved(&[("group.consumer.session.timeout.ms", "44999")], 1).unwrap_err();
        assert!(error.contains("group.consumer.min.session.timeout.ms"), "{error}");
        assert!(resolved(&[("group.consumer.max.heartbeat.interval.ms", "4999")], 1).is_err());
        assert!(resolved(&[("group.consumer.session.timeout.ms", "60000")], 1).is_ok());
    }
}
