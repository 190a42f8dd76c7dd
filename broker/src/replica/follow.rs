//! A replica that follows: its log, its state, and the link to its leader.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use strandline_core::link::{LinkAck, LinkOpen};
use strandline_core::metadata::{BrokerEpoch, BrokerId, ClusterImage, Partition as AssignedPartition};
use strandline_core::replica::message::{Ack, Open};
use strandline_core::replica::{FollowerEffect, FollowerEvent, FollowerReplica, FollowerState, LogPosition};
use strandline_runtime::local::Event;
use strandline_runtime::{Monotonic, Queue, Runtime};
use strandline_storage::disk::Disk;
use strandline_storage::{Log, LogSettings, StoreError, TopicPartitionId};

use super::uplink::{Uplink, Way};
use super::{Replicas, apply, reference};
use crate::link;
use crate::shard::Shard;

/// A replica of a partition that another shard leads, or nobody.
pub(crate) struct Followed<D: Disk> {
    pub(crate) id: TopicPartitionId,
    log: RefCell<Log<D>>,
    following: RefCell<Option<Following>>,
    /// Whom it gave up to follow.
    gave_up: Cell<Option<FollowerState>>,
    /// The newest open of the shard.
    opens: Rc<Cell<u32>>,
    /// It contradicts its leader; whoever leads next may be another.
    damaged: Cell<bool>,
    /// What its leader sent is being done; nobody else may touch its log meanwhile.
    busy: Cell<bool>,
    idle: Event,
}

struct Following {
    replica: FollowerReplica,
    uplink: Rc<Uplink>,
}

impl<D: Disk> Followed<D> {
    /// Its log.
    pub(crate) fn log(&self) -> Log<D> {
        self.log.borrow().clone()
    }

    pub(super) fn set_log(&self, log: Log<D>) {
        *self.log.borrow_mut() = log;
    }

    /// Whom it follows now and by what, or would if it had not given up.
    fn state(&self) -> Option<FollowerState> {
        let following = self.following.borrow();
        let state = following.as_ref().map(|following| *following.replica.state());
        state.or(self.gave_up.get())
    }

    /// Steps the state; what it wants, and the link to its leader. Nothing, if it follows nobody, or not by `uplink`.
    pub(super) fn step(
        &self,
        event: FollowerEvent<'_>,
        by: Option<&Rc<Uplink>>,
        now: Monotonic,
    ) -> Option<(Vec<FollowerEffect>, Rc<Uplink>)> {
        let mut following = self.following.borrow_mut();
        let following = following.as_mut()?;
        if by.is_some_and(|uplink| !Rc::ptr_eq(uplink, &following.uplink)) {
            return None;
        }
        let mut effects = Vec::new();
        following.replica.step(event, now.millis(), &mut effects);
        self.opens.set(self.opens.get().max(following.replica.opens()));
        Some((effects, following.uplink.clone()))
    }

    /// The log's acknowledged end moved. The link by which its leader is to be told.
    pub(super) fn flushed(&self, log: &Log<D>, now: Monotonic) -> Option<Rc<Uplink>> {
        if log.log_id() != self.log.borrow().log_id() {
            return None;
        }
        let event = FollowerEvent::Flushed(log.acknowledged_end());
        let (effects, uplink) = self.step(event, None, now)?;
        let has_news = !effects.is_empty();
        for effect in effects {
            self.perform_at_once(effect, &uplink);
        }
        has_news.then_some(uplink)
    }

    /// What needs neither disk nor time.
    fn perform_at_once(&self, effect: FollowerEffect, uplink: &Uplink) {
        match effect {
            FollowerEffect::Ack(ack) => uplink.ack(link_ack(self.id, &ack)),
            FollowerEffect::HighWatermark(offset) => self.log.borrow().set_high_watermark(offset),
            other => unreachable!("a flush asks for no {other:?}"),
        }
    }

    /// Nobody is followed any more; what is being done for the last leader ends first.
    async fn stop(&self) {
        *self.following.borrow_mut() = None;
        loop {
            let idle = self.idle.wait();
            if !self.busy.get() {
                return;
            }
            idle.await;
        }
    }

    /// Its log belongs to `work` until that ends.
    pub(super) async fn while_busy<T>(&self, work: impl Future<Output = T>) -> T {
        self.busy.set(true);
        let output = work.await;
        self.busy.set(false);
        self.idle.notify_all();
        output
    }

    /// Whether it still follows by this link.
    pub(super) fn follows_by(&self, uplink: &Rc<Uplink>) -> bool {
        let following = self.following.borrow();
        following
            .as_ref()
            .is_some_and(|following| Rc::ptr_eq(&following.uplink, uplink))
    }

    /// It is damaged, and follows nobody until the next leader.
    pub(super) fn quarantine(&self) {
        self.damaged.set(true);
        self.give_up();
    }

    pub(super) fn is_damaged(&self) -> bool {
        self.damaged.get()
    }

    /// It contradicts what was committed, or its log takes nothing any more: it follows nobody until the next leader.
    pub(super) fn give_up(&self) {
        if let Some(following) = self.following.borrow_mut().take() {
            self.gave_up.set(Some(*following.replica.state()));
        }
    }
}

pub(super) fn link_ack(id: TopicPartitionId, ack: &Ack) -> LinkAck {
    LinkAck {
        partition: reference(id),
        leader_epoch: ack.leader_epoch,
        open: ack.open,
        end: ack.end,
        log_start: ack.log_start,
    }
}

pub(super) fn link_open(id: TopicPartitionId, open: &Open) -> LinkOpen {
    LinkOpen {
        partition: reference(id),
        leader_epoch: open.leader_epoch,
        open: open.open,
        last_epoch: open.last_epoch,
        end: open.end,
        start: open.start,
    }
}

pub(super) fn position_of<D: Disk>(log: &Log<D>) -> LogPosition {
    let position = log.position();
    LogPosition {
        start: position.start,
        end: position.end,
        flushed_end: position.flushed_end,
        last_epoch: position.last_epoch,
        chain: position.chain,
    }
}

/// The replica of `id` here is a follower by `image`: of whoever leads, or of nobody.
///
/// # Errors
/// [`StoreError`] when the log takes nothing.
pub(crate) async fn follow<R: Runtime, D: Disk>(
    shard: &Rc<Shard<R, D>>,
    image: &ClusterImage,
    assigned: &AssignedPartition,
    log: Log<D>,
    settings: LogSettings,
) -> Result<(), StoreError> {
    let replicas = &shard.replicas;
    let id = log.id();
    let wanted = state_of(image, assigned, shard.broker_id);
    let known = replicas.followed(id);
    if let Some(known) = &known {
        known.log().set_settings(settings.clone());
        if known.state() == wanted && known.log().log_id() == log.log_id() {
            return Ok(());
        }
        known.stop().await;
    } else {
        log.set_settings(settings);
    }
    let log = known.map_or(log, |known| known.log());
    // It may have led before: what it began without a record gives way to what the leader has.
    log.forget_empty_epochs().await?;
    let followed = Rc::new(Followed {
        id,
        log: RefCell::new(log.clone()),
        following: RefCell::default(),
        gave_up: Cell::new(None),
        opens: replicas.opens.clone(),
        damaged: Cell::new(false),
        busy: Cell::new(false),
        idle: Event::new(),
    });
    replicas.followed.borrow_mut().insert(id, followed.clone());
    replicas.begun.set();
    let Some(state) = wanted else { return Ok(()) };
    if let Some(from) = log.damaged_from() {
        tracing::error!(partition = %id, from, "a damaged replica does not follow");
        return Ok(());
    }
    let uplink = uplink_to(shard, image, (assigned.leader, state.leader_broker_epoch));
    let replica = FollowerReplica::follow(state, position_of(&log), log.high_watermark());
    let replica = replica.opening_after(replicas.opens.get());
    *followed.following.borrow_mut() = Some(Following { replica, uplink });
    connected(shard, &followed);
    Ok(())
}

/// The replica of `id` here does not follow any more: it leads, or is gone.
pub(crate) async fn stop_following<D: Disk>(replicas: &Replicas<D>, id: TopicPartitionId) {
    let followed = replicas.followed.borrow_mut().remove(&id);
    if let Some(followed) = followed {
        followed.stop().await;
    }
}

/// Asks the leader for frames.
fn connected<R: Runtime, D: Disk>(shard: &Shard<R, D>, followed: &Followed<D>) {
    let stepped = followed.step(FollowerEvent::Connected, None, shard.runtime.now());
    if let Some((effects, uplink)) = stepped {
        apply::say(followed, &uplink, &effects);
    }
}

fn state_of(image: &ClusterImage, assigned: &AssignedPartition, own: BrokerId) -> Option<FollowerState> {
    let epoch = |broker: BrokerId| image.broker(broker).map(|broker| broker.epoch);
    if assigned.leader == BrokerId::NONE || assigned.leader == own {
        return None;
    }
    Some(FollowerState {
        broker: own,
        broker_epoch: epoch(own)?,
        leader_epoch: assigned.leader_epoch,
        leader_broker_epoch: epoch(assigned.leader)?,
        lossy_epoch: assigned.lossy_epoch,
    })
}

/// The link to this registration of a leader's shard, opened if it is not there.
fn uplink_to<R: Runtime, D: Disk>(
    shard: &Rc<Shard<R, D>>,
    image: &ClusterImage,
    leader: (BrokerId, BrokerEpoch),
) -> Rc<Uplink> {
    let replicas = &shard.replicas;
    let known = replicas.uplinks.borrow().get(&leader.0).cloned();
    if let Some(known) = known {
        if known.leader_epoch == leader.1 {
            return known;
        }
        known.end();
    }
    let budget = shard.store.budget();
    let peers = replicas.peers.count().max(image.brokers().len());
    let reserved = budget.claim(Uplink::reserved_bytes(budget.limit(), peers));
    let own = (replicas.broker, replicas.epoch.get());
    let is_remote = leader.0.node() != replicas.broker.node();
    let link = image.broker(leader.0).and_then(|broker| broker.link.clone());
    let way = match is_remote {
        true => Way::Link(link),
        false => Way::Mailbox(replicas.peers.sender(leader.0)),
    };
    let uplink = Rc::new(Uplink::new(own, leader, way, reserved));
    replicas.uplinks.borrow_mut().insert(leader.0, uplink.clone());
    if is_remote {
        shard
            .runtime
            .spawn(Queue::Latency, link::dial(shard.clone(), uplink.clone()));
    } else {
        grant(replicas, &uplink);
    }
    shard
        .runtime
        .spawn(Queue::Latency, apply::run(shard.clone(), uplink.clone()));
    uplink
}

fn grant<D: Disk>(replicas: &Replicas<D>, uplink: &Uplink) {
    if !uplink.grant() {
        replicas.stuck.set();
    }
}

/// There is a connection to the leader's shard, anew: it is told the credit, and asked for everything that is followed by it.
pub(crate) fn linked<R: Runtime, D: Disk>(shard: &Shard<R, D>, uplink: &Rc<Uplink>) {
    let replicas = &shard.replicas;
    grant(replicas, uplink);
    let now = shard.runtime.now();
    let mut opens = Vec::new();
    for followed in replicas.all_followed() {
        let stepped = followed.step(FollowerEvent::Connected, Some(uplink), now);
        for effect in stepped.into_iter().flat_map(|(effects, _)| effects) {
            match effect {
                FollowerEffect::Open(open) => opens.push(link_open(followed.id, &open)),
                other => unreachable!("a connection asks for no {other:?}"),
            }
        }
    }
    if !opens.is_empty() {
        uplink.open(opens);
    }
}
