//! Keeping aside what a damaged log had in the journal, and the pages where an entry is missing: their space is used
//! again, their bytes may be wanted.

use std::ops::Range;

use super::io;
use crate::disk::{Disk, DiskFile, OpenMode};
use crate::error::OpenError;
use crate::format::entry::RingPosition;
use crate::format::names;
use crate::options::StoreOptions;
use crate::segment::write::write_file;
use crate::types::Sequence;

/// Pages of the journal in which no whole entry stands.
pub(super) struct BadPages {
    from: RingPosition,
    bytes: Vec<u8>,
}

/// Reads the pages from one entry's end to the start of the next one that is whole, or, without one, to the end of the
/// file and what an entry takes of the next file.
pub(super) async fn bad_pages<D: Disk>(
    files: &[D::File],
    file_bytes: u64,
    from: RingPosition,
    to: Option<RingPosition>,
) -> Result<Vec<BadPages>, OpenError> {
    let mut pages = Vec::new();
    for (file, range) in missing(files.len() as u32, file_bytes, from, to) {
        let path = files[file as usize].path().clone();
        let length = (range.end - range.start) as usize;
        let read = files[file as usize].read_at(range.start, length).await;
        let bytes = read.map_err(io("read", &path))?.to_vec();
        // What was never written holds nothing to keep.
        if bytes.iter().any(|byte| *byte != 0) {
            pages.push(BadPages {
                from: RingPosition {
                    file,
                    position: range.start,
                },
                bytes,
            });
        }
    }
    Ok(pages)
}

/// The parts of the ring's files between two entries.
fn missing(
    files: u32,
    file_bytes: u64,
    from: RingPosition,
    to: Option<RingPosition>,
) -> Vec<(u32, Range<u64>)> {
    let next = RingPosition {
        file: (from.file + 1) % files,
        position: file_bytes / 4,
    };
    let to = to.unwrap_or(next);
    let steps = match to.file == from.file && to.position >= from.position {
        true => 0,
        false => (to.file + files - from.file - 1) % files + 1,
    };
    let parts = (0..=steps).map(|step| {
        let start = if step == 0 { from.position } else { 0 };
        let end = if step == steps { to.position } else { file_bytes };
        ((from.file + step) % files, start..end)
    });
    parts.filter(|(_, range)| !range.is_empty()).collect()
}

/// Writes the pages under `stray/`; [`save`] flushes the folder.
pub(super) async fn save_pages<D: Disk>(
    disk: &D,
    options: &StoreOptions,
    pages: &[BadPages],
    generation: u64,
) -> Result<(), OpenError> {
    for BadPages { from, bytes } in pages {
        let name = format!("journal-pages-{generation}-{}-{}", from.file, from.position);
        save_file(disk, options, &name, bytes).await?;
    }
    match pages.is_empty() {
        true => Ok(()),
        false => flush_stray(disk, options).await,
    }
}

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
    for (sequence, bytes) in entries {
        let name = format!("journal-entry-{generation}-{sequence}");
        save_file(disk, options, &name, bytes).await?;
    }
    flush_stray(disk, options).await
}

async fn save_file<D: Disk>(
    disk: &D,
    options: &StoreOptions,
    name: &str,
    bytes: &[u8],
) -> Result<(), OpenError> {
    let path = options.directory.join(names::STRAY).join(name);
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
    })
}

async fn flush_stray<D: Disk>(disk: &D, options: &StoreOptions) -> Result<(), OpenError> {
    let folder = options.directory.join(names::STRAY);
    disk.flush_directory(&folder)
        .await
        .map_err(io("flush folder", &folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(file: u32, position: u64) -> RingPosition {
        RingPosition { file, position }
    }

    #[test]
    fn what_is_missing_lies_between_two_entries_in_the_order_of_the_ring() {
        let missing = |from, to| missing(4, 100, from, to);
        assert_eq!(missing(at(1, 20), Some(at(1, 60))), [(1, 20..60)]);
        assert_eq!(missing(at(1, 20), Some(at(2, 0))), [(1, 20..100)]);
        assert_eq!(
            missing(at(3, 80), Some(at(1, 10))),
            [(3, 80..100), (0, 0..100), (1, 0..10)]
        );
        // All the way round.
        assert_eq!(
            missing(at(1, 60), Some(at(1, 20))),
            [(1, 60..100), (2, 0..100), (3, 0..100), (0, 0..100), (1, 0..20)]
        );
        assert_eq!(missing(at(3, 80), None), [(3, 80..100), (0, 0..25)]);
        assert_eq!(missing(at(1, 20), Some(at(1, 20))), []);
    }
}
