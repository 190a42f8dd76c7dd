//! One result from several: what hosts measured that ran the same load together (`run --start-at`).
//!
//! Percentiles come from merged histograms, which are read back from the runs' logs; no percentile is ever averaged.

use crate::histogram::Latencies;
use crate::report::{Curve, DISTRIBUTIONS, Folder, Phase, RunReport, TimelineRow, load, write_report};
use crate::verify::Verification;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Runs whose schedules began further apart than this measured something else than one load.
const APART_MS_MAX: i64 = 1_000;

/// The histograms of a log: by tag and by the interval's start in whole milliseconds of the schedule.
type Log = BTreeMap<(String, u64), Latencies>;

/// Reads a log of latencies. The error is a sentence.
pub fn read_log(path: &Path) -> Result<Log, String> {
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let text = std::fs::read(path).map_err(|error| failed(&error))?;
    let mut deserializer = Deserializer::new();
    let mut log = Log::new();
    for entry in IntervalLogIterator::new(&text) {
        let LogEntry::Interval(interval) = entry.map_err(|error| failed(&format!("{error:?}")))? else {
            continue;
        };
        let bytes = STANDARD
            .decode(interval.encoded_histogram())
            .map_err(|error| failed(&error))?;
        let histogram: Histogram<u64> = deserializer
            .deserialize(&mut &bytes[..])
            .map_err(|error| failed(&error))?;
        let tag = interval.tag().map_or("", |tag| tag.as_str()).to_owned();
        let start = interval.start_timestamp().as_millis() as u64;
        log.entry((tag, start))
            .or_default()
            .merge(&Latencies::from_histogram(histogram));
    }
    Ok(log)
}

/// Merges the runs in `folders` and writes the result to `output`.
pub fn merge(folders: &[PathBuf], output: Option<&Path>) -> Result<(RunReport, Folder), String> {
    let mut runs = Vec::new();
    for folder in folders {
        runs.push((load(folder)?, read_log(&folder.join("latency.hlog"))?));
    }
    let names: Vec<String> = folders
        .iter()
        .map(|folder| folder.display().to_string())
        .collect();
    let report = merged(&runs, &names).ok_or("there is no run to merge")?;
    let folder = Folder::create(output, "merged").map_err(|error| format!("the results' folder: {error}"))?;
    write_report(&folder, &report).map_err(|error| format!("{}: {error}", folder.path().display()))?;
    Ok((report, folder))
}

fn merged(runs: &[(RunReport, Log)], names: &[String]) -> Option<RunReport> {
    let (first, _) = runs.first()?;
    let mut report = first.clone();
    report.name = "merged".to_owned();
    report.preset = None;
    report.limits = None;
    report.calibration = None;
    report.read_back = None;
    report.scenario = None;
    report.failed_conditions.clear();
    report.target.description = format!("{}; {} runs merged", first.target.description, runs.len());
    report.target.cpu_ns = None;
    judge(&mut report, runs, names);
    add_up(&mut report, runs);

    let mut log = Log::new();
    for (_, one) in runs {
        for (key, latencies) in one {
            log.entry(key.clone()).or_default().merge(latencies);
        }
    }
    let of_tag = |tag: &str| {
        let mut all = Latencies::default();
        for (_, latencies) in log.iter().filter(|((of, _), _)| of == tag) {
            all.merge(latencies);
        }
        all
    };
    let [response, service, lag, end_to_end] = DISTRIBUTIONS.map(of_tag);
    report.latency.response = response.summary();
    report.latency.service = service.summary();
    report.latency.lag = lag.summary();
    report.latency.end_to_end = end_to_end.summary();
    // The worst machine is what the percentiles have to be held against.
    report.hiccups = worst(runs, |run| run.hiccups);
    report.latency.tool_lag = worst(runs, |run| run.latency.tool_lag);
    report.curves = DISTRIBUTIONS
        .iter()
        .zip([response, service, lag, end_to_end])
        .filter(|(_, latencies)| !latencies.is_empty())
        .map(|(name, latencies)| Curve {
            name: (*name).to_owned(),
            points: latencies.curve(),
        })
        .collect();
    report.timeline = timeline(runs, &log);
    Some(report)
}

/// The one with the largest 99th percentile.
fn worst(
    runs: &[(RunReport, Log)],
    pick: fn(&RunReport) -> Option<crate::histogram::Summary>,
) -> Option<crate::histogram::Summary> {
    runs.iter()
        .filter_map(|(run, _)| pick(run))
        .max_by_key(|summary| summary.p99_ns)
}

fn judge(report: &mut RunReport, runs: &[(RunReport, Log)], names: &[String]) {
    report.verdict.reasons.clear();
    report.verdict.warnings.clear();
    for ((run, _), name) in runs.iter().zip(names) {
        let all = |texts: &[String]| {
            texts
                .iter()
                .map(|text| format!("{name}: {text}"))
                .collect::<Vec<_>>()
        };
        report.verdict.reasons.extend(all(&run.verdict.reasons));
        report.verdict.warnings.extend(all(&run.verdict.warnings));
    }
    let starts = || runs.iter().map(|(run, _)| run.started_at_ms);
    if let (Some(first), Some(last)) = (starts().min(), starts().max())
        && last - first > APART_MS_MAX
    {
        report.verdict.reasons.push(format!(
            "the runs began {:.1} s apart: start them together by --start-at",
            (last - first) as f64 / 1e3
        ));
    }
    report.verdict.valid = report.verdict.reasons.is_empty();
}

fn add_up(report: &mut RunReport, runs: &[(RunReport, Log)]) {
    let sum = |count: fn(&RunReport) -> u64| runs.iter().map(|(run, _)| count(run)).sum::<u64>();
    report.records.offered = sum(|run| run.records.offered);
    report.records.acknowledged = sum(|run| run.records.acknowledged);
    report.records.acknowledged_in_time = sum(|run| run.records.acknowledged_in_time);
    report.records.not_acknowledged = sum(|run| run.records.not_acknowledged);
    report.records.never_submitted = sum(|run| run.records.never_submitted);
    report.tool.requests = sum(|run| run.tool.requests);
    report.tool.batches = sum(|run| run.tool.batches);
    report.tool.records = sum(|run| run.tool.records);
    report.tool.sender_cpu_ns = sum(|run| run.tool.sender_cpu_ns);
    report.tool.connections_lost = sum(|run| run.tool.connections_lost);
    report.longest_ack_gap_ns = runs
        .iter()
        .map(|(run, _)| run.longest_ack_gap_ns)
        .max()
        .unwrap_or(0);
    // A rate is known when it is of every run.
    let rates =
        |rate: fn(&RunReport) -> Option<f64>| runs.iter().map(|(run, _)| rate(run)).sum::<Option<f64>>();
    report.rates.offered = rates(|run| run.rates.offered);
    report.rates.achieved = rates(|run| run.rates.achieved);
    report.load.producers = runs.iter().map(|(run, _)| run.load.producers).sum();
    report.load.consumers = runs.iter().map(|(run, _)| run.load.consumers).sum();
    report.errors = BTreeMap::new();
    for (error, records) in runs.iter().flat_map(|(run, _)| &run.errors) {
        *report.errors.entry(error.clone()).or_default() += records;
    }
    let mut verification = Verification::default();
    for (run, _) in runs {
        match &run.verification {
            Some(found) => verification.add(found),
            None => {
                report.verification_note = Some("not of every run".to_owned());
            }
        }
    }
    report.verification = report.verification.is_some().then_some(verification);
    report.partitions.clear();
    report.leaders.clear();
    for (run, _) in runs {
        for partition in &run.partitions {
            match report
                .partitions
                .iter_mut()
                .find(|one| one.partition == partition.partition)
            {
                Some(one) => one.acknowledged += partition.acknowledged,
                None => report.partitions.push(partition.clone()),
            }
        }
        for leader in &run.leaders {
            match report
                .leaders
                .iter_mut()
                .find(|one| one.address == leader.address)
            {
                Some(one) => {
                    one.acknowledged += leader.acknowledged;
                    // Without its histogram the service time of both together is not known.
                    one.service = None;
                }
                None => report.leaders.push(leader.clone()),
            }
        }
    }
}

fn timeline(runs: &[(RunReport, Log)], log: &Log) -> Vec<TimelineRow> {
    let mut rows: BTreeMap<u64, TimelineRow> = BTreeMap::new();
    let start_of = |row: &TimelineRow| (row.start_seconds * 1e3).round() as u64;
    for row in runs.iter().flat_map(|(run, _)| &run.timeline) {
        match rows.get_mut(&start_of(row)) {
            Some(one) => {
                one.end_seconds = one.end_seconds.max(row.end_seconds);
                one.acknowledged += row.acknowledged;
                one.received += row.received;
                one.completed.add(row.completed.records, row.completed.bytes);
                one.delivered.add(row.delivered.records, row.delivered.bytes);
                // The warm-up is in no log: its percentiles together are not known.
                (one.response, one.service, one.lag, one.end_to_end) = (None, None, None, None);
            }
            None => drop(rows.insert(start_of(row), row.clone())),
        }
    }
    for (start, row) in &mut rows {
        if row.phase == Phase::WarmUp {
            continue;
        }
        let of = |tag: &str| log.get(&(tag.to_owned(), *start)).and_then(Latencies::summary);
        let [response, service, lag, end_to_end] = DISTRIBUTIONS.map(of);
        (row.response, row.service, row.lag, row.end_to_end) = (response, service, lag, end_to_end);
    }
    rows.into_values().collect()
}
