//! Two loads or two brokers, run in turn: A B A B. A machine that changes its mood changes it for both.

use crate::cli::{self, Command, CompareArgs, RunArgs};
use crate::clock::Nanos;
use crate::exit::Exit;
use crate::histogram::Summary;
use crate::report::{Folder, RunReport};
use crate::run;
use crate::units::{format_count, format_nanos};
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Hiccups below this are everybody's.
const STALL: Nanos = 5_000_000;

/// A side whose hiccups are so many times the other's was measured on another machine, so to speak.
const STALL_RATIO: u64 = 4;

/// Runs both sides and prints medians and ratios.
pub fn execute(args: &CompareArgs, interrupted: &Arc<AtomicBool>) -> io::Result<Exit> {
    let sides = match (parse_side(&args.a), parse_side(&args.b)) {
        (Ok(a), Ok(b)) => [a, b],
        (Err(error), _) | (_, Err(error)) => {
            eprintln!("strandline-bench: {error}");
            return Ok(Exit::Usage);
        }
    };
    let folder = Folder::create(args.output.as_deref(), "compare")?;
    let mut reports: [Vec<RunReport>; 2] = [Vec::new(), Vec::new()];
    let (mut kept, mut dropped, mut pair) = (0, 0, 0);
    while kept < args.pairs && dropped <= args.pairs {
        pair += 1;
        for (side, name) in [(0, "a"), (1, "b")] {
            let mut options = sides[side].clone();
            options.output = Some(folder.path().join(format!("{name}-{pair}")));
            options.quiet = true;
            match run::run(&options, interrupted) {
                Ok(finished) => {
                    let verdict = &finished.report.verdict;
                    let word = if verdict.valid { "VALID" } else { "INVALID" };
                    eprintln!("{name} {pair}: {word} {}", verdict.reasons.join("; "));
                    reports[side].push(finished.report);
                }
                Err(error) => {
                    eprintln!("strandline-bench: side {name}: {error}");
                    return Ok(error.exit());
                }
            }
            if interrupted.load(Ordering::Relaxed) {
                return Ok(Exit::Invalid);
            }
        }
        let hiccups = |side: usize| reports[side].last().and_then(|report| report.hiccups);
        if stalled_alone(hiccups(0), hiccups(1)) {
            eprintln!("pair {pair} is dropped: the machine stalled during one side only");
            reports.iter_mut().for_each(|side| drop(side.pop()));
            dropped += 1;
        } else {
            kept += 1;
        }
    }
    if kept == 0 {
        eprintln!(
            "strandline-bench: no pair is left: this machine stalls too much to compare anything on it"
        );
        return Ok(Exit::Invalid);
    }
    print(&mut io::stdout().lock(), args, &reports)?;
    if dropped > 0 {
        println!("{dropped} pairs dropped, in which the machine stalled during one side only");
    }
    writeln!(io::stdout(), "results   {}", folder.path().display())?;
    Ok(worst_exit(&reports))
}

/// Whether the machine's hiccups set the two sides of a pair apart: at the 99.9th percentile one has a stall that counts, and the other
/// nothing like it.
fn stalled_alone(a: Option<Summary>, b: Option<Summary>) -> bool {
    let (Some(a), Some(b)) = (a, b) else { return false };
    let (less, more) = (a.p999_ns.min(b.p999_ns), a.p999_ns.max(b.p999_ns));
    more > STALL && more > STALL_RATIO * less
}

fn worst_exit(reports: &[Vec<RunReport>; 2]) -> Exit {
    let mut all = reports.iter().flatten();
    if all
        .clone()
        .any(|report| report.verification.as_ref().is_some_and(|found| !found.passed()))
    {
        Exit::VerificationFailed
    } else if all.any(|report| !report.verdict.valid) {
        Exit::Invalid
    } else {
        Exit::Ok
    }
}

/// Options as one would type them after `run`, split at white space.
fn parse_side(options: &str) -> Result<RunArgs, String> {
    let arguments = ["strandline-bench", "run"]
        .into_iter()
        .chain(options.split_whitespace());
    match cli::parse(arguments).map_err(|error| error.to_string())?.command {
        Command::Run(arguments) => Ok(*arguments),
        _ => Err(format!("`{options}` are not options of run")),
    }
}

/// One figure of both sides.
#[derive(Clone, Debug, PartialEq)]
struct Compared {
    a: f64,
    b: f64,
    /// The runs of the two sides overlap: their difference may be the machine's.
    inconclusive: bool,
}

impl Compared {
    /// `None` when a side has no such figure.
    fn of(mut a: Vec<f64>, mut b: Vec<f64>) -> Option<Self> {
        a.sort_by(f64::total_cmp);
        b.sort_by(f64::total_cmp);
        let overlap = a.first()? <= b.last()? && b.first()? <= a.last()?;
        Some(Self {
            a: median(&a),
            b: median(&b),
            inconclusive: overlap,
        })
    }
}

fn median(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 {
        sorted[middle]
    } else {
        (sorted[middle - 1] + sorted[middle]) / 2.0
    }
}

type Pick = fn(&RunReport) -> Option<f64>;

/// The rows of the table: latencies in nanoseconds, then the rate.
const LATENCIES: [(&str, Pick); 7] = [
    ("response p50", |report| {
        report.latency.response.map(|summary| summary.p50_ns as f64)
    }),
    ("response p90", |report| {
        report.latency.response.map(|summary| summary.p90_ns as f64)
    }),
    ("response p99", |report| {
        report.latency.response.map(|summary| summary.p99_ns as f64)
    }),
    ("response p99.9", |report| {
        report.latency.response.map(|summary| summary.p999_ns as f64)
    }),
    ("service p50", |report| {
        report.latency.service.map(|summary| summary.p50_ns as f64)
    }),
    ("service p99", |report| {
        report.latency.service.map(|summary| summary.p99_ns as f64)
    }),
    ("e2e p99", |report| {
        report.latency.end_to_end.map(|summary| summary.p99_ns as f64)
    }),
];

fn print(out: &mut impl Write, args: &CompareArgs, reports: &[Vec<RunReport>; 2]) -> io::Result<()> {
    for (name, options, reports) in [("A", &args.a, &reports[0]), ("B", &args.b, &reports[1])] {
        let durability = reports.first().map_or("", |report| &report.target.durability);
        let invalid = reports.iter().filter(|report| !report.verdict.valid).count();
        writeln!(
            out,
            "{name}  {options}\n   durable: {durability}; {} runs, {invalid} INVALID",
            reports.len()
        )?;
    }
    writeln!(
        out,
        "\n{:<18}{:>14}{:>14}{:>8}",
        "medians of runs", "A", "B", "B/A"
    )?;
    let figures = |pick: Pick| {
        let of = |side: &Vec<RunReport>| side.iter().filter_map(pick).collect::<Vec<f64>>();
        Compared::of(of(&reports[0]), of(&reports[1]))
    };
    for (name, pick) in LATENCIES {
        row(out, name, figures(pick), |value| format_nanos(value as u64))?;
    }
    row(
        out,
        "achieved",
        figures(|report| report.rates.achieved),
        |value| format!("{}/s", format_count(value.round() as u64)),
    )
}

fn row(
    out: &mut impl Write,
    name: &str,
    figures: Option<Compared>,
    format: impl Fn(f64) -> String,
) -> io::Result<()> {
    let Some(Compared { a, b, inconclusive }) = figures else {
        return writeln!(out, "{name:<18}{:>14}", "none");
    };
    let ratio = if a > 0.0 {
        format!("{:.2}", b / a)
    } else {
        "-".to_owned()
    };
    let note = if inconclusive {
        "  inconclusive: the runs overlap"
    } else {
        ""
    };
    writeln!(
        out,
        "{name:<18}{:>14}{:>14}{ratio:>8}{note}",
        format(a),
        format(b)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histogram::Latencies;

    #[test]
    fn medians_of_runs_and_overlap() {
        let apart = Compared::of(vec![3.0, 1.0, 2.0], vec![5.0, 4.0, 6.0, 7.0]).unwrap();
        assert_eq!(
            apart,
            Compared {
                a: 2.0,
                b: 5.5,
                inconclusive: false
            }
        );
        assert!(Compared::of(vec![1.0, 5.0], vec![4.0, 9.0]).unwrap().inconclusive);
        assert_eq!(Compared::of(vec![], vec![1.0]), None);
    }

    #[test]
    fn a_pair_with_a_stall_on_one_side_is_no_pair() {
        let with = |nanos: u64| {
            let mut latencies = Latencies::default();
            latencies.record_between(0, nanos);
            latencies.summary()
        };
        assert!(stalled_alone(with(600_000_000), with(1_000_000)));
        assert!(stalled_alone(with(1_000_000), with(6_000_000)));
        assert!(
            !stalled_alone(with(600_000_000), with(300_000_000)),
            "both had one"
        );
        assert!(
            !stalled_alone(with(4_000_000), with(100_000)),
            "too small to matter"
        );
        assert!(!stalled_alone(None, with(600_000_000)));
    }

    #[test]
    fn sides_are_options_of_run() {
        assert_eq!(parse_side("--rate 5k --acks 1").unwrap().acks, 1);
        assert!(parse_side("--rate 0").is_err());
    }
}
