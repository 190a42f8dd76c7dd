//! Durable commits by how many are in flight: what more requests at once can gain from the disk, by a flush each or by `O_DSYNC`.

use super::Figure;
use super::disk::Scratch;
use crate::direct_io::{AlignedBuffer, create_filled, open_direct_with};
use crate::histogram::Latencies;
use crate::ring::Ring;
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

/// The file that is written round and round.
const FILE_BYTES: u64 = 64 << 20;

/// What is measured: bytes of a commit, and how many are in flight.
const SIZES: [usize; 2] = [4 << 10, 64 << 10];
const DEPTHS: [usize; 4] = [1, 4, 16, 32];

/// Commits between two looks at the clock, for each in flight.
const COMMITS_A_LOOK: u64 = 4;

/// How a commit is made durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Durably {
    /// A write and an fdatasync linked to it.
    Flush,
    /// One write to a file that was opened with `O_DSYNC`.
    Dsync,
}

/// Where it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    /// A file filled before: no commit changes its size.
    Filled,
    /// The end of a file, which grows.
    Appended,
}

/// One point of the curve.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct DepthPoint {
    /// How.
    pub durably: Durably,
    /// Where.
    pub place: Place,
    /// Bytes of a commit.
    pub bytes: usize,
    /// Commits in flight.
    pub depth: usize,
    /// Median time of one.
    pub p50_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// Commits a second.
    pub commits_per_second: Figure,
}

/// The whole curve, each point for so long.
pub(super) fn measure(directory: &Path, each: Duration) -> io::Result<Vec<DepthPoint>> {
    let mut points = Vec::new();
    for durably in [Durably::Flush, Durably::Dsync] {
        for bytes in SIZES {
            for depth in DEPTHS {
                points.push(point(directory, durably, Place::Filled, (bytes, depth), each)?);
            }
        }
        points.push(point(directory, durably, Place::Appended, (SIZES[0], 1), each)?);
    }
    Ok(points)
}

fn point(
    directory: &Path,
    durably: Durably,
    place: Place,
    (bytes, depth): (usize, usize),
    each: Duration,
) -> io::Result<DepthPoint> {
    let scratch = Scratch::in_folder(directory, "depth");
    match place {
        Place::Filled => drop(create_filled(scratch.path(), FILE_BYTES)?),
        Place::Appended => drop(File::create(scratch.path())?),
    }
    let flags = if durably == Durably::Dsync {
        OFlags::DSYNC
    } else {
        OFlags::empty()
    };
    let file = open_direct_with(scratch.path(), flags)?;
    // A write and its flush each.
    let mut ring = Ring::new(2 * depth as u32)?;
    let block = AlignedBuffer::zeroed(bytes);
    let mut latencies = Latencies::default();
    let mut written = 0_u64;
    let count = COMMITS_A_LOOK * depth as u64;
    let commits_per_second = Figure::measure(
        |slice| {
            let began = Instant::now();
            let mut commits = 0_u64;
            while began.elapsed() < slice {
                let first = written;
                let at = |number: u64| {
                    let position = (first + number) * bytes as u64;
                    if place == Place::Filled {
                        position % FILE_BYTES
                    } else {
                        position
                    }
                };
                ring.commit_at_depth(
                    &file,
                    &block,
                    (count, depth),
                    durably == Durably::Flush,
                    at,
                    |took| {
                        latencies.record_between(0, took.as_nanos() as u64);
                    },
                )?;
                written += count;
                commits += count;
            }
            Ok(commits as f64 / began.elapsed().as_secs_f64())
        },
        each,
    )?;
    Ok(DepthPoint {
        durably,
        place,
        bytes,
        depth,
        p50_ns: latencies.at(0.5).unwrap_or(0),
        p99_ns: latencies.at(0.99).unwrap_or(0),
        commits_per_second,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_point_is_measured_and_leaves_nothing() {
        let directory = crate::direct_io::test_directory();
        for (durably, place, depth) in [
            (Durably::Flush, Place::Filled, 4),
            (Durably::Dsync, Place::Filled, 4),
            (Durably::Flush, Place::Appended, 1),
            (Durably::Dsync, Place::Appended, 1),
        ] {
            let found = point(
                directory.path(),
                durably,
                place,
                (4096, depth),
                Duration::from_millis(12),
            )
            .unwrap();
            assert!(found.p50_ns > 0 && found.p99_ns >= found.p50_ns, "{found:?}");
            assert!(found.commits_per_second.median > 0.0, "{found:?}");
        }
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}
