//! Strandline's log on disk, read with `std::fs` and never written: what a path holds, the frames of segments, the entries
//! of journals, and what a shard's logs hold all told.
//!
//! The formats are those of `strandline_storage::format`; this module only finds the bytes.

pub mod frames;
pub mod journal;
pub mod place;
pub mod shard;
pub mod topic_names;

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// Bytes that are not what they should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The file.
    pub path: PathBuf,
    /// Where in it.
    pub position: u64,
    /// What is wrong.
    pub reason: String,
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} at {}: {}", self.path.display(), self.position, self.reason)
    }
}

/// A failure to read a path.
fn unreadable(path: &Path, source: io::Error) -> Failure {
    Failure::local(path.display().to_string(), source)
}

/// Reads `length` bytes at a position.
fn read_at(file: &File, path: &Path, position: u64, length: usize) -> Result<Vec<u8>, Failure> {
    let mut bytes = vec![0; length];
    file.read_exact_at(&mut bytes, position)
        .map_err(|source| unreadable(path, source))?;
    Ok(bytes)
}

/// The names in a folder, sorted.
pub fn file_names(folder: &Path) -> Result<Vec<String>, Failure> {
    let entries = std::fs::read_dir(folder).map_err(|source| unreadable(folder, source))?;
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|source| unreadable(folder, source))?;
        // Every name of ours is UTF-8.
        names.extend(entry.file_name().into_string().ok());
    }
    names.sort_unstable();
    Ok(names)
}
