//! What all senders of a run have in common.

use crate::clock::{Clock, Nanos};
use crate::schedule::{IntegratedRate, RateSpec};
use crate::series::Phases;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The load of a run.
#[derive(Clone, Debug)]
pub struct LoadPlan {
    /// The run's clock.
    pub clock: Clock,
    /// When the schedule starts, by that clock.
    pub start: Nanos,
    /// Warm-up and end, from the start.
    pub phases: Phases,
    /// How records are spaced.
    pub rate: RateSpec,
    /// The offered rate; `None` for the closed loop.
    pub integrated: Option<IntegratedRate>,
    /// The most records to send in all.
    pub records: Option<u64>,
    /// Bytes of a record's value.
    pub record_bytes: usize,
    /// Bytes at which a batch is full.
    pub batch_bytes: usize,
    /// How long a batch may wait for more records.
    pub linger: Nanos,
    /// Requests in flight on a connection.
    pub window: usize,
    /// 0, 1, or -1 for all.
    pub acks: i16,
    /// The topic.
    pub topic: String,
    /// Tells this run's records from those of others.
    pub run: u32,
    /// Seeds payloads and Poisson gaps.
    pub seed: u64,
    /// How many senders there are.
    pub producers: u32,
    /// The Produce version to speak.
    pub produce_version: i16,
    /// How long after the end what is due may still be submitted.
    pub drain: Nanos,
    /// How long after that answers are waited for.
    pub answer_timeout: Nanos,
    /// How long after the end an acknowledgement still counts as in time: what is in flight at the end is no shortfall.
    pub grace: Nanos,
}

/// What the senders show while they run, and how they are told to stop.
#[derive(Debug, Default)]
pub struct Progress {
    /// Records acknowledged, the warm-up included.
    pub acknowledged: AtomicU64,
    /// Records received by consumers.
    pub received: AtomicU64,
    /// Set to end the run early.
    pub interrupted: Arc<AtomicBool>,
}

impl Progress {
    /// Whether the run is to end early.
    pub fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }
}
