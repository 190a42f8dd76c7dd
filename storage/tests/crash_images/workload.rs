//! Random operations on a store, and the images that a power cut could leave at each flush of them.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use strandline_runtime::sim::{SeededRandom, SimRuntime, Simulation};
use strandline_runtime::{Monotonic, Runtime};
use strandline_storage::disk::sim::Image;
use strandline_storage::disk::{SimDisk, SimDiskOptions};
use strandline_storage::{
    Log, LogId, LogSettings, ReadError, Sequence, Stopped, Store, StoreError, StoreObserver, StoreOptions,
};

use crate::common::{append, append_as, id, small_options};
use crate::model::{Life, Model};

pub const PARTITIONS: usize = 4;
/// The partition of a relaxed topic.
const RELAXED: usize = 3;
/// One flush in so many is looked at.
const FLUSHES_PER_LOOK: u64 = 10;
/// The same where the journal goes round: those recoveries read much more.
const FLUSHES_PER_LOOK_OF_BURSTS: u64 = 40;

/// Whether a seed appends in such numbers that the journal goes round several times.
fn has_bursts(seed: u64) -> bool {
    seed % 4 == 2
}

/// The store's directory on the simulated disk.
pub fn directory() -> PathBuf {
    PathBuf::from("/data/shard-0")
}

pub fn options() -> StoreOptions {
    StoreOptions {
        initial_task_delay_ms: 0,
        retention_check_ms: 20,
        ..small_options(directory())
    }
}

/// Whether retention goes on beside everything else.
fn has_retention(seed: u64) -> bool {
    seed % 3 == 1
}

/// What a partition is set to, of a seed with retention: one keeps nothing that was acknowledged, all records being old, one a
/// few segments.
fn retaining_settings(partition: usize) -> LogSettings {
    let settings = settings(partition == RELAXED);
    match partition {
        1 => LogSettings {
            retention_ms: 0,
            ..settings
        },
        2 => LogSettings {
            retention_bytes: 50_000,
            ..settings
        },
        _ => settings,
    }
}

pub fn settings(relaxed: bool) -> LogSettings {
    LogSettings {
        durable: !relaxed,
        segment_bytes: 20_000,
        ..LogSettings::default()
    }
}

/// The producer id of a partition.
pub fn producer(partition: usize) -> i64 {
    100 + partition as i64
}

/// Takes what the store acknowledges into the model, in the same poll.
struct Acknowledge {
    model: Rc<RefCell<Model>>,
    lives: Rc<RefCell<BTreeMap<LogId, (usize, usize)>>>,
}

impl StoreObserver<SimDisk> for Acknowledge {
    fn advanced(&self, _: Sequence, logs: &[Log<SimDisk>]) {
        for log in logs {
            let Some((partition, life)) = self.lives.borrow().get(&log.log_id()).copied() else {
                continue;
            };
            let mut model = self.model.borrow_mut();
            let lineage = model.partitions[partition][life].newest();
            // A relaxed log may lose what only was written.
            let end = match log.settings().durable {
                true => log.acknowledged_end(),
                false => log.flushed_end(),
            };
            // Between asking for a truncation and its cut, flushes of what it cuts may still end.
            let end = end.min(lineage.values.len() as i64);
            lineage.acknowledged = lineage.acknowledged.max(end);
            log.set_high_watermark(lineage.acknowledged);
        }
    }

    /// Whatever readers were told must not go back.
    fn start_moved(&self, log: &Log<SimDisk>) {
        let Some((partition, life)) = self.lives.borrow().get(&log.log_id()).copied() else {
            return;
        };
        let mut model = self.model.borrow_mut();
        let life = &mut model.partitions[partition][life];
        life.start_durable = life.start_durable.max(log.start_offset());
    }

    fn stopped(&self, reason: &Stopped) {
        panic!("{reason}");
    }
}

/// An image and what the model said when it could be left.
pub struct Moment {
    pub image: Image,
    pub model: Model,
    pub at: String,
}

/// Runs the operations of `seed`; gives the images, `per_flush` a flush at most.
pub fn images_of(seed: u64, per_flush: u64) -> Vec<Moment> {
    let simulation = Simulation::new(seed);
    let runtime = simulation.runtime("node");
    let model = Rc::new(RefCell::new(Model {
        partitions: vec![Vec::new(); PARTITIONS],
    }));
    let moments: Rc<RefCell<Vec<Moment>>> = Rc::default();
    let collected = moments.clone();
    simulation.run_until(async move {
        let disk = SimDisk::new(runtime.clone(), SimDiskOptions::default());
        disk.make_durable_directories(&directory()).unwrap();
        Store::format(runtime.clone(), disk.clone(), &options())
            .await
            .unwrap();
        let per_look = match has_bursts(seed) {
            true => FLUSHES_PER_LOOK_OF_BURSTS,
            false => FLUSHES_PER_LOOK,
        };
        let hooked = model.clone();
        let flushes = RefCell::new(0u64);
        let pick = RefCell::new(SeededRandom::new(seed));
        disk.on_flush(move |disk, point| {
            *flushes.borrow_mut() += 1;
            // A share of the flushes, so that a run of so many images sees more seeds.
            if !pick.borrow_mut().one_in(per_look) {
                return;
            }
            let at = format!("flush {} of {}", flushes.borrow(), point.path.display());
            for image in disk.crash_images(per_flush) {
                moments.borrow_mut().push(Moment {
                    image,
                    model: hooked.borrow().clone(),
                    at: at.clone(),
                });
            }
        });
        Workload::open(runtime, disk, model, seed).await.run().await;
    });
    let mut taken = collected.borrow_mut();
    std::mem::take(&mut *taken)
}

struct Workload {
    runtime: SimRuntime,
    store: Store<SimRuntime, SimDisk>,
    model: Rc<RefCell<Model>>,
    lives: Rc<RefCell<BTreeMap<LogId, (usize, usize)>>>,
    random: SeededRandom,
    next_value: u64,
    operations: u64,
    bursts: bool,
    retention: bool,
}

impl Workload {
    async fn open(runtime: SimRuntime, disk: SimDisk, model: Rc<RefCell<Model>>, seed: u64) -> Self {
        let lives = Rc::<RefCell<BTreeMap<_, _>>>::default();
        let observer = Rc::new(Acknowledge {
            model: model.clone(),
            lives: lives.clone(),
        });
        let (store, _) = Store::open(runtime.clone(), disk, options(), observer)
            .await
            .unwrap();
        let operations = if seed.is_multiple_of(4) { 150 } else { 50 };
        Self {
            runtime,
            store,
            model,
            lives,
            random: SeededRandom::new(!seed),
            next_value: 0,
            operations,
            bursts: has_bursts(seed),
            retention: has_retention(seed),
        }
    }

    async fn run(mut self) {
        for _ in 0..self.operations {
            let partition = self.random.below(PARTITIONS as u64) as usize;
            let log = self.store.log(id(1, partition as u32));
            match (log, self.random.below(100)) {
                (None, _) => self.create(partition).await,
                (Some(log), 0..=49) => self.append(partition, &log).await,
                (Some(log), 50..=64) => log.acknowledged(log.end_offset()).await.unwrap(),
                (_, 65..=74) => {
                    self.runtime
                        .sleep(Duration::from_micros(self.random.below(3000)))
                        .await
                }
                (_, 75..=76) => self.runtime.sleep(Duration::from_millis(1200)).await,
                (_, 77..=82) => self.store.checkpoint().await.unwrap(),
                (Some(log), 83..=86) => self.begin_epoch(partition, &log).await,
                (Some(log), 87..=90) => self.raise_start(partition, &log).await,
                (Some(log), 91..=95) => self.truncate(partition, &log).await,
                (Some(_), 96..=97) => self.delete(partition).await,
                (Some(log), _) => self.append_large(partition, &log).await,
            }
        }
        if self.random.one_in(2) {
            self.store.close().await.unwrap();
        }
    }

    async fn create(&mut self, partition: usize) {
        let settings = match self.retention {
            true => retaining_settings(partition),
            false => settings(partition == RELAXED),
        };
        let lives = {
            let mut model = self.model.borrow_mut();
            model.partitions[partition].push(Life {
                retains: self.retention,
                ..Life::new(partition.is_multiple_of(2))
            });
            model.partitions[partition].len()
        };
        let log = self.store.create_log(id(1, partition as u32), settings).unwrap();
        self.lives
            .borrow_mut()
            .insert(log.log_id(), (partition, lives - 1));
        if self.random.one_in(2) {
            log.created().await.unwrap();
            self.model.borrow_mut().partitions[partition][lives - 1].create_durable = true;
        }
    }

    fn value(&mut self, partition: usize, length: usize) -> Vec<u8> {
        self.next_value += 1;
        let mut value = format!("{partition}/{}/", self.next_value).into_bytes();
        // Zeroes and repeated values must not pass for the end of a log, or for one another.
        let fill = if self.random.one_in(4) {
            0
        } else {
            self.next_value as u8
        };
        value.resize(length.max(value.len()), fill);
        value
    }

    async fn append(&mut self, partition: usize, log: &Log<SimDisk>) {
        let count = match self.bursts {
            true => 20 + self.random.below(30),
            false => 1 + self.random.below(4),
        };
        for _ in 0..count {
            let length = if self.random.one_in(5) {
                9_000
            } else {
                10 + self.random.below(3000) as usize
            };
            self.append_one(partition, log, length).await;
        }
    }

    async fn append_large(&mut self, partition: usize, log: &Log<SimDisk>) {
        // Some come while those before them are being written.
        for _ in 0..1 + self.random.below(3) {
            let length = 65_000 + self.random.below(60_000) as usize;
            self.append_one(partition, log, length).await;
            let pause = Duration::from_micros(self.random.below(500));
            self.runtime.sleep(pause).await;
        }
    }

    async fn append_one(&mut self, partition: usize, log: &Log<SimDisk>, length: usize) {
        self.store.admit(length, Monotonic(u64::MAX)).await.unwrap();
        let idempotent = partition.is_multiple_of(2);
        let count = if idempotent {
            1
        } else {
            1 + self.random.below(3) as usize
        };
        let values: Vec<Vec<u8>> = (0..count)
            .map(|_| self.value(partition, length / count))
            .collect();
        let end = log.end_offset();
        let appended = match idempotent {
            true => append_as(log, &values[0], (producer(partition), 0, end as i32)).unwrap(),
            false => append(log, &values).unwrap(),
        };
        assert_eq!(appended.base_offset, end);
        let mut model = self.model.borrow_mut();
        let life = model.live(partition).unwrap();
        life.newest().values.extend(values.into_iter().map(Rc::new));
    }

    async fn begin_epoch(&mut self, partition: usize, log: &Log<SimDisk>) {
        let epoch = {
            let mut model = self.model.borrow_mut();
            let life = model.live(partition).unwrap();
            life.epoch_requested += 1;
            life.epoch_requested
        };
        let sequence = log.begin_epoch(epoch).await.unwrap();
        if self.random.one_in(2) {
            self.store.durable(sequence).await.unwrap();
            self.model.borrow_mut().live(partition).unwrap().epoch_durable = epoch;
        }
    }

    async fn raise_start(&mut self, partition: usize, log: &Log<SimDisk>) {
        let offset = {
            let mut model = self.model.borrow_mut();
            let life = model.live(partition).unwrap();
            let acknowledged = life.newest().acknowledged;
            if acknowledged <= life.start_requested {
                return;
            }
            let span = (acknowledged - life.start_requested) as u64;
            life.start_requested += 1 + self.random.below(span) as i64;
            life.start_requested
        };
        let sequence = log.set_start_offset(offset).await.unwrap();
        if self.random.one_in(2) {
            self.store.durable(sequence).await.unwrap();
            let mut model = self.model.borrow_mut();
            let life = model.live(partition).unwrap();
            life.start_durable = life.start_durable.max(offset);
        }
    }

    async fn truncate(&mut self, partition: usize, log: &Log<SimDisk>) {
        let Some(offset) = self.batch_start(log).await else {
            return;
        };
        let asked = {
            let mut model = self.model.borrow_mut();
            let life = model.live(partition).unwrap();
            if offset < life.start_requested.max(log.start_offset()) || offset >= log.end_offset() {
                return;
            }
            let mut cut = life.newest().clone();
            cut.values.truncate(offset as usize);
            cut.acknowledged = cut.acknowledged.min(offset);
            life.lineages.push(cut);
            life.epoch_durable = -1;
            life.lineages.len() - 1
        };
        let sequence = match log.truncate_to(offset).await {
            // Retention came before it.
            Err(StoreError::Invalid(_)) if self.retention => {
                self.model.borrow_mut().live(partition).unwrap().lineages.pop();
                return;
            }
            result => result.unwrap(),
        };
        if self.random.one_in(2) {
            self.store.durable(sequence).await.unwrap();
            self.model
                .borrow_mut()
                .live(partition)
                .unwrap()
                .truncations_durable = asked;
        }
    }

    /// The first offset of some batch of the log.
    async fn batch_start(&mut self, log: &Log<SimDisk>) -> Option<i64> {
        let (start, end) = (log.start_offset(), log.end_offset());
        if start == end {
            return None;
        }
        let offset = start + self.random.below((end - start) as u64) as i64;
        let request = strandline_storage::ReadRequest {
            offset,
            max_bytes: 1,
            upper_bound: end,
            at_least_one: true,
        };
        let result = match log.read(request).await {
            Err(ReadError::OutOfRange { .. }) if self.retention => return None,
            result => result.unwrap(),
        };
        let batch = result.batches.first()?;
        Some(
            strandline_wire::batch::BatchHeader::decode(batch)
                .unwrap()
                .base_offset,
        )
    }

    async fn delete(&mut self, partition: usize) {
        let life = {
            let mut model = self.model.borrow_mut();
            model.live(partition).unwrap().delete_requested = true;
            model.partitions[partition].len() - 1
        };
        let sequence = self.store.delete_log(id(1, partition as u32)).unwrap();
        if self.random.one_in(2) {
            self.store.durable(sequence).await.unwrap();
            self.model.borrow_mut().partitions[partition][life].delete_durable = true;
        }
    }
}
