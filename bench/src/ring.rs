//! A raw io_uring for the reference journal and the disk limits. The only module of this crate with `unsafe`.
//!
//! Every function returns only when the kernel has completed all it was given: no operation outlives the borrow of its buffer.

#![allow(unsafe_code)]

use crate::direct_io::AlignedBuffer;
use io_uring::squeue::{Entry, Flags};
use io_uring::{IoUring, opcode, types};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

/// `user_data` of the write in a linked pair.
const WRITE: u64 = 0;
/// `user_data` of the flush in a linked pair.
const FLUSH: u64 = 1;

/// A ring with nothing in flight between calls.
pub struct Ring {
    ring: IoUring,
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Ring")
    }
}

impl Ring {
    /// A ring for `entries` operations in flight.
    pub fn new(entries: u32) -> io::Result<Self> {
        let ring = IoUring::new(entries).map_err(|error| {
            io::Error::new(
                error.kind(),
                format!("io_uring is refused ({error}): check kernel.io_uring_disabled and the container's seccomp profile"),
            )
        })?;
        Ok(Self { ring })
    }

    /// Writes `bytes` at `offset` and flushes the file: linked, so that the flush starts when the whole write is done, and both are one
    /// system call. A short write cancels the flush and is an error.
    pub fn write_durably(&mut self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        let fd = types::Fd(file.as_raw_fd());
        let len = u32::try_from(bytes.len()).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        let write = opcode::Write::new(fd, bytes.as_ptr(), len)
            .offset(offset)
            .build()
            .flags(Flags::IO_LINK)
            .user_data(WRITE);
        let flush = opcode::Fsync::new(fd)
            .flags(types::FsyncFlags::DATASYNC)
            .build()
            .user_data(FLUSH);
        // SAFETY: `fd` is open and `bytes` is borrowed until `wait` has seen both completions.
        unsafe { self.push(&write) };
        // SAFETY: a flush has no buffer; `fd` is open as above.
        unsafe { self.push(&flush) };
        let mut results = [0; 2];
        self.wait(2, |user_data, result| results[user_data as usize] = result);
        check(results[WRITE as usize], bytes.len())?;
        check(results[FLUSH as usize], 0)
    }

    /// Writes `block` to `blocks` consecutive places from the start of the file, `depth` of them in flight, without a flush.
    pub fn write_sequentially(
        &mut self,
        file: &File,
        block: &AlignedBuffer,
        blocks: u64,
        depth: usize,
    ) -> io::Result<()> {
        let fd = types::Fd(file.as_raw_fd());
        let bytes = block.bytes();
        let (pointer, len) = (bytes.as_ptr(), bytes.len() as u32);
        self.pipeline(blocks, depth, bytes.len(), |index| {
            opcode::Write::new(fd, pointer, len)
                .offset(index * u64::from(len))
                .build()
        })
    }

    /// Reads `blocks` consecutive blocks from the start of the file, one in flight for each of `buffers`, which have one size.
    pub fn read_sequentially(
        &mut self,
        file: &File,
        buffers: &mut [AlignedBuffer],
        blocks: u64,
    ) -> io::Result<()> {
        let fd = types::Fd(file.as_raw_fd());
        let Some(block_bytes) = buffers.first().map(|buffer| buffer.bytes().len()) else {
            return Ok(());
        };
        assert!(
            buffers.iter().all(|buffer| buffer.bytes().len() == block_bytes),
            "buffers of one size"
        );
        let pointers: Vec<*mut u8> = buffers
            .iter_mut()
            .map(|buffer| buffer.bytes_mut().as_mut_ptr())
            .collect();
        // Two reads in flight may land in one buffer when completions overtake each other; nobody looks at the bytes.
        self.pipeline(blocks, pointers.len(), block_bytes, |index| {
            let pointer = pointers[index as usize % pointers.len()];
            opcode::Read::new(fd, pointer, block_bytes as u32)
                .offset(index * block_bytes as u64)
                .build()
        })
    }

    /// Writes `block` `count` times, `depth` of them in flight, each at what `place` says; with `flush` each is linked with a flush of the
    /// file and done when that is. `done` is told how long each took.
    pub fn commit_at_depth(
        &mut self,
        file: &File,
        block: &AlignedBuffer,
        (count, depth): (u64, usize),
        flush: bool,
        place: impl Fn(u64) -> u64,
        mut done: impl FnMut(Duration),
    ) -> io::Result<()> {
        let fd = types::Fd(file.as_raw_fd());
        let bytes = block.bytes();
        let mut free: Vec<usize> = (0..depth).collect();
        let mut began = vec![Instant::now(); depth];
        let mut outcome = Ok(());
        let mut started = 0;
        while free.len() < depth || (started < count && outcome.is_ok()) {
            while started < count && outcome.is_ok() {
                let Some(slot) = free.pop() else { break };
                began[slot] = Instant::now();
                let user_data = 2 * slot as u64;
                let mut write = opcode::Write::new(fd, bytes.as_ptr(), bytes.len() as u32)
                    .offset(place(started))
                    .build()
                    .user_data(user_data + WRITE);
                if flush {
                    write = write.flags(Flags::IO_LINK);
                }
                // SAFETY: file and block are borrowed until this function returns, and it returns only when every slot is free again, which
                // takes the last completion of what was started in it.
                unsafe { self.push(&write) };
                if flush {
                    let flush = opcode::Fsync::new(fd)
                        .flags(types::FsyncFlags::DATASYNC)
                        .build()
                        .user_data(user_data + FLUSH);
                    // SAFETY: a flush has no buffer; `fd` is open as above.
                    unsafe { self.push(&flush) };
                }
                started += 1;
            }
            self.wait(1, |user_data, result| {
                let (slot, kind) = ((user_data / 2) as usize, user_data % 2);
                let expected = if kind == WRITE { bytes.len() } else { 0 };
                if outcome.is_ok() {
                    outcome = check(result, expected);
                }
                // The flush of a pair completes last, cancelled or not.
                if kind == FLUSH || !flush {
                    done(began[slot].elapsed());
                    free.push(slot);
                }
            });
        }
        outcome
    }

    /// Runs `count` operations of `bytes` each, `depth` in flight. `operation` builds entries on memory that its caller borrows for the
    /// whole call.
    fn pipeline(
        &mut self,
        count: u64,
        depth: usize,
        bytes: usize,
        operation: impl Fn(u64) -> Entry,
    ) -> io::Result<()> {
        let mut outcome = Ok(());
        let (mut started, mut finished) = (0, 0);
        while finished < started || (started < count && outcome.is_ok()) {
            while started < count && started - finished < depth as u64 && outcome.is_ok() {
                // SAFETY: the callers hold file and buffers borrowed until this function returns, and it returns only when
                // as many operations have finished as were started.
                unsafe { self.push(&operation(started)) };
                started += 1;
            }
            finished += self.wait(1, |_, result| {
                if outcome.is_ok() {
                    outcome = check(result, bytes);
                }
            });
        }
        outcome
    }

    /// # Safety
    /// The file and the memory that `entry` names stay valid until its completion was reaped by [`Self::wait`].
    unsafe fn push(&mut self, entry: &Entry) {
        // SAFETY: passed on to the caller.
        unsafe { self.ring.submission().push(entry) }
            .expect("no caller has more in flight than the ring has entries");
    }

    /// Submits what was pushed and waits for at least `wanted` completions; returns how many came.
    fn wait(&mut self, wanted: usize, mut completed: impl FnMut(u64, i32)) -> u64 {
        let mut seen = 0;
        while seen < wanted as u64 {
            if let Err(error) = self.ring.submit_and_wait(wanted - seen as usize)
                && !matches!(error.raw_os_error(), Some(code) if code == rustix::io::Errno::INTR.raw_os_error()
                    || code == rustix::io::Errno::AGAIN.raw_os_error() || code == rustix::io::Errno::BUSY.raw_os_error())
            {
                // Operations may be in flight on borrowed memory, and there is no way left to wait for them.
                eprintln!("io_uring stopped answering: {error}");
                std::process::abort();
            }
            for completion in self.ring.completion() {
                completed(completion.user_data(), completion.result());
                seen += 1;
            }
        }
        seen
    }
}

/// Turns a completion's result into an error unless it is exactly `expected`.
fn check(result: i32, expected: usize) -> io::Result<()> {
    match usize::try_from(result) {
        Ok(done) if done == expected => Ok(()),
        Ok(done) => Err(io::Error::new(
            io::ErrorKind::WriteZero,
            format!("{done} of {expected} bytes were transferred"),
        )),
        Err(_) => Err(io::Error::from_raw_os_error(-result)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::direct_io::{PAGE, create_filled};
    use std::io::Read;

    #[test]
    fn what_was_written_durably_is_read() {
        let directory = crate::direct_io::test_directory();
        let path = directory.path().join("file");
        let file = create_filled(&path, 4 * PAGE as u64).unwrap();
        let mut buffer = AlignedBuffer::zeroed(PAGE);
        buffer.bytes_mut().fill(7);
        let mut ring = Ring::new(8).unwrap();
        ring.write_durably(&file, buffer.bytes(), PAGE as u64).unwrap();
        let mut all = Vec::new();
        File::open(&path).unwrap().read_to_end(&mut all).unwrap();
        assert_eq!(all.len(), 4 * PAGE);
        assert!(all[PAGE..2 * PAGE].iter().all(|&byte| byte == 7));
        assert!(all[..PAGE].iter().chain(&all[2 * PAGE..]).all(|&byte| byte == 0));
    }

    #[test]
    fn commits_in_flight_all_arrive_and_errors_are_told() {
        let directory = crate::direct_io::test_directory();
        let path = directory.path().join("file");
        let file = create_filled(&path, 32 * PAGE as u64).unwrap();
        let mut ring = Ring::new(16).unwrap();
        let mut block = AlignedBuffer::zeroed(PAGE);
        block.bytes_mut().fill(9);
        for flush in [true, false] {
            let mut done = 0;
            ring.commit_at_depth(
                &file,
                &block,
                (16, 4),
                flush,
                |n| 2 * n * PAGE as u64,
                |_| done += 1,
            )
            .unwrap();
            assert_eq!(done, 16);
        }
        let all = std::fs::read(&path).unwrap();
        for (page, bytes) in all.chunks(PAGE).enumerate() {
            let expected = if page % 2 == 0 { 9 } else { 0 };
            assert!(bytes.iter().all(|&byte| byte == expected), "page {page}");
        }
        let readable = File::open(&path).unwrap();
        for flush in [true, false] {
            let refused = ring.commit_at_depth(&readable, &block, (16, 4), flush, |_| 0, |_| ());
            assert!(refused.is_err(), "a file that cannot be written");
        }
    }

    #[test]
    fn sequential_reads_and_writes_cover_the_file_and_report_errors() {
        let directory = crate::direct_io::test_directory();
        let file = create_filled(&directory.path().join("file"), 16 * PAGE as u64).unwrap();
        let mut ring = Ring::new(8).unwrap();
        let block = AlignedBuffer::zeroed(PAGE);
        ring.write_sequentially(&file, &block, 16, 4).unwrap();
        let mut buffers: Vec<_> = (0..4).map(|_| AlignedBuffer::zeroed(PAGE)).collect();
        ring.read_sequentially(&file, &mut buffers, 16).unwrap();
        let past_the_end = ring.read_sequentially(&file, &mut buffers, 17);
        assert!(past_the_end.is_err(), "a short read is an error");
        ring.read_sequentially(&file, &mut buffers, 16).unwrap();
    }
}
