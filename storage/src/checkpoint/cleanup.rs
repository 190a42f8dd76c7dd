//! Unlinking what a flushed checkpoint no longer names.

use std::io;
use std::rc::Rc;

use super::capture::Capture;
use crate::disk::Disk;
use crate::format::names;
use crate::log::state::LogInner;
use crate::segment::write::at;
use crate::shard::Shard;

/// Unlinks obsolete files and the folders of deleted logs. Their durability is of no matter: what comes
/// back after a crash is unnamed and is removed at the next open.
pub(super) async fn unlink<D: Disk>(
    shard: &Shard<D>,
    captures: &[Capture<D>],
    deleted: Vec<Rc<LogInner<D>>>,
) -> Result<(), String> {
    for capture in captures {
        let log = &capture.log;
        let folder = shard.log_folder(log.id, log.log_id);
        for name in &capture.obsolete {
            if let Some((_, number)) = names::parse_segment(name) {
                shard.files.forget(log.log_id, number);
            }
            let path = folder.join(name);
            ignore_missing(shard.disk.remove_file(&path).await).map_err(at("remove", &path))?;
        }
    }
    for log in &deleted {
        // An extent may still be on its way into the folder.
        log.make_busy().await;
        log.end_busy();
        shard.files.forget_log(log.log_id);
        let folder = shard.log_folder(log.id, log.log_id);
        remove_folder(&shard.disk, &folder)
            .await
            .map_err(at("remove", &folder))?;
    }
    if !deleted.is_empty() {
        let folder = shard.logs_folder();
        shard
            .disk
            .flush_directory(&folder)
            .await
            .map_err(at("flush folder", &folder))?;
    }
    Ok(())
}

/// Removes a folder of files.
pub(crate) async fn remove_folder<D: Disk>(disk: &D, folder: &std::path::Path) -> io::Result<()> {
    if !disk.exists(folder).await? {
        return Ok(());
    }
    for entry in disk.list(folder).await? {
        disk.remove_file(&folder.join(entry.name)).await?;
    }
    disk.remove_directory(folder).await
}

fn ignore_missing(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
