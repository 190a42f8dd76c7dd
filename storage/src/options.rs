//! What a store and a log are told at their start.

use std::path::PathBuf;

use crate::cleaner::CompactionSettings;

/// Files of a journal ring.
pub const JOURNAL_FILES: u32 = 8;

/// The least journal: an entry is at most a quarter of one of its files, and must hold an extent's piece.
pub const JOURNAL_BYTES_MIN: u64 = 64 * 1024 * JOURNAL_FILES as u64;

/// The default of `strandline.direct.bytes`.
pub const DIRECT_BYTES_DEFAULT: usize = 256 * 1024;

/// The least memory of a store, which a share of 32 MiB leaves: half of it must hold a journal worth having.
pub const MEMORY_BYTES_MIN: u64 = 24 * 1024 * 1024;

/// What a store is told at its start.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// The shard's own directory: `<data directory>/shard-<n>`.
    pub directory: PathBuf,
    /// The shard's number, for log lines.
    pub shard: u32,
    /// The byte budget: buffers, cache, connections, journal pages.
    pub memory_bytes: u64,
    /// The journal ring; cut to half of the memory, since a replay must fit.
    pub journal_bytes: u64,
    /// A batch of at least this size goes straight to its segment.
    pub direct_bytes: usize,
    /// Appends stop while the file system has less free space.
    pub disk_free_min_bytes: u64,
    /// How many segment files may be open.
    pub open_files_max: usize,
    /// How long an idle producer id is remembered.
    pub producer_expiration_ms: i64,
    /// `log.initial.task.delay.ms`: how long after the open retention begins.
    pub initial_task_delay_ms: u64,
    /// `log.retention.check.interval.ms`: how long it rests after each round.
    pub retention_check_ms: u64,
    /// What its cleaner is told at first.
    pub cleaner: CleanerOptions,
}

impl StoreOptions {
    /// The defaults, for a shard directory and its share of the node's memory.
    pub fn new(directory: PathBuf, shard: u32, memory_bytes: u64) -> Self {
        Self {
            directory,
            shard,
            memory_bytes,
            journal_bytes: (128 << 20).min(memory_bytes / 2),
            direct_bytes: DIRECT_BYTES_DEFAULT,
            disk_free_min_bytes: 1 << 30,
            open_files_max: 512,
            producer_expiration_ms: 86_400_000,
            initial_task_delay_ms: 30_000,
            retention_check_ms: 300_000,
            cleaner: CleanerOptions::default(),
        }
    }
}

/// What the cleaner of a store is told; may change while it runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CleanerOptions {
    /// `log.cleaner.enable`.
    pub enabled: bool,
    /// This store's part of `log.cleaner.dedupe.buffer.size`: memory for a map of keys. At most a quarter of the store's memory
    /// is taken.
    pub map_bytes: u64,
    /// `log.cleaner.io.buffer.load.factor`: how full the map may be.
    pub map_load: f64,
    /// `log.cleaner.io.max.bytes.per.second`, read and written; a cleaning under way goes by it too.
    pub bytes_per_second: f64,
    /// `log.cleaner.backoff.ms`: how long it rests when nothing is to be cleaned.
    pub backoff_ms: u64,
}

impl Default for CleanerOptions {
    fn default() -> Self {
        Self {
            enabled: true,
            map_bytes: 128 << 20,
            map_load: 0.9,
            bytes_per_second: f64::MAX,
            backoff_ms: 15_000,
        }
    }
}

/// What a log is told by its topic's configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct LogSettings {
    /// `flush.messages` = 1: nothing counts before its flush. Otherwise the topic is relaxed: a write is
    /// enough, and a power cut may shorten the tail.
    pub durable: bool,
    /// `segment.bytes`: payload bytes after which a new segment begins.
    pub segment_bytes: u64,
    /// `segment.ms`: age of a segment's first batch after which a new segment begins.
    pub segment_ms: i64,
    /// `segment.jitter.ms`: by how much at most a segment ends earlier.
    pub segment_jitter_ms: i64,
    /// `cleanup.policy` contains delete: old segments go by age and size.
    pub deletes: bool,
    /// `retention.ms`: age of a segment's largest timestamp beyond which it is deleted; negative for never.
    pub retention_ms: i64,
    /// `retention.bytes`: payload that is kept at least; negative for no limit.
    pub retention_bytes: i64,
    /// `file.delete.delay.ms`: how long files stay that the log no longer has.
    pub file_delete_delay_ms: u64,
    /// `cleanup.policy` contains compact: of each key the newest record is kept.
    pub compacts: bool,
    /// When the log is cleaned, and what then goes.
    pub compaction: CompactionSettings,
    /// `index.interval.bytes`: the least distance of two index entries.
    pub index_interval_bytes: u32,
}

impl Default for LogSettings {
    fn default() -> Self {
        Self {
            durable: true,
            segment_bytes: 1 << 30,
            segment_ms: 7 * 86_400_000,
            segment_jitter_ms: 0,
            deletes: true,
            retention_ms: -1,
            retention_bytes: -1,
            file_delete_delay_ms: 0,
            compacts: false,
            compaction: CompactionSettings::default(),
            index_interval_bytes: 4096,
        }
    }
}
