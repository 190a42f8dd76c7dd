//! The load generator against a real broker: what its own tests cannot have, groups among it, and its logs read by HdrHistogram's Python
//! implementation.

use super::{expect, fresh};
use crate::report::Report;
use crate::tools::Tools;
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// Exit codes of the load generator that are no fault of a broker: VALID, and a machine too busy for the rate.
const RAN: [i32; 2] = [0, 3];

/// Runs loads of a few seconds and looks at what they leave.
pub(crate) fn run(report: &mut Report, tools: &Tools, bench: &Path, bootstrap: &str, scratch: &Path) {
    report.begin("load generator");
    let output = scratch.join("load");
    report.check(
        "groups, codecs, sequences and keys arrive",
        load(bench, bootstrap, &output),
    );
    report.check("HdrHistogram reads its logs", tools.read_hdr_log(&output));
    for codec in ["gzip", "snappy", "lz4"] {
        let options = [
            "--compression-type",
            codec,
            "--compressibility",
            "0.5",
            "--num-records",
            "2000",
        ];
        let output = scratch.join(format!("load-{codec}"));
        report.check(
            &format!("{codec} arrives"),
            ran(bench, bootstrap, &output, &options).map(|_| ()),
        );
    }
    report.end();
}

fn load(bench: &Path, bootstrap: &str, output: &Path) -> Result<(), String> {
    let topic = fresh("load");
    let options = [
        "--topic",
        &topic,
        "--topics",
        "2",
        "--partitions",
        "3",
        "--producers",
        "2",
        "--num-records",
        "6000",
        "--idempotent",
        "--compression-type",
        "zstd",
        "--compressibility",
        "0.5",
        "--keys",
        "zipf:1000",
        "--record-size",
        "100..2000",
        "--groups",
        "2",
        "--group-members",
        "3",
        "--consumers",
        "1",
    ];
    let run = ran(bench, bootstrap, output, &options)?;
    expect(&run["records"]["acknowledged"].as_u64(), &Some(6000))?;
    let groups = run["groups"].as_array().ok_or("no groups in the result")?;
    expect(&groups.len(), &2)?;
    for group in groups {
        let found = &group["verification"];
        expect(&found["acknowledged_missing"].as_u64(), &Some(0))?;
        expect(&found["reordered"].as_u64(), &Some(0))?;
        let distinct = found["received"].as_u64().zip(found["duplicates"].as_u64());
        expect(&distinct.map(|(all, again)| all - again), &Some(6000))?;
    }
    Ok(())
}

/// A run at 2,000 records a second that was verified; its result.
fn ran(bench: &Path, bootstrap: &str, output: &Path, options: &[&str]) -> Result<Value, String> {
    let done = Command::new("timeout")
        .arg("120")
        .arg(bench)
        .args(["run", "--json", "--rate", "2k", "-b", bootstrap, "--output"])
        .arg(output)
        .args(options)
        .output()
        .map_err(|error| format!("cannot run {}: {error}", bench.display()))?;
    if !done.status.code().is_some_and(|code| RAN.contains(&code)) {
        return Err(format!(
            "{}: {:.500} {:.1500}",
            done.status,
            String::from_utf8_lossy(&done.stderr),
            String::from_utf8_lossy(&done.stdout)
        ));
    }
    serde_json::from_slice(&done.stdout).map_err(|error| format!("its result: {error}"))
}
