//! Bits that rot on disk: acknowledged records are quarantined, named and refused, never silently cut.

#![allow(clippy::unwrap_used)]

mod common;

use std::future::Future;
use std::path::{Path, PathBuf};

use common::{append, id, put, quiet, read_all, small_options};
use strandline_runtime::glommio_runtime::{GlommioRuntime, ShardExecutorOptions, spawn_shard};
use strandline_storage::disk::GlommioDisk;
use strandline_storage::{
    AppendError, LogSettings, OpenError, ReadError, ReadRequest, RecoveryReport, Store,
};

type TestStore = Store<GlommioRuntime, GlommioDisk>;

fn on_shard<F: Future<Output = ()> + 'static>(test: impl FnOnce(GlommioRuntime) -> F + Send + 'static) {
    spawn_shard(ShardExecutorOptions::default(), test)
        .unwrap()
        .join()
        .unwrap();
}

fn folder() -> tempfile::TempDir {
    let built = std::env::current_exe().unwrap();
    tempfile::tempdir_in(built.parent().unwrap()).unwrap()
}

async fn try_open(runtime: &GlommioRuntime, path: &Path) -> Result<(TestStore, RecoveryReport), OpenError> {
    Store::open(
        runtime.clone(),
        GlommioDisk::new(),
        small_options(path.to_path_buf()),
        quiet(),
    )
    .await
}

/// Writes to two logs, each record in an entry of its own, then vanishes. The values are unique.
fn write_two_logs(path: PathBuf) {
    on_shard(move |runtime| async move {
        Store::format(runtime.clone(), GlommioDisk::new(), &small_options(path.clone()))
            .await
            .unwrap();
        let (store, _) = try_open(&runtime, &path).await.unwrap();
        let first = store.create_log(id(1, 0), LogSettings::default()).unwrap();
        let second = store.create_log(id(2, 0), LogSettings::default()).unwrap();
        for at in 0..6 {
            put(&first, format!("first {at} first").as_bytes()).await;
            put(&second, format!("second {at} second").as_bytes()).await;
        }
    });
}

/// Flips a bit of the only place in the journal where `value` stands, `before` bytes ahead of it.
fn rot_journal(path: &Path, value: &str, before: usize) {
    let mut hits = 0;
    for number in 0..8 {
        let file = path.join(format!("journal-{number}"));
        let mut bytes = std::fs::read(&file).unwrap();
        let places: Vec<usize> = bytes
            .windows(value.len())
            .enumerate()
            .filter(|(_, at)| *at == value.as_bytes())
            .map(|(at, _)| at)
            .collect();
        for place in &places {
            bytes[place - before] ^= 4;
        }
        hits += places.len();
        if !places.is_empty() {
            std::fs::write(&file, bytes).unwrap();
        }
    }
    assert_eq!(hits, 1, "{value} stands in the journal once");
}

#[test]
fn a_rotten_frame_damages_its_log_alone() {
    let folder = folder();
    let path = folder.path().to_path_buf();
    write_two_logs(path.clone());
    rot_journal(&path, "first 3 first", 0);
    on_shard(move |runtime| async move {
        let (store, report) = try_open(&runtime, &path).await.unwrap();
        assert!(report.rot);
        assert_eq!(report.damaged, [(id(1, 0), 3)]);
        let (first, second) = (store.log(id(1, 0)).unwrap(), store.log(id(2, 0)).unwrap());
        assert_eq!(read_all(&second, 0).await.len(), 6);
        put(&second, b"goes on").await;
        assert_eq!(read_all(&first, 0).await.len(), 3);
        assert!(matches!(
            append(&first, &[vec![1]]),
            Err(AppendError::Damaged { from: 3 })
        ));
        let beyond = ReadRequest {
            offset: 3,
            max_bytes: 1,
            upper_bound: 100,
            at_least_one: true,
        };
        assert!(matches!(
            first.read(beyond).await.err(),
            Some(ReadError::Damaged { from: 3, .. })
        ));
        let stats = store.stats();
        assert_eq!((stats.damaged_logs, stats.appends_refused), (1, 1));
        assert!(
            std::fs::read_dir(path.join("stray")).unwrap().count() >= 3,
            "its later pieces are kept aside"
        );
        // The damage is remembered, and ends only when somebody accepts the loss.
        store.close().await.unwrap();
        let (store, report) = try_open(&runtime, &path).await.unwrap();
        assert_eq!(report.damaged, [(id(1, 0), 3)]);
        store.accept_loss(id(1, 0)).await.unwrap();
        assert_eq!(put(&store.log(id(1, 0)).unwrap(), b"new").await, 3);
        store.close().await.unwrap();
        let (store, report) = try_open(&runtime, &path).await.unwrap();
        assert_eq!(report.damaged, []);
        assert_eq!(
            read_all(&store.log(id(1, 0)).unwrap(), 0).await[3],
            (3, b"new".to_vec())
        );
    });
}

#[test]
fn a_rotten_directory_damages_every_log_of_the_shard() {
    let folder = folder();
    let path = folder.path().to_path_buf();
    write_two_logs(path.clone());
    // The frame stands at the end of its entry's first page; the directory before it.
    rot_directory(&path, "first 3 first");
    on_shard(move |runtime| async move {
        let (store, report) = try_open(&runtime, &path).await.unwrap();
        assert!(report.rot);
        assert_eq!(report.damaged, [(id(1, 0), 3), (id(2, 0), 3)]);
        assert_eq!(read_all(&store.log(id(2, 0)).unwrap(), 0).await.len(), 3);
    });
}

fn rot_directory(path: &Path, value: &str) {
    rot_directory_of(path, value.as_bytes());
}

/// Flips a bit in the directory of the first entry that holds `value` in its first page.
fn rot_directory_of(path: &Path, value: &[u8]) {
    for number in 0..8 {
        let file = path.join(format!("journal-{number}"));
        let mut bytes = std::fs::read(&file).unwrap();
        if let Some(place) = bytes.windows(value.len()).position(|at| at == value) {
            bytes[place / 4096 * 4096 + 40] ^= 1;
            std::fs::write(&file, bytes).unwrap();
            return;
        }
    }
    panic!("{value:?} is not in the journal");
}

#[test]
fn a_torn_last_entry_is_no_damage() {
    let folder = folder();
    let path = folder.path().to_path_buf();
    write_two_logs(path.clone());
    rot_journal(&path, "second 5 second", 0);
    on_shard(move |runtime| async move {
        let (store, report) = try_open(&runtime, &path).await.unwrap();
        assert!(!report.rot && report.torn_tail);
        assert_eq!(report.damaged, []);
        assert_eq!(store.log(id(2, 0)).unwrap().end_offset(), 5);
        assert_eq!(put(&store.log(id(2, 0)).unwrap(), b"again").await, 5);
    });
}

#[test]
fn a_sealed_last_entry_that_rots_is_damage() {
    let folder = folder();
    let path = folder.path().to_path_buf();
    write_two_logs(path.clone());
    let sealing = path.clone();
    on_shard(move |runtime| async move {
        let (store, report) = try_open(&runtime, &sealing).await.unwrap();
        assert!(!report.rot);
        // Idle for a while: the seal is an entry of its own, and durable like any other.
        let seal = store.durable_sequence().next();
        store.durable(seal).await.unwrap();
    });
    rot_journal(&path, "second 5 second", 0);
    on_shard(move |runtime| async move {
        let (_, report) = try_open(&runtime, &path).await.unwrap();
        assert_eq!(report.damaged, [(id(2, 0), 5)]);
    });
}

#[test]
fn rot_in_a_segment_is_found_by_the_read_and_served_up_to() {
    let folder = folder();
    let path = folder.path().to_path_buf();
    write_two_logs(path.clone());
    let closing = path.clone();
    on_shard(move |runtime| async move {
        let (store, _) = try_open(&runtime, &closing).await.unwrap();
        store.close().await.unwrap();
    });
    for entry in std::fs::read_dir(path.join("logs")).unwrap() {
        for file in std::fs::read_dir(entry.unwrap().path()).unwrap() {
            let file = file.unwrap().path();
            let mut bytes = std::fs::read(&file).unwrap();
            if let Some(at) = bytes.windows(13).position(|at| at == b"first 4 first") {
                bytes[at] ^= 1;
                std::fs::write(&file, bytes).unwrap();
            }
        }
    }
    on_shard(move |runtime| async move {
        let (store, report) = try_open(&runtime, &path).await.unwrap();
        assert!(report.clean && !report.rot, "logs are not read at the open");
        let first = store.log(id(1, 0)).unwrap();
        let request = ReadRequest {
            offset: 0,
            max_bytes: 1 << 20,
            upper_bound: 6,
            at_least_one: true,
        };
        assert_eq!(first.read(request).await.unwrap().batches.len(), 4);
        let rotten = first.read(ReadRequest { offset: 4, ..request }).await.err();
        assert!(matches!(rotten, Some(ReadError::Damaged { from: 4, .. })));
        assert_eq!(first.damaged_from(), Some(4));
        assert_eq!(read_all(&store.log(id(2, 0)).unwrap(), 0).await.len(), 6);
    });
}

#[test]
fn one_checkpoint_slot_is_enough_and_none_is_an_error() {
    let folder = folder();
    let path = folder.path().to_path_buf();
    write_two_logs(path.clone());
    for broken in ["checkpoint-0", "checkpoint-1"] {
        let good = std::fs::read(path.join(broken)).unwrap();
        let mut bad = good.clone();
        bad[100] ^= 1;
        std::fs::write(path.join(broken), &bad).unwrap();
        let opened = path.clone();
        on_shard(move |runtime| async move {
            let (store, report) = try_open(&runtime, &opened).await.unwrap();
            assert!(!report.rot, "both slots know every open");
            assert_eq!(read_all(&store.log(id(1, 0)).unwrap(), 0).await.len(), 6);
        });
    }
    for broken in ["checkpoint-0", "checkpoint-1"] {
        let mut bytes = std::fs::read(path.join(broken)).unwrap();
        bytes[100] ^= 1;
        std::fs::write(path.join(broken), bytes).unwrap();
    }
    on_shard(move |runtime| async move {
        assert!(matches!(
            try_open(&runtime, &path).await.err(),
            Some(OpenError::NoCheckpoint { .. })
        ));
    });
}

#[test]
fn slots_older_than_the_journal_damage_every_log() {
    let folder = folder();
    let path = folder.path().to_path_buf();
    write_two_logs(path.clone());
    let old: Vec<_> = ["checkpoint-0", "checkpoint-1"]
        .map(|name| std::fs::read(path.join(name)).unwrap())
        .into();
    let writing = path.clone();
    on_shard(move |runtime| async move {
        let (store, _) = try_open(&runtime, &writing).await.unwrap();
        put(
            &store.log(id(1, 0)).unwrap(),
            b"of an open that the old slots do not know",
        )
        .await;
    });
    for (name, bytes) in ["checkpoint-0", "checkpoint-1"].iter().zip(old) {
        std::fs::write(path.join(name), bytes).unwrap();
    }
    on_shard(move |runtime| async move {
        let (_, report) = try_open(&runtime, &path).await.unwrap();
        assert!(report.rot);
        assert_eq!(report.damaged.len(), 2);
    });
}

/// A record that is large enough for an extent.
fn large_value() -> Vec<u8> {
    b"of an extent ".repeat(8_000)
}

/// Whether a file somewhere under `folder` holds the large record.
fn holds_large_value(folder: &Path) -> bool {
    std::fs::read_dir(folder).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        let marker = b"of an extent of an extent ";
        match path.is_dir() {
            true => holds_large_value(&path),
            false => std::fs::read(&path)
                .unwrap()
                .windows(marker.len())
                .any(|at| at == marker),
        }
    })
}

/// Small records and a large one, whose segment only the journal names.
fn write_an_extent(path: PathBuf) {
    on_shard(move |runtime| async move {
        Store::format(runtime.clone(), GlommioDisk::new(), &small_options(path.clone()))
            .await
            .unwrap();
        let (store, _) = try_open(&runtime, &path).await.unwrap();
        let other = store.create_log(id(2, 0), LogSettings::default()).unwrap();
        put(&other, b"of another log").await;
        let log = store
            .create_log(id(0x1234_5678_9abc_def0, 0), LogSettings::default())
            .unwrap();
        put(&log, b"first 0 first").await;
        put(&log, b"first 1 first").await;
        put(&log, &large_value()).await;
        put(&log, b"first 3 first").await;
        assert!(store.stats().extents > 0 && store.stats().checkpoints == 0);
    });
}

/// The pieces of a damaged log are not applied: the files that only they named passed for left-overs, and the open
/// removed acknowledged records.
#[test]
fn files_that_only_the_pieces_of_a_damaged_log_name_are_kept_aside() {
    let folder = folder();
    let path = folder.path().to_path_buf();
    write_an_extent(path.clone());
    rot_journal(&path, "first 1 first", 0);
    on_shard(move |runtime| async move {
        let name = id(0x1234_5678_9abc_def0, 0);
        let (store, report) = try_open(&runtime, &path).await.unwrap();
        assert_eq!(report.damaged, [(name, 1)]);
        assert!(holds_large_value(&path.join("stray")));
        assert!(!holds_large_value(&path.join("logs")), "its name is free again");
        // Whoever accepts the loss writes files of the same names.
        store.accept_loss(name).await.unwrap();
        let log = store.log(name).unwrap();
        put(&log, b"instead").await;
        put(&log, &large_value()).await;
        store.close().await.unwrap();
        let (store, report) = try_open(&runtime, &path).await.unwrap();
        assert!(!report.rot && report.damaged.is_empty());
        assert_eq!(
            read_all(&store.log(name).unwrap(), 0).await[1..],
            [(1, b"instead".to_vec()), (2, large_value())]
        );
    });
}

/// A folder whose log the journal no longer creates was left, and removed by a later open, or given to the next log of
/// that id.
#[test]
fn the_folder_of_a_log_whose_creation_rotted_is_kept_aside() {
    let folder = folder();
    let path = folder.path().to_path_buf();
    write_an_extent(path.clone());
    let name = id(0x1234_5678_9abc_def0, 0);
    rot_directory_of(&path, name.topic_id.as_bytes());
    on_shard(move |runtime| async move {
        // Twice: the first open vanishes without a trace but the folder's.
        for _ in 0..2 {
            let (store, report) = try_open(&runtime, &path).await.unwrap();
            assert!(report.rot);
            assert!(store.log(name).is_none());
            assert!(holds_large_value(&path.join("stray")));
        }
        let (store, _) = try_open(&runtime, &path).await.unwrap();
        let log = store.create_damaged(name, LogSettings::default()).unwrap();
        log.created().await.unwrap();
        store.accept_loss(name).await.unwrap();
        store.checkpoint().await.unwrap();
        store.close().await.unwrap();
        // In no folder yet, and yet not the one that was set aside.
        let (store, _) = try_open(&runtime, &path).await.unwrap();
        let log = store.log(name).unwrap();
        put(&log, b"anew").await;
        store.close().await.unwrap();
        let (store, report) = try_open(&runtime, &path).await.unwrap();
        assert!(!report.rot);
        assert_eq!(
            read_all(&store.log(name).unwrap(), 0).await,
            [(0, b"anew".to_vec())]
        );
        assert!(holds_large_value(&path.join("stray")));
    });
}

/// The file where the last entries stood had lost its end: the rest looked like a torn tail, and offsets were used again.
#[test]
fn a_journal_file_that_was_cut_short_is_no_torn_tail() {
    let folder = folder();
    let path = folder.path().to_path_buf();
    write_two_logs(path.clone());
    let file = path.join("journal-0");
    let length = std::fs::metadata(&file).unwrap().len();
    let bytes = std::fs::read(&file).unwrap();
    let place = bytes.windows(7).position(|at| at == b"first 3").unwrap();
    let journal = std::fs::OpenOptions::new().write(true).open(&file).unwrap();
    journal.set_len(place as u64 / 4096 * 4096).unwrap();
    assert!(journal.metadata().unwrap().len() < length);
    on_shard(move |runtime| async move {
        let (store, report) = try_open(&runtime, &path).await.unwrap();
        assert!(report.rot);
        let damaged: Vec<_> = report.damaged.iter().map(|(log, _)| *log).collect();
        assert_eq!(damaged, [id(1, 0), id(2, 0)]);
        let first = store.log(id(1, 0)).unwrap();
        assert_eq!(read_all(&first, 0).await.len(), 3);
        assert!(matches!(
            append(&first, &[vec![1]]),
            Err(AppendError::Damaged { from: 3 })
        ));
    });
}
