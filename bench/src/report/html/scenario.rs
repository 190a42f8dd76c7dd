//! What happened in the course of the run besides the load.

use super::svg::{Axis, Line, Lines, escape};
use super::{facts, middle, time_axis, warm_up_shade};
use crate::histogram::Summary;
use crate::report::RunReport;
use crate::report::text::{backlog_text, recovery_text};
use crate::units::{format_count, format_nanos};
use std::fmt::Write;

pub(super) fn section(out: &mut String, report: &RunReport) {
    let Some(scenario) = &report.scenario else { return };
    out.push_str("<h2>Scenario</h2>\n");
    let mut rows = Vec::new();
    if let Some(backlog) = &scenario.backlog {
        rows.push(("backlog", backlog_text(backlog)));
    }
    if let Some(recovery) = &scenario.recovery {
        rows.push(("recovery", recovery_text(recovery)));
    }
    facts(out, "scenario", &rows);
    if report.timeline.iter().any(|row| row.delivered.records > 0) {
        out.push_str(&backlog_over_time(report).draw());
    }
    out.push_str("<table id=\"stretches\"><tr><th>after</th><th>from s</th><th>to s</th><th>response p50</th><th>p99</th><th>max</th><th>e2e p50</th><th>p99</th><th>max</th></tr>");
    for stretch in &scenario.stretches {
        let _ = write!(
            out,
            "<tr><td>{}</td><td>{:.2}</td><td>{:.2}</td>",
            escape(&stretch.after),
            stretch.from_seconds,
            stretch.to_seconds
        );
        for summary in [&stretch.response, &stretch.end_to_end] {
            let values: [fn(&Summary) -> u64; 3] = [
                |summary| summary.p50_ns,
                |summary| summary.p99_ns,
                |summary| summary.max_ns,
            ];
            for value in values {
                let text = summary
                    .as_ref()
                    .map_or_else(|| "none".to_owned(), |summary| format_nanos(value(summary)));
                let _ = write!(out, "<td>{text}</td>");
            }
        }
        out.push_str("</tr>");
    }
    out.push_str("</table>\n");
}

/// The stretches of time in which something was different, with their names.
pub(super) fn shades(report: &RunReport) -> Vec<(f64, f64, &'static str)> {
    let mut shades = warm_up_shade(report);
    let Some(scenario) = &report.scenario else {
        return shades;
    };
    let at = |what: &str| {
        let event = scenario.events.iter().find(|event| event.what == what);
        event.map(|event| event.at_seconds)
    };
    for (from, to, name) in [
        ("consumers stop reading", "consumers read again", "not reading"),
        ("the broker is killed", "the broker is ready again", "dead"),
    ] {
        if let (Some(from), Some(to)) = (at(from), at(to)) {
            shades.push((from, to, name));
        }
    }
    shades
}

/// At the end of each second.
fn backlog_over_time(report: &RunReport) -> Lines {
    let (mut acknowledged, mut received) = (0_u64, 0_u64);
    let points: Vec<(f64, f64)> = report
        .timeline
        .iter()
        .map(|row| {
            acknowledged += row.completed.records;
            received += row.delivered.records;
            (middle(row), acknowledged.saturating_sub(received) as f64)
        })
        .collect();
    let most = points.iter().map(|(_, records)| *records).fold(0.0, f64::max);
    Lines {
        id: "backlog-over-time",
        title: "Records acknowledged and not yet read".to_owned(),
        x: time_axis(report),
        y: Axis::from_zero("records", most, |value| format_count(value.round() as u64)),
        lines: vec![Line {
            name: "backlog".to_owned(),
            points,
            dashed: false,
        }],
        shaded: shades(report),
    }
}
