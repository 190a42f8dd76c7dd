//! What a sender measures.

use super::plan::{LoadPlan, Progress};
use super::stream::Sealed;
use crate::clock::Nanos;
use crate::histogram::Latencies;
use crate::live::Recent;
use crate::series::Recorder;
use crate::verify::{Ledger, SequenceId};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// How often levels are sampled.
pub const SAMPLE_EVERY: Nanos = 100_000_000;

/// Levels of one sender at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// In units of [`SAMPLE_EVERY`] since the start of the schedule.
    pub index: u64,
    /// Records due and not submitted.
    pub backlog: u64,
    /// The least lateness that was the tool's own among the batches submitted since the last sample; 0 when there were none.
    pub tool_lag: Nanos,
}

/// What a sender found, its latencies aside, which went to the collector.
#[derive(Debug, Default)]
pub struct SenderReport {
    /// By producer and partition.
    pub ledgers: HashMap<SequenceId, Ledger>,
    /// Levels over time.
    pub samples: Vec<Sample>,
    /// The tool's own lateness of each measured record: submitted after it was due, although the window had room.
    pub tool_lag: Latencies,
    /// Measured records acknowledged before the end and the grace were over.
    pub acknowledged_in_time: u64,
    /// Records acknowledged while the measured part lasted, whenever they were intended: the throughput.
    pub acknowledged_meanwhile: u64,
    /// Measured records refused or not answered.
    pub not_acknowledged: u64,
    /// Measured records that were due and never submitted.
    pub never_submitted: u64,
    /// What went wrong, and for how many records.
    pub errors: BTreeMap<String, u64>,
    /// The longest time in which a partition had records due and acknowledged none.
    pub longest_ack_gap: Nanos,
    /// When the last acknowledgement came, by the run's clock.
    pub last_ack: Nanos,
    /// Requests submitted.
    pub requests: u64,
    /// Batches submitted.
    pub batches: u64,
    /// Connections that broke.
    pub connections_lost: u64,
    /// Where the sender was pinned.
    pub core: Option<usize>,
    /// CPU time of the sender's thread.
    pub cpu_ns: u64,
    /// Measured records acknowledged, by partition.
    pub by_partition: BTreeMap<i32, u64>,
    /// How long requests took, by the broker that answered them.
    pub by_leader: BTreeMap<String, Latencies>,
}

/// Takes the measurements of one sender.
pub(super) struct Meter {
    pub(super) report: SenderReport,
    recorder: Recorder,
    progress: Arc<Progress>,
    /// For whoever watches.
    recent: Recent,
    next_sample: u64,
    least_tool_lag: Option<Nanos>,
}

impl Meter {
    pub(super) fn new(recorder: Recorder, progress: Arc<Progress>) -> Self {
        Self {
            report: SenderReport::default(),
            recorder,
            progress,
            recent: Recent::default(),
            next_sample: 0,
            least_tool_lag: None,
        }
    }

    /// Records that `batch`, submitted at `submitted`, was acknowledged at `now`.
    pub(super) fn acknowledged(&mut self, batch: &Sealed, submitted: Nanos, now: Nanos, plan: &LoadPlan) {
        let phases = *self.recorder.phases();
        let in_time = now <= plan.start + phases.end + plan.grace;
        self.report.last_ack = now;
        if (plan.start + phases.warm_up..plan.start + phases.end).contains(&now) {
            self.report.acknowledged_meanwhile += batch.intended.len() as u64;
        }
        self.recorder
            .interval(phases.interval(now.saturating_sub(plan.start)))
            .completed
            .add(batch.intended.len() as u64, batch.value_bytes);
        let mut rest = &batch.intended[..];
        while let Some(first) = rest.first() {
            let interval = phases.interval(first.saturating_sub(plan.start));
            let ends = plan.start + phases.bounds(interval).1;
            // Intended times of a batch never fall, and most batches lie in one interval.
            let count = match rest.last() {
                Some(&last) if last < ends => rest.len(),
                _ => rest.partition_point(|&at| at < ends).max(1),
            };
            let slot = self.recorder.interval(interval);
            for &intended in &rest[..count] {
                slot.acks.response.record_between(intended, now);
                slot.acks.lag.record_between(intended, submitted);
                self.recent.record_between(intended, now);
            }
            slot.acks
                .service
                .record_many_between(submitted, now, count as u64);
            slot.acknowledged += count as u64;
            if in_time && interval >= phases.warm_up_intervals() {
                self.report.acknowledged_in_time += count as u64;
            }
            rest = &rest[count..];
        }
        self.progress
            .acknowledged
            .fetch_add(batch.intended.len() as u64, Ordering::Relaxed);
    }

    /// Records that the answer to `batch` was `why`, or never came.
    pub(super) fn failed(&mut self, batch: &Sealed, why: &str, plan: &LoadPlan) {
        let phases = self.recorder.phases();
        let measured = batch
            .intended
            .iter()
            .filter(|&&at| phases.is_measured(at.saturating_sub(plan.start)))
            .count();
        self.report.not_acknowledged += measured as u64;
        *self.report.errors.entry(why.to_owned()).or_default() += batch.intended.len() as u64;
    }

    /// Records that `batch` was submitted at `now`, on a connection that has had room since `room_since`.
    pub(super) fn submitted(&mut self, batch: &Sealed, now: Nanos, room_since: Nanos, plan: &LoadPlan) {
        self.report.batches += 1;
        let (Some(&first), Some(&last)) = (batch.intended.first(), batch.intended.last()) else {
            return;
        };
        // From here on nothing but the tool kept the batch from being sent.
        let free = (first + plan.linger).max(room_since);
        let lag = now.saturating_sub(free.max(last));
        self.least_tool_lag = Some(self.least_tool_lag.map_or(lag, |least| least.min(lag)));
        let measured_from = plan.start + self.recorder.phases().warm_up;
        let measured = &batch.intended[batch.intended.partition_point(|&at| at < measured_from)..];
        if measured.is_empty() {
            return;
        }
        if last <= free {
            self.report
                .tool_lag
                .record_many_between(free.min(now), now, measured.len() as u64);
        } else {
            for &intended in measured {
                self.report
                    .tool_lag
                    .record_between(free.max(intended).min(now), now);
            }
        }
    }

    /// When the next sample is due.
    pub(super) fn next_sample(&self, plan: &LoadPlan) -> Nanos {
        plan.start + self.next_sample * SAMPLE_EVERY
    }

    /// Takes a sample, if one is due.
    pub(super) fn sample(&mut self, now: Nanos, plan: &LoadPlan, backlog: impl FnOnce() -> u64) {
        if now < self.next_sample(plan) {
            return;
        }
        let index = (now - plan.start) / SAMPLE_EVERY;
        let tool_lag = self.least_tool_lag.take().unwrap_or(0);
        self.report.samples.push(Sample {
            index,
            backlog: backlog(),
            tool_lag,
        });
        self.next_sample = index + 1;
        self.progress.publish(&mut self.recent);
    }
}
