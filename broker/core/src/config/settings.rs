//! Typed values of what can change while a node runs, derived from the layers of configuration.

use std::collections::BTreeMap;

use super::layers::{Layers, StaticConfig};

/// A broker's dynamic values.
#[derive(Clone, Debug, PartialEq)]
pub struct BrokerSettings {
    /// `max.connections`, of the node.
    pub max_connections: u32,
    /// `max.connections.per.ip`, of the node.
    pub max_connections_per_ip: u32,
    /// `max.connections.per.ip.overrides`: by host name or address, as written.
    pub max_connections_per_ip_overrides: BTreeMap<String, u32>,
    /// `producer.id.expiration.ms`.
    pub producer_id_expiration_ms: i64,
    /// `log.initial.task.delay.ms`.
    pub initial_task_delay_ms: u64,
    /// `log.retention.check.interval.ms`.
    pub retention_check_interval_ms: u64,
    /// The cleaner of compacted logs.
    pub cleaner: CleanerSettings,
}

/// What holds for the cleaner of compacted logs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CleanerSettings {
    /// `log.cleaner.enable`.
    pub enabled: bool,
    /// `log.cleaner.dedupe.buffer.size`, of the node.
    pub dedupe_buffer_bytes: u64,
    /// `log.cleaner.io.buffer.load.factor`.
    pub load_factor: f64,
    /// `log.cleaner.io.max.bytes.per.second`, of each shard.
    pub bytes_per_second: f64,
    /// `log.cleaner.backoff.ms`.
    pub backoff_ms: u64,
}

/// A topic's values on one broker.
#[derive(Clone, Debug, PartialEq)]
pub struct TopicSettings {
    /// `max.message.bytes`.
    pub max_message_bytes: usize,
    /// `compression.type`.
    pub compression: Compression,
    /// `compression.gzip.level`.
    pub gzip_level: i32,
    /// `compression.lz4.level`.
    pub lz4_level: i32,
    /// `compression.zstd.level`.
    pub zstd_level: i32,
    /// `message.timestamp.type` is LogAppendTime.
    pub log_append_time: bool,
    /// `message.timestamp.before.max.ms`.
    pub timestamp_before_max_ms: i64,
    /// `message.timestamp.after.max.ms`.
    pub timestamp_after_max_ms: i64,
    /// `cleanup.policy` contains compact: records need a key.
    pub compacted: bool,
    /// `cleanup.policy` contains delete: DeleteRecords is allowed.
    pub deleted: bool,
    /// `flush.messages` is 1: nothing is acknowledged before its flush.
    pub durable: bool,
    /// `segment.bytes`.
    pub segment_bytes: u64,
    /// `segment.ms`.
    pub segment_ms: i64,
    /// `segment.jitter.ms`.
    pub segment_jitter_ms: i64,
    /// `index.interval.bytes`.
    pub index_interval_bytes: u32,
    /// `min.insync.replicas`.
    pub min_insync_replicas: i32,
    /// `retention.ms`; -1 for ever.
    pub retention_ms: i64,
    /// `retention.bytes`; -1 without limit.
    pub retention_bytes: i64,
    /// `file.delete.delay.ms`.
    pub file_delete_delay_ms: u64,
    /// `min.cleanable.dirty.ratio`.
    pub min_cleanable_dirty_ratio: f64,
    /// `min.compaction.lag.ms`.
    pub min_compaction_lag_ms: i64,
    /// `max.compaction.lag.ms`.
    pub max_compaction_lag_ms: i64,
    /// `delete.retention.ms`.
    pub delete_retention_ms: i64,
}

/// What a topic does with the codec of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Keeps the producer's.
    Producer,
    /// Stores uncompressed.
    Uncompressed,
    /// Recompresses with gzip.
    Gzip,
    /// Recompresses with snappy.
    Snappy,
    /// Recompresses with lz4.
    Lz4,
    /// Recompresses with zstd.
    Zstd,
}

type Map = BTreeMap<String, String>;

impl BrokerSettings {
    /// Reads one broker's layers.
    pub fn new(node: &StaticConfig, cluster: &Map, broker: &Map) -> Self {
        let layers = Layers::of_broker(node, cluster, broker);
        Self {
            max_connections: layers.number("max.connections"),
            max_connections_per_ip: layers.number("max.connections.per.ip"),
            max_connections_per_ip_overrides: overrides(&layers.text("max.connections.per.ip.overrides")),
            producer_id_expiration_ms: layers.number("producer.id.expiration.ms"),
            initial_task_delay_ms: layers.number("log.initial.task.delay.ms"),
            retention_check_interval_ms: layers.number("log.retention.check.interval.ms"),
            cleaner: CleanerSettings {
                enabled: layers.flag("log.cleaner.enable"),
                dedupe_buffer_bytes: layers.number("log.cleaner.dedupe.buffer.size"),
                load_factor: layers.fraction("log.cleaner.io.buffer.load.factor"),
                bytes_per_second: layers.fraction("log.cleaner.io.max.bytes.per.second"),
                backoff_ms: layers.number("log.cleaner.backoff.ms"),
            },
        }
    }
}

impl TopicSettings {
    /// Reads one topic's layers on one broker.
    pub fn new(node: &StaticConfig, cluster: &Map, broker: &Map, topic: &Map) -> Self {
        let layers = Layers::of_topic(node, cluster, broker, topic);
        let cleanup = layers.text("cleanup.policy");
        let cleans = |policy: &str| cleanup.split(',').any(|item| item.trim() == policy);
        Self {
            max_message_bytes: layers.number("max.message.bytes"),
            compression: Compression::named(&layers.text("compression.type")),
            gzip_level: layers.number("compression.gzip.level"),
            lz4_level: layers.number("compression.lz4.level"),
            zstd_level: layers.number("compression.zstd.level"),
            log_append_time: layers.text("message.timestamp.type") == "LogAppendTime",
            timestamp_before_max_ms: layers.number("message.timestamp.before.max.ms"),
            timestamp_after_max_ms: layers.number("message.timestamp.after.max.ms"),
            compacted: cleans("compact"),
            deleted: cleans("delete"),
            durable: layers.number::<i64>("flush.messages") == 1,
            segment_bytes: layers.number("segment.bytes"),
            segment_ms: layers.number("segment.ms"),
            segment_jitter_ms: layers.number("segment.jitter.ms"),
            index_interval_bytes: layers.number("index.interval.bytes"),
            min_insync_replicas: layers.number("min.insync.replicas"),
            retention_ms: layers.number("retention.ms"),
            retention_bytes: layers.number("retention.bytes"),
            file_delete_delay_ms: layers.number("file.delete.delay.ms"),
            min_cleanable_dirty_ratio: layers.fraction("min.cleanable.dirty.ratio"),
            min_compaction_lag_ms: layers.number("min.compaction.lag.ms"),
            max_compaction_lag_ms: layers.number("max.compaction.lag.ms"),
            delete_retention_ms: layers.number("delete.retention.ms"),
        }
    }
}

impl Compression {
    fn named(name: &str) -> Self {
        match name {
            "uncompressed" => Self::Uncompressed,
            "gzip" => Self::Gzip,
            "snappy" => Self::Snappy,
            "lz4" => Self::Lz4,
            "zstd" => Self::Zstd,
            _ => Self::Producer,
        }
    }
}

/// `host:count,[::1]:count`; what does not read so was refused when it was set.
fn overrides(text: &str) -> BTreeMap<String, u32> {
    let pairs = text.split(',').filter_map(|pair| pair.trim().rsplit_once(':'));
    pairs
        .filter_map(|(host, count)| Some((host.to_owned(), count.parse().ok()?)))
        .collect()
}
