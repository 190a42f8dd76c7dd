//! What is measured around a run: the peak before it, the machine's limits, and afterwards what the tool itself can do.

use super::{Finished, RunError, run_in};
use crate::cli::RunArgs;
use crate::limits::{self, Limits};
use crate::live::{self, Live};
use crate::report::{AgainstLimit, Calibration, Floor, Folder, LimitFacts, RunReport};
use crate::schedule::RateSpec;
use crate::target::ChildKind;
use crate::units::{format_count, format_megabytes, format_nanos};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long each limit is measured: short, since there are a dozen of them before a run that was asked for.
const LIMIT_EACH: Duration = Duration::from_millis(150);

/// How long a peak is looked for.
const PEAK_WARM_UP: Duration = Duration::from_secs(1);
const PEAK_DURATION: Duration = Duration::from_secs(3);

/// How long the tool and the floor are measured.
const CALIBRATION_WARM_UP: Duration = Duration::from_millis(500);
const CALIBRATION_DURATION: Duration = Duration::from_secs(2);

/// The parts of a run, as they are shown.
pub(super) const LIMITS: &str = "what this machine can do at best";
pub(super) const PEAK: &str = "the peak: the same load in a closed loop";
pub(super) const RUN: &str = "the run";
const TOOL: &str = "what the tool can do: the null broker, closed loop";
const FLOOR: &str = "the floor of a durable acknowledgement: the reference broker";

/// Which of them a run with `args` has.
pub(super) fn steps(args: &RunArgs) -> Vec<&'static str> {
    let has_peak = matches!(args.rate, RateSpec::OfPeak(_));
    [
        (LIMITS, args.limits),
        (PEAK, has_peak),
        (RUN, true),
        (TOOL, args.calibrate),
        (FLOOR, args.calibrate),
    ]
    .into_iter()
    .filter_map(|(step, wanted)| wanted.then_some(step))
    .collect()
}

pub(super) fn measure_limits(folder: &Folder) -> Result<Limits, RunError> {
    limits::measure(folder.path(), LIMIT_EACH).map_err(RunError::io("measuring the limits"))
}

/// Records a second of the same load in a closed loop, against the broker at `bootstrap`.
pub(crate) fn find_peak(
    args: &RunArgs,
    bootstrap: &str,
    folder: &Folder,
    interrupted: &Arc<AtomicBool>,
    live: &Live,
) -> Result<f64, RunError> {
    let closed = RunArgs {
        bootstrap_server: Some(bootstrap.to_owned()),
        topic: None,
        keep_topic: false,
        start_at: None,
        warm_up: Some(PEAK_WARM_UP),
        duration: Some(PEAK_DURATION),
        ..closed_loop(args, folder, "peak")
    };
    let finished = run_in(&closed, interrupted, &live.within())?;
    match finished.report.rates.achieved {
        Some(rate) if rate >= 1.0 => Ok(rate),
        _ => Err(RunError::Target(format!(
            "no peak was found: {}",
            finished.report.verdict.reasons.join("; ")
        ))),
    }
}

/// The same load as fast as it goes, without anything around it.
fn closed_loop(args: &RunArgs, folder: &Folder, name: &str) -> RunArgs {
    RunArgs {
        rate: RateSpec::Max,
        no_verify: true,
        consumers: None,
        groups: 0,
        num_records: None,
        ..plain(args, folder, name)
    }
}

/// The same load without anything around it, with its results below `folder`.
fn plain(args: &RunArgs, folder: &Folder, name: &str) -> RunArgs {
    RunArgs {
        limits: false,
        calibrate: false,
        quiet: true,
        json: false,
        fail_if: Vec::new(),
        output: Some(folder.path().join(name)),
        name: name.to_owned(),
        load: None,
        ..args.clone()
    }
}

/// What the tool can do against a broker that does nothing, and what a durable acknowledgement costs at least. A step that cannot be
/// done says why and leaves its figure out: the run itself stands.
pub(super) fn calibrate(
    args: &RunArgs,
    report: &RunReport,
    folder: &Folder,
    interrupted: &Arc<AtomicBool>,
    live: &Live,
) -> Calibration {
    let mut calibration = Calibration::default();
    let own = RunArgs {
        bootstrap_server: None,
        broker_binary: None,
        broker_arg: Vec::new(),
        command_config: None,
        topic: None,
        start_at: None,
        topic_config: Vec::new(),
        keep_topic: false,
        no_verify: true,
        consumers: None,
        groups: 0,
        num_records: None,
        warm_up: Some(CALIBRATION_WARM_UP),
        duration: Some(CALIBRATION_DURATION),
        ..args.clone()
    };
    let attempt = |what: &str, args: &RunArgs| -> Option<Finished> {
        live.step(what);
        if interrupted.load(Ordering::Relaxed) {
            return None;
        }
        run_in(args, interrupted, &live.within())
            .map_err(|error| live::say(format!("{what}: {error}")))
            .ok()
    };
    let null = RunArgs {
        broker: ChildKind::Null,
        ..closed_loop(&own, folder, "calibration-tool")
    };
    if let Some(finished) = attempt(TOOL, &null) {
        calibration.tool_peak = finished.report.rates.achieved;
        calibration.headroom = match (finished.report.rates.achieved, report.rates.achieved) {
            (Some(peak), Some(achieved)) if achieved > 0.0 => Some(peak / achieved),
            _ => None,
        };
    }
    let floor = RunArgs {
        broker: ChildKind::NullDurable,
        ..plain(&own, folder, "calibration-floor")
    };
    if let Some(finished) = attempt(FLOOR, &floor) {
        calibration.floor = Some(Floor {
            valid: finished.report.verdict.valid,
            achieved: finished.report.rates.achieved,
            response: finished.report.latency.response,
        });
    }
    calibration
}

/// Holds what the broker did against what the machine can do.
pub(super) fn against(limits: Limits, report: &RunReport) -> LimitFacts {
    let mut against = Vec::new();
    let durable = report.target.durability.starts_with("yes");
    let achieved = report.rates.achieved.unwrap_or(0.0) * report.load.record_bytes as f64;
    let bytes = |what: &str, limit: f64| AgainstLimit {
        what: what.to_owned(),
        broker: format_megabytes(achieved),
        limit: format_megabytes(limit),
        ratio: achieved / limit,
    };
    if durable {
        let ceiling = limits
            .durable
            .iter()
            .map(|commit| commit.bytes_per_second.median)
            .fold(0.0, f64::max);
        against.push(bytes(
            "acknowledged ÷ durable bytes, one write and flush in flight",
            ceiling,
        ));
    } else {
        against.push(bytes(
            "acknowledged ÷ sequential write, not flushed",
            limits.sequential_write.median,
        ));
    }
    against.push(bytes(
        "acknowledged ÷ loopback, one connection",
        limits.loopback_stream.median,
    ));
    if let Some(response) = report.latency.response {
        let flush = limits.durable.first().map_or(0, |commit| commit.p50_ns);
        let round_trip = limits.loopback_round_trip_ns.median;
        let (what, least) = if durable {
            (
                "ack p50 ÷ (write + flush of 4 KiB + round trip)",
                flush as f64 + round_trip,
            )
        } else {
            ("ack p50 ÷ round trip", round_trip)
        };
        against.push(AgainstLimit {
            what: what.to_owned(),
            broker: format_nanos(response.p50_ns),
            limit: format_nanos(least as u64),
            ratio: response.p50_ns as f64 / least,
        });
    }
    if let (Some(cpu), true) = (report.target.cpu_ns, report.tool.records > 0) {
        // One copy and one checksum of the value are the least that a broker does with it.
        let least = 1e9
            * report.load.record_bytes as f64
            * (1.0 / limits.memory_copy.median + 1.0 / limits.crc32c.median);
        let each = cpu as f64 / report.tool.records as f64;
        against.push(AgainstLimit {
            what: "broker CPU a record ÷ (one copy + one CRC32C of its value)".to_owned(),
            broker: format!("{} ns", format_count(each.round() as u64)),
            limit: format!("{} ns", format_count(least.round().max(1.0) as u64)),
            ratio: each / least,
        });
    }
    against.retain(|row| row.ratio.is_finite());
    LimitFacts { limits, against }
}
