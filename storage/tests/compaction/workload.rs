//! Random histories of a compacted log: appends by several producers, time, cleanings with memory for a few keys or many,
//! checkpoints and restarts, and readers all the while.

use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use strandline_runtime::sim::{SeededRandom, SimRuntime, Simulation};
use strandline_runtime::{Queue, Runtime};
use strandline_storage::disk::sim::Image;
use strandline_storage::disk::{SimDisk, SimDiskOptions};
use strandline_storage::{
    AppendError, CleanError, Cleaned, CleanerOptions, Cleaning, CompactionSettings, Log, LogSettings,
    ReadError, Store, StoreOptions,
};
use strandline_wire::batch::{BatchBuilder, Codec};

use crate::common::{formatted, id, quiet, small_options, validated};
use crate::files::check_files;
use crate::model::{Model, Written, read, try_read};

pub type SimStore = Store<SimRuntime, SimDisk>;

pub const RETENTION_MS: i64 = 5_000;

pub fn options() -> StoreOptions {
    small_options(PathBuf::from("/data/shard-0"))
}

pub fn settings(segment_bytes: u64) -> LogSettings {
    LogSettings {
        segment_bytes,
        ..LogSettings::default()
    }
}

pub fn cleaning(bound: i64, map_bytes: u64) -> Cleaning {
    Cleaning {
        settings: CompactionSettings {
            min_dirty_ratio: 0.0,
            delete_retention_ms: RETENTION_MS,
            ..CompactionSettings::default()
        },
        bound,
        map_bytes,
        map_load: 0.9,
    }
}

/// A disk after a power cut during a cleaning, and what was known then.
pub struct Moment {
    pub image: Image,
    pub model: Model,
    pub now_ms: i64,
    pub segment_bytes: u64,
    /// The number of the flush.
    pub flush: u64,
    pub at: String,
}

/// Runs the history of a seed; gives at most `per_flush` images of each flush during its cleanings.
pub fn run(seed: u64, per_flush: u64) -> Vec<Moment> {
    let simulation = Simulation::new(seed);
    let runtime = simulation.runtime("node");
    let moments: Rc<RefCell<Vec<Moment>>> = Rc::default();
    let collected = moments.clone();
    simulation.run_until(async move {
        let disk = formatted(&runtime, SimDiskOptions::default(), &options()).await;
        let mut random = SeededRandom::new(seed);
        let segment_bytes = 2_000 + random.below(20_000);
        let (store, _) = Store::open(runtime.clone(), disk.clone(), options(), quiet())
            .await
            .unwrap();
        cleaned_by_hand(&store);
        store.create_log(id(1, 0), settings(segment_bytes)).unwrap();
        let workload = Workload {
            keys: 1 + random.below(60),
            runtime: runtime.clone(),
            disk: disk.clone(),
            store,
            model: Rc::default(),
            random,
            sequences: [0; 3],
            segment_bytes,
            cleaning: Rc::new(Cell::new(false)),
            next_value: 0,
            seed,
        };
        let (model, is_cleaning) = (workload.model.clone(), workload.cleaning.clone());
        let flushes = Cell::new(0);
        disk.on_flush(move |disk, point| {
            if !is_cleaning.get() || model.borrow().acknowledged == 0 {
                return;
            }
            flushes.set(flushes.get() + 1);
            for image in disk.crash_images(per_flush) {
                moments.borrow_mut().push(Moment {
                    flush: flushes.get(),
                    image,
                    model: model.borrow().clone(),
                    now_ms: runtime.wall_clock_ms(),
                    segment_bytes,
                    at: format!("flush of {}", point.path.display()),
                });
            }
        });
        workload.run().await;
    });
    let mut taken = collected.borrow_mut();
    std::mem::take(&mut *taken)
}

struct Workload {
    runtime: SimRuntime,
    disk: SimDisk,
    store: SimStore,
    model: Rc<RefCell<Model>>,
    random: SeededRandom,
    keys: u64,
    sequences: [i32; 3],
    segment_bytes: u64,
    cleaning: Rc<Cell<bool>>,
    next_value: u64,
    seed: u64,
}

impl Workload {
    fn log(&self) -> Log<SimDisk> {
        self.store.log(id(1, 0)).unwrap()
    }

    async fn run(mut self) {
        for _ in 0..24 {
            match self.random.below(100) {
                0..=44 => self.append_some().await,
                45..=54 => {
                    let pause = Duration::from_millis(self.random.below(4000));
                    self.runtime.sleep(pause).await;
                }
                55..=84 => self.clean().await,
                85..=89 => self.store.checkpoint().await.unwrap(),
                90..=93 => self.raise_start().await,
                _ => self.reopen().await,
            }
            self.check().await;
        }
        self.append_some().await;
        self.clean().await;
        self.check().await;
        self.store.checkpoint().await.unwrap();
        self.store.unlinked().await.unwrap();
        check_files(&self.disk, &options(), &self.log()).await;
        self.reopen().await;
        self.check().await;
    }

    async fn reopen(&mut self) {
        self.store.close().await.unwrap();
        let opened = Store::open(self.runtime.clone(), self.disk.clone(), options(), quiet()).await;
        let (store, report) = opened.unwrap();
        assert!(report.damaged.is_empty() && !report.rot, "{report:?}");
        cleaned_by_hand(&store);
        self.store = store;
        self.log().set_settings(settings(self.segment_bytes));
    }

    async fn raise_start(&mut self) {
        let part = self.random.below(1 << 16);
        raise_start(&self.store, &self.model, part).await;
    }

    async fn append_some(&mut self) {
        for _ in 0..1 + self.random.below(30) {
            self.append();
        }
        let log = self.log();
        log.acknowledged(log.end_offset()).await.unwrap();
        log.set_high_watermark(log.end_offset());
        self.model.borrow_mut().acknowledged = log.end_offset();
    }

    fn append(&mut self) {
        let log = self.log();
        let now = self.runtime.wall_clock_ms();
        let random = &mut self.random;
        let codec = Codec::ALL[random.below(5) as usize];
        let count = 1 + random.below(6);
        let mut builder = BatchBuilder::new().compression(codec);
        let producer = random.below(4) as usize;
        if producer < 3 {
            builder = builder.producer(producer as i64 + 100, 0, self.sequences[producer]);
        }
        let mut written = Vec::new();
        for _ in 0..count {
            self.next_value += 1;
            let key = match random.below(200) {
                0 => Vec::new(),
                _ => format!("key-{}", random.below(self.keys)).into_bytes(),
            };
            let value = match random.below(4) {
                0 => None,
                _ => {
                    let mut value = format!("{}/", self.next_value).into_bytes();
                    value.resize(value.len() + random.below(700) as usize, self.next_value as u8);
                    Some(value)
                }
            };
            let record = Written {
                key: Some(key),
                value,
                timestamp: now - random.below(50) as i64,
            };
            builder.record(record.timestamp, record.key.as_deref(), record.value.as_deref());
            written.push(record);
        }
        let bytes = builder.finish().unwrap();
        let appended = log.append(&validated(&bytes)).unwrap();
        let mut model = self.model.borrow_mut();
        assert_eq!(appended.base_offset as usize, model.records.len());
        model.records.extend(written);
        if producer < 3 {
            let sequence = self.sequences[producer];
            let batch = (sequence, count as i32, appended.base_offset);
            model.producers.insert(producer as i64 + 100, batch);
            self.sequences[producer] += count as i32;
        }
    }

    /// Cleans, while readers read and appends go on.
    async fn clean(&mut self) {
        let log = self.log();
        let map_bytes = match self.random.below(3) {
            0 => 24 * (2 + self.random.below(20)),
            _ => 1 << 16,
        };
        let task = cleaning(log.high_watermark(), map_bytes);
        let began = self.runtime.wall_clock_ms();
        let is_done = Rc::new(Cell::new(false));
        let readers = Rc::new(Cell::new(0));
        for reader in 0..2 {
            readers.set(readers.get() + 1);
            let (log, runtime, model) = (log.clone(), self.runtime.clone(), self.model.clone());
            let (is_done, readers) = (is_done.clone(), readers.clone());
            let mut random = SeededRandom::new(self.seed ^ (reader + 77));
            self.runtime.spawn(Queue::Latency, async move {
                while !is_done.get() {
                    let start = log.start_offset();
                    let from = start + random.below((log.end_offset() - start) as u64 + 1) as i64;
                    let end = log.end_offset();
                    let found = match try_read(&log, from, 1 + random.below(20_000) as usize).await {
                        Ok(found) => found,
                        Err(ReadError::OutOfRange { start, .. }) if start > from => continue,
                        Err(other) => panic!("{other}"),
                    };
                    let now = runtime.wall_clock_ms();
                    let known = model.borrow().clone();
                    known.check(&found, from, end, now).unwrap();
                    runtime.sleep(Duration::from_millis(1)).await;
                }
                readers.set(readers.get() - 1);
            });
        }
        // DeleteRecords may come in between, or a round of write-back, and the policy may change.
        let change = self.random.below(6);
        let (pause, part) = (self.random.below(8_000), self.random.below(1 << 16));
        let disturb = async {
            self.runtime.sleep(Duration::from_micros(pause)).await;
            match change {
                0 | 1 => raise_start(&self.store, &self.model, part).await,
                2 => log.set_settings(settings(self.segment_bytes)),
                3 | 4 => {
                    // Write-back works on the log, and names its segments too.
                    log.begin_epoch(log.leader_epoch() + 1).await.unwrap();
                    self.store.checkpoint().await.unwrap();
                }
                _ => {}
            }
        };
        log.set_settings(LogSettings {
            compacts: true,
            ..settings(self.segment_bytes)
        });
        // Every flush from here to the end of the checkpoint is one of the cleaner.
        self.cleaning.set(true);
        let (result, ()) = futures_util::future::join(self.store.clean(&log, &task), disturb).await;
        log.set_settings(settings(self.segment_bytes));
        self.model.borrow_mut().cleaned_to = log.cleaned_to();
        self.store.checkpoint().await.unwrap();
        self.cleaning.set(false);
        is_done.set(true);
        while readers.get() > 0 {
            self.runtime.sleep(Duration::from_millis(1)).await;
        }
        let cleaned: Cleaned = match result {
            Ok(cleaned) => cleaned,
            Err(CleanError::Changed) => {
                assert!(change <= 2, "nothing changed");
                return;
            }
            Err(other) => panic!("{other}"),
        };
        assert!(cleaned.to >= cleaned.from && cleaned.to <= task.bound);
        assert!(
            cleaned.is_whole || cleaned.to > cleaned.from,
            "{cleaned:?} gets nowhere"
        );
        if cleaned.to == cleaned.from {
            return;
        }
        // The start may have been raised over it since.
        assert_eq!(log.cleaned_to(), cleaned.to.max(log.start_offset()));
        let found = read(&log, log.start_offset(), 50_000).await;
        let ended = self.runtime.wall_clock_ms();
        let mut model = self.model.borrow_mut();
        let checked = model.check_cleaned(&found, cleaned.to, (began, ended), RETENTION_MS);
        checked.unwrap();
    }

    /// From every offset, and the producers.
    async fn check(&mut self) {
        let log = self.log();
        let (start, end) = (log.start_offset(), log.end_offset());
        let model = self.model.borrow().clone();
        assert_eq!(end as usize, model.records.len());
        assert_eq!(start, model.start);
        let mut offsets = vec![start, end];
        offsets.extend((0..6).map(|_| start + self.random.below((end - start) as u64 + 1) as i64));
        for from in offsets {
            let found = read(&log, from, 30_000).await;
            model
                .check(&found, from, end, self.runtime.wall_clock_ms())
                .unwrap();
        }
        check_producers(&log, &model);
    }
}

/// Stops the store's own cleaner: a test says when.
fn cleaned_by_hand(store: &SimStore) {
    store.set_cleaner_options(CleanerOptions {
        enabled: false,
        ..CleanerOptions::default()
    });
}

/// Raises the start over a part of what is there, in 65536ths of a third.
async fn raise_start(store: &SimStore, model: &RefCell<Model>, part: u64) {
    let log = store.log(id(1, 0)).unwrap();
    let start = {
        let mut model = model.borrow_mut();
        let span = (model.acknowledged - model.start) as u64 / 3;
        model.start += (((span + 1) * part) >> 16) as i64;
        model.start
    };
    let sequence = log.set_start_offset(start).await.unwrap();
    store.durable(sequence).await.unwrap();
    model.borrow_mut().start_durable = log.start_offset();
}

/// Each producer's last batch is known still.
pub fn check_producers(log: &Log<SimDisk>, model: &Model) {
    for (producer, (sequence, count, base_offset)) in &model.producers {
        if *base_offset >= log.end_offset() {
            continue;
        }
        let mut builder = BatchBuilder::new().producer(*producer, 0, *sequence);
        for _ in 0..*count {
            builder.record(1, Some(b"again"), None);
        }
        let bytes = builder.finish().unwrap();
        match log.append(&validated(&bytes)) {
            Err(AppendError::Duplicate {
                base_offset: first, ..
            }) if first == *base_offset => {}
            other => panic!("producer {producer}, sequence {sequence}: {other:?}"),
        }
    }
}
