//! A flag with one waiter: set by whoever has news, taken by the task that acts on it.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::task::{Poll, Waker};

/// Sticky: a set before the wait ends the wait at once, so nothing is lost between a look and a wait.
#[derive(Default)]
pub(crate) struct Signal {
    set: Cell<bool>,
    waiter: RefCell<Option<Waker>>,
}

impl Signal {
    /// Sets the flag and wakes the waiter, if any.
    pub(crate) fn set(&self) {
        self.set.set(true);
        let waiter = self.waiter.borrow_mut().take();
        if let Some(waker) = waiter {
            waker.wake();
        }
    }

    /// Takes the flag back.
    pub(crate) fn clear(&self) {
        self.set.set(false);
    }

    /// Completes once the flag is set, and clears it. One task waits at a time.
    pub(crate) async fn wait(&self) {
        poll_fn(|context| {
            if self.set.replace(false) {
                return Poll::Ready(());
            }
            let mut waiter = self.waiter.borrow_mut();
            match &mut *waiter {
                Some(waker) => waker.clone_from(context.waker()),
                None => *waiter = Some(context.waker().clone()),
            }
            Poll::Pending
        })
        .await;
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn a_set_before_the_wait_is_not_lost_and_is_taken_once() {
        let signal = Signal::default();
        signal.set();
        assert!(signal.wait().now_or_never().is_some());
        assert!(signal.wait().now_or_never().is_none());
        signal.set();
        signal.clear();
        assert!(signal.wait().now_or_never().is_none());
    }
}
