//! Failures on order, and how long operations take.

use std::collections::BTreeSet;
use std::io;
use std::time::Duration;

use strandline_runtime::sim::SeededRandom;

/// How long an operation takes: from the shortest to the longest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Latency {
    /// The shortest.
    pub low: Duration,
    /// The longest.
    pub high: Duration,
}

impl Latency {
    /// From `low_us` to `high_us` microseconds.
    pub const fn micros(low_us: u64, high_us: u64) -> Self {
        Self {
            low: Duration::from_micros(low_us),
            high: Duration::from_micros(high_us),
        }
    }

    pub(super) fn draw(self, random: &mut SeededRandom) -> Duration {
        Duration::from_nanos(random.between(self.low.as_nanos() as u64, self.high.as_nanos() as u64))
    }
}

/// An operation that can fail on order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// A write.
    Write,
    /// A flush of a file.
    Flush,
    /// A flush of a folder.
    FlushDirectory,
    /// A read.
    Read,
    /// A truncation or allocation.
    Resize,
    /// Opening, making, renaming, removing, listing.
    Name,
}

/// How often each operation was started, and which of them are to fail.
#[derive(Debug, Default)]
pub(super) struct Faults {
    counts: std::collections::BTreeMap<Operation, u64>,
    failing: BTreeSet<(Operation, u64)>,
}

impl Faults {
    /// The `nth` such operation from now fails, 1 being the next.
    pub(super) fn fail(&mut self, operation: Operation, nth: u64) {
        self.failing.insert((operation, self.count(operation) + nth));
    }

    pub(super) fn clear(&mut self) {
        self.failing.clear();
    }

    pub(super) fn count(&self, operation: Operation) -> u64 {
        self.counts.get(&operation).copied().unwrap_or(0)
    }

    /// Counts one operation; an error if it is to fail.
    pub(super) fn start(&mut self, operation: Operation) -> io::Result<()> {
        let count = self.counts.entry(operation).or_default();
        *count += 1;
        let ordered = (operation, *count);
        if self.failing.remove(&ordered) {
            return Err(io::Error::other(format!(
                "the simulated disk failed a {operation:?}"
            )));
        }
        Ok(())
    }
}
