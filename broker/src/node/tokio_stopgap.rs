//! Stop-gap until the runtime crate has its tokio runtime.
#![allow(missing_docs)]
use std::io;
use std::time::{Duration, Instant, SystemTime};

use strandline_runtime::glommio_runtime::{GlommioListener, GlommioStream};
use strandline_runtime::{Monotonic, Queue, Runtime, SocketAddr};

#[derive(Clone)]
pub struct TokioRuntime(Instant);

impl TokioRuntime {
    pub fn new() -> Self {
        Self(Instant::now())
    }
}

impl Runtime for TokioRuntime {
    type Listener = GlommioListener;
    type Stream = GlommioStream;
    fn spawn(&self, _: Queue, task: impl Future<Output = ()> + 'static) {
        tokio::task::spawn_local(task);
    }
    fn sleep(&self, span: Duration) -> impl Future<Output = ()> + 'static {
        tokio::time::sleep(span)
    }
    fn now(&self) -> Monotonic {
        Monotonic(self.0.elapsed().as_nanos() as u64)
    }
    fn wall_clock_ms(&self) -> i64 {
        SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .map_or(0, |d| d.as_millis() as i64)
    }
    fn random_u64(&self) -> u64 {
        0
    }
    async fn yield_if_needed(&self) {}
    async fn yield_now(&self) {
        tokio::task::yield_now().await;
    }
    async fn listen(&self, _: SocketAddr) -> io::Result<GlommioListener> {
        Err(io::ErrorKind::Unsupported.into())
    }
    async fn connect(&self, _: SocketAddr) -> io::Result<GlommioStream> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
