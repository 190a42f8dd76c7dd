//! Replication: what this shard's followers are sent, and what it takes as a follower.
//!
//! The rules stand in [`strandline_core::replica`]; here they are given links, logs and time. A follower opens an [`Uplink`] to
//! each shard that leads something it follows; that shard has a [`Downlink`] to it. They say the messages of
//! [`strandline_core::link`] through each other's mailbox. Map: [`peers`] knows the mailboxes; [`uplink`] and [`apply`] are the
//! follower's side, [`downlink`] and [`lead`] the leader's; [`inbox`] is the task that empties the mailbox.
//!
//! Invariants:
//! - Whoever empties a mailbox never waits: not for a send, a disk, or memory.
//! - Frames are sent only against credit, which is memory that the follower has reserved.
//! - A message of an earlier registration, leader epoch or open changes nothing.
//! - A partition with one replica costs its shard nothing here.

mod apply;
mod downlink;
mod follow;
mod inbox;
mod lead;
mod peers;
mod stream;
mod uplink;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use strandline_core::link::LinkOpen;
use strandline_core::metadata::{BrokerEpoch, BrokerId, PartitionReference};
use strandline_runtime::Monotonic;
use strandline_storage::disk::Disk;
use strandline_storage::{Log, TopicPartitionId};

pub(crate) use downlink::Downlink;
pub(crate) use follow::{Followed, follow, stop_following};
pub(crate) use inbox::{run, tick};
pub(crate) use lead::{propose, retry_early_opens};
pub use peers::{Delivery, Peers};
pub(crate) use stream::Stream;

use self::uplink::Uplink;
use crate::shard::{Partition, Signal};

/// Between which lives of two shards a link is, by the leader's side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Session {
    /// The follower's shard.
    peer: BrokerId,
    /// Its registration.
    epoch: BrokerEpoch,
    /// This shard's registration, as the follower knows it; its own image may be on its way.
    own: BrokerEpoch,
}

/// Opens that came before this shard knew of them, at most; their followers ask again anyway.
const EARLY_OPENS_MAX: usize = 16_384;

/// Everything of one shard that has more than one replica.
pub(crate) struct Replicas<D: Disk> {
    broker: BrokerId,
    /// This shard's registration, by its image.
    epoch: Cell<BrokerEpoch>,
    peers: Peers,
    followed: RefCell<BTreeMap<TopicPartitionId, Rc<Followed<D>>>>,
    /// Led here, with other replicas.
    led: RefCell<BTreeMap<TopicPartitionId, Rc<Partition<D>>>>,
    /// By the leader's shard.
    uplinks: RefCell<BTreeMap<BrokerId, Rc<Uplink>>>,
    /// By the follower's shard.
    downlinks: RefCell<BTreeMap<BrokerId, Rc<Downlink<D>>>>,
    /// The newest open of each follower that could not be answered yet, and by which link it came.
    early_opens: RefCell<BTreeMap<(TopicPartitionId, BrokerId), (Session, LinkOpen)>>,
    /// Something waits for room in a peer's mailbox.
    stuck: Signal,
    /// There is something to follow or to lead.
    begun: Signal,
    /// No open of this shard had a higher number: a leader takes only one that is newer than the last.
    opens: Rc<Cell<u32>>,
}

impl<D: Disk> Replicas<D> {
    /// None yet, of the shard that is `broker`.
    pub(crate) fn new(broker: BrokerId, peers: Peers) -> Self {
        Self {
            broker,
            epoch: Cell::new(BrokerEpoch(-1)),
            peers,
            followed: RefCell::default(),
            led: RefCell::default(),
            uplinks: RefCell::default(),
            downlinks: RefCell::default(),
            early_opens: RefCell::default(),
            stuck: Signal::default(),
            begun: Signal::default(),
            opens: Rc::default(),
        }
    }

    /// The shard's registration is this now. Whether it was another one: what it follows, it has to follow anew as what it is.
    pub(crate) fn registered(&self, epoch: BrokerEpoch) -> bool {
        let before = self.epoch.replace(epoch);
        if before != epoch {
            for (_, uplink) in std::mem::take(&mut *self.uplinks.borrow_mut()) {
                uplink.end();
            }
            self.downlinks.borrow_mut().retain(|_, downlink| {
                let stays = downlink.session.own >= epoch;
                if !stays {
                    downlink.end();
                }
                stays
            });
        }
        before != epoch
    }

    /// The replica that follows here.
    pub(crate) fn followed(&self, id: TopicPartitionId) -> Option<Rc<Followed<D>>> {
        self.followed.borrow().get(&id).cloned()
    }

    /// Every replica that follows here.
    pub(crate) fn all_followed(&self) -> Vec<Rc<Followed<D>>> {
        self.followed.borrow().values().cloned().collect()
    }

    /// A partition with other replicas is led here from now on.
    pub(crate) fn lead(&self, partition: &Rc<Partition<D>>) {
        self.led
            .borrow_mut()
            .insert(partition.log.id(), partition.clone());
        self.begun.set();
    }

    /// A partition is not led here any more.
    pub(crate) fn stop_leading(&self, id: TopicPartitionId) {
        self.led.borrow_mut().remove(&id);
    }

    fn led(&self, id: TopicPartitionId) -> Option<Rc<Partition<D>>> {
        self.led.borrow().get(&id).cloned()
    }

    /// Every partition with other replicas that is led here.
    pub(crate) fn all_led(&self) -> Vec<Rc<Partition<D>>> {
        self.led.borrow().values().cloned().collect()
    }

    /// The acknowledged ends of logs moved: followers tell their leaders. Called by the journal in the poll that completed the
    /// flush.
    pub(crate) fn advanced(&self, logs: &[Log<D>], now: Monotonic) {
        if self.followed.borrow().is_empty() {
            return;
        }
        let mut told = Vec::new();
        for log in logs {
            if let Some(followed) = self.followed(log.id())
                && let Some(uplink) = followed.flushed(log, now)
                && !told.iter().any(|known| Rc::ptr_eq(known, &uplink))
            {
                told.push(uplink);
            }
        }
        for uplink in told {
            self.send_acks(&uplink);
        }
    }

    fn send_acks(&self, uplink: &Uplink) {
        if !uplink.send_acks() {
            self.stuck.set();
        }
    }
}

fn reference(id: TopicPartitionId) -> PartitionReference {
    PartitionReference {
        topic: id.topic_id,
        partition: id.partition,
    }
}

fn log_of(partition: PartitionReference) -> TopicPartitionId {
    TopicPartitionId {
        topic_id: partition.topic,
        partition: partition.partition,
    }
}

fn millis(now: Monotonic) -> i64 {
    now.since(Monotonic(0)).as_millis() as i64
}
