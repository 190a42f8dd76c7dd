//! Loops that stop a broker again and again under load.

use std::sync::atomic::{AtomicBool, Ordering};

/// Ends a round's load however the round ends: one that failed would go on with nobody to stop it.
pub struct StopAtEnd<'a>(pub &'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// How many stops: `STRANDLINE_KILLS`, or `default`.
pub fn stops(default: u64) -> u64 {
    let asked = std::env::var("STRANDLINE_KILLS").ok();
    asked.map_or(default, |asked| {
        asked.parse().expect("STRANDLINE_KILLS is a number")
    })
}
