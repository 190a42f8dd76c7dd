//! The network inside a simulation: byte streams between hosts, with latency, segments of any size, a bounded
//! window, and resets. State only; what a task sees of it is in `socket`.

use crate::runtime::{IpAddr, Ipv4Addr, SocketAddr};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::random::SeededRandom;
use super::scheduler::{HostId, Occurrence, Scheduler};

/// Bytes on the way to a reader and unread by it, at most.
const WINDOW_BYTES: usize = 64 * 1024;
/// Connections that wait to be accepted, at most.
const BACKLOG: usize = 1024;
/// The first port that is given out for port 0 and to connecting sockets.
const EPHEMERAL_PORT_FIRST: u16 = 32_768;

/// Which of its two ends a connection is looked at from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// The end that connected.
    Client = 0,
    /// The end that was accepted.
    Server = 1,
}

impl Side {
    fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

pub(super) type ConnectionId = u64;

/// What arrives at one end of a connection.
#[derive(Debug)]
pub(super) struct Delivery {
    pub(super) connection: ConnectionId,
    pub(super) to: Side,
    pub(super) what: Arrival,
}

#[derive(Debug)]
pub(super) enum Arrival {
    /// A client asks the server's host for a connection.
    Connect,
    /// The client is told that there is one.
    Connected,
    /// The client is told that nobody listens.
    Refused,
    /// Bytes, in order.
    Bytes(Vec<u8>),
    /// The other end will send no more.
    End,
    /// The other end is gone, or never knew of the bytes sent to it.
    Reset,
    /// The other end has read: there is room again.
    Room,
}

struct End {
    host: HostId,
    address: SocketAddr,
    inbox: VecDeque<u8>,
    in_flight: usize,
    /// When the last thing sent to this end arrives; the next comes after.
    arrives_last: u64,
    established: bool,
    ended: bool,
    closed: bool,
    failure: Option<io::ErrorKind>,
    reader: Option<Waker>,
    writer: Option<Waker>,
    /// Handles that tasks hold of it.
    handles: u32,
}

impl End {
    fn new(host: HostId, address: SocketAddr) -> Self {
        Self {
            host,
            address,
            inbox: VecDeque::new(),
            in_flight: 0,
            arrives_last: 0,
            established: false,
            ended: false,
            closed: false,
            failure: None,
            reader: None,
            writer: None,
            handles: 0,
        }
    }

    fn wake(&mut self) {
        for waker in [self.reader.take(), self.writer.take()].into_iter().flatten() {
            waker.wake();
        }
    }
}

struct Listener {
    loopback_only: bool,
    backlog: VecDeque<ConnectionId>,
    waker: Option<Waker>,
}

/// All sockets of a simulation.
pub(super) struct Network {
    latency: (Duration, Duration),
    random: SeededRandom,
    connections: BTreeMap<ConnectionId, [End; 2]>,
    next_connection: ConnectionId,
    listeners: BTreeMap<(HostId, u16), Listener>,
    next_port: u16,
}

/// The address of a host.
pub(super) fn address_of(host: HostId) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 0, (host / 250) as u8, (host % 250 + 1) as u8))
}

fn host_of(address: IpAddr, asking: HostId) -> Option<HostId> {
    match address {
        _ if address.is_loopback() || address.is_unspecified() => Some(asking),
        IpAddr::V4(v4) => match v4.octets() {
            [10, 0, high, low] if low > 0 => Some(usize::from(high) * 250 + usize::from(low) - 1),
            _ => None,
        },
        IpAddr::V6(_) => None,
    }
}

impl Network {
    pub(super) fn new(random: SeededRandom, latency: (Duration, Duration)) -> Self {
        Self {
            latency,
            random,
            connections: BTreeMap::new(),
            next_connection: 0,
            listeners: BTreeMap::new(),
            next_port: EPHEMERAL_PORT_FIRST,
        }
    }

    fn free_port(&mut self) -> u16 {
        self.next_port = self.next_port.checked_add(1).unwrap_or(EPHEMERAL_PORT_FIRST);
        self.next_port
    }

    pub(super) fn listen(&mut self, host: HostId, mut address: SocketAddr) -> io::Result<SocketAddr> {
        if host_of(address.ip(), host) != Some(host) {
            return Err(io::ErrorKind::AddrNotAvailable.into());
        }
        if address.port() == 0 {
            while address.port() == 0 || self.listeners.contains_key(&(host, address.port())) {
                address.set_port(self.free_port());
            }
        }
        let key = (host, address.port());
        if self.listeners.contains_key(&key) {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        let loopback_only = address.ip().is_loopback();
        self.listeners.insert(
            key,
            Listener {
                loopback_only,
                backlog: VecDeque::new(),
                waker: None,
            },
        );
        Ok(address)
    }

    pub(super) fn stop_listening(&mut self, scheduler: &mut Scheduler, host: HostId, port: u16) {
        let Some(listener) = self.listeners.remove(&(host, port)) else {
            return;
        };
        for connection in listener.backlog {
            if let Some(server) = self.end(connection, Side::Server) {
                server.closed = true;
            }
            self.send(scheduler, connection, Side::Client, Arrival::Reset);
        }
    }

    pub(super) fn poll_accept(
        &mut self,
        context: &Context<'_>,
        host: HostId,
        port: u16,
    ) -> Poll<io::Result<(ConnectionId, SocketAddr)>> {
        let Some(listener) = self.listeners.get_mut(&(host, port)) else {
            return Poll::Ready(Err(io::ErrorKind::NotConnected.into()));
        };
        while let Some(connection) = listener.backlog.pop_front() {
            if let Some(ends) = self.connections.get_mut(&connection) {
                let server = &mut ends[Side::Server as usize];
                server.established = true;
                return Poll::Ready(Ok((connection, ends[Side::Client as usize].address)));
            }
        }
        listener.waker = Some(context.waker().clone());
        Poll::Pending
    }

    pub(super) fn connect(
        &mut self,
        scheduler: &mut Scheduler,
        host: HostId,
        address: SocketAddr,
    ) -> io::Result<ConnectionId> {
        let target = host_of(address.ip(), host).ok_or(io::ErrorKind::HostUnreachable)?;
        let own = if address.ip().is_loopback() {
            address.ip()
        } else {
            address_of(host)
        };
        let client = End::new(host, SocketAddr::new(own, self.free_port()));
        let id = self.next_connection;
        self.next_connection += 1;
        self.connections.insert(id, [client, End::new(target, address)]);
        self.send(scheduler, id, Side::Server, Arrival::Connect);
        Ok(id)
    }

    pub(super) fn poll_connected(&mut self, context: &Context<'_>, id: ConnectionId) -> Poll<io::Result<()>> {
        let Some(end) = self.end(id, Side::Client) else {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        };
        match (end.failure, end.established) {
            (Some(kind), _) => Poll::Ready(Err(kind.into())),
            (None, true) => Poll::Ready(Ok(())),
            (None, false) => {
                end.writer = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }

    fn end(&mut self, id: ConnectionId, side: Side) -> Option<&mut End> {
        self.connections.get_mut(&id).map(|ends| &mut ends[side as usize])
    }

    /// Sends something to an end, to arrive after all sent to it before.
    fn send(&mut self, scheduler: &mut Scheduler, connection: ConnectionId, to: Side, what: Arrival) {
        let (low, high) = self.latency;
        let span = self.random.between(low.as_nanos() as u64, high.as_nanos() as u64);
        let Some(end) = self.end(connection, to) else {
            return;
        };
        let instant = (scheduler.now().0 + span).max(end.arrives_last + 1);
        let planned = Occurrence::Network(Delivery { connection, to, what });
        end.arrives_last = scheduler.plan_at(instant, planned);
    }

    /// Makes what has arrived visible to its end.
    pub(super) fn deliver(&mut self, scheduler: &mut Scheduler, delivery: Delivery) {
        let Delivery { connection, to, what } = delivery;
        if matches!(what, Arrival::Connect) {
            return self.arrive_at_listener(scheduler, connection);
        }
        let Some(end) = self.end(connection, to) else {
            return;
        };
        match what {
            Arrival::Connect => {}
            Arrival::Connected => end.established = true,
            Arrival::Refused => end.failure = Some(io::ErrorKind::ConnectionRefused),
            Arrival::Bytes(bytes) => {
                end.in_flight -= bytes.len();
                if end.closed {
                    return self.send(scheduler, connection, to.other(), Arrival::Reset);
                }
                end.inbox.extend(bytes);
            }
            Arrival::End => end.ended = true,
            Arrival::Reset => {
                end.failure = Some(io::ErrorKind::ConnectionReset);
                end.inbox.clear();
            }
            Arrival::Room => {}
        }
        end.wake();
    }

    fn arrive_at_listener(&mut self, scheduler: &mut Scheduler, connection: ConnectionId) {
        let Some([client, server]) = self.connections.get(&connection) else {
            return;
        };
        let (from, host, port) = (client.host, server.host, server.address.port());
        let answer = match self.listeners.get_mut(&(host, port)) {
            Some(listener)
                if listener.backlog.len() < BACKLOG && (from == host || !listener.loopback_only) =>
            {
                listener.backlog.push_back(connection);
                listener.waker.take().into_iter().for_each(Waker::wake);
                Arrival::Connected
            }
            _ => {
                self.end(connection, Side::Server)
                    .into_iter()
                    .for_each(|server| server.closed = true);
                Arrival::Refused
            }
        };
        self.send(scheduler, connection, Side::Client, answer);
    }

    pub(super) fn poll_read(
        &mut self,
        scheduler: &mut Scheduler,
        context: &Context<'_>,
        id: ConnectionId,
        side: Side,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let Some(end) = self.end(id, side) else {
            return Poll::Ready(Ok(0));
        };
        if let Some(kind) = end.failure {
            return Poll::Ready(Err(kind.into()));
        }
        let count = buffer.len().min(end.inbox.len());
        if count > 0 {
            for (place, byte) in buffer.iter_mut().zip(end.inbox.drain(..count)) {
                *place = byte;
            }
            let waits = self
                .end(id, side.other())
                .is_some_and(|other| other.writer.is_some());
            if waits {
                self.send(scheduler, id, side.other(), Arrival::Room);
            }
            return Poll::Ready(Ok(count));
        }
        if end.ended || end.closed || buffer.is_empty() {
            return Poll::Ready(Ok(0));
        }
        end.reader = Some(context.waker().clone());
        Poll::Pending
    }

    pub(super) fn poll_write(
        &mut self,
        scheduler: &mut Scheduler,
        context: &Context<'_>,
        id: ConnectionId,
        side: Side,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let cut = if self.random.one_in(4) {
            1 + self.random.below(bytes.len() as u64)
        } else {
            u64::MAX
        };
        let broken = Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        let Some(ends) = self.connections.get_mut(&id) else {
            return broken;
        };
        let other = &ends[side.other() as usize];
        let room = WINDOW_BYTES.saturating_sub(other.in_flight + other.inbox.len());
        let end = &mut ends[side as usize];
        match end.failure {
            Some(kind) => return Poll::Ready(Err(kind.into())),
            None if end.closed => return broken,
            None if room == 0 => {
                end.writer = Some(context.waker().clone());
                return Poll::Pending;
            }
            None => {}
        }
        let count = bytes.len().min(room).min(cut as usize);
        ends[side.other() as usize].in_flight += count;
        self.send(
            scheduler,
            id,
            side.other(),
            Arrival::Bytes(bytes[..count].to_vec()),
        );
        Poll::Ready(Ok(count))
    }

    /// Ends both directions of one end.
    pub(super) fn shut_down(&mut self, scheduler: &mut Scheduler, id: ConnectionId, side: Side) {
        let Some(end) = self.end(id, side) else { return };
        if !std::mem::replace(&mut end.closed, true) {
            end.wake();
            self.send(scheduler, id, side.other(), Arrival::End);
        }
    }

    pub(super) fn add_handle(&mut self, id: ConnectionId, side: Side) {
        if let Some(end) = self.end(id, side) {
            end.handles += 1;
        }
    }

    /// Closes an end with its last handle, and forgets a connection without any.
    pub(super) fn drop_handle(&mut self, scheduler: &mut Scheduler, id: ConnectionId, side: Side) {
        let Some(end) = self.end(id, side) else { return };
        end.handles -= 1;
        if end.handles == 0 {
            self.shut_down(scheduler, id, side);
            let forgotten = |end: &End| end.closed && end.handles == 0;
            if self
                .connections
                .get(&id)
                .is_some_and(|ends| ends.iter().all(forgotten))
            {
                self.connections.remove(&id);
            }
        }
    }

    /// Resets every connection of a host and stops its listeners, as the end of its process does.
    pub(super) fn kill(&mut self, scheduler: &mut Scheduler, host: HostId) {
        self.listeners.retain(|(owner, _), _| *owner != host);
        let ids: Vec<ConnectionId> = self.connections.keys().copied().collect();
        for id in ids {
            for side in [Side::Client, Side::Server] {
                let Some(end) = self.end(id, side) else { continue };
                if end.host == host && !std::mem::replace(&mut end.closed, true) {
                    end.failure = Some(io::ErrorKind::ConnectionReset);
                    self.send(scheduler, id, side.other(), Arrival::Reset);
                }
            }
        }
    }
}
