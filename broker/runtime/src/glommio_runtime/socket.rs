//! TCP sockets as the broker wants them, and their hand-over to glommio.
#![allow(unsafe_code)]

use std::io::{self, IoSlice};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::{BorrowedFd, FromRawFd, IntoRawFd, RawFd};

use socket2::{Domain, Protocol, SockRef, Socket, Type};

/// Connections that may wait for `accept`; the kernel caps it at `net.core.somaxconn`.
const BACKLOG: i32 = 4096;

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

/// Hands a listening socket to glommio.
pub(super) fn into_glommio_listener(socket: Socket) -> glommio::net::TcpListener {
    // SAFETY: the descriptor is a listening TCP socket, and `into_raw_fd` gave up its ownership.
    unsafe { glommio::net::TcpListener::from_raw_fd(socket.into_raw_fd()) }
}

/// Sends what the socket's buffer takes of several pieces, without waiting.
///
/// `descriptor` must be a socket that stays open during the call.
pub(super) fn send_now(descriptor: RawFd, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
    // SAFETY: the caller keeps the socket open, and the borrow ends with this function.
    let descriptor = unsafe { BorrowedFd::borrow_raw(descriptor) };
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    loop {
        match SockRef::from(&descriptor).send_vectored_with_flags(pieces, flags) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

/// Ends both directions; a socket that has ended already is no error.
pub(super) fn shut_down(descriptor: RawFd) {
    // SAFETY: the caller keeps the socket open, and the borrow ends with this function.
    let descriptor = unsafe { BorrowedFd::borrow_raw(descriptor) };
    // The one failure is ENOTCONN: the peer was faster.
    let _ = SockRef::from(&descriptor).shutdown(Shutdown::Both);
}
