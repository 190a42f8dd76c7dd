//! Listener and connection of the control thread.

use std::io::{self, IoSlice};
use std::net::{Shutdown, SocketAddr};

use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use crate::runtime::{ReadHalf, TcpListener, TcpStream, WriteHalf};
use crate::socket::listening_socket;

/// A listening socket of the control thread.
pub struct TokioListener {
    listener: tokio::net::TcpListener,
    local_address: SocketAddr,
}

impl TokioListener {
    pub(super) fn bind(address: SocketAddr) -> io::Result<Self> {
        let listener = std::net::TcpListener::from(listening_socket(address)?);
        listener.set_nonblocking(true)?;
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let local_address = listener.local_addr()?;
        Ok(Self {
            listener,
            local_address,
        })
    }

    /// The socket itself, for servers that are written against tokio (HTTP on the control thread).
    pub fn into_tokio(self) -> tokio::net::TcpListener {
        self.listener
    }
}

impl TcpListener for TokioListener {
    type Stream = TokioStream;

    fn local_address(&self) -> SocketAddr {
        self.local_address
    }

    async fn accept(&self) -> io::Result<(TokioStream, SocketAddr)> {
        loop {
            let (stream, peer) = self.listener.accept().await?;
            // A peer that reset before it was accepted fails here; the listener is none the worse.
            if let Ok(stream) = TokioStream::new(stream) {
                return Ok((stream, peer));
            }
        }
    }
}

/// A connected socket of the control thread.
pub struct TokioStream(tokio::net::TcpStream);

impl TokioStream {
    fn new(stream: tokio::net::TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        Ok(Self(stream))
    }

    pub(super) async fn connect(address: SocketAddr) -> io::Result<Self> {
        Self::new(tokio::net::TcpStream::connect(address).await?)
    }
}

impl TcpStream for TokioStream {
    type ReadHalf = TokioReadHalf;
    type WriteHalf = TokioWriteHalf;

    fn split(self) -> (TokioReadHalf, TokioWriteHalf) {
        let (reader, writer) = self.0.into_split();
        (TokioReadHalf(reader), TokioWriteHalf(writer))
    }
}

/// The reading side of a [`TokioStream`].
pub struct TokioReadHalf(OwnedReadHalf);

impl ReadHalf for TokioReadHalf {
    async fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer).await
    }
}

/// The writing side of a [`TokioStream`].
pub struct TokioWriteHalf(OwnedWriteHalf);

impl WriteHalf for TokioWriteHalf {
    async fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes).await
    }

    async fn write_all_vectored(&mut self, pieces: &[&[u8]]) -> io::Result<()> {
        let mut slices: Vec<IoSlice<'_>> = pieces
            .iter()
            .filter(|piece| !piece.is_empty())
            .map(|piece| IoSlice::new(piece))
            .collect();
        let mut rest = &mut slices[..];
        while !rest.is_empty() {
            match self.0.write_vectored(rest).await? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                written => IoSlice::advance_slices(&mut rest, written),
            }
        }
        Ok(())
    }

    fn shutdown(&mut self) {
        // The one failure is ENOTCONN: the peer was faster.
        let _ = SockRef::from(self.0.as_ref()).shutdown(Shutdown::Both);
    }
}
