//! What a run leaves behind: a structure, its text, its files.

mod files;
mod html;
mod model;
mod text;

pub use files::{DISTRIBUTIONS, Export, Folder, load, stored, write_report, write_results};
pub use html::sweep_page;
pub use model::{
    AgainstLimit, Backlog, Calibration, Curve, Event, Floor, GroupFacts, LeaderFacts, LimitFacts,
    PartitionFacts, Phase, Recovery, ScenarioFacts, Stretch, TimelineRow,
};
pub use text::print;

use crate::histogram::Summary;
use crate::machine::Machine;
use crate::schedule::RateSpec;
use crate::units::format_nanos;
use crate::verdict::Verdict;
use crate::verify::Verification;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// A rate as a person writes it.
#[derive(Debug)]
pub struct RateText<'a>(pub &'a RateSpec);

impl fmt::Display for RateText<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let profile = match self.0 {
            RateSpec::Max => return out.write_str("as fast as the window allows (closed loop)"),
            RateSpec::Captured => return out.write_str("as captured (open loop)"),
            RateSpec::OfPeak(percent) => return write!(out, "{percent}% of the measured peak"),
            RateSpec::Constant(profile) | RateSpec::Poisson(profile) => profile,
        };
        let spacing = if matches!(self.0, RateSpec::Poisson(_)) {
            "Poisson arrivals"
        } else {
            "evenly spaced"
        };
        for (index, stage) in profile.stages.iter().enumerate() {
            if index > 0 {
                out.write_str("then ")?;
            }
            if stage.from != stage.to {
                write!(out, "from {} to ", stage.from)?;
            }
            write!(out, "{}", stage.to)?;
            if stage.duration > 0 {
                write!(out, " in {}", format_nanos(stage.duration))?;
            }
            out.write_str(", ")?;
        }
        write!(out, "{spacing} (open loop)")
    }
}

/// The version of the shape of `run.json`; it rises with every change that a reader could trip over.
pub const SCHEMA_VERSION: u32 = 5;

/// The result of a run, as `run.json` holds it. Times are nanoseconds where the name says `_ns`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunReport {
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// The name of the run.
    pub name: String,
    /// The preset or file that it was made from.
    pub preset: Option<String>,
    /// When the schedule started, in ms since 1970.
    pub started_at_ms: i64,
    /// The revision of the source tree that the tool was started in, if it was one.
    pub git_revision: Option<String>,
    /// Where it ran.
    pub machine: Machine,
    /// What was measured.
    pub target: TargetFacts,
    /// What was asked.
    pub load: LoadFacts,
    /// Whether the figures may be quoted.
    pub verdict: Verdict,
    /// Records of the measured part.
    pub records: RecordCounts,
    /// Records a second, offered and achieved, in the measured part.
    pub rates: Rates,
    /// The distributions of the measured part; a missing one has no samples.
    pub latency: LatencyFacts,
    /// How late the machine woke a thread that does nothing but sleep.
    pub hiccups: Option<Summary>,
    /// What was read back, if it was.
    pub verification: Option<Verification>,
    /// Why there is no verification, or why it is not complete.
    pub verification_note: Option<String>,
    /// What consumer groups saw.
    pub groups: Vec<GroupFacts>,
    /// What happened besides the load, if anything was asked for.
    pub scenario: Option<ScenarioFacts>,
    /// How fast it was read back, if that was done after the load.
    pub read_back: Option<ReadBack>,
    /// The longest time in which a partition had records due and acknowledged none.
    pub longest_ack_gap_ns: u64,
    /// Errors and for how many records they stand.
    pub errors: BTreeMap<String, u64>,
    /// How the tool itself fared.
    pub tool: ToolFacts,
    /// What the machine can do, if that was measured with the run.
    pub limits: Option<LimitFacts>,
    /// What the tool can do, if that was measured with the run.
    pub calibration: Option<Calibration>,
    /// By partition.
    pub partitions: Vec<PartitionFacts>,
    /// By broker.
    pub leaders: Vec<LeaderFacts>,
    /// Percentile curves of the measured part.
    pub curves: Vec<Curve>,
    /// Second by second.
    pub timeline: Vec<TimelineRow>,
    /// The `--fail-if` conditions that failed the run.
    pub failed_conditions: Vec<String>,
}

/// The broker.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TargetFacts {
    /// How it was found or started.
    pub description: String,
    /// Its bootstrap servers.
    pub bootstrap_servers: String,
    /// Brokers that lead a partition.
    pub leaders: usize,
    /// What an acknowledgement promises there.
    pub durability: String,
    /// CPU time that it used while the load ran, the warm-up included; known of a broker that was started for the run.
    pub cpu_ns: Option<u64>,
}

/// The load.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LoadFacts {
    /// The rate as it was understood.
    pub rate: String,
    /// Seconds measured.
    pub duration_seconds: f64,
    /// Seconds of warm-up.
    pub warm_up_seconds: f64,
    /// Bytes of a value, in the mean.
    pub record_bytes: usize,
    /// The sizes of values.
    pub record_sizes: String,
    /// The codec of batches.
    pub compression: String,
    /// How much of a value a compressor can do without.
    pub compressibility: f64,
    /// The keys of records.
    pub keys: String,
    /// Whether producers are idempotent.
    pub idempotent: bool,
    /// How many topics.
    pub topics: usize,
    /// The first topic.
    pub topic: String,
    /// Partitions of all topics together.
    pub partitions: usize,
    /// Sender threads.
    pub producers: u32,
    /// Consumers that read along.
    pub consumers: usize,
    /// 0, 1 or all.
    pub acks: String,
    /// How long batches linger.
    pub linger_ns: u64,
    /// Bytes of a full batch.
    pub batch_bytes: usize,
    /// Requests in flight on a connection.
    pub window: usize,
    /// The seed.
    pub seed: u64,
}

/// Records of the measured part.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct RecordCounts {
    /// That the schedule offered.
    pub offered: u64,
    /// Acknowledged at last.
    pub acknowledged: u64,
    /// Acknowledged by the end and a short grace.
    pub acknowledged_in_time: u64,
    /// Refused or not answered.
    pub not_acknowledged: u64,
    /// Never submitted.
    pub never_submitted: u64,
}

/// Records a second; missing when the measured part has no length.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Rates {
    /// What the schedule offered; the closed loop offers nothing by itself.
    pub offered: Option<f64>,
    /// What was acknowledged.
    pub achieved: Option<f64>,
}

/// The distributions.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct LatencyFacts {
    /// Acknowledgement minus intended time.
    pub response: Option<Summary>,
    /// Acknowledgement minus submission.
    pub service: Option<Summary>,
    /// Submission minus intended time.
    pub lag: Option<Summary>,
    /// Receipt minus intended time.
    pub end_to_end: Option<Summary>,
    /// The part of the lag for which the tool alone is to blame.
    pub tool_lag: Option<Summary>,
}

/// Reading everything back, from the first fetch to the last record checked.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct ReadBack {
    /// Consumers that shared the partitions.
    pub consumers: usize,
    /// Records that were read.
    pub records: u64,
    /// How long it took.
    pub seconds: f64,
    /// Bytes of values a second.
    pub bytes_per_second: f64,
}

/// The tool's own effort.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ToolFacts {
    /// Produce requests.
    pub requests: u64,
    /// Batches in them.
    pub batches: u64,
    /// Records in those, the warm-up included.
    pub records: u64,
    /// CPU time of all sender threads.
    pub sender_cpu_ns: u64,
    /// The cores that senders are pinned to; fewer than senders when pinning was refused.
    pub sender_cores: Vec<usize>,
    /// Whether senders may spin for the last microseconds.
    pub spinning: bool,
    /// Connections that broke.
    pub connections_lost: u64,
}
