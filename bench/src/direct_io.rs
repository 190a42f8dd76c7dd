//! Files past the page cache: aligned memory, preallocated files, and the refusal of file systems that only pretend.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The alignment of direct I/O: the physical sector of any current disk, whatever it reports as logical.
pub const PAGE: usize = 4096;

/// Bytes written at once while a file is filled with zeros.
const FILL_BYTES: usize = 1 << 20;

/// `f_type` of file systems that live in memory, from the kernel's `magic.h`: tmpfs and ramfs.
const IN_MEMORY: [i64; 2] = [0x0102_1994, 0x8584_58f6];

/// Memory that starts on a [`PAGE`], as direct I/O asks.
#[derive(Debug)]
pub struct AlignedBuffer {
    storage: Box<[u8]>,
    start: usize,
    len: usize,
}

impl AlignedBuffer {
    /// `len` bytes of zeros, rounded up to whole pages.
    pub fn zeroed(len: usize) -> Self {
        let len = len.next_multiple_of(PAGE);
        // One page more than asked, so that an aligned start exists; the box never moves, so the start stays aligned.
        let storage = vec![0; len + PAGE].into_boxed_slice();
        let start = storage.as_ptr().align_offset(PAGE);
        Self { storage, start, len }
    }

    /// The aligned bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.storage[self.start..self.start + self.len]
    }

    /// The aligned bytes, to be written.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.storage[self.start..self.start + self.len]
    }
}

/// Creates `path` with `bytes` zeros in it, flushed, and opens it for direct I/O. A commit into such a file changes no metadata.
pub fn create_filled(path: &Path, bytes: u64) -> io::Result<File> {
    let mut plain = File::create(path)?;
    let zeros = vec![0; FILL_BYTES];
    let mut left = bytes;
    while left > 0 {
        let step = left.min(FILL_BYTES as u64);
        plain.write_all(&zeros[..step as usize])?;
        left -= step;
    }
    plain.sync_all()?;
    open_direct(path)
}

/// Opens `path` for direct reads and writes.
pub fn open_direct(path: &Path) -> io::Result<File> {
    open_direct_with(path, rustix::fs::OFlags::empty())
}

/// The same, with more flags.
pub fn open_direct_with(path: &Path, flags: rustix::fs::OFlags) -> io::Result<File> {
    let direct = (rustix::fs::OFlags::DIRECT | flags).bits() as i32;
    OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(direct)
        .open(path)
}

/// The name of the in-memory file system that holds `directory`, or `None` when it is on a disk: figures from memory are none.
pub fn in_memory_file_system(directory: &Path) -> io::Result<Option<&'static str>> {
    let kind = rustix::fs::statfs(directory)?.f_type as i64;
    Ok(IN_MEMORY
        .iter()
        .position(|&magic| magic == kind & 0xffff_ffff)
        .map(|index| ["tmpfs", "ramfs"][index]))
}

/// A folder on the disk that holds the build, gone when dropped: the usual temporary folder may live in memory.
#[cfg(test)]
pub(crate) fn test_directory() -> tempfile::TempDir {
    let executable = std::env::current_exe().unwrap();
    tempfile::tempdir_in(executable.parent().unwrap()).unwrap()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_and_whole_pages() {
        for len in [1, 4096, 4097, 1 << 20] {
            let mut buffer = AlignedBuffer::zeroed(len);
            assert_eq!(buffer.bytes().as_ptr() as usize % PAGE, 0);
            assert_eq!(buffer.bytes_mut().len(), len.next_multiple_of(PAGE));
        }
    }

    #[test]
    fn memory_is_told_from_disk() {
        assert_eq!(
            in_memory_file_system(Path::new("/dev/shm")).unwrap(),
            Some("tmpfs")
        );
        assert_eq!(in_memory_file_system(test_directory().path()).unwrap(), None);
    }
}
