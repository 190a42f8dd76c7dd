//! The folder of a run: `run.json`, `latency.hlog`, `series.csv`, percentile distributions, `report.html`.

use super::{Curve, RunReport, SCHEMA_VERSION, html};
use crate::histogram::{Latencies, Summary};
use crate::series::{Interval, Series};
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, IntervalLogWriterError, Tag};
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Where results go unless told.
const RESULTS: &str = "results";

/// What the maxima in the log are divided by to be readable: nanoseconds shown as milliseconds, as the reference tools do.
const MAX_VALUE_DIVISOR: f64 = 1e6;

/// A run's folder.
#[derive(Clone, Debug)]
pub struct Folder {
    path: PathBuf,
}

impl Folder {
    /// Creates `output`, or `results/<time>-<name>`; a name that is taken gets a number.
    pub fn create(output: Option<&Path>, name: &str) -> io::Result<Self> {
        if let Some(path) = output {
            fs::create_dir_all(path)?;
            return Ok(Self {
                path: path.to_owned(),
            });
        }
        fs::create_dir_all(RESULTS)?;
        let base = format!("{}-{name}", timestamp(SystemTime::now()));
        let mut path = Path::new(RESULTS).join(&base);
        let mut number = 2;
        loop {
            match fs::create_dir(&path) {
                Ok(()) => return Ok(Self { path }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    path = Path::new(RESULTS).join(format!("{base}-{number}"));
                    number += 1;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// `20261130-213000`, in UTC.
fn timestamp(at: SystemTime) -> String {
    let seconds = at.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs();
    let (year, month, day) = civil(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year}{month:02}{day:02}-{hour:02}{minute:02}{second:02}")
}

/// Year, month and day of a day counted from 1970-01-01.
fn civil(mut day: u64) -> (u64, u64, u64) {
    let leap = |year: u64| (year.is_multiple_of(4) && !year.is_multiple_of(100)) || year.is_multiple_of(400);
    let mut year = 1970;
    while day >= 365 + u64::from(leap(year)) {
        day -= 365 + u64::from(leap(year));
        year += 1;
    }
    let lengths = [
        31,
        28 + u64::from(leap(year)),
        31,
        30,
        31,
        30,
        31,
        31,
        30,
        31,
        30,
        31,
    ];
    let mut month = 1;
    for length in lengths {
        if day < length {
            break;
        }
        day -= length;
        month += 1;
    }
    (year, month, day + 1)
}

/// Writes all files of a run.
pub fn write_results(folder: &Folder, report: &RunReport, series: &Series) -> io::Result<()> {
    let mut log = BufWriter::new(File::create(folder.path.join("latency.hlog"))?);
    write_log(&mut log, report, series)?;
    log.flush()?;
    write_report(folder, report)
}

/// Writes the files that are made from the report alone.
pub fn write_report(folder: &Folder, report: &RunReport) -> io::Result<()> {
    for (name, kind) in [
        ("run.json", Export::Json),
        ("series.csv", Export::Csv),
        ("report.html", Export::Html),
    ] {
        let mut file = BufWriter::new(File::create(folder.path.join(name))?);
        kind.write(&mut file, report)?;
        file.flush()?;
    }
    for curve in report.curves.iter().filter(|curve| !curve.points.is_empty()) {
        let mut file = BufWriter::new(File::create(folder.path.join(format!("{}.hgrm", curve.name)))?);
        write_curve(&mut file, curve)?;
        file.flush()?;
    }
    Ok(())
}

/// Reads the result of a run back: its folder, or its `run.json`. The error is a sentence.
pub fn load(path: &Path) -> Result<RunReport, String> {
    let file = if path.is_dir() {
        path.join("run.json")
    } else {
        path.to_owned()
    };
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
    let text = fs::read(&file).map_err(|error| failed(&error))?;
    let value: serde_json::Value =
        serde_json::from_slice(&text).map_err(|error| failed(&format!("no result of a run: {error}")))?;
    let version = value.get("schema_version").and_then(serde_json::Value::as_u64);
    if version != Some(u64::from(SCHEMA_VERSION)) {
        return Err(failed(&match version {
            Some(version) => format!("its schema is version {version}, this tool reads {SCHEMA_VERSION}"),
            None => "no result of a run: it has no schema_version".to_owned(),
        }));
    }
    serde_json::from_value(value).map_err(|error| failed(&format!("no result of a run: {error}")))
}

/// The results below the working folder that can be read, the oldest first.
pub fn stored() -> Vec<(PathBuf, RunReport)> {
    let entries = fs::read_dir(RESULTS).map(|entries| entries.flatten().collect::<Vec<_>>());
    let mut found: Vec<(PathBuf, RunReport)> = entries
        .unwrap_or_default()
        .into_iter()
        .filter_map(|entry| Some((entry.path(), load(&entry.path()).ok()?)))
        .collect();
    found.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
    found
}

/// What a result can be written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Export {
    /// The page with charts.
    Html,
    /// Second by second.
    Csv,
    /// All of it.
    Json,
    /// Percentile distributions as HdrHistogram's tools print them, in milliseconds, one after the other.
    Hgrm,
}

impl Export {
    /// Writes `report` in this form.
    pub fn write(self, out: &mut impl Write, report: &RunReport) -> io::Result<()> {
        match self {
            Self::Html => out.write_all(html::page(report).as_bytes()),
            Self::Csv => write_series(out, report),
            Self::Json => {
                serde_json::to_writer_pretty(&mut *out, report)?;
                writeln!(out)
            }
            Self::Hgrm => {
                for curve in report.curves.iter().filter(|curve| !curve.points.is_empty()) {
                    writeln!(out, "#[{}]", curve.name)?;
                    write_curve(out, curve)?;
                }
                Ok(())
            }
        }
    }
}

/// A percentile distribution in milliseconds.
fn write_curve(out: &mut impl Write, curve: &Curve) -> io::Result<()> {
    writeln!(
        out,
        "{:>12} {:>14} {:>10} {:>14}\n",
        "Value", "Percentile", "TotalCount", "1/(1-Percentile)"
    )?;
    for point in &curve.points {
        write!(
            out,
            "{:>12.6} {:>14.12} {:>10}",
            point.value_ns as f64 / MAX_VALUE_DIVISOR,
            point.quantile,
            point.count
        )?;
        if point.quantile < 1.0 {
            write!(out, " {:>14.2}", 1.0 / (1.0 - point.quantile))?;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// The measured seconds as an HdrHistogram V2 log, one tag for each distribution.
fn write_log(out: &mut impl Write, report: &RunReport, series: &Series) -> io::Result<()> {
    let started = UNIX_EPOCH + Duration::from_millis(report.started_at_ms.max(0) as u64);
    let mut serializer = V2DeflateSerializer::new();
    let mut log = IntervalLogWriterBuilder::new()
        .add_comment("strandline-bench: nanoseconds; seconds of the schedule, by intended time; the warm-up is not in here")
        .with_start_time(started)
        .with_base_time(started)
        .with_max_value_divisor(MAX_VALUE_DIVISOR)
        .begin_log_with(out, &mut serializer)?;
    for (index, interval) in series.intervals() {
        let (start, end) = series.phases().bounds(index);
        if start < series.phases().warm_up {
            continue;
        }
        for (name, latencies) in distributions(&interval) {
            if latencies.is_empty() {
                continue;
            }
            let duration = Duration::from_nanos(end - start);
            log.write_histogram(
                latencies.histogram(),
                Duration::from_nanos(start),
                duration,
                Tag::new(name),
            )
            .map_err(|error| match error {
                IntervalLogWriterError::IoError(error) => error,
                other => io::Error::other(format!("{other:?}")),
            })?;
        }
    }
    Ok(())
}

/// The distributions of a log, by their tags.
pub const DISTRIBUTIONS: [&str; 4] = ["response", "service", "lag", "e2e"];

/// In the order of [`DISTRIBUTIONS`].
fn distributions(interval: &Interval) -> [(&'static str, &Latencies); 4] {
    let [response, service, lag, end_to_end] = DISTRIBUTIONS;
    [
        (response, &interval.acks.response),
        (service, &interval.acks.service),
        (lag, &interval.acks.lag),
        (end_to_end, &interval.end_to_end),
    ]
}

fn write_series(out: &mut impl Write, report: &RunReport) -> io::Result<()> {
    write!(
        out,
        "start_s,end_s,phase,acknowledged,received,completed,completed_bytes,delivered,delivered_bytes"
    )?;
    for name in DISTRIBUTIONS {
        write!(out, ",{name}_p50_ns,{name}_p99_ns,{name}_p999_ns,{name}_max_ns")?;
    }
    writeln!(out)?;
    for row in &report.timeline {
        write!(
            out,
            "{},{},{},{},{},{},{},{},{}",
            row.start_seconds,
            row.end_seconds,
            row.phase.name(),
            row.acknowledged,
            row.received,
            row.completed.records,
            row.completed.bytes,
            row.delivered.records,
            row.delivered.bytes
        )?;
        for summary in [row.response, row.service, row.lag, row.end_to_end] {
            match summary {
                Some(Summary {
                    p50_ns,
                    p99_ns,
                    p999_ns,
                    max_ns,
                    ..
                }) => {
                    write!(out, ",{p50_ns},{p99_ns},{p999_ns},{max_ns}")?;
                }
                None => write!(out, ",,,,")?,
            }
        }
        writeln!(out)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_are_dates() {
        let at = |seconds| timestamp(UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(0), "19700101-000000");
        assert_eq!(at(951_782_400), "20000229-000000");
        assert_eq!(at(1_796_074_230), "20261130-213030");
        assert_eq!(at(4_107_542_400), "21000301-000000");
    }
}
