//! What neither checkpoint nor replay names, at an open: left behind, or all that is left of something lost.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::rc::Rc;

use super::apply::Replay;
use super::io;
use crate::checkpoint::cleanup::remove_folder;
use crate::disk::Disk;
use crate::error::OpenError;
use crate::format::names;
use crate::log::state::{LogInner, LogState};
use crate::options::StoreOptions;
use crate::types::LogId;

/// Removes it, before any write, since names are used again. Where rot took the pieces that may have named it, it is moved
/// under `stray/` instead. Returns the next log id, above every one that a folder has: a log never meets another's files.
pub(super) async fn clear<D: Disk>(
    disk: &D,
    options: &StoreOptions,
    replay: &Replay<D>,
    next_log_id: u64,
    generation: u64,
) -> Result<u64, OpenError> {
    let logs_folder = options.directory.join(names::LOGS);
    let stray = options.directory.join(names::STRAY);
    let live: HashMap<LogId, &Rc<LogInner<D>>> = replay.logs().map(|log| (log.log_id, log)).collect();
    // The checkpoint still names those: their folders go after the next one.
    let deleted: HashSet<LogId> = replay.deleted.iter().map(|log| log.log_id).collect();
    let mut above_folders = next_log_id;
    let mut changed = false;
    for entry in disk.list(&logs_folder).await.map_err(io("list", &logs_folder))? {
        let folder = logs_folder.join(&entry.name);
        let Some((_, log_id)) = names::parse_log_folder(&entry.name) else {
            continue;
        };
        above_folders = above_folders.max(log_id.0.saturating_add(1));
        if let Some(log) = live.get(&log_id) {
            let named = named_files(&log.state.borrow());
            let prefix = replay
                .is_indicted(log_id)
                .then(|| format!("{}-{generation}-", entry.name));
            clear_folder(disk, &folder, &named, &stray, prefix).await?;
        } else if log_id.0 >= next_log_id {
            // No folder is made before its log's creation is durable: that piece is gone.
            tracing::error!(
                folder = entry.name,
                "the creation of a log is gone: moved under stray/"
            );
            let to = stray.join(&entry.name);
            disk.rename(&folder, &to).await.map_err(io("rename", &folder))?;
            flush(disk, &stray).await?;
            changed = true;
        } else if !deleted.contains(&log_id) {
            // An id below the next one that is not listed is a log whose deletion was durable.
            remove_folder(disk, &folder)
                .await
                .map_err(io("remove", &folder))?;
            changed = true;
        }
    }
    if changed {
        flush(disk, &logs_folder).await?;
    }
    // A log that is set aside keeps its folder's name.
    for entry in disk.list(&stray).await.map_err(io("list", &stray))? {
        if let Some((_, log_id)) = names::parse_log_folder(&entry.name) {
            above_folders = above_folders.max(log_id.0.saturating_add(1));
        }
    }
    Ok(above_folders)
}

/// Clears one log's folder of what is not `named`: under `stray/`, where a prefix is given, or for good.
async fn clear_folder<D: Disk>(
    disk: &D,
    folder: &Path,
    named: &HashSet<String>,
    stray: &Path,
    stray_prefix: Option<String>,
) -> Result<(), OpenError> {
    let files = disk.list(folder).await.map_err(io("list", folder))?;
    let mut changed = false;
    for file in files.iter().filter(|file| !named.contains(&file.name)) {
        let path = folder.join(&file.name);
        match &stray_prefix {
            Some(prefix) => {
                let to = stray.join(format!("{prefix}{}", file.name));
                disk.rename(&path, &to).await.map_err(io("rename", &path))?;
            }
            None => disk.remove_file(&path).await.map_err(io("remove", &path))?,
        }
        changed = true;
    }
    if changed && stray_prefix.is_some() {
        flush(disk, stray).await?;
    }
    // A removal that came undone would let an old file stand where a new one of its name is made.
    if changed {
        flush(disk, folder).await?;
    }
    Ok(())
}

async fn flush<D: Disk>(disk: &D, folder: &Path) -> Result<(), OpenError> {
    disk.flush_directory(folder)
        .await
        .map_err(io("flush folder", folder))
}

/// The files in a log's folder that checkpoint or replay name. Those that the replay dropped again are among
/// them: until the next checkpoint, another replay would look for them.
fn named_files<D: Disk>(state: &LogState<D>) -> HashSet<String> {
    let mut names: HashSet<String> = state.obsolete.iter().cloned().collect();
    for segment in &state.segments {
        names.insert(names::segment(segment.meta.base_offset, segment.meta.number));
        names.insert(names::index(segment.meta.base_offset, segment.meta.number));
        names.insert(names::snapshot(segment.meta.snapshot));
    }
    names.insert(names::snapshot(state.snapshot));
    names
}
