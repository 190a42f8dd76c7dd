//! One monotonic clock for a whole run.
//!
//! Intended times, sends, acknowledgements and consumer receipts are all nanoseconds since the same epoch, so that they
//! subtract exactly on one host. Wall time is taken once and extended by the monotonic clock: a step of the wall clock
//! in mid-run never reaches a latency.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Nanoseconds since the epoch of a run's [`Clock`].
pub type Nanos = u64;

/// One second in [`Nanos`].
pub const SECOND: Nanos = 1_000_000_000;

/// The run's time source; a copy of it tells the same time on every thread.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    epoch: Instant,
    wall_epoch_ms: i64,
}

impl Clock {
    /// A clock whose zero is now.
    pub fn start() -> Self {
        let since_1970 = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or(Duration::ZERO);
        Self {
            epoch: Instant::now(),
            wall_epoch_ms: since_1970.as_millis() as i64,
        }
    }

    /// Nanoseconds since the epoch.
    #[inline]
    pub fn now(&self) -> Nanos {
        self.epoch.elapsed().as_nanos() as Nanos
    }

    /// The wall time in ms since 1970 that belongs to `at`: what a record carries as its timestamp.
    #[inline]
    pub fn wall_ms(&self, at: Nanos) -> i64 {
        self.wall_epoch_ms + (at / 1_000_000) as i64
    }

    /// The time on this clock at which the wall shows `wall`; `None` before the epoch.
    pub fn at_wall_time(&self, wall: SystemTime) -> Option<Nanos> {
        let since_epoch = wall.duration_since(self.wall_epoch()).ok()?;
        Nanos::try_from(since_epoch.as_nanos()).ok()
    }

    /// The wall time of the epoch.
    pub fn wall_epoch(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(self.wall_epoch_ms.max(0) as u64)
    }

    /// Sleeps until `deadline`; returns at once when it has passed.
    pub fn sleep_until(&self, deadline: Nanos) {
        let now = self.now();
        if deadline > now {
            std::thread::sleep(Duration::from_nanos(deadline - now));
        }
    }
}
