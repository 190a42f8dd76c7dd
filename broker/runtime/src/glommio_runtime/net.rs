//! Listener and connection of a shard, on glommio's poll and direct socket calls.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, RawFd};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use futures_util::{AsyncRead, AsyncWrite};
use glommio::GlommioError;
use glommio::net::AcceptedTcpStream;

use super::socket;
use crate::runtime::{ReadHalf, TcpListener, TcpStream, WriteHalf};
use crate::socket::listening_socket;

/// Pieces handed to one system call at most.
const PIECES_MAX: usize = 64;

type Accepting = Pin<Box<dyn Future<Output = Result<AcceptedTcpStream, GlommioError<()>>>>>;

/// A listening socket of a shard.
pub struct GlommioListener {
    listener: Rc<glommio::net::TcpListener>,
    local_address: SocketAddr,
    /// The accept that is in the ring. It outlives a dropped [`TcpListener::accept`], as the kernel may have
    /// given it a connection already, which would be lost with it.
    accepting: RefCell<Option<Accepting>>,
}

impl GlommioListener {
    pub(super) fn bind(address: SocketAddr) -> io::Result<Self> {
        let listener = socket::into_glommio_listener(listening_socket(address)?);
        let local_address = listener.local_addr()?;
        Ok(Self {
            listener: Rc::new(listener),
            local_address,
            accepting: RefCell::default(),
        })
    }

    fn poll_accept(&self, context: &mut Context<'_>) -> Poll<Result<AcceptedTcpStream, GlommioError<()>>> {
        let mut accepting = self.accepting.borrow_mut();
        let future = accepting.get_or_insert_with(|| {
            let listener = self.listener.clone();
            Box::pin(async move { listener.shared_accept().await })
        });
        let accepted = ready!(future.as_mut().poll(context));
        *accepting = None;
        Poll::Ready(accepted)
    }
}

impl TcpListener for GlommioListener {
    type Stream = GlommioStream;

    fn local_address(&self) -> SocketAddr {
        self.local_address
    }

    async fn accept(&self) -> io::Result<(GlommioStream, SocketAddr)> {
        loop {
            let stream = poll_fn(|context| self.poll_accept(context))
                .await?
                .bind_to_executor();
            // A peer that reset before it was accepted fails here; the listener is none the worse.
            if let (Ok(peer), Ok(stream)) = (stream.peer_addr(), GlommioStream::new(stream)) {
                return Ok((stream, peer));
            }
        }
    }
}

/// The socket both halves share. Borrows of `stream` last one poll, never across an await.
struct Connection {
    stream: RefCell<glommio::net::TcpStream>,
    descriptor: RawFd,
}

impl Connection {
    fn poll_read(&self, context: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.stream.borrow_mut()).poll_read(context, buffer)
    }

    /// Sends what goes at once; when nothing does, sends of the first piece as soon as the socket takes some.
    fn poll_send(&self, context: &mut Context<'_>, pieces: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        match socket::send_now(self.descriptor, pieces) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                Pin::new(&mut *self.stream.borrow_mut()).poll_write(context, &pieces[0])
            }
            done => Poll::Ready(done),
        }
    }
}

/// A connected socket of a shard.
pub struct GlommioStream(Rc<Connection>);

impl GlommioStream {
    fn new(stream: glommio::net::TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        let descriptor = stream.as_raw_fd();
        Ok(Self(Rc::new(Connection {
            stream: RefCell::new(stream),
            descriptor,
        })))
    }

    pub(super) async fn connect(address: SocketAddr) -> io::Result<Self> {
        Self::new(glommio::net::TcpStream::connect(address).await?)
    }
}

impl TcpStream for GlommioStream {
    type ReadHalf = GlommioReadHalf;
    type WriteHalf = GlommioWriteHalf;

    fn split(self) -> (GlommioReadHalf, GlommioWriteHalf) {
        (GlommioReadHalf(self.0.clone()), GlommioWriteHalf(self.0))
    }
}

/// The reading side of a [`GlommioStream`].
pub struct GlommioReadHalf(Rc<Connection>);

impl ReadHalf for GlommioReadHalf {
    async fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        poll_fn(|context| self.0.poll_read(context, buffer)).await
    }
}

/// The writing side of a [`GlommioStream`].
pub struct GlommioWriteHalf(Rc<Connection>);

impl WriteHalf for GlommioWriteHalf {
    async fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_all_vectored(&[bytes]).await
    }

    async fn write_all_vectored(&mut self, pieces: &[&[u8]]) -> io::Result<()> {
        let mut rest = Rest { pieces, offset: 0 };
        loop {
            let mut window = [IoSlice::new(&[]); PIECES_MAX];
            let count = rest.fill(&mut window);
            if count == 0 {
                return Ok(());
            }
            let sent = poll_fn(|context| self.0.poll_send(context, &window[..count])).await?;
            if sent == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            rest.advance(sent);
            // A peer that reads as fast as we write never makes this task wait.
            glommio::yield_if_needed().await;
        }
    }

    fn shutdown(&mut self) {
        socket::shut_down(self.0.descriptor);
    }
}

/// What is still to be sent: the pieces, less `offset` bytes of the first.
struct Rest<'a> {
    pieces: &'a [&'a [u8]],
    offset: usize,
}

impl<'a> Rest<'a> {
    /// Puts the next pieces that hold bytes into `window`; how many.
    fn fill(&self, window: &mut [IoSlice<'a>]) -> usize {
        let mut count = 0;
        for (index, piece) in self.pieces.iter().enumerate() {
            let piece = if index == 0 { &piece[self.offset..] } else { piece };
            if piece.is_empty() {
                continue;
            }
            if count == window.len() {
                break;
            }
            window[count] = IoSlice::new(piece);
            count += 1;
        }
        count
    }

    fn advance(&mut self, mut sent: usize) {
        while let Some((first, others)) = self.pieces.split_first() {
            let left = first.len() - self.offset;
            if sent < left {
                self.offset += sent;
                return;
            }
            sent -= left;
            self.pieces = others;
            self.offset = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_skips_empty_pieces_and_resumes_inside_one() {
        let pieces: [&[u8]; 4] = [b"ab", b"", b"cdef", b"g"];
        let mut rest = Rest {
            pieces: &pieces,
            offset: 0,
        };
        let mut window = [IoSlice::new(&[]); 2];
        assert_eq!(rest.fill(&mut window), 2);
        rest.advance(3);
        assert_eq!(rest.fill(&mut window), 2);
        assert_eq!(&*window[0], b"def");
        rest.advance(4);
        assert_eq!(rest.fill(&mut window), 0);
    }
}
