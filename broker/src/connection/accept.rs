//! Taking connections, under the caps of the node.

use std::cell::Cell;
use std::fmt::Display;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::{Either, select};
use strandline_runtime::runtime::IpAddr;
use strandline_runtime::{Queue, Runtime, SocketAddr, TcpListener, TcpStream};
use strandline_storage::Reservation;
use strandline_storage::disk::Disk;

use super::{Connection, reader, writer};
use crate::config::broker::CONNECTION_BYTES;
use crate::node::connections::{ConnectionPlace, ConnectionRefused};
use crate::shard::{Shard, add};

/// After a failed accept (no descriptors left, usually) others get time to close.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// Accepts connections of one listener until the shard stops.
pub(crate) async fn accept<R: Runtime, D: Disk>(
    shard: Rc<Shard<R, D>>,
    listener: R::Listener,
    name: Rc<str>,
) {
    while let Some((stream, peer)) = next(&shard, &listener, &name).await {
        admit(&shard, stream, peer, name.clone());
    }
}

/// The next connection of a listener; `None` once the shard stops. A failure is logged under `name`, and tried again.
pub(crate) async fn next<R: Runtime, D: Disk>(
    shard: &Shard<R, D>,
    listener: &R::Listener,
    name: &dyn Display,
) -> Option<(R::Stream, SocketAddr)> {
    loop {
        shard.runtime.yield_if_needed().await;
        let accept = pin!(listener.accept());
        let stop = pin!(shard.stop_requested());
        let error = match select(accept, stop).await {
            Either::Left((Ok(accepted), _)) => return Some(accepted),
            Either::Left((Err(error), _)) => error,
            Either::Right(_) => return None,
        };
        let reason = format!("accept failed: {error}");
        shard.refusals.log_close(shard.runtime.now(), name, &reason);
        shard.runtime.sleep(ACCEPT_RETRY).await;
    }
}

fn admit<R: Runtime, D: Disk>(
    shard: &Rc<Shard<R, D>>,
    stream: R::Stream,
    peer: SocketAddr,
    listener: Rc<str>,
) {
    if shard.is_stopping() {
        // Accepted in the poll in which the stop came: nobody would tell it to end.
        return;
    }
    let place = match take_place(shard, peer.ip()) {
        Ok(place) => place,
        Err(refused) => {
            let reason = match refused {
                ConnectionRefused::Node => "max.connections is reached",
                ConnectionRefused::Address => "the address has max.connections.per.ip",
            };
            add(&shard.metrics.connections_refused, 1);
            shard.refusals.log_close(shard.runtime.now(), &peer, reason);
            return;
        }
    };
    let id = shard.next_connection_id();
    let connection = Rc::new(Connection::new(id, peer, listener, shard.runtime.now()));
    shard.connections.borrow_mut().insert(id, connection.clone());
    let (reading, writing) = stream.split();
    let ended = Rc::new(End {
        shard: shard.clone(),
        id,
        _place: place,
        _memory: shard.store.budget().claim(CONNECTION_BYTES),
        halves: Cell::new(2),
    });
    let other = ended.clone();
    let (for_reader, for_writer) = (connection.clone(), connection);
    shard.runtime.spawn(Queue::Latency, {
        let shard = shard.clone();
        async move {
            reader::run(shard, for_reader, reading).await;
            ended.half_ended();
        }
    });
    shard.runtime.spawn(Queue::Latency, {
        let shard = shard.clone();
        async move {
            writer::run(shard, for_writer, writing).await;
            other.half_ended();
        }
    });
}

fn take_place<R: Runtime, D: Disk>(
    shard: &Shard<R, D>,
    address: IpAddr,
) -> Result<ConnectionPlace, ConnectionRefused> {
    let settings = shard.settings();
    let of_address = if settings.max_connections_per_ip_overrides.is_empty() {
        settings.max_connections_per_ip
    } else {
        let named = settings
            .max_connections_per_ip_overrides
            .get(&address.to_string());
        named.copied().unwrap_or(settings.max_connections_per_ip)
    };
    shard
        .connection_limits
        .admit(address, settings.max_connections, of_address)
}

/// Takes the connection off the shard's books once both tasks have ended.
struct End<R: Runtime, D: Disk> {
    shard: Rc<Shard<R, D>>,
    id: u64,
    _place: ConnectionPlace,
    _memory: Reservation,
    halves: Cell<u8>,
}

impl<R: Runtime, D: Disk> End<R, D> {
    fn half_ended(&self) {
        self.halves.set(self.halves.get() - 1);
        if self.halves.get() == 0 {
            self.shard.connections.borrow_mut().remove(&self.id);
            self.shard.connection_ended.notify_all();
        }
    }
}
