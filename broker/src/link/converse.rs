//! What goes on over an open link: what waits is sent, what comes is handed on, and a peer that stands still is noticed.

use std::cell::Cell;
use std::convert::Infallible;
use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{Either, select};
use strandline_core::link::LinkMessage;
use strandline_core::metadata::BrokerEpoch;
use strandline_runtime::mailbox::Receiver;
use strandline_runtime::{ReadHalf, Runtime, WriteHalf};

use super::transport::{Link, LinkFailure, LinkReceiver, LinkSender};
use crate::replica::Delivery;
use crate::shard::Signal;

/// How often a link is looked at: one that has said nothing meanwhile says that it lives.
const LOOK: Duration = Duration::from_secs(2);
/// Looks without a byte read, or without the end of a write, after which a link is given up.
const LOOKS_MAX: u32 = 5;
/// Messages that one write takes, at most, and their frames.
const WRITE_MESSAGES_MAX: usize = 64;
const WRITE_BYTES_MAX: usize = 1 << 20;
/// Entries of one message: its head stays below [`strandline_core::link::HEAD_BYTES_MAX`].
const LIST_MAX: usize = 16_384;

/// What a side of a link does with what comes.
pub(super) trait Taker {
    /// Completes when the shard may go on.
    async fn gate(&self);

    /// Whether so many bytes of frames may come behind this message.
    ///
    /// # Errors
    /// [`LinkFailure::Credit`], for which the link is closed.
    fn admits(&self, message: &LinkMessage, body_bytes: u64) -> Result<(), LinkFailure>;

    /// Takes a message; never waits.
    ///
    /// # Errors
    /// [`LinkFailure`], for which the link is closed.
    fn take(&self, message: LinkMessage, body: Bytes) -> Result<(), LinkFailure>;
}

/// Speaks over `link` until it ends; says why.
pub(super) async fn converse<R: Runtime>(
    runtime: &R,
    link: Link<R>,
    outgoing: Receiver<Delivery>,
    taker: &impl Taker,
) -> LinkFailure {
    let Link {
        own,
        mut sender,
        mut receiver,
        ..
    } = link;
    let (read, written) = (receiver.progress(), sender.progress());
    let (quiet, writing) = (Signal::default(), Cell::new(false));
    let reading = pin!(receive(runtime, &mut receiver, taker));
    let speaking = pin!(speak(
        runtime,
        &mut sender,
        own,
        outgoing,
        taker,
        &quiet,
        &writing
    ));
    let looking = pin!(async {
        let (mut unread, mut unwritten) = (Stillness::default(), Stillness::default());
        loop {
            runtime.sleep(LOOK).await;
            taker.gate().await;
            let silent = unread.look(read.get());
            let stuck = unwritten.look(written.get());
            if silent >= LOOKS_MAX || (writing.get() && stuck >= LOOKS_MAX) {
                return LinkFailure::Silent(LOOK * LOOKS_MAX);
            }
            if stuck > 0 {
                quiet.set();
            }
        }
    });
    let ended = select(select(reading, speaking), looking).await;
    match ended {
        Either::Left((Either::Left((Err(failure), _)), _)) => failure,
        Either::Left((Either::Right((Err(failure), _)), _)) => failure,
        Either::Right((failure, _)) => failure,
    }
}

/// For how many looks a count has not moved.
#[derive(Default)]
struct Stillness {
    seen: u64,
    looks: u32,
}

impl Stillness {
    fn look(&mut self, count: u64) -> u32 {
        self.looks = match count == self.seen {
            true => self.looks + 1,
            false => 0,
        };
        self.seen = count;
        self.looks
    }
}

async fn receive<R: Runtime, Rd: ReadHalf>(
    runtime: &R,
    receiver: &mut LinkReceiver<Rd>,
    taker: &impl Taker,
) -> Result<Infallible, LinkFailure> {
    loop {
        let received = receiver
            .receive(|message, bytes| taker.admits(message, bytes))
            .await?;
        let Some((message, body)) = received else {
            return Err(LinkFailure::Closed);
        };
        taker.gate().await;
        taker.take(message, body)?;
        runtime.yield_if_needed().await;
    }
}

async fn speak<R: Runtime, W: WriteHalf>(
    runtime: &R,
    sender: &mut LinkSender<W>,
    own: BrokerEpoch,
    mut outgoing: Receiver<Delivery>,
    taker: &impl Taker,
    quiet: &Signal,
    writing: &Cell<bool>,
) -> Result<Infallible, LinkFailure> {
    let mut messages = Vec::new();
    loop {
        let next = {
            let receive = pin!(outgoing.receive());
            let nothing = pin!(quiet.wait());
            match select(receive, nothing).await {
                Either::Left((delivery, _)) => Some(delivery),
                Either::Right(_) => None,
            }
        };
        match next {
            Some(Some(delivery)) => push(&mut messages, delivery),
            Some(None) => return Err(LinkFailure::Over),
            None => messages.push((LinkMessage::Alive, own, Bytes::new())),
        }
        taker.gate().await;
        let mut bytes = 0;
        while messages.len() < WRITE_MESSAGES_MAX && bytes < WRITE_BYTES_MAX {
            let Some(delivery) = outgoing.try_receive() else {
                break;
            };
            bytes += delivery.body.len();
            push(&mut messages, delivery);
        }
        writing.set(true);
        sender.send(&messages).await?;
        writing.set(false);
        messages.clear();
        runtime.yield_if_needed().await;
    }
}

/// A long list goes in parts.
fn push(messages: &mut Vec<(LinkMessage, BrokerEpoch, Bytes)>, delivery: Delivery) {
    let Delivery {
        epoch, message, body, ..
    } = delivery;
    let parts = match message {
        LinkMessage::Open(list) if list.len() > LIST_MAX => parts(&list, LinkMessage::Open),
        LinkMessage::Opened(list) if list.len() > LIST_MAX => parts(&list, LinkMessage::Opened),
        LinkMessage::Ack(list) if list.len() > LIST_MAX => parts(&list, LinkMessage::Ack),
        message => return messages.push((message, epoch, body)),
    };
    messages.extend(parts.into_iter().map(|part| (part, epoch, Bytes::new())));
}

fn parts<T: Clone>(list: &[T], message: fn(Vec<T>) -> LinkMessage) -> Vec<LinkMessage> {
    list.chunks(LIST_MAX).map(|part| message(part.to_vec())).collect()
}
