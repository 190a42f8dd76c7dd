//! The follower's end of a link: what it asks a leader's shard for, and what came from there.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use strandline_core::link::{CreditReceiver, LinkAck, LinkFrames, LinkMessage, LinkOpen, LinkOpened, Window};
use strandline_core::metadata::{BrokerEpoch, BrokerId, PartitionReference};
use strandline_runtime::mailbox::{SendError, Sender};
use strandline_storage::Reservation;

use super::Delivery;
use crate::shard::Signal;

/// The part of the shard's memory that all windows take, and the bounds of one.
pub(super) const WINDOWS_PART: u64 = 8;
const WINDOW_BYTES_MIN: u64 = 64 << 10;
const WINDOW_BYTES_MAX: u64 = 4 << 20;

/// What came, in order.
pub(super) enum Arrived {
    /// An answer to an open.
    Opened(LinkOpened),
    /// Frames, or only their head.
    Frames(LinkFrames, Bytes),
}

/// A link of one registration of this shard to one of a leader's shard.
pub(super) struct Uplink {
    /// This shard, and its registration.
    own: (BrokerId, BrokerEpoch),
    pub(super) leader: BrokerId,
    /// The leader's registration.
    pub(super) leader_epoch: BrokerEpoch,
    sender: Option<Sender<Delivery>>,
    tail: RefCell<CreditReceiver>,
    catch_up: RefCell<CreditReceiver>,
    pub(super) arrived: RefCell<VecDeque<Arrived>>,
    pub(super) wake: Signal,
    /// The newest of each partition that is not sent yet.
    acks: RefCell<BTreeMap<PartitionReference, LinkAck>>,
    ended: Cell<bool>,
    _reserved: Reservation,
}

impl Uplink {
    pub(super) fn new(
        own: (BrokerId, BrokerEpoch),
        (leader, leader_epoch): (BrokerId, BrokerEpoch),
        sender: Option<Sender<Delivery>>,
        reserved: Reservation,
    ) -> Self {
        let window = reserved.bytes() / 2;
        Self {
            own,
            leader,
            leader_epoch,
            sender,
            tail: RefCell::new(CreditReceiver::new(window)),
            catch_up: RefCell::new(CreditReceiver::new(window)),
            arrived: RefCell::default(),
            wake: Signal::default(),
            acks: RefCell::default(),
            ended: Cell::new(false),
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

    /// Frames came; false if they are more than was granted.
    pub(super) fn frames(&self, head: LinkFrames, body: Bytes) -> bool {
        let received = self.credit(head.window).borrow_mut().received(body.len() as u64);
        if let Err(error) = received {
            tracing::error!(leader = self.leader.0, %error, "a leader sends beyond its credit: the message is dropped");
            return false;
        }
        self.arrived.borrow_mut().push_back(Arrived::Frames(head, body));
        self.wake.set();
        true
    }

    pub(super) fn opened(&self, opened: LinkOpened) {
        self.arrived.borrow_mut().push_back(Arrived::Opened(opened));
        self.wake.set();
    }

    /// Frames have left the reserved memory. False if the leader could not be told.
    pub(super) fn released(&self, window: Window, bytes: u64) -> bool {
        if bytes == 0 {
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

    pub(super) fn open(&self, open: LinkOpen) {
        // One that finds no room is asked again after a time.
        self.say(LinkMessage::Open(vec![open]));
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
        let Some(sender) = &self.sender else { return true };
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
