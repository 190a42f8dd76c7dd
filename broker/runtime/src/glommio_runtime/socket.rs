//! Sockets handed to glommio by descriptor, and the calls on them that glommio does not offer.
#![allow(unsafe_code)]

use std::io::{self, IoSlice};
use std::net::Shutdown;
use std::os::fd::{BorrowedFd, FromRawFd, IntoRawFd, RawFd};

use socket2::{SockRef, Socket};

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
