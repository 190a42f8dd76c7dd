//! What controllers ask of each other, and a connection that carries it.

use std::io;

use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, VoteRequest, VoteResponse,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use strandline_core::controller::{
    CONTROLLER_HELLO_BYTES, ControllerHello, ControllerHelloError, FRAME_ENVELOPE_BYTES, FrameEnvelope,
    FrameError, encode_frame,
};
use strandline_core::metadata::{BrokerEpoch, BrokerId};
use strandline_core::sessions::ShardHeartbeat;
use strandline_runtime::{ReadHalf, Runtime, TcpStream, WriteHalf};
use thiserror::Error;

use super::membership::{Change, NoChange, Status};
use super::types::{Batch, TypeConfig, Vote, VoterAddress, VoterId};
use crate::control::quorum::Decided;

/// Bytes that are made room for before they have come.
const READ_STEP_BYTES: usize = 1 << 20;

/// A request.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// Who are you, and what do you know of the quorum?
    Status,
    /// openraft's.
    Append(AppendEntriesRequest<TypeConfig>),
    /// openraft's.
    Vote(VoteRequest<VoterId>),
    /// openraft's; the image is the body.
    Snapshot {
        /// The leader's.
        vote: Vote,
        /// What it covers.
        meta: openraft::SnapshotMeta<VoterId, VoterAddress>,
    },
    /// Commit these: for the leader.
    Commit(Batch),
    /// How the shards of a node are: for the leader.
    Heartbeat(Vec<ShardHeartbeat>),
    /// The process of these shards was seen dead: for the leader.
    Dead(Vec<(BrokerId, BrokerEpoch)>),
    /// Change who votes and who learns: for the leader.
    Change(Change),
}

/// An answer.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Response {
    /// To [`Request::Status`].
    Status(Box<Status>),
    /// To [`Request::Append`].
    Append(AppendEntriesResponse<VoterId>),
    /// To [`Request::Vote`].
    Vote(VoteResponse<VoterId>),
    /// To [`Request::Snapshot`].
    Snapshot {
        /// The follower's.
        vote: Vote,
    },
    /// To [`Request::Commit`].
    Committed(Decided),
    /// It is done.
    Done,
    /// It is the leader's to do, and this is not it: nothing was done.
    NotLeader,
    /// Refused for good; the text says why.
    Refused(String),
    /// There is nothing to do.
    NoChange(NoChange, String),
    /// Whether it was done is not known.
    Unknown(String),
    /// This node's quorum cannot go on.
    Broken(String),
}

impl From<SnapshotResponse<VoterId>> for Response {
    fn from(response: SnapshotResponse<VoterId>) -> Self {
        Self::Snapshot { vote: response.vote }
    }
}

/// Why a connection ends.
#[derive(Debug, Error)]
pub enum WireError {
    /// The network's.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The other side is not who was meant, or speaks another language.
    #[error("{0}")]
    Hello(#[from] ControllerHelloError),
    /// Bytes that no controller sends.
    #[error("{0}")]
    Frame(#[from] FrameError),
    /// A head that does not read.
    #[error("a frame does not read: {0}")]
    Head(#[from] serde_json::Error),
}

/// A connection between controllers.
pub struct Wire<R: Runtime> {
    reader: <R::Stream as TcpStream>::ReadHalf,
    writer: <R::Stream as TcpStream>::WriteHalf,
    sent: u64,
    received: u64,
}

impl<R: Runtime> Wire<R> {
    /// A connection on which nothing was said yet.
    pub fn new(stream: R::Stream) -> Self {
        let (reader, writer) = stream.split();
        Self {
            reader,
            writer,
            sent: 0,
            received: 0,
        }
    }

    /// Sends a hello.
    ///
    /// # Errors
    /// [`WireError`].
    pub async fn send_hello(&mut self, hello: &ControllerHello) -> Result<(), WireError> {
        Ok(self.writer.write_all(&hello.encode()).await?)
    }

    /// Receives the other side's hello.
    ///
    /// # Errors
    /// [`WireError`].
    pub async fn receive_hello(&mut self) -> Result<ControllerHello, WireError> {
        let mut bytes = [0; CONTROLLER_HELLO_BYTES];
        self.read_exact(&mut bytes).await?;
        Ok(ControllerHello::decode(&bytes)?)
    }

    /// Sends one request or answer.
    ///
    /// # Errors
    /// [`WireError`].
    pub async fn send(&mut self, head: &impl Serialize, body: &[u8]) -> Result<(), WireError> {
        let head = serde_json::to_vec(head)?;
        let envelope = encode_frame(self.sent, &head, body)?;
        self.sent += 1;
        self.writer.write_all_vectored(&[&envelope, &head, body]).await?;
        Ok(())
    }

    /// Receives one request or answer, with its body; `None` if the other side closed the connection before it.
    ///
    /// # Errors
    /// [`WireError`].
    pub async fn receive<T: DeserializeOwned>(&mut self) -> Result<Option<(T, Vec<u8>)>, WireError> {
        let mut envelope = [0; FRAME_ENVELOPE_BYTES];
        match self.reader.read(&mut envelope).await? {
            0 => return Ok(None),
            read => self.read_exact(&mut envelope[read..]).await?,
        }
        let envelope = FrameEnvelope::decode(&envelope, self.received)?;
        self.received += 1;
        let head = self.read_bytes(envelope.head_bytes as usize).await?;
        let body = self.read_bytes(envelope.body_bytes as usize).await?;
        envelope.check(&head, &body)?;
        Ok(Some((serde_json::from_slice(&head)?, body)))
    }

    /// Closes both directions at once.
    pub fn close(&mut self) {
        self.writer.shutdown();
    }

    /// Memory grows with what came, not with what was announced.
    async fn read_bytes(&mut self, count: usize) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        while bytes.len() < count {
            let start = bytes.len();
            bytes.resize(count.min(start + READ_STEP_BYTES), 0);
            self.read_exact(&mut bytes[start..]).await?;
        }
        Ok(bytes)
    }

    async fn read_exact(&mut self, mut buffer: &mut [u8]) -> io::Result<()> {
        while !buffer.is_empty() {
            match self.reader.read(buffer).await? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                read => buffer = &mut buffer[read..],
            }
        }
        Ok(())
    }
}
