//! The reading side: frames out of the buffer, each to its handler.

use std::pin::pin;
use std::rc::Rc;

use futures_util::future::{Either, select};
use strandline_runtime::{Monotonic, ReadHalf, Runtime};
use strandline_storage::disk::Disk;
use strandline_wire::frame::SIZE_PREFIX;
use strandline_wire::{ApiKey, RequestHeader, decode_request_header};

use super::receive::ReceiveBuffer;
use super::{Answer, Close, Connection};
use crate::handlers::{self, Request};
use crate::shard::{Shard, add};

/// An idle connection reads into this much of its own task, and takes a buffer once bytes come.
const IDLE_BYTES: usize = 64;
/// Produce requests of one connection that may be in flight together, and what their answers may take.
const IN_FLIGHT_MAX: usize = 1024;
const IN_FLIGHT_BYTES: usize = 1 << 20;

/// Serves a connection until it ends.
pub(super) async fn run<R, D, H>(shard: Rc<Shard<R, D>>, connection: Rc<Connection<D>>, half: H)
where
    R: Runtime,
    D: Disk,
    H: ReadHalf,
{
    let buffer = ReceiveBuffer::new(shard.receive.clone(), connection.id);
    let mut reader = Reader {
        shard,
        connection,
        half,
        buffer,
        first: [0; IDLE_BYTES],
        first_count: 0,
        first_at: Monotonic(0),
    };
    let end = reader.serve().await;
    let (shard, connection) = (&reader.shard, &reader.connection);
    let swept = connection.reason.borrow_mut().take();
    match (end, swept) {
        (_, Some(reason)) | (Err(Close::Refused(reason)), None) => {
            add(&shard.metrics.connections_refused, 1);
            shard
                .refusals
                .log_close(shard.runtime.now(), &connection.peer, &reason);
            // What was asked before is still answered.
            connection.finish();
        }
        (Err(Close::Peer), None) => connection.abort(),
        (Ok(()) | Err(Close::Asked), None) => connection.finish(),
    }
}

struct Reader<R: Runtime, D: Disk, H: ReadHalf> {
    shard: Rc<Shard<R, D>>,
    connection: Rc<Connection<D>>,
    half: H,
    buffer: ReceiveBuffer,
    /// What was read without a buffer and waits for one: here, since the future that reads may be dropped meanwhile.
    first: [u8; IDLE_BYTES],
    first_count: usize,
    first_at: Monotonic,
}

impl<R: Runtime, D: Disk, H: ReadHalf> Reader<R, D, H> {
    async fn serve(&mut self) -> Result<(), Close> {
        loop {
            while let Some(length) = self.whole_frame()? {
                self.serve_frame(length).await?;
                if !self.connection.is_open() {
                    return Ok(());
                }
                self.shard.runtime.yield_if_needed().await;
            }
            self.read().await?;
        }
    }

    /// The length of the frame at the buffer's start without its prefix, if all of it is there.
    fn whole_frame(&self) -> Result<Option<usize>, Close> {
        Ok(self
            .announced()?
            .filter(|length| self.buffer.filled().len() >= SIZE_PREFIX + length))
    }

    /// The length that the prefix at the buffer's start announces.
    fn announced(&self) -> Result<Option<usize>, Close> {
        let Some(prefix) = self.buffer.filled().first_chunk::<SIZE_PREFIX>() else {
            return Ok(None);
        };
        let announced = i32::from_be_bytes(*prefix);
        let max = self.shard.config.socket_request_max_bytes;
        match usize::try_from(announced) {
            Ok(length) if length <= max => Ok(Some(length)),
            _ => Err(Close::Refused(explain_prefix(*prefix, max).into())),
        }
    }

    /// Reads what is there. An idle connection waits without a buffer.
    async fn read(&mut self) -> Result<(), Close> {
        let connection = self.connection.clone();
        if self.buffer.is_empty() {
            connection.incomplete_since.set(None);
            if !self.buffer.holds_memory() {
                return self.read_without_buffer().await;
            }
        } else if connection.incomplete_since.get().is_none() {
            connection.incomplete_since.set(Some(self.shard.runtime.now()));
        }
        let since = connection.incomplete_since.get().unwrap_or_default();
        let wanted = self.announced()?.map_or(0, |length| SIZE_PREFIX + length);
        let woken = {
            let room = pin!(self.buffer.make_room(wanted, since));
            let wake = pin!(connection.wake.wait());
            matches!(select(room, wake).await, Either::Right(_))
        };
        if woken {
            return self.woken();
        }
        let read = {
            let read = pin!(self.half.read(self.buffer.room()));
            let wake = pin!(connection.wake.wait());
            match select(read, wake).await {
                Either::Left((read, _)) => Some(read?),
                Either::Right(_) => None,
            }
        };
        match read {
            None => self.woken(),
            Some(0) => Err(Close::Peer),
            Some(count) => {
                self.buffer.received(count);
                self.received(count);
                Ok(())
            }
        }
    }

    async fn read_without_buffer(&mut self) -> Result<(), Close> {
        let connection = self.connection.clone();
        connection.holds_buffer.set(false);
        if self.first_count == 0 {
            let count = {
                let read = pin!(self.half.read(&mut self.first));
                let wake = pin!(connection.wake.wait());
                match select(read, wake).await {
                    Either::Left((read, _)) => Some(read?),
                    Either::Right(_) => None,
                }
            };
            match count {
                None => return self.woken(),
                Some(0) => return Err(Close::Peer),
                Some(count) => self.first_count = count,
            }
            self.first_at = self.received(self.first_count);
        }
        let woken = {
            let room = pin!(self.buffer.make_room(0, self.first_at));
            let wake = pin!(connection.wake.wait());
            matches!(select(room, wake).await, Either::Right(_))
        };
        if woken {
            return self.woken();
        }
        self.buffer.push(&self.first[..self.first_count]);
        self.first_count = 0;
        connection.holds_buffer.set(true);
        Ok(())
    }

    fn received(&self, count: usize) -> Monotonic {
        let now = self.shard.runtime.now();
        self.connection.last_active.set(now);
        add(&self.shard.metrics.received_bytes, count as u64);
        now
    }

    /// Something else than bytes woke the reader.
    fn woken(&mut self) -> Result<(), Close> {
        if !self.connection.is_open() {
            return Err(Close::Asked);
        }
        if self.connection.release_buffer.replace(false) && self.buffer.is_empty() {
            self.buffer.release();
            self.connection.holds_buffer.set(false);
        }
        Ok(())
    }

    async fn serve_frame(&mut self, length: usize) -> Result<(), Close> {
        self.shard.unpaused().await;
        let arrived = self.shard.runtime.now();
        self.connection.incomplete_since.set(None);
        let connection = self.connection.clone();
        let shard = self.shard.clone();
        let frame = &self.buffer.filled()[SIZE_PREFIX..SIZE_PREFIX + length];
        let (header, body_at) = decode_request_header(frame)?;
        let body = &frame[body_at..];
        let api = served_api(&header)?;
        let Some(api) = api else {
            let frame = handlers::api_versions::unsupported(header.correlation_id)?;
            shard
                .metrics
                .answered(header.api_key, strandline_wire::ErrorCode::UnsupportedVersion);
            self.buffer.consume(SIZE_PREFIX + length);
            answered_before(&connection).await?;
            let loan = shard.answers.lend_counted(frame.len());
            connection.outbox.push(Answer::Frame(frame, loan));
            return Ok(());
        };
        connection.set_client_id(header.client_id);
        let request = Request {
            shard: shard.clone(),
            connection: connection.clone(),
            api,
            version: header.api_version,
            correlation_id: header.correlation_id,
            arrived,
        };
        // From before the first wait: what is here when the shard stops is answered.
        let busy = Busy::begin(&connection);
        if api == ApiKey::Produce {
            room_in_flight(&connection).await?;
            handlers::produce::serve(&request, body).await?;
            self.buffer.consume(SIZE_PREFIX + length);
            drop(busy);
            return Ok(());
        }
        answered_before(&connection).await?;
        let answer = if api == ApiKey::Fetch {
            let fetch = handlers::fetch::begin(&request, body)?;
            self.buffer.consume(SIZE_PREFIX + length);
            self.while_reading(handlers::fetch::serve(&request, fetch))
                .await?
        } else {
            // Unlike a fetch, it may refer to its body until it is answered.
            let body = shard.receive.hold(body);
            self.buffer.consume(SIZE_PREFIX + length);
            connection.room_for_answer(&shard, body.len()).await?;
            self.while_reading(Box::pin(handlers::serve(&request, body)))
                .await?
        };
        connection.outbox.push(answer);
        drop(busy);
        Ok(())
    }

    /// Runs a handler, and reads on meanwhile: that is how a client that went away is noticed, and its memory freed.
    async fn while_reading<T>(
        &mut self,
        handler: impl Future<Output = Result<T, Close>>,
    ) -> Result<T, Close> {
        let mut handler = pin!(handler);
        loop {
            let ahead = pin!(self.read_ahead());
            match select(handler.as_mut(), ahead).await {
                Either::Left((answer, _)) => return answer,
                Either::Right((read, _)) => read?,
            }
        }
    }

    async fn read_ahead(&mut self) -> Result<(), Close> {
        if self.whole_frame()?.is_some() {
            // It is complete, and waits its turn however long that takes: only a wake is of interest.
            self.connection.incomplete_since.set(None);
            self.connection.wake.wait().await;
            return if self.connection.is_aborted() {
                Err(Close::Asked)
            } else {
                Ok(())
            };
        }
        match self.read().await {
            // A request that runs is answered even if no other is taken.
            Err(Close::Asked) if !self.connection.is_aborted() => {
                self.connection.wake.wait().await;
                Ok(())
            }
            other => other,
        }
    }
}

/// The API of a request, `None` for a version of ApiVersions that is not known here; others end the connection.
fn served_api(header: &RequestHeader<'_>) -> Result<Option<ApiKey>, Close> {
    let (key, version) = (header.api_key, header.api_version);
    let api = ApiKey::from_key(key).filter(|api| strandline_wire::supported_versions(*api).is_some());
    let Some(api) = api else {
        return Err(Close::Refused(format!("API key {key} is not served").into()));
    };
    if api.is_supported(version) && !(api == ApiKey::Produce && version < handlers::produce::FIRST_VERSION) {
        return Ok(Some(api));
    }
    if api == ApiKey::ApiVersions {
        return Ok(None);
    }
    Err(Close::Refused(
        format!("version {version} of {} is not served", api.name()).into(),
    ))
}

/// Completes once every earlier request of the connection is answered and its answer written.
async fn answered_before<D: Disk>(connection: &Connection<D>) -> Result<(), Close> {
    while !connection.outbox.is_idle() {
        connection.outbox.reader_waits.set(true);
        connection.wake.wait().await;
        if connection.is_aborted() {
            return Err(Close::Asked);
        }
    }
    Ok(())
}

/// Completes once another produce request may be in flight.
async fn room_in_flight<D: Disk>(connection: &Connection<D>) -> Result<(), Close> {
    while connection.outbox.len() >= IN_FLIGHT_MAX || connection.outbox.bytes() >= IN_FLIGHT_BYTES {
        connection.outbox.reader_waits.set(true);
        connection.wake.wait().await;
        if connection.is_aborted() {
            return Err(Close::Asked);
        }
    }
    Ok(())
}

/// Marks a connection as serving a request.
struct Busy<'a, D: Disk>(&'a Connection<D>);

impl<'a, D: Disk> Busy<'a, D> {
    fn begin(connection: &'a Connection<D>) -> Self {
        connection.busy.set(true);
        Self(connection)
    }
}

impl<D: Disk> Drop for Busy<'_, D> {
    fn drop(&mut self) {
        self.0.busy.set(false);
        if !self.0.is_open() {
            self.0.outbox.news.set();
        }
    }
}

/// What the four bytes are, if they are no size: people point browsers and TLS clients at this port.
fn explain_prefix(prefix: [u8; SIZE_PREFIX], max: usize) -> String {
    let announced = i32::from_be_bytes(prefix);
    match &prefix {
        b"GET " | b"POST" | b"HEAD" | b"PUT " | b"OPTI" => {
            "an HTTP request came to the Kafka port; metrics and health are served on the HTTP port"
                .to_owned()
        }
        [0x16, 0x03, ..] => {
            "a TLS handshake came to a plaintext listener; set security.protocol=PLAINTEXT in the client"
                .to_owned()
        }
        _ => format!("a request announces {announced} bytes; socket.request.max.bytes is {max}"),
    }
}
