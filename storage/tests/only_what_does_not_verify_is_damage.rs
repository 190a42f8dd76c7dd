//! A read that the system refuses says nothing about the bytes: the log is as good as before, and the next read gets them.

#![allow(clippy::unwrap_used)]

mod common;

use std::path::{Path, PathBuf};

use common::{append, formatted, id, put, quiet, read_all, simulated_options as options};
use strandline_runtime::sim::{SimRuntime, Simulation};
use strandline_runtime::{Monotonic, Runtime};
use strandline_storage::disk::sim::Operation;
use strandline_storage::disk::{Disk, SimDisk, SimDiskOptions};
use strandline_storage::{Log, LogSettings, OpenError, ReadError, ReadRequest, Store, StoreError};

type TestStore = Store<SimRuntime, SimDisk>;

const RECORDS: i64 = 40;

async fn open(runtime: &SimRuntime, disk: &SimDisk) -> Result<TestStore, OpenError> {
    let opened = Store::open(runtime.clone(), disk.attach(runtime.clone()), options(), quiet()).await;
    let (store, report) = opened?;
    assert!(!report.rot && report.damaged.is_empty(), "{report:?}");
    Ok(store)
}

/// A store that was closed, with a log of several segments, producers and an extent.
async fn written(runtime: &SimRuntime) -> SimDisk {
    let disk = formatted(runtime, SimDiskOptions::default(), &options()).await;
    let store = open(runtime, &disk).await.unwrap();
    let settings = LogSettings {
        segment_bytes: 20_000,
        ..LogSettings::default()
    };
    let log = store.create_log(id(1, 0), settings).unwrap();
    for at in 0..RECORDS {
        if at % 10 == 0 {
            common::append_as(&log, &[at as u8; 100], (7, 0, at as i32 / 10)).unwrap();
        } else {
            put(&log, &[at as u8; 2_000]).await;
        }
    }
    store.close().await.unwrap();
    disk
}

fn request(offset: i64) -> ReadRequest {
    ReadRequest {
        offset,
        max_bytes: 1 << 20,
        upper_bound: RECORDS,
        at_least_one: true,
    }
}

/// Uses everything that reads segments; how many of the calls were refused.
async fn look_at(log: &Log<SimDisk>) -> usize {
    let results = [
        log.read(request(0)).await.err(),
        log.read(request(25)).await.err(),
        log.offset_for_timestamp(1000, RECORDS).await.err(),
        log.max_timestamp(RECORDS).await.err(),
    ];
    let refused = results.into_iter().flatten().map(|error| {
        assert!(matches!(error, ReadError::Io(_)), "{error}");
    });
    refused.count()
}

/// An error of a read or an open while an index was built was taken for rot, written to the checkpoint, and the log was
/// lost to its readers for good.
#[test]
fn a_refused_read_leaves_the_log_as_it_was() {
    for operation in [Operation::Name, Operation::Read] {
        let mut refused = 0;
        for nth in 1..=12 {
            let simulation = Simulation::new(nth);
            let runtime = simulation.runtime("node");
            refused += simulation.run_until(async move {
                let disk = written(&runtime).await;
                let store = open(&runtime, &disk).await.unwrap();
                let log = store.log(id(1, 0)).unwrap();
                disk.fail(operation, nth);
                let refused = look_at(&log).await;
                disk.fail_no_more();
                assert_eq!(log.damaged_from(), None, "{operation:?} {nth}");
                assert_eq!(read_all(&log, 0).await.len() as i64, RECORDS);
                assert_eq!(put(&log, b"goes on").await, RECORDS);
                store.checkpoint().await.unwrap();
                refused
            });
        }
        assert!(refused > 0, "no {operation:?} met a read");
    }
}

/// The same of an open: it fails, or does without; the next one finds everything.
#[test]
fn a_refused_open_is_done_again() {
    for operation in [Operation::Name, Operation::Read] {
        let mut refused = 0;
        for nth in 1..=60 {
            let simulation = Simulation::new(nth);
            let runtime = simulation.runtime("node");
            let disk = simulation.run_until(async move {
                let disk = written(&runtime).await;
                let store = open(&runtime, &disk).await.unwrap();
                let log = store.log(id(1, 0)).unwrap();
                // For the replay: a truncation, and an extent behind it.
                log.truncate_to(RECORDS - 5).await.unwrap();
                put(&log, &[1; 100_000]).await;
                disk
            });
            simulation.kill_host("node");
            disk.crash();
            let runtime = simulation.runtime("node");
            refused += simulation.run_until(async move {
                disk.fail(operation, nth);
                let first = open(&runtime, &disk).await;
                let refused = match &first {
                    Ok(_) => 0,
                    Err(OpenError::Io { .. }) => 1,
                    Err(error) => panic!("{operation:?} {nth}: {error}"),
                };
                drop(first);
                disk.fail_no_more();
                let store = open(&runtime, &disk).await.unwrap();
                let log = store.log(id(1, 0)).unwrap();
                assert_eq!(read_all(&log, 0).await.len() as i64, RECORDS - 4);
                refused
            });
        }
        assert!(refused > 10, "{operation:?} met {refused} opens");
    }
}

#[test]
fn a_truncation_that_cannot_read_stops_the_shard_and_is_replayed() {
    let simulation = Simulation::new(1);
    let runtime = simulation.runtime("node");
    simulation.run_until(async move {
        let disk = written(&runtime).await;
        let store = open(&runtime, &disk).await.unwrap();
        let log = store.log(id(1, 0)).unwrap();
        runtime.sleep(std::time::Duration::from_secs(2)).await;
        disk.fail(Operation::Read, 1);
        let cut = log.truncate_to(RECORDS - 5).await;
        assert!(matches!(cut, Err(StoreError::Stopped(_))), "{cut:?}");
        drop((store, log));
        let store = open(&runtime, &disk).await.unwrap();
        let log = store.log(id(1, 0)).unwrap();
        // Whether the cut reached the disk before the stop is open.
        assert!([RECORDS, RECORDS - 5].contains(&log.end_offset()));
        assert_eq!(read_all(&log, 0).await.len() as i64, log.end_offset());
    });
}

/// The file of the log's only segment.
async fn only_segment(disk: &SimDisk) -> PathBuf {
    let logs = options().directory.join("logs");
    let folder = logs.join(&disk.list(&logs).await.unwrap()[0].name);
    let files = disk.list(&folder).await.unwrap();
    let is_segment = |name: &str| Path::new(name).extension().is_some_and(|end| end == "log");
    let segments: Vec<_> = files.iter().filter(|file| is_segment(&file.name)).collect();
    assert_eq!(segments.len(), 1);
    folder.join(&segments[0].name)
}

/// Where the length of a frame's payload stands in it: its third byte counts in 64 KiB.
const PAYLOAD_LENGTH_THIRD_BYTE: u64 = 42;

/// A length that rotted sized the read, up to all of a segment, before anything had verified it.
#[test]
fn a_rotten_length_is_found_without_reading_what_it_claims() {
    let simulation = Simulation::new(2);
    let runtime = simulation.runtime("node");
    simulation.run_until(async move {
        let disk = formatted(&runtime, SimDiskOptions::default(), &options()).await;
        let store = open(&runtime, &disk).await.unwrap();
        let log = store.create_log(id(1, 0), LogSettings::default()).unwrap();
        while log.size_bytes() < 4 << 20 {
            store.admit(10_000, Monotonic(u64::MAX)).await.unwrap();
            append(&log, &[vec![1; 10_000]]).unwrap();
        }
        store.close().await.unwrap();
        disk.rot(&only_segment(&disk).await, PAYLOAD_LENGTH_THIRD_BYTE, 0x20)
            .unwrap();
        let store = open(&runtime, &disk).await.unwrap();
        let log = store.log(id(1, 0)).unwrap();
        match log.read(request(0)).await.err() {
            Some(ReadError::Damaged { from: 0, detail }) => {
                assert!(detail.contains("length is not that of its batch"), "{detail}");
            }
            other => panic!("{other:?}"),
        }
    });
}
