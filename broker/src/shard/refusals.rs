//! Log lines for refused requests, limited: an error that clients retry hides its cause, a flood of lines hides it too.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

use strandline_runtime::Monotonic;
use strandline_wire::{ApiKey, ErrorCode};

/// Lines of one API and code in one window; the rest is counted.
const LINES_PER_WINDOW: u32 = 5;
const WINDOW: Duration = Duration::from_secs(10);

/// What records of a group are of. The numbers are below any API's and that of [`Refusals::log_close`].
#[derive(Clone, Copy)]
pub(crate) enum RecordsOf {
    Members = -2,
    Offsets = -3,
}

impl RecordsOf {
    fn name(self) -> &'static str {
        match self {
            Self::Members => "group members",
            Self::Offsets => "committed offsets",
        }
    }
}

#[derive(Default)]
struct Window {
    since: Monotonic,
    lines: u32,
    suppressed: u64,
}

/// The limiter of one shard.
#[derive(Default)]
pub(crate) struct Refusals {
    windows: RefCell<BTreeMap<(i16, i16), Window>>,
}

impl Refusals {
    /// A line for a refused part of a request.
    pub(crate) fn log(
        &self,
        now: Monotonic,
        api: ApiKey,
        code: ErrorCode,
        topic: &dyn std::fmt::Display,
        partition: i32,
        reason: &str,
    ) {
        if let Some(suppressed) = self.admit(now, (api.key(), code.code())) {
            tracing::warn!(
                api = api.name(),
                error = code.name(),
                %topic,
                partition,
                suppressed,
                "{reason}"
            );
        }
    }

    /// A line for records of a group that were not appended.
    pub(crate) fn log_records(
        &self,
        now: Monotonic,
        kind: RecordsOf,
        code: ErrorCode,
        group: &str,
        partition: i32,
    ) {
        if let Some(suppressed) = self.admit(now, (kind as i16, code.code())) {
            tracing::warn!(
                records = kind.name(),
                error = code.name(),
                group,
                partition,
                suppressed,
                "records of a group were not appended"
            );
        }
    }

    /// A line for a connection that is closed.
    pub(crate) fn log_close(&self, now: Monotonic, peer: &dyn std::fmt::Display, reason: &str) {
        if let Some(suppressed) = self.admit(now, (-1, 0)) {
            tracing::warn!(%peer, suppressed, "connection closed: {reason}");
        }
    }

    /// How many lines of this kind were left out since the last one; `None` to leave this one out too.
    fn admit(&self, now: Monotonic, kind: (i16, i16)) -> Option<u64> {
        let mut windows = self.windows.borrow_mut();
        let window = windows.entry(kind).or_default();
        if now.since(window.since) >= WINDOW {
            window.since = now;
            window.lines = 0;
        }
        if window.lines == LINES_PER_WINDOW {
            window.suppressed += 1;
            return None;
        }
        window.lines += 1;
        Some(std::mem::take(&mut window.suppressed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_counted_and_not_written() {
        let refusals = Refusals::default();
        let at = |seconds: u64| Monotonic(seconds * 1_000_000_000);
        let written = (0..20)
            .filter(|_| refusals.admit(at(20), (0, 3)).is_some())
            .count();
        assert_eq!(written, LINES_PER_WINDOW as usize);
        assert_eq!(refusals.admit(at(20), (0, 6)), Some(0));
        assert_eq!(
            refusals.admit(at(31), (0, 3)),
            Some(20 - u64::from(LINES_PER_WINDOW))
        );
    }
}
