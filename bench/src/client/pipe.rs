//! A connection that never blocks: requests go in as far as the kernel takes them, whole answers come out.

use super::ClientError;
use super::dial::{Dialer, Stream};
use bytes::{Buf, BytesMut};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

/// Room for one read: large enough that a full window of produce answers, or a good part of a fetch, takes one call.
const READ_BYTES: usize = 256 * 1024;

/// A larger answer is not from a Kafka broker that was asked for a few MiB.
const FRAME_BYTES_MAX: usize = 128 * 1024 * 1024;

/// A non-blocking connection with its unsent and its unparsed bytes.
#[derive(Debug)]
pub struct Pipe {
    stream: Stream,
    outgoing: BytesMut,
    incoming: Vec<u8>,
    /// The unparsed bytes are `incoming[parsed..filled]`.
    parsed: usize,
    filled: usize,
}

impl Pipe {
    /// Connects to `address`, which is the one thing here that blocks: for `timeout` at most.
    pub fn open(dialer: &Dialer, address: &str, timeout: Duration) -> Result<Self, ClientError> {
        let stream = dialer.open(address, timeout)?;
        stream.set_nonblocking().map_err(|source| ClientError::Io {
            address: address.to_owned(),
            source,
        })?;
        Ok(Self {
            stream,
            outgoing: BytesMut::new(),
            incoming: vec![0; READ_BYTES],
            parsed: 0,
            filled: 0,
        })
    }

    /// Where the next request is appended, size prefix included.
    pub fn outgoing(&mut self) -> &mut BytesMut {
        &mut self.outgoing
    }

    /// Whether bytes wait for the kernel to take them.
    pub fn is_sending(&self) -> bool {
        !self.outgoing.is_empty() || self.stream.wants_write()
    }

    /// Hands as much to the kernel as it takes now.
    pub fn send(&mut self) -> io::Result<()> {
        while !self.outgoing.is_empty() {
            match self.stream.write(&self.outgoing) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(sent) => self.outgoing.advance(sent),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        match self.stream.flush() {
            Err(error) if !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                Err(error)
            }
            _ => Ok(()),
        }
    }

    /// Takes what the kernel has now: one buffer of it, or, where decrypted bytes could stay behind that nothing tells of, all.
    pub fn receive(&mut self) -> io::Result<()> {
        if self.parsed > 0 {
            self.incoming.copy_within(self.parsed..self.filled, 0);
            self.filled -= self.parsed;
            self.parsed = 0;
        }
        loop {
            match self.stream.read(&mut self.incoming[self.filled..]) {
                Ok(0) => {
                    return Err(io::Error::new(
                        ErrorKind::UnexpectedEof,
                        "the broker closed the connection",
                    ));
                }
                Ok(read) => {
                    self.filled += read;
                    if !self.stream.buffers() {
                        return Ok(());
                    }
                    if self.filled == self.incoming.len() {
                        self.incoming.resize(2 * self.filled, 0);
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The next whole answer, its size prefix taken off.
    pub fn next_frame(&mut self) -> io::Result<Option<&[u8]>> {
        let unparsed = &self.incoming[self.parsed..self.filled];
        let Some((prefix, rest)) = unparsed.split_first_chunk::<4>() else {
            return Ok(None);
        };
        let size = usize::try_from(i32::from_be_bytes(*prefix)).unwrap_or(usize::MAX);
        if size > FRAME_BYTES_MAX {
            return Err(io::Error::new(
                ErrorKind::InvalidData,
                "the answer is no Kafka frame",
            ));
        }
        if rest.len() < size {
            let whole = self.parsed + 4 + size;
            if whole > self.incoming.len() {
                self.incoming.resize(whole, 0);
            }
            return Ok(None);
        }
        let start = self.parsed + 4;
        self.parsed = start + size;
        Ok(Some(&self.incoming[start..start + size]))
    }
}

impl AsFd for Pipe {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, poll};
    use std::net::{TcpListener, TcpStream};

    fn connected() -> (Pipe, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let pipe = Pipe::open(&Dialer::default(), &address, Duration::from_secs(10)).unwrap();
        (pipe, listener.accept().unwrap().0)
    }

    /// Receives until a whole frame is there.
    fn frame(pipe: &mut Pipe) -> io::Result<Vec<u8>> {
        loop {
            if let Some(frame) = pipe.next_frame()? {
                return Ok(frame.to_vec());
            }
            poll(&mut [PollFd::new(&*pipe, PollFlags::IN)], None)?;
            pipe.receive()?;
        }
    }

    fn framed(body: &[u8]) -> Vec<u8> {
        [&(body.len() as i32).to_be_bytes()[..], body].concat()
    }

    #[test]
    fn frames_come_out_whole_however_they_went_in() {
        let (mut pipe, mut broker) = connected();
        let large: Vec<u8> = (0..3 * READ_BYTES).map(|at| at as u8).collect();
        let sent = large.clone();
        let writer = std::thread::spawn(move || {
            broker
                .write_all(&[framed(b"one"), framed(b""), framed(b"three")].concat())
                .unwrap();
            for byte in framed(b"byte by byte") {
                broker.write_all(&[byte]).unwrap();
            }
            broker.write_all(&framed(&sent)).unwrap();
            broker.write_all(&framed(b"last")).unwrap();
        });
        let expected: [&[u8]; 6] = [b"one", b"", b"three", b"byte by byte", &large, b"last"];
        for body in expected {
            assert_eq!(frame(&mut pipe).unwrap(), body);
        }
        writer.join().unwrap();
        assert_eq!(frame(&mut pipe).unwrap_err().kind(), ErrorKind::UnexpectedEof);
    }

    #[test]
    fn impossible_sizes_are_refused_before_any_allocation() {
        for size in [-1_i32, i32::MAX] {
            let (mut pipe, mut broker) = connected();
            broker.write_all(&size.to_be_bytes()).unwrap();
            assert_eq!(frame(&mut pipe).unwrap_err().kind(), ErrorKind::InvalidData);
        }
    }
}
