//! The tasks of a shard, so that they can be ended before their executor is: glommio leaks those that are not,
//! and aborts when one that holds a file is dropped outside of it, as after a panic.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use crate::local::Event;

/// What a panic carries.
pub(super) type Panic = Box<dyn Any + Send>;

#[derive(Default)]
struct Live {
    ending: Cell<bool>,
    polls: Cell<u64>,
    next: Cell<u64>,
    /// A waker of every task that was polled and has not ended.
    wakers: RefCell<BTreeMap<u64, Option<Waker>>>,
    /// The first panic of a task.
    panic: RefCell<Option<Panic>>,
    panicked: Event,
}

impl Live {
    fn keep(&self, panic: Panic) {
        self.panic.borrow_mut().get_or_insert(panic);
        self.panicked.notify_all();
    }
}

/// All tasks spawned on one executor.
#[derive(Clone, Default)]
pub(super) struct Tasks(Rc<Live>);

impl Tasks {
    /// Wraps a future that is to be dropped, on its executor, when [`Tasks::end_all`] is called.
    pub(super) fn supervise<F: Future<Output = ()>>(&self, task: F) -> Supervised<F> {
        let id = self.0.next.get();
        self.0.next.set(id + 1);
        self.0.wakers.borrow_mut().insert(id, None);
        Supervised {
            task: Some(Box::pin(task)),
            place: Place {
                live: self.0.clone(),
                id,
            },
        }
    }

    /// Tells every task to end. Those spawned from now on end at once.
    pub(super) fn end_all(&self) {
        self.0.ending.set(true);
        let wakers: Vec<Waker> = self.0.wakers.borrow().values().flatten().cloned().collect();
        for waker in wakers {
            waker.wake();
        }
    }

    /// How often a supervised task has been polled.
    pub(super) fn polls(&self) -> u64 {
        self.0.polls.get()
    }

    /// Completes when a task has panicked, with its panic.
    pub(super) async fn panicked(&self) -> Panic {
        loop {
            let next = self.0.panicked.wait();
            if let Some(panic) = self.0.panic.take() {
                return panic;
            }
            next.await;
        }
    }

    pub(super) fn all_ended(&self) -> bool {
        self.0.wakers.borrow().is_empty()
    }
}

struct Place {
    live: Rc<Live>,
    id: u64,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.live.wakers.borrow_mut().remove(&self.id);
    }
}

pub(super) struct Supervised<F> {
    /// Before `place`, so that a task counts as live until it is dropped.
    task: Option<Pin<Box<F>>>,
    place: Place,
}

impl<F: Future<Output = ()>> Future for Supervised<F> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let live = &self.place.live;
        live.polls.set(live.polls.get().wrapping_add(1));
        if live.ending.get() {
            self.task = None;
        }
        let Some(task) = &mut self.task else {
            return Poll::Ready(());
        };
        // The executor goes down with the panic, see `Tasks::panicked`; nothing looks at the task again.
        match catch_unwind(AssertUnwindSafe(|| task.as_mut().poll(context))) {
            Ok(Poll::Pending) => {}
            Ok(Poll::Ready(())) => {
                self.task = None;
                return Poll::Ready(());
            }
            Err(panic) => {
                self.place.live.keep(panic);
                self.task = None;
                return Poll::Ready(());
            }
        }
        let mut wakers = self.place.live.wakers.borrow_mut();
        let waker = wakers
            .get_mut(&self.place.id)
            .expect("a task's place lives as long as the task");
        if waker.is_none() {
            // A task keeps its waker for life.
            *waker = Some(context.waker().clone());
        }
        drop(wakers);
        Poll::Pending
    }
}
