//! The machine's own hiccups: how late a thread wakes that does nothing but sleep.
//!
//! Shared virtual machines stall by themselves. No broker can answer faster than the machine wakes its threads, so the report
//! shows these delays beside the latencies.

use crate::clock::{Clock, Nanos};
use crate::histogram::Latencies;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// The step of the sleeper.
const STEP: Nanos = 1_000_000;

/// Measures from its start until [`HiccupMeter::stop`].
#[derive(Debug)]
pub struct HiccupMeter {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Latencies>,
}

impl HiccupMeter {
    /// Starts the sleeper.
    pub fn start(clock: Clock) -> std::io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("hiccups".to_owned())
            .spawn(move || sleeper(clock, &stopped))?;
        Ok(Self { stop, thread })
    }

    /// Ends the measurement and returns the lateness of every step.
    pub fn stop(self) -> Latencies {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_default()
    }
}

fn sleeper(clock: Clock, stop: &AtomicBool) -> Latencies {
    crate::pin::precise_timers();
    let mut lateness = Latencies::default();
    while !stop.load(Ordering::Relaxed) {
        let deadline = clock.now() + STEP;
        clock.sleep_until(deadline);
        let now = clock.now();
        lateness.record_between(deadline, now);
        // A stall swallows the steps that fell into it; each of them would have been late by what was left of it.
        let mut missed = deadline + STEP;
        while missed < now {
            lateness.record_between(missed, now);
            missed += STEP;
        }
    }
    lateness
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_counts_a_sample_for_every_step() {
        let clock = Clock::start();
        let meter = HiccupMeter::start(clock).unwrap();
        clock.sleep_until(20 * STEP);
        let lateness = meter.stop();
        assert!(!lateness.is_empty());
        assert_eq!(lateness.negatives(), 0);
    }
}
