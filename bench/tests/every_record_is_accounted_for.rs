//! Whole runs against the reference broker in this process: what was offered is what was acknowledged is what was read back.

// Helpers of tests may unwrap as tests do.
#![allow(clippy::unwrap_used)]

mod support;

use clap::Parser;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use strandline_bench::cli::{Cli, Command};
use strandline_bench::exit::Exit;
use strandline_bench::null_broker::{JournalOptions, NullBroker, NullBrokerOptions};
use strandline_bench::run::{Finished, RunError, run};

fn broker(brokers: u16, retain_bytes: usize, journal: Option<&Path>) -> NullBroker {
    NullBroker::start(&NullBrokerOptions {
        brokers,
        journal: journal.map(|directory| JournalOptions {
            directory: directory.to_owned(),
            bytes: 0,
        }),
        retain_bytes,
        ..support::options()
    })
    .unwrap()
}

/// A folder on the disk that holds the build, since the journal refuses to live in memory.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn try_run(broker: &NullBroker, options: &str) -> Result<Finished, RunError> {
    support::try_finish(broker, &folder().path().join("run"), options)
}

fn finish(broker: &NullBroker, options: &str) -> Finished {
    try_run(broker, options).unwrap()
}

#[test]
fn half_a_second_of_load_is_counted_read_and_verified() {
    let broker = broker(3, support::RETAIN_BYTES, None);
    let finished = finish(
        &broker,
        "--rate 4k --warm-up 250ms --duration 500ms --partitions 7 --producers 2 --record-size 100",
    );
    let report = &finished.report;
    assert_eq!(report.records.offered, 2000);
    assert_eq!(report.records.acknowledged, 2000);
    assert_eq!(report.target.leaders, 3);
    let verified = report.verification.as_ref().unwrap();
    assert!(verified.passed(), "{verified:?}");
    assert_eq!(
        (verified.sent, verified.acknowledged, verified.received),
        (3000, 3000, 3000)
    );
    for summary in [
        report.latency.response,
        report.latency.service,
        report.latency.lag,
        report.latency.end_to_end,
    ] {
        let summary = summary.unwrap();
        assert_eq!((summary.count, summary.negatives), (2000, 0));
    }
    let end_to_end = report.latency.end_to_end.unwrap();
    assert!(end_to_end.min_ns > 0);
    // A response is its lag and its service, so no percentile of it is below theirs by more than the histogram's three digits.
    let (response, service) = (report.latency.response.unwrap(), report.latency.service.unwrap());
    assert!(response.max_ns as f64 >= service.max_ns as f64 * 0.998);
}

#[test]
fn durable_acknowledgements_come_through_the_journal() {
    let output = folder();
    let broker = broker(1, support::RETAIN_BYTES, Some(output.path()));
    let finished = finish(&broker, "--rate 1k --warm-up 0 --duration 300ms --partitions 4");
    assert_eq!(finished.report.records.acknowledged, 300);
    assert!(finished.report.verification.unwrap().passed());
}

#[test]
fn runs_of_no_record_and_of_one_have_no_nonsense_in_them() {
    let broker = broker(1, support::RETAIN_BYTES, None);
    let none = finish(&broker, "--rate 1k --num-records 0 --duration 300ms");
    assert_eq!(none.exit, Exit::Invalid);
    assert!(none.report.verdict.reasons[0].contains("no samples"));
    assert!(none.report.latency.response.is_none() && none.report.latency.end_to_end.is_none());
    assert_eq!(none.report.rates.achieved, None);

    for count in [1_u64, 10] {
        let few = finish(&broker, &format!("--rate 1k --num-records {count}"));
        assert_eq!(few.report.records.acknowledged, count, "{:?}", few.report);
        assert!(few.report.latency.response.unwrap().min_ns > 0);
        assert!(few.report.verification.unwrap().passed());
    }
}

#[test]
fn numbers_in_the_results_are_finite_and_not_negative() {
    let broker = broker(1, support::RETAIN_BYTES, None);
    for options in [
        "--rate 1k --num-records 0 --duration 300ms",
        "--rate 1k --num-records 3",
    ] {
        let report = serde_json::to_value(&finish(&broker, options).report).unwrap();
        let mut pending = vec![&report];
        while let Some(value) = pending.pop() {
            match value {
                // JSON has no NaN and no infinity: serde_json writes them as null, and -1 for "none" would be a lie.
                serde_json::Value::Number(number) => assert!(number.as_f64().unwrap() >= 0.0, "{number}"),
                serde_json::Value::Array(values) => pending.extend(values),
                serde_json::Value::Object(fields) => pending.extend(fields.values()),
                _ => {}
            }
        }
    }
}

#[test]
fn a_closed_loop_is_read_back_afterwards() {
    let broker = broker(2, 1 << 30, None);
    let finished = finish(
        &broker,
        "--rate max --num-records 20000 --record-size 100 --partitions 5 --producers 2",
    );
    assert_eq!(finished.exit, Exit::Ok, "{:?}", finished.report.verdict);
    let verified = finished.report.verification.unwrap();
    assert!(verified.passed());
    assert_eq!((verified.sent, verified.received), (20_000, 20_000));
    assert!(finished.report.latency.end_to_end.is_none(), "nobody read along");
}

#[test]
fn acks_zero_promises_nothing_and_is_timed_to_the_kernel() {
    let broker = broker(1, support::RETAIN_BYTES, None);
    let report = finish(&broker, "--acks 0 --rate 1k --num-records 100").report;
    assert_eq!(report.records.acknowledged, 100);
    assert_eq!(report.verification.unwrap().acknowledged, 0);
}

#[test]
fn a_target_without_fetch_is_measured_and_not_verified() {
    let broker = broker(1, 0, None);
    let report = finish(&broker, "--rate 1k --num-records 100").report;
    assert_eq!(report.records.acknowledged, 100);
    assert!(report.verification.is_none());
    assert!(report.verification_note.unwrap().contains("does not serve Fetch"));
}

#[test]
fn lost_records_fail_the_verification() {
    // So little is kept that most of what was acknowledged is gone when it is read back.
    let broker = broker(1, 4096, None);
    let finished = finish(
        &broker,
        "--rate 2k --num-records 200 --partitions 1 --consumers 0",
    );
    assert_eq!(
        finished.exit,
        Exit::VerificationFailed,
        "{:?}",
        finished.report.verification
    );
}

#[test]
fn a_condition_that_holds_exits_99() {
    let broker = broker(1, 0, None);
    let fails = finish(&broker, "--rate 1k --num-records 50 --fail-if response.p50>1ns");
    assert_eq!(
        (fails.exit, fails.report.failed_conditions.len()),
        (Exit::FailIf, 1)
    );
    let no_samples = finish(&broker, "--rate 1k --num-records 50 --fail-if e2e.p50>1h");
    assert_eq!(no_samples.exit, Exit::FailIf, "no samples to judge is a failure");
}

#[test]
fn the_files_of_a_run_can_be_read_back() {
    let broker = broker(1, support::RETAIN_BYTES, None);
    let output = folder();
    let options = "--rate 2k --warm-up 100ms --duration 1200ms";
    let finished = support::finish(&broker, &output.path().join("run"), options);
    let folder = finished.folder.path();
    let json: serde_json::Value =
        serde_json::from_slice(&std::fs::read(folder.join("run.json")).unwrap()).unwrap();
    assert_eq!(json["schema_version"], strandline_bench::report::SCHEMA_VERSION);
    assert_eq!(json["records"]["offered"], 2400);

    let log = std::fs::read(folder.join("latency.hlog")).unwrap();
    let mut merged = hdrhistogram::Histogram::<u64>::new(3).unwrap();
    let mut deserializer = hdrhistogram::serialization::Deserializer::new();
    for entry in hdrhistogram::serialization::interval_log::IntervalLogIterator::new(&log) {
        let hdrhistogram::serialization::interval_log::LogEntry::Interval(interval) = entry.unwrap() else {
            continue;
        };
        if interval.tag().is_some_and(|tag| tag.as_str() == "response") {
            let bytes = base64_decode(interval.encoded_histogram());
            let histogram: hdrhistogram::Histogram<u64> = deserializer.deserialize(&mut &bytes[..]).unwrap();
            merged.add(histogram).unwrap();
        }
    }
    let response = finished.report.latency.response.unwrap();
    assert_eq!(
        (merged.len(), merged.value_at_quantile(0.99)),
        (response.count, response.p99_ns)
    );

    let series = std::fs::read_to_string(folder.join("series.csv")).unwrap();
    let rows: Vec<Vec<&str>> = series
        .lines()
        .skip(1)
        .map(|line| line.split(',').collect())
        .collect();
    let count = |phase: &str| {
        rows.iter()
            .filter(|row| row[2] == phase)
            .map(|row| row[3].parse::<u64>().unwrap())
            .sum::<u64>()
    };
    assert_eq!((count("warm-up"), count("measured")), (200, 2400));
    assert!(
        rows.iter()
            .all(|row| row.len() == series.lines().next().unwrap().split(',').count())
    );
}

/// Standard base64, as the log holds histograms.
fn base64_decode(text: &str) -> Vec<u8> {
    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut bytes = Vec::new();
    let (mut bits, mut held) = (0_u32, 0);
    for character in text.bytes().filter(|&character| character != b'=') {
        let value = ALPHABET.iter().position(|&letter| letter == character).unwrap();
        bits = bits << 6 | value as u32;
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push((bits >> held) as u8);
        }
    }
    bytes
}

#[test]
fn a_broker_that_is_not_there_is_a_clear_error() {
    let gone = broker(1, 0, None);
    let address = gone.addresses()[0];
    drop(gone);
    let output = folder();
    let bootstrap = format!("--bootstrap-server={address}");
    let target = output.path().join("run").display().to_string();
    let Command::Run(args) =
        Cli::parse_from(["strandline-bench", "run", &bootstrap, "--output", &target]).command
    else {
        unreachable!("the command is run")
    };
    let error = run(&args, &Arc::new(AtomicBool::new(false))).unwrap_err();
    assert_eq!(error.exit(), Exit::Failed);
    assert!(error.to_string().contains(&address.to_string()), "{error}");
}
