//! One blocking connection to one broker: requests out, answers in, in order.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use strandline_wire::protocol::{Message, Request};
use strandline_wire::{decode_response, encode_request};

use super::ClientError;
use super::versions::{ApiRanges, api_name};
use crate::client_config::{Address, ClientConfig};

/// How much is read at a time: a response's announced size is believed only as its bytes arrive.
const READ_CHUNK_BYTES: usize = 256 * 1024;

/// A connection that has agreed on versions with its broker. After an error it is of no further use.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    address: Address,
    client_id: String,
    request_timeout: Duration,
    response_max_bytes: usize,
    versions: ApiRanges,
    correlation_id: i32,
    outgoing: BytesMut,
}

/// A request whose answer is still to come.
#[derive(Debug)]
#[must_use = "an answer that nobody receives blocks all later ones"]
pub struct Sent {
    correlation_id: i32,
    version: i16,
}

impl Connection {
    /// Connects and asks for the broker's versions.
    pub fn open(address: &Address, config: &ClientConfig) -> Result<Self, ClientError> {
        let stream = connect(address, config.connect_timeout)?;
        // Requests are written whole: waiting to coalesce them only costs time.
        stream.set_nodelay(true).map_err(|source| ClientError::Io {
            address: address.clone(),
            source: source.into(),
        })?;
        let mut connection = Self {
            stream,
            address: address.clone(),
            client_id: config.client_id.clone(),
            request_timeout: config.request_timeout,
            response_max_bytes: config.response_max_bytes,
            versions: ApiRanges::default(),
            correlation_id: 0,
            outgoing: BytesMut::new(),
        };
        connection.versions = super::versions::negotiate(&mut connection)?;
        Ok(connection)
    }

    /// The broker's address.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// True when the broker serves the API in a version this client speaks.
    pub fn serves<R: Request>(&self) -> bool {
        self.versions
            .common(R::KEY, R::VERSIONS.min, R::VERSIONS.max)
            .is_some()
    }

    /// The highest version both sides speak, at most `highest`.
    pub fn version<R: Request>(&self, highest: i16) -> Result<i16, ClientError> {
        let highest = highest
            .min(R::VERSIONS.max)
            .min(<R::Response as Message>::VERSIONS.max);
        self.versions
            .common(R::KEY, R::VERSIONS.min, highest)
            .ok_or_else(|| ClientError::Unsupported {
                address: self.address.clone(),
                api: api_name(R::KEY),
                ours: format!("{} to {highest}", R::VERSIONS.min),
                theirs: self.versions.describe(R::KEY),
            })
    }

    /// Sends a request and waits for its answer.
    pub fn call<R: Request>(&mut self, version: i16, request: &R) -> Result<R::Response, ClientError> {
        let sent = self.send(version, request)?;
        self.receive::<R>(sent)
    }

    /// Sends a request; its answer comes after those of all requests sent before.
    pub fn send<R: Request>(&mut self, version: i16, request: &R) -> Result<Sent, ClientError> {
        self.correlation_id = self.correlation_id.wrapping_add(1) & i32::MAX;
        self.outgoing.clear();
        encode_request(
            &mut self.outgoing,
            R::KEY,
            version,
            self.correlation_id,
            Some(&self.client_id),
            request,
        )
        .map_err(|source| ClientError::Encode {
            api: api_name(R::KEY),
            source,
        })?;
        let deadline = Instant::now() + self.request_timeout;
        self.write_all(api_name(R::KEY), deadline)?;
        Ok(Sent {
            correlation_id: self.correlation_id,
            version,
        })
    }

    /// Waits for the answer to a request.
    pub fn receive<R: Request>(&mut self, sent: Sent) -> Result<R::Response, ClientError> {
        let frame = self.receive_frame(api_name(R::KEY))?;
        self.decode::<R>(sent, frame)
    }

    /// Waits for the next answer, as bytes.
    pub(super) fn receive_frame(&mut self, api: &'static str) -> Result<Bytes, ClientError> {
        let deadline = Instant::now() + self.request_timeout;
        let mut prefix = BytesMut::zeroed(4);
        self.read_exact(api, &mut prefix, deadline)?;
        if prefix[..] == *b"HTTP" {
            return Err(ClientError::Http {
                address: self.address.clone(),
            });
        }
        let size = i32::from_be_bytes([prefix[0], prefix[1], prefix[2], prefix[3]]);
        let length = usize::try_from(size)
            .ok()
            .filter(|&length| length <= self.response_max_bytes)
            .ok_or_else(|| ClientError::ResponseTooLarge {
                address: self.address.clone(),
                size,
                limit: self.response_max_bytes,
            })?;
        let mut frame = BytesMut::new();
        while frame.len() < length {
            let start = frame.len();
            frame.resize(length.min(start + READ_CHUNK_BYTES), 0);
            self.read_exact(api, &mut frame[start..], deadline)?;
        }
        Ok(frame.freeze())
    }

    /// Decodes an answer and checks that it belongs to the request.
    pub(super) fn decode<R: Request>(&self, sent: Sent, frame: Bytes) -> Result<R::Response, ClientError> {
        let malformed = |reason: String| ClientError::Malformed {
            address: self.address.clone(),
            api: api_name(R::KEY),
            reason,
        };
        let (correlation_id, response) = decode_response::<R::Response>(R::KEY, sent.version, frame)
            .map_err(|error| malformed(error.to_string()))?;
        if correlation_id != sent.correlation_id {
            return Err(malformed(format!(
                "it answers request {correlation_id}, not {}",
                sent.correlation_id
            )));
        }
        Ok(response)
    }

    fn read_exact(
        &mut self,
        api: &'static str,
        mut buffer: &mut [u8],
        deadline: Instant,
    ) -> Result<(), ClientError> {
        while !buffer.is_empty() {
            let remaining = self.remaining(api, deadline)?;
            let read = self
                .stream
                .set_read_timeout(Some(remaining))
                .and_then(|()| self.stream.read(buffer));
            match read {
                Ok(0) => {
                    return Err(ClientError::Closed {
                        address: self.address.clone(),
                        api,
                    });
                }
                Ok(count) => buffer = &mut buffer[count..],
                Err(error) => self.tolerate(error)?,
            }
        }
        Ok(())
    }

    fn write_all(&mut self, api: &'static str, deadline: Instant) -> Result<(), ClientError> {
        let mut written = 0;
        while written < self.outgoing.len() {
            let remaining = self.remaining(api, deadline)?;
            let result = self
                .stream
                .set_write_timeout(Some(remaining))
                .and_then(|()| self.stream.write(&self.outgoing[written..]));
            match result {
                Ok(0) => {
                    return Err(ClientError::Closed {
                        address: self.address.clone(),
                        api,
                    });
                }
                Ok(count) => written += count,
                Err(error) => self.tolerate(error)?,
            }
        }
        Ok(())
    }

    /// The time left; never zero, which the socket would take for "no limit".
    fn remaining(&self, api: &'static str, deadline: Instant) -> Result<Duration, ClientError> {
        match deadline.checked_duration_since(Instant::now()) {
            Some(remaining) if !remaining.is_zero() => Ok(remaining),
            _ => Err(ClientError::TimedOut {
                address: self.address.clone(),
                api,
                limit: self.request_timeout,
            }),
        }
    }

    /// Interruptions and expired socket timeouts go back to the loop, which looks at the deadline.
    fn tolerate(&self, error: io::Error) -> Result<(), ClientError> {
        match error.kind() {
            io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Ok(()),
            _ => Err(ClientError::Io {
                address: self.address.clone(),
                source: error.into(),
            }),
        }
    }
}

/// Tries every address of the name, as a name may have an IPv6 address where nobody listens.
fn connect(address: &Address, timeout: Duration) -> Result<TcpStream, ClientError> {
    let resolved = (address.host.as_str(), address.port)
        .to_socket_addrs()
        .map_err(|source| ClientError::Resolve {
            address: address.clone(),
            source: source.into(),
        })?;
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for socket_address in resolved {
        match TcpStream::connect_timeout(&socket_address, timeout) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(ClientError::Connect {
        address: address.clone(),
        source: last.into(),
    })
}
