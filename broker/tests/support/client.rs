//! A blocking connection to a broker.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::{ApiKey, RequestHeader, ResponseHeader};
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, Request, StrBytes};

/// No answer takes this long; a test that waits longer has failed.
pub const ANSWER_MAX: Duration = Duration::from_secs(60);

pub struct Client {
    pub stream: TcpStream,
    next_correlation_id: i32,
}

impl Client {
    pub fn connect(address: SocketAddr) -> Self {
        Self::try_connect(address).unwrap_or_else(|error| panic!("connect {address}: {error}"))
    }

    /// Connects, to one that may be away.
    pub fn try_connect(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(ANSWER_MAX))?;
        Ok(Self {
            stream,
            next_correlation_id: 1,
        })
    }

    /// Sends a request and waits for its answer.
    pub fn call<Q: Request>(&mut self, version: i16, request: &Q) -> Q::Response {
        self.try_call(version, request)
            .unwrap_or_else(|error| panic!("no answer: {error}"))
    }

    pub fn try_call<Q: Request>(&mut self, version: i16, request: &Q) -> io::Result<Q::Response> {
        let sent = self.send(version, request)?;
        let (received, answer) = self.receive::<Q>(version)?;
        assert_eq!(received, sent, "correlation id");
        Ok(answer)
    }

    /// Sends a request; its correlation id.
    pub fn send<Q: Request>(&mut self, version: i16, request: &Q) -> io::Result<i32> {
        let correlation_id = self.next_correlation_id;
        self.next_correlation_id += 1;
        let frame = frame(version, correlation_id, request);
        self.stream.write_all(&frame)?;
        Ok(correlation_id)
    }

    /// The next answer, which must be to a `Q` of this version.
    pub fn receive<Q: Request>(&mut self, version: i16) -> io::Result<(i32, Q::Response)> {
        let mut frame = Bytes::from(self.receive_frame()?);
        let header = ResponseHeader::decode(&mut frame, Q::Response::header_version(version)).unwrap();
        let answer = Q::Response::decode(&mut frame, codec_version(Q::KEY, version)).unwrap();
        assert!(frame.is_empty(), "{} bytes after the answer", frame.len());
        Ok((header.correlation_id, answer))
    }

    pub fn receive_frame(&mut self) -> io::Result<Vec<u8>> {
        let mut size = [0; 4];
        self.stream.read_exact(&mut size)?;
        let mut frame = vec![0; i32::from_be_bytes(size) as usize];
        self.stream.read_exact(&mut frame)?;
        Ok(frame)
    }

    /// Sends bytes as they are.
    pub fn send_raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Waits until the broker closes the connection; panics if it answers instead.
    pub fn expect_close(&mut self) {
        let mut byte = [0];
        loop {
            match self.stream.read(&mut byte) {
                Ok(0) => return,
                Ok(_) => panic!("the broker answered where it should close"),
                Err(error) => match error.kind() {
                    io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => return,
                    // A test that was stopped for a moment goes on.
                    io::ErrorKind::Interrupted => {}
                    _ => panic!("the broker did not close: {error}"),
                },
            }
        }
    }
}

/// ListOffsets 11 has the encoding of 10, which the generated codec knows.
fn codec_version(key: i16, version: i16) -> i16 {
    if key == 2 && version == 11 { 10 } else { version }
}

/// A whole request frame.
pub fn frame<Q: Request>(version: i16, correlation_id: i32, request: &Q) -> Vec<u8> {
    let mut body = BytesMut::new();
    let header = RequestHeader::default()
        .with_request_api_key(Q::KEY)
        .with_request_api_version(version)
        .with_correlation_id(correlation_id)
        .with_client_id(Some(StrBytes::from_static_str("test")));
    let key = ApiKey::try_from(Q::KEY).unwrap();
    header
        .encode(
            &mut body,
            key.request_header_version(codec_version(Q::KEY, version)),
        )
        .unwrap();
    request.encode(&mut body, codec_version(Q::KEY, version)).unwrap();
    let mut frame = (body.len() as i32).to_be_bytes().to_vec();
    frame.extend_from_slice(&body);
    frame
}
