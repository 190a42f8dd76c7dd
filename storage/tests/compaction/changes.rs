//! What changes while a log is being cleaned: its policy, its start, the space of the disk. The cleaning ends, or is right, and
//! leaves nothing behind.

use std::time::Duration;

use futures_util::future::join;
use strandline_runtime::Runtime;
use strandline_storage::disk::{Disk, SimDisk};
use strandline_storage::{CleanError, CleanerOptions, Log, LogSettings, Store, StoreOptions};

use crate::common::{id, quiet};
use crate::files::check_files;
use crate::rules::{clean, content, on_log, one_a_segment, put};
use crate::workload::{SimStore, cleaning, options};

fn compacts() -> LogSettings {
    LogSettings {
        compacts: true,
        ..one_a_segment()
    }
}

/// A test says when the log is cleaned.
fn by_hand(store: &SimStore) {
    store.set_cleaner_options(CleanerOptions {
        enabled: false,
        ..CleanerOptions::default()
    });
}

/// Appends `k=0` to `k=count - 1`, a segment each.
async fn fill(log: &Log<SimDisk>, count: usize) {
    for at in 0..count {
        put(log, &[("k", Some(&at.to_string()))]).await;
    }
}

async fn files(disk: &SimDisk) -> Vec<String> {
    let logs = options().directory.join("logs");
    let mut names = Vec::new();
    for folder in disk.list(&logs).await.unwrap() {
        for file in disk.list(&logs.join(folder.name)).await.unwrap() {
            names.push(file.name);
        }
    }
    names.sort();
    names
}

#[test]
fn a_cleaning_ends_when_its_topic_is_no_longer_compacted() {
    // Before the first segment is read, and while the new one waits for its checkpoint.
    for late in [false, true] {
        on_log(move |_, disk, store, log| async move {
            by_hand(&store);
            log.set_settings(compacts());
            fill(&log, 5).await;
            store.checkpoint().await.unwrap();
            let before = (files(&disk).await, content(&log).await);
            let task = cleaning(5, 1 << 16);
            let change = async {
                while late && files(&disk).await.len() == before.0.len() {}
                log.set_settings(one_a_segment());
            };
            let (cleaned, ()) = join(store.clean(&log, &task), change).await;
            assert_eq!(cleaned, Err(CleanError::Changed));
            assert_eq!((files(&disk).await, content(&log).await), before);
            assert_eq!(log.cleaned_to(), 0);
            log.set_settings(compacts());
            assert_eq!(clean(&store, &log).await.to, 4);
            assert_eq!(content(&log).await, "k=3@3 k=4@4");
        });
    }
}

#[test]
fn a_start_that_moves_over_a_cleaning_ends_it() {
    on_log(|runtime, disk, store, log| async move {
        by_hand(&store);
        fill(&log, 6).await;
        store.checkpoint().await.unwrap();
        let before = files(&disk).await;
        let task = cleaning(6, 1 << 16);
        // So slow that a checkpoint drops what it has in hand.
        store.set_cleaner_options(CleanerOptions {
            enabled: false,
            bytes_per_second: 100.0,
            ..CleanerOptions::default()
        });
        let raise = async {
            while files(&disk).await.len() == before.len() {
                runtime.sleep(Duration::from_millis(100)).await;
            }
            log.set_start_offset(4).await.unwrap();
            store.checkpoint().await.unwrap();
            by_hand(&store);
        };
        let (cleaned, ()) = join(store.clean(&log, &task), raise).await;
        assert_eq!(cleaned, Err(CleanError::Changed));
        assert_eq!(content(&log).await, "k=4@4 k=5@5");
        store.checkpoint().await.unwrap();
        store.unlinked().await.unwrap();
        check_files(&disk, &options(), &log).await;
        let again = clean(&store, &log).await;
        assert_eq!((again.from, again.to), (4, 5));
        assert_eq!(content(&log).await, "k=4@4 k=5@5");
        assert_eq!(log.start_offset(), 4, "a cleaning moves no start");
    });
}

/// A swap waited for the write-back of every log that had changed, and for one more round of it: 42 s beside a thousand partitions.
#[test]
fn a_cleaning_waits_for_no_write_back() {
    on_log(|_, disk, store, log| async move {
        by_hand(&store);
        log.set_settings(compacts());
        fill(&log, 6).await;
        store.checkpoint().await.unwrap();
        for partition in 1..200 {
            let other = store
                .create_log(id(2, partition), LogSettings::default())
                .unwrap();
            put(&other, &[("k", Some("v"))]).await;
        }
        // All of them become one.
        log.set_settings(LogSettings {
            compacts: true,
            ..LogSettings::default()
        });
        // The round writes this log back too.
        log.begin_epoch(1).await.unwrap();
        let rounds = store.stats().checkpoints;
        let cleaning = async {
            let done = clean(&store, &log).await;
            (done.to, store.stats().checkpoints)
        };
        let (written_back, cleaned) = join(store.checkpoint(), cleaning).await;
        written_back.unwrap();
        assert_eq!(
            cleaned,
            (5, rounds),
            "before the round that was under way had ended"
        );
        assert_eq!(store.stats().checkpoints, rounds + 1);
        assert_eq!(
            (content(&log).await.as_str(), log.cleaned_to()),
            ("k=4@4 k=5@5", 5)
        );
        store.unlinked().await.unwrap();
        check_files(&disk, &options(), &log).await;
    });
}

#[test]
fn what_is_below_the_start_is_no_part_of_a_cleaning() {
    on_log(|_, _, store, log| async move {
        by_hand(&store);
        fill(&log, 6).await;
        store.checkpoint().await.unwrap();
        // No checkpoint has dropped those segments yet.
        let sequence = log.set_start_offset(3).await.unwrap();
        store.durable(sequence).await.unwrap();
        let done = clean(&store, &log).await;
        assert_eq!((done.from, done.to, done.segments_before), (3, 5, 2));
        assert_eq!(content(&log).await, "k=4@4 k=5@5");
    });
}

#[test]
fn a_disk_that_fills_up_meanwhile_has_nothing_of_it_left() {
    on_log(|_, disk, store, log| async move {
        by_hand(&store);
        fill(&log, 6).await;
        store.checkpoint().await.unwrap();
        // All of them are to become one.
        log.set_settings(LogSettings::default());
        let before = (files(&disk).await, content(&log).await);
        let task = cleaning(6, 1 << 16);
        let fill_up = async {
            while files(&disk).await.len() == before.0.len() {}
            disk.set_free_bytes(100);
        };
        let (cleaned, ()) = join(store.clean(&log, &task), fill_up).await;
        assert_eq!(cleaned, Err(CleanError::NoSpace));
        assert_eq!((files(&disk).await, content(&log).await), before);
        disk.set_free_bytes(1 << 30);
        assert_eq!(clean(&store, &log).await.to, 5);
        assert_eq!(content(&log).await, "k=4@4 k=5@5");
        assert!(store.log(id(1, 0)).is_some() && store.stopped().is_none());
    });
}

/// A compacted topic that filled the disk gets space by nothing but its cleaning.
#[test]
fn a_full_disk_is_cleaned_with_half_of_the_reserve() {
    on_log(|runtime, disk, store, log| async move {
        by_hand(&store);
        fill(&log, 6).await;
        store.close().await.unwrap();
        let reserve = 64 << 20;
        let reserved = StoreOptions {
            disk_free_min_bytes: reserve,
            ..options()
        };
        disk.set_free_bytes(reserve / 2);
        let opened = Store::open(runtime.clone(), disk.clone(), reserved, quiet()).await;
        let (store, _) = opened.unwrap();
        by_hand(&store);
        let log = store.log(id(1, 0)).unwrap();
        log.set_settings(one_a_segment());
        log.set_high_watermark(log.end_offset());
        let task = cleaning(6, 1 << 16);
        assert_eq!(store.clean(&log, &task).await, Err(CleanError::NoSpace));
        disk.set_free_bytes(reserve - (1 << 20));
        assert_eq!(store.clean(&log, &task).await.unwrap().to, 5);
        assert_eq!(content(&log).await, "k=4@4 k=5@5");
    });
}

#[test]
fn a_store_that_is_closed_meanwhile_opens_with_the_old_or_the_new() {
    on_log(|runtime, disk, store, log| async move {
        by_hand(&store);
        fill(&log, 6).await;
        store.checkpoint().await.unwrap();
        let before = files(&disk).await;
        let task = cleaning(6, 1 << 16);
        let close = async {
            while files(&disk).await.len() == before.len() {}
            store.close().await.unwrap();
        };
        let (cleaned, ()) = join(store.clean(&log, &task), close).await;
        assert!(
            matches!(cleaned, Ok(_) | Err(CleanError::Stopped(_))),
            "{cleaned:?}"
        );
        let store = crate::rules::open(&runtime, &disk).await;
        by_hand(&store);
        let log = store.log(id(1, 0)).unwrap();
        log.set_settings(one_a_segment());
        log.set_high_watermark(log.end_offset());
        assert!(content(&log).await.ends_with("k=4@4 k=5@5"));
        store.checkpoint().await.unwrap();
        store.unlinked().await.unwrap();
        check_files(&disk, &options(), &log).await;
        clean(&store, &log).await;
        assert!(content(&log).await.ends_with("k=4@4 k=5@5"));
    });
}
