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
use std::time::Duration;

use strandline_core::link::{LinkIdentity, LinkOpen};
use strandline_core::metadata::{BrokerEpoch, BrokerId, ClusterImage, PartitionReference};
use strandline_runtime::Monotonic;
use strandline_storage::disk::Disk;
use strandline_storage::{Log, TopicPartitionId};

pub(crate) use downlink::Downlink;
pub(crate) use follow::{Followed, follow, linked, stop_following};
pub(crate) use inbox::{run, tick};
pub(crate) use lead::{acks, link_accepted, link_closed, open, propose, retry_early_opens};
pub(crate) use peers::MAILBOX_CAPACITY;
pub use peers::{Delivery, Peers};
pub(crate) use stream::Stream;
pub(crate) use uplink::Uplink;

use crate::shard::{Partition, Signal};

/// Between which lives of two shards a link is, by the leader's side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Session {
    /// The follower's shard.
    pub(crate) peer: BrokerId,
    /// Its registration.
    pub(crate) epoch: BrokerEpoch,
    /// This shard's registration, as the follower knows it; its own image may be on its way.
    pub(crate) own: BrokerEpoch,
}

/// How long to leave a peer alone whose mailbox was full.
const FULL_PAUSE: Duration = Duration::from_millis(1);
/// Opens that came before this shard knew of them, at most; their followers ask again anyway.
const EARLY_OPENS_MAX: usize = 16_384;

/// Everything of one shard that has more than one replica.
pub(crate) struct Replicas<D: Disk> {
    broker: BrokerId,
    /// This shard's registration, by its image.
    epoch: Cell<BrokerEpoch>,
    /// Who this shard is on links to other nodes.
    identity: Cell<Option<LinkIdentity>>,
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
            identity: Cell::new(None),
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

    /// The shard is registered as `image` says. Whether it was otherwise before: what it follows, it has to follow anew as what it
    /// is.
    pub(crate) fn registered(&self, image: &ClusterImage) -> bool {
        let Some(own) = image.broker(self.broker) else {
            return false;
        };
        if let (Some(cluster_id), Some(node)) = (image.cluster_id(), image.node(self.broker.node())) {
            self.identity.set(Some(LinkIdentity {
                cluster_id,
                directory_id: node.directory_id,
                broker: self.broker,
                broker_epoch: own.epoch,
            }));
        }
        let before = self.epoch.replace(own.epoch);
        if before != own.epoch {
            for (_, uplink) in std::mem::take(&mut *self.uplinks.borrow_mut()) {
                uplink.end();
            }
            self.downlinks.borrow_mut().retain(|_, downlink| {
                let stays = downlink.session.own >= own.epoch;
                if !stays {
                    downlink.end();
                }
                stays
            });
        }
        before != own.epoch
    }

    /// Who this shard is on links to other nodes, once it is registered.
    pub(crate) fn identity(&self) -> Option<LinkIdentity> {
        self.identity.get()
    }

    /// Whether a follower's shard has a link to this one.
    pub(crate) fn has_link_to(&self, follower: BrokerId) -> bool {
        self.downlinks.borrow().contains_key(&follower)
    }

    /// Whether something is followed by this link.
    pub(crate) fn is_used(&self, uplink: &Rc<Uplink>) -> bool {
        self.followed
            .borrow()
            .values()
            .any(|followed| followed.follows_by(uplink))
    }

    /// Lets go of a link by which nothing is followed.
    pub(crate) fn end_unused(&self, uplink: &Rc<Uplink>) {
        let mut uplinks = self.uplinks.borrow_mut();
        if uplinks
            .get(&uplink.leader)
            .is_some_and(|known| Rc::ptr_eq(known, uplink))
        {
            uplinks.remove(&uplink.leader);
        }
        uplink.end();
    }

    /// The replica that follows here.
    pub(crate) fn followed(&self, id: TopicPartitionId) -> Option<Rc<Followed<D>>> {
        self.followed.borrow().get(&id).cloned()
    }

    /// Every replica that follows here.
    pub(crate) fn all_followed(&self) -> Vec<Rc<Followed<D>>> {
        self.followed.borrow().values().cloned().collect()
    }

    /// The replicas that contradict what their leaders have.
    pub(crate) fn damaged(&self) -> Vec<PartitionReference> {
        let followed = self.followed.borrow();
        let damaged = followed.values().filter(|followed| followed.is_damaged());
        damaged.map(|followed| reference(followed.id)).collect()
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

pub(crate) fn reference(id: TopicPartitionId) -> PartitionReference {
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
