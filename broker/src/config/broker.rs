//! The typed configuration that shards and handlers read.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use super::controller::ControllerConfig;
use super::links::LinkConfig;
use strandline_core::config::{BrokerSettings, Layers, StaticConfig, TopicSettings};
use strandline_core::metadata::{BrokerId, ClusterImage, ConfigMap, NodeId, Topic};
use strandline_runtime::SocketAddr;
use strandline_runtime::runtime::IpAddr;

/// What a node was started with, resolved: every default is filled in, every address is known.
///
/// Values that can change while the node runs are not here: [`BrokerConfig::broker_settings`] and
/// [`BrokerConfig::topic_settings`] derive them from an image, once per image.
#[derive(Clone, Debug)]
pub struct BrokerConfig {
    /// The node.
    pub node_id: NodeId,
    /// How many shards it runs.
    pub shards: u32,
    /// Its failure domain.
    pub rack: String,
    /// Data directories; shard s lives in entry s mod n.
    pub log_dirs: Vec<PathBuf>,
    /// What clients connect to, in the order of `listeners`.
    pub listeners: Vec<Listener>,
    /// The quorum, for a node of several.
    pub controller: Option<ControllerConfig>,
    /// Where other nodes' shards reach this node's, for a node of several.
    pub links: Option<LinkConfig>,
    /// Where `/metrics` and `/health` are served; `None` turns it off.
    pub http_address: Option<SocketAddr>,
    /// The processors to pin shards to; empty leaves them to the kernel.
    pub cores: Vec<usize>,

    /// `socket.request.max.bytes`.
    pub socket_request_max_bytes: usize,
    /// `connections.max.idle.ms`; `None` if connections may idle for ever.
    pub connections_max_idle: Option<Duration>,
    /// What the limit on descriptors and the memory leave for connections: a lower `max.connections` holds.
    pub connections_of_machine_max: u32,
    /// Segments that one shard may keep open, by the limit on descriptors.
    pub segments_open_max: usize,
    /// `fetch.max.bytes`.
    pub fetch_max_bytes: usize,
    /// `max.incremental.fetch.session.cache.slots`, of one shard.
    pub fetch_sessions_max: usize,
    /// `max.request.partition.size.limit`.
    pub request_partitions_max: usize,
    /// `auto.create.topics.enable`.
    pub auto_create_topics: bool,
    /// `num.partitions`.
    pub num_partitions: i32,
    /// `default.replication.factor`.
    pub default_replication_factor: i16,
    /// `delete.topic.enable`.
    pub delete_topic_enable: bool,

    /// `strandline.memory.bytes` of one shard.
    pub shard_memory_bytes: u64,
    /// `strandline.journal.bytes` of one shard.
    pub journal_bytes: u64,
    /// `strandline.direct.bytes`: a run of at least this goes straight to its segment.
    pub direct_bytes: u64,
    /// `strandline.disk.free.min.bytes`.
    pub disk_free_min_bytes: u64,
    /// `strandline.decompressed.batch.max.bytes`.
    pub decompressed_batch_max_bytes: usize,
    /// `strandline.shard.spin.us`.
    pub shard_spin: Duration,
    /// `strandline.shard.preempt.us`.
    pub shard_preempt: Duration,
    /// `strandline.shard.ring.depth`.
    pub shard_ring_depth: usize,
    /// `strandline.shard.io.memory.bytes`.
    pub shard_io_memory_bytes: usize,

    /// What was set at start, for defaults of topics and for DescribeConfigs.
    pub static_config: StaticConfig,
}

/// A listener of the node; each shard binds one of its ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    /// For example `PLAINTEXT`.
    pub name: String,
    /// Where to bind.
    pub bind: IpAddr,
    /// Shard s binds this plus s; 0 takes a free port for each.
    pub base_port: u16,
    /// What clients are told.
    pub advertised: Advertised,
}

/// What clients are told of a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Advertised {
    /// This host, and the port that the shard bound.
    BoundPort {
        /// A name or an address, without brackets.
        host: String,
    },
    /// This host, and this port plus the shard's number.
    BasePort {
        /// A name or an address, without brackets.
        host: String,
        /// The port of shard 0.
        base_port: u16,
    },
    /// Host and port of each shard.
    PerShard(Vec<(String, u16)>),
}

impl Advertised {
    /// What clients are told of `shard`, which bound `bound_port`.
    pub fn of_shard(&self, shard: u32, bound_port: u16) -> (String, u16) {
        match self {
            Self::BoundPort { host } => (host.clone(), bound_port),
            Self::BasePort { host, base_port } => (host.clone(), base_port.saturating_add(shard as u16)),
            Self::PerShard(addresses) => addresses[shard as usize].clone(),
        }
    }
}

/// What a connection takes while it rests, in bytes: two tasks, a socket, its entries in the shard's books.
pub const CONNECTION_BYTES: u64 = 12 << 10;

/// A shard keeps free blocks of up to this part of its memory for its next large ones.
const KEPT_PART: u64 = 32;

impl BrokerConfig {
    /// `replica.lag.time.max.ms`.
    pub fn replica_lag_time_max_ms(&self) -> i64 {
        let none = ConfigMap::new();
        Layers::of_broker(&self.static_config, &none, &none).number("replica.lag.time.max.ms")
    }

    /// `broker.heartbeat.interval.ms`.
    pub fn heartbeat_interval(&self) -> Duration {
        self.milliseconds("broker.heartbeat.interval.ms")
    }

    /// `broker.session.timeout.ms`.
    pub fn session_timeout(&self) -> Duration {
        self.milliseconds("broker.session.timeout.ms")
    }

    /// `controller.quorum.election.timeout.ms`.
    pub fn election_timeout(&self) -> Duration {
        self.milliseconds("controller.quorum.election.timeout.ms")
    }

    /// `leader.imbalance.check.interval.seconds`, if `auto.leader.rebalance.enable` is on.
    pub fn leader_balance_interval(&self) -> Option<Duration> {
        let none = ConfigMap::new();
        let layers = Layers::of_broker(&self.static_config, &none, &none);
        layers
            .flag("auto.leader.rebalance.enable")
            .then(|| Duration::from_secs(layers.number("leader.imbalance.check.interval.seconds")))
    }

    fn milliseconds(&self, key: &str) -> Duration {
        let none = ConfigMap::new();
        Duration::from_millis(Layers::of_broker(&self.static_config, &none, &none).number(key))
    }

    /// Free memory that one shard keeps for its next large buffers, in bytes; a part of its share.
    pub fn shard_kept_bytes(&self) -> usize {
        usize::try_from(self.shard_memory_bytes / KEPT_PART).unwrap_or(usize::MAX)
    }

    /// What a shard's share leaves for its buffers, cache, connections and journal pages.
    pub fn shard_budget_bytes(&self) -> u64 {
        self.shard_memory_bytes - self.shard_memory_bytes / KEPT_PART - self.shard_io_memory_bytes as u64
    }

    /// What holds for one broker under `image`: its dynamic values, else the cluster's, else those set at start.
    pub fn broker_settings(&self, image: &ClusterImage, broker: BrokerId) -> BrokerSettings {
        let own = self.own(image, broker);
        let mut settings = BrokerSettings::new(&self.static_config, image.cluster_config(), own);
        settings.max_connections = settings.max_connections.min(self.connections_of_machine_max);
        settings
    }

    /// What holds for a topic on one broker under `image`.
    pub fn topic_settings(&self, image: &ClusterImage, broker: BrokerId, topic: &Topic) -> TopicSettings {
        TopicSettings::new(
            &self.static_config,
            image.cluster_config(),
            self.own(image, broker),
            &topic.configs,
        )
    }

    fn own<'a>(&self, image: &'a ClusterImage, broker: BrokerId) -> &'a ConfigMap {
        static NONE: ConfigMap = BTreeMap::new();
        image.broker_config(broker).unwrap_or(&NONE)
    }
}
