//! One value from one task to another of the same thread.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

struct Shared<T> {
    value: Option<T>,
    waker: Option<Waker>,
    sender_gone: bool,
    receiver_gone: bool,
}

/// The sender was dropped without a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the sender is gone and sent nothing")]
pub struct Canceled;

/// Sends the one value.
pub struct OneshotSender<T>(Rc<RefCell<Shared<T>>>);

/// A future of the one value, or of [`Canceled`].
#[must_use = "a receiver does nothing unless awaited"]
pub struct OneshotReceiver<T>(Rc<RefCell<Shared<T>>>);

/// A channel for one value.
pub fn oneshot<T>() -> (OneshotSender<T>, OneshotReceiver<T>) {
    let shared = Rc::new(RefCell::new(Shared {
        value: None,
        waker: None,
        sender_gone: false,
        receiver_gone: false,
    }));
    (OneshotSender(shared.clone()), OneshotReceiver(shared))
}

impl<T> OneshotSender<T> {
    /// Hands the value over.
    ///
    /// # Errors
    /// Gives the value back when the receiver is gone.
    pub fn send(self, value: T) -> Result<(), T> {
        let mut shared = self.0.borrow_mut();
        if shared.receiver_gone {
            return Err(value);
        }
        shared.value = Some(value);
        Ok(())
        // Dropping `self` wakes the receiver.
    }

    /// Whether nobody waits for the value any more.
    pub fn is_closed(&self) -> bool {
        self.0.borrow().receiver_gone
    }
}

impl<T> Drop for OneshotSender<T> {
    fn drop(&mut self) {
        let waker = {
            let mut shared = self.0.borrow_mut();
            shared.sender_gone = true;
            shared.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<T> Future for OneshotReceiver<T> {
    type Output = Result<T, Canceled>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut shared = self.0.borrow_mut();
        if let Some(value) = shared.value.take() {
            return Poll::Ready(Ok(value));
        }
        if shared.sender_gone {
            return Poll::Ready(Err(Canceled));
        }
        shared.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

impl<T> Drop for OneshotReceiver<T> {
    fn drop(&mut self) {
        let value = {
            let mut shared = self.0.borrow_mut();
            shared.receiver_gone = true;
            shared.waker = None;
            shared.value.take()
        };
        drop(value);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn the_value_arrives_once_and_a_dropped_sender_cancels() {
        let (sender, mut receiver) = oneshot();
        assert_eq!((&mut receiver).now_or_never(), None);
        assert_eq!(sender.send(7), Ok(()));
        assert_eq!(receiver.now_or_never(), Some(Ok(7)));

        let (sender, receiver) = oneshot::<u8>();
        drop(sender);
        assert_eq!(receiver.now_or_never(), Some(Err(Canceled)));
    }

    #[test]
    fn a_value_nobody_waits_for_comes_back() {
        let (sender, receiver) = oneshot();
        drop(receiver);
        assert!(sender.is_closed());
        assert_eq!(sender.send("late"), Err("late"));
    }
}
