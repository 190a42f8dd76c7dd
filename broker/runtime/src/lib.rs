//! The runtime seam: everything a shard or the control thread asks of its executor, in one narrow trait.
//!
//! Three implementations: glommio for shards, tokio for the control thread, and a seeded single-threaded one on
//! virtual time with an in-memory network, which runs the same code in tests. Beside them stand the mailbox,
//! the one way from thread to thread, and signals between tasks of one thread.
//!
//! Invariants: every task stays on the thread that spawned it; nothing here blocks that thread; time and
//! randomness come from the implementation alone, so that a simulated run repeats from its seed.
//! This crate never knows Kafka, disks or the broker.

pub mod glommio_runtime;
pub mod local;
pub mod mailbox;
mod panics;
pub mod runtime;
pub mod sim;
mod socket;
mod system;
pub mod tokio_runtime;

pub use runtime::{
    IpAddr, Ipv4Addr, Ipv6Addr, Monotonic, Queue, ReadHalf, Runtime, SocketAddr, TcpListener, TcpStream,
    WriteHalf,
};
pub use socket::check_can_listen;
