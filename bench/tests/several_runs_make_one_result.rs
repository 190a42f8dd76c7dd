//! `sweep` finds the highest rate that meets a goal; `merge` makes one result of runs that began together.

// Helpers of tests may unwrap as tests do.
#![allow(clippy::unwrap_used)]

mod support;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use strandline_bench::cli::{self, Command};
use strandline_bench::histogram::Latencies;
use strandline_bench::merge::{merge, read_log};
use strandline_bench::null_broker::NullBroker;
use strandline_bench::report::{RunReport, load};
use strandline_bench::run::run;
use strandline_bench::sweep::{Purpose, sweep};

fn never() -> Arc<AtomicBool> {
    Arc::new(AtomicBool::new(false))
}

#[test]
fn a_sweep_finds_the_highest_rate_that_holds() {
    let broker = support::brokers(1);
    let folder = tempfile::tempdir().unwrap();
    let bootstrap = broker.addresses()[0].to_string();
    let output = folder.path().display().to_string();
    // Every rate of these meets a goal of an hour, none a goal of a nanosecond.
    for (slo, found) in [("response.p50<1h", Some(800.0)), ("response.p50<1ns", None)] {
        let arguments = [
            "strandline-bench",
            "sweep",
            "--quiet",
            "-b",
            &bootstrap,
            "--output",
            &output,
            "--slo",
            slo,
            "--rates",
            "800",
            "400",
            "--duration",
            "300ms",
            "--warm-up",
            "0",
            "--partitions",
            "2",
        ];
        let Command::Sweep(args) = cli::parse(arguments).unwrap().command else {
            unreachable!("the command is sweep")
        };
        let (report, folder) = sweep(&args, &never()).unwrap();
        let goal = report.goal.unwrap();
        assert_eq!((goal.slo, goal.rate), (vec![slo.to_owned()], found));
        let of = |purpose| {
            report
                .points
                .iter()
                .filter(|point| point.purpose == purpose)
                .count()
        };
        assert_eq!(of(Purpose::Curve), 2);
        assert_eq!(of(Purpose::Confirmation), if found.is_some() { 2 } else { 0 });
        assert!(report.points.is_sorted_by(|a, b| a.rate <= b.rate));
        assert!(
            report
                .points
                .iter()
                .all(|point| point.response.unwrap().count > 0)
        );
        let page = std::fs::read_to_string(folder.path().join("sweep.html")).unwrap();
        assert!(page.contains("latency-over-rate") && !page.contains("<script"));
        assert!(page.contains(r#"data-line="response p99""#));
        let csv = std::fs::read_to_string(folder.path().join("sweep.csv")).unwrap();
        assert_eq!(csv.lines().count(), report.points.len() + 1);
    }
}

/// Two runs of one topic that begin together, as two hosts would make them.
fn together(broker: &NullBroker, folder: &Path, second_starts_later: bool) -> Vec<PathBuf> {
    let bootstrap = broker.addresses()[0].to_string();
    let mut threads = Vec::new();
    for name in ["a", "b"] {
        let output = folder.join(name);
        let start = if second_starts_later && name == "b" {
            "+3s"
        } else {
            "+500ms"
        };
        let text = output.display().to_string();
        let arguments = [
            "strandline-bench",
            "run",
            "--quiet",
            "-b",
            &bootstrap,
            "--output",
            &text,
            "--topic",
            "shared",
            "--keep-topic",
            "--start-at",
            start,
            "--rate",
            "1k",
            "--warm-up",
            "200ms",
            "--duration",
            "1200ms",
            "--partitions",
            "2",
        ];
        let Command::Run(args) = cli::parse(arguments).unwrap().command else {
            unreachable!("the command is run")
        };
        threads.push(std::thread::spawn(move || {
            run(&args, &never()).unwrap();
            output
        }));
    }
    threads.into_iter().map(|thread| thread.join().unwrap()).collect()
}

#[test]
fn merged_percentiles_are_those_of_all_samples_together() {
    let broker = support::brokers(1);
    let folder = tempfile::tempdir().unwrap();
    let runs = together(&broker, folder.path(), false);
    let (report, output) = merge(&runs, Some(&folder.path().join("merged"))).unwrap();
    let mut all = Latencies::default();
    for run in &runs {
        for ((tag, _), latencies) in read_log(&run.join("latency.hlog")).unwrap() {
            if tag == "response" {
                all.merge(&latencies);
            }
        }
    }
    assert_eq!(report.latency.response, all.summary());
    assert_eq!(report.latency.response.unwrap().count, 2400);
    assert_eq!(
        (report.records.offered, report.rates.offered),
        (2400, Some(2000.0))
    );
    assert!(report.verification.as_ref().unwrap().passed());
    assert!(report.verdict.valid, "{:?}", report.verdict);
    let acknowledged: u64 = report.timeline.iter().map(|row| row.acknowledged).sum();
    assert_eq!(acknowledged, 2800, "the warm-up is in the timeline");
    let by_second: u64 = report
        .timeline
        .iter()
        .filter_map(|row| row.response)
        .map(|summary| summary.count)
        .sum();
    assert_eq!(by_second, 2400);
    assert_eq!(
        report
            .partitions
            .iter()
            .map(|facts| facts.acknowledged)
            .sum::<u64>(),
        2400
    );
    assert_eq!(load(output.path()).unwrap().name, "merged");
}

#[test]
fn runs_that_did_not_begin_together_are_no_result() {
    let broker = support::brokers(1);
    let folder = tempfile::tempdir().unwrap();
    let runs = together(&broker, folder.path(), true);
    let report: RunReport = merge(&runs, Some(&folder.path().join("merged"))).unwrap().0;
    assert!(!report.verdict.valid);
    assert!(
        report.verdict.reasons[0].contains("s apart"),
        "{:?}",
        report.verdict
    );
    assert!(merge(&[folder.path().join("missing")], None).is_err());
}
