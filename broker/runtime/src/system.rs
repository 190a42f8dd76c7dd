//! Clocks and entropy of the operating system, for the two runtimes on real hardware.
#![allow(unsafe_code)]

use std::io;
use std::sync::OnceLock;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::runtime::Monotonic;

/// The monotonic clock since its first reading in this process, so that readings of two threads compare.
pub(crate) fn monotonic() -> Monotonic {
    static START: OnceLock<Instant> = OnceLock::new();
    let nanos = START.get_or_init(Instant::now).elapsed().as_nanos();
    Monotonic(nanos.min(u128::from(u64::MAX)) as u64)
}

/// Milliseconds since the Unix epoch; negative before it.
pub(crate) fn wall_clock_ms() -> i64 {
    match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since) => since.as_millis() as i64,
        Err(before) => -(before.duration().as_millis() as i64),
    }
}

/// Eight bytes of the kernel's generator.
pub(crate) fn random_u64() -> u64 {
    let mut bytes = [0_u8; 8];
    loop {
        // SAFETY: the pointer and the length are those of a local array that lives across the call.
        let taken = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
        if taken == bytes.len() as isize {
            return u64::from_ne_bytes(bytes);
        }
        // Requests of up to 256 bytes are interrupted only while the pool is not yet seeded at boot.
        let error = io::Error::last_os_error();
        assert_eq!(
            error.kind(),
            io::ErrorKind::Interrupted,
            "getrandom is part of every supported kernel: {error}"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_never_goes_back_and_numbers_differ() {
        let first = monotonic();
        assert!(monotonic() >= first);
        assert_ne!(random_u64(), random_u64());
    }
}
