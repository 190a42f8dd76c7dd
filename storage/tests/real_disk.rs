//! The store on a real file system with direct I/O.

#![allow(clippy::unwrap_used)]

mod common;

use std::path::Path;

use common::{append, id, put, quiet, read_all, small_options};
use strandline_runtime::glommio_runtime::{GlommioRuntime, ShardExecutorOptions, spawn_shard};
use strandline_storage::disk::GlommioDisk;
use strandline_storage::{LogSettings, Store};

fn folder() -> tempfile::TempDir {
    // The build's folder: /tmp may be a tmpfs, which has no direct I/O.
    let built = std::env::current_exe().unwrap();
    tempfile::tempdir_in(built.parent().unwrap()).unwrap()
}

fn on_shard<F: Future<Output = ()> + 'static>(test: impl FnOnce(GlommioRuntime) -> F + Send + 'static) {
    spawn_shard(ShardExecutorOptions::default(), test)
        .unwrap()
        .join()
        .unwrap();
}

async fn open(
    runtime: &GlommioRuntime,
    path: &Path,
) -> (
    Store<GlommioRuntime, GlommioDisk>,
    strandline_storage::RecoveryReport,
) {
    Store::open(
        runtime.clone(),
        GlommioDisk::new(),
        small_options(path.to_path_buf()),
        quiet(),
    )
    .await
    .unwrap()
}

#[test]
fn acknowledged_records_are_there_after_the_shard_vanished() {
    let folder = folder();
    let path = folder.path().to_path_buf();
    let first = path.clone();
    on_shard(move |runtime| async move {
        Store::format(runtime.clone(), GlommioDisk::new(), &small_options(first.clone()))
            .await
            .unwrap();
        let (store, report) = open(&runtime, &first).await;
        assert!(report.clean);
        let log = store.create_log(id(1, 0), LogSettings::default()).unwrap();
        log.begin_epoch(3).await.unwrap();
        for at in 0..50 {
            assert_eq!(put(&log, format!("value {at}").as_bytes()).await, at);
        }
        assert_eq!(read_all(&log, 10).await.len(), 40);
    });
    let second = path.clone();
    on_shard(move |runtime| async move {
        let (store, report) = open(&runtime, &second).await;
        assert!(!report.clean && !report.rot);
        assert_eq!(report.frames, 50);
        let log = store.log(id(1, 0)).unwrap();
        assert_eq!(
            (log.end_offset(), log.flushed_end(), log.leader_epoch()),
            (50, 50, 3)
        );
        let all = read_all(&log, 0).await;
        assert_eq!(all[49], (49, b"value 49".to_vec()));
        store.checkpoint().await.unwrap();
        assert_eq!(put(&log, b"one more").await, 50);
        store.close().await.unwrap();
    });
    on_shard(move |runtime| async move {
        let (store, report) = open(&runtime, &path).await;
        assert!(report.clean);
        assert_eq!(report.entries, 0);
        let log = store.log(id(1, 0)).unwrap();
        let all = read_all(&log, 0).await;
        assert_eq!(all.len(), 51);
        assert_eq!(all[7], (7, b"value 7".to_vec()));
        assert_eq!(all[50], (50, b"one more".to_vec()));
        store.close().await.unwrap();
    });
}

#[test]
fn the_journal_wraps_many_times_and_large_batches_go_straight_to_segments() {
    let folder = folder();
    let path = folder.path().to_path_buf();
    let first = path.clone();
    on_shard(move |runtime| async move {
        Store::format(runtime.clone(), GlommioDisk::new(), &small_options(first.clone()))
            .await
            .unwrap();
        let (store, _) = open(&runtime, &first).await;
        let settings = LogSettings {
            segment_bytes: 1 << 20,
            ..LogSettings::default()
        };
        let log = store.create_log(id(1, 0), settings).unwrap();
        for at in 0..400u32 {
            let size = if at % 10 == 0 { 100_000 } else { 9_000 };
            let deadline = strandline_runtime::Monotonic(u64::MAX);
            store.admit(size, deadline).await.unwrap();
            append(&log, &[vec![at as u8; size]]).unwrap();
            if at % 7 == 0 {
                log.acknowledged(log.end_offset()).await.unwrap();
            }
        }
        log.acknowledged(400).await.unwrap();
        let stats = store.stats();
        assert!(stats.extents > 0 && stats.checkpoints > 0, "{stats:?}");
        assert!(log.segments().len() > 3);
    });
    on_shard(move |runtime| async move {
        let (store, report) = open(&runtime, &path).await;
        assert!(!report.rot, "{report:?}");
        let log = store.log(id(1, 0)).unwrap();
        let all = read_all(&log, 0).await;
        assert_eq!(all.len(), 400);
        for (offset, value) in all {
            assert!(value.iter().all(|byte| *byte == offset as u8), "offset {offset}");
            assert_eq!(value.len(), if offset % 10 == 0 { 100_000 } else { 9_000 });
        }
        store.close().await.unwrap();
    });
}

/// The open that wrote an extent saved its segment's index too, and died before the checkpoint: the next one made the index
/// file anew, which failed and stopped the shard.
#[test]
fn an_index_that_outlived_its_checkpoint_is_replaced() {
    let folder = folder();
    let path = folder.path().to_path_buf();
    let first = path.clone();
    on_shard(move |runtime| async move {
        Store::format(runtime.clone(), GlommioDisk::new(), &small_options(first.clone()))
            .await
            .unwrap();
        let (store, _) = open(&runtime, &first).await;
        let log = store.create_log(id(1, 0), LogSettings::default()).unwrap();
        for at in 0..12 {
            assert_eq!(put(&log, &vec![at as u8; 100_000]).await, at);
        }
        assert_eq!((store.stats().extents, store.stats().checkpoints), (12, 0));
    });
    let log_folder = std::fs::read_dir(path.join("logs"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let segment = std::fs::read_dir(&log_folder)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    std::fs::write(segment.with_extension("index"), [7; 4096]).unwrap();
    on_shard(move |runtime| async move {
        let (store, _) = open(&runtime, &path).await;
        let log = store.log(id(1, 0)).unwrap();
        assert_eq!(read_all(&log, 0).await.len(), 12);
        assert_eq!(put(&log, &[12; 100_000]).await, 12);
        store.close().await.unwrap();
    });
}
