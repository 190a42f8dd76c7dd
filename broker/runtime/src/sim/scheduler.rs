//! Tasks, the seeded order among the ready ones, and time that jumps to the next timer when none is.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};
use std::time::Duration;

use super::random::SeededRandom;
use super::trace::Trace;
use crate::runtime::Monotonic;

/// A host, by the order in which hosts were named.
pub(super) type HostId = usize;
/// A task, never used twice.
pub(super) type TaskId = u64;
/// A future that belongs to a host.
pub(super) type LocalFuture = Pin<Box<dyn Future<Output = ()>>>;

/// Ids of woken tasks. A standard waker may go to any thread, hence the lock; nobody contends for it.
#[derive(Default)]
struct Woken(Mutex<BTreeSet<TaskId>>);

impl Woken {
    fn lock(&self) -> MutexGuard<'_, BTreeSet<TaskId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct TaskWaker {
    id: TaskId,
    woken: Arc<Woken>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.woken.lock().insert(self.id);
    }
}

struct Task {
    host: HostId,
    /// Out while the task is polled.
    future: Option<LocalFuture>,
    waker: Waker,
}

/// What a point in time brings.
pub(super) enum Occurrence {
    /// A sleep ends.
    Timer(Waker),
    /// Something of the network arrives; the network knows what.
    Network(super::network::Delivery),
}

/// The tasks and the clock of a simulation.
pub(super) struct Scheduler {
    now: u64,
    tasks: BTreeMap<TaskId, Task>,
    next_task: TaskId,
    woken: Arc<Woken>,
    /// Every instant holds one occurrence, so that no two things become ready at one time.
    occurrences: BTreeMap<u64, Occurrence>,
    random: SeededRandom,
    polls: u64,
}

impl Scheduler {
    pub(super) fn new(random: SeededRandom) -> Self {
        Self {
            now: 0,
            tasks: BTreeMap::new(),
            next_task: 0,
            woken: Arc::default(),
            occurrences: BTreeMap::new(),
            random,
            polls: 0,
        }
    }

    pub(super) fn now(&self) -> Monotonic {
        Monotonic(self.now)
    }

    /// How often a task was polled.
    pub(super) fn polls(&self) -> u64 {
        self.polls
    }

    pub(super) fn spawn(&mut self, host: HostId, future: LocalFuture) -> TaskId {
        let id = self.next_task;
        self.next_task += 1;
        let waker = Waker::from(Arc::new(TaskWaker {
            id,
            woken: self.woken.clone(),
        }));
        self.tasks.insert(
            id,
            Task {
                host,
                future: Some(future),
                waker,
            },
        );
        self.woken.lock().insert(id);
        id
    }

    /// Takes the next task to poll, by the seed's choice among the ready ones.
    pub(super) fn take_ready(&mut self, trace: &mut Trace) -> Option<(TaskId, LocalFuture, Waker)> {
        loop {
            let id = {
                let mut woken = self.woken.lock();
                let choice = self.random.below(woken.len() as u64) as usize;
                let id = *woken.iter().nth(choice)?;
                woken.remove(&id);
                id
            };
            // A task may have ended since it was woken.
            if let Some(task) = self.tasks.get_mut(&id)
                && let Some(future) = task.future.take()
            {
                trace.record(&[1, self.now, id, task.host as u64]);
                self.polls += 1;
                return Some((id, future, task.waker.clone()));
            }
        }
    }

    /// Puts a polled task back, unless its host was killed meanwhile; then the future comes back to be dropped.
    pub(super) fn put_back(&mut self, id: TaskId, future: LocalFuture) -> Option<LocalFuture> {
        match self.tasks.get_mut(&id) {
            Some(task) => {
                task.future = Some(future);
                None
            }
            None => Some(future),
        }
    }

    /// Forgets a task that has ended.
    pub(super) fn remove(&mut self, id: TaskId) {
        self.tasks.remove(&id);
    }

    /// Takes all tasks of a host, for the caller to drop outside of any borrow.
    pub(super) fn take_host(&mut self, host: HostId) -> Vec<LocalFuture> {
        let ids: Vec<TaskId> = self
            .tasks
            .iter()
            .filter(|(_, task)| task.host == host)
            .map(|(id, _)| *id)
            .collect();
        ids.iter()
            .filter_map(|id| self.tasks.remove(id))
            .filter_map(|task| task.future)
            .collect()
    }

    /// Plans an occurrence for `span` from now or the next free nanosecond after; returns the instant.
    pub(super) fn plan(&mut self, span: Duration, occurrence: Occurrence) -> u64 {
        let span = span.as_nanos().min(u128::from(u64::MAX >> 1)) as u64;
        self.plan_at(self.now.saturating_add(span), occurrence)
    }

    /// Plans an occurrence for `instant` or the next free nanosecond after; returns the instant.
    pub(super) fn plan_at(&mut self, instant: u64, occurrence: Occurrence) -> u64 {
        let mut instant = instant.max(self.now + 1);
        while self.occurrences.contains_key(&instant) {
            instant += 1;
        }
        self.occurrences.insert(instant, occurrence);
        instant
    }

    /// Takes back a timer that nobody waits for any more.
    pub(super) fn cancel(&mut self, instant: u64) {
        self.occurrences.remove(&instant);
    }

    /// Replaces the waker of a planned timer; false when its time has come.
    pub(super) fn rewake(&mut self, instant: u64, waker: &Waker) -> bool {
        match self.occurrences.get_mut(&instant) {
            Some(Occurrence::Timer(planned)) => {
                planned.clone_from(waker);
                true
            }
            _ => false,
        }
    }

    /// Moves the clock to the next occurrence.
    pub(super) fn advance(&mut self, trace: &mut Trace) -> Option<Occurrence> {
        let (instant, occurrence) = self.occurrences.pop_first()?;
        self.now = instant;
        trace.record(&[2, instant]);
        Some(occurrence)
    }
}
