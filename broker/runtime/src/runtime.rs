//! The trait and the types that cross it.

use std::future::Future;
use std::io;
use std::time::Duration;

pub use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// A reading of the runtime's monotonic clock, in nanoseconds from an arbitrary start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Monotonic(pub u64);

impl Monotonic {
    /// The time from `earlier` to `self`; zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// In whole milliseconds, as the state machines count time.
    pub fn millis(self) -> i64 {
        (self.0 / 1_000_000) as i64
    }
}

impl std::ops::Add<Duration> for Monotonic {
    type Output = Self;

    fn add(self, span: Duration) -> Self {
        Self(
            self.0
                .saturating_add(span.as_nanos().min(u128::from(u64::MAX)) as u64),
        )
    }
}

/// The task queues of a shard, in falling order of shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Queue {
    /// Connections, handlers and the journal: the path of an acknowledgement.
    Latency,
    /// Write-back of dirty frames to segments and checkpoints.
    WriteBack,
    /// Retention, compaction, scans: work that nobody waits for.
    Background,
}

/// What an executor offers to the code that runs on it. Cheap to clone; one value a thread.
pub trait Runtime: Clone + 'static {
    /// A listening socket.
    type Listener: TcpListener<Stream = Self::Stream>;
    /// A connected socket.
    type Stream: TcpStream;

    /// Starts a task on this thread; it runs until it ends or the executor does.
    fn spawn(&self, queue: Queue, task: impl Future<Output = ()> + 'static);

    /// Completes when `span` has passed. Not for the path of a request: timers cost system calls.
    fn sleep(&self, span: Duration) -> impl Future<Output = ()> + 'static;

    /// The monotonic clock.
    fn now(&self) -> Monotonic;

    /// The wall clock, in milliseconds since the Unix epoch.
    fn wall_clock_ms(&self) -> i64;

    /// A random number, from the operating system or from the simulation's seed.
    fn random_u64(&self) -> u64;

    /// Lets other tasks run if this one has used up its turn.
    fn yield_if_needed(&self) -> impl Future<Output = ()>;

    /// Lets every other ready task run once.
    fn yield_now(&self) -> impl Future<Output = ()>;

    /// Binds and listens; refuses an address in use (no port sharing). Port 0 takes a free one.
    fn listen(&self, address: SocketAddr) -> impl Future<Output = io::Result<Self::Listener>>;

    /// Connects to `address`.
    fn connect(&self, address: SocketAddr) -> impl Future<Output = io::Result<Self::Stream>>;
}

/// A listening socket.
pub trait TcpListener: 'static {
    /// What `accept` gives.
    type Stream: TcpStream;

    /// The bound address, with the real port.
    fn local_address(&self) -> SocketAddr;

    /// The next connection and its peer's address. Cancel-safe.
    fn accept(&self) -> impl Future<Output = io::Result<(Self::Stream, SocketAddr)>>;
}

/// A connected socket, without Nagle's delay.
pub trait TcpStream: 'static {
    /// The reading side.
    type ReadHalf: ReadHalf;
    /// The writing side.
    type WriteHalf: WriteHalf;

    /// Two halves, to be driven by two tasks of this thread.
    fn split(self) -> (Self::ReadHalf, Self::WriteHalf);
}

/// The reading side of a connection.
pub trait ReadHalf: 'static {
    /// Reads what is there, at most `buffer.len()` bytes; 0 at the end of the stream. Cancel-safe.
    fn read(&mut self, buffer: &mut [u8]) -> impl Future<Output = io::Result<usize>>;
}

/// The writing side of a connection. Dropping both halves closes the socket.
pub trait WriteHalf: 'static {
    /// Writes all of `bytes`.
    fn write_all(&mut self, bytes: &[u8]) -> impl Future<Output = io::Result<()>>;

    /// Writes all of several pieces, in order, with as few system calls as the implementation can.
    fn write_all_vectored(&mut self, pieces: &[&[u8]]) -> impl Future<Output = io::Result<()>>;

    /// Closes both directions at once: a reader of the other half sees the end of the stream.
    fn shutdown(&mut self);
}
