//! What this machine can do at best: the denominators of every claim about a broker.

mod cores;
mod cpu;
mod depth;
mod disk;
mod network;

pub use depth::{DepthPoint, Durably, Place};

use crate::cli::LimitsArgs;
use crate::exit::Exit;
use crate::machine::Machine;
use crate::units::{format_megabytes, format_nanos};
use serde::{Deserialize, Serialize};
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

/// How often each figure is measured; the median counts, the first pass is the warm-up and is dropped.
const PASSES: u32 = 5;

/// A spread above this is flagged: the figure is not to be relied on.
const SPREAD_MAX: f64 = 0.03;

/// A figure measured several times.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// The median of the passes.
    pub median: f64,
    /// The distance of the furthest pass from the median, relative to it.
    pub deviation: f64,
    /// Whether that is more than 3%.
    pub unsteady: bool,
}

impl Figure {
    /// Calls `pass` once for warming up, then several times.
    fn measure(mut pass: impl FnMut(Duration) -> io::Result<f64>, each: Duration) -> io::Result<Self> {
        let slice = each / (PASSES + 1);
        pass(slice)?;
        let passes: io::Result<Vec<f64>> = (0..PASSES).map(|_| pass(slice)).collect();
        Ok(Self::of(passes?))
    }

    fn of(mut passes: Vec<f64>) -> Self {
        passes.sort_by(f64::total_cmp);
        let median = passes[passes.len() / 2];
        let furthest = passes
            .iter()
            .map(|value| (value - median).abs())
            .fold(0.0, f64::max);
        let deviation = if median > 0.0 { furthest / median } else { 0.0 };
        Self {
            median,
            deviation,
            unsteady: deviation > SPREAD_MAX,
        }
    }
}

/// One size of a durable commit: write and fdatasync.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct DurableCommit {
    /// Bytes of the write.
    pub bytes: usize,
    /// Median time of one commit.
    pub p50_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// Bytes a second of commits back to back.
    pub bytes_per_second: Figure,
}

/// All limits.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Limits {
    /// Where.
    pub machine: Machine,
    /// One linked write and fdatasync in flight, direct, into a file filled with zeros.
    pub durable: Vec<DurableCommit>,
    /// 1 MiB direct writes, four in flight, no flush; bytes a second.
    pub sequential_write: Figure,
    /// 1 MiB direct reads, four in flight; bytes a second.
    pub sequential_read: Figure,
    /// 1 KiB there and 64 bytes back over loopback TCP, one in flight; nanoseconds.
    pub loopback_round_trip_ns: Figure,
    /// One loopback TCP connection in one direction; bytes a second.
    pub loopback_stream: Figure,
    /// Copying within the caches; bytes a second.
    pub memory_copy_cached: Figure,
    /// Copying beyond the caches; bytes a second.
    pub memory_copy: Figure,
    /// CRC32C of 16 KiB; bytes a second.
    pub crc32c: Figure,
    /// XXH3-64 of 16 KiB; bytes a second.
    pub xxh3: Figure,
    /// Reading the clock; nanoseconds.
    pub clock_read_ns: Figure,
    /// One way of a cache line between two cores; nanoseconds. Missing with one core.
    pub cache_line_hop_ns: Option<Figure>,
    /// One way between two sleeping threads on two cores that wake each other; nanoseconds.
    pub wake_up_hop_ns: Option<Figure>,
    /// Durable commits by how many are in flight; `limits` measures them, a run does not.
    pub depths: Vec<DepthPoint>,
}

/// Measures and prints.
pub fn execute(args: &LimitsArgs) -> io::Result<Exit> {
    if args.each.is_zero() {
        eprintln!("strandline-bench: --each 0 measures nothing");
        return Ok(Exit::Usage);
    }
    let limits = Limits {
        depths: depth::measure(&args.data_dir, args.each)?,
        ..measure(&args.data_dir, args.each)?
    };
    let mut out = io::stdout().lock();
    if args.json {
        serde_json::to_writer_pretty(&mut out, &limits)?;
        writeln!(out)?;
    } else {
        print(&mut out, &limits)?;
    }
    Ok(Exit::Ok)
}

/// Measures all of them but the curve of depths, `each` for so long, on the disk that holds `directory`.
pub fn measure(directory: &Path, each: Duration) -> io::Result<Limits> {
    let disk = disk::measure(directory, each)?;
    Ok(Limits {
        machine: Machine::look(directory),
        durable: disk.durable,
        sequential_write: disk.sequential_write,
        sequential_read: disk.sequential_read,
        loopback_round_trip_ns: network::round_trip(each)?,
        loopback_stream: network::stream(each)?,
        memory_copy_cached: cpu::copy(cpu::CACHED_BYTES, each)?,
        memory_copy: cpu::copy(cpu::UNCACHED_BYTES, each)?,
        crc32c: cpu::crc32c(each)?,
        xxh3: cpu::xxh3(each)?,
        clock_read_ns: cpu::clock_read(each)?,
        cache_line_hop_ns: cores::cache_line(each)?,
        wake_up_hop_ns: cores::wake_up(each)?,
        depths: Vec::new(),
    })
}

fn print(out: &mut impl Write, limits: &Limits) -> io::Result<()> {
    let machine = &limits.machine;
    writeln!(
        out,
        "{}, {} cores, kernel {}, {}",
        machine.cpu, machine.cores, machine.kernel, machine.file_system
    )?;
    writeln!(
        out,
        "\ndurable commit (write + fdatasync, direct, file filled before)"
    )?;
    for commit in &limits.durable {
        writeln!(
            out,
            "  {:>5} KiB   p50 {:>8}   p99 {:>8}   {}{}",
            commit.bytes / 1024,
            format_nanos(commit.p50_ns),
            format_nanos(commit.p99_ns),
            format_megabytes(commit.bytes_per_second.median),
            flag(&commit.bytes_per_second)
        )?;
    }
    if !limits.depths.is_empty() {
        writeln!(out, "\ndurable commits by how many are in flight (direct)")?;
    }
    for point in &limits.depths {
        let how = match point.durably {
            Durably::Flush => "write + fdatasync",
            Durably::Dsync => "O_DSYNC",
        };
        let place = match point.place {
            Place::Filled => "filled",
            Place::Appended => "appended",
        };
        writeln!(
            out,
            "  {how:<18}{place:<9}{:>3} KiB x {:<3} p50 {:>8}   p99 {:>8}   {:>7.0} commits/s = {}{}",
            point.bytes / 1024,
            point.depth,
            format_nanos(point.p50_ns),
            format_nanos(point.p99_ns),
            point.commits_per_second.median,
            format_megabytes(point.commits_per_second.median * point.bytes as f64),
            flag(&point.commits_per_second)
        )?;
    }
    let rates = [
        (
            "sequential write, 1 MiB x 4, not flushed",
            &limits.sequential_write,
        ),
        ("sequential direct read, 1 MiB x 4", &limits.sequential_read),
        ("loopback TCP, one direction", &limits.loopback_stream),
        ("memory copy, in cache", &limits.memory_copy_cached),
        ("memory copy, beyond caches", &limits.memory_copy),
        ("CRC32C", &limits.crc32c),
        ("XXH3-64", &limits.xxh3),
    ];
    writeln!(out)?;
    for (name, figure) in rates {
        writeln!(
            out,
            "{name:<42}{}{}",
            format_megabytes(figure.median),
            flag(figure)
        )?;
    }
    let times = [
        ("loopback TCP round trip", Some(&limits.loopback_round_trip_ns)),
        ("clock read", Some(&limits.clock_read_ns)),
        (
            "cache line, one way between cores",
            limits.cache_line_hop_ns.as_ref(),
        ),
        ("wake-up, one way between cores", limits.wake_up_hop_ns.as_ref()),
    ];
    for (name, figure) in times {
        let Some(figure) = figure else { continue };
        writeln!(
            out,
            "{name:<42}{}{}",
            format_nanos(figure.median.round() as u64),
            flag(figure)
        )?;
    }
    Ok(())
}

fn flag(figure: &Figure) -> String {
    if figure.unsteady {
        format!("   unsteady: ±{:.0}%", figure.deviation * 100.0)
    } else {
        String::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_counts_and_a_wide_spread_is_flagged() {
        let steady = Figure::of(vec![100.0, 101.0, 99.0, 100.0, 102.0]);
        assert_eq!(
            (steady.median, steady.deviation, steady.unsteady),
            (100.0, 0.02, false)
        );
        assert!(Figure::of(vec![100.0, 100.0, 100.0, 100.0, 110.0]).unsteady);
    }
}
