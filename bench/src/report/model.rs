//! The parts of a result that are measured over time, over percentiles and over partitions, and what they are held against.

use crate::histogram::{CurvePoint, Summary};
use crate::limits::Limits;
use crate::series::Throughput;
use crate::verify::Verification;
use serde::{Deserialize, Serialize};

/// One second of the schedule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TimelineRow {
    /// When it starts, in seconds since the start of the schedule.
    pub start_seconds: f64,
    /// When it ends.
    pub end_seconds: f64,
    /// What part of the run it belongs to.
    pub phase: Phase,
    /// Records intended in this second and ever acknowledged.
    pub acknowledged: u64,
    /// Records intended in this second and ever received.
    pub received: u64,
    /// What was acknowledged in this second, whenever it was intended.
    pub completed: Throughput,
    /// What was received in this second, whenever it was intended.
    pub delivered: Throughput,
    /// Acknowledgement minus intended time, of the records intended in this second.
    pub response: Option<Summary>,
    /// Acknowledgement minus submission.
    pub service: Option<Summary>,
    /// Submission minus intended time.
    pub lag: Option<Summary>,
    /// Receipt minus intended time.
    pub end_to_end: Option<Summary>,
}

/// The parts of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// At the same rate, and in no figure.
    WarmUp,
    /// What the figures are made of.
    Measured,
    /// After the end of the schedule: late answers.
    Drain,
}

impl Phase {
    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::WarmUp => "warm-up",
            Self::Measured => "measured",
            Self::Drain => "drain",
        }
    }
}

/// The percentile curve of one distribution.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// Which: response, service, lag, e2e, hiccups.
    pub name: String,
    /// Its points, from the median to the largest.
    pub points: Vec<CurvePoint>,
}

/// What one partition took.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PartitionFacts {
    /// Its number.
    pub partition: i32,
    /// The address of its leader.
    pub leader: String,
    /// Measured records acknowledged.
    pub acknowledged: u64,
}

/// What one broker (of Strandline: one shard) took.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LeaderFacts {
    /// Its address.
    pub address: String,
    /// Partitions that it leads.
    pub partitions: usize,
    /// Measured records acknowledged.
    pub acknowledged: u64,
    /// How long its answers to requests took.
    pub service: Option<Summary>,
}

/// What one consumer group saw.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GroupFacts {
    /// Its name.
    pub name: String,
    /// Its members.
    pub members: usize,
    /// Joins that gave an assignment: one a member, and one more a member for each rebalance.
    pub joins: u64,
    /// The longest time between two receipts of one partition's records.
    pub longest_pause_ns: u64,
    /// Its records, held against what was acknowledged; duplicates are records delivered again.
    pub verification: Verification,
}

/// What happened in the course of a run besides the load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ScenarioFacts {
    /// In their order.
    pub events: Vec<Event>,
    /// The measured part, cut at the events.
    pub stretches: Vec<Stretch>,
    /// What consumers that read along had not read.
    pub backlog: Option<Backlog>,
    /// How the broker came back.
    pub recovery: Option<Recovery>,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// When, in seconds since the start of the schedule.
    pub at_seconds: f64,
    /// What.
    pub what: String,
}

/// From one event to the next; a second belongs to the stretch in which it begins.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stretch {
    /// The event that it follows.
    pub after: String,
    /// When it begins.
    pub from_seconds: f64,
    /// When it ends.
    pub to_seconds: f64,
    /// Acknowledgement minus intended time, of the records intended in it.
    pub response: Option<Summary>,
    /// Receipt minus intended time.
    pub end_to_end: Option<Summary>,
}

/// Records acknowledged and not yet read.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Backlog {
    /// The most there were.
    pub most_records: u64,
    /// How many there were when consumers read again.
    pub records_at_resume: u64,
    /// How long it took from then until there were no more than before; missing when they were not drained while the run lasted.
    pub drain_seconds: Option<f64>,
    /// Records a second read meanwhile, those that came new among them.
    pub drain_records_per_second: Option<f64>,
}

/// How a broker came back that was killed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Recovery {
    /// When it was killed, in seconds since the start of the schedule.
    pub killed_at_seconds: f64,
    /// How long until it said that it serves.
    pub ready_after_seconds: f64,
    /// The longest time in which a partition had records due and acknowledged none: the gap that users see.
    pub unavailable_ns: u64,
    /// Records whose fate their sender does not know, or that were refused.
    pub not_acknowledged: u64,
}

/// What the tool itself can do, and what a durable acknowledgement costs at least here.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// Records a second of the same load, in a closed loop, against the null broker: the most that this tool could have offered.
    pub tool_peak: Option<f64>,
    /// That, divided by what was achieved.
    pub headroom: Option<f64>,
    /// The same load against the reference broker, whose acknowledgements wait for one journal and nothing else.
    pub floor: Option<Floor>,
}

/// The reference broker under the same load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Floor {
    /// Whether it kept up.
    pub valid: bool,
    /// Records a second.
    pub achieved: Option<f64>,
    /// Acknowledgement minus intended time.
    pub response: Option<Summary>,
}

/// The broker's figure divided by the machine's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgainstLimit {
    /// What is compared.
    pub what: String,
    /// The broker's figure, readable.
    pub broker: String,
    /// The machine's figure, readable.
    pub limit: String,
    /// The first divided by the second.
    pub ratio: f64,
}

/// What the machine can do at best, measured before the run, and the broker's share of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LimitFacts {
    /// The limits.
    pub limits: Limits,
    /// What the broker reached of them.
    pub against: Vec<AgainstLimit>,
}
