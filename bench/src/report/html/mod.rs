//! The report as one page that needs nothing else: no script, no font, no network.

mod scenario;
mod svg;
mod sweep;

pub use sweep::sweep_page;

use super::{Phase, RunReport, TimelineRow};
use crate::histogram::Summary;
use crate::units::{format_byte_rate, format_count, format_linger, format_nanos};
use std::fmt::Write;
use svg::{Axis, Bars, Line, Lines, escape};

/// The page allows itself nothing but its own style.
const HEAD: &str = r#"<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
:root{color-scheme:light dark;--ink:#1b1f24;--dim:#667;--paper:#fff;--line:#d8dde3;--good:#0a7d38;--bad:#c1121f;
--c0:#1f6feb;--c1:#d1570a;--c2:#1a7f37;--c3:#8250df;--c4:#bf3989;--c5:#0b7285;--c6:#7d4e00;--c7:#57606a}
@media(prefers-color-scheme:dark){:root{--ink:#e6edf3;--dim:#8b949e;--paper:#0d1117;--line:#30363d;--good:#3fb950;--bad:#ff6b6b;
--c0:#58a6ff;--c1:#f0883e;--c2:#56d364;--c3:#bc8cff;--c4:#ff7bcb;--c5:#39c5cf;--c6:#e3b341;--c7:#8b949e}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:900px;margin:2em auto;padding:0 1em}
h1{font-size:1.3em}h2{font-size:1.1em;margin-top:2em}figure{margin:1.5em 0}figcaption{font-weight:600}
.verdict{font-size:1.6em;font-weight:700;padding:.4em .6em;border:3px solid;border-radius:6px}
.valid{color:var(--good)}.invalid{color:var(--bad)}
table{border-collapse:collapse;width:100%}th,td{text-align:right;padding:.2em .5em;border-bottom:1px solid var(--line)}
th:first-child,td:first-child{text-align:left}.facts td{text-align:left}.facts td:first-child{color:var(--dim);white-space:nowrap;width:12em}
svg{width:100%;height:auto}svg text{fill:var(--dim);font-size:12px}
.tick-y{text-anchor:end}.tick-x,.label{text-anchor:middle}.grid{stroke:var(--line)}.shade{fill:var(--dim);opacity:.12}
.line{fill:none;stroke-width:1.8;stroke:currentColor}.dashed{stroke-dasharray:6 4}.bar{fill:var(--c0)}
.c0{color:var(--c0)}.c1{color:var(--c1)}.c2{color:var(--c2)}.c3{color:var(--c3)}.c4{color:var(--c4)}.c5{color:var(--c5)}.c6{color:var(--c6)}.c7{color:var(--c7)}
.key{display:inline-block;width:1.4em;height:.3em;margin:0 .4em .2em 1em;background:currentColor}.legend{margin:.2em 0}
.note{color:var(--dim)}
</style>"#;

/// The page of `report`.
pub(super) fn page(report: &RunReport) -> String {
    let mut out = String::from(HEAD);
    let title = format!("{}: {}", report.name, report.target.description);
    let _ = write!(
        out,
        "<title>{}</title></head><body>\n<h1>{}</h1>\n",
        escape(&title),
        escape(&title)
    );
    verdict(&mut out, report);
    headline(&mut out, report);
    latency_table(&mut out, report);
    if let Some(chart) = percentile_chart(report) {
        out.push_str(&chart.draw());
    }
    if !report.timeline.is_empty() {
        out.push_str(&latency_over_time(report).draw());
        out.push_str(&throughput_over_time(report).draw());
    }
    scenario::section(&mut out, report);
    balance(&mut out, report);
    against_limits(&mut out, report);
    verification(&mut out, report);
    machine(&mut out, report);
    out.push_str("</body></html>\n");
    out
}

fn verdict(out: &mut String, report: &RunReport) {
    let (class, word) = if report.verdict.valid {
        ("valid", "VALID")
    } else {
        ("invalid", "INVALID")
    };
    let _ = writeln!(out, "<p id=\"verdict\" class=\"verdict {class}\">{word}</p>");
    let mut list = |items: &[String], class: &str, before: &str| {
        for item in items {
            let _ = writeln!(out, "<p class=\"{class}\">{before}{}</p>", escape(item));
        }
    };
    list(&report.verdict.reasons, "invalid", "because ");
    list(&report.failed_conditions, "invalid", "");
    list(&report.verdict.warnings, "note", "note: ");
}

fn facts(out: &mut String, id: &str, rows: &[(&str, String)]) {
    let _ = write!(out, "<table id=\"{id}\" class=\"facts\">");
    for (name, value) in rows.iter().filter(|(_, value)| !value.is_empty()) {
        let _ = write!(
            out,
            "<tr><td>{}</td><td>{}</td></tr>",
            escape(name),
            escape(value)
        );
    }
    out.push_str("</table>\n");
}

fn headline(out: &mut String, report: &RunReport) {
    let load = &report.load;
    let rate = |rate: Option<f64>| {
        rate.map_or_else(String::new, |rate| {
            format!(
                "{} records/s = {}",
                format_count(rate.round() as u64),
                format_byte_rate(rate * load.record_bytes as f64)
            )
        })
    };
    facts(
        out,
        "load",
        &[
            ("preset", report.preset.clone().unwrap_or_default()),
            ("load", load.rate.clone()),
            ("offered", rate(report.rates.offered)),
            ("achieved", rate(report.rates.achieved)),
            ("an acknowledgement is durable", report.target.durability.clone()),
            (
                "topology",
                format!(
                    "{} topics, {} partitions on {} brokers, {} senders, {} consumers, values of {}, keys {}, codec {}, acks {}{}",
                    load.topics,
                    load.partitions,
                    report.target.leaders,
                    load.producers,
                    load.consumers,
                    load.record_sizes,
                    load.keys,
                    load.compression,
                    load.acks,
                    if load.idempotent { ", idempotent" } else { "" }
                ),
            ),
            (
                "batches",
                format!(
                    "up to {} B, {}, {} requests in flight a connection",
                    load.batch_bytes,
                    format_linger(load.linger_ns),
                    load.window
                ),
            ),
        ],
    );
}

fn latency_table(out: &mut String, report: &RunReport) {
    out.push_str(
        "<h2>Latency</h2><table id=\"latency\"><tr><th></th><th>samples</th><th>p50</th><th>p90</th><th>p99</th><th>p99.9</th><th>p99.99</th><th>max</th></tr>",
    );
    let latency = &report.latency;
    for (name, summary) in [
        ("response: acknowledgement − intended", latency.response),
        ("service: acknowledgement − submission", latency.service),
        ("lag: submission − intended", latency.lag),
        ("tool lag: late by the tool's own fault", latency.tool_lag),
        ("e2e: receipt − intended", latency.end_to_end),
        ("hiccups of the machine", report.hiccups),
    ] {
        let Some(summary) = summary else { continue };
        let _ = write!(out, "<tr><td>{name}</td><td>{}</td>", format_count(summary.count));
        for value in [
            summary.p50_ns,
            summary.p90_ns,
            summary.p99_ns,
            summary.p999_ns,
            summary.p9999_ns,
            summary.max_ns,
        ] {
            let _ = write!(out, "<td>{}</td>", format_nanos(value));
        }
        out.push_str("</tr>");
    }
    out.push_str("</table>\n");
}

/// Percentiles from left to right, each nine as wide as the one before.
fn percentile_chart(report: &RunReport) -> Option<Lines> {
    let nines = |quantile: f64| -(1.0 - quantile).log10();
    let mut lines = Vec::new();
    let mut most = 1.0_f64;
    for curve in &report.curves {
        let points: Vec<(f64, f64)> = curve
            .points
            .iter()
            // All of it has infinitely many nines: the largest stands where one sample of all is left.
            .map(|point| {
                (
                    nines(point.quantile.min(last_quantile(&curve.points))),
                    point.value_ns,
                )
            })
            .map(|(x, value)| (x, value as f64))
            .collect();
        most = points.iter().fold(most, |most, (x, _)| most.max(*x));
        lines.push(Line {
            name: curve.name.clone(),
            points,
            dashed: curve.name == "hiccups",
        });
    }
    if lines.iter().all(|line| line.points.is_empty()) {
        return None;
    }
    let ticks = [
        (0.0, "0%"),
        (nines(0.5), "50%"),
        (1.0, "90%"),
        (2.0, "99%"),
        (3.0, "99.9%"),
        (4.0, "99.99%"),
        (5.0, "99.999%"),
        (6.0, "99.9999%"),
        (7.0, "99.99999%"),
    ];
    let values = lines
        .iter()
        .flat_map(|line| &line.points)
        .map(|(_, value)| *value);
    Some(Lines {
        id: "by-percentile",
        title: "Latency by percentile".to_owned(),
        x: Axis::with_ticks(
            "percentile",
            0.0,
            most,
            ticks
                .into_iter()
                .filter(|(at, _)| *at <= most)
                .map(|(at, text)| (at, text.to_owned()))
                .collect(),
        ),
        y: Axis::by_magnitude("latency", values, |value| format_nanos(value as u64)),
        lines,
        shaded: Vec::new(),
    })
}

/// Where the largest of `points` is drawn: half a sample below the whole.
fn last_quantile(points: &[crate::histogram::CurvePoint]) -> f64 {
    let count = points.last().map_or(1, |point| point.count).max(1);
    1.0 - 0.5 / count as f64
}

fn warm_up_shade(report: &RunReport) -> Vec<(f64, f64, &'static str)> {
    let mut shades = Vec::new();
    for (phase, name) in [(Phase::WarmUp, "warm-up"), (Phase::Drain, "after the end")] {
        let rows = || report.timeline.iter().filter(|row| row.phase == phase);
        if let (Some(first), Some(last)) = (rows().next(), rows().next_back()) {
            shades.push((first.start_seconds, last.end_seconds, name));
        }
    }
    shades
}

fn time_axis(report: &RunReport) -> Axis {
    let end = report.timeline.last().map_or(1.0, |row| row.end_seconds);
    Axis::from_zero("seconds since the start of the schedule", end, |at| {
        format!("{at}")
    })
}

fn middle(row: &TimelineRow) -> f64 {
    (row.start_seconds + row.end_seconds) / 2.0
}

fn latency_over_time(report: &RunReport) -> Lines {
    type Pick = fn(&TimelineRow) -> Option<Summary>;
    type Value = fn(&Summary) -> u64;
    let wanted: [(&str, Pick, Value); 5] = [
        ("response p50", |row| row.response, |summary| summary.p50_ns),
        ("response p99", |row| row.response, |summary| summary.p99_ns),
        ("response max", |row| row.response, |summary| summary.max_ns),
        ("service p99", |row| row.service, |summary| summary.p99_ns),
        ("e2e p99", |row| row.end_to_end, |summary| summary.p99_ns),
    ];
    let lines: Vec<Line> = wanted
        .into_iter()
        .map(|(name, pick, value)| Line {
            name: name.to_owned(),
            points: report
                .timeline
                .iter()
                .filter_map(|row| Some((middle(row), value(&pick(row)?) as f64)))
                .collect(),
            dashed: false,
        })
        .filter(|line| !line.points.is_empty())
        .collect();
    let values = lines
        .iter()
        .flat_map(|line| &line.points)
        .map(|(_, value)| *value);
    Lines {
        id: "latency-over-time",
        title: "Latency over time, by the second in which records were intended".to_owned(),
        x: time_axis(report),
        y: Axis::by_magnitude("latency", values, |value| format_nanos(value as u64)),
        lines,
        shaded: scenario::shades(report),
    }
}

fn throughput_over_time(report: &RunReport) -> Lines {
    let rate = |row: &TimelineRow, records: u64| {
        records as f64 / (row.end_seconds - row.start_seconds).max(f64::MIN_POSITIVE)
    };
    let points = |count: fn(&TimelineRow) -> u64| {
        report
            .timeline
            .iter()
            .map(|row| (middle(row), rate(row, count(row))))
            .collect::<Vec<_>>()
    };
    let mut lines = vec![Line {
        name: "acknowledged".to_owned(),
        points: points(|row| row.completed.records),
        dashed: false,
    }];
    let received = points(|row| row.delivered.records);
    if received.iter().any(|(_, rate)| *rate > 0.0) {
        lines.push(Line {
            name: "received".to_owned(),
            points: received,
            dashed: false,
        });
    }
    let most = lines
        .iter()
        .flat_map(|line| &line.points)
        .map(|(_, rate)| *rate)
        .fold(0.0, f64::max);
    Lines {
        id: "throughput-over-time",
        title: "Throughput over time, by the second in which it was acknowledged or received".to_owned(),
        x: time_axis(report),
        y: Axis::from_zero("records a second", most, |value| {
            format_count(value.round() as u64)
        }),
        lines,
        shaded: scenario::shades(report),
    }
}

fn balance(out: &mut String, report: &RunReport) {
    if report.partitions.is_empty() {
        return;
    }
    out.push_str("<h2>Balance</h2>\n");
    let axis =
        |most: u64| Axis::from_zero("records", most as f64, |value| format_count(value.round() as u64));
    let chart = |id, title: &str, bars: Vec<(String, u64)>| {
        let most = bars.iter().map(|(_, records)| *records).max().unwrap_or(0);
        Bars {
            id,
            title: title.to_owned(),
            y: axis(most),
            bars: bars
                .into_iter()
                .map(|(name, records)| (name, records as f64))
                .collect(),
        }
        .draw()
    };
    out.push_str(&chart(
        "by-partition",
        "Records acknowledged, by partition",
        report
            .partitions
            .iter()
            .map(|facts| (facts.partition.to_string(), facts.acknowledged))
            .collect(),
    ));
    out.push_str(&chart(
        "by-broker",
        "Records acknowledged, by broker (of Strandline: by shard)",
        report
            .leaders
            .iter()
            .map(|facts| (facts.address.clone(), facts.acknowledged))
            .collect(),
    ));
    out.push_str("<table id=\"leaders\"><tr><th>broker</th><th>partitions</th><th>records</th><th>service p50</th><th>p99</th><th>max</th></tr>");
    for leader in &report.leaders {
        let time = |value: fn(&Summary) -> u64| {
            leader
                .service
                .as_ref()
                .map_or_else(|| "none".to_owned(), |summary| format_nanos(value(summary)))
        };
        let _ = write!(
            out,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            escape(&leader.address),
            leader.partitions,
            format_count(leader.acknowledged),
            time(|summary| summary.p50_ns),
            time(|summary| summary.p99_ns),
            time(|summary| summary.max_ns)
        );
    }
    out.push_str("</table>\n");
}

fn against_limits(out: &mut String, report: &RunReport) {
    if let Some(limits) = &report.limits {
        out.push_str("<h2>Broker ÷ limit</h2><table id=\"limits\"><tr><th></th><th>broker</th><th>this machine at best</th><th>ratio</th></tr>");
        for row in &limits.against {
            let _ = write!(
                out,
                "<tr><td>{}</td><td>{}</td><td>{}</td><td>{:.2}</td></tr>",
                escape(&row.what),
                escape(&row.broker),
                escape(&row.limit),
                row.ratio
            );
        }
        out.push_str("</table>\n");
    }
    if let Some(calibration) = &report.calibration {
        let mut rows = Vec::new();
        if let (Some(peak), Some(headroom)) = (calibration.tool_peak, calibration.headroom) {
            rows.push((
                "the tool at most",
                format!(
                    "{} records/s against the null broker: {headroom:.1} times what was achieved",
                    format_count(peak.round() as u64)
                ),
            ));
        }
        if let Some(floor) = &calibration.floor {
            let times = floor.response.map_or_else(
                || "no samples".to_owned(),
                |summary| {
                    format!(
                        "response p50 {}, p99 {}",
                        format_nanos(summary.p50_ns),
                        format_nanos(summary.p99_ns)
                    )
                },
            );
            let kept = if floor.valid {
                ""
            } else {
                " (it did not keep up: INVALID)"
            };
            rows.push((
                "the floor of a durable acknowledgement",
                format!("{times}, by the reference broker under the same load{kept}"),
            ));
        }
        facts(out, "calibration", &rows);
    }
}

fn verification(out: &mut String, report: &RunReport) {
    out.push_str("<h2>Verification</h2>\n");
    let mut rows = Vec::new();
    if let Some(found) = &report.verification {
        rows.push((
            if found.passed() { "passed" } else { "FAILED" },
            format!(
                "{} sent, {} acknowledged, {} read; lost {}, duplicates {}, reordered {}, corrupt {}, offsets not rising {}, invented {}",
                format_count(found.sent),
                format_count(found.acknowledged),
                format_count(found.received),
                found.acknowledged_missing,
                found.duplicates,
                found.reordered,
                found.corrupt,
                found.offsets_not_rising,
                found.invented
            ),
        ));
    }
    for group in &report.groups {
        let found = &group.verification;
        rows.push((
            "group",
            format!(
                "{} of {} members, {} joins: {} read, lost {}, delivered again {}, reordered {}; longest pause of a partition {}",
                if found.passed_at_least_once() {
                    "passed"
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
            ),
        ));
    }
    rows.push(("note", report.verification_note.clone().unwrap_or_default()));
    rows.push((
        "longest gap",
        format!(
            "{}: the longest time in which a partition had records due and acknowledged none",
            format_nanos(report.longest_ack_gap_ns)
        ),
    ));
    for (error, records) in &report.errors {
        rows.push(("error", format!("{error}: {} records", format_count(*records))));
    }
    facts(out, "verification", &rows);
}

fn machine(out: &mut String, report: &RunReport) {
    let machine = &report.machine;
    out.push_str("<h2>Machine</h2>\n");
    let virtual_machine = if machine.virtual_machine {
        "yes: its neighbours are in these figures"
    } else {
        "no"
    };
    facts(
        out,
        "machine",
        &[
            ("processor", format!("{}, {} cores", machine.cpu, machine.cores)),
            (
                "memory",
                format!("{:.1} GiB", machine.memory_bytes as f64 / (1_u64 << 30) as f64),
            ),
            ("kernel", machine.kernel.clone()),
            ("file system", machine.file_system.clone()),
            ("clock", machine.clock_source.clone()),
            ("virtual machine", virtual_machine.to_owned()),
            ("target", report.target.bootstrap_servers.clone()),
            ("tool", format!("strandline-bench {}", machine.tool_version)),
            ("revision", report.git_revision.clone().unwrap_or_default()),
        ],
    );
}
