//! The program itself: what it exits with, what it leaves behind, what it refuses.

// Helpers of tests may unwrap as tests do.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::{Command, Output};

fn bench(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_strandline-bench"))
        .args(arguments)
        .output()
        .unwrap()
}

/// A folder on the disk that holds the build, since a durable broker refuses to live in memory.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn path(folder: &Path, name: &str) -> String {
    folder.join(name).display().to_string()
}

fn error(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn a_broker_is_started_measured_and_taken_away() {
    for (broker, durable) in [("null", "no:"), ("null-durable", "yes:")] {
        let folder = folder();
        let run = path(folder.path(), "run");
        let output = bench(&[
            "run",
            "--broker",
            broker,
            "--rate",
            "1k",
            "--num-records",
            "50",
            "--json",
            "--output",
            &run,
        ]);
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report["records"]["acknowledged"], 50, "{report}");
        assert!(
            report["target"]["durability"]
                .as_str()
                .unwrap()
                .starts_with(durable)
        );
        let left: Vec<String> = std::fs::read_dir(&run)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        for name in [
            "run.json",
            "latency.hlog",
            "series.csv",
            "response.hgrm",
            "report.html",
            "broker.log",
        ] {
            assert!(
                left.iter().any(|file| file == name),
                "{name} is missing: {left:?}"
            );
        }
        assert!(
            !left.iter().any(|file| file == "data"),
            "the broker's data is gone"
        );
    }
}

#[test]
fn usage_errors_exit_2_and_say_what_is_wrong() {
    for (arguments, says) in [
        (&["run", "--rate", "0"][..], "rate of 0"),
        (&["run", "--rate", "10 furlongs"], "no unit of a rate"),
        (&["run", "--duration", "0"], "measures nothing"),
        (&["run", "--fail-if", "p99"], "no comparison"),
        (&["run", "--record-size", "8"], "32 bytes"),
        (&["sprint"], "unrecognized subcommand"),
    ] {
        let output = bench(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(error(&output).contains(says), "{}", error(&output));
    }
}

#[test]
fn what_cannot_run_exits_1_with_the_remedy() {
    let folder = folder();
    let run = path(folder.path(), "run");
    let missing = path(folder.path(), "no-such-broker");
    let output = bench(&["run", "--broker-binary", &missing, "--output", &run]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        error(&output).contains("cargo build --release"),
        "{}",
        error(&output)
    );
}

/// The results do not fit: the figures are printed all the same, and it is said that the files are not whole.
#[test]
fn a_full_disk_for_results_keeps_the_figures() {
    let folder = folder();
    let run = path(folder.path(), "run");
    // A limit on the size of files stands for the disk; without the signal a write beyond it fails as one on a full disk does.
    let script = "trap '' XFSZ; ulimit -f 8; exec \"$0\" \"$@\"";
    let output = Command::new("sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_strandline-bench")])
        .args([
            "run",
            "--broker",
            "null",
            "--rate",
            "1k",
            "--num-records",
            "200",
            "--quiet",
        ])
        .args(["--partitions", "100", "--output", &run])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", error(&output));
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    assert!(text.contains("VALID") && text.contains("response"), "{text}");
    let error = error(&output);
    assert!(
        error.contains("not complete") && error.contains("large"),
        "{error}"
    );
}

#[test]
fn memory_is_no_disk() {
    let memory = tempfile::tempdir_in("/dev/shm").unwrap();
    let run = path(memory.path(), "run");
    let output = bench(&["run", "--broker", "null-durable", "--output", &run]);
    assert_eq!(output.status.code(), Some(1));
    assert!(error(&output).contains("tmpfs"), "{}", error(&output));
    let output = bench(&["null-broker", "--durable", "--port", "0", "--data-dir", &run]);
    assert_eq!(output.status.code(), Some(1));
    assert!(error(&output).contains("tmpfs"), "{}", error(&output));
    let output = bench(&["limits", "--data-dir", &memory.path().display().to_string()]);
    assert_eq!(output.status.code(), Some(1));
}
