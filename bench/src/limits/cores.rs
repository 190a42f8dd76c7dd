//! From one core to another: a cache line that changes hands, and a thread that sleeps until it is told.

use super::Figure;
use crate::pin;
use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Hops between two looks at the clock.
const HOPS_A_LOOK: u64 = 1000;

/// The same, where each takes a system call.
const WAKES_A_LOOK: u64 = 32;

/// What the other thread is told at the end.
const END: u64 = u64::MAX - 1;

/// One way of a cache line between two cores, in nanoseconds; `None` with one core.
pub(super) fn cache_line(each: Duration) -> io::Result<Option<Figure>> {
    if pin::cores() < 2 {
        return Ok(None);
    }
    let (ping, pong) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (asked, answer) = (Arc::clone(&ping), Arc::clone(&pong));
    let other = std::thread::spawn(move || {
        pin::to_core(1);
        let mut expected = 1;
        loop {
            let now = asked.load(Ordering::Acquire);
            if now == END {
                return;
            }
            if now == expected {
                answer.store(expected, Ordering::Release);
                expected += 1;
            }
            std::hint::spin_loop();
        }
    });
    let mut round = 0;
    let figure = on_a_core(|| {
        Figure::measure(
            |slice| {
                let began = Instant::now();
                let before = round;
                while began.elapsed() < slice {
                    for _ in 0..HOPS_A_LOOK {
                        round += 1;
                        ping.store(round, Ordering::Release);
                        while pong.load(Ordering::Acquire) != round {
                            std::hint::spin_loop();
                        }
                    }
                }
                // There and back.
                Ok(began.elapsed().as_nanos() as f64 / (round - before) as f64 / 2.0)
            },
            each,
        )
    });
    ping.store(END, Ordering::Release);
    // It only spins and stores.
    let _ = other.join();
    figure.map(Some)
}

/// One way between two threads that sleep in the kernel until the other writes to an eventfd, in nanoseconds: the least that a
/// mailbox with its wake-up takes. `None` with one core.
pub(super) fn wake_up(each: Duration) -> io::Result<Option<Figure>> {
    if pin::cores() < 2 {
        return Ok(None);
    }
    let fd = || eventfd(0, EventfdFlags::CLOEXEC);
    let (ping, pong) = (Arc::new(fd()?), Arc::new(fd()?));
    let (asked, answer) = (Arc::clone(&ping), Arc::clone(&pong));
    let other = std::thread::spawn(move || -> io::Result<()> {
        pin::to_core(1);
        let mut value = [0; 8];
        loop {
            rustix::io::read(&*asked, &mut value)?;
            if u64::from_ne_bytes(value) == END {
                return Ok(());
            }
            rustix::io::write(&*answer, &1_u64.to_ne_bytes())?;
        }
    });
    let mut value = [0; 8];
    let figure = on_a_core(|| {
        Figure::measure(
            |slice| {
                let began = Instant::now();
                let mut wakes = 0;
                while began.elapsed() < slice {
                    for _ in 0..WAKES_A_LOOK {
                        rustix::io::write(&*ping, &1_u64.to_ne_bytes())?;
                        rustix::io::read(&*pong, &mut value)?;
                    }
                    wakes += WAKES_A_LOOK;
                }
                Ok(began.elapsed().as_nanos() as f64 / wakes as f64 / 2.0)
            },
            each,
        )
    });
    rustix::io::write(&*ping, &END.to_ne_bytes())?;
    match other.join() {
        Ok(ended) => ended?,
        Err(_) => return Err(io::Error::other("the other thread panicked")),
    }
    figure.map(Some)
}

/// Runs `work` on a thread of its own that is pinned, so that this one stays where it may.
fn on_a_core<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let pinned = scope.spawn(|| {
            pin::to_core(0);
            work()
        });
        match pinned.join() {
            Ok(done) => done,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_cores_are_some_way_apart() {
        let each = Duration::from_millis(12);
        for figure in [cache_line(each), wake_up(each)] {
            let figure = figure.unwrap();
            assert_eq!(figure.is_some(), pin::cores() > 1);
            assert!(figure.is_none_or(|figure| figure.median > 0.0));
        }
    }
}
