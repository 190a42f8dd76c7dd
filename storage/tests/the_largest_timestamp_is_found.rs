//! The record with the largest timestamp, within the log's start and a bound, without reading the whole log.

#![allow(clippy::unwrap_used)]

mod common;

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use common::{batch, formatted, id, put, quiet, rules, simulated_options as options, validated};
use strandline_runtime::Runtime;
use strandline_runtime::sim::{SeededRandom, SimRuntime, Simulation};
use strandline_storage::disk::sim::{Latency, Operation};
use strandline_storage::disk::{SimDisk, SimDiskOptions};
use strandline_storage::{Log, LogSettings, Sequence, Stopped, Store, StoreObserver};

use strandline_wire::batch::{BatchBuilder, Codec, ValidationRules, validate};

type TestStore = Store<SimRuntime, SimDisk>;

async fn open(runtime: &SimRuntime, disk: &SimDisk) -> TestStore {
    let opened = Store::open(runtime.clone(), disk.clone(), options(), quiet()).await;
    opened.unwrap().0
}

fn small_segments() -> LogSettings {
    LogSettings {
        segment_bytes: 10_000,
        ..LogSettings::default()
    }
}

/// Appends a batch of records with these timestamps.
fn append_at(log: &Log<SimDisk>, timestamps: &[i64]) {
    let mut builder = BatchBuilder::new();
    for timestamp in timestamps {
        builder.record(*timestamp, None, Some(&[7; 300]));
    }
    log.append(&validated(&builder.finish().unwrap())).unwrap();
}

/// Compared with a look at every record, for random timestamps, log starts and bounds.
#[test]
fn it_is_that_of_a_look_at_every_record() {
    for seed in 0..40 {
        let simulation = Simulation::new(seed);
        let runtime = simulation.runtime("node");
        simulation.run_until(async move {
            let mut random = SeededRandom::new(seed);
            let disk = formatted(&runtime, SimDiskOptions::default(), &options()).await;
            let store = open(&runtime, &disk).await;
            let log = store.create_log(id(1, 0), small_segments()).unwrap();
            // The end of each batch, and its records' timestamps.
            let mut batches: Vec<(i64, Vec<i64>)> = Vec::new();
            for at in 0..60 {
                let count = random.between(1, 4);
                let timestamps: Vec<i64> = (0..count).map(|_| random.between(1, 25) as i64).collect();
                append_at(&log, &timestamps);
                batches.push((log.end_offset(), timestamps));
                if at % 20 == 10 {
                    store.checkpoint().await.unwrap();
                }
            }
            for start in [0, random.between(1, 40) as i64, random.between(40, 60) as i64] {
                let sequence = log.set_start_offset(start).await.unwrap();
                store.durable(sequence).await.unwrap();
                for _ in 0..10 {
                    let bound = batches[random.between(0, 59) as usize].0;
                    let records = batches.iter().filter(|(end, _)| *end <= bound);
                    let records = records.flat_map(|(end, timestamps)| {
                        let base = end - timestamps.len() as i64;
                        timestamps
                            .iter()
                            .enumerate()
                            .map(move |(at, timestamp)| (*timestamp, base + at as i64))
                    });
                    let in_bounds = records.filter(|(_, offset)| *offset >= start);
                    let expected = in_bounds.max_by_key(|(timestamp, offset)| (*timestamp, -offset));
                    let found = log.max_timestamp(bound).await.unwrap();
                    assert_eq!(
                        found.map(|found| (found.timestamp, found.offset)),
                        expected,
                        "seed {seed}, from {start} to {bound}"
                    );
                }
            }
        });
    }
}

/// While an append was in flight, which is always so under load, the whole log was read for the answer.
#[test]
fn an_append_in_flight_costs_no_look_at_the_whole_log() {
    let simulation = Simulation::new(1);
    let runtime = simulation.runtime("node");
    simulation.run_until(async move {
        let disk = formatted(&runtime, SimDiskOptions::default(), &options()).await;
        let store = open(&runtime, &disk).await;
        let log = store.create_log(id(1, 0), small_segments()).unwrap();
        for at in 0..400 {
            append_at(&log, &[1_000 + (at * 37) % 400; 3]);
            log.acknowledged(log.end_offset()).await.unwrap();
        }
        store.close().await.unwrap();
        let store = open(&runtime, &disk).await;
        let log = store.log(id(1, 0)).unwrap();
        assert!(log.segments().len() > 30);
        put(&log, b"in memory").await;
        let acknowledged = log.acknowledged_end();
        append_at(&log, &[9_999]);
        let before = disk.count(Operation::Read);
        let found = log.max_timestamp(acknowledged).await.unwrap().unwrap();
        assert_eq!(found.timestamp, 1_399);
        let reads = disk.count(Operation::Read) - before;
        assert!(reads <= 4, "{reads} reads");
    });
}

/// What a batch decompresses to was bounded when it was let in, by a bound of the configuration: a search with one of its own
/// took a larger batch for damage.
#[test]
fn a_batch_that_was_let_in_is_searched_whatever_it_decompresses_to() {
    let simulation = Simulation::new(2);
    let runtime = simulation.runtime("node");
    simulation.run_until(async move {
        let disk = formatted(&runtime, SimDiskOptions::default(), &options()).await;
        let store = open(&runtime, &disk).await;
        let log = store.create_log(id(1, 0), LogSettings::default()).unwrap();
        let mut builder = BatchBuilder::new().compression(Codec::Zstd);
        let value = vec![0; 8 << 20];
        for timestamp in 0..14 {
            builder.record(timestamp, None, Some(&value));
        }
        let bytes = builder.finish().unwrap();
        let large = ValidationRules {
            decompressed_max_bytes: 200 << 20,
            ..rules()
        };
        log.append(&validate(&bytes, &large).unwrap()).unwrap();
        let found = log.offset_for_timestamp(13, 14).await.unwrap().unwrap();
        assert_eq!((found.offset, found.timestamp), (13, 13));
        let largest = log.max_timestamp(14).await.unwrap().unwrap();
        assert_eq!(largest.offset, 13);
        assert_eq!(log.damaged_from(), None);
    });
}

#[derive(Default)]
struct Told(Cell<usize>);

impl StoreObserver<SimDisk> for Told {
    fn advanced(&self, _: Sequence, logs: &[Log<SimDisk>]) {
        self.0.set(self.0.get() + logs.len());
    }
    fn stopped(&self, _: &Stopped) {}
}

/// The write was done while the topic was durable, and its flush moved nothing any more: nobody heard of the record.
#[test]
fn a_topic_that_becomes_relaxed_tells_of_what_is_written() {
    let simulation = Simulation::new(3);
    let runtime = simulation.runtime("node");
    simulation.run_until(async move {
        let slow_flushes = SimDiskOptions {
            flush: Latency::micros(10_000_000, 10_000_001),
            ..SimDiskOptions::default()
        };
        let disk = formatted(&runtime, slow_flushes, &options()).await;
        let told = Rc::new(Told::default());
        let opened = Store::open(runtime.clone(), disk, options(), told.clone()).await;
        let (store, _) = opened.unwrap();
        let relaxed = LogSettings {
            durable: false,
            ..LogSettings::default()
        };
        let log = store.create_log(id(1, 0), LogSettings::default()).unwrap();
        let other = store.create_log(id(2, 0), relaxed.clone()).unwrap();
        log.created().await.unwrap();
        other.created().await.unwrap();
        // An entry that nobody waits for; until it is flushed, those above it are written first and flushed with it.
        other.append(&validated(&batch(&[vec![1]], None, 1))).unwrap();
        runtime.sleep(Duration::from_millis(100)).await;
        assert_eq!(told.0.replace(0), 1);
        log.append(&validated(&batch(&[vec![1]], None, 1))).unwrap();
        runtime.sleep(Duration::from_secs(1)).await;
        assert_eq!(
            (log.written_end(), log.acknowledged_end(), told.0.get()),
            (1, 0, 0)
        );
        log.set_settings(relaxed.clone());
        assert_eq!((log.acknowledged_end(), told.0.get()), (1, 1));
        log.set_settings(relaxed);
        assert_eq!(told.0.get(), 1, "nothing moved");
    });
}
