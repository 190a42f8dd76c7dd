//! The page of a sweep: latency over rate, and what was achieved of what was offered.

use super::svg::{Axis, Line, Lines, escape};
use super::{HEAD, facts};
use crate::histogram::Summary;
use crate::sweep::{SweepPoint, SweepReport};
use crate::units::{format_count, format_nanos};
use std::fmt::Write;

/// The page of `report`.
pub fn sweep_page(report: &SweepReport) -> String {
    let mut out = String::from(HEAD);
    let title = "Latency over rate";
    let _ = write!(out, "<title>{title}</title></head><body>\n<h1>{title}</h1>\n");
    if let Some(goal) = &report.goal {
        let (class, text) = match goal.rate {
            Some(rate) => (
                "valid",
                format!(
                    "{} up to {} records/s",
                    goal.slo.join(" and "),
                    format_count(rate as u64)
                ),
            ),
            None => (
                "invalid",
                format!("{} at no rate that was tried", goal.slo.join(" and ")),
            ),
        };
        let _ = writeln!(
            out,
            "<p id=\"goal\" class=\"verdict {class}\">{}</p>",
            escape(&text)
        );
    }
    let valid: Vec<&SweepPoint> = report.points.iter().filter(|point| point.valid).collect();
    out.push_str(&latency_over_rate(report, &valid).draw());
    out.push_str(&achieved_over_offered(report).draw());
    facts(
        &mut out,
        "machine",
        &[
            ("an acknowledgement is durable", report.durability.clone()),
            (
                "machine",
                format!(
                    "{}, {} cores, kernel {}",
                    report.machine.cpu, report.machine.cores, report.machine.kernel
                ),
            ),
            ("file system", report.machine.file_system.clone()),
            (
                "not drawn",
                report
                    .points
                    .iter()
                    .filter(|point| !point.valid)
                    .map(|point| {
                        format!(
                            "{} records/s: {}",
                            format_count(point.rate as u64),
                            point.reasons.join("; ")
                        )
                    })
                    .collect::<Vec<_>>()
                    .join(" · "),
            ),
        ],
    );
    out.push_str("</body></html>\n");
    out
}

fn rate_axis(report: &SweepReport) -> Axis {
    let most = report.points.iter().map(|point| point.rate).fold(0.0, f64::max);
    Axis::from_zero("records a second offered", most, |rate| format_count(rate as u64))
}

fn latency_over_rate(report: &SweepReport, valid: &[&SweepPoint]) -> Lines {
    type Pick = fn(&SweepPoint) -> Option<Summary>;
    type Value = fn(&Summary) -> u64;
    let wanted: [(&str, Pick, Value); 5] = [
        ("response p50", |point| point.response, |summary| summary.p50_ns),
        ("response p99", |point| point.response, |summary| summary.p99_ns),
        (
            "response p99.9",
            |point| point.response,
            |summary| summary.p999_ns,
        ),
        ("e2e p99", |point| point.end_to_end, |summary| summary.p99_ns),
        ("hiccups p99", |point| point.hiccups, |summary| summary.p99_ns),
    ];
    let lines: Vec<Line> = wanted
        .into_iter()
        .map(|(name, pick, value)| Line {
            name: name.to_owned(),
            points: valid
                .iter()
                .filter_map(|point| Some((point.rate, value(&pick(point)?) as f64)))
                .collect(),
            dashed: name.starts_with("hiccups"),
        })
        .filter(|line| !line.points.is_empty())
        .collect();
    let values = lines
        .iter()
        .flat_map(|line| &line.points)
        .map(|(_, value)| *value);
    Lines {
        id: "latency-over-rate",
        title: "Latency over rate, of the VALID runs".to_owned(),
        x: rate_axis(report),
        y: Axis::by_magnitude("latency", values, |value| format_nanos(value as u64)),
        lines,
        shaded: Vec::new(),
    }
}

fn achieved_over_offered(report: &SweepReport) -> Lines {
    let achieved: Vec<(f64, f64)> = report
        .points
        .iter()
        .filter_map(|point| Some((point.rate, point.achieved?)))
        .collect();
    let offered: Vec<(f64, f64)> = report
        .points
        .iter()
        .map(|point| (point.rate, point.rate))
        .collect();
    let most = achieved
        .iter()
        .chain(&offered)
        .map(|(_, rate)| *rate)
        .fold(0.0, f64::max);
    Lines {
        id: "achieved-over-offered",
        title: "Achieved of what was offered".to_owned(),
        x: rate_axis(report),
        y: Axis::from_zero("records a second", most, |rate| format_count(rate as u64)),
        lines: vec![
            Line {
                name: "achieved".to_owned(),
                points: achieved,
                dashed: false,
            },
            Line {
                name: "offered".to_owned(),
                points: offered,
                dashed: true,
            },
        ],
        shaded: Vec::new(),
    }
}
