//! Connections: one reader task and one writer task each, answers in order, memory bounded.
//!
//! The life of a request: the reader takes a whole frame out of its buffer and starts the handler; the answer enters the
//! [`Outbox`]; the writer sends every answer that is ready with one write. Produce requests may be in flight together;
//! any other request starts once the earlier ones of its connection are answered.

mod accept;
mod outbox;
mod reader;
mod receive;
mod sweep;
mod writer;

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::io;
use std::pin::pin;
use std::rc::Rc;

use futures_util::future::select;
use strandline_runtime::{Monotonic, Runtime, SocketAddr};
use strandline_storage::disk::Disk;
use strandline_wire::WireError;

pub(crate) use accept::{accept, next};
pub(crate) use outbox::{Answer, Outbox};
pub(crate) use receive::ReceivePool;
pub(crate) use sweep::sweep;

use crate::shard::{Shard, Signal};

/// Why a connection ends.
#[derive(Debug)]
pub(crate) enum Close {
    /// The client closed it, or it broke.
    Peer,
    /// The shard asked it to end.
    Asked,
    /// The client broke the protocol; Kafka closes without an answer, so the reason goes to the log.
    Refused(Cow<'static, str>),
}

impl From<io::Error> for Close {
    fn from(_: io::Error) -> Self {
        Self::Peer
    }
}

impl From<WireError> for Close {
    fn from(error: WireError) -> Self {
        Self::Refused(error.to_string().into())
    }
}

/// How far a connection's end has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Open,
    /// No request is read any more; what is in flight is answered.
    Finishing,
    /// Nothing is sent any more.
    Aborted,
}

/// What the two tasks of a connection, and the shard's sweep, share.
pub(crate) struct Connection<D: Disk> {
    pub(crate) id: u64,
    pub(crate) peer: SocketAddr,
    /// The listener it came by: answers name the addresses of the same one.
    pub(crate) listener: Rc<str>,
    pub(crate) outbox: Outbox<D>,
    /// What its requests call their client.
    client_id: RefCell<Option<Rc<str>>>,
    stage: Cell<Stage>,
    /// Wakes the reader.
    wake: Signal,
    /// Whether a request is being served whose answer is not in the outbox yet.
    busy: Cell<bool>,
    last_active: Cell<Monotonic>,
    /// Since when the frame at the buffer's start is incomplete.
    incomplete_since: Cell<Option<Monotonic>>,
    /// Since when one write has been under way.
    writing_since: Cell<Option<Monotonic>>,
    /// Whether the reader's buffer holds memory, and whether it shall give it back if it is empty.
    holds_buffer: Cell<bool>,
    release_buffer: Cell<bool>,
    /// Why the sweep ended it.
    reason: RefCell<Option<Cow<'static, str>>>,
}

impl<D: Disk> Connection<D> {
    fn new(id: u64, peer: SocketAddr, listener: Rc<str>, now: Monotonic) -> Self {
        Self {
            id,
            peer,
            listener,
            outbox: Outbox::default(),
            client_id: RefCell::new(None),
            stage: Cell::new(Stage::Open),
            wake: Signal::default(),
            busy: Cell::new(false),
            last_active: Cell::new(now),
            incomplete_since: Cell::new(None),
            writing_since: Cell::new(None),
            holds_buffer: Cell::new(false),
            release_buffer: Cell::new(false),
            reason: RefCell::new(None),
        }
    }

    /// Ends it once what is in flight is answered.
    pub(crate) fn finish(&self) {
        if self.stage.get() == Stage::Open {
            self.stage.set(Stage::Finishing);
        }
        self.wake_both();
    }

    /// Ends it at once.
    pub(crate) fn abort(&self) {
        self.stage.set(Stage::Aborted);
        self.outbox.clear();
        self.wake_both();
    }

    fn abort_because(&self, reason: impl Into<Cow<'static, str>>) {
        *self.reason.borrow_mut() = Some(reason.into());
        self.abort();
    }

    /// Completes once an answer of about `bytes` may be begun.
    pub(crate) async fn room_for_answer<R: Runtime>(
        &self,
        shard: &Shard<R, D>,
        bytes: usize,
    ) -> Result<(), Close> {
        if shard.answers.fits(bytes) {
            return Ok(());
        }
        let _waiting = shard.answers.enter();
        while !shard.answers.fits(bytes) {
            let freed = shard.answers.freed();
            select(pin!(freed), pin!(self.wake.wait())).await;
            if self.is_aborted() {
                return Err(Close::Asked);
            }
        }
        Ok(())
    }

    /// What the request that is served now calls its client.
    pub(crate) fn client_id(&self) -> Option<Rc<str>> {
        self.client_id.borrow().clone()
    }

    /// Kept for the requests to come: clients do not change their name.
    fn set_client_id(&self, client_id: Option<&str>) {
        let mut known = self.client_id.borrow_mut();
        if known.as_deref() != client_id {
            *known = client_id.map(Rc::from);
        }
    }

    fn is_open(&self) -> bool {
        self.stage.get() == Stage::Open
    }

    fn is_aborted(&self) -> bool {
        self.stage.get() == Stage::Aborted
    }

    fn wake_both(&self) {
        self.wake.set();
        self.outbox.news.set();
    }
}
