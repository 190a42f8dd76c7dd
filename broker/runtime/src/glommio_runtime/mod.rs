//! The runtime of a shard: glommio, one executor a thread.
//!
//! This module and its children are the only ones of the crate that name glommio.

mod executor;
mod host;
mod net;
mod pulse;
mod socket;
mod tasks;

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use glommio::TaskQueueHandle;

pub use executor::{ExecutorError, QueueShares, ShardExecutorOptions, ShardHandle, spawn_shard};
pub use host::{HostError, MEMLOCK_BYTES_MIN, check_host, memlock_limit_bytes};
pub use net::{GlommioListener, GlommioReadHalf, GlommioStream, GlommioWriteHalf};

use crate::panics::Panic;
use crate::runtime::{Monotonic, Queue, Runtime};
use crate::system;
use tasks::Tasks;

/// How long an ending executor lets the kernel work on cancelled operations.
const CANCELLATION: Duration = Duration::from_millis(1);

/// The runtime of the shard that runs on this thread; made by [`spawn_shard`].
#[derive(Clone)]
pub struct GlommioRuntime {
    latency: TaskQueueHandle,
    write_back: TaskQueueHandle,
    background: TaskQueueHandle,
    /// An `Rc` inside, as the handles mean nothing on another thread.
    tasks: Tasks,
}

impl GlommioRuntime {
    fn new(latency: TaskQueueHandle, write_back: TaskQueueHandle, background: TaskQueueHandle) -> Self {
        Self {
            latency,
            write_back,
            background,
            tasks: Tasks::default(),
        }
    }

    fn spawn_into<T: 'static>(
        &self,
        queue: Queue,
        task: impl Future<Output = T> + 'static,
    ) -> glommio::Task<T> {
        let handle = match queue {
            Queue::Latency => self.latency,
            Queue::WriteBack => self.write_back,
            Queue::Background => self.background,
        };
        glommio::spawn_local_into(task, handle).expect("the queues live as long as the executor")
    }

    /// Runs the shard's main task until it ends or any task panics, then ends all others while the executor
    /// still stands.
    async fn run_main<T: 'static>(&self, main: impl Future<Output = T> + 'static) -> Result<T, Panic> {
        let pulses = pulse::pulses(&self.tasks).map(|pulse| self.spawn_into(Queue::Latency, pulse));
        let tasks = self.tasks.clone();
        let main = self.spawn_into(Queue::Latency, async move { tasks.panics().run(main).await });
        let outcome = main.await;
        self.tasks.end_all();
        while !self.tasks.all_ended() {
            self.yield_now().await;
        }
        // One more turn of the ring: it sends the cancellations of what the tasks waited for. Until then the
        // kernel keeps their sockets, listening ones too.
        self.sleep(CANCELLATION).await;
        for pulse in pulses {
            pulse.cancel().await;
        }
        outcome
    }
}

impl Runtime for GlommioRuntime {
    type Listener = GlommioListener;
    type Stream = GlommioStream;

    fn spawn(&self, queue: Queue, task: impl Future<Output = ()> + 'static) {
        self.spawn_into(queue, self.tasks.supervise(task)).detach();
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
