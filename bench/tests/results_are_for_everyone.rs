//! What a run leaves behind: a schema with a version, a page that needs nothing else and whose charts show the run's figures.

// Helpers of tests may unwrap as tests do.
#![allow(clippy::unwrap_used)]

mod support;

use regex::Regex;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use strandline_bench::limits::{DepthPoint, DurableCommit, Durably, Figure, Limits, Place};
use strandline_bench::report::{
    AgainstLimit, Backlog, Calibration, Event, Floor, GroupFacts, LimitFacts, ReadBack, Recovery, RunReport,
    SCHEMA_VERSION, ScenarioFacts, Stretch, load, write_report,
};
use strandline_bench::run::{Finished, run};

fn finish(output: &Path) -> Finished {
    let broker = support::brokers(2);
    let bootstrap = broker.addresses()[0].to_string();
    let options = ["--rate", "2k", "--warm-up", "500ms", "--duration", "1500ms"];
    let named = ["--partitions", "3", "--name", "a <b> & \"c\""];
    let args = support::run_args(&bootstrap, output, options.into_iter().chain(named));
    run(&args, &Arc::new(AtomicBool::new(false))).unwrap()
}

/// A report with everything in it.
fn full(finished: &Finished) -> RunReport {
    let mut report = finished.report.clone();
    let figure = Figure {
        median: 1.5,
        deviation: 0.5,
        unsteady: true,
    };
    report.limits = Some(LimitFacts {
        limits: Limits {
            machine: report.machine.clone(),
            durable: vec![DurableCommit {
                bytes: 4096,
                p50_ns: 1,
                p99_ns: 2,
                bytes_per_second: figure,
            }],
            sequential_write: figure,
            sequential_read: figure,
            loopback_round_trip_ns: figure,
            loopback_stream: figure,
            memory_copy_cached: figure,
            memory_copy: figure,
            crc32c: figure,
            xxh3: figure,
            clock_read_ns: figure,
            cache_line_hop_ns: Some(figure),
            wake_up_hop_ns: Some(figure),
            depths: vec![DepthPoint {
                durably: Durably::Dsync,
                place: Place::Filled,
                bytes: 4096,
                depth: 4,
                p50_ns: 1,
                p99_ns: 2,
                commits_per_second: figure,
            }],
        },
        against: vec![AgainstLimit {
            what: "x".to_owned(),
            broker: "1".to_owned(),
            limit: "2".to_owned(),
            ratio: 0.5,
        }],
    });
    report.calibration = Some(Calibration {
        tool_peak: Some(1e6),
        headroom: Some(10.0),
        floor: Some(Floor {
            valid: true,
            achieved: Some(2e3),
            response: report.latency.response,
        }),
    });
    report.preset = Some("default".to_owned());
    report.git_revision = Some("0".repeat(40));
    report.target.cpu_ns = Some(1);
    report.verification_note = Some("x".to_owned());
    report.read_back = Some(ReadBack {
        consumers: 1,
        records: 1,
        seconds: 1.5,
        bytes_per_second: 1.5,
    });
    report.groups.push(GroupFacts {
        name: "g".to_owned(),
        members: 1,
        joins: 1,
        longest_pause_ns: 1,
        verification: report.verification.clone().unwrap(),
    });
    report.scenario = Some(ScenarioFacts {
        events: vec![Event {
            at_seconds: 1.0,
            what: "consumers stop reading".to_owned(),
        }],
        stretches: vec![Stretch {
            after: "a <b>".to_owned(),
            from_seconds: 0.5,
            to_seconds: 1.0,
            response: report.latency.response,
            end_to_end: report.latency.end_to_end,
        }],
        backlog: Some(Backlog {
            most_records: 9,
            records_at_resume: 8,
            drain_seconds: Some(0.5),
            drain_records_per_second: Some(16.0),
        }),
        recovery: Some(Recovery {
            killed_at_seconds: 1.0,
            ready_after_seconds: 0.5,
            unavailable_ns: 1,
            not_acknowledged: 1,
        }),
    });
    report.errors.insert("NOT_LEADER".to_owned(), 3);
    report.verdict.reasons.push("x".to_owned());
    report.verdict.warnings.push("x".to_owned());
    report.failed_conditions.push("x".to_owned());
    report.tool.sender_cores = vec![1];
    report
}

/// Every path of a value with its type; the elements of a list are one.
fn shape(value: &Value, path: &str, out: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                // A map from the texts of errors, not a structure.
                let name = if path == "errors" { "*" } else { name };
                let separator = if path.is_empty() { "" } else { "." };
                shape(value, &format!("{path}{separator}{name}"), out);
            }
        }
        Value::Array(values) => values
            .iter()
            .for_each(|value| shape(value, &format!("{path}[]"), out)),
        Value::Null => {}
        Value::Bool(_) => drop(out.insert(format!("{path}: boolean"))),
        Value::Number(_) => drop(out.insert(format!("{path}: number"))),
        Value::String(_) => drop(out.insert(format!("{path}: text"))),
    }
}

#[test]
fn the_schema_has_a_version_and_the_charts_show_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let finished = finish(folder.path());
    let report = full(&finished);

    // The shape of run.json is what its version says; a change of it is another version.
    let mut found = BTreeSet::new();
    shape(&serde_json::to_value(&report).unwrap(), "", &mut found);
    let golden =
        Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/run-{SCHEMA_VERSION}.shape"));
    let expected = std::fs::read_to_string(&golden).unwrap_or_default();
    let expected: BTreeSet<String> = expected.lines().map(str::to_owned).collect();
    if found != expected {
        let all: Vec<String> = found.iter().cloned().collect();
        let written = Path::new(env!("CARGO_TARGET_TMPDIR")).join("run.shape");
        std::fs::write(&written, all.join("\n") + "\n").unwrap();
        panic!(
            "run.json has another shape than {}: raise SCHEMA_VERSION, and make {} the golden file of the new one; new {:?}, gone {:?}",
            golden.display(),
            written.display(),
            found.difference(&expected).collect::<Vec<_>>(),
            expected.difference(&found).collect::<Vec<_>>()
        );
    }

    write_report(&finished.folder, &report).unwrap();
    let read = load(folder.path()).unwrap();
    let same = serde_json::to_value(&read).unwrap() == serde_json::to_value(&report).unwrap();
    assert!(same, "what was written is not what was read");

    let page = std::fs::read_to_string(folder.path().join("report.html")).unwrap();
    stands_alone(&page);
    percentiles_are_drawn(&page, &report);
    time_is_drawn(&page, &report);
    balance_is_drawn(&page, &report);
    for text in [
        "VALID",
        "a &lt;b&gt; &amp; &quot;c&quot;",
        &report.machine.kernel,
        "NOT_LEADER",
        "times what was achieved",
        "drained in 0.50 s at 16 records/s",
        "ready after 0.50 s",
        "<figure id=\"backlog-over-time\">",
    ] {
        assert!(page.contains(text), "{text}");
    }
    exported(folder.path(), &page);
}

/// No script, nothing from elsewhere, every element closed.
fn stands_alone(page: &str) {
    for foreign in [
        "<script", "src=", "href=", "url(", "@import", "http:", "https:", "<link", "<iframe",
    ] {
        assert!(!page.contains(foreign), "{foreign}");
    }
    assert!(page.contains("default-src 'none'"));
    let tag = Regex::new(r"<(/?)([a-z0-9]+)[^>]*?(/?)>").unwrap();
    let mut open: Vec<String> = Vec::new();
    for found in tag.captures_iter(page) {
        let name = &found[2];
        if &found[3] == "/" || matches!(name, "meta") {
            continue;
        }
        if &found[1] == "/" {
            assert_eq!(open.pop().as_deref(), Some(name), "{}", &found[0]);
        } else {
            open.push(name.to_owned());
        }
    }
    assert!(open.is_empty(), "{open:?}");
    assert!(
        !page.contains("NaN") && !page.contains("inf "),
        "a number that is none"
    );
}

/// One chart of the page, and what turns its pixels into values.
struct Chart<'a> {
    text: &'a str,
    x: Box<dyn Fn(f64) -> f64>,
    y: Box<dyn Fn(f64) -> f64>,
}

impl<'a> Chart<'a> {
    fn find(page: &'a str, id: &str, logarithmic: bool) -> Self {
        let start = page.find(&format!("<figure id=\"{id}\">")).unwrap();
        let text = &page[start..start + page[start..].find("</figure>").unwrap()];
        let ticks = |class: &str, at: &str| -> Vec<(f64, f64)> {
            Regex::new(&format!(
                r#"class="{class}" data-value="([^"]+)"[^>]*? {at}="([^"]+)""#
            ))
            .unwrap()
            .captures_iter(text)
            .map(|found| (found[1].parse().unwrap(), found[2].parse().unwrap()))
            .collect()
        };
        let inverse = |ticks: Vec<(f64, f64)>, logarithmic: bool| -> Box<dyn Fn(f64) -> f64> {
            let ((v0, p0), (v1, p1)) = (ticks[0], *ticks.last().unwrap());
            if logarithmic {
                Box::new(move |pixel| v0 * (v1 / v0).powf((pixel - p0) / (p1 - p0)))
            } else {
                Box::new(move |pixel| v0 + (v1 - v0) * (pixel - p0) / (p1 - p0))
            }
        };
        let x = ticks("tick-x", "x");
        Self {
            text,
            x: if x.len() > 1 {
                inverse(x, false)
            } else {
                Box::new(|pixel| pixel)
            },
            y: inverse(ticks("tick-y", "y"), logarithmic),
        }
    }

    fn line(&self, name: &str) -> Vec<(f64, f64)> {
        let line = Regex::new(&format!(r#"data-line="{name}" points="([^"]*)""#)).unwrap();
        let points = &line
            .captures(self.text)
            .unwrap_or_else(|| panic!("no line {name}"))[1];
        points
            .split(' ')
            .map(|point| {
                let (x, y) = point.split_once(',').unwrap();
                ((self.x)(x.parse().unwrap()), (self.y)(y.parse().unwrap()))
            })
            .collect()
    }
}

/// Pixels have two decimals: close enough.
#[track_caller]
fn close(drawn: f64, value: f64) {
    assert!(
        (drawn / value - 1.0).abs() < 0.01 || (drawn - value).abs() < 0.01,
        "{drawn} for {value}"
    );
}

fn percentiles_are_drawn(page: &str, report: &RunReport) {
    let chart = Chart::find(page, "by-percentile", true);
    let names: Vec<&str> = report.curves.iter().map(|curve| curve.name.as_str()).collect();
    assert_eq!(names, ["response", "service", "lag", "e2e", "hiccups"]);
    for curve in &report.curves {
        let drawn = chart.line(&curve.name);
        assert_eq!(drawn.len(), curve.points.len());
        for ((nines, value), point) in drawn.iter().zip(&curve.points) {
            // Values of 0 stand at the lower edge of a logarithmic axis.
            if point.value_ns > 0 {
                close(*value, point.value_ns as f64);
            }
            if point.quantile < 1.0 {
                close(*nines, -(1.0 - point.quantile).log10());
            }
        }
    }
    let response = report.latency.response.unwrap();
    let of_response = &report.curves[0].points;
    assert_eq!(of_response.last().unwrap().value_ns, response.max_ns);
    assert_eq!(of_response.last().unwrap().count, 3000);
    let at_99 = of_response.iter().find(|point| point.quantile >= 0.99).unwrap();
    assert!(at_99.value_ns >= response.p99_ns);
}

fn time_is_drawn(page: &str, report: &RunReport) {
    let chart = Chart::find(page, "latency-over-time", true);
    let drawn = chart.line("response p99");
    assert_eq!(
        drawn.len(),
        3,
        "half a second of warm-up, a second and a half measured"
    );
    for ((at, value), row) in drawn.iter().zip(&report.timeline) {
        close(*at, (row.start_seconds + row.end_seconds) / 2.0);
        close(*value, row.response.unwrap().p99_ns as f64);
    }
    let chart = Chart::find(page, "throughput-over-time", false);
    for ((_, rate), row) in chart.line("acknowledged").iter().zip(&report.timeline) {
        close(
            *rate,
            row.completed.records as f64 / (row.end_seconds - row.start_seconds),
        );
    }
    let completed: u64 = report.timeline.iter().map(|row| row.completed.records).sum();
    let intended: u64 = report.timeline.iter().map(|row| row.acknowledged).sum();
    assert_eq!(
        (completed, intended),
        (4000, 4000),
        "both ways to count are complete"
    );
    let delivered: u64 = report.timeline.iter().map(|row| row.delivered.bytes).sum();
    assert_eq!(delivered, 4000 * 1024);
}

fn balance_is_drawn(page: &str, report: &RunReport) {
    let bar = Regex::new(r#"data-bar="([^"]+)" data-value="([^"]+)" x="[^"]+" y="([^"]+)""#).unwrap();
    for (id, expected) in [
        (
            "by-partition",
            report
                .partitions
                .iter()
                .map(|facts| (facts.partition.to_string(), facts.acknowledged))
                .collect::<Vec<_>>(),
        ),
        (
            "by-broker",
            report
                .leaders
                .iter()
                .map(|facts| (facts.address.clone(), facts.acknowledged))
                .collect(),
        ),
    ] {
        let chart = Chart::find(page, id, false);
        let drawn: Vec<(String, u64, f64)> = bar
            .captures_iter(chart.text)
            .map(|found| {
                (
                    found[1].to_owned(),
                    found[2].parse().unwrap(),
                    found[3].parse().unwrap(),
                )
            })
            .collect();
        assert_eq!(drawn.len(), expected.len(), "{id}");
        for ((name, value, top), (expected_name, records)) in drawn.into_iter().zip(expected) {
            assert_eq!((name, value), (expected_name, records));
            close((chart.y)(top), records as f64);
        }
    }
    let by_partition: Vec<u64> = report.partitions.iter().map(|facts| facts.acknowledged).collect();
    assert_eq!(by_partition, [1000, 1000, 1000]);
    let partitions: Vec<usize> = report.leaders.iter().map(|facts| facts.partitions).collect();
    assert_eq!(partitions.iter().sum::<usize>(), 3);
    assert!(
        report
            .leaders
            .iter()
            .all(|facts| facts.service.unwrap().count > 0)
    );
}

/// `show` and `export` give back what the folder holds.
fn exported(folder: &Path, page: &str) {
    let bench = |arguments: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_strandline-bench"))
            .args(arguments)
            .output()
            .unwrap()
    };
    let run = folder.display().to_string();
    let shown = bench(&["show", &run]);
    let text = String::from_utf8(shown.stdout).unwrap();
    assert!(
        shown.status.success() && text.contains("VALID") && text.contains("report.html"),
        "{text}"
    );
    assert_eq!(
        bench(&["export", &run, "--format", "html"]).stdout,
        page.as_bytes()
    );
    let csv = std::fs::read(folder.join("series.csv")).unwrap();
    assert_eq!(bench(&["export", &run, "--format", "csv"]).stdout, csv);
    let out = folder.join("all.hgrm").display().to_string();
    assert!(
        bench(&["export", &run, "--format", "hgrm", "-o", &out])
            .status
            .success()
    );
    let all = std::fs::read_to_string(&out).unwrap();
    let response = std::fs::read_to_string(folder.join("response.hgrm")).unwrap();
    assert!(all.contains("#[response]") && all.contains(&response));

    let other = folder.join("other.json");
    for (text, says) in [
        ("{\"schema_version\": 1}", "version 1"),
        ("{}", "no schema_version"),
        ("[", "no result of a run"),
    ] {
        std::fs::write(&other, text).unwrap();
        let refused = bench(&["show", &other.display().to_string()]);
        assert_eq!(refused.status.code(), Some(1));
        let error = String::from_utf8(refused.stderr).unwrap();
        assert!(error.contains(says), "{error}");
    }
}
