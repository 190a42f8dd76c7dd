//! Open segment files: an LRU, since there may be more segments than descriptors.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::path::Path;

use crate::disk::{Disk, OpenMode};
use crate::types::LogId;

struct OpenFile<F> {
    file: F,
    last_used: u64,
}

type OpenFiles<F> = HashMap<(LogId, u64), OpenFile<F>>;

/// The open files of a shard's segments, by log and number.
pub(crate) struct Files<D: Disk> {
    open: RefCell<OpenFiles<D::File>>,
    uses: Cell<u64>,
    open_max: usize,
}

impl<D: Disk> Files<D> {
    pub(crate) fn new(open_max: usize) -> Self {
        Self {
            open: RefCell::new(HashMap::new()),
            uses: Cell::new(0),
            open_max: open_max.max(1),
        }
    }

    /// The file of a segment, opened now unless it is open.
    pub(crate) async fn get(
        &self,
        disk: &D,
        path: &Path,
        log: LogId,
        number: u64,
        mode: OpenMode,
    ) -> io::Result<D::File> {
        let now = self.uses.get() + 1;
        self.uses.set(now);
        if let Some(known) = self.open.borrow_mut().get_mut(&(log, number)) {
            known.last_used = now;
            return Ok(known.file.clone());
        }
        let file = disk.open(path, mode).await?;
        let mut open = self.open.borrow_mut();
        if open.len() >= self.open_max
            && let Some(oldest) = open
                .iter()
                .min_by_key(|(_, file)| file.last_used)
                .map(|(key, _)| *key)
        {
            open.remove(&oldest);
        }
        open.insert(
            (log, number),
            OpenFile {
                file: file.clone(),
                last_used: now,
            },
        );
        Ok(file)
    }

    /// Closes a segment's file.
    pub(crate) fn forget(&self, log: LogId, number: u64) {
        self.open.borrow_mut().remove(&(log, number));
    }

    /// Closes all files of a log.
    pub(crate) fn forget_log(&self, log: LogId) {
        self.open.borrow_mut().retain(|(owner, _), _| *owner != log);
    }

    /// Closes everything.
    pub(crate) fn clear(&self) {
        self.open.borrow_mut().clear();
    }

    /// How many are open.
    pub(crate) fn len(&self) -> usize {
        self.open.borrow().len()
    }
}
