//! What all senders of a run have in common.

use crate::client::Dialer;
use crate::clock::{Clock, Nanos};
use crate::keys::KeySpace;
use crate::live::Recent;
use crate::schedule::{IntegratedRate, RateSpec};
use crate::series::Phases;
use crate::sizes::Sizes;
use crate::workload::Workload;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use strandline_wire::batch::Codec;

/// The load of a run.
#[derive(Clone, Debug)]
pub struct LoadPlan {
    /// How to connect again.
    pub dialer: Dialer,
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
    /// What to replay, if anything, and how many times as fast as it was captured.
    pub workload: Option<(Arc<Workload>, f64)>,
    /// The most records to send in all.
    pub records: Option<u64>,
    /// Bytes of records' values.
    pub sizes: Sizes,
    /// The share of a value that a compressor can do without.
    pub compressibility: f64,
    /// The codec of batches.
    pub codec: Codec,
    /// Whether each connection has a producer id and its batches sequences.
    pub idempotent: bool,
    /// The keys of records.
    pub keys: Option<KeySpace>,
    /// Bytes at which a batch is full.
    pub batch_bytes: usize,
    /// How long a batch may wait for more records.
    pub linger: Nanos,
    /// Requests in flight on a connection.
    pub window: usize,
    /// 0, 1, or -1 for all.
    pub acks: i16,
    /// The topics, each with [`Self::partitions`]; a partition's number counts on through all of them.
    pub topics: Vec<String>,
    /// Partitions of each topic.
    pub partitions: i32,
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

impl LoadPlan {
    /// The topic (its place in [`Self::topics`]) and the partition in it, of a partition that is counted through all topics.
    pub fn place(&self, partition: i32) -> (usize, i32) {
        (
            (partition / self.partitions).unsigned_abs() as usize,
            partition % self.partitions,
        )
    }
}

/// What the senders show while they run, and how they are told to stop.
#[derive(Debug, Default)]
pub struct Progress {
    /// Records acknowledged, the warm-up included.
    pub acknowledged: AtomicU64,
    /// Records received by consumers.
    pub received: AtomicU64,
    /// Response times since they were last looked at.
    pub recent: Mutex<Recent>,
    /// Set to end the run early.
    pub interrupted: Arc<AtomicBool>,
}

impl Progress {
    /// Whether the run is to end early.
    pub fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// Adds response times, unless somebody looks at them just now: a sender never waits for that.
    pub(super) fn publish(&self, recent: &mut Recent) {
        if let Ok(mut shown) = self.recent.try_lock() {
            shown.take_from(recent);
        }
    }

    /// Response times since the last call.
    pub fn take_recent(&self) -> Recent {
        std::mem::take(&mut *self.recent.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
