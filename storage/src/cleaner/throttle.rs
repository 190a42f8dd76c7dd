//! `log.cleaner.io.max.bytes.per.second`: what a cleaning reads and writes, on average since it began, or
//! since the limit changed.

use std::time::Duration;

use strandline_runtime::{Monotonic, Runtime};

/// The longest sleep at once: whoever waits looks in between whether it is to go on at all.
const SLEEP_MAX: Duration = Duration::from_millis(500);

pub(super) struct Throttle {
    bytes_per_second: f64,
    began: Monotonic,
    bytes: u64,
}

impl Throttle {
    pub(super) fn new(bytes_per_second: f64, now: Monotonic) -> Self {
        Self {
            bytes_per_second,
            began: now,
            bytes: 0,
        }
    }

    /// Goes by another limit from now on.
    pub(super) fn limit(&mut self, bytes_per_second: f64, now: Monotonic) {
        if self.bytes_per_second != bytes_per_second {
            *self = Self::new(bytes_per_second, now);
        }
    }

    pub(super) fn count(&mut self, bytes: u64) {
        self.bytes += bytes;
    }

    /// How long to wait at least until what was counted is within the limit.
    fn wait(&self, now: Monotonic) -> Duration {
        let due = self.bytes as f64 / self.bytes_per_second;
        let due = Duration::try_from_secs_f64(due).unwrap_or(Duration::MAX);
        due.saturating_sub(now.since(self.began))
    }

    /// Sleeps for a part of what is to be waited; whether that was all.
    pub(super) async fn pause<R: Runtime>(&self, runtime: &R) -> bool {
        let wait = self.wait(runtime.now());
        if wait > Duration::ZERO {
            runtime.sleep(wait.min(SLEEP_MAX)).await;
        }
        wait <= SLEEP_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_holds_the_average() {
        let second = 1_000_000_000;
        let mut throttle = Throttle::new(1000.0, Monotonic(5 * second));
        assert_eq!(throttle.wait(Monotonic(5 * second)), Duration::ZERO);
        throttle.count(3000);
        assert_eq!(throttle.wait(Monotonic(6 * second)), Duration::from_secs(2));
        assert_eq!(throttle.wait(Monotonic(8 * second)), Duration::ZERO);
        throttle.limit(1000.0, Monotonic(6 * second));
        assert_eq!(throttle.wait(Monotonic(6 * second)), Duration::from_secs(2));
        throttle.limit(10_000.0, Monotonic(6 * second));
        assert_eq!(throttle.wait(Monotonic(6 * second)), Duration::ZERO);
        throttle.count(10_000);
        assert_eq!(throttle.wait(Monotonic(6 * second)), Duration::from_secs(1));
        let mut free = Throttle::new(f64::MAX, Monotonic(0));
        free.count(u64::MAX);
        assert_eq!(free.wait(Monotonic(0)), Duration::ZERO);
    }
}
