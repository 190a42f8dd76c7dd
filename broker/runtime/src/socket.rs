//! The listening socket of both runtimes on real hardware.

use std::io;

use socket2::{Domain, Protocol, Socket, Type};

use crate::runtime::SocketAddr;

/// Connections that may wait for `accept`; the kernel caps it at `net.core.somaxconn`.
const BACKLOG: i32 = 4096;

/// Whether an address can be listened on now; the socket is closed again.
///
/// # Errors
/// The system's: the address is in use, not of this machine, or a port below 1024 without the right to it.
pub fn check_can_listen(address: SocketAddr) -> io::Result<()> {
    listening_socket(address).map(drop)
}

/// A listening socket that shares its port with no other, and can be had right after a kill.
///
/// SO_REUSEADDR takes over connections of a dead process in TIME_WAIT; without SO_REUSEPORT a port on which
/// somebody listens is refused.
pub(crate) fn listening_socket(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        // `::` and `0.0.0.0` stay two addresses, whatever net.ipv6.bindv6only says.
        socket.set_only_v6(true)?;
    }
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket)
}
