//! Sockets as the code of a simulated host holds them.

use crate::runtime::SocketAddr;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;

use super::World;
use super::network::{ConnectionId, Side};
use super::scheduler::HostId;
use crate::runtime::{ReadHalf, TcpListener, TcpStream, WriteHalf};

/// A simulated listening socket.
pub struct SimListener {
    world: Rc<World>,
    host: HostId,
    incarnation: u64,
    address: SocketAddr,
}

impl SimListener {
    pub(super) fn new(
        world: &Rc<World>,
        host: HostId,
        incarnation: u64,
        address: SocketAddr,
    ) -> io::Result<Self> {
        let address = world.network.borrow_mut().listen(host, address)?;
        Ok(Self {
            world: world.clone(),
            host,
            incarnation,
            address,
        })
    }
}

impl TcpListener for SimListener {
    type Stream = SimStream;

    fn local_address(&self) -> SocketAddr {
        self.address
    }

    async fn accept(&self) -> io::Result<(SimStream, SocketAddr)> {
        let (connection, peer) = poll_fn(|context| {
            self.world
                .network
                .borrow_mut()
                .poll_accept(context, self.host, self.address.port())
        })
        .await?;
        Ok((
            SimStream(Handle::new(&self.world, connection, Side::Server)),
            peer,
        ))
    }
}

impl Drop for SimListener {
    fn drop(&mut self) {
        // A listener that outlived its host must not stop that of the host's next life.
        if self.world.incarnation(self.host) == self.incarnation {
            let mut scheduler = self.world.scheduler.borrow_mut();
            self.world
                .network
                .borrow_mut()
                .stop_listening(&mut scheduler, self.host, self.address.port());
        }
    }
}

/// One of the references that keep an end of a connection open.
struct Handle {
    world: Rc<World>,
    connection: ConnectionId,
    side: Side,
}

impl Handle {
    fn new(world: &Rc<World>, connection: ConnectionId, side: Side) -> Self {
        world.network.borrow_mut().add_handle(connection, side);
        Self {
            world: world.clone(),
            connection,
            side,
        }
    }
}

impl Clone for Handle {
    fn clone(&self) -> Self {
        Self::new(&self.world, self.connection, self.side)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let mut scheduler = self.world.scheduler.borrow_mut();
        self.world
            .network
            .borrow_mut()
            .drop_handle(&mut scheduler, self.connection, self.side);
    }
}

/// A simulated connection.
pub struct SimStream(Handle);

impl SimStream {
    pub(super) async fn connect(world: Rc<World>, host: HostId, address: SocketAddr) -> io::Result<Self> {
        let connection = {
            let mut scheduler = world.scheduler.borrow_mut();
            world
                .network
                .borrow_mut()
                .connect(&mut scheduler, host, address)?
        };
        let stream = Self(Handle::new(&world, connection, Side::Client));
        poll_fn(|context| world.network.borrow_mut().poll_connected(context, connection)).await?;
        Ok(stream)
    }
}

impl TcpStream for SimStream {
    type ReadHalf = SimReadHalf;
    type WriteHalf = SimWriteHalf;

    fn split(self) -> (SimReadHalf, SimWriteHalf) {
        (SimReadHalf(self.0.clone()), SimWriteHalf(self.0))
    }
}

/// The reading side of a [`SimStream`].
pub struct SimReadHalf(Handle);

impl ReadHalf for SimReadHalf {
    async fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Handle {
            world,
            connection,
            side,
        } = &self.0;
        poll_fn(|context| {
            let mut scheduler = world.scheduler.borrow_mut();
            world
                .network
                .borrow_mut()
                .poll_read(&mut scheduler, context, *connection, *side, buffer)
        })
        .await
    }
}

/// The writing side of a [`SimStream`].
pub struct SimWriteHalf(Handle);

impl WriteHalf for SimWriteHalf {
    async fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Handle {
            world,
            connection,
            side,
        } = &self.0;
        let mut rest = bytes;
        while !rest.is_empty() {
            let written = poll_fn(|context| {
                let mut scheduler = world.scheduler.borrow_mut();
                world
                    .network
                    .borrow_mut()
                    .poll_write(&mut scheduler, context, *connection, *side, rest)
            })
            .await?;
            rest = &rest[written..];
        }
        Ok(())
    }

    async fn write_all_vectored(&mut self, pieces: &[&[u8]]) -> io::Result<()> {
        for piece in pieces {
            self.write_all(piece).await?;
        }
        Ok(())
    }

    fn shutdown(&mut self) {
        let Handle {
            world,
            connection,
            side,
        } = &self.0;
        let mut scheduler = world.scheduler.borrow_mut();
        world
            .network
            .borrow_mut()
            .shut_down(&mut scheduler, *connection, *side);
    }
}
