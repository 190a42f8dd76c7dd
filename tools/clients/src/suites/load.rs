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
    report.check(
        "a browser draws its report",
        tools.browser_shows(&output.join("report.html")),
    );
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
    report.check(
        "a group rebalances under load, by the classic protocol",
        rebalance(bench, bootstrap, &scratch.join("rebalance-classic"), "classic"),
    );
    report.check(
        "a group rebalances under load, assigned by the broker",
        rebalance(bench, bootstrap, &scratch.join("rebalance-consumer"), "consumer"),
    );
    report.end();
}

/// Members that leave and join again lose nothing, and what they are given again is told apart.
fn rebalance(bench: &Path, bootstrap: &str, output: &Path, protocol: &str) -> Result<(), String> {
    let options = [
        "--partitions",
        "6",
        "--num-records",
        "12000",
        "--groups",
        "1",
        "--group-members",
        "3",
        "--group-protocol",
        protocol,
        "--rebalance-every",
        "1500ms",
    ];
    let run = ran(bench, bootstrap, output, &options)?;
    let group = &run["groups"][0];
    let found = &group["verification"];
    expect(&found["acknowledged_missing"].as_u64(), &Some(0))?;
    let distinct = found["received"].as_u64().zip(found["duplicates"].as_u64());
    expect(&distinct.map(|(all, again)| all - again), &Some(12_000))?;
    let events = run["scenario"]["events"].as_array().map(Vec::len);
    if events < Some(2) {
        return Err(format!("{events:?} rebalances"));
    }
    // Each of the three joined once, and at least once more after each had left.
    match group["joins"].as_u64() {
        Some(joins) if joins > 4 => Ok(()),
        joins => Err(format!("{joins:?} joins")),
    }
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

/// The broker that the load generator starts is killed under load and comes back: nothing that was acknowledged is lost.
pub(crate) fn kill_and_recover(report: &mut Report, bench: &Path, broker: &Path, scratch: &Path) {
    report.begin("load generator, kill and recover");
    report.check(
        "nothing acknowledged is lost",
        killed(bench, broker, &scratch.join("killed")),
    );
    report.end();
}

fn killed(bench: &Path, broker: &Path, output: &Path) -> Result<(), String> {
    let done = Command::new("timeout")
        .arg("120")
        .arg(bench)
        .args([
            "run",
            "--json",
            "--rate",
            "2k",
            "--duration",
            "8s",
            "--warm-up",
            "1s",
        ])
        .args(["--kill-at", "4s", "--restart-after", "500ms", "--broker-binary"])
        .arg(broker)
        .arg("--output")
        .arg(output)
        .output()
        .map_err(|error| format!("cannot run {}: {error}", bench.display()))?;
    let text = || {
        format!(
            "{}: {:.500} {:.1500}",
            done.status,
            String::from_utf8_lossy(&done.stderr),
            String::from_utf8_lossy(&done.stdout)
        )
    };
    if !done.status.code().is_some_and(|code| RAN.contains(&code)) {
        return Err(text());
    }
    let run: Value = serde_json::from_slice(&done.stdout).map_err(|error| format!("its result: {error}"))?;
    expect(&run["verification"]["acknowledged_missing"].as_u64(), &Some(0))?;
    let recovery = &run["scenario"]["recovery"];
    let ready = recovery["ready_after_seconds"].as_f64();
    let gap = recovery["unavailable_ns"].as_u64();
    // Dead for half a second, and nobody acknowledged anything meanwhile.
    if ready < Some(0.5) || gap < Some(500_000_000) {
        return Err(format!("{recovery}"));
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
