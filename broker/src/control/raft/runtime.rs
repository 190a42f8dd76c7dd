//! openraft's runtime: spawn, clock, timers and random numbers of the [`Runtime`] that polls it.
//!
//! openraft asks for them through a type, not a value. So every task of it, and every call into it, is polled
//! [`within`] the runtime it belongs to, which a thread-local names for that long: several simulated hosts share a thread.

use std::cell::RefCell;
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use openraft::AsyncRuntime;
use openraft::async_runtime::AsyncOneshotSendExt;
use strandline_runtime::{Monotonic, Queue, Runtime};
use tokio::sync::oneshot;

/// openraft subtracts time-outs from the clock, which may have started a moment ago.
const CLOCK_STARTS_AT: Duration = Duration::from_secs(1 << 24);

type Task = Pin<Box<dyn Future<Output = ()>>>;

/// A [`Runtime`] without its types.
pub trait AnyRuntime {
    /// Starts a task.
    fn spawn(&self, task: Task);
    /// Completes when `span` has passed.
    fn sleep(&self, span: Duration) -> Task;
    /// The monotonic clock.
    fn now(&self) -> Monotonic;
    /// A random number.
    fn random_u64(&self) -> u64;
}

impl<R: Runtime> AnyRuntime for R {
    fn spawn(&self, task: Task) {
        Runtime::spawn(self, Queue::Latency, task);
    }

    fn sleep(&self, span: Duration) -> Task {
        Box::pin(Runtime::sleep(self, span))
    }

    fn now(&self) -> Monotonic {
        Runtime::now(self)
    }

    fn random_u64(&self) -> u64 {
        Runtime::random_u64(self)
    }
}

thread_local! {
    static CURRENT: RefCell<Option<Rc<dyn AnyRuntime>>> = const { RefCell::new(None) };
}

fn current() -> Rc<dyn AnyRuntime> {
    let current = CURRENT.with_borrow(Clone::clone);
    current.expect("every call into openraft is polled within a runtime")
}

/// Makes `runtime` openraft's for the rest of this thread, for tests that openraft polls itself.
#[cfg(test)]
pub(super) fn adopt(runtime: Rc<dyn AnyRuntime>) {
    CURRENT.set(Some(runtime));
}

/// Polls `future` with `runtime` as openraft's.
pub fn within<F: Future>(runtime: Rc<dyn AnyRuntime>, future: F) -> Within<F> {
    Within {
        runtime,
        future: Box::pin(future),
    }
}

/// See [`within`].
pub struct Within<F> {
    runtime: Rc<dyn AnyRuntime>,
    future: Pin<Box<F>>,
}

/// Puts the runtime back that was current before, also when the poll panics.
struct Restore(Option<Rc<dyn AnyRuntime>>);

impl Drop for Restore {
    fn drop(&mut self) {
        CURRENT.set(self.0.take());
    }
}

impl<F: Future> Future for Within<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let _restore = Restore(CURRENT.replace(Some(self.runtime.clone())));
        self.future.as_mut().poll(context)
    }
}

/// The [`AsyncRuntime`] of this program.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Seam;

/// A reading of the current runtime's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instant(Duration);

/// A task ended before it gave its result: its executor did.
#[derive(Debug)]
pub struct Ended;

/// The result of a spawned task; dropping it lets the task run on.
pub struct JoinHandle<T>(oneshot::Receiver<T>);

/// More time passed than was allowed.
#[derive(Debug)]
pub struct Elapsed;

/// A future with a deadline.
pub struct Timeout<R, F> {
    future: Pin<Box<F>>,
    deadline: Task,
    output: PhantomData<fn() -> R>,
}

/// A sender of one value.
pub struct OneshotSender<T>(oneshot::Sender<T>);

/// Random numbers of the current runtime.
pub struct Random;

impl AsyncRuntime for Seam {
    type JoinError = Ended;
    type JoinHandle<T: 'static> = JoinHandle<T>;
    type Sleep = Task;
    type Instant = Instant;
    type TimeoutError = Elapsed;
    type Timeout<R, T: Future<Output = R>> = Timeout<R, T>;
    type ThreadLocalRng = Random;
    type OneshotSender<T> = OneshotSender<T>;
    type OneshotReceiverError = oneshot::error::RecvError;
    type OneshotReceiver<T> = oneshot::Receiver<T>;

    fn spawn<T>(future: T) -> JoinHandle<T::Output>
    where
        T: Future + 'static,
        T::Output: 'static,
    {
        let (sender, receiver) = oneshot::channel();
        let runtime = current();
        let task = within(runtime.clone(), async move {
            // Nobody may want to know.
            let _ = sender.send(future.await);
        });
        runtime.spawn(Box::pin(task));
        JoinHandle(receiver)
    }

    fn sleep(duration: Duration) -> Task {
        current().sleep(duration)
    }

    fn sleep_until(deadline: Instant) -> Task {
        let now = <Instant as openraft::Instant>::now();
        current().sleep(deadline.0.saturating_sub(now.0))
    }

    fn timeout<R, F: Future<Output = R>>(duration: Duration, future: F) -> Timeout<R, F> {
        Timeout {
            future: Box::pin(future),
            deadline: Self::sleep(duration),
            output: PhantomData,
        }
    }

    fn timeout_at<R, F: Future<Output = R>>(deadline: Instant, future: F) -> Timeout<R, F> {
        Timeout {
            future: Box::pin(future),
            deadline: Self::sleep_until(deadline),
            output: PhantomData,
        }
    }

    /// A panic of any task ends the process.
    fn is_panic(_: &Ended) -> bool {
        false
    }

    fn thread_rng() -> Random {
        Random
    }

    fn oneshot<T>() -> (OneshotSender<T>, oneshot::Receiver<T>) {
        let (sender, receiver) = oneshot::channel();
        (OneshotSender(sender), receiver)
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = Result<T, Ended>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(context).map_err(|_| Ended)
    }
}

impl<R, F: Future<Output = R>> Future for Timeout<R, F> {
    type Output = Result<R, Elapsed>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let Poll::Ready(output) = self.future.as_mut().poll(context) {
            return Poll::Ready(Ok(output));
        }
        self.deadline.as_mut().poll(context).map(|()| Err(Elapsed))
    }
}

impl<T> AsyncOneshotSendExt<T> for OneshotSender<T> {
    fn send(self, value: T) -> Result<(), T> {
        self.0.send(value)
    }
}

impl<T> fmt::Debug for OneshotSender<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("OneshotSender")
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the task ended with its executor")
    }
}

impl fmt::Display for Elapsed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("it took too long")
    }
}

impl openraft::Instant for Instant {
    fn now() -> Self {
        Self(CLOCK_STARTS_AT + Duration::from_nanos(current().now().0))
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(span))
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, span: Duration) {
        *self = *self + span;
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;

    fn sub(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(span))
    }
}

impl SubAssign<Duration> for Instant {
    fn sub_assign(&mut self, span: Duration) {
        *self = *self - span;
    }
}

impl Sub for Instant {
    type Output = Duration;

    fn sub(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl rand_core::RngCore for Random {
    fn next_u32(&mut self) -> u32 {
        self.next_u64() as u32
    }

    fn next_u64(&mut self) -> u64 {
        current().random_u64()
    }

    fn fill_bytes(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.next_u64().to_le_bytes()[..chunk.len()]);
        }
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), rand_core::Error> {
        self.fill_bytes(bytes);
        Ok(())
    }
}
