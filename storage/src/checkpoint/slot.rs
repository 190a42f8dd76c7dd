//! The two slots of the checkpoint: written in turn, so that one is whole at any time.

use std::io;
use std::path::Path;

use crate::disk::{Disk, OpenMode};
use crate::error::OpenError;
use crate::format::checkpoint::Checkpoint;
use crate::format::names;
use crate::segment::write::{read_file, write_file};

/// Writes and flushes the slot whose turn it is.
pub(crate) async fn write<D: Disk>(
    disk: &D,
    directory: &Path,
    checkpoint: &Checkpoint,
) -> Result<(), String> {
    let path = directory.join(names::CHECKPOINTS[(checkpoint.generation % 2) as usize]);
    write_file(disk, &path, &checkpoint.encode(), OpenMode::ReadWrite, true).await
}

/// Whether the slot is gone for good: no such file, or a place of the medium that does not read.
fn is_lost(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::EIO)
}

/// Reads the newest whole slot.
///
/// # Errors
/// [`OpenError::Io`] when one cannot be read; [`OpenError::NoCheckpoint`] when neither is usable: then no log of the shard may pass for whole.
pub(crate) async fn read<D: Disk>(disk: &D, directory: &Path) -> Result<Checkpoint, OpenError> {
    let mut newest: Option<Checkpoint> = None;
    let mut details = Vec::new();
    for name in names::CHECKPOINTS {
        let path = directory.join(name);
        let decoded = match read_file(disk, &path).await {
            Ok(content) => Checkpoint::decode(&content).map_err(|error| error.to_string()),
            Err(error) if is_lost(&error) => Err(error.to_string()),
            // What cannot be read now may be the newer one: the older would make rot of what came since.
            Err(source) => {
                return Err(OpenError::Io {
                    action: "read",
                    path: path.display().to_string(),
                    source,
                });
            }
        };
        match decoded {
            Ok(checkpoint) => {
                if newest
                    .as_ref()
                    .is_none_or(|known| known.generation < checkpoint.generation)
                {
                    newest = Some(checkpoint);
                }
            }
            Err(detail) => details.push(format!("{name}: {detail}")),
        }
    }
    newest.ok_or_else(|| OpenError::NoCheckpoint {
        path: directory.display().to_string(),
        detail: details.join("; "),
    })
}
