//! Writes in flight while something else happens to their log: nothing of them is lost, waited for in vain or
//! taken for what it is not.

#![allow(clippy::unwrap_used)]

mod common;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use common::{
    append, append_as, batch, formatted, id, put, quiet, read_all, simulated_options as options, validated,
};
use strandline_runtime::sim::{SimRuntime, Simulation};
use strandline_runtime::{Monotonic, Runtime};
use strandline_storage::disk::sim::Image;
use strandline_storage::disk::{SimDisk, SimDiskOptions};
use strandline_storage::{AppendError, LogSettings, Store};

/// At least the `direct_bytes` of the options: such a record becomes an extent.
const LARGE: usize = 100_000;

async fn open(runtime: &SimRuntime, disk: SimDisk) -> Store<SimRuntime, SimDisk> {
    let (store, report) = Store::open(runtime.clone(), disk, options(), quiet())
        .await
        .unwrap();
    assert!(!report.rot && report.damaged.is_empty(), "{report:?}");
    store
}

/// A run that an append sealed while the extents before it were being written was taken for written with them: it
/// was in no segment and no entry, and what came behind it was damage at the next open.
#[test]
fn large_records_appended_while_others_are_written_survive_a_power_cut() {
    for delay_micros in (0..3_000).step_by(100) {
        let simulation = Simulation::new(delay_micros);
        let runtime = simulation.runtime("node");
        let disk = simulation.run_until(async move {
            let disk = formatted(&runtime, SimDiskOptions::default(), &options()).await;
            let store = open(&runtime, disk.clone()).await;
            let log = store.create_log(id(1, 0), LogSettings::default()).unwrap();
            put(&log, b"in the journal").await;
            // The first is on its way to the segment; the others come meanwhile, and each seals the one before.
            for value in 1..=5u8 {
                append(&log, &[vec![value; LARGE]]).unwrap();
                if value == 1 {
                    runtime.sleep(Duration::from_micros(delay_micros)).await;
                }
            }
            append(&log, &[vec![6; 10]]).unwrap();
            log.acknowledged(7).await.unwrap();
            assert!(store.stats().extents > 0);
            disk
        });
        simulation.kill_host("node");
        disk.crash();
        let runtime = simulation.runtime("node");
        simulation.run_until(async move {
            let store = open(&runtime, disk.attach(runtime.clone())).await;
            let log = store.log(id(1, 0)).unwrap();
            let found = read_all(&log, 0).await;
            assert_eq!(found.len(), 7, "after a delay of {delay_micros} us");
            for (value, (offset, bytes)) in found.iter().enumerate().skip(1) {
                assert_eq!(*offset, value as i64);
                assert!(bytes.iter().all(|byte| usize::from(*byte) == value));
            }
            assert_eq!(put(&log, b"goes on").await, 7);
        });
    }
}

/// The truncation span on the notice of its own giving up, and held its thread for good.
#[test]
fn a_truncation_waits_for_extents_before_it() {
    let simulation = Simulation::new(1);
    let runtime = simulation.runtime("node");
    simulation.run_until(async move {
        let disk = formatted(&runtime, SimDiskOptions::default(), &options()).await;
        let store = open(&runtime, disk).await;
        let log = store.create_log(id(1, 0), LogSettings::default()).unwrap();
        for value in 0..4u8 {
            append(&log, &[vec![value; LARGE]]).unwrap();
        }
        let cut = log.truncate_to(2).await.unwrap();
        assert_eq!(put(&log, b"instead").await, 2);
        store.durable(cut).await.unwrap();
        assert_eq!(
            read_all(&log, 1).await,
            [(1, vec![1; LARGE]), (2, b"instead".to_vec())]
        );
    });
}

/// The ends of entries in flight were dropped by a truncation, also as far as they lay below the cut: who waited for
/// those records waited until the next append.
#[test]
fn records_below_a_cut_are_acknowledged_though_their_entry_was_in_flight() {
    for durable in [true, false] {
        let simulation = Simulation::new(2);
        let runtime = simulation.runtime("node");
        simulation.run_until(async move {
            let disk = formatted(&runtime, SimDiskOptions::default(), &options()).await;
            let store = open(&runtime, disk).await;
            let settings = LogSettings {
                durable,
                ..LogSettings::default()
            };
            let log = store.create_log(id(1, 0), settings).unwrap();
            log.created().await.unwrap();
            for value in 0..6u8 {
                append(&log, &[vec![value; 100]]).unwrap();
            }
            log.truncate_to(4).await.unwrap();
            assert!(log.acknowledged_end() < 4);
            append(&log, &[b"of the next epoch".to_vec()]).unwrap();
            log.truncate_to(3).await.unwrap();
            log.acknowledged(3).await.unwrap();
            assert_eq!((log.acknowledged_end(), log.end_offset()), (3, 3));
            // A relaxed topic that becomes durable counts what was flushed.
            let written = store.durable_sequence().next();
            store.durable(written).await.unwrap();
            runtime.sleep(Duration::from_secs(2)).await;
            assert_eq!(log.flushed_end(), 3);
            assert_eq!(put(&log, b"goes on").await, 3);
        });
    }
}

/// Handles of a log that is deleted or set aside while extents are written give errors, and nothing stands still.
#[test]
fn a_log_goes_away_while_its_extents_are_written() {
    for set_aside in [false, true] {
        let simulation = Simulation::new(3);
        let runtime = simulation.runtime("node");
        simulation.run_until(async move {
            let disk = formatted(&runtime, SimDiskOptions::default(), &options()).await;
            let store = open(&runtime, disk.clone()).await;
            let log = store.create_log(id(1, 0), LogSettings::default()).unwrap();
            for value in 0..4u8 {
                append(&log, &[vec![value; LARGE]]).unwrap();
            }
            runtime.sleep(Duration::from_micros(100)).await;
            let waiting = Rc::new(log.clone());
            if set_aside {
                store.set_aside(id(1, 0)).await.unwrap();
            } else {
                let sequence = store.delete_log(id(1, 0)).unwrap();
                store.durable(sequence).await.unwrap();
                assert!(waiting.acknowledged(4).await.is_err());
            }
            let bytes = batch(&[vec![1]], None, 1);
            assert!(log.append(&validated(&bytes)).is_err());
            store.checkpoint().await.unwrap();
            store.checkpoint().await.unwrap();
            store.close().await.unwrap();
            let store = open(&runtime, disk.attach(runtime.clone())).await;
            assert!(store.log(id(1, 0)).is_none());
        });
    }
}

/// After `kill -9` a replay reads what may be in a cache of the system alone.
#[test]
fn what_a_replay_read_survives_the_next_power_cut() {
    for seed in 0..30 {
        let simulation = Simulation::new(seed);
        let runtime = simulation.runtime("node");
        let disk = simulation.run_until(async move {
            let disk = formatted(&runtime, SimDiskOptions::default(), &options()).await;
            let store = open(&runtime, disk.clone()).await;
            let settings = LogSettings {
                durable: false,
                ..LogSettings::default()
            };
            let log = store.create_log(id(1, 0), settings).unwrap();
            log.created().await.unwrap();
            put(&log, b"written, not flushed").await;
            assert_eq!(log.flushed_end(), 0);
            disk
        });
        simulation.kill_host("node");
        disk.kill_process();
        let runtime = simulation.runtime("node");
        let disk = disk.attach(runtime.clone());
        let opened = disk.clone();
        simulation.run_until(async move {
            let store = open(&runtime, opened).await;
            let log = store.log(id(1, 0)).unwrap();
            assert_eq!((log.flushed_end(), log.acknowledged_end()), (1, 1));
        });
        simulation.kill_host("node");
        disk.crash();
        let runtime = simulation.runtime("node");
        simulation.run_until(async move {
            let store = open(&runtime, disk.attach(runtime.clone())).await;
            assert_eq!(
                read_all(&store.log(id(1, 0)).unwrap(), 0).await.len(),
                1,
                "seed {seed}"
            );
        });
    }
}

/// A checkpoint that runs while extents are on their way says of the producers what the journal says of their records:
/// a producer that was ahead of its log would have its retries answered as duplicates of what was lost.
#[test]
fn producers_are_never_ahead_of_their_log() {
    let simulation = Simulation::new(5);
    let runtime = simulation.runtime("node");
    let images: Rc<RefCell<Vec<Image>>> = Rc::default();
    let taken = images.clone();
    simulation.run_until(async move {
        let disk = formatted(&runtime, SimDiskOptions::default(), &options()).await;
        let store = open(&runtime, disk.clone()).await;
        let log = store.create_log(id(1, 0), LogSettings::default()).unwrap();
        append_as(&log, b"small", (9, 0, 0)).unwrap();
        log.acknowledged(1).await.unwrap();
        disk.on_flush(move |disk, _| taken.borrow_mut().extend(disk.crash_images(3)));
        for sequence in 1..12 {
            append_as(&log, &[7; LARGE], (9, 0, sequence)).unwrap();
            match sequence % 3 {
                // It is being written when the next two come, and the checkpoint finds them waiting.
                1 => runtime.sleep(Duration::from_micros(100)).await,
                2 => {}
                _ => store.checkpoint().await.unwrap(),
            }
        }
        log.acknowledged(12).await.unwrap();
        disk.on_flush(|_, _| {});
    });
    let images = images.take();
    assert!(images.len() > 30);
    for (number, image) in images.iter().enumerate() {
        let simulation = Simulation::new(6);
        let runtime = simulation.runtime("node");
        let disk = SimDisk::from_image(image, runtime.clone(), SimDiskOptions::default());
        simulation.run_until(async move {
            let store = open(&runtime, disk).await;
            let log = store.log(id(1, 0)).unwrap();
            let end = log.end_offset();
            let next = append_as(&log, b"next", (9, 0, end as i32));
            assert_eq!(next.map(|next| next.base_offset), Ok(end), "image {number}");
            let again = append_as(&log, b"next", (9, 0, end as i32));
            assert!(matches!(again, Err(AppendError::Duplicate { base_offset, .. }) if base_offset == end));
        });
    }
}

/// The entries that a replay from the last flushed checkpoint needs stand in the journal still, until the next one is
/// flushed.
#[test]
fn journal_space_is_used_again_only_behind_a_flushed_checkpoint() {
    // So many that a round takes its time, while the journal goes on to the end of the ring.
    const LOGS: u32 = 40;
    const APPENDS: i64 = 8;
    let simulation = Simulation::new(4);
    let runtime = simulation.runtime("node");
    let images = Rc::new(RefCell::new(Vec::<(Image, Vec<i64>)>::new()));
    let taken = images.clone();
    simulation.run_until(async move {
        let disk = formatted(&runtime, SimDiskOptions::default(), &options()).await;
        let store = open(&runtime, disk.clone()).await;
        let logs: Vec<_> = (0..LOGS)
            .map(|partition| {
                store
                    .create_log(id(1, partition), LogSettings::default())
                    .unwrap()
            })
            .collect();
        logs[LOGS as usize - 1].created().await.unwrap();
        let seen = logs.clone();
        disk.on_flush(move |disk, point| {
            // The checkpoint's flush has ended, and the power is cut before it counts.
            if point.path.to_string_lossy().contains("checkpoint") {
                let acknowledged = seen.iter().map(|log| log.acknowledged_end()).collect();
                let image = disk.crash_images(1).next().unwrap();
                taken.borrow_mut().push((image, acknowledged));
            }
        });
        let writers = logs.iter().map(|log| {
            let store = store.clone();
            async move {
                for value in 0..APPENDS {
                    store.admit(6_000, Monotonic(u64::MAX)).await.unwrap();
                    append(log, &[vec![value as u8; 6_000]]).unwrap();
                }
                log.acknowledged(APPENDS).await.unwrap();
            }
        });
        futures_util::future::join_all(writers).await;
        disk.on_flush(|_, _| {});
    });
    let images = images.take();
    assert!(images.len() >= 4, "the journal went round");
    for (image, acknowledged) in images {
        let simulation = Simulation::new(4);
        let runtime = simulation.runtime("node");
        let disk = SimDisk::from_image(&image, runtime.clone(), SimDiskOptions::default());
        simulation.run_until(async move {
            let store = open(&runtime, disk).await;
            for (partition, acknowledged) in (0..).zip(acknowledged) {
                let end = store.log(id(1, partition)).unwrap().end_offset();
                assert!(
                    end >= acknowledged,
                    "{end} of {acknowledged} acknowledged records"
                );
            }
        });
    }
}
