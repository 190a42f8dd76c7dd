//! Deadlines of parked requests, kept by one coarse timer a shard: a timer of its own costs each request system calls.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::{Either, select};
use strandline_runtime::{Monotonic, Runtime};

use super::signal::Signal;

/// Deadlines are rounded up to this, so that requests parked together wake together.
const TICK: Duration = Duration::from_millis(4);

/// What happens at a deadline.
pub(crate) trait Expire {
    /// The deadline has passed.
    fn expire(&self);
}

type Key = (u64, u64);

/// The deadlines of one shard.
#[derive(Default)]
pub(crate) struct Deadlines {
    waiting: RefCell<BTreeMap<Key, Rc<dyn Expire>>>,
    next: Cell<u64>,
    /// The tick that the timer task sleeps towards.
    armed: Cell<Option<u64>>,
    earlier: Signal,
}

/// A registered deadline; dropping it takes the deadline back.
pub(crate) struct Deadline {
    deadlines: Rc<Deadlines>,
    key: Key,
}

impl Deadlines {
    /// `parked` expires at `at` or up to a tick later.
    pub(crate) fn register(self: &Rc<Self>, at: Monotonic, parked: Rc<dyn Expire>) -> Deadline {
        let tick = at.0.div_ceil(TICK.as_nanos() as u64);
        let key = (tick, self.next.get());
        self.next.set(self.next.get() + 1);
        self.waiting.borrow_mut().insert(key, parked);
        if self.armed.get().is_none_or(|armed| tick < armed) {
            self.earlier.set();
        }
        Deadline {
            deadlines: self.clone(),
            key,
        }
    }

    /// The timer task of the shard; ends with the executor.
    pub(crate) async fn run<R: Runtime>(self: Rc<Self>, runtime: R) {
        loop {
            let next = self.waiting.borrow().keys().next().map(|key| key.0);
            self.armed.set(next);
            let Some(tick) = next else {
                self.earlier.wait().await;
                continue;
            };
            let at = Monotonic(tick.saturating_mul(TICK.as_nanos() as u64));
            let now = runtime.now();
            if at > now {
                let sleep = pin!(runtime.sleep(at.since(now)));
                let earlier = pin!(self.earlier.wait());
                if let Either::Right(_) = select(sleep, earlier).await {
                    continue;
                }
            }
            self.expire_until(tick);
        }
    }

    /// Every deadline is over: the shard stops.
    pub(crate) fn expire_all(&self) {
        let all = self.waiting.take();
        for parked in all.into_values() {
            parked.expire();
        }
    }

    fn expire_until(&self, tick: u64) {
        let later = self.waiting.borrow_mut().split_off(&(tick + 1, 0));
        let due = std::mem::replace(&mut *self.waiting.borrow_mut(), later);
        for parked in due.into_values() {
            parked.expire();
        }
    }
}

impl Drop for Deadline {
    fn drop(&mut self) {
        self.deadlines.waiting.borrow_mut().remove(&self.key);
    }
}
