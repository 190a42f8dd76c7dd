//! The tasks that empty the shard's mailbox, and that let time pass.

use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::{Either, select};
use strandline_core::link::LinkMessage;
use strandline_core::replica::{FollowerEvent, LeaderEvent};
use strandline_runtime::Runtime;
use strandline_runtime::mailbox::Receiver;
use strandline_storage::disk::Disk;

use super::{Delivery, FULL_PAUSE, Session, apply, lead};
use crate::shard::Shard;

/// How often time passes for replicas, at most.
const TICK: Duration = Duration::from_millis(500);

/// Takes messages of other shards; never waits for anything else.
pub(crate) async fn run<R: Runtime, D: Disk>(shard: Rc<Shard<R, D>>, mut inbox: Receiver<Delivery>) {
    while let Some(delivery) = inbox.receive().await {
        shard.unpaused().await;
        take(&shard, delivery);
        shard.runtime.yield_if_needed().await;
    }
}

fn take<R: Runtime, D: Disk>(shard: &Rc<Shard<R, D>>, delivery: Delivery) {
    // To an earlier life of this shard. Others may know of a later one than its own image does.
    if delivery.to < shard.replicas.epoch.get() {
        return;
    }
    let session = Session {
        peer: delivery.from,
        epoch: delivery.epoch,
        own: delivery.to,
    };
    let uplink = || {
        let uplinks = shard.replicas.uplinks.borrow();
        let known = uplinks.get(&delivery.from);
        known
            .filter(|uplink| uplink.leader_epoch == delivery.epoch)
            .cloned()
    };
    match delivery.message {
        LinkMessage::Open(opens) => lead::open(shard, session, opens),
        LinkMessage::Ack(acks) => lead::acks(shard, session, acks),
        LinkMessage::Credit { window, bytes } => {
            if let Some(downlink) = lead::downlink_to(shard, session) {
                downlink.granted(window, bytes);
            }
        }
        LinkMessage::Opened(answers) => {
            if let Some(uplink) = uplink() {
                answers.into_iter().for_each(|opened| uplink.opened(opened));
            }
        }
        LinkMessage::Frames(head) => {
            if let Some(uplink) = uplink() {
                uplink.frames(head, delivery.body);
            }
        }
        LinkMessage::Alive => {}
    }
}

/// Lets time pass for every replica of the shard that is not alone.
pub(crate) async fn tick<R: Runtime, D: Disk>(shard: Rc<Shard<R, D>>) {
    let replicas = &shard.replicas;
    let lag = Duration::from_millis(shard.config.replica_lag_time_max_ms().max(2) as u64);
    let every = TICK.min(lag / 2);
    loop {
        if replicas.followed.borrow().is_empty() && replicas.led.borrow().is_empty() {
            replicas.begun.wait().await;
            continue;
        }
        // One sleep for many looks at peers whose mailbox is full: time passes however often they are looked at.
        let mut passed = pin!(shard.runtime.sleep(every));
        loop {
            let stuck = pin!(replicas.stuck.wait());
            match select(passed.as_mut(), stuck).await {
                Either::Left(_) => break,
                Either::Right(_) => {
                    shard.runtime.sleep(FULL_PAUSE).await;
                    say_again(&shard);
                }
            }
        }
        pass(&shard).await;
    }
}

async fn pass<R: Runtime, D: Disk>(shard: &Rc<Shard<R, D>>) {
    shard.unpaused().await;
    for partition in shard.replicas.all_led() {
        if let Some(alter) = partition.step(LeaderEvent::Tick, shard.runtime.now()) {
            lead::propose(shard, &partition, alter);
        }
        shard.runtime.yield_if_needed().await;
    }
    for followed in shard.replicas.all_followed() {
        let stepped = followed.step(FollowerEvent::Tick, None, shard.runtime.now());
        if let Some((effects, uplink)) = stepped {
            apply::say(&followed, &uplink, &effects);
        }
        shard.runtime.yield_if_needed().await;
    }
    send_acks(shard);
}

fn send_acks<R: Runtime, D: Disk>(shard: &Shard<R, D>) {
    let uplinks: Vec<_> = shard.replicas.uplinks.borrow().values().cloned().collect();
    for uplink in uplinks {
        shard.replicas.send_acks(&uplink);
    }
}

/// Says again what found no room.
fn say_again<R: Runtime, D: Disk>(shard: &Shard<R, D>) {
    let replicas = &shard.replicas;
    let uplinks: Vec<_> = replicas.uplinks.borrow().values().cloned().collect();
    for uplink in uplinks {
        if !uplink.grant_again() {
            replicas.stuck.set();
        }
        replicas.send_acks(&uplink);
    }
}
