//! Keeping aside what a damaged log had in the journal: its space is used again, its bytes may be wanted.

use super::io;
use crate::disk::{Disk, OpenMode};
use crate::error::OpenError;
use crate::format::names;
use crate::options::StoreOptions;
use crate::segment::write::write_file;
use crate::types::Sequence;

/// Writes each entry to a file under `stray/` and flushes everything.
pub(super) async fn save<D: Disk>(
    disk: &D,
    options: &StoreOptions,
    entries: &[(Sequence, Vec<u8>)],
    generation: u64,
) -> Result<(), OpenError> {
    if entries.is_empty() {
        return Ok(());
    }
    let folder = options.directory.join(names::STRAY);
    for (sequence, bytes) in entries {
        let path = folder.join(format!("journal-entry-{generation}-{sequence}"));
        let exists = disk.exists(&path).await.map_err(io("look for", &path))?;
        let mode = if exists {
            OpenMode::ReadWrite
        } else {
            OpenMode::CreateNew
        };
        let written = write_file(disk, &path, bytes, mode, true).await;
        written.map_err(|detail| OpenError::Io {
            action: "keep aside",
            path: path.display().to_string(),
            source: std::io::Error::other(detail),
        })?;
    }
    disk.flush_directory(&folder)
        .await
        .map_err(io("flush folder", &folder))
}
