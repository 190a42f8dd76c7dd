//! The cleaner: goes through the logs that are to be compacted, the dirtiest first, and rests when none is due.

use std::pin::pin;
use std::time::Duration;

use futures_util::future::select;
use strandline_runtime::Runtime;

use super::Worker;
use crate::cleaner::{CleanError, Cleaned, Cleaning, clean};
use crate::disk::Disk;
use crate::log::Log;
use crate::options::CleanerOptions;

/// A map of keys takes at most this part of the store's memory: the rest has work to do meanwhile.
const MEMORY_SHARE: u64 = 4;

/// The job: rounds of all logs, one after the other as long as something was cleaned.
pub(super) async fn run<R: Runtime, D: Disk>(worker: Worker<R, D>) {
    while !worker.is_over() {
        let wake = worker.shard.cleaner_wake.wait();
        let options = worker.shard.cleaner.get();
        if options.enabled && round(&worker, &options).await {
            continue;
        }
        let rest = Duration::from_millis(options.backoff_ms.max(1));
        select(pin!(worker.rest(rest)), wake).await;
    }
}

/// Cleans every log that is due; whether any was. First those that are wholly in segments: they wait for nothing. All others wait
/// for one round of write-back together, however many they are.
async fn round<R: Runtime, D: Disk>(worker: &Worker<R, D>, options: &CleanerOptions) -> bool {
    let mut due = due(worker).await;
    due.sort_by(|left, right| right.dirty_ratio.total_cmp(&left.dirty_ratio));
    let (settled, unsettled): (Vec<_>, Vec<_>) = due.into_iter().partition(|due| due.is_settled);
    let mut any = false;
    for logs in [settled, unsettled] {
        if logs.first().is_some_and(|first| !first.is_settled) {
            worker.checkpointed().await;
        }
        for due in logs {
            if worker.is_over() {
                return false;
            }
            any |= clean_one(worker, options, &due.log).await;
        }
    }
    worker.shard.counters.change_cleaner(|stats| stats.rounds += 1);
    any
}

/// A log that is to be cleaned.
struct Due<D: Disk> {
    log: Log<D>,
    dirty_ratio: f64,
    is_settled: bool,
}

/// The logs that are due, and how dirty they are.
async fn due<R: Runtime, D: Disk>(worker: &Worker<R, D>) -> Vec<Due<D>> {
    let shard = &worker.shard;
    let mut due = Vec::new();
    let (mut uncleanable, mut dirtiest) = (0, 0.0_f64);
    let mut last = None;
    while let Some(log) = worker.next_log(last).await {
        last = Some(log.id);
        let (settings, bound) = {
            let state = log.state.borrow();
            if !state.settings.compacts {
                continue;
            }
            if state.uncleanable.is_some() {
                uncleanable += 1;
                continue;
            }
            (state.settings.compaction, state.high_watermark)
        };
        let log = Log::new(log, shard.clone());
        let Some(dirty) = log.dirtiness(&settings, bound) else {
            continue;
        };
        dirtiest = dirtiest.max(dirty.ratio());
        if dirty.is_due(&settings) {
            due.push(Due {
                dirty_ratio: dirty.ratio(),
                is_settled: log.is_settled(&settings, bound),
                log,
            });
        }
    }
    shard.counters.change_cleaner(|stats| {
        stats.uncleanable_logs = uncleanable;
        stats.max_dirty_percent = (dirtiest * 100.0) as u64;
    });
    due
}

async fn clean_one<R: Runtime, D: Disk>(
    worker: &Worker<R, D>,
    options: &CleanerOptions,
    log: &Log<D>,
) -> bool {
    let shard = &worker.shard;
    let task = {
        let state = log.inner.state.borrow();
        Cleaning {
            settings: state.settings.compaction,
            bound: state.high_watermark,
            map_bytes: options.map_bytes.min(shard.budget.limit() / MEMORY_SHARE),
            map_load: options.map_load,
        }
    };
    let began = worker.runtime.now();
    match clean(&worker.runtime, log, &task).await {
        Ok(done) if done.to == done.from => false,
        Ok(done) => {
            log.inner.state.borrow_mut().last_cleaned_ms = Some(worker.runtime.wall_clock_ms());
            report(worker, log, &done, worker.runtime.now().since(began));
            true
        }
        Err(CleanError::Unreadable(reason)) => {
            tracing::error!(log = %log.id(), reason, "the log cannot be compacted: it stays as it is until the next start");
            log.inner.state.borrow_mut().uncleanable = Some(reason);
            shard.counters.change_cleaner(|stats| stats.uncleanable_logs += 1);
            false
        }
        Err(CleanError::Stopped(_) | CleanError::Changed) => false,
        Err(error @ (CleanError::NoSpace | CleanError::Io(_))) => {
            tracing::warn!(log = %log.id(), %error, "the log was not compacted");
            shard.counters.change_cleaner(|stats| stats.failures += 1);
            false
        }
    }
}

fn report<R: Runtime, D: Disk>(worker: &Worker<R, D>, log: &Log<D>, done: &Cleaned, took: Duration) {
    worker.shard.counters.change_cleaner(|stats| {
        stats.cleanings += 1;
        stats.ns += took.as_nanos() as u64;
        stats.read_bytes += done.map_bytes_read + done.bytes_read;
        stats.written_bytes += done.bytes_written;
        stats.records_read += done.records_read;
        stats.records_kept += done.records_kept;
    });
    tracing::info!(
        log = %log.id(),
        from = done.from,
        to = done.to,
        is_whole = done.is_whole,
        keys = done.keys,
        records = done.records_read,
        kept = done.records_kept,
        bytes = done.bytes_read,
        bytes_kept = done.bytes_written,
        segments = done.segments_before,
        segments_kept = done.segments_after,
        took_ms = took.as_millis() as u64,
        "the log was compacted"
    );
}
