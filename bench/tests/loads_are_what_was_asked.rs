//! Topics, keys, sizes, codecs, sequences: what arrives is what the options say, and all of it.

// Helpers of tests may unwrap as tests do.
#![allow(clippy::unwrap_used)]

mod support;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use strandline_bench::cli::{self, Command};
use strandline_bench::exit::Exit;
use strandline_bench::report::RunReport;
use strandline_bench::run::run;

/// A run whose every record arrived once and in order.
fn verified(options: &str) -> RunReport {
    let folder = tempfile::tempdir().unwrap();
    let broker = support::brokers(2);
    let finished = support::finish(&broker, folder.path(), options);
    let report = finished.report;
    assert_eq!(finished.exit, Exit::Ok, "{options}: {:?}", report.verdict);
    let verification = report.verification.clone().unwrap();
    assert!(verification.passed(), "{options}: {verification:?}");
    assert_eq!(verification.sent, verification.received, "{options}");
    report
}

#[test]
fn several_topics_share_the_load_evenly() {
    let report =
        verified("--topics 3 --partitions 4 --producers 2 --consumers 2 --rate 4k --num-records 2400");
    assert_eq!((report.load.topics, report.load.partitions), (3, 12));
    let by_partition: Vec<u64> = report.partitions.iter().map(|facts| facts.acknowledged).collect();
    assert_eq!(by_partition, [200; 12]);
}

#[test]
fn every_codec_goes_through_and_saves_what_can_be_saved() {
    for codec in ["none", "gzip", "snappy", "lz4", "zstd"] {
        let report = verified(&format!(
            "--compression-type {codec} --compressibility 0.9 --record-size 200..600 --rate 4k --num-records 800 --partitions 2"
        ));
        assert_eq!(report.records.acknowledged, 800);
        let bytes: u64 = report.timeline.iter().map(|row| row.completed.bytes).sum();
        // The mean of 800 draws of 200 to 600 has a standard deviation of 4 bytes.
        assert!((bytes as f64 / 800.0 - 400.0).abs() < 20.0, "{bytes}");
        let delivered: u64 = report.timeline.iter().map(|row| row.delivered.bytes).sum();
        assert_eq!(delivered, bytes);
    }
}

#[test]
fn keys_spread_records_as_they_are_drawn() {
    let even = verified("--keys round-robin:1000 --rate 4k --num-records 3000 --partitions 6");
    let zipf =
        verified("--keys zipf:100:1.2 --rate poisson:4k --num-records 3000 --partitions 6 --producers 2");
    let spread = |report: &RunReport| {
        let counts: Vec<u64> = report.partitions.iter().map(|facts| facts.acknowledged).collect();
        assert_eq!(counts.iter().sum::<u64>(), 3000, "{counts:?}");
        *counts.iter().max().unwrap() as f64 / *counts.iter().min().unwrap() as f64
    };
    assert!(spread(&even) < 1.5, "{:?}", even.partitions);
    // The first of 100 such keys takes 28% of all records.
    assert!(spread(&zipf) > 2.0, "{:?}", zipf.partitions);
}

#[test]
fn idempotent_producers_and_mixed_rates() {
    let report =
        verified("--idempotent --producers 2 --rate 100k,1MiB/s --record-size 1KiB --num-records 600");
    assert!(report.load.idempotent);
    assert_eq!(report.rates.offered.unwrap().round(), 1024.0);
    let report = verified("--rate step:500/400ms..2k --warm-up 0 --duration 800ms");
    // 200 in the first step, 800 in the second.
    assert_eq!(report.records.acknowledged, 1000);
}

#[test]
fn what_cannot_be_is_refused() {
    for (options, says) in [
        (&["--keys", "zipf"][..], "keys are none"),
        (&["--compression-type", "rar"], "codecs are"),
        (&["--record-size", "300..100"], "smallest"),
        (&["--rate", "step:5"], "steps are written"),
        (&["--start-at", "yesterday"], "2026-12-31T12:00:00Z"),
    ] {
        let arguments = ["strandline-bench", "run"].iter().chain(options);
        let error = cli::parse(arguments).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
    for (options, says) in [
        (&["--idempotent", "--window", "6"][..], "at most 5"),
        (&["--idempotent", "--acks", "1"], "acks all"),
        (&["--compressibility", "1.5"], "0 to 1"),
    ] {
        let arguments = ["strandline-bench", "run"].iter().chain(options);
        let Command::Run(args) = cli::parse(arguments).unwrap().command else {
            unreachable!("the command is run")
        };
        assert!(args.check().unwrap_err().contains(says), "{options:?}");
    }
    let folder = tempfile::tempdir().unwrap();
    let broker = support::brokers(2);
    let bootstrap = broker.addresses()[0].to_string();
    let output = folder.path().display().to_string();
    let all = ["strandline-bench", "run", "-b", &bootstrap, "--output", &output];
    let past = all.into_iter().chain(["--start-at", "2020-01-01T00:00:00Z"]);
    let Command::Run(args) = cli::parse(past).unwrap().command else {
        unreachable!("the command is run")
    };
    let error = run(&args, &Arc::new(AtomicBool::new(false))).unwrap_err();
    assert_eq!(error.exit(), Exit::Usage);
    assert!(error.to_string().contains("has passed"), "{error}");
}
