//! The leader's side: opens and acks of followers, and changes of the ISR.

use std::cmp::Ordering;
use std::rc::Rc;
use std::time::Duration;

use strandline_core::link::{LinkAck, LinkMessage, LinkOpen, LinkOpened, Window};
use strandline_core::metadata::{Answer, Command, IsrChange};
use strandline_core::replica::message::{Ack, Open, OpenAnswer};
use strandline_core::replica::{AlterPartition, LeaderEvent};
use strandline_runtime::mailbox::Sender;
use strandline_runtime::{Queue, Runtime};
use strandline_storage::disk::Disk;
use strandline_wire::ErrorCode;

use super::{Delivery, Downlink, EARLY_OPENS_MAX, Session, Stream, log_of, reference};
use crate::shard::{Partition, Shard, add};

/// The link between these lives of two shards; `None` if one between later ones is known, or the shard cannot be reached.
pub(super) fn downlink_to<R: Runtime, D: Disk>(
    shard: &Rc<Shard<R, D>>,
    session: Session,
) -> Option<Rc<Downlink<D>>> {
    let (replicas, peer) = (&shard.replicas, session.peer);
    let known = replicas.downlinks.borrow().get(&peer).cloned();
    if let Some(known) = known {
        let lives = |session: Session| (session.epoch, session.own);
        match lives(known.session).cmp(&lives(session)) {
            Ordering::Equal => return Some(known),
            Ordering::Greater => return None,
            Ordering::Less => known.end(),
        }
    }
    let downlink = Rc::new(Downlink::new(session, replicas.peers.sender(peer)?));
    replicas.downlinks.borrow_mut().insert(peer, downlink.clone());
    downlink.start(shard);
    Some(downlink)
}

/// A shard of another node opened a link to this one: what it is to be told goes to `sender`. `None` if a newer registration of it
/// has one.
pub(crate) fn link_accepted<R: Runtime, D: Disk>(
    shard: &Rc<Shard<R, D>>,
    session: Session,
    sender: Sender<Delivery>,
) -> Option<Rc<Downlink<D>>> {
    let mut downlinks = shard.replicas.downlinks.borrow_mut();
    if let Some(known) = downlinks.get(&session.peer) {
        if known.session.epoch > session.epoch {
            return None;
        }
        known.end();
    }
    let downlink = Rc::new(Downlink::new(session, sender));
    downlinks.insert(session.peer, downlink.clone());
    downlink.start(shard);
    Some(downlink)
}

/// The link is closed; its follower opens another one.
pub(crate) fn link_closed<R: Runtime, D: Disk>(shard: &Shard<R, D>, downlink: &Rc<Downlink<D>>) {
    downlink.end();
    let mut downlinks = shard.replicas.downlinks.borrow_mut();
    if downlinks
        .get(&downlink.session.peer)
        .is_some_and(|known| Rc::ptr_eq(known, downlink))
    {
        downlinks.remove(&downlink.session.peer);
    }
}

/// A follower's shard asks for frames.
pub(crate) fn open<R: Runtime, D: Disk>(shard: &Rc<Shard<R, D>>, session: Session, opens: Vec<LinkOpen>) {
    let Some(downlink) = downlink_to(shard, session) else {
        return;
    };
    let mut answers = Vec::new();
    for open in opens {
        match try_open(shard, &downlink, &open) {
            Some(opened) => answers.push(opened),
            None => keep(shard, session, open),
        }
    }
    answer(shard, &downlink, answers);
}

fn answer<R: Runtime, D: Disk>(shard: &Shard<R, D>, downlink: &Downlink<D>, answers: Vec<LinkOpened>) {
    if !answers.is_empty() {
        downlink.say(shard.broker_id, LinkMessage::Opened(answers));
    }
}

/// An open that this shard knows nothing of yet: its own image may be on its way.
fn keep<R: Runtime, D: Disk>(shard: &Shard<R, D>, session: Session, open: LinkOpen) {
    let mut early = shard.replicas.early_opens.borrow_mut();
    if early.len() < EARLY_OPENS_MAX {
        early.insert((log_of(open.partition), session.peer), (session, open));
    }
}

/// Answers what came before the image by which it makes sense.
pub(crate) fn retry_early_opens<R: Runtime, D: Disk>(shard: &Rc<Shard<R, D>>) {
    let early = std::mem::take(&mut *shard.replicas.early_opens.borrow_mut());
    for (session, open) in early.into_values() {
        if let Some(downlink) = downlink_to(shard, session)
            && let Some(opened) = try_open(shard, &downlink, &open)
        {
            answer(shard, &downlink, vec![opened]);
        }
    }
}

fn try_open<R: Runtime, D: Disk>(
    shard: &Shard<R, D>,
    downlink: &Rc<Downlink<D>>,
    open: &LinkOpen,
) -> Option<LinkOpened> {
    let partition = shard.replicas.led(log_of(open.partition))?;
    let asked = Open {
        broker: downlink.session.peer,
        broker_epoch: downlink.session.epoch,
        leader_epoch: open.leader_epoch,
        open: open.open,
        last_epoch: open.last_epoch,
        end: open.end,
        start: open.start,
    };
    let opened = partition.open(&asked)?;
    if opened.answer == OpenAnswer::Stream {
        let window = match open.end < partition.high_watermark() {
            true => Window::CatchUp,
            false => Window::Tail,
        };
        let stream = Rc::new(Stream::new(downlink.clone(), open.open, open.end, window));
        partition.stream_to(stream);
    }
    Some(LinkOpened {
        partition: open.partition,
        leader_epoch: opened.leader_epoch,
        open: opened.open,
        answer: opened.answer,
    })
}

/// A follower's shard tells how far it is.
pub(crate) fn acks<R: Runtime, D: Disk>(shard: &Rc<Shard<R, D>>, session: Session, acks: Vec<LinkAck>) {
    let now = shard.runtime.now();
    for ack in acks {
        let Some(partition) = shard.replicas.led(log_of(ack.partition)) else {
            continue;
        };
        let event = LeaderEvent::Ack(Ack {
            broker: session.peer,
            broker_epoch: session.epoch,
            leader_epoch: ack.leader_epoch,
            open: ack.open,
            end: ack.end,
            log_start: ack.log_start,
        });
        if let Some(alter) = partition.step(event, now) {
            propose(shard, &partition, alter);
        }
    }
}

/// Asks the quorum for another ISR, and goes on with its answer.
pub(crate) fn propose<R: Runtime, D: Disk>(
    shard: &Rc<Shard<R, D>>,
    partition: &Rc<Partition<D>>,
    alter: AlterPartition,
) {
    let (shard, partition) = (shard.clone(), partition.clone());
    let task = shard.clone();
    task.runtime.spawn(Queue::Latency, async move {
        let mut next = Some(alter);
        while let Some(alter) = next.take() {
            let (attempt, before) = (alter.attempt, partition.in_sync());
            let outcome = ask(&shard, &partition, alter).await;
            if let Ok(altered) = &outcome {
                let now = altered.isr.len();
                add(&shard.metrics.isr_expands, now.saturating_sub(before) as u64);
                add(&shard.metrics.isr_shrinks, before.saturating_sub(now) as u64);
            }
            if partition.lost().is_some() {
                return;
            }
            let event = LeaderEvent::Altered { attempt, outcome };
            next = partition.step(event, shard.runtime.now());
        }
    });
}

async fn ask<R: Runtime, D: Disk>(
    shard: &Shard<R, D>,
    partition: &Partition<D>,
    alter: AlterPartition,
) -> Result<strandline_core::replica::AlteredPartition, ErrorCode> {
    let command = Command::AlterPartitions {
        leader: shard.broker_id,
        epoch: shard.replicas.epoch.get(),
        changes: vec![IsrChange {
            partition: reference(partition.log.id()),
            leader_epoch: alter.leader_epoch,
            partition_epoch: alter.partition_epoch,
            isr: alter.isr,
        }],
    };
    match shard.control.propose(command, Duration::ZERO).await {
        Ok(Answer::PartitionsAltered(mut answers)) => match answers.pop() {
            Some(answer) => answer.map_err(|error| error.code()),
            None => unreachable!("apply answers every change"),
        },
        Ok(other) => unreachable!("apply answers a change of the ISR as such, not with {other:?}"),
        Err(error) => Err(error.code()),
    }
}
