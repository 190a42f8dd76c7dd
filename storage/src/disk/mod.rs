//! The disk seam: what the log asks of a file system, by direct I/O.
//!
//! Positions and lengths of reads and writes are multiples of [`PAGE`]. Nothing is durable before its
//! flush: data and size of a file by [`DiskFile::flush`], names by [`Disk::flush_directory`] of the folder.

#[cfg(test)]
mod conformance;
mod glommio;
pub mod sim;

pub use glommio::{GlommioBuffer, GlommioDisk, GlommioFile, GlommioReadBuffer};
pub use sim::{SimDisk, SimDiskOptions};

use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};

/// The unit of direct I/O, whatever the device reports, in bytes.
pub const PAGE: usize = 4096;

/// How to open a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// An existing file, for reading.
    Read,
    /// An existing file, for reading and writing.
    ReadWrite,
    /// The same, and for [`DiskFile::write_through_at`].
    ReadWriteThrough,
    /// A new file, for reading and writing; an error if the name exists.
    CreateNew,
}

/// A folder entry.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DirectoryEntry {
    /// The name inside its folder.
    pub name: String,
    /// Whether it is a folder.
    pub is_directory: bool,
}

/// Space of a file system, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// What it holds in all.
    pub total_bytes: u64,
    /// What this process may still fill.
    pub free_bytes: u64,
}

/// Memory fit for direct I/O: aligned to [`PAGE`], fixed in place while the value lives.
///
/// # Filling a buffer that is being written
/// [`DiskFile::write_at`] takes a shared buffer, because its owner goes on filling bytes beyond the
/// written prefix. Safe references cannot express that, so the owner of such a buffer, in its one unsafe
/// module, keeps [`Buffer::base`] and obeys these rules; they are also what a disk relies on:
///
/// 1. Bytes below the `length` given to `write_at` are never changed again, from the call of `write_at`
///    (not only from its first poll) until the buffer is dropped. Several prefixes of one buffer may be
///    in flight at once.
/// 2. Once the buffer is shared (`Rc`), nobody calls [`Buffer::as_slice`] or [`Buffer::as_mut_slice`]
///    while another part of it may still be filled: they make a reference to all of it. Use pieces made
///    from `base`: one writer beyond the published end, readers below it.
/// 3. A pointer from `base` is used only while the owner holds an `Rc` of the buffer.
pub trait Buffer: 'static {
    /// The start of the memory: valid for reads and writes of [`Buffer::len`] bytes while the value
    /// lives, even after it moved. Getting it makes no reference to the content.
    fn base(&self) -> std::ptr::NonNull<u8>;

    /// The size, in bytes.
    fn len(&self) -> usize;

    /// Whether the size is zero.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The content.
    fn as_slice(&self) -> &[u8];

    /// The content, to be written.
    fn as_mut_slice(&mut self) -> &mut [u8];
}

/// A file system. Cheap to clone; one value a thread.
pub trait Disk: Clone + 'static {
    /// An open file.
    type File: DiskFile<Buffer = Self::Buffer, ReadBuffer = Self::ReadBuffer>;
    /// Memory to write from.
    type Buffer: Buffer;
    /// What a read returns; pins its memory.
    type ReadBuffer: std::ops::Deref<Target = [u8]> + Clone + 'static;

    /// Memory of exactly `length` bytes rounded up to [`PAGE`] (one page for zero); initialized, but to
    /// nothing in particular.
    fn allocate(&self, length: usize) -> Self::Buffer;

    /// Opens a file for direct I/O.
    fn open(&self, path: &Path, mode: OpenMode) -> impl Future<Output = io::Result<Self::File>>;

    /// Makes a folder; an existing one is no error. Its name is durable after a flush of its parent.
    fn create_directory(&self, path: &Path) -> impl Future<Output = io::Result<()>>;

    /// Makes the names inside a folder durable.
    fn flush_directory(&self, path: &Path) -> impl Future<Output = io::Result<()>>;

    /// The entries of a folder, sorted by name.
    fn list(&self, path: &Path) -> impl Future<Output = io::Result<Vec<DirectoryEntry>>>;

    /// Removes the name of a file.
    fn remove_file(&self, path: &Path) -> impl Future<Output = io::Result<()>>;

    /// Removes an empty folder.
    fn remove_directory(&self, path: &Path) -> impl Future<Output = io::Result<()>>;

    /// Renames a file or folder, replacing a file of the new name.
    fn rename(&self, from: &Path, to: &Path) -> impl Future<Output = io::Result<()>>;

    /// Whether the name exists.
    fn exists(&self, path: &Path) -> impl Future<Output = io::Result<bool>>;

    /// The space of the file system that holds `path`.
    fn space(&self, path: &Path) -> impl Future<Output = io::Result<Space>>;
}

/// An open file.
pub trait DiskFile: Clone + 'static {
    /// Memory to write from.
    type Buffer: Buffer;
    /// What a read returns.
    type ReadBuffer: std::ops::Deref<Target = [u8]> + Clone + 'static;

    /// The path it was opened at.
    fn path(&self) -> &PathBuf;

    /// The size, in bytes.
    fn size(&self) -> impl Future<Output = io::Result<u64>>;

    /// Writes `buffer[..length]` at `position`; all multiples of [`PAGE`]. A short write is an error.
    ///
    /// The buffer is shared: its owner may go on filling bytes beyond `length`, never those below; see
    /// [`Buffer`] for the exact rules. The disk keeps its own `Rc` until the write has ended, even when
    /// the future is dropped; whether a dropped write landed is unknown.
    fn write_at(
        &self,
        buffer: std::rc::Rc<Self::Buffer>,
        length: usize,
        position: u64,
    ) -> impl Future<Output = io::Result<()>>;

    /// Writes like [`DiskFile::write_at`], and when it ends these bytes are durable: one operation where a write and a flush are
    /// two. It says nothing about other writes. The file was opened with [`OpenMode::ReadWriteThrough`], and has this size already.
    fn write_through_at(
        &self,
        buffer: std::rc::Rc<Self::Buffer>,
        length: usize,
        position: u64,
    ) -> impl Future<Output = io::Result<()>>;

    /// Reads up to `length` bytes at `position`; fewer only at the end of the file. What is not empty begins
    /// at a multiple of [`PAGE`] in memory.
    fn read_at(&self, position: u64, length: usize) -> impl Future<Output = io::Result<Self::ReadBuffer>>;

    /// Makes data and size durable, of every write that had completed when this was called.
    fn flush(&self) -> impl Future<Output = io::Result<()>>;

    /// Extends the file to `size` with blocks allocated, never shrinks it.
    fn allocate_to(&self, size: u64) -> impl Future<Output = io::Result<()>>;

    /// Cuts or extends the file to `size`.
    fn truncate(&self, size: u64) -> impl Future<Output = io::Result<()>>;
}
