//! Single rules, each by a small log.

use std::future::Future;
use std::time::Duration;

use strandline_runtime::Runtime;
use strandline_runtime::sim::{SimRuntime, Simulation};
use strandline_storage::disk::{SimDisk, SimDiskOptions};
use strandline_storage::{
    AppendError, CleanError, Cleaned, CleanerOptions, CompactionSettings, Log, LogSettings, Store,
};
use strandline_wire::batch::{BatchBuilder, Codec};

use crate::common::{formatted, id, quiet, validated};
use crate::files::check_files;
use crate::model::read;
use crate::workload::{RETENTION_MS, SimStore, cleaning, options};

type Record<'a> = (&'a str, Option<&'a str>);

/// A log whose segments take one batch each.
pub fn on_log<F: Future<Output = ()> + 'static>(
    test: impl FnOnce(SimRuntime, SimDisk, SimStore, Log<SimDisk>) -> F + 'static,
) {
    let simulation = Simulation::new(7);
    let runtime = simulation.runtime("node");
    simulation.run_until(async move {
        let disk = formatted(&runtime, SimDiskOptions::default(), &options()).await;
        let store = open(&runtime, &disk).await;
        let log = store.create_log(id(1, 0), one_a_segment()).unwrap();
        test(runtime, disk, store, log).await;
    });
}

pub fn one_a_segment() -> LogSettings {
    LogSettings {
        segment_bytes: 1,
        ..LogSettings::default()
    }
}

pub async fn open(runtime: &SimRuntime, disk: &SimDisk) -> SimStore {
    let opened = Store::open(runtime.clone(), disk.clone(), options(), quiet()).await;
    opened.unwrap().0
}

pub async fn put(log: &Log<SimDisk>, records: &[Record<'_>]) {
    put_as(log, records, None).await.unwrap();
}

async fn put_as(
    log: &Log<SimDisk>,
    records: &[Record<'_>],
    producer: Option<(i64, i32)>,
) -> Result<i64, AppendError> {
    let mut builder = BatchBuilder::new();
    if let Some((producer, sequence)) = producer {
        builder = builder.producer(producer, 0, sequence);
    }
    for (key, value) in records {
        builder.record(1000, Some(key.as_bytes()), value.map(str::as_bytes));
    }
    let bytes = builder.finish().unwrap();
    let appended = log.append(&validated(&bytes))?;
    log.acknowledged(log.end_offset()).await.unwrap();
    log.set_high_watermark(log.end_offset());
    Ok(appended.base_offset)
}

pub async fn clean(store: &SimStore, log: &Log<SimDisk>) -> Cleaned {
    let task = cleaning(log.high_watermark(), 1 << 16);
    store.clean(log, &task).await.unwrap()
}

/// Offset, key and value of every record, as `key=value@offset`.
pub async fn content(log: &Log<SimDisk>) -> String {
    let found = read(log, log.start_offset(), 1 << 20).await;
    let text = |bytes: &Option<Vec<u8>>| {
        bytes.as_ref().map_or("-".to_owned(), |bytes| {
            String::from_utf8_lossy(&bytes[..bytes.len().min(8)]).into_owned()
        })
    };
    let records = found.iter().map(|found| {
        let (key, value) = (text(&found.record.key), text(&found.record.value));
        format!("{key}={value}@{}", found.offset)
    });
    records.collect::<Vec<_>>().join(" ")
}

#[test]
fn the_newest_record_of_each_key_stays_at_its_offset() {
    on_log(|runtime, disk, store, log| async move {
        put(&log, &[("A", Some("X"))]).await;
        put(&log, &[("B", Some("Y"))]).await;
        put(&log, &[("A", Some("Z"))]).await;
        put(&log, &[("C", Some("active"))]).await;
        let done = clean(&store, &log).await;
        assert_eq!((done.from, done.to, done.is_whole), (0, 3, true));
        assert_eq!((done.records_read, done.records_kept, done.keys), (3, 2, 2));
        assert_eq!(content(&log).await, "B=Y@1 A=Z@2 C=active@3");
        assert_eq!((log.start_offset(), log.end_offset()), (0, 4));
        store.checkpoint().await.unwrap();
        store.unlinked().await.unwrap();
        check_files(&disk, &options(), &log).await;
        store.close().await.unwrap();
        let store = open(&runtime, &disk).await;
        let log = store.log(id(1, 0)).unwrap();
        assert_eq!(content(&log).await, "B=Y@1 A=Z@2 C=active@3");
        assert_eq!(log.cleaned_to(), 3);
    });
}

#[test]
fn a_tombstone_stays_for_its_time_and_nothing_comes_back() {
    on_log(|runtime, _, store, log| async move {
        put(&log, &[("k", Some("1"))]).await;
        put(&log, &[("k", None)]).await;
        put(&log, &[("filler", Some("1"))]).await;
        put(&log, &[("filler", Some("2"))]).await;
        clean(&store, &log).await;
        assert_eq!(content(&log).await, "k=-@1 filler=1@2 filler=2@3");
        runtime
            .sleep(Duration::from_millis(RETENTION_MS as u64 - 1000))
            .await;
        put(&log, &[("filler", Some("3"))]).await;
        clean(&store, &log).await;
        assert_eq!(content(&log).await, "k=-@1 filler=2@3 filler=3@4");
        runtime.sleep(Duration::from_millis(1100)).await;
        put(&log, &[("filler", Some("4"))]).await;
        clean(&store, &log).await;
        assert_eq!(content(&log).await, "filler=3@4 filler=4@5");
    });
}

#[test]
fn null_empty_and_full_values_and_empty_keys_survive() {
    on_log(|_, _, store, log| async move {
        put(
            &log,
            &[("", Some("1")), ("", Some("2")), ("e", Some("")), ("n", None)],
        )
        .await;
        put(&log, &[("end", Some("1"))]).await;
        clean(&store, &log).await;
        assert_eq!(content(&log).await, "=2@1 e=@2 n=-@3 end=1@4");
        put(&log, &[("end", Some("2"))]).await;
        clean(&store, &log).await;
        assert_eq!(content(&log).await, "=2@1 e=@2 n=-@3 end=1@4 end=2@5");
    });
}

#[test]
fn what_no_reader_may_rely_on_is_not_touched() {
    on_log(|_, _, store, log| async move {
        for at in 0..4 {
            put(&log, &[("k", Some(&at.to_string()))]).await;
        }
        log.set_high_watermark(2);
        let done = clean(&store, &log).await;
        assert_eq!(done.to, 2);
        assert_eq!(content(&log).await, "k=1@1 k=2@2 k=3@3");
        log.set_high_watermark(4);
        assert_eq!(clean(&store, &log).await.to, 3, "the active segment stays");
        assert_eq!(content(&log).await, "k=2@2 k=3@3");
        assert_eq!(clean(&store, &log).await.records_read, 0, "nothing is dirty");
    });
}

#[test]
fn each_producers_last_batch_stays_even_empty() {
    on_log(|runtime, disk, store, log| async move {
        for sequence in 0..8 {
            put_as(&log, &[("k", Some("1"))], Some((9, sequence)))
                .await
                .unwrap();
        }
        put_as(&log, &[("k", Some("1"))], Some((8, 0))).await.unwrap();
        put(&log, &[("k", Some("2"))]).await;
        put(&log, &[("k", Some("3"))]).await;
        clean(&store, &log).await;
        assert_eq!(content(&log).await, "k=2@9 k=3@10");
        store.checkpoint().await.unwrap();
        check_files(&disk, &options(), &log).await;
        store.close().await.unwrap();
        let store = open(&runtime, &disk).await;
        let log = store.log(id(1, 0)).unwrap();
        for (producer, sequence, offset) in [(9, 7, 7), (8, 0, 8)] {
            match put_as(&log, &[("k", Some("1"))], Some((producer, sequence))).await {
                Err(AppendError::Duplicate { base_offset, .. }) => assert_eq!(base_offset, offset),
                other => panic!("{other:?}"),
            }
        }
        put_as(&log, &[("k", Some("4"))], Some((9, 8))).await.unwrap();
    });
}

/// In the middle of a segment, where nothing else keeps a batch: it alone stays there, and what follows says that there is a gap.
#[test]
fn a_producers_last_batch_stays_alone_between_gaps() {
    on_log(|_, disk, store, log| async move {
        log.set_settings(LogSettings::default());
        for sequence in 0..8 {
            let record = [("k", Some("1"))];
            put_as(&log, &record, Some((9, sequence))).await.unwrap();
        }
        put(&log, &[("k", Some("2"))]).await;
        put(&log, &[("k", Some("3"))]).await;
        log.set_settings(one_a_segment());
        put(&log, &[("end", Some("1"))]).await;
        log.set_settings(LogSettings::default());
        clean(&store, &log).await;
        let request = strandline_storage::ReadRequest {
            offset: 0,
            max_bytes: 1 << 20,
            upper_bound: log.end_offset(),
            at_least_one: true,
        };
        let result = log.read(request).await.unwrap();
        let header = |batch: &[u8]| strandline_wire::batch::BatchHeader::decode(batch).unwrap();
        let left = result.batches.iter().map(|batch| header(batch));
        let left: Vec<_> = left
            .map(|header| (header.last_offset(), header.record_count))
            .collect();
        assert_eq!(left, [(7, 0), (9, 1), (10, 1)]);
        store.checkpoint().await.unwrap();
        store.unlinked().await.unwrap();
        check_files(&disk, &options(), &log).await;
    });
}

#[test]
fn a_cut_below_what_was_cleaned_leaves_a_log_that_goes_on() {
    on_log(|runtime, disk, store, log| async move {
        for at in 0..6 {
            put_as(
                &log,
                &[("k", Some(&at.to_string())), ("l", Some("1"))],
                Some((9, at * 2)),
            )
            .await
            .unwrap();
        }
        clean(&store, &log).await;
        store.checkpoint().await.unwrap();
        // In a gap, where no batch begins any more.
        log.truncate_to(4).await.unwrap();
        assert_eq!((log.end_offset(), log.cleaned_to()), (4, 4));
        assert_eq!(content(&log).await, "");
        log.set_high_watermark(4);
        put(&log, &[("k", Some("new"))]).await;
        put(&log, &[("m", Some("new"))]).await;
        assert_eq!(content(&log).await, "k=new@4 m=new@5");
        store.close().await.unwrap();
        let store = open(&runtime, &disk).await;
        let log = store.log(id(1, 0)).unwrap();
        assert_eq!(content(&log).await, "k=new@4 m=new@5");
        log.set_settings(one_a_segment());
        put(&log, &[("k", Some("newer"))]).await;
        put(&log, &[("end", Some("1"))]).await;
        clean(&store, &log).await;
        assert_eq!(content(&log).await, "m=new@5 k=newer@6 end=1@7");
    });
}

#[test]
fn large_batches_that_went_straight_to_their_segment_are_cleaned() {
    on_log(|_, disk, store, log| async move {
        let large = "x".repeat(2 << 20);
        for _ in 0..3 {
            put(&log, &[("k", Some(&large)), ("l", Some("1"))]).await;
        }
        put(&log, &[("end", Some("1"))]).await;
        clean(&store, &log).await;
        assert_eq!(content(&log).await, "k=xxxxxxxx@4 l=1@5 end=1@6");
        store.checkpoint().await.unwrap();
        store.unlinked().await.unwrap();
        check_files(&disk, &options(), &log).await;
    });
}

#[test]
fn a_full_disk_and_a_log_that_is_deleted_end_a_cleaning() {
    on_log(|_, disk, store, log| async move {
        for at in 0..4 {
            put(&log, &[("k", Some(&at.to_string()))]).await;
        }
        store.checkpoint().await.unwrap();
        disk.set_free_bytes(100);
        let task = cleaning(4, 1 << 16);
        assert_eq!(store.clean(&log, &task).await, Err(CleanError::NoSpace));
        disk.set_free_bytes(1 << 30);
        let (cleaned, deleted) = futures_util::future::join(store.clean(&log, &task), async {
            store.delete_log(id(1, 0)).unwrap();
            store.checkpoint().await
        })
        .await;
        assert_eq!(cleaned, Err(CleanError::Changed));
        deleted.unwrap();
        store.unlinked().await.unwrap();
        assert_eq!(disk_folders(&disk).await, 0);
    });
}

async fn disk_folders(disk: &SimDisk) -> usize {
    use strandline_storage::disk::Disk;
    disk.list(&options().directory.join("logs")).await.unwrap().len()
}

#[test]
fn the_job_cleans_what_is_due_and_leaves_alone_what_cannot_be_read() {
    on_log(|runtime, disk, store, log| async move {
        let compacts = LogSettings {
            compacts: true,
            compaction: CompactionSettings {
                min_dirty_ratio: 0.3,
                ..CompactionSettings::default()
            },
            ..one_a_segment()
        };
        let bad = store.create_log(id(1, 1), compacts.clone()).unwrap();
        for log in [&log, &bad] {
            put(log, &[("k", Some("1"))]).await;
            put(log, &[("k", Some("2"))]).await;
            put(log, &[("k", Some("3"))]).await;
        }
        store.checkpoint().await.unwrap();
        let folder = strandline_storage::format::names::log_folder(bad.id(), bad.log_id());
        let first = options().directory.join("logs").join(folder);
        let name = strandline_storage::format::names::segment(0, 1);
        disk.rot(&first.join(name), 100, 1).unwrap();
        log.set_settings(compacts);
        let is_done = |rounds| store.stats().cleaner.rounds >= rounds;
        store.set_cleaner_options(CleanerOptions {
            backoff_ms: 1000,
            ..CleanerOptions::default()
        });
        while !is_done(4) {
            runtime.sleep(Duration::from_millis(100)).await;
        }
        assert_eq!(content(&log).await, "k=2@1 k=3@2");
        let stats = store.stats().cleaner;
        assert_eq!(
            (stats.cleanings, stats.uncleanable_logs, stats.failures),
            (1, 1, 0)
        );
        assert_eq!((stats.records_read, stats.records_kept), (2, 1));
        assert!(bad.uncleanable().unwrap().contains("checksum"));
        assert!(log.last_cleaned_ms().is_some() && log.uncleanable().is_none());
        // One dirty batch beside one that stays and the empty end of another segment is above the ratio; beside two such ends
        // it is not.
        put(&log, &[("l", Some("1"))]).await;
        let rounds = store.stats().cleaner.rounds;
        while !is_done(rounds + 2) {
            runtime.sleep(Duration::from_millis(100)).await;
        }
        assert_eq!(store.stats().cleaner.cleanings, 2);
        put(&log, &[("m", Some("1"))]).await;
        let rounds = store.stats().cleaner.rounds;
        while !is_done(rounds + 2) {
            runtime.sleep(Duration::from_millis(100)).await;
        }
        assert_eq!(store.stats().cleaner.cleanings, 2, "{:?}", store.stats().cleaner);
        store.close().await.unwrap();
    });
}

#[test]
fn batches_keep_their_codec() {
    on_log(|_, _, store, log| async move {
        for codec in Codec::ALL {
            let mut builder = BatchBuilder::new().compression(codec);
            builder.record(1000, Some(b"old"), Some(&[1; 300]));
            builder.record(1001, Some(codec.name().as_bytes()), Some(&[2; 300]));
            let bytes = builder.finish().unwrap();
            log.append(&validated(&bytes)).unwrap();
        }
        log.acknowledged(10).await.unwrap();
        put(&log, &[("old", Some("new"))]).await;
        put(&log, &[("end", None)]).await;
        clean(&store, &log).await;
        let request = strandline_storage::ReadRequest {
            offset: 0,
            max_bytes: 1 << 20,
            upper_bound: log.end_offset(),
            at_least_one: true,
        };
        let result = log.read(request).await.unwrap();
        let header = |batch: &[u8]| strandline_wire::batch::BatchHeader::decode(batch).unwrap();
        let codecs: Vec<_> = result.batches.iter().map(|batch| header(batch).codec()).collect();
        let expected: Vec<_> = Codec::ALL.into_iter().chain([Codec::None; 2]).map(Some).collect();
        assert_eq!(codecs, expected);
        assert!(
            result.batches[..5]
                .iter()
                .all(|batch| header(batch).record_count == 1)
        );
    });
}
