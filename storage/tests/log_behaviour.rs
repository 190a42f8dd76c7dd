//! What a log answers, from memory, from disk and after a restart.

#![allow(clippy::unwrap_used)]

mod common;

use std::future::Future;
use std::path::{Path, PathBuf};

use common::{append, append_as, batch, id, put, quiet, read_all, small_options, validated};
use strandline_runtime::glommio_runtime::{GlommioRuntime, ShardExecutorOptions, spawn_shard};
use strandline_storage::disk::GlommioDisk;
use strandline_storage::{
    AppendError, LogSettings, ReadError, ReadRequest, RecoveryReport, Store, StoreError,
};

type TestStore = Store<GlommioRuntime, GlommioDisk>;

/// A shard on a folder of its own, formatted.
fn on_store<F: Future<Output = ()> + 'static>(
    test: impl FnOnce(GlommioRuntime, PathBuf) -> F + Send + 'static,
) {
    let built = std::env::current_exe().unwrap();
    let folder = tempfile::tempdir_in(built.parent().unwrap()).unwrap();
    let path = folder.path().to_path_buf();
    let run = move |runtime: GlommioRuntime| async move {
        Store::format(
            runtime.clone(),
            GlommioDisk::new(),
            &small_options(path.to_path_buf()),
        )
        .await
        .unwrap();
        test(runtime, path).await;
    };
    spawn_shard(ShardExecutorOptions::default(), run)
        .unwrap()
        .join()
        .unwrap();
}

async fn open(runtime: &GlommioRuntime, path: &Path) -> (TestStore, RecoveryReport) {
    Store::open(
        runtime.clone(),
        GlommioDisk::new(),
        small_options(path.to_path_buf()),
        quiet(),
    )
    .await
    .unwrap()
}

async fn reopen(store: TestStore, runtime: &GlommioRuntime, path: &Path) -> TestStore {
    store.close().await.unwrap();
    open(runtime, path).await.0
}

#[test]
fn a_producer_is_known_after_write_back_and_restart() {
    on_store(|runtime, path| async move {
        let (mut store, _) = open(&runtime, &path).await;
        let log = store.create_log(id(1, 0), LogSettings::default()).unwrap();
        for sequence in 0..6 {
            append_as(&log, b"v", (9, 0, sequence)).unwrap();
        }
        log.acknowledged(6).await.unwrap();
        for round in 0..3 {
            let log = store.log(id(1, 0)).unwrap();
            for sequence in 1..6 {
                let again = append_as(&log, b"v", (9, 0, sequence));
                let offset = i64::from(sequence);
                let first = AppendError::Duplicate {
                    base_offset: offset,
                    last_offset: offset,
                    timestamp: 1000,
                };
                assert_eq!(again, Err(first), "round {round}");
            }
            let too_old = append_as(&log, b"v", (9, 0, 0));
            assert!(matches!(too_old, Err(AppendError::OutOfOrderSequence { .. })));
            assert_eq!(log.end_offset(), 6);
            store = reopen(store, &runtime, &path).await;
        }
        let log = store.log(id(1, 0)).unwrap();
        log.set_start_offset(6).await.unwrap();
        assert_eq!(append_as(&log, b"v", (9, 0, 6)).unwrap().base_offset, 6);
    });
}

/// What was read from segments counted nowhere: many large fetches at once held a multiple of the shard's memory.
#[test]
fn what_is_read_from_segments_counts_as_long_as_it_is_held() {
    on_store(|runtime, path| async move {
        let (store, _) = open(&runtime, &path).await;
        let log = store.create_log(id(1, 0), LogSettings::default()).unwrap();
        for at in 0..40u8 {
            append(&log, &[vec![at; 50_000]]).unwrap();
        }
        log.acknowledged(40).await.unwrap();
        let store = reopen(store, &runtime, &path).await;
        let log = store.log(id(1, 0)).unwrap();
        let before = store.budget().used();
        let mut held = Vec::new();
        for offset in [0, 1, 20] {
            let request = ReadRequest {
                offset,
                max_bytes: 500_000,
                upper_bound: 40,
                at_least_one: true,
            };
            held.push(log.read(request).await.unwrap());
            let bytes: usize = held.iter().map(|result| result.bytes()).sum();
            assert!(bytes >= held.len() * 400_000);
            let counted = store.budget().used() - before;
            assert!(counted >= bytes as u64, "{counted} of {bytes} bytes count");
        }
        let one = held.pop().unwrap().batches.pop();
        drop(held);
        assert!(
            store.budget().used() > before,
            "one batch holds all that was read for it"
        );
        drop(one);
        store.close().await.unwrap();
        assert_eq!(store.budget().used(), before, "nothing is left");
    });
}

#[test]
fn reads_start_inside_a_batch_and_respect_their_bounds() {
    on_store(|runtime, path| async move {
        let (store, _) = open(&runtime, &path).await;
        let log = store.create_log(id(1, 0), LogSettings::default()).unwrap();
        for at in 0..20u8 {
            append(&log, &[vec![at; 1000], vec![at; 1000], vec![at; 1000]]).unwrap();
        }
        log.acknowledged(60).await.unwrap();
        for on_disk in [false, true] {
            if on_disk {
                store.checkpoint().await.unwrap();
                // Dropping the cache leaves the segment alone.
                drop(store.budget().try_reserve((32 << 20) - 1000));
                assert_eq!(store.stats().cached_bytes, 0);
            }
            assert_eq!(read_all(&log, 31).await.first().unwrap(), &(31, vec![10; 1000]));
            let request = ReadRequest {
                offset: 31,
                max_bytes: 1,
                upper_bound: 60,
                at_least_one: true,
            };
            assert_eq!(log.read(request).await.unwrap().batches.len(), 1);
            let none = ReadRequest {
                at_least_one: false,
                ..request
            };
            assert!(log.read(none).await.unwrap().batches.is_empty());
            let two = ReadRequest {
                max_bytes: 7000,
                ..request
            };
            assert_eq!(log.read(two).await.unwrap().batches.len(), 2);
            let bounded = ReadRequest {
                max_bytes: 1 << 20,
                upper_bound: 36,
                ..request
            };
            assert_eq!(log.read(bounded).await.unwrap().batches.len(), 2);
            let end = ReadRequest {
                offset: 60,
                ..request
            };
            assert!(log.read(end).await.unwrap().batches.is_empty());
            let beyond = log
                .read(ReadRequest {
                    offset: 61,
                    ..request
                })
                .await
                .err()
                .unwrap();
            assert_eq!(
                beyond,
                ReadError::OutOfRange {
                    offset: 61,
                    start: 0,
                    end: 60
                }
            );
        }
        assert!(store.stats().disk_reads > 0);
    });
}

#[test]
fn timestamps_are_found_in_memory_and_on_disk() {
    on_store(|runtime, path| async move {
        let (store, _) = open(&runtime, &path).await;
        let settings = LogSettings {
            segment_bytes: 4000,
            ..LogSettings::default()
        };
        let log = store.create_log(id(1, 0), settings).unwrap();
        for at in 0..20i64 {
            let bytes = batch(
                &[vec![1; 500], vec![2; 500]],
                None,
                if at == 7 { 5000 } else { at * 100 },
            );
            log.append(&validated(&bytes)).unwrap();
        }
        log.acknowledged(40).await.unwrap();
        for _ in 0..2 {
            let found = |timestamp| {
                let log = log.clone();
                async move {
                    log.offset_for_timestamp(timestamp, 40)
                        .await
                        .unwrap()
                        .map(|found| found.offset)
                }
            };
            assert_eq!(found(0).await, Some(0));
            assert_eq!(found(301).await, Some(7));
            assert_eq!(found(302).await, Some(8));
            assert_eq!(found(601).await, Some(13));
            assert_eq!(found(602).await, Some(14), "the late record of batch 7");
            assert_eq!(found(5001).await, Some(15));
            assert_eq!(found(5002).await, None);
            let largest = log.max_timestamp(40).await.unwrap().unwrap();
            assert_eq!((largest.offset, largest.timestamp), (15, 5001));
            store.checkpoint().await.unwrap();
            drop(store.budget().try_reserve((32 << 20) - 1000));
        }
        assert!(log.segments().len() > 4);
        let sequence = log.set_start_offset(17).await.unwrap();
        store.durable(sequence).await.unwrap();
        let largest = log.max_timestamp(40).await.unwrap().unwrap();
        assert_eq!((largest.offset, largest.timestamp), (39, 1901));
    });
}

#[test]
fn a_truncated_log_keeps_its_head_and_takes_other_records() {
    on_store(|runtime, path| async move {
        let (mut store, _) = open(&runtime, &path).await;
        let log = store.create_log(id(1, 0), LogSettings::default()).unwrap();
        log.begin_epoch(1).await.unwrap();
        for sequence in 0..10 {
            append_as(&log, b"old", (9, 0, sequence)).unwrap();
        }
        store.checkpoint().await.unwrap();
        log.begin_epoch(2).await.unwrap();
        for sequence in 10..20 {
            append_as(&log, b"old", (9, 0, sequence)).unwrap();
        }
        log.acknowledged(20).await.unwrap();
        // Once in memory, once inside the segment.
        for cut in [15, 6] {
            let sequence = log.truncate_to(cut).await.unwrap();
            assert_eq!((log.end_offset(), log.flushed_end()), (cut, cut));
            store.durable(sequence).await.unwrap();
        }
        assert_eq!(log.leader_epoch(), 1);
        let gap = append_as(&log, b"new", (9, 0, 9));
        assert!(
            matches!(gap, Err(AppendError::OutOfOrderSequence { last: 5, .. })),
            "{gap:?}"
        );
        log.begin_epoch(3).await.unwrap();
        append_as(&log, b"new", (9, 0, 6)).unwrap();
        log.acknowledged(7).await.unwrap();
        for _ in 0..3 {
            let log = store.log(id(1, 0)).unwrap();
            let all = read_all(&log, 0).await;
            let values: Vec<&[u8]> = all.iter().map(|(_, value)| &value[..]).collect();
            assert_eq!(
                values,
                [&b"old"[..], b"old", b"old", b"old", b"old", b"old", b"new"]
            );
            assert_eq!(log.end_offset_for_epoch(2), Some((1, 6)));
            store = reopen(store, &runtime, &path).await;
        }
        let log = store.log(id(1, 0)).unwrap();
        assert_eq!(put(&log, b"more").await, 7);
    });
}

#[test]
fn a_cut_at_the_start_offset_keeps_the_producers() {
    on_store(|runtime, path| async move {
        for (partition, is_written_back) in [(0, false), (1, true)] {
            let (mut store, _) = open(&runtime, &path).await;
            // Each batch has a segment of its own.
            let settings = LogSettings {
                segment_bytes: 1,
                ..LogSettings::default()
            };
            let log = store.create_log(id(1, partition), settings).unwrap();
            for sequence in 0..6 {
                append_as(&log, b"old", (9, 0, sequence)).unwrap();
            }
            log.acknowledged(6).await.unwrap();
            if is_written_back {
                store.checkpoint().await.unwrap();
            }
            // Only the segment of the last batch is left, and then none.
            log.set_start_offset(5).await.unwrap();
            if is_written_back {
                // What ends below the start goes in the round after.
                store.checkpoint().await.unwrap();
                assert_eq!(log.segments().len(), 1);
            }
            let cut = log.truncate_to(5).await.unwrap();
            store.durable(cut).await.unwrap();
            for _ in 0..2 {
                let log = store.log(id(1, partition)).unwrap();
                let again = append_as(&log, b"old", (9, 0, 4));
                let is_duplicate = matches!(again, Err(AppendError::Duplicate { base_offset: 4, .. }));
                assert!(is_duplicate, "written back: {is_written_back}: {again:?}");
                store = reopen(store, &runtime, &path).await;
            }
            let log = store.log(id(1, partition)).unwrap();
            assert_eq!(append_as(&log, b"new", (9, 0, 5)).unwrap().base_offset, 5);
            store.close().await.unwrap();
        }
    });
}

#[test]
fn a_deleted_log_leaves_nothing_and_a_new_one_of_its_name_starts_at_zero() {
    on_store(|runtime, path| async move {
        let (store, _) = open(&runtime, &path).await;
        for _ in 0..3 {
            let log = store.create_log(id(1, 0), LogSettings::default()).unwrap();
            assert!(matches!(
                store.create_log(id(1, 0), LogSettings::default()),
                Err(StoreError::Exists(_))
            ));
            assert_eq!(put(&log, b"v").await, 0);
            store.checkpoint().await.unwrap();
            assert_eq!(std::fs::read_dir(path.join("logs")).unwrap().count(), 1);
            let sequence = store.delete_log(id(1, 0)).unwrap();
            store.durable(sequence).await.unwrap();
            assert!(matches!(append(&log, &[vec![1]]), Err(AppendError::Deleted)));
            store.checkpoint().await.unwrap();
            store.unlinked().await.unwrap();
            assert_eq!(std::fs::read_dir(path.join("logs")).unwrap().count(), 0);
        }
        let store = reopen(store, &runtime, &path).await;
        assert!(store.log(id(1, 0)).is_none());
    });
}

#[test]
fn a_log_set_aside_is_under_stray_with_everything_it_held() {
    on_store(|runtime, path| async move {
        let (store, _) = open(&runtime, &path).await;
        let log = store.create_log(id(1, 0), LogSettings::default()).unwrap();
        put(&log, b"kept").await;
        store.set_aside(id(1, 0)).await.unwrap();
        assert!(store.log(id(1, 0)).is_none());
        assert_eq!(std::fs::read_dir(path.join("logs")).unwrap().count(), 0);
        let stray: Vec<_> = std::fs::read_dir(path.join("stray"))
            .unwrap()
            .map(Result::unwrap)
            .collect();
        assert_eq!(stray.len(), 1);
        let store = reopen(store, &runtime, &path).await;
        assert!(store.logs().is_empty());
        let segment = std::fs::read_dir(stray[0].path())
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .find(|file| file.extension().is_some_and(|extension| extension == "log"))
            .unwrap();
        let bytes = std::fs::read(segment).unwrap();
        let frames = strandline_storage::inspect::segment_frames(&bytes, id(1, 0))
            .filter(Result::is_ok)
            .count();
        assert_eq!(frames, 2, "one frame and its pad");
    });
}

#[test]
fn a_relaxed_log_counts_written_records_and_flushes_soon() {
    on_store(|runtime, path| async move {
        let (store, _) = open(&runtime, &path).await;
        let log = store
            .create_log(
                id(1, 0),
                LogSettings {
                    durable: false,
                    ..LogSettings::default()
                },
            )
            .unwrap();
        log.created().await.unwrap();
        let flushes = store.stats().flushes;
        assert_eq!(put(&log, b"v").await, 0);
        assert_eq!((log.written_end(), log.flushed_end()), (1, 0));
        assert_eq!(store.stats().flushes, flushes);
        let written = store.durable_sequence().next();
        store.durable(written).await.unwrap();
        assert_eq!(log.flushed_end(), 1);
        store.close().await.unwrap();
    });
}

#[test]
fn the_start_offset_survives_and_frees_segments() {
    on_store(|runtime, path| async move {
        let (store, _) = open(&runtime, &path).await;
        let log = store
            .create_log(
                id(1, 0),
                LogSettings {
                    segment_bytes: 3000,
                    ..LogSettings::default()
                },
            )
            .unwrap();
        for at in 0..30u8 {
            append(&log, &[vec![at; 1000]]).unwrap();
        }
        log.acknowledged(30).await.unwrap();
        store.checkpoint().await.unwrap();
        let sequence = log.set_start_offset(20).await.unwrap();
        log.set_start_offset(10).await.unwrap();
        assert_eq!(log.start_offset(), 0, "nobody is told before it is durable");
        store.durable(sequence).await.unwrap();
        assert_eq!(log.start_offset(), 20);
        store.checkpoint().await.unwrap();
        assert!(log.segments()[0].base_offset > 15);
        let store = reopen(store, &runtime, &path).await;
        let log = store.log(id(1, 0)).unwrap();
        assert_eq!((log.start_offset(), log.end_offset()), (20, 30));
        assert_eq!(read_all(&log, 20).await.len(), 10);
        log.set_start_offset(100).await.unwrap();
        assert_eq!((log.start_offset(), log.end_offset()), (100, 100));
        assert_eq!(put(&log, b"v").await, 100);
        let store = reopen(store, &runtime, &path).await;
        let log = store.log(id(1, 0)).unwrap();
        assert_eq!(read_all(&log, 100).await, [(100, b"v".to_vec())]);
    });
}
