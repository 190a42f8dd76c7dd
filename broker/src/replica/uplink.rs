//! The follower's end of a link: what it asks a leader's shard for, and what came from there.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use strandline_core::link::{
    CreditError, CreditReceiver, LinkAck, LinkFrames, LinkMessage, LinkOpen, LinkOpened, Window,
};
use strandline_core::metadata::{BrokerEpoch, BrokerId, LinkAddress, PartitionReference};
use strandline_runtime::local::Event;
use strandline_runtime::mailbox::{Receiver, SendError, Sender, mailbox};
use strandline_storage::Reservation;

use super::{Delivery, MAILBOX_CAPACITY};
use crate::shard::Signal;

/// The part of the shard's memory that all windows take, and the bounds of one.
pub(super) const WINDOWS_PART: u64 = 8;
const WINDOW_BYTES_MIN: u64 = 64 << 10;
const WINDOW_BYTES_MAX: u64 = 4 << 20;

/// What came, in order.
pub(super) enum Arrived {
    /// An answer to an open.
    Opened(LinkOpened),
    /// Frames, or only their head; and by which connection they came.
    Frames(LinkFrames, Bytes, u64),
}

/// How a leader's shard is reached.
pub(super) enum Way {
    /// One of the same process, if it is there.
    Mailbox(Option<Sender<Delivery>>),
    /// One of another node, at this address, if it registered one.
    Link(Option<LinkAddress>),
}

/// A link of one registration of this shard to one of a leader's shard.
pub(crate) struct Uplink {
    /// This shard, and its registration.
    pub(crate) own: (BrokerId, BrokerEpoch),
    pub(crate) leader: BrokerId,
    /// The leader's registration.
    pub(crate) leader_epoch: BrokerEpoch,
    /// Where the leader's shard is reached, if it is one of another node.
    pub(crate) link: Option<LinkAddress>,
    /// Nobody, while there is no connection.
    sender: RefCell<Option<Sender<Delivery>>>,
    /// Connections to a shard of another node, so far.
    connection: Cell<u64>,
    tail: RefCell<CreditReceiver>,
    catch_up: RefCell<CreditReceiver>,
    pub(super) arrived: RefCell<VecDeque<Arrived>>,
    pub(super) wake: Signal,
    /// The newest of each partition that is not sent yet.
    acks: RefCell<BTreeMap<PartitionReference, LinkAck>>,
    ended: Cell<bool>,
    over: Event,
    _reserved: Reservation,
}

impl Uplink {
    pub(super) fn new(
        own: (BrokerId, BrokerEpoch),
        (leader, leader_epoch): (BrokerId, BrokerEpoch),
        way: Way,
        reserved: Reservation,
    ) -> Self {
        let window = reserved.bytes() / 2;
        let (sender, link) = match way {
            Way::Mailbox(sender) => (sender, None),
            Way::Link(link) => (None, link),
        };
        Self {
            own,
            leader,
            leader_epoch,
            link,
            sender: RefCell::new(sender),
            connection: Cell::new(0),
            tail: RefCell::new(CreditReceiver::new(window)),
            catch_up: RefCell::new(CreditReceiver::new(window)),
            arrived: RefCell::default(),
            wake: Signal::default(),
            acks: RefCell::default(),
            ended: Cell::new(false),
            over: Event::new(),
            _reserved: reserved,
        }
    }

    /// What both windows of a link reserve, of a shard with this budget and so many peers.
    pub(super) fn reserved_bytes(budget: u64, peers: usize) -> u64 {
        let window = budget / WINDOWS_PART / (2 * peers.max(1) as u64);
        2 * window.clamp(WINDOW_BYTES_MIN, WINDOW_BYTES_MAX)
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended.get()
    }

    pub(super) fn end(&self) {
        self.ended.set(true);
        self.wake.set();
        self.over.notify_all();
    }

    /// Completes once it has ended.
    pub(crate) async fn until_ended(&self) {
        let over = self.over.wait();
        if !self.has_ended() {
            over.await;
        }
    }

    /// There is a connection to the leader's shard, for the first time or again: what was said by the one before counts no
    /// more. What is said from now on comes out of the mailbox.
    pub(crate) fn connected(&self) -> Receiver<Delivery> {
        let (sender, receiver) = mailbox(MAILBOX_CAPACITY);
        for credit in [&self.tail, &self.catch_up] {
            let mut credit = credit.borrow_mut();
            *credit = credit.anew();
        }
        self.arrived.borrow_mut().clear();
        self.acks.borrow_mut().clear();
        self.connection.set(self.connection.get() + 1);
        *self.sender.borrow_mut() = Some(sender);
        receiver
    }

    /// The connection is gone: nothing is said until there is another one.
    pub(crate) fn disconnected(&self) {
        *self.sender.borrow_mut() = None;
    }

    fn credit(&self, window: Window) -> &RefCell<CreditReceiver> {
        match window {
            Window::Tail => &self.tail,
            Window::CatchUp => &self.catch_up,
        }
    }

    /// Opens both windows. False if the leader could not be told.
    pub(super) fn grant(&self) -> bool {
        for window in [Window::Tail, Window::CatchUp] {
            self.credit(window).borrow_mut().open();
        }
        self.grant_again()
    }

    /// Frames of so many bytes come, into memory that is reserved for them.
    pub(crate) fn reserve(&self, window: Window, bytes: u64) -> Result<(), CreditError> {
        self.credit(window).borrow_mut().received(bytes)
    }

    /// Frames came, for which memory is reserved.
    pub(crate) fn arrived(&self, head: LinkFrames, body: Bytes) {
        let frames = Arrived::Frames(head, body, self.connection.get());
        self.arrived.borrow_mut().push_back(frames);
        self.wake.set();
    }

    /// Frames came through the mailbox: those within what was granted are taken.
    pub(super) fn frames(&self, head: LinkFrames, body: Bytes) {
        match self.reserve(head.window, body.len() as u64) {
            Ok(()) => self.arrived(head, body),
            Err(error) => {
                tracing::error!(leader = self.leader.0, %error, "a leader sends beyond its credit: the message is dropped");
            }
        }
    }

    pub(crate) fn opened(&self, opened: LinkOpened) {
        self.arrived.borrow_mut().push_back(Arrived::Opened(opened));
        self.wake.set();
    }

    /// Frames that came by this connection have left the reserved memory. False if the leader could not be told.
    pub(super) fn released(&self, (window, bytes, connection): (Window, u64, u64)) -> bool {
        if bytes == 0 || connection != self.connection.get() {
            return true;
        }
        match self.credit(window).borrow_mut().released(bytes) {
            Some(bytes) => self.say(LinkMessage::Credit { window, bytes }),
            None => true,
        }
    }

    /// Says the newest grants again: one may have found no room.
    pub(super) fn grant_again(&self) -> bool {
        [Window::Tail, Window::CatchUp].into_iter().all(|window| {
            let bytes = self.credit(window).borrow().granted();
            self.say(LinkMessage::Credit { window, bytes })
        })
    }

    pub(super) fn open(&self, opens: Vec<LinkOpen>) {
        // What finds no room is asked again after a time.
        self.say(LinkMessage::Open(opens));
    }

    pub(super) fn ack(&self, ack: LinkAck) {
        self.acks.borrow_mut().insert(ack.partition, ack);
    }

    /// Sends what is to be acknowledged, as one message; false if it has to be tried again.
    pub(super) fn send_acks(&self) -> bool {
        let acks: Vec<LinkAck> = std::mem::take(&mut *self.acks.borrow_mut())
            .into_values()
            .collect();
        if acks.is_empty() || self.say(LinkMessage::Ack(acks.clone())) {
            return true;
        }
        let mut waiting = self.acks.borrow_mut();
        for ack in acks {
            waiting.entry(ack.partition).or_insert(ack);
        }
        false
    }

    /// False if there was no room.
    fn say(&self, message: LinkMessage) -> bool {
        let sender = self.sender.borrow();
        let Some(sender) = &*sender else { return true };
        let sent = sender.send(Delivery {
            from: self.own.0,
            epoch: self.own.1,
            to: self.leader_epoch,
            message,
            body: Bytes::new(),
        });
        // A shard that is gone has another registration when it is back.
        !matches!(sent, Err(SendError::Full(_)))
    }
}
