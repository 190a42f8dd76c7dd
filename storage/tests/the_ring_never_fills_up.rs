//! Only a checkpoint frees the journal's ring, and a checkpoint waits for the entries before it: whatever takes its
//! time meanwhile, what is pending finds a place.

#![allow(clippy::unwrap_used)]

mod common;

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use common::{append, formatted, id, put, quiet, read_all, simulated_options as options};
use futures_util::future::{join, join_all};
use strandline_runtime::sim::{SimRuntime, Simulation};
use strandline_runtime::{Monotonic, Runtime};
use strandline_storage::disk::sim::Latency;
use strandline_storage::disk::{SimDisk, SimDiskOptions};
use strandline_storage::{Log, LogSettings, Store};

const RECORD_BYTES: usize = 4_000;

async fn opened(runtime: &SimRuntime, disk: SimDiskOptions) -> (SimDisk, Store<SimRuntime, SimDisk>) {
    let disk = formatted(runtime, disk, &options()).await;
    let (store, _) = Store::open(runtime.clone(), disk.clone(), options(), quiet())
        .await
        .unwrap();
    (disk, store)
}

/// Appends from eight writers at once until `done`; each append is admitted and acknowledged, or the test fails.
async fn load(
    runtime: &SimRuntime,
    store: &Store<SimRuntime, SimDisk>,
    log: &Log<SimDisk>,
    patience: Duration,
    done: impl Fn(i64) -> bool,
) {
    let writers = (0..8u8).map(|writer| {
        let done = &done;
        async move {
            while !done(log.end_offset()) {
                let deadline = runtime.now() + patience;
                store.admit(RECORD_BYTES, deadline).await.unwrap();
                let appended = append(log, &[vec![writer; RECORD_BYTES]]).unwrap();
                log.acknowledged(appended.last_offset + 1).await.unwrap();
            }
        }
    });
    join_all(writers).await;
}

/// A large topic was deleted under load: its files were removed inside the round. Meanwhile the ring filled, and the next
/// round waited for entries that only its own end could have given a place.
#[test]
fn appends_go_on_while_the_files_of_a_deleted_log_are_removed() {
    let simulation = Simulation::new(1);
    let runtime = simulation.runtime("node");
    simulation.run_until(async move {
        let (disk, store) = opened(&runtime, SimDiskOptions::default()).await;
        let settings = LogSettings {
            segment_bytes: 20_000,
            ..LogSettings::default()
        };
        let large = store.create_log(id(1, 0), settings).unwrap();
        let log = store.create_log(id(1, 1), LogSettings::default()).unwrap();
        load(&runtime, &store, &large, Duration::from_secs(5), |end| end >= 100).await;
        store.checkpoint().await.unwrap();

        let removal = Duration::from_secs(60);
        disk.slow_removals(removal);
        let sequence = store.delete_log(id(1, 0)).unwrap();
        store.durable(sequence).await.unwrap();
        let began = runtime.now();
        // Many times the ring, while one file is being removed.
        load(&runtime, &store, &log, Duration::from_secs(5), |end| end >= 2_000).await;
        assert!(runtime.now() < began + removal);
        assert!(store.stats().checkpoints > 4, "the ring went round");
        assert_eq!(read_all(&log, 0).await.len() as i64, log.end_offset());
        // A close finishes the removals.
        disk.slow_removals(Duration::from_secs(1));
        store.close().await.unwrap();
        let (store, _) = Store::open(runtime.clone(), disk, options(), quiet())
            .await
            .unwrap();
        assert!(store.log(id(1, 0)).is_none());
    });
}

/// A round may wait for its turn at a log, here for a truncation that reads a slow disk; the ring fills meanwhile.
#[test]
fn a_round_that_begins_late_finds_its_entries_placed() {
    for seed in 0..5 {
        let simulation = Simulation::new(seed);
        let runtime = simulation.runtime("node");
        simulation.run_until(async move {
            let slow_reads = SimDiskOptions {
                read: Latency::micros(10_000_000, 20_000_000),
                ..SimDiskOptions::default()
            };
            let (_disk, store) = opened(&runtime, slow_reads).await;
            let cut = store.create_log(id(1, 0), LogSettings::default()).unwrap();
            let log = store.create_log(id(1, 1), LogSettings::default()).unwrap();
            for value in 0..3u8 {
                put(&cut, &[value]).await;
            }
            store.checkpoint().await.unwrap();
            let is_cut = Rc::new(Cell::new(false));
            let truncation = async {
                cut.truncate_to(1).await.unwrap();
                is_cut.set(true);
            };
            let appends = load(&runtime, &store, &log, Duration::from_secs(120), |end| {
                is_cut.get() && end >= 2_000
            });
            join(truncation, appends).await;
            assert_eq!(put(&cut, b"instead").await, 1);
            store.checkpoint().await.unwrap();
            store.close().await.unwrap();
        });
    }
}

/// Small frames that wait behind an extent go to the journal when that is written: together they may be more than the
/// ring has room for, though each was let in.
#[test]
fn frames_that_waited_behind_extents_do_not_fill_the_ring() {
    let simulation = Simulation::new(3);
    let runtime = simulation.runtime("node");
    simulation.run_until(async move {
        let slow_flushes = SimDiskOptions {
            flush: Latency::micros(10_000, 20_000),
            ..SimDiskOptions::default()
        };
        let (_disk, store) = opened(&runtime, slow_flushes).await;
        let logs: Vec<_> = (0..24)
            .map(|partition| {
                store
                    .create_log(id(1, partition), LogSettings::default())
                    .unwrap()
            })
            .collect();
        let deadline = Monotonic(u64::MAX);
        for log in &logs {
            append(log, &[vec![1; 70_000]]).unwrap();
        }
        for _ in 0..7 {
            for log in &logs {
                store.admit(8_000, deadline).await.unwrap();
                append(log, &[vec![2; 8_000]]).unwrap();
            }
        }
        for log in &logs {
            log.acknowledged(8).await.unwrap();
        }
        store.checkpoint().await.unwrap();
        store.close().await.unwrap();
    });
}
