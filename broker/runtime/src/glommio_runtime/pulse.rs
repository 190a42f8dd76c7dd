//! Timers that get a shard out of a sleep it should not have begun.
//!
//! glommio 0.9 runs its task queues only while its latency ring is empty. When an event enters that ring (the
//! preemption timer, a wake from another thread) between the look for I/O and the first task, the executor
//! finds that "nothing ran" and goes to sleep on tasks that are ready, until something else happens. A kernel
//! that takes the processor away at that moment is enough. A timer is such a something else, so a shard always
//! has a few set: several, because the same can happen to the task that a timer woke.
//!
//! The cost is a turn of the loop each time; so the timers are slow on a shard where nothing runs.
//!
//! Pulses are near: a process that stands still for longer than their span (a busy machine, a debugger, SIGSTOP) finds all of
//! them expired at once, and one missed turn more would be the last. So there are a few dozen further ones at ever larger
//! distances, of which some are always left.

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::{Either, select};
use glommio::timer::Timer;

use super::tasks::Tasks;

/// Timers set at any time.
const PULSES: u32 = 3;
/// From one pulse to the next while tasks run: the longest that a shard at work stands still.
const ACTIVE: Duration = Duration::from_millis(2);
/// The same while none do; 50 turns a second are about 0.2% of a core.
const IDLE: Duration = Duration::from_millis(20);

/// When the first of the further timers expires.
const BACKSTOP_FIRST: Duration = Duration::from_millis(50);
/// How many further timers there are; each is half as far again as the one before it, the last one days.
const BACKSTOPS: usize = 40;

/// One of the timers, by its number; runs until the executor ends.
async fn pulse(tasks: Tasks, number: u32) {
    glommio::timer::sleep(ACTIVE * number).await;
    let mut span = ACTIVE;
    loop {
        let before = tasks.polls();
        glommio::timer::sleep(span * PULSES).await;
        span = if tasks.polls() == before {
            (span * 2).min(IDLE)
        } else {
            ACTIVE
        };
    }
}

/// The timers of one executor.
pub(super) fn pulses(tasks: &Tasks) -> [impl Future<Output = ()> + 'static + use<>; PULSES as usize] {
    std::array::from_fn(|number| pulse(tasks.clone(), number as u32))
}

/// The further timers. It never ends; each time that one of them expires, all are set anew.
struct Backstop(Vec<Timer>);

impl Backstop {
    /// They count from now.
    fn new() -> Self {
        let mut span = BACKSTOP_FIRST;
        let timers = (0..BACKSTOPS).map(|_| {
            let timer = Timer::new(span);
            span += span / 2;
            timer
        });
        Self(timers.collect())
    }
}

impl Future for Backstop {
    type Output = std::convert::Infallible;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // The near ones expire first.
        while self
            .0
            .iter_mut()
            .any(|timer| Pin::new(timer).poll(context).is_ready())
        {
            *self = Self::new();
        }
        Poll::Pending
    }
}

/// Runs an executor's root task with the further timers set from its first poll to its last. Not one await of it may stand
/// outside: the turn missed there is the one that nothing wakes.
pub(super) async fn with_backstop<T>(root: impl Future<Output = T>) -> T {
    match select(Backstop::new(), pin!(root)).await {
        Either::Left((never, _)) => match never {},
        Either::Right((output, _)) => output,
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::poll_fn;
    use std::thread;

    use super::*;

    /// A shard that had lost its processor for some milliseconds found all pulses expired; when it missed the turn after that,
    /// nothing was left to wake it: its start hung. Its end hung too, while the backstop ended before the root task did.
    #[test]
    fn a_turn_comes_after_any_number_of_missed_ones() {
        let polls = Cell::new(0);
        // Nobody wakes it.
        let unheard = poll_fn(|_| {
            if polls.get() == 0 {
                // Longer than the pulses and the first of the further timers.
                thread::sleep(BACKSTOP_FIRST * 2);
            }
            polls.set(polls.get() + 1);
            if polls.get() > 3 {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        });
        glommio::LocalExecutor::default().run(with_backstop(unheard));
        assert_eq!(polls.get(), 4);
    }
}
