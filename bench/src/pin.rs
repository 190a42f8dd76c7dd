//! Where threads run and how exactly they wake.

use std::num::NonZeroU64;

/// Spinning is allowed only when it takes no core from the broker or the kernel: with more than this many cores.
const SHARED_CORES: usize = 2;

/// Pins the calling thread to one of the process's allowed cores: the last for index 0, the one before for 1, and round again. Brokers
/// with fewer shards than cores, and interrupts, usually take the first ones. Returns the core, or `None` where the platform
/// refuses: the run goes on unpinned and says so.
pub fn to_core(index: usize) -> Option<usize> {
    let allowed = affinity::get_thread_affinity().ok()?;
    let core = *allowed.iter().rev().nth(index % allowed.len().max(1))?;
    affinity::set_thread_affinity([core]).ok()?;
    Some(core)
}

/// How many cores this process may use.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Whether a thread may spin for the last microseconds before a deadline.
pub fn may_spin() -> bool {
    cores() > SHARED_CORES
}

/// Asks the kernel not to round this thread's timers (50 µs by default).
pub fn precise_timers() {
    // Without it wake-ups are coarser, never wrong; nothing to report.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
}
