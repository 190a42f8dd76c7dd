//! The topics of the cluster as this shard serves them: found by name or id, with the partitions led here.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use strandline_core::config::{Compression as ConfiguredCompression, TopicSettings};
use strandline_runtime::Runtime;
use strandline_storage::disk::Disk;
use strandline_storage::{CompactionSettings, Log, LogSettings, Sequence, Stopped, StoreObserver};
use strandline_wire::batch::{Codec, Compression, TimestampType, TopicCompression, ValidationRules};
use strandline_wire::{ErrorCode, Uuid, topic_name};

use super::partition::Partition;
use crate::replica::Replicas;

/// What a topic's configuration means for the path of a request.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TopicRules {
    /// Everything but the clock and the request's version.
    pub(crate) validation: ValidationRules,
    /// `cleanup.policy` contains delete.
    pub(crate) deletes_records: bool,
    pub(crate) log: LogSettings,
}

impl TopicRules {
    pub(crate) fn new(settings: &TopicSettings, is_internal: bool, decompressed_max_bytes: usize) -> Self {
        Self {
            validation: ValidationRules {
                now_ms: 0,
                timestamp_type: if settings.log_append_time {
                    TimestampType::LogAppendTime
                } else {
                    TimestampType::CreateTime
                },
                before_max_ms: settings.timestamp_before_max_ms,
                after_max_ms: settings.timestamp_after_max_ms,
                max_message_bytes: settings.max_message_bytes,
                compression: topic_compression(settings),
                compacted: settings.compacted,
                decompressed_max_bytes,
                zstd_allowed: true,
            },
            deletes_records: settings.deleted,
            log: LogSettings {
                // What coordinators have acknowledged is kept, whatever the topic's configuration says.
                durable: settings.durable || is_internal,
                segment_bytes: settings.segment_bytes,
                segment_ms: settings.segment_ms,
                segment_jitter_ms: settings.segment_jitter_ms,
                deletes: settings.deleted,
                retention_ms: settings.retention_ms,
                retention_bytes: settings.retention_bytes,
                file_delete_delay_ms: settings.file_delete_delay_ms,
                index_interval_bytes: settings.index_interval_bytes,
                compacts: settings.compacted,
                compaction: CompactionSettings {
                    min_dirty_ratio: settings.min_cleanable_dirty_ratio,
                    min_lag_ms: settings.min_compaction_lag_ms,
                    max_lag_ms: settings.max_compaction_lag_ms,
                    delete_retention_ms: settings.delete_retention_ms,
                },
            },
        }
    }
}

fn topic_compression(settings: &TopicSettings) -> TopicCompression {
    let fixed = |codec, level| TopicCompression::Fixed(Compression { codec, level });
    match settings.compression {
        ConfiguredCompression::Producer => TopicCompression::Producer,
        ConfiguredCompression::Uncompressed => fixed(Codec::None, None),
        // -1 is gzip's own default in Kafka's configuration.
        ConfiguredCompression::Gzip => {
            fixed(Codec::Gzip, Some(settings.gzip_level).filter(|level| *level >= 1))
        }
        ConfiguredCompression::Snappy => fixed(Codec::Snappy, None),
        ConfiguredCompression::Lz4 => fixed(Codec::Lz4, None),
        ConfiguredCompression::Zstd => fixed(Codec::Zstd, Some(settings.zstd_level)),
    }
}

/// A topic with a partition led here.
pub(crate) struct Topic<D: Disk> {
    pub(crate) id: Uuid,
    pub(crate) name: Rc<str>,
    /// Whether it is the cluster's own: clients do not write to it.
    pub(crate) is_internal: bool,
    rules: RefCell<Rc<TopicRules>>,
    partitions: RefCell<Vec<Option<Rc<Partition<D>>>>>,
}

impl<D: Disk> Topic<D> {
    pub(crate) fn rules(&self) -> Rc<TopicRules> {
        self.rules.borrow().clone()
    }

    pub(crate) fn set_rules(&self, rules: Rc<TopicRules>) {
        *self.rules.borrow_mut() = rules;
    }

    /// The partition, if it is led here.
    pub(crate) fn partition(&self, number: i32) -> Option<Rc<Partition<D>>> {
        let number = usize::try_from(number).ok()?;
        self.partitions.borrow().get(number)?.clone()
    }

    /// The partitions led here.
    pub(crate) fn led(&self) -> Vec<Rc<Partition<D>>> {
        self.partitions.borrow().iter().flatten().cloned().collect()
    }

    pub(crate) fn set_partition(&self, number: u32, partition: Option<Rc<Partition<D>>>) {
        let mut partitions = self.partitions.borrow_mut();
        let number = number as usize;
        if partitions.len() <= number {
            partitions.resize(number + 1, None);
        }
        partitions[number] = partition;
    }
}

/// The topics of one shard.
pub(crate) struct Topics<D: Disk> {
    by_name: RefCell<HashMap<Rc<str>, Rc<Topic<D>>>>,
    by_id: RefCell<BTreeMap<Uuid, Rc<Topic<D>>>>,
}

impl<D: Disk> Default for Topics<D> {
    fn default() -> Self {
        Self {
            by_name: RefCell::default(),
            by_id: RefCell::default(),
        }
    }
}

impl<D: Disk> Topics<D> {
    pub(crate) fn by_name(&self, name: &str) -> Option<Rc<Topic<D>>> {
        self.by_name.borrow().get(name).cloned()
    }

    pub(crate) fn by_id(&self, id: Uuid) -> Option<Rc<Topic<D>>> {
        self.by_id.borrow().get(&id).cloned()
    }

    /// Every topic, by id.
    pub(crate) fn all(&self) -> Vec<Rc<Topic<D>>> {
        self.by_id.borrow().values().cloned().collect()
    }

    /// The topic of this id, made if it is new here.
    pub(crate) fn enter(&self, id: Uuid, name: &str, rules: impl FnOnce() -> Rc<TopicRules>) -> Rc<Topic<D>> {
        if let Some(topic) = self.by_id(id) {
            return topic;
        }
        let name: Rc<str> = Rc::from(name);
        let topic = Rc::new(Topic {
            id,
            is_internal: topic_name::is_internal(&name),
            name: name.clone(),
            rules: RefCell::new(rules()),
            partitions: RefCell::default(),
        });
        self.by_id.borrow_mut().insert(id, topic.clone());
        self.by_name.borrow_mut().insert(name, topic.clone());
        topic
    }

    /// Forgets a topic; another one may have its name by now.
    pub(crate) fn remove(&self, id: Uuid) {
        let Some(topic) = self.by_id.borrow_mut().remove(&id) else {
            return;
        };
        let mut by_name = self.by_name.borrow_mut();
        if by_name.get(&topic.name).is_some_and(|named| named.id == id) {
            by_name.remove(&topic.name);
        }
    }

    fn led(&self, log: &Log<D>) -> Option<Rc<Partition<D>>> {
        let id = log.id();
        self.by_id
            .borrow()
            .get(&id.topic_id)?
            .partition(id.partition as i32)
    }
}

/// Tells the partitions what the journal tells the shard.
pub(crate) struct Observer<R: Runtime, D: Disk> {
    pub(crate) runtime: R,
    pub(crate) topics: Rc<Topics<D>>,
    pub(crate) replicas: Rc<Replicas<D>>,
    pub(crate) shard: u32,
}

impl<R: Runtime, D: Disk> StoreObserver<D> for Observer<R, D> {
    fn advanced(&self, _sequence: Sequence, logs: &[Log<D>]) {
        let now = self.runtime.now();
        for log in logs {
            if let Some(partition) = self.topics.led(log) {
                partition.advance(now);
            }
        }
        self.replicas.advanced(logs, now);
    }

    fn start_moved(&self, log: &Log<D>) {
        if let Some(partition) = self.topics.led(log) {
            partition.start_moved();
        }
    }

    fn stopped(&self, reason: &Stopped) {
        tracing::error!(
            shard = self.shard,
            reason = %reason.reason,
            "storage stopped: every partition of this shard answers KAFKA_STORAGE_ERROR until the node restarts"
        );
        let now = self.runtime.now();
        for topic in self.topics.all() {
            for partition in topic.led() {
                partition.lose(ErrorCode::KafkaStorageError, &reason.reason, now);
            }
        }
    }
}
