//! Signals between tasks of one thread: no locks, no atomics, the same on every executor.

mod event;
mod oneshot;

pub use event::{Event, EventWait};
pub use oneshot::{Canceled, OneshotReceiver, OneshotSender, oneshot};
