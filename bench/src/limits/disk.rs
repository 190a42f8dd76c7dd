//! The disk, through a raw io_uring and past the page cache.

use super::{DurableCommit, Figure};
use crate::direct_io::{AlignedBuffer, create_filled, in_memory_file_system};
use crate::histogram::Latencies;
use crate::ring::Ring;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Sizes of durable commits.
const COMMIT_SIZES: [usize; 5] = [4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20];

/// The file: large enough that a device cache of usual size does not hold all of it.
const FILE_BYTES: u64 = 256 << 20;

/// The block and depth of the sequential figures.
const BLOCK: usize = 1 << 20;
const DEPTH: usize = 4;

/// Blocks between two looks at the clock.
const BLOCKS_A_LOOK: u64 = 32;

pub(super) struct Disk {
    pub(super) durable: Vec<DurableCommit>,
    pub(super) sequential_write: Figure,
    pub(super) sequential_read: Figure,
}

/// The file that is measured on, gone when dropped.
pub(super) struct Scratch(PathBuf);

impl Scratch {
    /// A name in `directory` that no other process uses.
    pub(super) fn in_folder(directory: &Path, what: &str) -> Self {
        Self(directory.join(format!("strandline-bench-{what}-{}", std::process::id())))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_file(&self.0) {
            crate::live::say(format!("{}: {error}", self.0.display()));
        }
    }
}

pub(super) fn measure(directory: &Path, each: Duration) -> io::Result<Disk> {
    if let Some(kind) = in_memory_file_system(directory)? {
        return Err(io::Error::other(format!(
            "{} is on {kind}: name a folder on a disk with --data-dir",
            directory.display()
        )));
    }
    let scratch = Scratch::in_folder(directory, "limits");
    let file = create_filled(&scratch.0, FILE_BYTES)?;
    let mut ring = Ring::new(16)?;
    let mut durable = Vec::new();
    for bytes in COMMIT_SIZES {
        durable.push(commit(&mut ring, &file, bytes, each)?);
    }
    let block = AlignedBuffer::zeroed(BLOCK);
    let sequential_write = sequential(each, |blocks| {
        ring.write_sequentially(&file, &block, blocks, DEPTH)
    })?;
    let mut buffers: Vec<AlignedBuffer> = (0..DEPTH).map(|_| AlignedBuffer::zeroed(BLOCK)).collect();
    let sequential_read = sequential(each, |blocks| ring.read_sequentially(&file, &mut buffers, blocks))?;
    Ok(Disk {
        durable,
        sequential_write,
        sequential_read,
    })
}

fn commit(ring: &mut Ring, file: &std::fs::File, bytes: usize, each: Duration) -> io::Result<DurableCommit> {
    let buffer = AlignedBuffer::zeroed(bytes);
    let mut latencies = Latencies::default();
    let mut position = 0;
    let bytes_per_second = Figure::measure(
        |slice| {
            let began = Instant::now();
            let mut commits = 0_u64;
            while began.elapsed() < slice {
                let submitted = Instant::now();
                ring.write_durably(file, buffer.bytes(), position)?;
                latencies.record_between(0, submitted.elapsed().as_nanos() as u64);
                position = (position + bytes as u64) % FILE_BYTES;
                commits += 1;
            }
            Ok(commits as f64 * bytes as f64 / began.elapsed().as_secs_f64())
        },
        each,
    )?;
    let (p50_ns, p99_ns) = (latencies.at(0.5).unwrap_or(0), latencies.at(0.99).unwrap_or(0));
    Ok(DurableCommit {
        bytes,
        p50_ns,
        p99_ns,
        bytes_per_second,
    })
}

fn sequential(each: Duration, mut transfer: impl FnMut(u64) -> io::Result<()>) -> io::Result<Figure> {
    Figure::measure(
        |slice| {
            let began = Instant::now();
            let mut blocks = 0;
            while began.elapsed() < slice {
                transfer(BLOCKS_A_LOOK)?;
                blocks += BLOCKS_A_LOOK;
            }
            Ok(blocks as f64 * BLOCK as f64 / began.elapsed().as_secs_f64())
        },
        each,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_has_limits() {
        let directory = crate::direct_io::test_directory();
        let disk = measure(directory.path(), Duration::from_millis(12)).unwrap();
        assert_eq!(disk.durable.len(), COMMIT_SIZES.len());
        assert!(
            disk.durable
                .iter()
                .all(|commit| commit.p50_ns > 0 && commit.bytes_per_second.median > 0.0)
        );
        assert!(disk.sequential_write.median > 0.0 && disk.sequential_read.median > 0.0);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn memory_is_refused() {
        assert!(measure(Path::new("/dev/shm"), Duration::from_millis(1)).is_err());
    }
}
