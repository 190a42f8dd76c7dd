//! Unlinking what a flushed checkpoint no longer names: a task of its own, since large files take their time and
//! the next round must not wait for them.

use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::select;
use strandline_runtime::{Monotonic, Runtime};

use super::capture::Capture;
use crate::disk::Disk;
use crate::format::names;
use crate::log::state::LogInner;
use crate::segment::write::at;
use crate::shard::Shard;

/// Something that no checkpoint names any more.
pub(crate) struct Unlink<D: Disk> {
    /// When it goes: `file.delete.delay.ms` after the checkpoint.
    due: Monotonic,
    what: Unnamed<D>,
}

enum Unnamed<D: Disk> {
    /// Files of a log that lives on.
    Files(Rc<LogInner<D>>, Vec<String>),
    /// The folder of a deleted log.
    Folder(Rc<LogInner<D>>),
}

/// Gives the task what a round left behind.
pub(super) fn queue<D: Disk>(shard: &Shard<D>, captures: &mut [Capture<D>], deleted: Vec<Rc<LogInner<D>>>) {
    for capture in captures {
        queue_files(shard, &capture.log, std::mem::take(&mut capture.obsolete));
    }
    for log in deleted {
        shard.files.forget_log(log.log_id);
        shard.unlinks.borrow_mut().push_back(Unlink {
            due: later(shard, &log),
            what: Unnamed::Folder(log),
        });
        shard.unlink_wake.notify_all();
    }
}

/// Gives the task files of a log that lives on.
pub(crate) fn queue_files<D: Disk>(shard: &Shard<D>, log: &Rc<LogInner<D>>, files: Vec<String>) {
    let (segments, others): (Vec<_>, Vec<_>) = files.into_iter().partition(|name| !names::is_snapshot(name));
    let now = (shard.clock.monotonic)();
    for (due, files) in [(now, others), (later(shard, log), segments)] {
        // Nobody opens them again; who reads in one has it open.
        for (_, number) in files.iter().filter_map(|name| names::parse_segment(name)) {
            shard.files.forget(log.log_id, number);
        }
        if !files.is_empty() {
            let what = Unnamed::Files(log.clone(), files);
            shard.unlinks.borrow_mut().push_back(Unlink { due, what });
            shard.unlink_wake.notify_all();
        }
    }
}

fn later<D: Disk>(shard: &Shard<D>, log: &LogInner<D>) -> Monotonic {
    let delay_ms = log.state.borrow().settings.file_delete_delay_ms;
    (shard.clock.monotonic)() + Duration::from_millis(delay_ms)
}

/// Whether the task has something left to do.
pub(crate) fn is_behind<D: Disk>(shard: &Shard<D>) -> bool {
    shard.unlinking.get() || !shard.unlinks.borrow().is_empty()
}

/// The task: runs until the shard stops, or was closed and nothing is left.
pub(crate) async fn run<R: Runtime, D: Disk>(runtime: R, shard: Rc<Shard<D>>) {
    loop {
        let wake = shard.unlink_wake.wait();
        if shard.is_stopped() {
            return;
        }
        let due = take_due(&shard);
        if due.is_empty() {
            let next = shard.unlinks.borrow().iter().map(|unlink| unlink.due).min();
            match next {
                Some(next) => {
                    let span = next.since((shard.clock.monotonic)());
                    select(pin!(runtime.sleep(span)), wake).await;
                }
                None if shard.closed.get() => return,
                None => wake.await,
            }
            continue;
        }
        shard.unlinking.set(true);
        let result = unlink(&shard, &due).await;
        shard.unlinking.set(false);
        if let Err(reason) = result {
            return shard.stop(&reason);
        }
        // A close may wait for the last one.
        shard.progress.notify_all();
    }
}

/// What is to go now: everything, where the store is closed or the disk full.
fn take_due<D: Disk>(shard: &Shard<D>) -> Vec<Unnamed<D>> {
    let now = (shard.clock.monotonic)();
    let all = shard.closed.get() || shard.full.get();
    let mut unlinks = shard.unlinks.borrow_mut();
    let (due, rest) = std::mem::take(&mut *unlinks)
        .into_iter()
        .partition::<Vec<_>, _>(|unlink| all || unlink.due <= now);
    unlinks.extend(rest);
    due.into_iter().map(|unlink| unlink.what).collect()
}

async fn unlink<D: Disk>(shard: &Shard<D>, due: &[Unnamed<D>]) -> Result<(), String> {
    let mut folders = Vec::new();
    for what in due {
        match what {
            Unnamed::Files(log, names) => remove_files(shard, log, names).await?,
            Unnamed::Folder(log) => folders.push(log.clone()),
        }
    }
    if folders.is_empty() {
        return Ok(());
    }
    remove_folders(shard, &folders).await
}

/// Their durability is of no matter: what comes back after a crash is unnamed and is removed at the next open.
async fn remove_files<D: Disk>(shard: &Shard<D>, log: &LogInner<D>, names: &[String]) -> Result<(), String> {
    let folder = shard.log_folder(log.id, log.log_id);
    for name in names {
        // A reader that came late may have opened it again: only a closed file gives its space back.
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
        // An extent may still be on its way into the folder, or a cleaned segment.
        log.make_busy().await;
        log.end_busy();
        log.cleaning_ended().await;
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
