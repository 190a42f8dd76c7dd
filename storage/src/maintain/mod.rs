//! Maintenance: what a shard does to its logs by itself, and nobody waits for.
//!
//! Each job is one task of the background queue: it goes through the logs one after the other, decides by what is in memory,
//! and gives way between any two. What a log has to give up goes with a checkpoint, as all its changes do: a job raises a start
//! offset or works on a log that it made busy, and never unlinks anything itself.

mod compaction;
pub mod retention;
mod roll;
mod turn;

use std::ops::Bound;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::select;
use strandline_runtime::{Queue, Runtime};

use crate::disk::Disk;
use crate::log::state::LogInner;
use crate::shard::Shard;
use crate::types::TopicPartitionId;

pub(crate) use self::roll::roll_after_ms;
pub(crate) use self::turn::{LongestTurn, timed};

/// Starts a task for each job.
pub(crate) fn spawn<R: Runtime, D: Disk>(runtime: &R, shard: &Rc<Shard<D>>) {
    let worker = Worker {
        runtime: runtime.clone(),
        shard: shard.clone(),
    };
    let retention = retention::run(worker.clone());
    let retention = timed(
        runtime.clone(),
        shard.clone(),
        |counters| &counters.retention_turn,
        retention,
    );
    let compaction = compaction::run(worker);
    let compaction = timed(
        runtime.clone(),
        shard.clone(),
        |counters| &counters.cleaner_turn,
        compaction,
    );
    runtime.spawn(Queue::Background, retention);
    runtime.spawn(Queue::Background, compaction);
}

/// How often whoever waits for a checkpoint looks whether the disk became full.
const FULL_CHECK: Duration = Duration::from_secs(1);

/// What a job works with.
#[derive(Clone)]
pub(crate) struct Worker<R: Runtime, D: Disk> {
    pub(crate) runtime: R,
    pub(crate) shard: Rc<Shard<D>>,
}

impl<R: Runtime, D: Disk> Worker<R, D> {
    /// Whether the job is to end: the shard stopped, or the store is being closed.
    pub(crate) fn is_over(&self) -> bool {
        self.shard.is_stopped() || self.shard.closing.get()
    }

    /// The next log behind `last` in the order of ids, once everybody else had a turn if this one is used up. `None` after
    /// the last log, or when the job is to end. Logs may come and go between two calls.
    pub(crate) async fn next_log(&self, last: Option<TopicPartitionId>) -> Option<Rc<LogInner<D>>> {
        self.runtime.yield_if_needed().await;
        if self.is_over() {
            return None;
        }
        let after = last.map_or(Bound::Unbounded, Bound::Excluded);
        let logs = self.shard.logs.borrow();
        let mut behind = logs.range((after, Bound::Unbounded));
        behind.next().map(|(_, log)| log.clone())
    }

    /// Waits for a checkpoint of everything so far. Not on a full disk, which may have no room for what is to be written back:
    /// what this job frees may be what is missing.
    pub(crate) async fn checkpointed(&self) {
        let shard = &self.shard;
        let target = shard.counters.checkpoints.get() + 1 + u64::from(shard.round_running.get());
        loop {
            let done = shard.round_done.wait();
            if self.is_over() || shard.full.get() || shard.counters.checkpoints.get() >= target {
                return;
            }
            shard.request_round();
            select(done, pin!(self.runtime.sleep(FULL_CHECK))).await;
        }
    }

    /// Sleeps, but not beyond the end of the store.
    pub(crate) async fn rest(&self, span: Duration) {
        let wake = self.shard.maintain_wake.wait();
        if !self.is_over() {
            select(pin!(self.runtime.sleep(span)), wake).await;
        }
    }
}
