//! The socket of a link: the hello that opens it, and a half for each direction.

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{Either, select};
use strandline_core::link::{
    CreditError, ENVELOPE_BYTES, Envelope, HELLO_BYTES, Hello, HelloError, LinkError, LinkIdentity,
    LinkMessage, VERSIONS, decode_head, encode,
};
use strandline_core::metadata::{BrokerEpoch, BrokerId};
use strandline_runtime::{ReadHalf, Runtime, SocketAddr, TcpStream, WriteHalf};
use thiserror::Error;

/// A connection that opens and says nothing is closed.
const HELLO_TIMEOUT: Duration = Duration::from_secs(5);
/// Bytes of a body that are read or written at once: room is made for what comes, and the peer is seen to go on.
const STEP_BYTES: usize = 1 << 20;

/// Why a link ends; the follower opens it again.
#[derive(Debug, Error)]
pub(super) enum LinkFailure {
    /// The network's.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The other side closed it.
    #[error("the other side closed it")]
    Closed,
    /// The other side is not who was meant, or speaks another language: somebody has to do something about it.
    #[error("{0}")]
    Hello(#[from] HelloError),
    /// Bytes that no shard sends.
    #[error("{0}")]
    Bytes(#[from] LinkError),
    /// Frames for which no memory is reserved.
    #[error("{0}")]
    Credit(#[from] CreditError),
    /// A message that the other side has no reason to send.
    #[error("a message came that this side of a link does not take")]
    Unexpected,
    /// Another registration of the shard than the one meant, or than the one that opened the link.
    #[error("registration {found} of the shard answers where {expected} was meant")]
    Registration {
        /// The one meant.
        expected: BrokerEpoch,
        /// The one there.
        found: BrokerEpoch,
    },
    /// A shard of this id registered from another data directory.
    #[error(
        "broker {} registered from another data directory: give one of the two nodes another 'node.id'", .0.0
    )]
    Directory(BrokerId),
    /// The other shard has registered no address.
    #[error(
        "its node registered no address for links: start it with this version, and with 'controller.quorum.voters'"
    )]
    NoAddress,
    /// The name of its host.
    #[error("its host '{host}' does not resolve: {reason}")]
    Host {
        /// Of whom.
        host: String,
        /// Why.
        reason: String,
    },
    /// Whoever sends over it has ended it.
    #[error("this side closed it")]
    Over,
    /// Nothing came, or nothing was taken, for so long.
    #[error("the other side is silent for {} s", .0.as_secs())]
    Silent(Duration),
}

impl LinkFailure {
    /// Whether nothing listens at the other side's port.
    pub(super) fn is_no_listener(&self) -> bool {
        matches!(self, Self::Io(error) if error.kind() == io::ErrorKind::ConnectionRefused)
    }

    /// Whether somebody has to do something before another try can go better.
    pub(super) fn is_refusal(&self) -> bool {
        match self {
            Self::Hello(_) | Self::Bytes(_) | Self::Credit(_) | Self::Unexpected => true,
            Self::Directory(_) | Self::NoAddress => true,
            Self::Io(_) | Self::Closed | Self::Over | Self::Silent(_) => false,
            Self::Host { .. } | Self::Registration { .. } => false,
        }
    }
}

/// The sending half of a link.
pub(super) struct LinkSender<W> {
    writer: W,
    sequence: u64,
    progress: Rc<Cell<u64>>,
}

/// The receiving half of a link.
pub(super) struct LinkReceiver<Rd> {
    reader: Rd,
    sequence: u64,
    body_bytes_max: u32,
    peer_epoch: BrokerEpoch,
    progress: Rc<Cell<u64>>,
}

/// Who speaks, and how much it takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct LinkOptions {
    /// This shard.
    pub(super) own: LinkIdentity,
    /// The largest body that is taken: the largest batch there can be, with its frame. 0 on a leader's side.
    pub(super) body_bytes_max: u32,
}

/// An open link.
pub(super) struct Link<R: Runtime> {
    /// The shard at the other end.
    pub(super) peer: LinkIdentity,
    /// The registration as which this one speaks.
    pub(super) own: BrokerEpoch,
    pub(super) sender: LinkSender<<R::Stream as TcpStream>::WriteHalf>,
    pub(super) receiver: LinkReceiver<<R::Stream as TcpStream>::ReadHalf>,
}

/// Opens a link to the shard `to` at `address`.
///
/// # Errors
/// [`LinkFailure`].
pub(super) async fn open<R: Runtime>(
    runtime: &R,
    address: SocketAddr,
    to: BrokerId,
    options: LinkOptions,
) -> Result<Link<R>, LinkFailure> {
    let connected = async {
        let (mut reader, mut writer) = runtime.connect(address).await?.split();
        writer.write_all(&hello(options, to)).await?;
        let answer = read_hello(&mut reader).await?;
        answer.accept(&options.own, VERSIONS, Some(to))?;
        Ok(Link::new(reader, writer, answer.from, options))
    };
    in_time(runtime, connected).await
}

/// Takes a link that somebody opened to this shard.
///
/// # Errors
/// [`LinkFailure`]; the other side was told who this is, and reads the reason out of it.
pub(super) async fn accept<R: Runtime>(
    runtime: &R,
    stream: R::Stream,
    options: LinkOptions,
) -> Result<Link<R>, LinkFailure> {
    let accepted = async {
        let (mut reader, mut writer) = stream.split();
        let asked = read_hello(&mut reader).await?;
        writer.write_all(&hello(options, asked.from.broker)).await?;
        asked.accept(&options.own, VERSIONS, None)?;
        Ok(Link::new(reader, writer, asked.from, options))
    };
    in_time(runtime, accepted).await
}

fn hello(options: LinkOptions, to: BrokerId) -> [u8; HELLO_BYTES] {
    let hello = Hello {
        from: options.own,
        to,
        versions: VERSIONS,
    };
    hello.encode()
}

async fn read_hello(reader: &mut impl ReadHalf) -> Result<Hello, LinkFailure> {
    let mut bytes = [0; HELLO_BYTES];
    read_exact(reader, &mut bytes, &Cell::default()).await?;
    Ok(Hello::decode(&bytes)?)
}

async fn in_time<R: Runtime, T>(
    runtime: &R,
    work: impl Future<Output = Result<T, LinkFailure>>,
) -> Result<T, LinkFailure> {
    let late = std::pin::pin!(runtime.sleep(HELLO_TIMEOUT));
    match select(std::pin::pin!(work), late).await {
        Either::Left((result, _)) => result,
        Either::Right(_) => Err(LinkFailure::Silent(HELLO_TIMEOUT)),
    }
}

impl<R: Runtime> Link<R> {
    fn new(
        reader: <R::Stream as TcpStream>::ReadHalf,
        writer: <R::Stream as TcpStream>::WriteHalf,
        peer: LinkIdentity,
        options: LinkOptions,
    ) -> Self {
        let sender = LinkSender {
            writer,
            sequence: 0,
            progress: Rc::default(),
        };
        let receiver = LinkReceiver {
            reader,
            sequence: 0,
            body_bytes_max: options.body_bytes_max,
            peer_epoch: peer.broker_epoch,
            progress: Rc::default(),
        };
        Self {
            peer,
            own: options.own.broker_epoch,
            sender,
            receiver,
        }
    }
}

impl<W: WriteHalf> LinkSender<W> {
    /// Grows with what the other side takes.
    pub(super) fn progress(&self) -> Rc<Cell<u64>> {
        self.progress.clone()
    }

    /// Sends several messages, each with its sender's registration and the frames behind it, in as few writes as they need.
    ///
    /// # Errors
    /// [`LinkFailure::Io`]; the link is over then.
    pub(super) async fn send(
        &mut self,
        messages: &[(LinkMessage, BrokerEpoch, Bytes)],
    ) -> Result<(), LinkFailure> {
        let heads: Vec<Vec<u8>> = messages
            .iter()
            .map(|(message, epoch, body)| self.head(message, *epoch, body.len()))
            .collect::<Result<_, _>>()?;
        let bodies = messages.iter().map(|(_, _, body)| &body[..]);
        let pieces = heads.iter().map(|head| &head[..]).zip(bodies);
        let (mut step, mut step_bytes) = (Vec::new(), 0);
        for piece in pieces.flat_map(|(head, body)| std::iter::once(head).chain(body.chunks(STEP_BYTES))) {
            step_bytes += piece.len();
            step.push(piece);
            if step_bytes >= STEP_BYTES {
                self.write(&step).await?;
                step.clear();
                step_bytes = 0;
            }
        }
        match step.is_empty() {
            true => Ok(()),
            false => self.write(&step).await,
        }
    }

    fn head(
        &mut self,
        message: &LinkMessage,
        epoch: BrokerEpoch,
        body_bytes: usize,
    ) -> Result<Vec<u8>, LinkFailure> {
        let body_bytes = u32::try_from(body_bytes).map_err(|_| LinkError::BodyTooLarge(u32::MAX))?;
        let head = encode(message, epoch, self.sequence, body_bytes);
        self.sequence += 1;
        Ok(head)
    }

    pub(super) async fn write(&mut self, pieces: &[&[u8]]) -> Result<(), LinkFailure> {
        self.writer.write_all_vectored(pieces).await?;
        self.progress.set(self.progress.get() + 1);
        Ok(())
    }
}

impl<Rd: ReadHalf> LinkReceiver<Rd> {
    /// Grows with what comes.
    pub(super) fn progress(&self) -> Rc<Cell<u64>> {
        self.progress.clone()
    }

    /// The next message, and its frames once `admits` has agreed to so many bytes of them; `None` if the other side closed the
    /// link between two.
    ///
    /// # Errors
    /// [`LinkFailure`]; the link is over then.
    pub(super) async fn receive(
        &mut self,
        admits: impl FnOnce(&LinkMessage, u64) -> Result<(), LinkFailure>,
    ) -> Result<Option<(LinkMessage, Bytes)>, LinkFailure> {
        let mut bytes = [0; ENVELOPE_BYTES];
        match self.reader.read(&mut bytes).await? {
            0 => return Ok(None),
            read => read_exact(&mut self.reader, &mut bytes[read..], &self.progress).await?,
        }
        let envelope = Envelope::decode(&bytes, self.sequence, self.body_bytes_max)?;
        self.sequence += 1;
        let head = self.read_bytes(envelope.head_bytes as usize).await?;
        let message = decode_head(&envelope, &head)?;
        if envelope.broker_epoch != self.peer_epoch {
            return Err(LinkFailure::Registration {
                expected: self.peer_epoch,
                found: envelope.broker_epoch,
            });
        }
        admits(&message, u64::from(envelope.body_bytes))?;
        let body = self.read_bytes(envelope.body_bytes as usize).await?;
        Ok(Some((message, body.into())))
    }

    async fn read_bytes(&mut self, count: usize) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        while bytes.len() < count {
            let start = bytes.len();
            // Exactly: what is reserved for it is not exceeded by a vector's habit of doubling.
            let more = (count - start).min(STEP_BYTES.max(start));
            bytes.reserve_exact(more);
            bytes.resize(start + more, 0);
            read_exact(&mut self.reader, &mut bytes[start..], &self.progress).await?;
        }
        Ok(bytes)
    }
}

async fn read_exact(
    reader: &mut impl ReadHalf,
    mut buffer: &mut [u8],
    progress: &Cell<u64>,
) -> io::Result<()> {
    progress.set(progress.get() + 1);
    while !buffer.is_empty() {
        match reader.read(buffer).await? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => buffer = &mut buffer[read..],
        }
        progress.set(progress.get() + 1);
    }
    Ok(())
}
