//! A broker stalls once. Everybody who wanted to send meanwhile waited: the open loop says so, the closed loop hides it.
//!
//! Bounds are one-sided where a loaded machine could move them: extra delay only adds to what is asserted.

// Helpers of tests may unwrap as tests do.
#![allow(clippy::unwrap_used)]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use strandline_bench::cli::RunArgs;
use strandline_bench::exit::Exit;
use strandline_bench::null_broker::{NullBroker, NullBrokerOptions, Pause};
use strandline_bench::run::{Finished, run};

const PAUSE: Duration = Duration::from_millis(400);
/// One record a request: of what the broker has received, all but the window has been acknowledged to the sender.
const ONE_BY_ONE: &str = "--partitions 1 --batch 1KiB --window 5";

fn broker(pause: Option<Pause>) -> NullBroker {
    NullBroker::start(&NullBrokerOptions {
        retain_bytes: 0,
        pause,
        ..support::options()
    })
    .unwrap()
}

fn args(broker: &NullBroker, output: &tempfile::TempDir, options: &str) -> RunArgs {
    let bootstrap = broker.addresses()[0].to_string();
    support::run_args(&bootstrap, output.path(), options.split_whitespace())
}

fn finish(broker: &NullBroker, options: &str) -> Finished {
    let output = tempfile::tempdir().unwrap();
    support::finish(broker, output.path(), options)
}

#[test]
fn open_and_closed_loop_see_different_brokers() {
    // 1,000 records a second for a second and a half; the stall takes 400 ms of it. Records due in its first half, 200 of 1,500,
    // wait for 200 ms and more: so the slowest 13% do, and the 90th percentile lies among them.
    let pause = Pause {
        after_records: 500,
        duration: PAUSE,
    };
    let stalled = broker(Some(pause));
    let open = finish(&stalled, "--rate 1k --warm-up 0 --duration 1500ms --partitions 3").report;
    let half = PAUSE.as_nanos() as u64 / 2;
    let response = open.latency.response.unwrap();
    assert_eq!(response.count, 1500, "none is dropped");
    assert!(response.p90_ns >= half, "{response:?}");
    assert!(
        response.max_ns as f64 >= PAUSE.as_nanos() as f64 * 0.99,
        "{response:?}"
    );
    // Uniform arrivals in a stall of length P wait between P and 0: the mean over all is at least P * P / 2 / T.
    let seconds = PAUSE.as_secs_f64();
    assert!(
        response.mean_ns / 1e9 >= seconds * seconds / 2.0 / 1.5 * 0.95,
        "{response:?}"
    );

    // The closed loop stops asking during the stall: of all its samples only those in flight notice.
    let stalled = broker(Some(Pause {
        after_records: 5000,
        duration: PAUSE,
    }));
    let closed = finish(
        &stalled,
        "--rate max --warm-up 0 --num-records 20000 --partitions 3",
    )
    .report;
    let response = closed.latency.response.unwrap();
    assert!(
        response.max_ns as f64 >= PAUSE.as_nanos() as f64 * 0.99,
        "the stall was there: {response:?}"
    );
    assert!(response.p90_ns < half, "{response:?}");
    assert!(
        closed
            .verdict
            .warnings
            .iter()
            .any(|warning| warning.contains("closed loop"))
    );
}

/// The heart of it, percentile by percentile. 1,000 records a second for four seconds, a stall of one: 1,000 of 4,000 wait, evenly between
/// a second and nothing, so at the quantile `q` above 0.75 it is a second less what is due in the rest: `1 - (1 - q) * 4` seconds.
#[test]
fn percentiles_are_those_of_arithmetic_and_a_closed_loop_has_others() {
    let stall = Duration::from_secs(1);
    let (seconds, quantiles) = (4.0, [0.90, 0.99, 0.999]);
    let analytic = quantiles.map(|quantile| stall.as_secs_f64() - (1.0 - quantile) * seconds);
    let stalled = broker(Some(Pause {
        after_records: 2000,
        duration: stall,
    }));
    let open = finish(&stalled, "--rate 1k --warm-up 0 --duration 4s --partitions 1").report;
    let response = open.latency.response.unwrap();
    let seen = [response.p90_ns, response.p99_ns, response.p999_ns].map(|nanos| nanos as f64 / 1e9);
    // A machine that wakes its threads late can only add, and the run knows by how much it does.
    let late = open.hiccups.unwrap().max_ns as f64 / 1e9;
    for (quantile, (analytic, seen)) in quantiles.into_iter().zip(analytic.into_iter().zip(seen)) {
        assert!(seen >= analytic * 0.99, "{quantile}: {seen} for {analytic}");
        assert!(
            seen <= analytic * 1.05 + 2.0 * late + 0.05,
            "{quantile}: {seen} for {analytic}, the machine being up to {late} s late"
        );
    }
    assert_eq!(response.count, 4000);

    let stalled = broker(Some(Pause {
        after_records: 2000,
        duration: stall,
    }));
    let closed = finish(
        &stalled,
        "--rate max --warm-up 0 --num-records 4000 --partitions 1 --batch 1100 --window 1",
    )
    .report;
    let response = closed.latency.response.unwrap();
    assert!(
        response.max_ns as f64 / 1e9 >= 0.99,
        "one sample saw it: {response:?}"
    );
    // The same stall, the same number of samples: all but one of them never happened.
    assert!(response.p99_ns as f64 / 1e9 < analytic[1] / 2.0, "{response:?}");
    assert!(response.p999_ns as f64 / 1e9 < analytic[2] / 2.0, "{response:?}");
}

#[test]
fn a_broker_that_goes_away_leaves_partial_results_and_is_told() {
    let broker = broker(None);
    let output = tempfile::tempdir().unwrap();
    let options = format!("--rate 2k --warm-up 0 --duration 600ms {ONE_BY_ONE}");
    let args = args(&broker, &output, &options);
    let running = std::thread::spawn(move || run(&args, &Arc::new(AtomicBool::new(false))));
    while broker.records() < 100 {
        std::thread::yield_now();
    }
    drop(broker);
    let finished = running.join().unwrap().unwrap();
    let report = &finished.report;
    assert_eq!(finished.exit, Exit::Invalid);
    assert!(
        report.records.acknowledged >= 90 && report.records.acknowledged < 1200,
        "{:?}",
        report.records
    );
    assert_eq!(
        report.records.offered, 1200,
        "what was never sent was offered all the same"
    );
    assert!(report.tool.connections_lost > 0);
    assert!(output.path().join("run.json").is_file());
}

/// A broker that hangs: who interrupts the run then has its results soon, and is told what is missing from them.
#[test]
fn a_broker_that_stops_answering_and_an_interrupt_leave_partial_results() {
    let stalled = broker(Some(Pause {
        after_records: 200,
        duration: Duration::from_secs(20),
    }));
    let output = tempfile::tempdir().unwrap();
    let args = args(
        &stalled,
        &output,
        &format!("--rate 1k --warm-up 0 --duration 1h {ONE_BY_ONE}"),
    );
    let interrupted = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&interrupted);
    let running = std::thread::spawn(move || run(&args, &flag));
    // The record behind the 200th is the one that the stall holds.
    while stalled.records() <= 200 {
        std::thread::yield_now();
    }
    interrupted.store(true, Ordering::Relaxed);
    let finished = running.join().unwrap().unwrap();
    let report = &finished.report;
    assert_eq!(finished.exit, Exit::Invalid);
    assert!(
        report
            .verdict
            .reasons
            .iter()
            .any(|reason| reason.contains("interrupted"))
    );
    assert!(
        report.records.acknowledged > 0 && report.records.not_acknowledged > 0,
        "{:?}",
        report.records
    );
    assert!(
        report
            .errors
            .keys()
            .any(|error| error.contains("no answer in time")),
        "{:?}",
        report.errors
    );
    assert!(output.path().join("report.html").is_file());
}

#[test]
fn an_interrupted_run_keeps_what_it_has() {
    let broker = broker(None);
    let output = tempfile::tempdir().unwrap();
    let options = format!("--rate 2k --warm-up 0 --duration 1h {ONE_BY_ONE}");
    let args = args(&broker, &output, &options);
    let interrupted = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&interrupted);
    let running = std::thread::spawn(move || run(&args, &flag));
    while broker.records() < 100 {
        std::thread::yield_now();
    }
    interrupted.store(true, Ordering::Relaxed);
    let finished = running.join().unwrap().unwrap();
    assert_eq!(finished.exit, Exit::Invalid);
    assert!(
        finished
            .report
            .verdict
            .reasons
            .iter()
            .any(|reason| reason.contains("interrupted"))
    );
    assert!(finished.report.records.acknowledged >= 90);
    assert!(output.path().join("series.csv").is_file());
}
