//! Opening a connection: TCP, then TLS and SASL if they are asked for.

use super::scram::Scram;
use super::security::{Mechanism, Sasl, Security};
use super::{CLIENT_ID, ClientError};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;
use strandline_wire::ApiKey;
use strandline_wire::frame::{begin_frame, end_frame};
use strandline_wire::messages::{
    SaslAuthenticateRequest, SaslAuthenticateResponse, SaslHandshakeRequest, SaslHandshakeResponse,
};
use strandline_wire::protocol::{Decodable, Encodable, StrBytes};

/// The versions of the SASL messages: the first with frames of their own.
const SASL_VERSION: i16 = 1;

/// One question at a time needs one number.
const CORRELATION_ID: i32 = 0;

/// The answers of a SASL conversation are small.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// Bytes of randomness in a nonce.
const NONCE_WORDS: usize = 3;

/// Opens connections, all in one way.
#[derive(Clone, Debug, Default)]
pub struct Dialer {
    security: Arc<Security>,
}

/// A connection, encrypted or not.
#[derive(Debug)]
pub enum Stream {
    /// As it is.
    Plain(TcpStream),
    /// Through TLS.
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Dialer {
    /// Connections secured so.
    pub fn new(security: Security) -> Self {
        Self {
            security: Arc::new(security),
        }
    }

    /// Connects to `address`; every step may take `timeout`. The stream blocks, and keeps the time limit.
    pub fn open(&self, address: &str, timeout: Duration) -> Result<Stream, ClientError> {
        let failed = |source| ClientError::Io {
            address: address.to_owned(),
            source,
        };
        let socket = tcp(address, timeout)?;
        socket.set_read_timeout(Some(timeout)).map_err(failed)?;
        socket.set_write_timeout(Some(timeout)).map_err(failed)?;
        let mut stream = match &self.security.tls {
            None => Stream::Plain(socket),
            Some(config) => {
                let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
                let host = host.trim_matches(['[', ']']).to_owned();
                let name = ServerName::try_from(host).map_err(|error| failed(io::Error::other(error)))?;
                let session = ClientConnection::new(Arc::clone(config), name)
                    .map_err(|error| failed(io::Error::other(error)))?;
                let mut stream = StreamOwned::new(session, socket);
                while stream.conn.is_handshaking() {
                    stream.conn.complete_io(&mut stream.sock).map_err(failed)?;
                }
                Stream::Tls(Box::new(stream))
            }
        };
        if let Some(sasl) = &self.security.sasl {
            authenticate(&mut stream, sasl, address)?;
        }
        Ok(stream)
    }
}

fn tcp(address: &str, timeout: Duration) -> Result<TcpStream, ClientError> {
    let failed = |source| ClientError::Io {
        address: address.to_owned(),
        source,
    };
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for candidate in address.to_socket_addrs().map_err(failed)? {
        match TcpStream::connect_timeout(&candidate, timeout) {
            Ok(stream) => {
                stream.set_nodelay(true).map_err(failed)?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(failed(last))
}

fn authenticate(stream: &mut Stream, sasl: &Sasl, address: &str) -> Result<(), ClientError> {
    let name = StrBytes::from_static_str(sasl.mechanism.name());
    let request = SaslHandshakeRequest::default().with_mechanism(name);
    let answer: SaslHandshakeResponse = exchange(stream, ApiKey::SaslHandshake, &request, address)?;
    super::blocking::refuse(
        &format!("SASL mechanism {}", sasl.mechanism.name()),
        answer.error_code,
        None,
    )?;
    let broken = |what: String| ClientError::NotReady(format!("{address}: SASL: {what}"));
    let mut say = |message: &[u8]| -> Result<String, ClientError> {
        let request = SaslAuthenticateRequest::default().with_auth_bytes(Bytes::copy_from_slice(message));
        let answer: SaslAuthenticateResponse = exchange(stream, ApiKey::SaslAuthenticate, &request, address)?;
        super::blocking::refuse(
            &format!("authentication of {}", sasl.username),
            answer.error_code,
            answer.error_message.map(|message| message.to_string()),
        )?;
        String::from_utf8(answer.auth_bytes.to_vec()).map_err(|error| broken(error.to_string()))
    };
    if sasl.mechanism == Mechanism::Plain {
        return say(format!("\0{}\0{}", sasl.username, sasl.password).as_bytes()).map(drop);
    }
    let nonce: String = (0..NONCE_WORDS)
        .map(|_| format!("{:016x}", fastrand::u64(..)))
        .collect();
    let (scram, first) = Scram::begin(sasl.mechanism, &sasl.username, &sasl.password, &nonce);
    let (answer, proof) = scram.answer(&say(first.as_bytes())?).map_err(broken)?;
    if say(answer.as_bytes())?.split(',').any(|part| part == proof) {
        Ok(())
    } else {
        Err(broken("the server does not know the password either".to_owned()))
    }
}

/// One question and its answer, before the connection is anybody's.
fn exchange<Q: Encodable, A: Decodable>(
    stream: &mut Stream,
    api: ApiKey,
    request: &Q,
    address: &str,
) -> Result<A, ClientError> {
    // By hand: the codec of our own broker knows the versions that it serves, and it serves none of these.
    let broken = |error: &dyn std::fmt::Display| ClientError::NotReady(format!("{address}: SASL: {error}"));
    let mut out = BytesMut::new();
    let start = begin_frame(&mut out);
    out.put_i16(api.key());
    out.put_i16(SASL_VERSION);
    out.put_i32(CORRELATION_ID);
    out.put_i16(CLIENT_ID.len() as i16);
    out.put_slice(CLIENT_ID.as_bytes());
    request
        .encode(&mut out, SASL_VERSION)
        .map_err(|error| broken(&error))?;
    end_frame(&mut out, start, 0)?;
    let mut round_trip = || -> io::Result<Bytes> {
        stream.write_all(&out)?;
        stream.flush()?;
        let mut size = [0; 4];
        stream.read_exact(&mut size)?;
        let size = usize::try_from(i32::from_be_bytes(size)).unwrap_or(usize::MAX);
        if size > ANSWER_BYTES_MAX {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the answer is no Kafka frame",
            ));
        }
        let mut frame = vec![0; size];
        stream.read_exact(&mut frame)?;
        Ok(Bytes::from(frame))
    };
    let mut frame = round_trip().map_err(|source| ClientError::Io {
        address: address.to_owned(),
        source,
    })?;
    if frame.len() < 4 || frame.get_i32() != CORRELATION_ID {
        return Err(broken(&"an answer to another request"));
    }
    A::decode(&mut frame, SASL_VERSION).map_err(|error| broken(&error))
}

impl Stream {
    /// From now on nothing waits.
    pub fn set_nonblocking(&self) -> io::Result<()> {
        match self {
            Self::Plain(socket) => socket.set_nonblocking(true),
            Self::Tls(stream) => stream.sock.set_nonblocking(true),
        }
    }

    /// Whether encrypted bytes wait for the kernel to take them.
    pub fn wants_write(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Tls(stream) => stream.conn.wants_write(),
        }
    }

    /// Whether one read may leave bytes behind that no readiness tells of.
    pub fn buffers(&self) -> bool {
        matches!(self, Self::Tls(_))
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.read(buffer),
            Self::Tls(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.write(bytes),
            Self::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(socket) => socket.flush(),
            Self::Tls(stream) => stream.flush(),
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Plain(socket) => socket.as_fd(),
            Self::Tls(stream) => stream.sock.as_fd(),
        }
    }
}
