//! Unlinking what a flushed checkpoint no longer names: a task of its own, since large files take their time and
//! the next round must not wait for them.

use std::io;
use std::rc::Rc;

use super::capture::Capture;
use crate::disk::Disk;
use crate::format::names;
use crate::log::state::LogInner;
use crate::segment::write::at;
use crate::shard::Shard;

/// Something that no checkpoint names any more.
pub(crate) enum Unlink<D: Disk> {
    /// Files of a log that lives on.
    Files(Rc<LogInner<D>>, Vec<String>),
    /// The folders of deleted logs.
    Folders(Vec<Rc<LogInner<D>>>),
}

/// Gives the task what a round left behind.
pub(super) fn queue<D: Disk>(shard: &Shard<D>, captures: &mut [Capture<D>], deleted: Vec<Rc<LogInner<D>>>) {
    let mut unlinks = shard.unlinks.borrow_mut();
    for capture in captures {
        if !capture.obsolete.is_empty() {
            let names = std::mem::take(&mut capture.obsolete);
            unlinks.push_back(Unlink::Files(capture.log.clone(), names));
        }
    }
    if !deleted.is_empty() {
        unlinks.push_back(Unlink::Folders(deleted));
    }
    if !unlinks.is_empty() {
        shard.unlink_wake.notify_all();
    }
}

/// Whether the task has something left to do.
pub(crate) fn is_behind<D: Disk>(shard: &Shard<D>) -> bool {
    shard.unlinking.get() || !shard.unlinks.borrow().is_empty()
}

/// The task: runs until the shard stops, or was closed and nothing is left.
pub(crate) async fn run<D: Disk>(shard: Rc<Shard<D>>) {
    loop {
        let wake = shard.unlink_wake.wait();
        let next = shard.unlinks.borrow_mut().pop_front();
        let Some(unlink) = next else {
            if shard.is_stopped() || shard.closed.get() {
                return;
            }
            wake.await;
            continue;
        };
        shard.unlinking.set(true);
        let result = match unlink {
            Unlink::Files(log, names) => remove_files(&shard, &log, &names).await,
            Unlink::Folders(logs) => remove_folders(&shard, &logs).await,
        };
        shard.unlinking.set(false);
        if let Err(reason) = result {
            return shard.stop(&reason);
        }
        if shard.is_stopped() {
            return;
        }
        // A close may wait for the last one.
        shard.progress.notify_all();
    }
}

/// Their durability is of no matter: what comes back after a crash is unnamed and is removed at the next open.
async fn remove_files<D: Disk>(shard: &Shard<D>, log: &LogInner<D>, names: &[String]) -> Result<(), String> {
    let folder = shard.log_folder(log.id, log.log_id);
    for name in names {
        if let Some((_, number)) = names::parse_segment(name) {
            shard.files.forget(log.log_id, number);
        }
        let path = folder.join(name);
        ignore_missing(shard.disk.remove_file(&path).await).map_err(at("remove", &path))?;
    }
    Ok(())
}

async fn remove_folders<D: Disk>(shard: &Shard<D>, logs: &[Rc<LogInner<D>>]) -> Result<(), String> {
    for log in logs {
        // An extent may still be on its way into the folder.
        log.make_busy().await;
        log.end_busy();
        shard.files.forget_log(log.log_id);
        let folder = shard.log_folder(log.id, log.log_id);
        remove_folder(&shard.disk, &folder)
            .await
            .map_err(at("remove", &folder))?;
    }
    let folder = shard.logs_folder();
    shard
        .disk
        .flush_directory(&folder)
        .await
        .map_err(at("flush folder", &folder))
}

/// Removes a folder of files.
pub(crate) async fn remove_folder<D: Disk>(disk: &D, folder: &std::path::Path) -> io::Result<()> {
    if !disk.exists(folder).await? {
        return Ok(());
    }
    for entry in disk.list(folder).await? {
        ignore_missing(disk.remove_file(&folder.join(entry.name)).await)?;
    }
    disk.remove_directory(folder).await
}

fn ignore_missing(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
