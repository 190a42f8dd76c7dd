//! The reference broker: the least that a Kafka broker must do between a produce request and its acknowledgement.
//!
//! Plain threads, one a connection; the same framing and the same codec as the real one; no checks of batches, no replicas, nothing
//! that could be read back (unless `retain_bytes` keeps the newest records in memory). With a journal it is the honest floor of a
//! durable acknowledgement on a machine; without one it shows what the load generator and the network can do.

mod answers;
mod connection;
mod journal;
mod pause;
mod topics;

pub use journal::{Journal, JournalOptions};
pub use pause::Pause;

use answers::Node;
use pause::Gate;
use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use topics::Topics;

/// What to start.
#[derive(Clone, Debug)]
pub struct NullBrokerOptions {
    /// Where to listen; port 0 takes a free one.
    pub address: SocketAddr,
    /// The address to tell clients, when they come through something else.
    pub advertised: Option<SocketAddr>,
    /// How many brokers to look like, each with a port of its own (consecutive unless 0).
    pub brokers: u16,
    /// The journal that acknowledgements wait for; `None` acknowledges at once.
    pub journal: Option<JournalOptions>,
    /// How many bytes of a partition's newest records to keep for consumers; 0 serves no Fetch at all.
    pub retain_bytes: usize,
    /// A stall to inject; `None` never stalls.
    pub pause: Option<Pause>,
}

/// A running reference broker; dropping it stops it.
#[derive(Debug)]
pub struct NullBroker {
    addresses: Vec<SocketAddr>,
    shared: Arc<Shared>,
    acceptors: Vec<JoinHandle<()>>,
}

/// What all connections share.
#[derive(Debug)]
struct Shared {
    topics: Topics,
    journal: Option<Journal>,
    nodes: Vec<Node>,
    gate: Gate,
    stopping: AtomicBool,
    /// The open connections, to be shut down at the end.
    connections: Mutex<Vec<Arc<TcpStream>>>,
}

impl NullBroker {
    /// Listens, and answers from now on.
    pub fn start(options: &NullBrokerOptions) -> io::Result<Self> {
        let mut listeners = Vec::new();
        for index in 0..options.brokers.max(1) {
            let mut address = options.address;
            if address.port() != 0 {
                address.set_port(address.port() + index);
            }
            listeners.push(TcpListener::bind(address)?);
        }
        let addresses = listeners
            .iter()
            .map(TcpListener::local_addr)
            .collect::<io::Result<Vec<_>>>()?;
        let nodes = addresses
            .iter()
            .zip(1..)
            .map(|(&address, id)| Node {
                id,
                address: options.advertised.unwrap_or(address),
            })
            .collect();
        let shared = Arc::new(Shared {
            topics: Topics::new(options.retain_bytes),
            journal: options.journal.as_ref().map(Journal::open).transpose()?,
            nodes,
            gate: Gate::new(options.pause),
            stopping: AtomicBool::new(false),
            connections: Mutex::new(Vec::new()),
        });
        let mut acceptors = Vec::new();
        for listener in listeners {
            let shared = Arc::clone(&shared);
            acceptors.push(
                std::thread::Builder::new()
                    .name("acceptor".to_owned())
                    .spawn(move || accept(&listener, &shared))?,
            );
        }
        Ok(Self {
            addresses,
            shared,
            acceptors,
        })
    }

    /// Where it listens.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Records produced so far.
    pub fn records(&self) -> u64 {
        self.shared.gate.records()
    }

    /// The line by which whoever started this process learns the addresses, as our broker prints it.
    pub fn ready_line(&self) -> String {
        let addresses: Vec<String> = self.addresses.iter().map(SocketAddr::to_string).collect();
        format!("ready: {}", addresses.join(" "))
    }
}

impl Drop for NullBroker {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        for address in &self.addresses {
            // Wakes the acceptor; when nothing answers it has ended already.
            let _ = TcpStream::connect(address);
        }
        for acceptor in self.acceptors.drain(..) {
            let _ = acceptor.join();
        }
        for stream in self
            .shared
            .connections
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .drain(..)
        {
            // Ends its thread's read; a connection that is gone needs no shutdown.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for stream in listener.incoming() {
        if shared.stopping.load(Ordering::SeqCst) {
            return;
        }
        let Ok(stream) = stream else { continue };
        let stream = Arc::new(stream);
        let served = Arc::clone(shared);
        {
            let mut connections = shared.connections.lock().unwrap_or_else(PoisonError::into_inner);
            // Those whose thread has ended are held by nobody else.
            connections.retain(|connection| Arc::strong_count(connection) > 1);
            connections.push(Arc::clone(&stream));
        }
        let thread = std::thread::Builder::new().name("connection".to_owned());
        if let Err(error) = thread.spawn(move || connection::serve(&stream, &served)) {
            eprintln!("null-broker: no thread for a connection: {error}");
        }
    }
}
