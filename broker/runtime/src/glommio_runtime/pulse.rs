//! Timers that get a shard out of a sleep it should not have begun.
//!
//! glommio 0.9 runs its task queues only while its latency ring is empty. When an event enters that ring (the
//! preemption timer, a wake from another thread) between the look for I/O and the first task, the executor
//! finds that "nothing ran" and goes to sleep on tasks that are ready, until something else happens. A kernel
//! that takes the processor away at that moment is enough. A timer is such a something else, so a shard always
//! has a few set: several, because the same can happen to the task that a timer woke.
//!
//! The cost is a turn of the loop each time; so the timers are slow on a shard where nothing runs.

use std::time::Duration;

use super::tasks::Tasks;

/// Timers set at any time.
const PULSES: u32 = 3;
/// From one pulse to the next while tasks run: the longest that a shard at work stands still.
const ACTIVE: Duration = Duration::from_millis(2);
/// The same while none do; 50 turns a second are about 0.2% of a core.
const IDLE: Duration = Duration::from_millis(20);

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
