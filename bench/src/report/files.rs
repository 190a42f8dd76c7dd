//! The folder of a run: `run.json`, `latency.hlog`, `series.csv`.

use super::RunReport;
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
    let mut json = serde_json::to_vec_pretty(report)?;
    json.push(b'\n');
    fs::write(folder.path.join("run.json"), json)?;
    let mut log = BufWriter::new(File::create(folder.path.join("latency.hlog"))?);
    write_log(&mut log, report, series)?;
    log.flush()?;
    let mut csv = BufWriter::new(File::create(folder.path.join("series.csv"))?);
    write_series(&mut csv, series)?;
    csv.flush()
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

fn distributions(interval: &Interval) -> [(&'static str, &Latencies); 4] {
    [
        ("response", &interval.acks.response),
        ("service", &interval.acks.service),
        ("lag", &interval.acks.lag),
        ("e2e", &interval.end_to_end),
    ]
}

/// Every second, the warm-up included and marked.
fn write_series(out: &mut impl Write, series: &Series) -> io::Result<()> {
    write!(out, "start_s,end_s,phase,acknowledged,received")?;
    for (name, _) in distributions(&Interval::default()) {
        write!(out, ",{name}_p50_ns,{name}_p99_ns,{name}_p999_ns,{name}_max_ns")?;
    }
    writeln!(out)?;
    for (index, interval) in series.intervals() {
        let (start, end) = series.phases().bounds(index);
        let phase = if start < series.phases().warm_up {
            "warm-up"
        } else {
            "measured"
        };
        let seconds = |nanos: u64| nanos as f64 / 1e9;
        write!(
            out,
            "{},{},{phase},{},{}",
            seconds(start),
            seconds(end),
            interval.acknowledged,
            interval.received
        )?;
        for (_, latencies) in distributions(&interval) {
            match latencies.summary() {
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
