//! An event that any number of tasks wait for and that happens again and again.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

#[derive(Default)]
struct Shared {
    /// How often the event has happened; a wait ends when it differs from the count at its start.
    count: Cell<u64>,
    next_waiter: Cell<u64>,
    waiters: RefCell<Vec<(u64, Waker)>>,
}

/// Something that happens repeatedly, such as "space was freed". Clones are handles of one event.
///
/// A wait counts from the call of [`Event::wait`], not from its first poll: take the wait, look at the
/// condition, then await, and no notification is lost in between.
#[derive(Clone, Default)]
pub struct Event(Rc<Shared>);

impl Event {
    /// An event that has not happened.
    pub fn new() -> Self {
        Self::default()
    }

    /// Completes at the first [`Event::notify_all`] after this call.
    pub fn wait(&self) -> EventWait {
        EventWait {
            shared: self.0.clone(),
            seen: self.0.count.get(),
            waiter: None,
        }
    }

    /// Ends every wait that has begun.
    pub fn notify_all(&self) {
        self.0.count.set(self.0.count.get().wrapping_add(1));
        // Taken out first: a waker may run code that waits again.
        let waiters = self.0.waiters.take();
        for (_, waker) in waiters {
            waker.wake();
        }
    }
}

/// The future of [`Event::wait`].
#[must_use = "a wait does nothing unless awaited"]
pub struct EventWait {
    shared: Rc<Shared>,
    seen: u64,
    waiter: Option<u64>,
}

impl Future for EventWait {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.shared.count.get() != self.seen {
            self.waiter = None;
            return Poll::Ready(());
        }
        let id = self.waiter.unwrap_or_else(|| {
            let id = self.shared.next_waiter.get();
            self.shared.next_waiter.set(id + 1);
            id
        });
        let mut waiters = self.shared.waiters.borrow_mut();
        match waiters.iter_mut().find(|(waiter, _)| *waiter == id) {
            Some((_, waker)) => waker.clone_from(context.waker()),
            None => waiters.push((id, context.waker().clone())),
        }
        drop(waiters);
        self.waiter = Some(id);
        Poll::Pending
    }
}

impl Drop for EventWait {
    fn drop(&mut self) {
        if let Some(id) = self.waiter {
            self.shared
                .waiters
                .borrow_mut()
                .retain(|(waiter, _)| *waiter != id);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn a_wait_sees_what_happens_after_its_call_and_nothing_before() {
        let event = Event::new();
        event.notify_all();
        let mut early = event.wait();
        assert_eq!((&mut early).now_or_never(), None);
        event.notify_all();
        let late = event.wait();
        assert_eq!((&mut early).now_or_never(), Some(()));
        assert_eq!(late.now_or_never(), None);
    }

    #[test]
    fn a_dropped_wait_leaves_no_waker() {
        let event = Event::new();
        let mut wait = event.wait();
        assert_eq!((&mut wait).now_or_never(), None);
        assert_eq!(event.0.waiters.borrow().len(), 1);
        drop(wait);
        assert!(event.0.waiters.borrow().is_empty());
    }
}
