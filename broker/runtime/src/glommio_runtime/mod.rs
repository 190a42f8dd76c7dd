//! The runtime of a shard: glommio, one executor a thread.
//!
//! This module and its children are the only ones of the crate that name glommio.

mod executor;
mod host;
mod net;
pub(crate) mod socket;

use std::future::Future;
use std::io;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use glommio::TaskQueueHandle;

pub use executor::{ExecutorError, QueueShares, ShardExecutorOptions, ShardHandle, spawn_shard};
pub use host::{HostError, MEMLOCK_BYTES_MIN, check_host, memlock_limit_bytes};
pub use net::{GlommioListener, GlommioReadHalf, GlommioStream, GlommioWriteHalf};

use crate::runtime::{Monotonic, Queue, Runtime};
use crate::system;

/// The runtime of the shard that runs on this thread; made by [`spawn_shard`].
#[derive(Clone)]
pub struct GlommioRuntime {
    latency: TaskQueueHandle,
    write_back: TaskQueueHandle,
    background: TaskQueueHandle,
    /// The handles mean nothing on another thread.
    this_thread: PhantomData<Rc<()>>,
}

impl GlommioRuntime {
    fn new(latency: TaskQueueHandle, write_back: TaskQueueHandle, background: TaskQueueHandle) -> Self {
        Self { latency, write_back, background, this_thread: PhantomData }
    }

    fn spawn_into<T: 'static>(&self, queue: Queue, task: impl Future<Output = T> + 'static) -> glommio::Task<T> {
        let handle = match queue {
            Queue::Latency => self.latency,
            Queue::WriteBack => self.write_back,
            Queue::Background => self.background,
        };
        glommio::spawn_local_into(task, handle).expect("the queues live as long as the executor")
    }

    async fn run_in_latency_queue<T: 'static>(&self, task: impl Future<Output = T> + 'static) -> T {
        self.spawn_into(Queue::Latency, task).await
    }
}

impl Runtime for GlommioRuntime {
    type Listener = GlommioListener;
    type Stream = GlommioStream;

    fn spawn(&self, queue: Queue, task: impl Future<Output = ()> + 'static) {
        self.spawn_into(queue, task).detach();
    }

    fn sleep(&self, span: Duration) -> impl Future<Output = ()> + 'static {
        glommio::timer::sleep(span)
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
        glommio::yield_if_needed().await;
    }

    async fn yield_now(&self) {
        glommio::executor().yield_task_queue_now().await;
    }

    async fn listen(&self, address: SocketAddr) -> io::Result<GlommioListener> {
        GlommioListener::bind(address)
    }

    async fn connect(&self, address: SocketAddr) -> io::Result<GlommioStream> {
        GlommioStream::connect(address).await
    }
}
