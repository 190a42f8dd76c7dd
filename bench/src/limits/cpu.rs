//! One core: copying, checksums, the clock.

use super::Figure;
use std::hint::black_box;
use std::io;
use std::time::{Duration, Instant};
use xxhash_rust::xxh3::xxh3_64;

/// Fits the L2 cache with its copy.
pub(super) const CACHED_BYTES: usize = 256 << 10;

/// Fits no cache.
pub(super) const UNCACHED_BYTES: usize = 128 << 20;

/// A usual batch.
const BATCH_BYTES: usize = 16 << 10;

/// Calls between two looks at the clock.
const CALLS_A_LOOK: u32 = 64;

pub(super) fn copy(bytes: usize, each: Duration) -> io::Result<Figure> {
    let source = vec![1_u8; bytes];
    let mut target = vec![0_u8; bytes];
    let calls = (CACHED_BYTES / bytes).max(1) as u32;
    throughput(bytes, calls, each, || {
        target.copy_from_slice(black_box(&source));
        black_box(&mut target);
    })
}

pub(super) fn crc32c(each: Duration) -> io::Result<Figure> {
    let batch = vec![1_u8; BATCH_BYTES];
    throughput(BATCH_BYTES, CALLS_A_LOOK, each, || {
        black_box(crc32c::crc32c(black_box(&batch)));
    })
}

pub(super) fn xxh3(each: Duration) -> io::Result<Figure> {
    let batch = vec![1_u8; BATCH_BYTES];
    throughput(BATCH_BYTES, CALLS_A_LOOK, each, || {
        black_box(xxh3_64(black_box(&batch)));
    })
}

pub(super) fn clock_read(each: Duration) -> io::Result<Figure> {
    let calls_a_second = calls_a_second(CALLS_A_LOOK, each, || {
        black_box(Instant::now());
    })?;
    Ok(Figure {
        median: 1e9 / calls_a_second.median,
        ..calls_a_second
    })
}

fn throughput(bytes: usize, calls: u32, each: Duration, work: impl FnMut()) -> io::Result<Figure> {
    let figure = calls_a_second(calls, each, work)?;
    Ok(Figure {
        median: figure.median * bytes as f64,
        ..figure
    })
}

fn calls_a_second(calls_a_look: u32, each: Duration, mut work: impl FnMut()) -> io::Result<Figure> {
    Figure::measure(
        |slice| {
            let began = Instant::now();
            let mut calls = 0_u64;
            loop {
                for _ in 0..calls_a_look {
                    work();
                }
                calls += u64::from(calls_a_look);
                if began.elapsed() >= slice {
                    return Ok(calls as f64 / began.elapsed().as_secs_f64());
                }
            }
        },
        each,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_core_has_limits() {
        let each = Duration::from_millis(6);
        for figure in [
            copy(CACHED_BYTES, each),
            crc32c(each),
            xxh3(each),
            clock_read(each),
        ] {
            assert!(figure.unwrap().median > 0.0);
        }
    }
}
