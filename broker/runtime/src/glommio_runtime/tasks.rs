//! The tasks of a shard, so that they can be ended before their executor is: glommio leaks those that are not,
//! and aborts when one that holds a file is dropped outside of it, as after a panic.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use crate::panics::Panics;

#[derive(Default)]
struct Live {
    ending: Cell<bool>,
    polls: Cell<u64>,
    next: Cell<u64>,
    /// A waker of every task that was polled and has not ended.
    wakers: RefCell<BTreeMap<u64, Option<Waker>>>,
    panics: Panics,
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

    /// Where the panic of a task goes.
    pub(super) fn panics(&self) -> &Panics {
        &self.0.panics
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
        let live = self.place.live.clone();
        live.polls.set(live.polls.get().wrapping_add(1));
        if live.ending.get() {
            self.task = None;
        }
        let Some(task) = &mut self.task else {
            return Poll::Ready(());
        };
        if live.panics.poll_task(task.as_mut(), context).is_ready() {
            self.task = None;
            return Poll::Ready(());
        }
        let mut wakers = live.wakers.borrow_mut();
        let waker = wakers
            .get_mut(&self.place.id)
            .expect("a task's place lives as long as the task");
        if waker.is_none() {
            // A task keeps its waker for life.
            *waker = Some(context.waker().clone());
        }
        Poll::Pending
    }
}
