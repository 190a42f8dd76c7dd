//! Retention against a model: random appends, times, sizes, DeleteRecords, truncations, settings and restarts; after each
//! round the log starts where a plain reading of the rules says, and has the segments that it says.

#![allow(clippy::unwrap_used)]

mod common;

use std::time::Duration;

use common::{batch, formatted, id, quiet, read_all, simulated_options, validated};
use strandline_runtime::Runtime;
use strandline_runtime::sim::{SeededRandom, SimRuntime, Simulation};
use strandline_storage::disk::{SimDisk, SimDiskOptions};
use strandline_storage::{Log, LogSettings, Store, StoreOptions};

/// Timestamps lie on this grid, rounds and appends shortly after it, and spans of the settings between: nothing depends on
/// how long anything takes.
const GRID_MS: i64 = 100_000;
const CHECK_MS: u64 = 6 * GRID_MS as u64;

fn options() -> StoreOptions {
    StoreOptions {
        initial_task_delay_ms: 0,
        retention_check_ms: CHECK_MS,
        ..simulated_options()
    }
}

#[derive(Clone, Copy, Debug)]
struct ModelBatch {
    base: i64,
    end: i64,
    bytes: u64,
    timestamp: i64,
}

#[derive(Clone, Debug)]
struct ModelSegment {
    batches: Vec<ModelBatch>,
    created: i64,
    appended: i64,
}

impl ModelSegment {
    fn base(&self) -> i64 {
        self.batches[0].base
    }

    fn end(&self) -> i64 {
        self.batches.last().unwrap().end
    }

    fn bytes(&self) -> u64 {
        self.batches.iter().map(|batch| batch.bytes).sum()
    }

    fn max_timestamp(&self) -> i64 {
        self.batches.iter().map(|batch| batch.timestamp).max().unwrap()
    }

    fn age_from(&self) -> i64 {
        match self.max_timestamp() {
            -1 => self.appended,
            largest => largest,
        }
    }
}

/// A log as the rules say.
struct Model {
    settings: LogSettings,
    segments: Vec<ModelSegment>,
    is_open: bool,
    start: i64,
    end: i64,
}

impl Model {
    fn append(&mut self, records: i64, bytes: u64, timestamp: i64, now: i64) {
        let rolls = match self.segments.last() {
            Some(last) if self.is_open => {
                let first = last.batches[0].timestamp;
                let age = if first < 0 {
                    now - last.created
                } else {
                    timestamp - first
                };
                last.bytes() + bytes > self.settings.segment_bytes || age > self.settings.segment_ms
            }
            _ => true,
        };
        if rolls {
            self.segments.push(ModelSegment {
                batches: Vec::new(),
                created: now,
                appended: now,
            });
            self.is_open = true;
        }
        let last = self.segments.last_mut().unwrap();
        last.appended = now;
        last.batches.push(ModelBatch {
            base: self.end,
            end: self.end + records,
            bytes,
            timestamp,
        });
        self.end += records;
    }

    fn raise_start(&mut self, offset: i64) {
        if offset <= self.start {
            return;
        }
        self.start = offset;
        self.segments.retain(|segment| segment.end() > offset);
        if offset == self.end {
            self.is_open = false;
        }
    }

    fn truncate(&mut self, offset: i64) {
        self.segments.retain(|segment| segment.base() < offset);
        if let Some(last) = self.segments.last_mut() {
            last.batches.retain(|batch| batch.base < offset);
        }
        // What is left of the cut one may lie below the start.
        let start = self.start;
        self.segments.retain(|segment| segment.end() > start);
        self.end = offset;
        self.is_open = false;
    }

    /// What is below the high watermark, which is the end here, and too much or too old.
    fn round(&mut self, now: i64) {
        if !self.settings.deletes {
            return;
        }
        let mut start = self.start;
        let mut size: u64 = self.segments.iter().map(ModelSegment::bytes).sum();
        let mut left = self.segments.iter().peekable();
        while let Some(oldest) = left.peek()
            && self.settings.retention_bytes >= 0
            && size - oldest.bytes() >= self.settings.retention_bytes as u64
            && size >= self.settings.retention_bytes as u64
        {
            size -= oldest.bytes();
            start = oldest.end();
            left.next();
        }
        while let Some(oldest) = left.peek()
            && self.settings.retention_ms >= 0
            && now - oldest.age_from() > self.settings.retention_ms
        {
            start = oldest.end();
            left.next();
        }
        self.raise_start(start);
    }
}

struct Run {
    runtime: SimRuntime,
    disk: SimDisk,
    store: Store<SimRuntime, SimDisk>,
    model: Model,
    random: SeededRandom,
    began: i64,
    deleted: u64,
}

impl Run {
    fn log(&self) -> Log<SimDisk> {
        self.store.log(id(1, 0)).unwrap()
    }

    fn settings(random: &mut SeededRandom) -> LogSettings {
        let span = |random: &mut SeededRandom, most| random.below(most) as i64 * GRID_MS + GRID_MS / 2;
        LogSettings {
            segment_bytes: 1000 * random.between(1, 8),
            segment_ms: span(random, 30),
            retention_ms: if random.one_in(4) { -1 } else { span(random, 60) },
            retention_bytes: if random.one_in(2) {
                -1
            } else {
                random.below(20_000) as i64
            },
            deletes: !random.one_in(6),
            ..LogSettings::default()
        }
    }

    async fn append(&mut self) {
        let now = self.runtime.wall_clock_ms();
        let grid = now - (now - self.began) % GRID_MS;
        let timestamp = match self.random.below(10) {
            0 => -1,
            // A clock that goes ahead.
            1 => grid + self.random.below(10) as i64 * GRID_MS,
            _ => grid - self.random.below(10) as i64 * GRID_MS,
        };
        let records = if timestamp < 0 {
            1
        } else {
            self.random.between(1, 3)
        };
        let length = 1 + self.random.below(900) as usize;
        // `batch` counts timestamps up by one a record.
        let last = timestamp + records as i64 - 1;
        let bytes = batch(&vec![vec![1; length]; records as usize], None, timestamp);
        let appended = self.log().append(&validated(&bytes)).unwrap();
        assert_eq!(appended.base_offset, self.model.end);
        self.model.append(records as i64, bytes.len() as u64, last, now);
        self.log().acknowledged(self.model.end).await.unwrap();
        self.log().set_high_watermark(self.model.end);
    }

    async fn a_round(&mut self) {
        let before = self.store.stats();
        while self.store.stats().retention_rounds == before.retention_rounds {
            self.runtime.sleep(Duration::from_secs(2)).await;
        }
        self.model.round(self.runtime.wall_clock_ms());
        let after = self.store.stats();
        self.deleted += after.retention_segments_by_size + after.retention_segments_by_time
            - before.retention_segments_by_size
            - before.retention_segments_by_time;
        self.store.checkpoint().await.unwrap();
    }

    async fn restart(&mut self) {
        self.store.close().await.unwrap();
        let opened = Store::open(self.runtime.clone(), self.disk.clone(), options(), quiet()).await;
        self.store = opened.unwrap().0;
        self.log().set_settings(self.model.settings.clone());
        self.log().set_high_watermark(self.model.end);
        // The first one comes at once.
        self.a_round().await;
    }

    fn batch_boundary(&mut self) -> Option<i64> {
        let batches = self.model.segments.iter().flat_map(|segment| &segment.batches);
        let bases: Vec<i64> = batches
            .map(|batch| batch.base)
            .filter(|base| *base >= self.model.start)
            .collect();
        let at = self.random.below(bases.len().max(1) as u64) as usize;
        bases.get(at).copied()
    }

    async fn step(&mut self) {
        match self.random.below(100) {
            0..=69 => self.append().await,
            70..=84 => self.a_round().await,
            85..=88 => {
                let offset = self.random.between(0, self.model.end as u64) as i64;
                let sequence = self.log().set_start_offset(offset).await.unwrap();
                self.store.durable(sequence).await.unwrap();
                self.model.raise_start(offset);
            }
            89..=91 => {
                if let Some(offset) = self.batch_boundary() {
                    self.log().truncate_to(offset).await.unwrap();
                    self.model.truncate(offset);
                    self.append().await;
                }
            }
            92..=94 => {
                self.model.settings = Self::settings(&mut self.random);
                self.log().set_settings(self.model.settings.clone());
            }
            95..=96 => self.restart().await,
            _ => self.store.checkpoint().await.unwrap(),
        }
    }

    fn compare(&self, at: &str) {
        let log = self.log();
        assert_eq!(
            (log.start_offset(), log.end_offset()),
            (self.model.start, self.model.end),
            "{at}: {:?}",
            self.model.settings
        );
        let found: Vec<_> = log
            .segments()
            .iter()
            .map(|segment| {
                (
                    segment.base_offset,
                    segment.end_offset,
                    segment.payload_bytes,
                    segment.max_timestamp,
                )
            })
            .collect();
        let segments = self.model.segments.iter();
        let expected: Vec<_> = segments
            .map(|segment| {
                (
                    segment.base(),
                    segment.end(),
                    segment.bytes(),
                    segment.max_timestamp(),
                )
            })
            .collect();
        assert_eq!(found, expected, "{at}");
        let size: u64 = self.model.segments.iter().map(ModelSegment::bytes).sum();
        assert_eq!(log.size_bytes(), size, "{at}");
    }
}

fn run(seed: u64) -> u64 {
    let simulation = Simulation::new(seed);
    let runtime = simulation.runtime("node");
    simulation.run_until(async move {
        let disk = formatted(&runtime, SimDiskOptions::default(), &options()).await;
        let opened = Store::open(runtime.clone(), disk.clone(), options(), quiet()).await;
        let store = opened.unwrap().0;
        let mut random = SeededRandom::new(seed);
        let settings = Run::settings(&mut random);
        store.create_log(id(1, 0), settings.clone()).unwrap();
        let mut run = Run {
            began: runtime.wall_clock_ms(),
            runtime,
            disk,
            store,
            model: Model {
                settings,
                segments: Vec::new(),
                is_open: false,
                start: 0,
                end: 0,
            },
            random,
            deleted: 0,
        };
        for step in 0..150 {
            run.step().await;
            run.compare(&format!("seed {seed}, step {step}"));
        }
        let records = read_all(&run.log(), run.model.start).await;
        assert_eq!(records.len() as i64, run.model.end - run.model.start);
        run.deleted
    })
}

#[test]
fn every_round_deletes_what_the_rules_say() {
    let deleted: u64 = (0..60).map(run).sum();
    assert!(deleted > 300, "only {deleted} segments were deleted in all");
}
