//! Reports of people who used load generators, as rules with right values: rates that cannot be reached, warm-ups that leak.

// Helpers of tests may unwrap as tests do.
#![allow(clippy::unwrap_used)]

mod support;

use std::time::Duration;
use strandline_bench::exit::Exit;
use strandline_bench::null_broker::{NullBroker, NullBrokerOptions, Pause};
use strandline_bench::report::{Phase, print};

fn broker(pause: Option<Pause>) -> NullBroker {
    NullBroker::start(&NullBrokerOptions {
        retain_bytes: 0,
        pause,
        ..support::options()
    })
    .unwrap()
}

/// A tool that was asked for more than it can send says so, in large letters, with both rates, and who was short.
#[test]
fn a_rate_out_of_reach_is_invalid_and_names_who_was_short() {
    let folder = tempfile::tempdir().unwrap();
    let broker = broker(None);
    let finished = support::finish(
        &broker,
        folder.path(),
        "--rate 100M --record-size 100 --warm-up 0 --duration 300ms --partitions 2",
    );
    assert_eq!(finished.exit, Exit::Invalid);
    let report = &finished.report;
    assert_eq!(report.records.offered, 30_000_000);
    assert!(report.rates.achieved.unwrap() < report.rates.offered.unwrap());
    let mut text = Vec::new();
    print(&mut text, report, folder.path()).unwrap();
    let text = String::from_utf8(text).unwrap();
    for part in ["*** INVALID ***", "offered   100,000,000 records/s", "achieved  "] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(
        report
            .verdict
            .reasons
            .iter()
            .any(|reason| reason.contains("achieved")),
        "{:?}",
        report.verdict
    );
}

/// A rate that can be reached holds in every second, the first one included, and the warm-up has the same.
#[test]
fn a_rate_within_reach_holds_in_every_second() {
    let folder = tempfile::tempdir().unwrap();
    let broker = broker(None);
    let report = support::finish(
        &broker,
        folder.path(),
        "--rate 1k --warm-up 1s --duration 3s --partitions 3",
    )
    .report;
    let seconds: Vec<(Phase, u64)> = report
        .timeline
        .iter()
        .filter(|row| row.phase != Phase::Drain)
        .map(|row| (row.phase, row.acknowledged))
        .collect();
    assert_eq!(
        seconds,
        [
            (Phase::WarmUp, 1000),
            (Phase::Measured, 1000),
            (Phase::Measured, 1000),
            (Phase::Measured, 1000)
        ]
    );
}

/// Whatever the rate, as long as it is within reach: what was sent is what was asked for, to a thousandth, and so is what the broker counts.
#[test]
fn rates_are_kept_to_a_thousandth() {
    for (rate, asked, seconds) in [("125", 125.0, 4.0), ("3k", 3000.0, 2.0), ("2MB/s", 20_000.0, 2.0)] {
        let folder = tempfile::tempdir().unwrap();
        let broker = broker(None);
        let options = format!(
            "--rate {rate} --record-size 100 --warm-up 0 --duration {seconds}s --partitions 5 --producers 2"
        );
        let finished = support::finish(&broker, folder.path(), &options);
        let report = &finished.report;
        assert_eq!(finished.exit, Exit::Ok, "{rate}: {:?}", report.verdict);
        let rates = [
            report.rates.offered.unwrap(),
            report.rates.achieved.unwrap(),
            broker.records() as f64 / seconds,
        ];
        for of in rates {
            assert!((of / asked - 1.0).abs() <= 0.001, "{rate}: {rates:?}");
        }
    }
}

/// The tool is starved: it gets the processor for 5 of every 100 ms. With room in its window it falls behind, and says that it did.
#[test]
fn a_starved_sender_is_invalid_and_blames_itself() {
    let folder = tempfile::tempdir().unwrap();
    let broker = broker(None);
    let bootstrap = broker.addresses()[0].to_string();
    let output = folder.path().join("run");
    let mut tool = std::process::Command::new(env!("CARGO_BIN_EXE_strandline-bench"))
        .args(["run", "-b", &bootstrap, "--rate", "300k", "--record-size", "100"])
        .args([
            "--warm-up",
            "0",
            "--duration",
            "4s",
            "--window",
            "1000",
            "--no-verify",
            "--quiet",
        ])
        .arg("--output")
        .arg(&output)
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let pid = rustix::process::Pid::from_child(&tool);
    let signal = |signal| rustix::process::kill_process(pid, signal).unwrap();
    while broker.records() == 0 {
        std::thread::yield_now();
    }
    // A stopped process cannot have ended, and one that has not been waited for keeps its id.
    let starved = std::time::Instant::now();
    while starved.elapsed() < Duration::from_millis(4_500) {
        signal(rustix::process::Signal::STOP);
        std::thread::sleep(Duration::from_millis(95));
        signal(rustix::process::Signal::CONT);
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(tool.wait().unwrap().code(), Some(3));
    let report = strandline_bench::report::load(&output).unwrap();
    let reasons = report.verdict.reasons.join("; ");
    assert!(reasons.contains("the TOOL was the bottleneck"), "{reasons}");
    assert!(!reasons.contains("BROKER"), "{reasons}");
}

/// A stall within the warm-up stays there: no record of it is counted, none of the measured part is missing, and its percentiles know
/// nothing of it.
#[test]
fn a_stall_in_the_warm_up_does_not_leak() {
    let stall = Duration::from_millis(500);
    let folder = tempfile::tempdir().unwrap();
    let broker = broker(Some(Pause {
        after_records: 200,
        duration: stall,
    }));
    let report = support::finish(
        &broker,
        folder.path(),
        "--rate 1k --warm-up 2s --duration 1s --partitions 1",
    )
    .report;
    let response = report.latency.response.unwrap();
    assert_eq!((response.count, report.records.offered), (1000, 1000));
    let of = |phase: Phase| report.timeline.iter().filter(move |row| row.phase == phase);
    let warm_up_max = of(Phase::WarmUp)
        .filter_map(|row| row.response)
        .map(|summary| summary.max_ns)
        .max();
    assert!(
        warm_up_max.unwrap() as f64 >= stall.as_nanos() as f64 * 0.99,
        "the stall was there"
    );
    assert!(response.p90_ns < stall.as_nanos() as u64 / 2, "{response:?}");
    let series = std::fs::read_to_string(folder.path().join("series.csv")).unwrap();
    for phase in ["warm-up", "measured"] {
        assert!(
            series.lines().any(|line| line.split(',').nth(2) == Some(phase)),
            "{phase}"
        );
    }
}
