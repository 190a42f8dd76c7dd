//! The mailbox: a bounded crossbeam queue and an atomic waker; many senders on any thread, one receiver.
//!
//! It works on every executor whose wakers may be called from another thread, which all three are.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Poll;

use crossbeam::queue::ArrayQueue;
use futures_util::task::AtomicWaker;

struct Shared<T> {
    queue: ArrayQueue<T>,
    waker: AtomicWaker,
    senders: AtomicUsize,
    receiver_gone: AtomicBool,
}

/// Why a message was not taken; it comes back to the sender.
#[derive(Debug, PartialEq, Eq)]
pub enum SendError<T> {
    /// The mailbox holds as many messages as it may.
    Full(T),
    /// The receiver is gone.
    Closed(T),
}

/// The sending side; clone it freely, send it to any thread.
pub struct Sender<T>(Arc<Shared<T>>);

/// The receiving side; one task of one thread owns it.
pub struct Receiver<T>(Arc<Shared<T>>);

/// A mailbox of at most `capacity` waiting messages.
pub fn mailbox<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    let shared = Arc::new(Shared {
        queue: ArrayQueue::new(capacity),
        waker: AtomicWaker::new(),
        senders: AtomicUsize::new(1),
        receiver_gone: AtomicBool::new(false),
    });
    (Sender(shared.clone()), Receiver(shared))
}

impl<T> Sender<T> {
    /// Puts `message` in the queue and wakes the receiver; never waits.
    ///
    /// # Errors
    /// [`SendError`] gives the message back when the mailbox is full or its receiver gone.
    pub fn send(&self, message: T) -> Result<(), SendError<T>> {
        if self.0.receiver_gone.load(Ordering::Acquire) {
            return Err(SendError::Closed(message));
        }
        self.0.queue.push(message).map_err(SendError::Full)?;
        self.0.waker.wake();
        Ok(())
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        self.0.senders.fetch_add(1, Ordering::Relaxed);
        Self(self.0.clone())
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        if self.0.senders.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.waker.wake();
        }
    }
}

impl<T> Receiver<T> {
    /// The next message; `None` once every sender is gone and the queue is empty.
    pub async fn receive(&mut self) -> Option<T> {
        poll_fn(|context| {
            if let Some(message) = self.0.queue.pop() {
                return Poll::Ready(Some(message));
            }
            self.0.waker.register(context.waker());
            // A message or the last sender's end may have come between the look and the registration.
            let ended = self.0.senders.load(Ordering::Acquire) == 0;
            match self.0.queue.pop() {
                Some(message) => Poll::Ready(Some(message)),
                None if ended => Poll::Ready(None),
                None => Poll::Pending,
            }
        })
        .await
    }

    /// The next message if one waits already.
    pub fn try_receive(&mut self) -> Option<T> {
        self.0.queue.pop()
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        self.0.receiver_gone.store(true, Ordering::Release);
        while self.0.queue.pop().is_some() {}
    }
}
