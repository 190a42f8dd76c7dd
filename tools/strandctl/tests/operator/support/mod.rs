//! A tiny Kafka cluster in memory, speaking through the codec of `kafka-protocol`, and a way to run the binary against it.

mod cluster;
mod groups;
mod handlers;

use std::io::Write;
use std::process::{Command, Stdio};

pub(crate) use cluster::{Cluster, Fault};

/// What a run of `strandctl` left.
#[derive(Debug)]
pub(crate) struct Run {
    /// The exit code.
    pub(crate) code: i32,
    /// Its answer.
    pub(crate) stdout: String,
    /// Everything else.
    pub(crate) stderr: String,
}

impl Run {
    /// The run, which must have succeeded.
    pub(crate) fn succeeded(self) -> Self {
        assert_eq!(self.code, 0, "{self:?}");
        self
    }

    /// The lines of the answer, sorted: partitions come in any order.
    pub(crate) fn sorted_lines(&self) -> Vec<&str> {
        let mut lines: Vec<_> = self.stdout.lines().collect();
        lines.sort_unstable();
        lines
    }

    /// The answer as JSON, a value a line.
    pub(crate) fn json(&self) -> Vec<serde_json::Value> {
        self.stdout
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }
}

/// Runs the binary with `input` on stdin, which is no terminal.
pub(crate) fn strandctl(bootstrap: &str, arguments: &[&str], input: &str) -> Run {
    let mut child = Command::new(env!("CARGO_BIN_EXE_strandctl"))
        .args([
            "-b",
            bootstrap,
            "-X",
            "retry.backoff.ms=1",
            "-X",
            "retry.backoff.max.ms=1",
        ])
        .args(arguments)
        .env_remove("STRANDCTL_BOOTSTRAP_SERVER")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_owned();
    // A run that refuses its arguments never reads its input: that write may fail.
    let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()).is_ok());
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    Run {
        code: output.status.code().unwrap(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}
