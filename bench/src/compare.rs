//! Two loads or two brokers, run in turn: A B A B. A machine that changes its mood changes it for both.

use crate::cli::{self, Command, CompareArgs, RunArgs};
use crate::clock::Nanos;
use crate::exit::Exit;
use crate::histogram::Summary;
use crate::report::{Folder, RunReport};
use crate::run;
use crate::statistics::{Answer, Comparison, PAIRS_MIN};
use crate::units::{format_count, format_nanos};
use serde::Serialize;
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
    let rows = rows(&reports);
    print(&mut io::stdout().lock(), args, &reports, &rows)?;
    std::fs::write(
        folder.path().join("compare.json"),
        serde_json::to_vec_pretty(&rows)?,
    )?;
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

/// One figure of both sides.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Row {
    name: &'static str,
    /// Nanoseconds, or records a second.
    is_time: bool,
    /// The medians of the runs.
    a: Option<f64>,
    b: Option<f64>,
    comparison: Option<Comparison>,
}

impl Row {
    fn of(name: &'static str, is_time: bool, pick: Pick, reports: &[Vec<RunReport>; 2]) -> Self {
        let of = |side: usize| reports[side].iter().map(pick).collect::<Vec<Option<f64>>>();
        let (a, b) = (of(0), of(1));
        // A pair counts when both of its runs have the figure.
        let (of_a, of_b): (Vec<f64>, Vec<f64>) = a.iter().zip(&b).filter_map(|(a, b)| a.zip(*b)).unzip();
        Self {
            name,
            is_time,
            a: median(a.into_iter().flatten().collect()),
            b: median(b.into_iter().flatten().collect()),
            comparison: Comparison::of(&of_a, &of_b),
        }
    }
}

fn rows(reports: &[Vec<RunReport>; 2]) -> Vec<Row> {
    let times = LATENCIES
        .iter()
        .map(|(name, pick)| Row::of(name, true, *pick, reports));
    times
        .chain([Row::of(
            "achieved",
            false,
            |report| report.rates.achieved,
            reports,
        )])
        .collect()
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(values[middle]),
        _ => Some((values[middle - 1] + values[middle]) / 2.0),
    }
}

fn print(
    out: &mut impl Write,
    args: &CompareArgs,
    reports: &[Vec<RunReport>; 2],
    rows: &[Row],
) -> io::Result<()> {
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
        "\n{:<18}{:>12}{:>12}{:>8}  {:<18}",
        "medians of runs", "A", "B", "B/A", "95% interval"
    )?;
    for row in rows {
        let interval = row.comparison.map_or_else(String::new, |comparison| {
            if comparison.high.is_finite() {
                format!("{:.2} to {:.2}", comparison.low, comparison.high)
            } else {
                format!("needs {PAIRS_MIN} pairs")
            }
        });
        let format = |value: Option<f64>| match value {
            None => "none".to_owned(),
            Some(value) if row.is_time => format_nanos(value as u64),
            Some(value) => format!("{}/s", format_count(value.round() as u64)),
        };
        writeln!(
            out,
            "{:<18}{:>12}{:>12}{:>8}  {interval:<18}{}",
            row.name,
            format(row.a),
            format(row.b),
            row.comparison
                .map_or_else(|| "-".to_owned(), |comparison| format!("{:.2}", comparison.ratio)),
            row.comparison
                .map_or_else(String::new, |comparison| answer(&comparison))
        )?;
    }
    writeln!(
        out,
        "\nEach row holds with 95%; of {} rows of two equal sides one in {} or so is called different all the same.",
        rows.len(),
        20
    )
}

/// What the interval says, in words.
fn answer(comparison: &Comparison) -> String {
    let percent = |ratio: f64| ((ratio - 1.0).abs() * 100.0).round();
    match comparison.answer {
        Answer::Same => "the same within 5%".to_owned(),
        Answer::Inconclusive => "inconclusive".to_owned(),
        Answer::Different if comparison.ratio > 1.0 => format!(
            "B is higher by {} to {}%",
            percent(comparison.low),
            percent(comparison.high)
        ),
        Answer::Different => format!(
            "B is lower by {} to {}%",
            percent(comparison.high),
            percent(comparison.low)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histogram::Latencies;

    #[test]
    fn medians_and_answers_in_words() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![5.0, 4.0, 6.0, 7.0]), Some(5.5));
        assert_eq!(median(vec![]), None);
        let said = |b: [f64; 4]| answer(&Comparison::of(&[10.0; 4], &b).unwrap());
        assert_eq!(said([8.0; 4]), "B is lower by 20 to 20%");
        assert_eq!(said([13.0; 4]), "B is higher by 30 to 30%");
        assert_eq!(said([10.0; 4]), "the same within 5%");
        assert_eq!(said([5.0, 20.0, 10.0, 12.0]), "inconclusive");
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
