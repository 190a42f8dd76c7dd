//! The runtime of the control thread: tokio on one thread.
//!
//! This module and its child are the only ones of the crate that name tokio.

mod net;

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::panic::resume_unwind;
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::task::LocalSet;

pub use net::{TokioListener, TokioReadHalf, TokioStream, TokioWriteHalf};

use crate::panics::Panics;
use crate::runtime::{Monotonic, Queue, Runtime};
use crate::system;

/// The runtime of the thread that runs [`run_control`]. All task queues are one: nothing here is in a hurry.
#[derive(Clone)]
pub struct TokioRuntime {
    /// An `Rc` inside, as tasks of this runtime stay on its thread.
    panics: Panics,
}

/// Runs the future that `make_main` makes on this thread until it ends; tasks still running then are dropped.
///
/// # Errors
/// When the operating system gives no event queue.
///
/// # Panics
/// When any task does: tokio alone would leave the panic of a spawned one in its handle, which nobody holds.
pub fn run_control<F: Future>(make_main: impl FnOnce(TokioRuntime) -> F) -> io::Result<F::Output> {
    let executor = Builder::new_current_thread().enable_all().build()?;
    let panics = Panics::default();
    let runtime = TokioRuntime {
        panics: panics.clone(),
    };
    let main = panics.run(async move { make_main(runtime).await });
    Ok(LocalSet::new()
        .block_on(&executor, main)
        .unwrap_or_else(|panic| resume_unwind(panic)))
}

impl Runtime for TokioRuntime {
    type Listener = TokioListener;
    type Stream = TokioStream;

    fn spawn(&self, _queue: Queue, task: impl Future<Output = ()> + 'static) {
        drop(tokio::task::spawn_local(self.panics.clone().supervise(task)));
    }

    fn sleep(&self, span: Duration) -> impl Future<Output = ()> + 'static {
        tokio::time::sleep(span)
    }

    fn now(&self) -> Monotonic {
        system::monotonic()
    }

    fn wall_clock_ms(&self) -> i64 {
        system::wall_clock_ms()
    }

    fn random_u64(&self) -> u64 {
        system::random_u64()
    }

    async fn yield_if_needed(&self) {
        tokio::task::coop::consume_budget().await;
    }

    async fn yield_now(&self) {
        tokio::task::yield_now().await;
    }

    async fn listen(&self, address: SocketAddr) -> io::Result<TokioListener> {
        TokioListener::bind(address)
    }

    async fn connect(&self, address: SocketAddr) -> io::Result<TokioStream> {
        TokioStream::connect(address).await
    }
}
