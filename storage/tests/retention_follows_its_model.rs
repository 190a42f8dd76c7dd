//! Retention against a model: random appends, times, sizes, DeleteRecords, truncations, settings and restarts; after each
//! round the log starts where a plain reading of the rules says, and has the segments that it says. A power cut at any flush of a
//! round leaves the log as before the round or as after it, and never takes back a start that readers were told.
//!
//! `STRANDLINE_RETENTION_SEEDS` sets of how many histories every flush is looked at, `STRANDLINE_CRASH_SEED` where they begin.

#![allow(clippy::unwrap_used)]

mod common;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use common::{batch, formatted, id, quiet, read_all, simulated_options, validated};
use strandline_runtime::Runtime;
use strandline_runtime::sim::{SeededRandom, SimRuntime, Simulation};
use strandline_storage::disk::sim::Image;
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
#[derive(Clone)]
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

/// What the flushes of a round left.
struct Moment {
    image: Image,
    /// The number of the flush.
    flush: u64,
    at: String,
    /// The start that readers were told by then.
    told: i64,
    now_ms: i64,
    /// As of before the round, and what it makes of that.
    before: Model,
    after: Model,
    /// Everything readable before the round.
    records: Vec<(i64, Vec<u8>)>,
}

/// Images of a flush at most: without everything that it covers, with all of it, and one of those between.
const IMAGES_PER_FLUSH: u64 = 3;

struct Run {
    /// Set where every flush of a round is looked at.
    moments: Option<Rc<RefCell<Vec<Moment>>>>,
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

    /// Looks at every flush from here on, up to the round's end.
    async fn watch(&self) {
        let Some(moments) = self.moments.clone() else {
            return;
        };
        let before = self.model.clone();
        let (log, runtime) = (self.log(), self.runtime.clone());
        let records = read_all(&log, before.start).await;
        let flushes = RefCell::new(moments.borrow().last().map_or(0, |moment| moment.flush));
        self.disk.on_flush(move |disk, point| {
            *flushes.borrow_mut() += 1;
            let mut after = before.clone();
            after.round(runtime.wall_clock_ms());
            for image in disk.crash_images(IMAGES_PER_FLUSH) {
                moments.borrow_mut().push(Moment {
                    image,
                    flush: *flushes.borrow(),
                    at: format!("flush of {}", point.path.display()),
                    told: log.start_offset(),
                    now_ms: runtime.wall_clock_ms(),
                    before: before.clone(),
                    after: after.clone(),
                    records: records.clone(),
                });
            }
        });
    }

    async fn a_round(&mut self) {
        self.watch().await;
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
        self.store.unlinked().await.unwrap();
        self.disk.on_flush(|_, _| {});
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

fn run(seed: u64, moments: Option<Rc<RefCell<Vec<Moment>>>>) -> u64 {
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
            moments,
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
    let deleted: u64 = (0..60).map(|seed| run(seed, None)).sum();
    assert!(deleted > 300, "only {deleted} segments were deleted in all");
}

/// Starts a store from an image, and lets retention go on.
fn recovers(moment: &Moment, seed: u64) -> Result<(), String> {
    let simulation = Simulation::new(seed);
    let runtime = simulation.runtime("node");
    simulation.set_clock_offset_ms("node", moment.now_ms - runtime.wall_clock_ms());
    let disk = SimDisk::from_image(&moment.image, runtime.clone(), SimDiskOptions::default());
    let (before, after) = (moment.before.clone(), moment.after.clone());
    let (told, records) = (moment.told, moment.records.clone());
    simulation.run_until(async move {
        let opened = Store::open(runtime.clone(), disk.clone(), options(), quiet()).await;
        let (store, report) = opened.map_err(|error| error.to_string())?;
        if report.rot || !report.damaged.is_empty() {
            return Err(format!("a power cut is no rot: {report:?}"));
        }
        let log = store.log(id(1, 0)).ok_or("the log is gone")?;
        let start = log.start_offset();
        if start < told || (start != before.start && start != after.start) {
            return Err(format!(
                "the log starts at {start}, told was {told}: it was at {} and was to be at {}",
                before.start, after.start
            ));
        }
        if log.end_offset() != before.end {
            return Err(format!(
                "the log ends at {}, not at {}",
                log.end_offset(),
                before.end
            ));
        }
        let kept = records.iter().filter(|(offset, _)| *offset >= start);
        if !read_all(&log, start).await.iter().eq(kept) {
            return Err("records differ".to_owned());
        }
        log.set_settings(after.settings.clone());
        log.set_high_watermark(after.end);
        let rounds = store.stats().retention_rounds;
        while store.stats().retention_rounds < rounds + 1 {
            runtime.sleep(Duration::from_secs(2)).await;
        }
        store.checkpoint().await.map_err(|error| error.to_string())?;
        let again = log.start_offset();
        let kept = records.iter().filter(|(offset, _)| *offset >= again);
        if again < start || !read_all(&log, again).await.iter().eq(kept) {
            return Err(format!(
                "after another round the log starts at {again}, after {start}"
            ));
        }
        // A replay may have begun other segments: of these, nothing more is to go.
        let (settings, segments) = (&after.settings, log.segments());
        let (Some(oldest), true) = (segments.first(), settings.deletes) else {
            return Ok(());
        };
        let age_ms = runtime.wall_clock_ms() - oldest.largest_timestamp();
        let left = (log.size_bytes() - oldest.payload_bytes) as i64;
        if settings.retention_ms >= 0 && age_ms > settings.retention_ms
            || settings.retention_bytes >= 0 && left >= settings.retention_bytes
        {
            return Err(format!("{oldest:?} stays, with {left} bytes behind it"));
        }
        Ok(())
    })
}

#[test]
fn every_image_of_a_round_recovers() {
    let number = |name: &str, default: u64| {
        std::env::var(name).map_or(default, |text| text.replace('_', "").parse().unwrap())
    };
    let first = number("STRANDLINE_CRASH_SEED", 1);
    let seeds = number("STRANDLINE_RETENTION_SEEDS", 2);
    let (mut images, mut flushes, mut moved) = (0, 0, 0);
    for seed in first..first + seeds {
        let collected = Rc::<RefCell<Vec<Moment>>>::default();
        run(seed, Some(collected.clone()));
        let moments = collected.borrow();
        flushes += moments.chunk_by(|one, other| one.flush == other.flush).count();
        for moment in moments.iter() {
            if let Err(reason) = recovers(moment, seed) {
                panic!("seed {seed}, {}: {reason}", moment.at);
            }
            images += 1;
            moved += u64::from(moment.before.start != moment.after.start);
        }
    }
    println!(
        "retention: {images} crash images at {flushes} flushes, all of {seeds} seeds' rounds, recovered; {moved} of rounds that deleted"
    );
    assert!(moved > 10 * seeds, "only {moved} images of rounds that deleted");
}
