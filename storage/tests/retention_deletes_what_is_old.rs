//! Retention over a store on a simulated disk: what goes, what stays, and that the disk gets its space back.

#![allow(clippy::unwrap_used)]

mod common;

use std::future::Future;
use std::path::PathBuf;
use std::time::Duration;

use common::{append, batch, formatted, id, quiet, read_all, simulated_options, validated};
use strandline_runtime::sim::{SimRuntime, Simulation};
use strandline_runtime::{Queue, Runtime};
use strandline_storage::disk::{Disk, SimDisk, SimDiskOptions};
use strandline_storage::{Log, LogSettings, ReadError, ReadRequest, Store, StoreOptions};
use strandline_wire::batch::BatchHeader;

type SimStore = Store<SimRuntime, SimDisk>;

const CHECK: Duration = Duration::from_secs(10);

fn options() -> StoreOptions {
    StoreOptions {
        initial_task_delay_ms: 0,
        retention_check_ms: CHECK.as_millis() as u64,
        disk_free_min_bytes: 1 << 20,
        ..simulated_options()
    }
}

/// Runs a scenario on a store in a simulation.
fn on_store<F: Future<Output = ()> + 'static>(
    scenario: impl FnOnce(SimRuntime, SimDisk, SimStore) -> F + 'static,
) {
    let simulation = Simulation::new(7);
    let runtime = simulation.runtime("host");
    simulation.run_until(async move {
        let disk = formatted(&runtime, SimDiskOptions::default(), &options()).await;
        let store = open(&runtime, &disk).await;
        scenario(runtime, disk, store).await;
    });
}

async fn open(runtime: &SimRuntime, disk: &SimDisk) -> SimStore {
    let opened = Store::open(runtime.clone(), disk.clone(), options(), quiet()).await;
    opened.unwrap().0
}

/// Appends a record of 1,000 bytes with a timestamp, and makes it readable.
async fn put_at(log: &Log<SimDisk>, timestamp: i64) -> i64 {
    let bytes = batch(&[vec![7; 1000]], None, timestamp);
    let appended = log.append(&validated(&bytes)).unwrap();
    log.acknowledged(appended.last_offset + 1).await.unwrap();
    log.set_high_watermark(log.acknowledged_end());
    appended.base_offset
}

/// Waits until a round of retention has begun and ended.
async fn a_round(runtime: &SimRuntime, store: &SimStore) {
    let before = store.stats().retention_rounds;
    while store.stats().retention_rounds < before + 2 {
        runtime.sleep(CHECK / 2).await;
    }
}

fn settings() -> LogSettings {
    LogSettings {
        segment_bytes: 3000,
        retention_ms: 60_000,
        ..LogSettings::default()
    }
}

/// The files of the only log.
async fn files(disk: &SimDisk) -> Vec<String> {
    let logs = PathBuf::from("/data/shard-0/logs");
    let mut names = Vec::new();
    for folder in disk.list(&logs).await.unwrap() {
        for file in disk.list(&logs.join(folder.name)).await.unwrap() {
            names.push(file.name);
        }
    }
    names
}

#[test]
fn what_is_wholly_expired_goes_to_the_last_byte_and_offsets_go_on() {
    on_store(|runtime, disk, store| async move {
        let log = store.create_log(id(1, 0), settings()).unwrap();
        let now = runtime.wall_clock_ms();
        for at in 0..10 {
            put_at(&log, now + at).await;
        }
        store.checkpoint().await.unwrap();
        assert!(log.segments().len() > 3);
        a_round(&runtime, &store).await;
        assert_eq!(log.start_offset(), 0, "nothing is old yet");
        runtime.sleep(Duration::from_secs(61)).await;
        a_round(&runtime, &store).await;
        assert_eq!((log.start_offset(), log.end_offset()), (10, 10));
        assert_eq!((log.size_bytes(), log.segments().len()), (0, 0));
        store.checkpoint().await.unwrap();
        store.unlinked().await.unwrap();
        assert_eq!(files(&disk).await, Vec::<String>::new());

        let request = |offset| ReadRequest {
            offset,
            max_bytes: 10_000,
            upper_bound: log.end_offset(),
            at_least_one: true,
        };
        let gone = log.read(request(3)).await.map(|_| ()).unwrap_err();
        assert!(
            matches!(
                gone,
                ReadError::OutOfRange {
                    offset: 3,
                    start: 10,
                    end: 10
                }
            ),
            "{gone}"
        );
        assert!(log.read(request(10)).await.unwrap().batches.is_empty());
        assert_eq!(put_at(&log, runtime.wall_clock_ms()).await, 10);
        store.close().await.unwrap();
        let store = open(&runtime, &disk).await;
        let log = store.log(id(1, 0)).unwrap();
        assert_eq!((log.start_offset(), log.end_offset()), (10, 11));
        assert_eq!(read_all(&log, 10).await, [(10, vec![7; 1000])]);
    });
}

/// By time and by size, of more logs than retention changes between two checkpoints; the disk has no room for any write-back, which
/// is when it matters most.
#[test]
fn retention_waits_for_no_write_back() {
    on_store(|runtime, disk, store| async move {
        let by_size = LogSettings {
            retention_ms: -1,
            retention_bytes: 3000,
            ..settings()
        };
        let mut logs = Vec::new();
        for partition in 0..300 {
            let settings = if partition % 2 == 0 {
                settings()
            } else {
                by_size.clone()
            };
            let log = store.create_log(id(1, partition), settings).unwrap();
            for _ in 0..6 {
                put_at(&log, runtime.wall_clock_ms()).await;
            }
            logs.push(log);
        }
        disk.set_free_bytes(0);
        let checkpoints = store.stats().checkpoints;
        runtime.sleep(Duration::from_secs(61)).await;
        a_round(&runtime, &store).await;
        assert!(store.stats().disk_full);
        assert_eq!(store.stats().checkpoints, checkpoints, "nothing was written back");
        for (partition, log) in logs.iter().enumerate() {
            // Two records a segment; the newest two segments hold 3,000 bytes.
            let starts_at = if partition % 2 == 0 { 6 } else { 2 };
            assert_eq!(
                (log.start_offset(), log.end_offset()),
                (starts_at, 6),
                "{partition}"
            );
        }
        disk.set_free_bytes(1 << 30);
        store.checkpoint().await.unwrap();
    });
}

#[test]
fn a_log_that_was_never_written_back_expires_too() {
    on_store(|runtime, disk, store| async move {
        let log = store.create_log(id(1, 0), settings()).unwrap();
        put_at(&log, runtime.wall_clock_ms()).await;
        runtime.sleep(Duration::from_secs(61)).await;
        a_round(&runtime, &store).await;
        assert_eq!((log.start_offset(), log.end_offset()), (1, 1));
        store.checkpoint().await.unwrap();
        store.unlinked().await.unwrap();
        assert_eq!(files(&disk).await, Vec::<String>::new());
    });
}

#[test]
fn the_size_stays_at_retention_bytes_or_a_segment_above() {
    on_store(|runtime, _disk, store| async move {
        let settings = LogSettings {
            retention_bytes: 9000,
            retention_ms: -1,
            ..settings()
        };
        let log = store.create_log(id(1, 0), settings).unwrap();
        for _ in 0..40 {
            put_at(&log, 5).await;
        }
        let segment = log.segments()[0].payload_bytes;
        a_round(&runtime, &store).await;
        let size = log.size_bytes();
        assert!((9000..9000 + segment).contains(&size), "{size}");
        let start = log.start_offset();
        assert_eq!(start, log.segments()[0].base_offset);
        a_round(&runtime, &store).await;
        assert_eq!(
            (log.start_offset(), log.size_bytes()),
            (start, size),
            "nothing more goes"
        );
    });
}

#[test]
fn files_stay_for_file_delete_delay_ms_and_no_longer() {
    on_store(|runtime, disk, store| async move {
        let settings = LogSettings {
            file_delete_delay_ms: 50_000,
            ..settings()
        };
        let log = store.create_log(id(1, 0), settings.clone()).unwrap();
        let other = store.create_log(id(1, 1), settings).unwrap();
        for log in [&log, &other] {
            put_at(log, runtime.wall_clock_ms()).await;
        }
        store.checkpoint().await.unwrap();
        let is_segment = |name: &String| name.ends_with(".log");
        assert_eq!(files(&disk).await.into_iter().filter(is_segment).count(), 2);
        let sequence = log.set_start_offset(1).await.unwrap();
        store.durable(sequence).await.unwrap();
        store.delete_log(other.id()).unwrap();
        store.checkpoint().await.unwrap();
        runtime.sleep(Duration::from_secs(49)).await;
        assert_eq!(files(&disk).await.into_iter().filter(is_segment).count(), 2);
        runtime.sleep(Duration::from_secs(2)).await;
        store.unlinked().await.unwrap();
        assert_eq!(files(&disk).await, Vec::<String>::new());
    });
}

#[test]
fn a_close_leaves_no_file_behind_whatever_the_delay() {
    on_store(|runtime, disk, store| async move {
        let settings = LogSettings {
            file_delete_delay_ms: 3_600_000,
            ..settings()
        };
        let log = store.create_log(id(1, 0), settings).unwrap();
        put_at(&log, runtime.wall_clock_ms()).await;
        store.checkpoint().await.unwrap();
        log.set_start_offset(1).await.unwrap();
        store.close().await.unwrap();
        assert_eq!(files(&disk).await, Vec::<String>::new());
    });
}

/// A log of old segments whose start is raised while somebody reads and searches: everyone gets records without a gap, or is told where the
/// log starts.
#[test]
fn a_reader_that_retention_overtakes_gets_records_or_the_new_start() {
    for delay_us in [0, 20, 50, 100, 200, 400, 800] {
        on_store(move |runtime, disk, store| async move {
            let log = store.create_log(id(1, 0), settings()).unwrap();
            for _ in 0..30 {
                put_at(&log, 5).await;
            }
            store.close().await.unwrap();
            // Nothing is in memory.
            let store = open(&runtime, &disk).await;
            let log = store.log(id(1, 0)).unwrap();
            let (raiser, raised, later) = (store.clone(), log.clone(), runtime.clone());
            runtime.spawn(Queue::Latency, async move {
                later.sleep(Duration::from_micros(delay_us)).await;
                let sequence = raised.set_start_offset(25).await.unwrap();
                raiser.durable(sequence).await.unwrap();
                raiser.checkpoint().await.unwrap();
                raiser.unlinked().await.unwrap();
            });
            let mut next = 0;
            while next < 30 {
                let request = ReadRequest {
                    offset: next,
                    max_bytes: 7000,
                    upper_bound: 30,
                    at_least_one: true,
                };
                match log.read(request).await {
                    Ok(result) => {
                        assert!(!result.batches.is_empty(), "at {next} of {}", log.start_offset());
                        for slice in &result.batches {
                            let header = BatchHeader::decode(slice).unwrap();
                            assert_eq!(header.base_offset, next, "a gap in what was read");
                            next = header.last_offset() + 1;
                        }
                    }
                    Err(ReadError::OutOfRange { start: 25, .. }) => next = 25,
                    Err(other) => panic!("after {delay_us} us at {next}: {other}"),
                }
            }
            let found = log.offset_for_timestamp(0, 30).await.unwrap().unwrap();
            assert_eq!(found.offset, log.start_offset());
            store.unlinked().await.unwrap();
        });
    }
}

#[test]
fn a_round_over_many_logs_gives_way_between_them() {
    on_store(|runtime, _disk, store| async move {
        for partition in 0..2000 {
            store.create_log(id(1, partition), settings()).unwrap();
        }
        a_round(&runtime, &store).await;
        // At each place where a real executor may switch, the simulated one does every fourth time.
        let before = runtime.polls();
        a_round(&runtime, &store).await;
        let turns = runtime.polls() - before;
        assert!(turns > 500, "all logs in {turns} turns");

        // And where all of them have something to give up: no checkpoint has to take them all in one go.
        for log in store.logs() {
            append(&log, &[b"v".to_vec()]).unwrap();
        }
        for log in store.logs() {
            log.acknowledged(1).await.unwrap();
            log.set_high_watermark(1);
        }
        let before = store.stats().checkpoints;
        a_round(&runtime, &store).await;
        assert!(
            store
                .logs()
                .iter()
                .all(|log| log.end_offset() == 1 && log.segments().is_empty())
        );
        let checkpoints = store.stats().checkpoints - before;
        assert!(checkpoints >= 2000 / 256, "{checkpoints} checkpoints");
    });
}
