//! Waiting: for virtual time, and for the other ready tasks.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::World;
use super::scheduler::Occurrence;

/// A sleep on virtual time; it counts from its making.
#[must_use = "a sleep does nothing unless awaited"]
pub struct Sleep {
    world: Rc<World>,
    instant: u64,
}

impl Sleep {
    pub(super) fn new(world: Rc<World>, span: Duration) -> Self {
        let timer = Occurrence::Timer(Waker::noop().clone());
        let instant = world.scheduler.borrow_mut().plan(span, timer);
        Self { world, instant }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut scheduler = self.world.scheduler.borrow_mut();
        if scheduler.now().0 >= self.instant {
            return Poll::Ready(());
        }
        assert!(
            scheduler.rewake(self.instant, context.waker()),
            "a timer stays planned until its time"
        );
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        let mut scheduler = self.world.scheduler.borrow_mut();
        if scheduler.now().0 < self.instant {
            scheduler.cancel(self.instant);
        }
    }
}

/// Comes back after every task that is ready had a chance.
pub(super) async fn yield_now() {
    let mut yielded = false;
    poll_fn(|context| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
