//! What a path is: a data directory, a shard, a log's folder, or one file.

use std::path::{Path, PathBuf};

use strandline_storage::format::names;
use strandline_storage::{LogId, TopicPartitionId};

use super::file_names;
use crate::failure::Failure;

/// What a path holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A data directory, with the folders of its shards.
    Data {
        /// `shard-<n>`, in order.
        shards: Vec<PathBuf>,
    },
    /// A shard's folder.
    Shard,
    /// The folder of a log.
    Log {
        /// The partition.
        id: TopicPartitionId,
        /// This life of its replica.
        log: LogId,
    },
    /// A segment.
    Segment {
        /// The partition, which keys its checksums.
        id: TopicPartitionId,
        /// The offset it begins at.
        base_offset: i64,
    },
    /// A checkpoint's slot.
    Checkpoint,
    /// A file of the journal.
    Journal {
        /// Its number.
        file: u32,
    },
}

/// Finds out what a path holds.
pub fn recognise(path: &Path) -> Result<Place, Failure> {
    // `.` and links have no names to tell by.
    let path = path
        .canonicalize()
        .map_err(|source| super::unreadable(path, source))?;
    let name = file_name(&path);
    let place = if path.is_dir() {
        folder(&path, name)?
    } else {
        file(&path, name)
    };
    place.ok_or_else(|| {
        Failure::usage(format!(
            "{} is no data directory, shard, log folder, segment, checkpoint or journal of Strandline",
            path.display()
        ))
    })
}

fn folder(path: &Path, name: &str) -> Result<Option<Place>, Failure> {
    if let Some((id, log)) = names::parse_log_folder(name) {
        return Ok(Some(Place::Log { id, log }));
    }
    if names::CHECKPOINTS.iter().any(|slot| path.join(slot).is_file()) {
        return Ok(Some(Place::Shard));
    }
    let mut shards: Vec<_> = file_names(path)?
        .into_iter()
        .filter_map(|name| {
            Some((
                name.strip_prefix("shard-")?.parse::<u32>().ok()?,
                path.join(&name),
            ))
        })
        .collect();
    shards.sort_unstable();
    if shards.is_empty() {
        return Ok(None);
    }
    Ok(Some(Place::Data {
        shards: shards.into_iter().map(|(_, path)| path).collect(),
    }))
}

fn file(path: &Path, name: &str) -> Option<Place> {
    if names::CHECKPOINTS.contains(&name) {
        return Some(Place::Checkpoint);
    }
    if let Some(number) = name.strip_prefix("journal-") {
        return Some(Place::Journal {
            file: number.parse().ok()?,
        });
    }
    let (base_offset, _) = names::parse_segment(name)?;
    let (id, _) = names::parse_log_folder(file_name(path.parent()?))?;
    Some(Place::Segment { id, base_offset })
}

fn file_name(path: &Path) -> &str {
    path.file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default()
}
