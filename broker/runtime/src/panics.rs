//! Panics of tasks, brought to whoever runs the executor: none may be swallowed, and none may tear an executor
//! down from the inside.

use std::any::Any;
use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll};

use futures_util::FutureExt;
use futures_util::future::{Either, select};

use crate::local::Event;

/// What a panic carries.
pub(crate) type Panic = Box<dyn Any + Send>;

#[derive(Default)]
struct Shared {
    first: RefCell<Option<Panic>>,
    happened: Event,
}

/// The first panic of the tasks of one executor.
#[derive(Clone, Default)]
pub(crate) struct Panics(Rc<Shared>);

impl Panics {
    /// Polls a task; one that panics has ended, its panic is kept, and the executor is to go down with it, so
    /// nothing looks at the task again.
    pub(crate) fn poll_task(
        &self,
        task: Pin<&mut impl Future<Output = ()>>,
        context: &mut Context<'_>,
    ) -> Poll<()> {
        catch_unwind(AssertUnwindSafe(|| task.poll(context))).unwrap_or_else(|panic| {
            self.0.first.borrow_mut().get_or_insert(panic);
            self.0.happened.notify_all();
            Poll::Ready(())
        })
    }

    /// A task whose panic is kept.
    pub(crate) async fn supervise(self, task: impl Future<Output = ()>) {
        let mut task = pin!(task);
        poll_fn(|context| self.poll_task(task.as_mut(), context)).await;
    }

    /// Runs `main` until it ends or panics, or a task has panicked.
    pub(crate) async fn run<T>(&self, main: impl Future<Output = T>) -> Result<T, Panic> {
        match select(pin!(AssertUnwindSafe(main).catch_unwind()), pin!(self.first())).await {
            Either::Left((outcome, _)) => outcome,
            Either::Right((panic, _)) => Err(panic),
        }
    }

    async fn first(&self) -> Panic {
        loop {
            let next = self.0.happened.wait();
            if let Some(panic) = self.0.first.take() {
                return panic;
            }
            next.await;
        }
    }
}
