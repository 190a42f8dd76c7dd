//! The whole curve of latency over rate, and the highest rate that meets a goal.

use crate::cli::{RunArgs, SweepArgs};
use crate::exit::Exit;
use crate::fail_if::Metric;
use crate::histogram::Summary;
use crate::live::Live;
use crate::machine::Machine;
use crate::report::{Folder, RunReport, sweep_page};
use crate::run::{self, RunError};
use crate::schedule::RateSpec;
use crate::target::ChildBroker;
use crate::units::{format_byte_rate, format_count, format_nanos};
use serde::{Deserialize, Serialize};
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The version of the shape of `sweep.json`.
pub const SWEEP_SCHEMA_VERSION: u32 = 1;

/// The bisection ends when the rates that meet the goal and that do not are closer than this.
const RESOLUTION: f64 = 0.03;

/// It ends after so many runs anyway.
const BISECTIONS_MAX: u32 = 8;

/// A rate that was found must hold in so many more runs.
const CONFIRMATIONS: u32 = 2;

/// A rate that was not confirmed is lowered by this, so many times.
const STEP_DOWN: f64 = 0.05;
const STEPS_DOWN_MAX: u32 = 5;

/// After so many rates in turn that the broker did not keep up with, higher ones tell nothing.
const INVALID_MAX: u32 = 2;

/// The result of a sweep, as `sweep.json` holds it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SweepReport {
    /// [`SWEEP_SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Where it ran.
    pub machine: Machine,
    /// What an acknowledgement promises on the target.
    pub durability: String,
    /// Bytes of a value, in the mean.
    pub record_bytes: usize,
    /// The peak of the closed loop, if one was looked for.
    pub peak: Option<f64>,
    /// All runs, by rate.
    pub points: Vec<SweepPoint>,
    /// What was asked of the goal, if there was one.
    pub goal: Option<Goal>,
}

/// One run of a sweep.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SweepPoint {
    /// Records a second offered.
    pub rate: f64,
    /// Records a second acknowledged.
    pub achieved: Option<f64>,
    /// Whether the run was VALID and verified.
    pub valid: bool,
    /// Why not.
    pub reasons: Vec<String>,
    /// Whether it met the goal.
    pub meets_goal: Option<bool>,
    /// Acknowledgement minus intended time.
    pub response: Option<Summary>,
    /// Receipt minus intended time.
    pub end_to_end: Option<Summary>,
    /// How late the machine woke a sleeper.
    pub hiccups: Option<Summary>,
    /// What it was for.
    pub purpose: Purpose,
}

/// Why a run of a sweep was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Purpose {
    /// A point of the curve.
    Curve,
    /// Looking for the highest rate.
    Bisection,
    /// Looking whether it holds again.
    Confirmation,
}

/// The goal and what came of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Goal {
    /// The conditions.
    pub slo: Vec<String>,
    /// The highest rate that met it in all its runs; missing when none did.
    pub rate: Option<f64>,
}

/// Where the search stands: pure, so that it can be tested without a broker.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Bracket {
    /// The highest rate that met the goal.
    met: Option<f64>,
    /// The lowest rate that did not.
    missed: Option<f64>,
}

impl Bracket {
    fn of(points: &[SweepPoint]) -> Self {
        let missed = points
            .iter()
            .filter(|point| point.meets_goal == Some(false))
            .map(|point| point.rate)
            .min_by(f64::total_cmp);
        let met = points
            .iter()
            .filter(|point| point.meets_goal == Some(true))
            .map(|point| point.rate)
            // What holds above a rate that does not is luck.
            .filter(|rate| missed.is_none_or(|missed| *rate < missed))
            .max_by(f64::total_cmp);
        Self { met, missed }
    }

    /// The next rate to try; `None` when the bracket is narrow enough or has only one side.
    fn next(&self) -> Option<f64> {
        match (self.met, self.missed) {
            (Some(met), Some(missed)) if missed / met - 1.0 > RESOLUTION => {
                Some(((met * missed).sqrt()).round())
            }
            _ => None,
        }
    }
}

struct Sweep<'a> {
    args: &'a SweepArgs,
    base: RunArgs,
    folder: Folder,
    interrupted: &'a Arc<AtomicBool>,
    points: Vec<SweepPoint>,
    last: Option<RunReport>,
}

/// Runs a sweep and prints it.
pub fn execute(args: &SweepArgs, interrupted: &Arc<AtomicBool>) -> io::Result<Exit> {
    match sweep(args, interrupted) {
        Ok((report, folder)) => {
            print(&mut io::stdout().lock(), &report, &folder, args.run.json)?;
            let nothing_valid = !report.points.iter().any(|point| point.valid);
            let goal_missed = report.goal.as_ref().is_some_and(|goal| goal.rate.is_none());
            Ok(if nothing_valid || interrupted.load(Ordering::Relaxed) {
                Exit::Invalid
            } else if goal_missed {
                Exit::FailIf
            } else {
                Exit::Ok
            })
        }
        Err(error) => {
            eprintln!("strandline-bench: {error}");
            Ok(error.exit())
        }
    }
}

/// Runs a sweep.
pub fn sweep(args: &SweepArgs, interrupted: &Arc<AtomicBool>) -> Result<(SweepReport, Folder), RunError> {
    args.run.check().map_err(RunError::Usage)?;
    run::build_broker(&args.run)?;
    let folder = Folder::create(args.run.output.as_deref(), &args.run.name)
        .map_err(RunError::io("the results' folder"))?;
    let child = run::start_broker(&args.run, &folder)?;
    let bootstrap = match (&args.run.bootstrap_server, &child) {
        (Some(named), _) => Some(named.clone()),
        (None, child) => child.as_ref().map(ChildBroker::bootstrap),
    };
    let base = RunArgs {
        bootstrap_server: bootstrap,
        quiet: true,
        json: false,
        limits: false,
        calibrate: false,
        ..args.run.clone()
    };
    let mut sweep = Sweep {
        args,
        base,
        folder,
        interrupted,
        points: Vec::new(),
        last: None,
    };
    let result = sweep.run();
    if let Some(mut child) = child
        && let Err(error) = child.stop()
    {
        eprintln!("removing the broker's data: {error}");
    }
    let report = result?;
    let write = || -> io::Result<()> {
        let path = sweep.folder.path();
        std::fs::write(path.join("sweep.json"), serde_json::to_vec_pretty(&report)?)?;
        std::fs::write(path.join("sweep.csv"), csv(&report))?;
        std::fs::write(path.join("sweep.html"), sweep_page(&report))
    };
    write().map_err(RunError::io(format!(
        "writing to {}",
        sweep.folder.path().display()
    )))?;
    Ok((report, sweep.folder))
}

impl Sweep<'_> {
    fn run(&mut self) -> Result<SweepReport, RunError> {
        let mut peak = None;
        let rates: Vec<f64> = if self.args.rates.is_empty() {
            let bootstrap = self.base.bootstrap_server.clone().unwrap_or_default();
            let live = Live::start(&self.base, &[]);
            let found = run::find_peak(&self.base, &bootstrap, &self.folder, self.interrupted, &live)?;
            peak = Some(found);
            self.say(format_args!(
                "peak      {} records/s in a closed loop",
                format_count(found as u64)
            ));
            (1..=self.args.points)
                .map(|n| {
                    (found * f64::from(n) / f64::from(self.args.points))
                        .round()
                        .max(1.0)
                })
                .collect()
        } else {
            let mut rates: Vec<f64> = self
                .args
                .rates
                .iter()
                .map(|rate| rate.records(self.base.record_size.mean()))
                .collect();
            rates.sort_by(f64::total_cmp);
            rates
        };
        let mut invalid = 0;
        for rate in rates {
            let point = self.measure(rate, Purpose::Curve)?;
            invalid = if point { 0 } else { invalid + 1 };
            if invalid == INVALID_MAX || self.is_interrupted() {
                break;
            }
        }
        let goal = if self.args.slo.is_empty() {
            None
        } else {
            Some(Goal {
                slo: self.args.slo.iter().map(|slo| slo.text().to_owned()).collect(),
                rate: self.find_goal()?,
            })
        };
        self.points.sort_by(|a, b| a.rate.total_cmp(&b.rate));
        let last = self.last.take();
        Ok(SweepReport {
            schema_version: SWEEP_SCHEMA_VERSION,
            machine: Machine::look(self.folder.path()),
            durability: last.map_or_else(|| "unknown".to_owned(), |report| report.target.durability),
            record_bytes: self.base.record_size.mean().round() as usize,
            peak,
            points: self.points.clone(),
            goal,
        })
    }

    fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    fn say(&self, text: std::fmt::Arguments<'_>) {
        if !self.args.run.quiet && !self.args.run.json {
            eprintln!("{text}");
        }
    }

    /// The highest rate that meets the goal, and does again.
    fn find_goal(&mut self) -> Result<Option<f64>, RunError> {
        for _ in 0..BISECTIONS_MAX {
            let Some(rate) = Bracket::of(&self.points).next() else {
                break;
            };
            if self.is_interrupted() {
                return Ok(None);
            }
            self.measure(rate, Purpose::Bisection)?;
        }
        let Some(mut rate) = Bracket::of(&self.points).met else {
            return Ok(None);
        };
        for _ in 0..=STEPS_DOWN_MAX {
            let mut held = 0;
            while held < CONFIRMATIONS && !self.is_interrupted() {
                self.measure(rate, Purpose::Confirmation)?;
                if self.points.last().and_then(|point| point.meets_goal) != Some(true) {
                    break;
                }
                held += 1;
            }
            if held == CONFIRMATIONS {
                return Ok(Some(rate));
            }
            if self.is_interrupted() {
                return Ok(None);
            }
            rate = (rate * (1.0 - STEP_DOWN)).round();
        }
        Ok(None)
    }

    /// One run; whether the broker kept up.
    fn measure(&mut self, rate: f64, purpose: Purpose) -> Result<bool, RunError> {
        let name = format!("{:02}-{}", self.points.len() + 1, rate as u64);
        let args = RunArgs {
            rate: RateSpec::constant(rate),
            output: Some(self.folder.path().join(&name)),
            name,
            ..self.base.clone()
        };
        let finished = run::run(&args, self.interrupted)?;
        let report = finished.report;
        let verified = report.verification.as_ref().is_none_or(|found| found.passed());
        let valid = report.verdict.valid && verified;
        let meets_goal = (!self.args.slo.is_empty()).then(|| {
            valid
                && self
                    .args
                    .slo
                    .iter()
                    .all(|slo| slo.holds(summary(&report, slo.metric)) == Some(true))
        });
        let p99 = report
            .latency
            .response
            .map_or_else(|| "none".to_owned(), |summary| format_nanos(summary.p99_ns));
        self.say(format_args!(
            "{:>12} records/s  {}  response p99 {p99}{}",
            format_count(rate as u64),
            if valid { "VALID  " } else { "INVALID" },
            match meets_goal {
                Some(true) => ", meets the goal",
                Some(false) => ", misses the goal",
                None => "",
            }
        ));
        self.points.push(SweepPoint {
            rate,
            achieved: report.rates.achieved,
            valid,
            reasons: report.verdict.reasons.clone(),
            meets_goal,
            response: report.latency.response,
            end_to_end: report.latency.end_to_end,
            hiccups: report.hiccups,
            purpose,
        });
        self.last = Some(report);
        Ok(valid)
    }
}

fn summary(report: &RunReport, metric: Metric) -> Option<&Summary> {
    match metric {
        Metric::Response => report.latency.response.as_ref(),
        Metric::Service => report.latency.service.as_ref(),
        Metric::Lag => report.latency.lag.as_ref(),
        Metric::EndToEnd => report.latency.end_to_end.as_ref(),
    }
}

fn csv(report: &SweepReport) -> String {
    let mut text = String::from(
        "rate,achieved,valid,meets_goal,purpose,response_p50_ns,response_p99_ns,response_p999_ns,e2e_p50_ns,e2e_p99_ns,e2e_p999_ns\n",
    );
    for point in &report.points {
        let of = |summary: &Option<Summary>| {
            summary.map_or_else(
                || ",,".to_owned(),
                |summary| format!("{},{},{}", summary.p50_ns, summary.p99_ns, summary.p999_ns),
            )
        };
        text.push_str(&format!(
            "{},{},{},{},{:?},{},{}\n",
            point.rate,
            point.achieved.map_or_else(String::new, |rate| rate.to_string()),
            point.valid,
            point.meets_goal.map_or_else(String::new, |met| met.to_string()),
            point.purpose,
            of(&point.response),
            of(&point.end_to_end)
        ));
    }
    text
}

fn print(out: &mut impl Write, report: &SweepReport, folder: &Folder, json: bool) -> io::Result<()> {
    if json {
        serde_json::to_writer_pretty(&mut *out, report)?;
        return writeln!(out);
    }
    writeln!(out, "durable   {}", report.durability)?;
    writeln!(
        out,
        "\n{:>12}{:>12}  {:<8}{:>10}{:>10}{:>10}{:>10}{:>10}",
        "rate/s", "achieved/s", "", "p50", "p99", "p99.9", "e2e p99", "hiccups"
    )?;
    for point in &report.points {
        let time = |summary: &Option<Summary>, value: fn(&Summary) -> u64| {
            summary
                .as_ref()
                .map_or_else(|| "none".to_owned(), |summary| format_nanos(value(summary)))
        };
        writeln!(
            out,
            "{:>12}{:>12}  {:<8}{:>10}{:>10}{:>10}{:>10}{:>10}",
            format_count(point.rate as u64),
            point
                .achieved
                .map_or_else(|| "none".to_owned(), |rate| format_count(rate.round() as u64)),
            if point.valid { "VALID" } else { "INVALID" },
            time(&point.response, |summary| summary.p50_ns),
            time(&point.response, |summary| summary.p99_ns),
            time(&point.response, |summary| summary.p999_ns),
            time(&point.end_to_end, |summary| summary.p99_ns),
            time(&point.hiccups, |summary| summary.p99_ns)
        )?;
    }
    if let Some(goal) = &report.goal {
        let goal_text = goal.slo.join(" and ");
        match goal.rate {
            Some(rate) => writeln!(
                out,
                "\n{goal_text} holds up to {} records/s = {}, confirmed by {CONFIRMATIONS} more runs",
                format_count(rate as u64),
                format_byte_rate(rate * report.record_bytes as f64)
            )?,
            None => writeln!(out, "\n{goal_text} holds at no rate that was tried")?,
        }
    }
    writeln!(out, "results   {}", folder.path().display())?;
    writeln!(out, "report    {}", folder.path().join("sweep.html").display())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(of: &[(f64, bool)]) -> Vec<SweepPoint> {
        of.iter()
            .map(|&(rate, met)| SweepPoint {
                rate,
                achieved: None,
                valid: true,
                reasons: Vec::new(),
                meets_goal: Some(met),
                response: None,
                end_to_end: None,
                hiccups: None,
                purpose: Purpose::Curve,
            })
            .collect()
    }

    #[test]
    fn the_bracket_narrows_to_the_highest_rate_that_holds() {
        let limit = 4_321.0;
        let mut tried = points(&[(1000.0, true), (10_000.0, false)]);
        let mut runs = 0;
        while let Some(rate) = Bracket::of(&tried).next() {
            tried.extend(points(&[(rate, rate <= limit)]));
            runs += 1;
        }
        let found = Bracket::of(&tried);
        assert!(found.met.unwrap() <= limit && found.met.unwrap() > limit * (1.0 - RESOLUTION));
        assert!(runs <= BISECTIONS_MAX, "{runs}");
    }

    #[test]
    fn luck_above_a_failure_does_not_count() {
        let found = Bracket::of(&points(&[(1.0, true), (2.0, false), (3.0, true)]));
        assert_eq!((found.met, found.missed), (Some(1.0), Some(2.0)));
        assert_eq!(Bracket::of(&points(&[(1.0, false)])).next(), None);
        assert_eq!(Bracket::of(&points(&[(1.0, true)])).next(), None);
    }
}
