//! Write-back and checkpoint: one round brings every changed log's frames into segments and then frees the
//! journal.
//!
//! The order is the promise: segment writes; a flush of each file touched; the folders of new files; the
//! producers' snapshots; the folder of new logs; the checkpoint, flushed; only then is journal space free,
//! memory clean, and a file unlinked.

mod capture;
pub(crate) mod cleanup;
pub(crate) mod slot;
pub(crate) mod swapped;

use std::collections::{BTreeMap, HashSet};
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::{Either, select};
use futures_util::stream::{self, StreamExt, TryStreamExt};
use strandline_runtime::Runtime;
use strandline_runtime::local::Turns;

use self::capture::Capture;
use crate::disk::{Disk, OpenMode};
use crate::format::checkpoint::{Checkpoint, LogCheckpoint};
use crate::format::checksum::file_key;
use crate::format::{index, names};
use crate::log::run::RunState;
use crate::log::state::LogInner;
use crate::segment::Segment;
use crate::segment::write::{at, publish, write_file, write_runs};
use crate::shard::Shard;
use crate::space;
use crate::types::{LogId, Sequence};

/// Logs that are written back at one time.
const LOGS_IN_FLIGHT: usize = 8;
/// How long files wait to be unlinked when nothing else asks for a round.
const CLEANUP_DELAY: Duration = Duration::from_secs(3);
/// How long a round waits before it looks again for the space that it needs.
const SPACE_DELAY: Duration = Duration::from_secs(1);
/// An index file is written again once its segment grew by this much and by this share, or was closed.
const INDEX_SAVE_BYTES: u64 = 1 << 20;
const INDEX_SAVE_SHARE: u64 = 8;

/// The write-back task: runs until the shard stops, or closes with the last round.
pub(crate) async fn run<R: Runtime, D: Disk>(runtime: R, shard: Rc<Shard<D>>) {
    loop {
        let wake = shard.round_wake.wait();
        if shard.is_stopped() {
            return;
        }
        let last = shard.closing.get() && shard.journal_ended.get();
        // A last one without a home fails, and the next open replays; nothing else waits for space.
        if !last && shard.round_requested.get() && !space::holds_a_round(&shard).await {
            tracing::error!("the disk has no space for what is to be written back: it stays in the journal");
            runtime.sleep(SPACE_DELAY).await;
            continue;
        }
        if last || shard.round_requested.get() {
            shard.round_requested.set(false);
            shard.cleanup_wanted.set(false);
            shard.round_running.set(true);
            let result = round(&shard, last).await;
            shard.round_running.set(false);
            if let Err(reason) = result {
                return shard.stop(&reason);
            }
            shard.round_done.notify_all();
            if last {
                shard.closed.set(true);
                shard.progress.notify_all();
                shard.unlink_wake.notify_all();
                return;
            }
            continue;
        }
        if shard.cleanup_wanted.get() {
            let delay = pin!(runtime.sleep(CLEANUP_DELAY));
            if let Either::Left(_) = select(delay, wake).await {
                shard.round_requested.set(true);
            }
            continue;
        }
        wake.await;
    }
}

/// One round. An error stops the shard: what failed is never tried again.
async fn round<D: Disk>(shard: &Rc<Shard<D>>, clean: bool) -> Result<(), String> {
    let logs = hold_touched(shard).await;
    // From here to the cut nothing waits: the captured state is exactly what entries up to the cut say.
    let cut = shard.journal.borrow_mut().pending.cut();
    let mut captures: Vec<Capture<D>> = logs.iter().map(|log| capture::capture(shard, log, cut)).collect();
    let deleted = shard.deleted.take();
    let shard_state = (shard.next_log_id.get(), shard.metadata_offset.get());
    shard.wake_journal();
    if shard.durable(cut).await.is_err() {
        logs.iter().for_each(|log| log.end_busy());
        return Ok(());
    }

    let result = write_back(shard, &mut captures).await;
    // The cleaner may have swapped segments meanwhile; from here on it does not.
    let committing = shard.committing.hold().await;
    let result = match result {
        Ok(()) => {
            name_segments(&mut captures).await;
            write_checkpoint(shard, &captures, &deleted, shard_state, cut, clean).await
        }
        Err(reason) => Err(reason),
    };
    if result.is_ok() {
        shard.journal.borrow_mut().ring.free(cut);
        captures.iter_mut().for_each(|capture| mark_clean(shard, capture));
        shard.counters.checkpoints.add(1);
    }
    drop(committing);
    logs.iter().for_each(|log| log.end_busy());
    result?;
    // The journal task may wait for a free file.
    shard.journal_wake.notify_all();
    shard.progress.notify_all();
    shard.background_wake.notify_all();
    cleanup::queue(shard, &mut captures, deleted);
    Ok(())
}

/// Makes every log that changed busy; there may be more of them by the time the last one is.
async fn hold_touched<D: Disk>(shard: &Shard<D>) -> Vec<Rc<LogInner<D>>> {
    let mut held: Vec<Rc<LogInner<D>>> = Vec::new();
    let mut known: HashSet<LogId> = HashSet::new();
    loop {
        let next: Vec<Rc<LogInner<D>>> = shard
            .logs
            .borrow()
            .values()
            .filter(|log| log.state.borrow().touched && !known.contains(&log.log_id))
            .cloned()
            .collect();
        if next.is_empty() {
            return held;
        }
        for log in next {
            known.insert(log.log_id);
            if log.make_busy().await {
                held.push(log);
            } else {
                log.end_busy();
            }
        }
    }
}

/// Segments, snapshots, folders: written and flushed.
async fn write_back<D: Disk>(shard: &Rc<Shard<D>>, captures: &mut [Capture<D>]) -> Result<(), String> {
    let made_folders: Vec<bool> = stream::iter(captures.iter_mut())
        .map(|capture| write_log(shard, capture))
        .buffer_unordered(LOGS_IN_FLIGHT)
        .try_collect()
        .await?;
    if made_folders.contains(&true) {
        let folder = shard.logs_folder();
        shard
            .disk
            .flush_directory(&folder)
            .await
            .map_err(at("flush folder", &folder))?;
    }
    Ok(())
}

/// One log; whether its folder was made.
async fn write_log<D: Disk>(shard: &Rc<Shard<D>>, capture: &mut Capture<D>) -> Result<bool, String> {
    let log = capture.log.clone();
    let folder = shard.log_folder(log.id, log.log_id);
    let mut made_folder = false;
    if let Some((number, content)) = &capture.snapshot {
        if !log.state.borrow().has_folder {
            shard
                .disk
                .create_directory(&folder)
                .await
                .map_err(at("create folder", &folder))?;
            made_folder = true;
        }
        let path = folder.join(names::snapshot(*number));
        write_file(&shard.disk, &path, content, OpenMode::CreateNew, true).await?;
    }
    if !capture.runs.is_empty() {
        let placed = write_runs(shard, &log, &capture.runs, capture.snapshot.is_some()).await?;
        made_folder |= placed.made_folder;
        let bytes: usize = capture.runs.iter().map(|run| run.memory.len()).sum();
        shard.counters.write_back_bytes.add(bytes as u64);
        publish(&log, placed);
    } else if capture.snapshot.is_some() {
        shard
            .disk
            .flush_directory(&folder)
            .await
            .map_err(at("flush folder", &folder))?;
        log.state.borrow_mut().has_folder = true;
    }
    save_indexes(shard, &log).await?;
    Ok(made_folder)
}

/// What the checkpoint says of the segments of each log that was written back.
async fn name_segments<D: Disk>(captures: &mut [Capture<D>]) {
    let mut turns = Turns::default();
    for capture in captures {
        {
            // Only now: the start offset of the cut is durable, and what is below it is in segments.
            let mut state = capture.log.state.borrow_mut();
            state.drop_segments_below(capture.meta.start_offset);
            capture.obsolete.append(&mut state.obsolete);
            capture.meta.segments = state.segments.iter().map(|segment| segment.meta).collect();
            capture.meta.cleaned_to = state.cleaned_to;
            // Of a segment that the cleaner made since the cut the number is taken too.
            capture.meta.next_file_number = state.next_file_number;
        }
        turns.item().await;
    }
}

/// Index files are caches: not flushed, checked when read.
async fn save_indexes<D: Disk>(shard: &Shard<D>, log: &LogInner<D>) -> Result<(), String> {
    let folder = shard.log_folder(log.id, log.log_id);
    let due: Vec<_> = {
        let mut state = log.state.borrow_mut();
        let last = state.segments.len().saturating_sub(1);
        let segments = state.segments.iter_mut().enumerate();
        let due = segments.filter(|(at, segment)| {
            let behind = segment.index.covered.saturating_sub(segment.index_saved);
            // In steps that grow with it: a file is written whole.
            let step = INDEX_SAVE_BYTES.max(segment.index.covered / INDEX_SAVE_SHARE);
            segment.index.covered > INDEX_SAVE_BYTES && (behind >= step || (*at < last && behind > 0))
        });
        due.map(|(_, segment)| {
            segment.index_saved = segment.index.covered;
            (
                segment.meta,
                index::encode(file_key(log.log_id, segment.meta.number), &segment.index),
                std::mem::replace(&mut segment.index_on_disk, true),
            )
        })
        .collect()
    };
    for (meta, bytes, exists) in due {
        let is_there = |segment: &Segment| segment.meta.number == meta.number;
        if !log.state.borrow().segments.iter().any(is_there) {
            continue;
        }
        let path = folder.join(names::index(meta.base_offset, meta.number));
        let exists = exists && shard.disk.exists(&path).await.map_err(at("look for", &path))?;
        let mode = if exists {
            OpenMode::ReadWrite
        } else {
            OpenMode::CreateNew
        };
        write_file(&shard.disk, &path, &bytes, mode, false).await?;
    }
    Ok(())
}

async fn write_checkpoint<D: Disk>(
    shard: &Shard<D>,
    captures: &[Capture<D>],
    deleted: &[Rc<LogInner<D>>],
    (next_log_id, metadata_offset): (u64, u64),
    cut: Sequence,
    clean: bool,
) -> Result<(), String> {
    let mut checkpoint = {
        let committed = shard.committed.borrow();
        Checkpoint {
            generation: committed.generation + 1,
            journal_id: committed.journal_id,
            journal_files: committed.journal_files,
            clean,
            journal_file_bytes: committed.journal_file_bytes,
            incarnations: committed.incarnations.clone(),
            replay_start: shard.journal.borrow().ring.replay_start(cut),
            next_log_id,
            metadata_offset,
            logs: Vec::new(),
        }
    };
    // Entries of an open that the replay would no longer reach need no entry in the list.
    while checkpoint.incarnations.len() > 1
        && checkpoint.incarnations[1].follows <= checkpoint.replay_start.sequence
    {
        checkpoint.incarnations.remove(0);
    }
    checkpoint.logs = logs_as_of(shard, captures, deleted, cut).await;
    slot::write(&shard.disk, &shard.options.directory, &checkpoint).await?;
    *shard.committed.borrow_mut() = checkpoint;
    Ok(())
}

/// The logs as a checkpoint has them: as captured, or as the last one has them. There may be ten thousand: others have their turn
/// in between, and what they change is above the cut.
async fn logs_as_of<D: Disk>(
    shard: &Shard<D>,
    captures: &[Capture<D>],
    deleted: &[Rc<LogInner<D>>],
    cut: Sequence,
) -> Vec<LogCheckpoint> {
    let mut turns = Turns::default();
    let gone: HashSet<u64> = deleted.iter().map(|log| log.log_id.0).collect();
    let mut captured = BTreeMap::new();
    for capture in captures {
        captured.insert(capture.meta.log_id, &capture.meta);
        turns.item().await;
    }
    let known = shard.committed.borrow().logs.len();
    let mut logs = Vec::with_capacity(known + captured.len());
    for at in 0..known {
        // Nothing but a round changes what is committed.
        let log_id = shard.committed.borrow().logs[at].log_id;
        let captured = captured.remove(&log_id);
        if !gone.contains(&log_id) {
            logs.push(match captured {
                Some(meta) => meta.clone(),
                None => shard.committed.borrow().logs[at].clone(),
            });
        }
        turns.item().await;
    }
    for meta in captured.into_values().filter(|meta| !gone.contains(&meta.log_id)) {
        logs.push(meta.clone());
        turns.item().await;
    }
    assert!(
        logs.is_sorted_by_key(|log| log.log_id),
        "a new log has a new id above all others"
    );
    for log in &mut logs {
        // A log that did not change since includes the cut as well.
        log.sequence = cut.0;
        if let Some(live) = shard.live_log(log.log_id()) {
            log.high_watermark = live
                .state
                .borrow()
                .high_watermark
                .clamp(log.start_offset, log.end_offset);
        }
        turns.item().await;
    }
    logs
}

/// The memory of what the checkpoint covers is a cache from now on.
fn mark_clean<D: Disk>(shard: &Shard<D>, capture: &mut Capture<D>) {
    let mut state = capture.log.state.borrow_mut();
    let mut cache = shard.cache.borrow_mut();
    for run in &mut state.runs {
        let covered = run.end_offset <= capture.meta.end_offset;
        if covered && !run.direct && run.state == RunState::Sealed
            || covered && run.state == RunState::Written
        {
            run.state = RunState::Clean;
            run.segment = None;
            shard.counters.dirty_bytes.subtract(run.frame_bytes);
            cache.push(&capture.log, run.base_offset);
        }
    }
    state.snapshot = capture.meta.snapshot;
}
