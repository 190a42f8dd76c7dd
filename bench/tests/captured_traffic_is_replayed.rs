//! Traffic that was captured comes again: as many records, as large, to the same partitions, as fast as it is asked for.

// Helpers of tests may unwrap as tests do.
#![allow(clippy::unwrap_used)]

mod support;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use strandline_bench::cli;
use strandline_bench::exit::Exit;
use strandline_bench::run::{Finished, RunError, run};
use strandline_bench::workload::Workload;

const RECORDS: u64 = 2_000;

fn bench(bootstrap: &str, folder: &Path, options: &[&str]) -> Result<Finished, RunError> {
    let args = support::run_args(bootstrap, &folder.join("run"), options.iter().copied());
    run(&args, &Arc::new(AtomicBool::new(false)))
}

fn by_partition(finished: &Finished) -> Vec<u64> {
    let facts = finished.report.partitions.iter();
    facts.map(|facts| facts.acknowledged).collect()
}

#[test]
fn what_was_captured_comes_again_twice_as_fast() {
    let broker = support::brokers(2);
    let bootstrap = broker.addresses()[0].to_string();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("traffic.workload").display().to_string();
    let topic = ["--topic", "traffic", "--keep-topic", "--partitions", "3"];
    let one = ["--rate", "1k", "--num-records", "1"];
    bench(&bootstrap, folder.path(), &[&topic[..], &one].concat()).unwrap();

    let mut capture = Command::new(env!("CARGO_BIN_EXE_strandline-bench"))
        .args(["workload", "capture", "-b", &bootstrap, "--topic", "traffic"])
        .args(["--for", "10m", "--num-records", &RECORDS.to_string(), "-o", &file])
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    // It says so once it knows from where it reads.
    let mut said = String::new();
    BufReader::new(capture.stderr.as_mut().unwrap())
        .read_line(&mut said)
        .unwrap();
    assert!(said.starts_with("capturing traffic"), "{said}");
    let load = [
        "--rate",
        "poisson:2k",
        "--num-records",
        "2000",
        "--keys",
        "zipf:50",
    ];
    let sizes = ["--record-size", "100..600", "--producers", "2"];
    let original = bench(&bootstrap, folder.path(), &[&topic[..], &load, &sizes].concat()).unwrap();
    assert!(capture.wait().unwrap().success());

    let captured = Workload::load(Path::new(&file)).unwrap();
    let header = captured.header();
    assert_eq!((header.records, header.partitions), (RECORDS, 3));
    let bytes: u64 = original
        .report
        .timeline
        .iter()
        .map(|row| row.completed.bytes)
        .sum();
    assert_eq!(header.value_bytes, bytes);
    assert!((10..=50).contains(&header.keys), "{} keys", header.keys);
    let sections: Vec<u64> = header.sections.iter().map(|section| section.records).collect();
    assert_eq!(sections, by_partition(&original));

    let replayed = bench(
        &bootstrap,
        folder.path(),
        &[&file, "--scale", "2", "--producers", "2"],
    )
    .unwrap();
    let report = &replayed.report;
    assert_eq!(replayed.exit, Exit::Ok, "{:?}", report.verdict);
    assert_eq!(report.records.acknowledged, RECORDS);
    assert!(report.verification.as_ref().unwrap().passed());
    assert_eq!(by_partition(&replayed), sections);
    let again: u64 = report.timeline.iter().map(|row| row.completed.bytes).sum();
    assert_eq!(again, bytes, "every record has its size");
    let half = header.duration_us as f64 / 2e6;
    assert!((report.load.duration_seconds / half - 1.0).abs() < 1e-6);
    assert!(report.load.rate.contains("captured") && report.load.rate.contains("2 times"));

    for (options, says) in [
        (&[&file[..], "--rate", "5k"][..], "its own times"),
        (&[&file, "--num-records", "5"], "its own records"),
        (&[&file, "--partitions", "4"], "3 partitions"),
        (&[&file, "--scale", "0"], "0.001 to 1000"),
    ] {
        let error = bench(&bootstrap, folder.path(), options).unwrap_err();
        assert!(
            error.exit() == Exit::Usage && error.to_string().contains(says),
            "{error}"
        );
    }
    let text = folder.path().join("wrong.workload").display().to_string();
    std::fs::write(&text, "x").unwrap();
    let error = cli::parse(["strandline-bench", "run", &text]).unwrap_err();
    assert!(error.to_string().contains("no captured workload"), "{error}");
}

#[test]
fn a_topic_that_is_missing_or_silent_is_told() {
    let broker = support::brokers(2);
    let bootstrap = broker.addresses()[0].to_string();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x.workload").display().to_string();
    let capture = |topic: &str| {
        Command::new(env!("CARGO_BIN_EXE_strandline-bench"))
            .args(["workload", "capture", "-b", &bootstrap, "--topic", topic])
            .args(["--for", "200ms", "-o", &file])
            .output()
            .unwrap()
    };
    let missing = capture("missing");
    assert_eq!(missing.status.code(), Some(1));
    let text = String::from_utf8(missing.stderr).unwrap();
    assert!(text.contains("missing: UNKNOWN_TOPIC_OR_PARTITION"), "{text}");

    let silent = [
        "--topic",
        "silent",
        "--keep-topic",
        "--rate",
        "1k",
        "--num-records",
        "1",
    ];
    bench(&bootstrap, folder.path(), &silent).unwrap();
    let nothing = capture("silent");
    assert_eq!(nothing.status.code(), Some(3), "no samples are no result");
    let error = bench(&bootstrap, folder.path(), &[&file]).unwrap_err();
    assert!(error.to_string().contains("nothing in it to replay"), "{error}");
}
