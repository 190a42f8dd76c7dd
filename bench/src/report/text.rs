//! The report as a person reads it.

use super::{Backlog, Recovery, RunReport};
use crate::histogram::Summary;
use crate::units::{format_byte_rate, format_count, format_linger, format_nanos};
use std::io::{self, Write};
use std::path::Path;

/// Addresses of a target that are printed.
const ADDRESSES_SHOWN: usize = 4;

/// Prints `report`, the verdict on top.
pub fn print(out: &mut impl Write, report: &RunReport, folder: &Path) -> io::Result<()> {
    verdict(out, report)?;
    let load = &report.load;
    writeln!(
        out,
        "target    {} at {}",
        report.target.description,
        some_of(&report.target.bootstrap_servers)
    )?;
    writeln!(out, "durable   {}", report.target.durability)?;
    writeln!(
        out,
        "load      {}; values of {}, keys {}, codec {}{}; {} topic(s), {} partitions on {} broker(s), {} sender(s), {} consumer(s), acks {}, {}, batches of {} B, window {}",
        load.rate,
        load.record_sizes,
        load.keys,
        load.compression,
        if load.idempotent { ", idempotent" } else { "" },
        load.topics,
        load.partitions,
        report.target.leaders,
        load.producers,
        load.consumers,
        load.acks,
        format_linger(load.linger_ns),
        load.batch_bytes,
        load.window
    )?;
    if report.rates.offered.is_some() {
        rate(out, "offered", report.rates.offered, load.record_bytes)?;
    }
    rate(out, "achieved", report.rates.achieved, load.record_bytes)?;
    latencies(out, report)?;
    verification(out, report)?;
    scenario(out, report)?;
    tool(out, report)?;
    against(out, report)?;
    for (error, records) in &report.errors {
        writeln!(out, "error     {error}: {} records", format_count(*records))?;
    }
    for condition in &report.failed_conditions {
        writeln!(out, "FAILED    {condition}")?;
    }
    writeln!(out, "results   {}", folder.display())?;
    let page = folder.join("report.html");
    if page.is_file() {
        writeln!(out, "report    {}", page.canonicalize().unwrap_or(page).display())?;
    }
    Ok(())
}

/// The first few of a comma-separated list, and how many more there are.
fn some_of(list: &str) -> String {
    let all: Vec<&str> = list.split(',').collect();
    let shown = all[..all.len().min(ADDRESSES_SHOWN)].join(", ");
    match all.len().saturating_sub(ADDRESSES_SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

fn verdict(out: &mut impl Write, report: &RunReport) -> io::Result<()> {
    if report.verdict.valid {
        writeln!(out, "VALID")?;
    } else {
        writeln!(out, "*** INVALID *** INVALID *** INVALID ***")?;
    }
    for reason in &report.verdict.reasons {
        writeln!(out, "  because {reason}")?;
    }
    for warning in &report.verdict.warnings {
        writeln!(out, "  note: {warning}")?;
    }
    Ok(())
}

fn rate(out: &mut impl Write, name: &str, rate: Option<f64>, record_bytes: usize) -> io::Result<()> {
    match rate {
        Some(rate) => writeln!(
            out,
            "{name:<9} {} records/s of {record_bytes} B = {}",
            format_count(rate.round() as u64),
            format_byte_rate(rate * record_bytes as f64)
        ),
        None => writeln!(out, "{name:<9} no rate: nothing was measured"),
    }
}

fn latencies(out: &mut impl Write, report: &RunReport) -> io::Result<()> {
    writeln!(
        out,
        "\n{:<10}{:>12}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}",
        "", "samples", "p50", "p90", "p99", "p99.9", "p99.99", "max"
    )?;
    let latency = &report.latency;
    row(out, "response", latency.response.as_ref())?;
    row(out, "service", latency.service.as_ref())?;
    row(out, "lag", latency.lag.as_ref())?;
    row(out, "tool lag", latency.tool_lag.as_ref())?;
    row(out, "e2e", latency.end_to_end.as_ref())?;
    row(out, "hiccups", report.hiccups.as_ref())?;
    if let (Some(response), Some(hiccups)) = (&latency.response, &report.hiccups)
        && let Some(explained) = explained_by_hiccups(response, hiccups)
    {
        writeln!(
            out,
            "hiccups of this machine could explain half or more of response {explained}"
        )?;
    }
    writeln!(out)
}

fn row(out: &mut impl Write, name: &str, summary: Option<&Summary>) -> io::Result<()> {
    let Some(summary) = summary else {
        return writeln!(out, "{name:<10}{:>12}", "none");
    };
    write!(out, "{name:<10}{:>12}", format_count(summary.count))?;
    for (_, value) in percentiles(summary) {
        write!(out, "{:>10}", format_nanos(value))?;
    }
    if summary.negatives > 0 {
        write!(out, "  and {} NEGATIVE", summary.negatives)?;
    }
    writeln!(out)
}

fn percentiles(summary: &Summary) -> [(&'static str, u64); 6] {
    [
        ("p50", summary.p50_ns),
        ("p90", summary.p90_ns),
        ("p99", summary.p99_ns),
        ("p99.9", summary.p999_ns),
        ("p99.99", summary.p9999_ns),
        ("max", summary.max_ns),
    ]
}

/// The percentiles at which the machine's own delays are at least half of the response time.
fn explained_by_hiccups(response: &Summary, hiccups: &Summary) -> Option<String> {
    let names: Vec<&str> = percentiles(response)
        .iter()
        .zip(percentiles(hiccups))
        .filter(|((_, response), (_, hiccup))| *hiccup >= *response / 2)
        .map(|((name, _), _)| *name)
        .collect();
    (!names.is_empty()).then(|| names.join(", "))
}

fn verification(out: &mut impl Write, report: &RunReport) -> io::Result<()> {
    if let Some(found) = &report.verification {
        let verdict = if found.passed() { "ok" } else { "FAILED" };
        writeln!(
            out,
            "verified  {verdict}: {} sent, {} acknowledged, {} read; lost {}, duplicates {}, reordered {}, corrupt {}, offsets not rising {}, invented {}",
            format_count(found.sent),
            format_count(found.acknowledged),
            format_count(found.received),
            found.acknowledged_missing,
            found.duplicates,
            found.reordered,
            found.corrupt,
            found.offsets_not_rising,
            found.invented
        )?;
    }
    for group in &report.groups {
        let found = &group.verification;
        writeln!(
            out,
            "group     {} of {} member(s), {} join(s): {} read, lost {}, delivered again {}, reordered {}; longest pause of a partition {}",
            if found.passed_at_least_once() {
                "ok"
            } else {
                "FAILED"
            },
            group.members,
            group.joins,
            format_count(found.received),
            found.acknowledged_missing,
            found.duplicates,
            found.reordered,
            format_nanos(group.longest_pause_ns)
        )?;
    }
    if let Some(note) = &report.verification_note {
        writeln!(out, "verified  {note}")?;
    }
    if let Some(read) = &report.read_back {
        writeln!(
            out,
            "read back {} by {} consumer(s), {:.1} s",
            format_byte_rate(read.bytes_per_second),
            read.consumers,
            read.seconds
        )?;
    }
    writeln!(
        out,
        "gap       longest time in which a partition had records due and acknowledged none: {}",
        format_nanos(report.longest_ack_gap_ns)
    )
}

/// What happened besides the load.
fn scenario(out: &mut impl Write, report: &RunReport) -> io::Result<()> {
    let Some(facts) = &report.scenario else {
        return Ok(());
    };
    let time = |summary: Option<Summary>, value: fn(&Summary) -> u64| {
        summary.map_or_else(|| "none".to_owned(), |summary| format_nanos(value(&summary)))
    };
    for event in &facts.events {
        writeln!(out, "event     {:>6.2} s  {}", event.at_seconds, event.what)?;
    }
    for stretch in &facts.stretches {
        writeln!(
            out,
            "stretch   {:>6.2} to {:.2} s, after: {}: response p50 {}, p99 {}, max {}; e2e p50 {}, p99 {}, max {}",
            stretch.from_seconds,
            stretch.to_seconds,
            stretch.after,
            time(stretch.response, |summary| summary.p50_ns),
            time(stretch.response, |summary| summary.p99_ns),
            time(stretch.response, |summary| summary.max_ns),
            time(stretch.end_to_end, |summary| summary.p50_ns),
            time(stretch.end_to_end, |summary| summary.p99_ns),
            time(stretch.end_to_end, |summary| summary.max_ns)
        )?;
    }
    if let Some(backlog) = &facts.backlog {
        writeln!(out, "backlog   {}", backlog_text(backlog))?;
    }
    if let Some(recovery) = &facts.recovery {
        writeln!(out, "recovery  {}", recovery_text(recovery))?;
    }
    Ok(())
}

/// A backlog in words.
pub(super) fn backlog_text(backlog: &Backlog) -> String {
    let most = format_count(backlog.most_records);
    match (backlog.drain_seconds, backlog.drain_records_per_second) {
        (Some(seconds), Some(rate)) => format!(
            "at most {most} records acknowledged and not read; {} when consumers read again, drained in {seconds:.2} s at {} records/s",
            format_count(backlog.records_at_resume),
            format_count(rate.round() as u64)
        ),
        _ if backlog.records_at_resume > 0 => format!(
            "at most {most} records acknowledged and not read; {} when consumers read again, not drained while the load went on",
            format_count(backlog.records_at_resume)
        ),
        _ => format!("at most {most} records acknowledged and not read"),
    }
}

/// A recovery in words.
pub(super) fn recovery_text(recovery: &Recovery) -> String {
    format!(
        "killed at {:.2} s, ready after {:.2} s; the longest a partition acknowledged nothing that was due: {}; {} records without an acknowledgement",
        recovery.killed_at_seconds,
        recovery.ready_after_seconds,
        format_nanos(recovery.unavailable_ns),
        format_count(recovery.not_acknowledged)
    )
}

/// The broker against the machine, and the tool against itself.
fn against(out: &mut impl Write, report: &RunReport) -> io::Result<()> {
    for row in report.limits.iter().flat_map(|limits| &limits.against) {
        writeln!(
            out,
            "÷ limit   {:.2}  {}: {} of {}",
            row.ratio, row.what, row.broker, row.limit
        )?;
    }
    let Some(calibration) = &report.calibration else {
        return Ok(());
    };
    if let (Some(peak), Some(headroom)) = (calibration.tool_peak, calibration.headroom) {
        writeln!(
            out,
            "headroom  {headroom:.1}: the tool reaches {} records/s against the null broker",
            format_count(peak.round() as u64)
        )?;
    }
    if let Some(floor) = &calibration.floor
        && let Some(response) = &floor.response
    {
        writeln!(
            out,
            "floor     p50 {}, p99 {} by the reference broker under the same load{}",
            format_nanos(response.p50_ns),
            format_nanos(response.p99_ns),
            if floor.valid {
                ""
            } else {
                " (INVALID: it did not keep up)"
            }
        )?;
    }
    Ok(())
}

fn tool(out: &mut impl Write, report: &RunReport) -> io::Result<()> {
    let tool = &report.tool;
    let per = |a: u64, b: u64| if b == 0 { 0.0 } else { a as f64 / b as f64 };
    writeln!(
        out,
        "tool      {:.0} ns CPU a record, {:.1} records a batch, {:.1} batches a request; senders on cores {:?}{}",
        per(tool.sender_cpu_ns, tool.records),
        per(tool.records, tool.batches),
        per(tool.batches, tool.requests),
        tool.sender_cores,
        if tool.spinning {
            ", spinning before deadlines"
        } else {
            ""
        }
    )
}
