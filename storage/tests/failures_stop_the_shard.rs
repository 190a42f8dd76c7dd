//! A failed write or flush stops the shard, once and for all; a full disk only stops appends, and heals.

#![allow(clippy::unwrap_used)]

mod common;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use common::{append, formatted, id, put, quiet, read_all, simulated_options as options};
use strandline_runtime::sim::{SimRuntime, Simulation};
use strandline_runtime::{Monotonic, Runtime};
use strandline_storage::disk::sim::Operation;
use strandline_storage::disk::{SimDisk, SimDiskOptions};
use strandline_storage::{
    AppendError, CleanerStats, Log, LogSettings, Sequence, Stopped, Store, StoreError, StoreObserver,
    StoreOptions, StoreStats,
};

#[derive(Default)]
struct Watch {
    stopped: RefCell<Vec<Stopped>>,
}

impl StoreObserver<SimDisk> for Watch {
    fn advanced(&self, _: Sequence, _: &[Log<SimDisk>]) {}

    fn stopped(&self, reason: &Stopped) {
        self.stopped.borrow_mut().push(reason.clone());
    }
}

/// Opens a store with a log that holds one record, lets `operation` fail at its next use, and runs `work`.
fn after_a_failure<F: Future<Output = ()> + 'static>(
    operation: Operation,
    work: impl FnOnce(Store<SimRuntime, SimDisk>, Log<SimDisk>) -> F + 'static,
) {
    let simulation = Simulation::new(7);
    let runtime = simulation.runtime("node");
    simulation.run_until(async move {
        let disk = formatted(&runtime, SimDiskOptions::default(), &options()).await;
        let watch = Rc::new(Watch::default());
        let (store, _) = Store::open(runtime.clone(), disk.clone(), options(), watch.clone())
            .await
            .unwrap();
        let log = store.create_log(id(1, 0), LogSettings::default()).unwrap();
        put(&log, b"before").await;
        // The background fill has ended, so that the failure meets the work.
        runtime.sleep(Duration::from_secs(2)).await;
        disk.fail(operation, 1);
        work(store.clone(), log.clone()).await;
        assert_eq!(watch.stopped.borrow().len(), 1);
        let stopped = store.stopped().unwrap();
        assert_eq!(
            append(&log, &[vec![1]]),
            Err(AppendError::Stopped(stopped.clone()))
        );
        assert_eq!(store.close().await, Err(stopped.clone()));
        assert_eq!(store.durable(Sequence(u64::MAX)).await, Err(stopped));
        assert_eq!(
            log.acknowledged_end(),
            1,
            "nothing is acknowledged behind a failure"
        );
        // The next start replays.
        let disk = disk.attach(runtime.clone());
        let (store, report) = Store::open(runtime, disk, options(), quiet()).await.unwrap();
        assert!(!report.rot);
        assert_eq!(
            read_all(&store.log(id(1, 0)).unwrap(), 0).await[0],
            (0, b"before".to_vec())
        );
    });
}

#[test]
fn a_failed_journal_write_stops_the_shard() {
    after_a_failure(Operation::Write, |_, log| async move {
        let appended = append(&log, &[vec![2; 100]]).unwrap();
        let result = log.acknowledged(appended.last_offset + 1).await;
        assert!(matches!(result, Err(StoreError::Stopped(_))));
    });
}

#[test]
fn a_failed_journal_flush_stops_the_shard() {
    after_a_failure(Operation::Flush, |_, log| async move {
        let appended = append(&log, &[vec![2; 100]]).unwrap();
        let result = log.acknowledged(appended.last_offset + 1).await;
        assert!(matches!(result, Err(StoreError::Stopped(_))));
    });
}

#[test]
fn a_failed_segment_write_stops_the_shard() {
    after_a_failure(Operation::Write, |store, _| async move {
        assert!(store.checkpoint().await.is_err());
    });
}

#[test]
fn a_failed_folder_flush_stops_the_shard() {
    after_a_failure(Operation::FlushDirectory, |store, _| async move {
        assert!(store.checkpoint().await.is_err());
    });
}

#[test]
fn a_failed_extent_write_stops_the_shard() {
    after_a_failure(Operation::Write, |_, log| async move {
        let appended = append(&log, &[vec![2; 100_000]]).unwrap();
        let result = log.acknowledged(appended.last_offset + 1).await;
        assert!(matches!(result, Err(StoreError::Stopped(_))));
    });
}

#[test]
fn a_full_disk_refuses_appends_and_heals() {
    let simulation = Simulation::new(8);
    let runtime = simulation.runtime("node");
    simulation.run_until(async move {
        let options = StoreOptions {
            disk_free_min_bytes: 10 << 20,
            ..options()
        };
        let disk = formatted(&runtime, SimDiskOptions::default(), &options).await;
        let (store, _) = Store::open(runtime.clone(), disk.clone(), options, quiet())
            .await
            .unwrap();
        let log = store.create_log(id(1, 0), LogSettings::default()).unwrap();
        put(&log, b"before").await;
        runtime.sleep(Duration::from_secs(1)).await;
        disk.set_free_bytes(9 << 20);
        // The free space is looked at after so many bytes, not at each append.
        while append(&log, &[vec![2; 10_000]]).is_ok() {
            store.admit(10_000, Monotonic(u64::MAX)).await.unwrap();
        }
        assert!(store.is_full());
        assert_eq!(append(&log, &[vec![2]]), Err(AppendError::StorageFull));
        let stats = store.stats();
        assert_eq!((stats.appends_refused, stats.disk_full), (2, true));
        assert_eq!(
            (stats.disk_free_bytes, stats.disk_reserve_bytes),
            (Some(9 << 20), 10 << 20)
        );
        let end = log.end_offset();
        log.acknowledged(end).await.unwrap();
        // Reads, deletions and write-back go on.
        assert_eq!(read_all(&log, 0).await.len() as i64, end);
        log.set_start_offset(end).await.unwrap();
        store.checkpoint().await.unwrap();
        disk.set_free_bytes(100 << 20);
        while store.is_full() {
            runtime.sleep(Duration::from_millis(100)).await;
        }
        let stats = store.stats();
        assert_eq!((stats.disk_full, stats.disk_free_bytes), (false, Some(100 << 20)));
        assert_eq!(put(&log, b"after").await, end);
        store.close().await.unwrap();
    });
}

/// Free space was looked at only after so many bytes of our own: what another process took was met by the first segment
/// write, which stopped the shard for good.
#[test]
fn a_disk_that_others_fill_holds_up_write_back_and_heals() {
    let simulation = Simulation::new(13);
    let runtime = simulation.runtime("node");
    simulation.run_until(async move {
        let options = StoreOptions {
            disk_free_min_bytes: 1 << 20,
            ..options()
        };
        let disk = formatted(&runtime, SimDiskOptions::default(), &options).await;
        let (store, _) = Store::open(runtime.clone(), disk.clone(), options, quiet())
            .await
            .unwrap();
        let log = store.create_log(id(1, 0), LogSettings::default()).unwrap();
        runtime.sleep(Duration::from_secs(2)).await;
        for value in 0..10u8 {
            put(&log, &[value; 1_000]).await;
        }
        disk.set_free_bytes(0);
        let rounds = store.stats().checkpoints;
        let asked = store.clone();
        let asking = async move { asked.checkpoint().await.unwrap() };
        let healing = async {
            runtime.sleep(Duration::from_secs(30)).await;
            assert!(store.is_full() && store.stopped().is_none());
            assert_eq!(store.stats().checkpoints, rounds);
            assert_eq!(append(&log, &[vec![2]]), Err(AppendError::StorageFull));
            disk.set_free_bytes(100 << 20);
        };
        futures_util::future::join(asking, healing).await;
        assert_eq!(put(&log, b"after").await, 10);
        store.close().await.unwrap();
    });
}

/// The journal was filled ahead of use on a full disk too, out of what deletions need.
#[test]
fn a_full_disk_is_not_filled_with_zeroes() {
    let simulation = Simulation::new(14);
    let runtime = simulation.runtime("node");
    simulation.run_until(async move {
        let options = StoreOptions {
            disk_free_min_bytes: 1 << 20,
            ..options()
        };
        let disk = formatted(&runtime, SimDiskOptions::default(), &options).await;
        disk.set_free_bytes(900 << 10);
        let (store, _) = Store::open(runtime.clone(), disk.clone(), options, quiet())
            .await
            .unwrap();
        let opened = disk.count(Operation::Write);
        runtime.sleep(Duration::from_secs(30)).await;
        assert!(store.is_full());
        assert_eq!(disk.count(Operation::Write), opened);
        // Creations and deletions find a place, file after file.
        for round in 0..4_000u32 {
            let name = id(1, round);
            store.create_log(name, LogSettings::default()).unwrap();
            let sequence = store.delete_log(name).unwrap();
            if round % 8 == 0 {
                store.durable(sequence).await.unwrap();
            }
        }
        disk.set_free_bytes(100 << 20);
        while store.is_full() {
            runtime.sleep(Duration::from_millis(100)).await;
        }
        let log = store.create_log(id(2, 0), LogSettings::default()).unwrap();
        assert_eq!(put(&log, b"after").await, 0);
        store.close().await.unwrap();
    });
}

#[test]
fn appends_wait_for_room_and_give_up_at_their_deadline() {
    let simulation = Simulation::new(9);
    let runtime = simulation.runtime("node");
    simulation.run_until(async move {
        let disk = formatted(&runtime, SimDiskOptions::default(), &options()).await;
        let (store, _) = Store::open(runtime.clone(), disk, options(), quiet())
            .await
            .unwrap();
        let held = store.budget().try_reserve((32 << 20) - 4096).unwrap();
        let deadline = runtime.now() + Duration::from_millis(50);
        assert_eq!(store.admit(100_000, deadline).await, Err(StoreError::Busy));
        assert!(runtime.now() >= deadline);
        drop(held);
        store.admit(100_000, deadline).await.unwrap();
    });
}

/// Small appends found room again and again, and a larger one never did.
#[test]
fn appends_get_room_in_the_order_in_which_they_came() {
    let simulation = Simulation::new(10);
    let runtime = simulation.runtime("node");
    simulation.run_until(async move {
        let disk = formatted(&runtime, SimDiskOptions::default(), &options()).await;
        let (store, _) = Store::open(runtime.clone(), disk, options(), quiet())
            .await
            .unwrap();
        let held = store.budget().try_reserve((32 << 20) - (64 << 10)).unwrap();
        let admitted = Rc::new(RefCell::new(Vec::new()));
        let append = |name: &'static str, bytes: usize, patience: Duration| {
            let (store, admitted) = (store.clone(), admitted.clone());
            let deadline = runtime.now() + patience;
            async move {
                let answer = store.admit(bytes, deadline).await;
                admitted.borrow_mut().push((name, answer));
            }
        };
        let minute = Duration::from_secs(60);
        let room = async {
            runtime.sleep(Duration::from_secs(1)).await;
            assert_eq!(*admitted.borrow(), [("impatient", Err(StoreError::Busy))]);
            drop(held);
        };
        futures_util::future::join5(
            append("large", 200 << 10, minute),
            append("impatient", 1 << 10, Duration::from_millis(10)),
            append("small", 1 << 10, minute),
            append("smaller", 100, minute),
            room,
        )
        .await;
        let names: Vec<_> = admitted.borrow().iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["impatient", "large", "small", "smaller"]);
        assert!(admitted.borrow()[1..].iter().all(|(_, answer)| answer.is_ok()));
    });
}

/// Write-back rounds, one after the other, kept the log to themselves: extents never got their turn, what was dirty
/// stayed so, and appends waited until their deadline.
#[test]
fn large_appends_that_wait_for_room_get_it() {
    let simulation = Simulation::new(12);
    let runtime = simulation.runtime("node");
    simulation.run_until(async move {
        let disk = formatted(&runtime, SimDiskOptions::default(), &options()).await;
        let (store, _) = Store::open(runtime.clone(), disk, options(), quiet())
            .await
            .unwrap();
        let log = store.create_log(id(1, 0), LogSettings::default()).unwrap();
        let writers = (0..6u8).map(|writer| {
            let (store, log, runtime) = (store.clone(), log.clone(), runtime.clone());
            async move {
                for _ in 0..3 {
                    let bytes = 5 << 20;
                    let deadline = runtime.now() + Duration::from_secs(30);
                    store.admit(bytes, deadline).await.unwrap();
                    let appended = append(&log, &[vec![writer; bytes]]).unwrap();
                    log.acknowledged(appended.last_offset + 1).await.unwrap();
                }
            }
        });
        futures_util::future::join_all(writers).await;
        assert_eq!(log.acknowledged_end(), 18);
        let rounds = store.stats().checkpoints;
        assert!(rounds < 100, "{rounds} rounds for 18 extents");
    });
}

#[test]
fn an_idle_store_does_nothing() {
    let simulation = Simulation::new(10);
    let runtime = simulation.runtime("node");
    simulation.run_until(async move {
        let disk = formatted(&runtime, SimDiskOptions::default(), &options()).await;
        let (store, _) = Store::open(runtime.clone(), disk.clone(), options(), quiet())
            .await
            .unwrap();
        for partition in 0..100 {
            store
                .create_log(id(1, partition), LogSettings::default())
                .unwrap();
        }
        let log = store.log(id(1, 99)).unwrap();
        log.created().await.unwrap();
        assert!(
            store.stats().entries <= 2,
            "a topic of many partitions is a few entries"
        );
        put(&log, b"v").await;
        runtime.sleep(Duration::from_secs(3)).await;
        // Retention and the cleaner look, and that is all.
        let stats = |store: &Store<_, _>| StoreStats {
            retention_rounds: 0,
            cleaner: CleanerStats {
                rounds: 0,
                ..store.stats().cleaner
            },
            ..store.stats()
        };
        let before = (
            stats(&store),
            disk.count(Operation::Write),
            disk.count(Operation::Flush),
        );
        runtime.sleep(Duration::from_secs(3600)).await;
        assert_eq!(
            (
                stats(&store),
                disk.count(Operation::Write),
                disk.count(Operation::Flush)
            ),
            before
        );
    });
}

#[test]
fn segments_outnumber_descriptors() {
    let simulation = Simulation::new(11);
    let runtime = simulation.runtime("node");
    simulation.run_until(async move {
        let options = StoreOptions {
            open_files_max: 3,
            ..options()
        };
        let disk = formatted(&runtime, SimDiskOptions::default(), &options).await;
        let (store, _) = Store::open(runtime.clone(), disk, options, quiet())
            .await
            .unwrap();
        let settings = LogSettings {
            segment_bytes: 2000,
            ..LogSettings::default()
        };
        let logs: Vec<_> = (0..4)
            .map(|partition| store.create_log(id(1, partition), settings.clone()).unwrap())
            .collect();
        for at in 0..40u8 {
            put(&logs[usize::from(at) % 4], &[at; 1000]).await;
        }
        store.checkpoint().await.unwrap();
        drop(store.budget().try_reserve((32 << 20) - 1000));
        for log in &logs {
            assert_eq!(read_all(log, 0).await.len(), 10);
            assert!(log.segments().len() >= 5);
        }
        assert!(store.stats().disk_reads > 0);
        assert!(store.stats().open_files <= 3);
    });
}
