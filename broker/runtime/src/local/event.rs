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
    waiters: RefCell<Waiters>,
}

/// Who waits for the next time. A place is its waiter's as long as the event has not happened again: then all are free.
#[derive(Default)]
struct Waiters {
    places: Vec<Option<Waker>>,
    free: Vec<usize>,
}

impl Waiters {
    fn enter(&mut self, waker: Waker) -> usize {
        match self.free.pop() {
            Some(place) => {
                self.places[place] = Some(waker);
                place
            }
            None => {
                self.places.push(Some(waker));
                self.places.len() - 1
            }
        }
    }

    fn leave(&mut self, place: usize) -> Option<Waker> {
        self.free.push(place);
        self.places[place].take()
    }

    fn take_all(&mut self) -> Vec<Option<Waker>> {
        self.free.clear();
        std::mem::take(&mut self.places)
    }
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
            place: None,
        }
    }

    /// Ends every wait that has begun.
    pub fn notify_all(&self) {
        self.0.count.set(self.0.count.get().wrapping_add(1));
        // Taken out first: a waker may run code that waits again.
        let mut places = self.0.waiters.borrow_mut().take_all();
        for waker in places.drain(..).flatten() {
            waker.wake();
        }
        let mut waiters = self.0.waiters.borrow_mut();
        if waiters.places.is_empty() {
            waiters.places = places;
        }
    }
}

/// The future of [`Event::wait`].
#[must_use = "a wait does nothing unless awaited"]
pub struct EventWait {
    shared: Rc<Shared>,
    seen: u64,
    place: Option<usize>,
}

impl EventWait {
    fn has_happened(&self) -> bool {
        self.shared.count.get() != self.seen
    }
}

impl Future for EventWait {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.has_happened() {
            return Poll::Ready(());
        }
        let shared = self.shared.clone();
        let mut waiters = shared.waiters.borrow_mut();
        match self.place {
            Some(place) => {
                let waker = waiters.places[place].as_mut();
                waker
                    .expect("a place is kept until the event happens")
                    .clone_from(context.waker());
            }
            None => self.place = Some(waiters.enter(context.waker().clone())),
        }
        Poll::Pending
    }
}

impl Drop for EventWait {
    fn drop(&mut self) {
        if let Some(place) = self.place
            && !self.has_happened()
        {
            // Dropped outside of the borrow: it may be the last of its task.
            let waker = self.shared.waiters.borrow_mut().leave(place);
            drop(waker);
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
        drop(wait);
        assert!(event.0.waiters.borrow().places.iter().all(Option::is_none));
    }

    #[test]
    fn places_are_used_again_and_never_by_two() {
        let event = Event::new();
        let mut waits: Vec<_> = (0..4).map(|_| event.wait()).collect();
        for wait in &mut waits {
            assert_eq!(wait.now_or_never(), None);
        }
        drop(waits.remove(1));
        let mut late = event.wait();
        assert_eq!((&mut late).now_or_never(), None);
        assert_eq!(event.0.waiters.borrow().places.len(), 4);
        // A wait that ended leaves the places of those that came after it alone.
        event.notify_all();
        let mut next = event.wait();
        assert_eq!((&mut next).now_or_never(), None);
        drop(waits);
        assert_eq!(event.0.waiters.borrow().places.iter().flatten().count(), 1);
        assert_eq!((&mut late).now_or_never(), Some(()));
        assert_eq!((&mut next).now_or_never(), None);
        event.notify_all();
        assert_eq!(next.now_or_never(), Some(()));
    }
}
