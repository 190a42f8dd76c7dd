//! What is read ahead is what stands there, whatever happens to the log meanwhile.

#![allow(clippy::unwrap_used)]

mod common;

use common::{append, id, put, quiet, small_options};
use futures_util::future::join;
use strandline_runtime::glommio_runtime::{GlommioRuntime, ShardExecutorOptions, spawn_shard};
use strandline_storage::disk::GlommioDisk;
use strandline_storage::{Log, LogSettings, ReadRequest, Store};

const BATCHES: i64 = 60;

fn request(offset: i64, upper_bound: i64) -> ReadRequest {
    ReadRequest {
        offset,
        max_bytes: 300_000,
        upper_bound,
        at_least_one: true,
    }
}

/// The first byte of each batch's value is that of its offset.
fn check(log: &[u8], offset: i64) {
    assert!(log.ends_with(&[offset as u8, 0]), "batch {offset}");
}

/// Reads to `end`, each time with the next read under way beside what brings its bytes.
async fn read_with_ahead(log: &Log<GlommioDisk>, end: i64) -> u32 {
    let (mut next, mut aheads) = (0, 0);
    let mut result = log.read(request(next, end)).await.unwrap();
    while next < end {
        assert!(!result.batches.is_empty(), "at {next}");
        for batch in &result.batches {
            check(batch, next);
            next += 1;
        }
        result = match result.behind {
            Some(behind) => {
                assert_eq!(behind, next);
                aheads += 1;
                let (read, ()) = join(log.read(request(next, end)), log.read_ahead(behind, 300_000)).await;
                // The same again, now that it is there; and ahead of something nobody left.
                log.read_ahead(next + 1, 300_000).await;
                assert_eq!(
                    read.unwrap().batches.len(),
                    log.read(request(next, end)).await.unwrap().batches.len()
                );
                log.read(request(next, end)).await.unwrap()
            }
            None => log.read(request(next, end)).await.unwrap(),
        };
    }
    aheads
}

#[test]
fn a_sequential_reader_gets_every_batch_once() {
    let built = std::env::current_exe().unwrap();
    let folder = tempfile::tempdir_in(built.parent().unwrap()).unwrap();
    let path = folder.path().to_path_buf();
    let run = move |runtime: GlommioRuntime| async move {
        let options = small_options(path);
        Store::format(runtime.clone(), GlommioDisk::new(), &options)
            .await
            .unwrap();
        let (store, _) = Store::open(runtime, GlommioDisk::new(), options, quiet())
            .await
            .unwrap();
        let log = store.create_log(id(1, 0), LogSettings::default()).unwrap();
        for at in 0..BATCHES {
            // Sizes of which neither reads nor pages are a multiple.
            store
                .admit(70_000, strandline_runtime::Monotonic(u64::MAX))
                .await
                .unwrap();
            let appended = append(&log, &[vec![at as u8; 30_000 + 613 * at as usize]]).unwrap();
            log.acknowledged(appended.last_offset + 1).await.unwrap();
        }
        store.checkpoint().await.unwrap();
        drop(store.budget().try_reserve((32 << 20) - 1000));
        assert_eq!(store.stats().cached_bytes, 0);
        assert!(read_with_ahead(&log, BATCHES).await > 5);

        // A cut behind what was brought: it is served up to the cut, then what came after it.
        let result = log.read(request(0, BATCHES)).await.unwrap();
        let behind = result.behind.unwrap();
        log.read_ahead(behind, 300_000).await;
        log.truncate_to(behind + 2).await.unwrap();
        assert_eq!(put(&log, &[(behind + 2) as u8; 100]).await, behind + 2);
        let result = log.read(request(behind, behind + 3)).await.unwrap();
        assert_eq!(result.batches.len(), 3);
        for (at, batch) in (behind..).zip(&result.batches) {
            check(batch, at);
        }
        store.close().await.unwrap();
    };
    spawn_shard(ShardExecutorOptions::default(), run)
        .unwrap()
        .join()
        .unwrap();
}
