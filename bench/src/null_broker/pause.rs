//! A stall of known place and length, to see what a measuring tool makes of it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};
use std::time::Duration;

/// One stall of the whole broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause {
    /// It begins when so many records have been produced.
    pub after_records: u64,
    /// It lasts so long.
    pub duration: Duration,
}

/// What every produce request passes: it counts records, and stands still during the pause.
#[derive(Debug)]
pub(super) struct Gate {
    pause: Option<Pause>,
    records: AtomicU64,
    closed: RwLock<()>,
}

impl Gate {
    pub(super) fn new(pause: Option<Pause>) -> Self {
        Self {
            pause,
            records: AtomicU64::new(0),
            closed: RwLock::new(()),
        }
    }

    pub(super) fn records(&self) -> u64 {
        self.records.load(Ordering::Relaxed)
    }

    /// Lets a request with `records` pass, the pause being over.
    pub(super) fn pass(&self, records: u64) {
        let before = self.records.fetch_add(records, Ordering::Relaxed);
        let Some(pause) = self.pause else { return };
        if (before..before + records).contains(&pause.after_records) {
            let _closed = self.closed.write().unwrap_or_else(PoisonError::into_inner);
            std::thread::sleep(pause.duration);
        } else {
            drop(self.closed.read().unwrap_or_else(PoisonError::into_inner));
        }
    }
}
