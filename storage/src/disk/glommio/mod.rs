//! The disk of a shard on glommio: O_DIRECT files on its rings, names on its blocking thread.
//!
//! This module and its children are the only ones of the crate that name glommio.

mod buffer;
mod file;
mod probe;
mod system;
#[cfg(test)]
pub(super) mod tests;

use std::fmt::Display;
use std::future::Future;
use std::io;
use std::path::Path;

pub use buffer::{GlommioBuffer, GlommioReadBuffer};
pub use file::GlommioFile;
#[cfg(test)]
use file::open_direct;

use super::{DirectoryEntry, Disk, OpenMode, PAGE, Space};
use probe::Probed;

/// The file systems of the machine, for the shard that runs on this thread.
///
/// Every method must be called on a glommio executor; outside of one, glommio panics.
#[derive(Clone, Default)]
pub struct GlommioDisk {
    /// An `Rc` inside, as files and buffers belong to the executor of the thread that made them.
    probed: Probed,
}

impl GlommioDisk {
    /// The disk of this thread's executor.
    pub fn new() -> Self {
        Self::default()
    }
}

impl Disk for GlommioDisk {
    type File = GlommioFile;
    type Buffer = GlommioBuffer;
    type ReadBuffer = GlommioReadBuffer;

    fn allocate(&self, length: usize) -> GlommioBuffer {
        GlommioBuffer::allocate(length.max(1).next_multiple_of(PAGE))
    }

    async fn open(&self, path: &Path, mode: OpenMode) -> io::Result<GlommioFile> {
        GlommioFile::open(&self.probed, path, mode).await
    }

    async fn create_directory(&self, path: &Path) -> io::Result<()> {
        let answer = blocking("make the folder", path, |path| std::fs::create_dir(path)).await;
        match answer {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                blocking("look at", path, |path| match std::fs::metadata(path)?.is_dir() {
                    true => Ok(()),
                    false => Err(io::ErrorKind::NotADirectory.into()),
                })
                .await
            }
            other => other,
        }
    }

    async fn flush_directory(&self, path: &Path) -> io::Result<()> {
        blocking("flush the folder", path, |path| {
            std::fs::File::open(path)?.sync_all()
        })
        .await
    }

    async fn list(&self, path: &Path) -> io::Result<Vec<DirectoryEntry>> {
        blocking("list", path, list).await
    }

    async fn remove_file(&self, path: &Path) -> io::Result<()> {
        blocking("remove", path, |path| std::fs::remove_file(path)).await
    }

    async fn remove_directory(&self, path: &Path) -> io::Result<()> {
        blocking("remove the folder", path, |path| std::fs::remove_dir(path)).await
    }

    async fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let to = to.to_owned();
        blocking("rename", from, move |from| std::fs::rename(from, to)).await
    }

    async fn exists(&self, path: &Path) -> io::Result<bool> {
        blocking("look at", path, |path| path.try_exists()).await
    }

    async fn space(&self, path: &Path) -> io::Result<Space> {
        blocking("measure the file system of", path, system::space).await
    }
}

fn list(path: &Path) -> io::Result<Vec<DirectoryEntry>> {
    let mut entries = Vec::new();
    for entry in std::fs::read_dir(path)? {
        let entry = entry?;
        // The log names its files in ASCII: a name that is not even UTF-8 is nobody's of ours.
        if let Ok(name) = entry.file_name().into_string() {
            entries.push(DirectoryEntry {
                name,
                is_directory: entry.file_type()?.is_dir(),
            });
        }
    }
    entries.sort();
    Ok(entries)
}

/// Runs a call that may block on the executor's helper thread, so that the shard goes on.
fn blocking<T: Send + 'static>(
    operation: &'static str,
    path: &Path,
    call: impl FnOnce(&Path) -> io::Result<T> + Send + 'static,
) -> impl Future<Output = io::Result<T>> {
    let path = path.to_owned();
    async move {
        let here = path.clone();
        let answer = glommio::executor().spawn_blocking(move || call(&here)).await;
        answer.map_err(|error| named(&error, operation, &path))
    }
}

/// An error of the same kind that says what was done to which path.
fn named(error: &io::Error, operation: impl Display, path: &Path) -> io::Error {
    io::Error::new(
        error.kind(),
        format!("cannot {operation} {}: {error}", path.display()),
    )
}
