//! What a shard counts, in the form in which it hands copies to the control thread.

use std::collections::BTreeMap;
use std::time::Duration;

use strandline_core::metadata::BrokerId;
use strandline_core::metadata::PartitionReference;
use strandline_storage::{CleanerStats, LongestTurns};
use strandline_wire::ErrorCode;
use uuid::Uuid;

/// Upper bounds of the latency buckets, in microseconds; what is above the last is in one more bucket.
pub const LATENCY_BOUNDS_US: [u64; 20] = [
    50, 100, 150, 200, 300, 400, 600, 800, 1_000, 1_500, 2_000, 3_000, 5_000, 10_000, 20_000, 50_000,
    100_000, 500_000, 1_000_000, 5_000_000,
];

/// A plain histogram of one shard; no atomics, since one thread writes it and copies are read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LatencyHistogram {
    buckets: [u64; LATENCY_BOUNDS_US.len() + 1],
    sum_us: u64,
}

impl LatencyHistogram {
    /// Counts one value.
    pub fn record(&mut self, latency: Duration) {
        let us = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
        let bucket = LATENCY_BOUNDS_US.partition_point(|bound| *bound < us);
        self.buckets[bucket] += 1;
        self.sum_us = self.sum_us.saturating_add(us);
    }

    /// The count of each bucket; the last one is beyond every bound.
    pub fn buckets(&self) -> &[u64] {
        &self.buckets
    }

    /// The sum of all values, in microseconds.
    pub fn sum_us(&self) -> u64 {
        self.sum_us
    }

    /// How many values were counted.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }
}

/// The phases of a produce, from frame read to answer written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PhaseLatencies {
    /// From the whole frame received to its handler's start.
    pub queue: LatencyHistogram,
    /// Validation and append.
    pub append: LatencyHistogram,
    /// From the append to the flush that covers it.
    pub flush: LatencyHistogram,
    /// From the flush to the answer handed to the socket.
    pub answer: LatencyHistogram,
}

/// Requests of one API that ended with one code; an answer with several codes counts each code in it once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestCount {
    /// Kafka's number of the API.
    pub api_key: i16,
    /// The code; [`ErrorCode::None`] for success.
    pub code: ErrorCode,
    /// How many.
    pub count: u64,
}

/// One partition replica of the shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionReport {
    /// The topic.
    pub topic_id: Uuid,
    /// The partition's number.
    pub partition: u32,
    /// The first offset kept.
    pub log_start_offset: i64,
    /// One above the last offset.
    pub log_end_offset: i64,
    /// Up to where consumers read.
    pub high_watermark: i64,
    /// Payload bytes.
    pub size_bytes: u64,
    /// Its segments, those in memory alone included.
    pub segments: u64,
    /// Its followers, and how many records each lacks; of those that told their leader.
    pub followers: Vec<(BrokerId, u64)>,
}

/// What a group has committed for one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffsetReport {
    /// The topic.
    pub topic_id: Uuid,
    /// The partition's number.
    pub partition: u32,
    /// The next record to read.
    pub committed: i64,
}

/// A group that has committed offsets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupReport {
    /// Its name: any text.
    pub group: String,
    /// By topic and partition.
    pub offsets: Vec<OffsetReport>,
}

/// The groups that a shard coordinates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupsReport {
    /// How many there are of each type in each state.
    pub states: BTreeMap<(&'static str, &'static str), u64>,
    /// Those with offsets.
    pub groups: Vec<GroupReport>,
    /// Offsets beyond what a report takes.
    pub left_out: u64,
}

/// How much is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// Figures of the shard itself.
    Shard,
    /// Also those of each partition and each group.
    Everything,
}

/// A copy of one shard's counters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShardReport {
    /// By API and code.
    pub requests: Vec<RequestCount>,
    /// Produce latency, by phase.
    pub phases: PhaseLatencies,
    /// Bytes received from clients.
    pub received_bytes: u64,
    /// Bytes sent to clients.
    pub sent_bytes: u64,
    /// Open connections.
    pub connections: u64,
    /// Connections refused by a cap, or closed for bytes that are no Kafka request.
    pub connections_refused: u64,
    /// Replicas that this shard, as their leader, took into an ISR.
    pub isr_expands: u64,
    /// Replicas that this shard, as their leader, took out of an ISR.
    pub isr_shrinks: u64,
    /// Journal flushes.
    pub flushes: u64,
    /// Journal entries.
    pub entries: u64,
    /// Bytes of the journal in use.
    pub journal_used_bytes: u64,
    /// Bytes appended and not yet in segments.
    pub dirty_bytes: u64,
    /// Bytes in the cache.
    pub cached_bytes: u64,
    /// Bytes of the memory budget in use.
    pub memory_used_bytes: u64,
    /// Size of the memory budget.
    pub memory_budget_bytes: u64,
    /// Rounds of retention over all logs.
    pub retention_rounds: u64,
    /// Segments that retention deleted because their log was too large.
    pub retention_segments_by_size: u64,
    /// Segments that retention deleted because they were too old.
    pub retention_segments_by_time: u64,
    /// Payload bytes of these.
    pub retention_bytes: u64,
    /// What the cleaner did.
    pub cleaner: CleanerStats,
    /// How long background work kept the shard to itself.
    pub longest_turns: LongestTurns,
    /// A failed write or flush stopped the storage: every partition answers KAFKA_STORAGE_ERROR.
    pub storage_stopped: bool,
    /// Appends are refused since the disk is full.
    pub disk_full: bool,
    /// The free space of the shard's disk, where the system tells.
    pub disk_free_bytes: Option<u64>,
    /// What must stay free of it.
    pub disk_reserve_bytes: u64,
    /// Batches that the storage refused: the disk is full, the storage stopped, or the partition is damaged.
    pub appends_refused: u64,
    /// Partitions of which something cannot be read.
    pub damaged_partitions: u64,
    /// Replicas that must not lead: something of them cannot be read, or they contradict their leader.
    pub damaged: Vec<PartitionReference>,
    /// Every replica.
    pub partitions: Vec<PartitionReport>,
    /// The groups coordinated here.
    pub groups: GroupsReport,
}
