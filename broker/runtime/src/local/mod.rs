//! Signals between tasks of one thread: no locks, no atomics, the same on every executor.

mod event;
mod oneshot;
mod turns;

pub use event::{Event, EventWait};
pub use oneshot::{Canceled, OneshotReceiver, OneshotSender, oneshot};
pub use turns::{Turns, collect_in_turns};
