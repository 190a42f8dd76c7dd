//! The executor of a shard: a thread, pinned where asked, and its three task queues.

use std::future::Future;
use std::io;
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use glommio::{GlommioError, Latency, LocalExecutor, LocalExecutorBuilder, Placement, PoolPlacement, Shares};

use super::GlommioRuntime;
use super::host::{self, HostError};
use super::pulse::with_backstop;

/// How long an executor may take until its first task runs.
const BEGIN_MAX: Duration = Duration::from_millis(500);
/// How many executors are made for a shard before the last one is waited for.
const EXECUTORS_MAX: usize = 10;

/// Shares of the processor that each task queue gets when all are busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueShares {
    /// Of [`crate::Queue::Latency`].
    pub latency: usize,
    /// Of [`crate::Queue::WriteBack`].
    pub write_back: usize,
    /// Of [`crate::Queue::Background`].
    pub background: usize,
}

impl Default for QueueShares {
    fn default() -> Self {
        Self {
            latency: 1000,
            write_back: 250,
            background: 50,
        }
    }
}

/// How a shard's executor is set up. Nothing is left to glommio's defaults, which cost 50-100 ms of latency.
#[derive(Clone, Debug)]
pub struct ShardExecutorOptions {
    /// The thread's name.
    pub name: String,
    /// The processor it is pinned to; `None` leaves it to the kernel, and then nothing spins.
    pub cpu: Option<usize>,
    /// How long to look for work before sleeping. Zero where cores are shared.
    pub spin: Duration,
    /// How long a task queue may run before I/O and the other queues get their turn.
    pub preempt_timer: Duration,
    /// Entries of each of the three rings.
    pub ring_depth: usize,
    /// Memory registered with the rings for file I/O, in bytes; more is taken from the heap. It counts three
    /// times against memlock, once a ring; when that is too small, the kernel copies page tables instead.
    pub io_memory_bytes: usize,
    /// Shares of the task queues.
    pub shares: QueueShares,
}

impl Default for ShardExecutorOptions {
    fn default() -> Self {
        Self {
            name: String::from("shard"),
            cpu: None,
            spin: Duration::ZERO,
            preempt_timer: Duration::from_micros(500),
            ring_depth: 256,
            io_memory_bytes: 1 << 20,
            shares: QueueShares::default(),
        }
    }
}

/// A shard's executor could not start, or died.
#[derive(Debug, thiserror::Error)]
pub enum ExecutorError {
    /// The machine refuses io_uring or memory; the text names the remedy.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The processor to pin to is not there.
    #[error("processor {cpu} cannot be pinned to: {cause}")]
    Cpu {
        /// The processor asked for.
        cpu: usize,
        /// What glommio says.
        cause: String,
    },
    /// No thread.
    #[error("no thread for the shard: {0}")]
    Thread(io::Error),
    /// The executor could not be made for another reason.
    #[error("the executor cannot be made: {0}")]
    Setup(String),
    /// The shard panicked; the message of the panic.
    #[error("the shard panicked: {0}")]
    Panicked(String),
}

/// A running shard.
#[derive(Debug)]
pub struct ShardHandle<T>(thread::JoinHandle<Option<T>>);

impl<T> ShardHandle<T> {
    /// Waits for the shard's end.
    ///
    /// # Errors
    /// [`ExecutorError::Panicked`]: a panic of any of its tasks ends the shard and comes out here.
    pub fn join(self) -> Result<T, ExecutorError> {
        match self.0.join() {
            Ok(output) => Ok(output.expect("a shard whose executor was not made gave no handle")),
            Err(panic) => {
                let text = panic
                    .downcast_ref::<&str>()
                    .map(|text| (*text).to_owned())
                    .or_else(|| panic.downcast_ref::<String>().cloned());
                Err(ExecutorError::Panicked(
                    text.unwrap_or_else(|| String::from("no message")),
                ))
            }
        }
    }

    /// Whether the shard has ended.
    pub fn is_finished(&self) -> bool {
        self.0.is_finished()
    }
}

/// Starts a thread with an executor of its own, and on it the future that `make_main` makes, in the latency queue.
///
/// Returns once the executor stands and runs tasks, so that a machine that refuses one is known before anything else is
/// started. When the future ends, all tasks still running are dropped, then the executor ends; so finish I/O
/// first: whether a write dropped in flight landed is unknown.
///
/// # Errors
/// [`ExecutorError`], never a panic, for everything the machine may refuse.
pub fn spawn_shard<M, F>(
    options: ShardExecutorOptions,
    make_main: M,
) -> Result<ShardHandle<F::Output>, ExecutorError>
where
    M: FnOnce(GlommioRuntime) -> F + Send + 'static,
    F: Future + 'static,
    F::Output: Send + 'static,
{
    // glommio prints or panics on some refusals: ask first.
    host::check_host()?;
    let main = Arc::new(Mutex::new(Some(make_main)));
    let (begun, begins) = mpsc::channel();
    let mut threads = Vec::new();
    loop {
        let (ready, wait) = mpsc::sync_channel(1);
        threads.push(thread_of(
            &options,
            main.clone(),
            ready,
            (threads.len(), begun.clone()),
        )?);
        match wait.recv() {
            Ok(Ok(())) => {}
            Ok(Err(error)) if threads.len() == 1 => return Err(error),
            Err(mpsc::RecvError) => return Err(ExecutorError::Setup(String::from("its thread died"))),
            // The ones before may begin all the same.
            Ok(Err(_)) => {}
        }
        // No timer is set before the first task runs (see `pulse`): an executor that fell asleep on it sleeps for ever. Then
        // another one does its work; should it wake up after all, it finds nothing to do and ends.
        let begun = if threads.len() < EXECUTORS_MAX {
            begins.recv_timeout(BEGIN_MAX).ok()
        } else {
            begins.recv().ok()
        };
        if let Some(number) = begun {
            return Ok(ShardHandle(threads.swap_remove(number)));
        }
    }
}

/// A thread with an executor that takes the shard's main task, unless another one has it; it says so on `begun`, with its number.
fn thread_of<M, F>(
    options: &ShardExecutorOptions,
    main: Arc<Mutex<Option<M>>>,
    ready: mpsc::SyncSender<Result<(), ExecutorError>>,
    (number, begun): (usize, mpsc::Sender<usize>),
) -> Result<thread::JoinHandle<Option<F::Output>>, ExecutorError>
where
    M: FnOnce(GlommioRuntime) -> F + Send + 'static,
    F: Future + 'static,
    F::Output: Send + 'static,
{
    let options = options.clone();
    thread::Builder::new()
        .name(options.name.clone())
        .spawn(move || {
            let executor = match make(&options) {
                Ok(executor) => executor,
                Err(error) => {
                    // The receiver waits until it has this.
                    let _ = ready.send(Err(error));
                    return None;
                }
            };
            let _ = ready.send(Ok(()));
            let outcome = executor.run(with_backstop(async move {
                let make_main = main.lock().unwrap_or_else(PoisonError::into_inner).take()?;
                // Whoever made this thread waits for a beginning.
                let _ = begun.send(number);
                let runtime = GlommioRuntime::with_queues(options.shares);
                let main = runtime.clone();
                Some(runtime.run_main(async move { make_main(main).await }).await)
            }));
            // The executor first: a panic that unwinds through it aborts the process without a word.
            drop(executor);
            outcome.map(|outcome| outcome.unwrap_or_else(|panic| resume_unwind(panic)))
        })
        .map_err(ExecutorError::Thread)
}

fn make(options: &ShardExecutorOptions) -> Result<LocalExecutor, ExecutorError> {
    let placement = options.cpu.map_or(Placement::Unbound, Placement::Fixed);
    LocalExecutorBuilder::new(placement)
        .name(&options.name)
        .spin_before_park(options.spin)
        .preempt_timer(options.preempt_timer)
        .ring_depth(options.ring_depth)
        .io_memory(options.io_memory_bytes)
        // Blocking calls must not take the processor the shard is pinned to.
        .blocking_thread_pool_placement(PoolPlacement::Unbound(1))
        .make()
        .map_err(|error| match error {
            GlommioError::IoError(cause) => host::refusal(cause).into(),
            GlommioError::BuilderError(cause) => match options.cpu {
                Some(cpu) => ExecutorError::Cpu {
                    cpu,
                    cause: cause.to_string(),
                },
                None => ExecutorError::Setup(cause.to_string()),
            },
            other => ExecutorError::Setup(other.to_string()),
        })
}

impl GlommioRuntime {
    fn with_queues(shares: QueueShares) -> Self {
        let executor = glommio::executor();
        // Not `Latency::Matters`: beyond a preemption timer of its own, which all queues have here, it makes
        // every wake from another thread interrupt a shard that is awake, and that is when the sleep on ready
        // tasks happens (see `pulse`). Such a wake is seen within the preemption timer anyway.
        let queue =
            |shares, name| executor.create_task_queue(Shares::Static(shares), Latency::NotImportant, name);
        Self::new(
            queue(shares.latency, "latency"),
            queue(shares.write_back, "write-back"),
            queue(shares.background, "background"),
        )
    }
}
