//! Applying what a leader's shard sent: one task a link, which may wait for memory and for the disk.

use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use strandline_core::link::{LinkFrames, LinkOpened};
use strandline_core::metadata::Command;
use strandline_core::replica::message::{FrameInfo, FramesHead, OpenAnswer, Opened};
use strandline_core::replica::{FollowerEffect, FollowerEvent};
use strandline_runtime::{Queue, Runtime};
use strandline_storage::disk::Disk;
use strandline_storage::format::frame::{FLAG_GAP, FrameHeader};
use strandline_storage::{FrameError, Stopped, StoreError};

use super::follow::{Followed, link_ack, link_open, position_of};
use super::uplink::{Arrived, Uplink};
use super::{log_of, reference};
use crate::shard::Shard;

/// How long to wait for memory or disk space between two looks.
const ROOM_PAUSE: Duration = Duration::from_secs(1);

/// Applies what comes by `uplink` until it ends.
pub(super) async fn run<R: Runtime, D: Disk>(shard: Rc<Shard<R, D>>, uplink: Rc<Uplink>) {
    while !uplink.has_ended() && !shard.is_stopping() {
        shard.unpaused().await;
        let arrived = uplink.arrived.borrow_mut().pop_front();
        let result = match arrived {
            None => {
                shard.replicas.send_acks(&uplink);
                uplink.wake.wait().await;
                continue;
            }
            Some(Arrived::Opened(opened)) => self::opened(&shard, &uplink, opened).await,
            Some(Arrived::Frames(head, body, connection)) => {
                let taken = (head.window, body.len() as u64, connection);
                let result = frames(&shard, &uplink, head, body).await;
                if !uplink.released(taken) {
                    shard.replicas.stuck.set();
                }
                result
            }
        };
        if result.is_err() {
            // The store says why.
            return;
        }
        shard.runtime.yield_if_needed().await;
    }
}

async fn opened<R: Runtime, D: Disk>(
    shard: &Rc<Shard<R, D>>,
    uplink: &Rc<Uplink>,
    opened: LinkOpened,
) -> Result<(), Stopped> {
    let Some(followed) = shard.replicas.followed(log_of(opened.partition)) else {
        return Ok(());
    };
    let local = match opened.answer {
        OpenAnswer::Diverging { epoch, .. } => followed.log().end_offset_for_epoch(epoch),
        _ => None,
    };
    let event = FollowerEvent::Opened {
        opened: Opened {
            broker_epoch: uplink.leader_epoch,
            leader_epoch: opened.leader_epoch,
            open: opened.open,
            answer: opened.answer,
        },
        local,
    };
    let nothing = Bytes::new();
    let work = perform(shard, uplink, &followed, event, &[], &nothing);
    followed.while_busy(work).await
}

async fn frames<R: Runtime, D: Disk>(
    shard: &Rc<Shard<R, D>>,
    uplink: &Rc<Uplink>,
    head: LinkFrames,
    body: Bytes,
) -> Result<(), Stopped> {
    let Some(followed) = shard.replicas.followed(log_of(head.partition)) else {
        return Ok(());
    };
    let Some((infos, ranges)) = split(&body) else {
        tracing::error!(leader = uplink.leader.0, partition = %followed.id, "a message holds no whole frames: it is dropped");
        return Ok(());
    };
    let event = FollowerEvent::Frames {
        head: FramesHead {
            broker_epoch: uplink.leader_epoch,
            leader_epoch: head.leader_epoch,
            open: head.open,
            high_watermark: head.high_watermark,
            log_start: head.log_start,
        },
        frames: &infos,
    };
    let work = perform(shard, uplink, &followed, event, &ranges, &body);
    followed.while_busy(work).await
}

/// The frames of a body, and where each lies; `None` if it is not made of whole ones. What they hold is verified when they are
/// appended.
fn split(body: &[u8]) -> Option<(Vec<FrameInfo>, Vec<Range<usize>>)> {
    let (mut infos, mut ranges, mut at) = (Vec::new(), Vec::new(), 0);
    while at < body.len() {
        let header = FrameHeader::decode(&body[at..]).ok()?;
        let end = at.checked_add(header.frame_bytes())?;
        if end > body.len() || header.is_pad() {
            return None;
        }
        infos.push(FrameInfo {
            base_offset: header.base_offset,
            end_offset: header.end_offset(),
            leader_epoch: header.leader_epoch,
            previous: header.previous,
            chain: header.chain(),
            gap: header.flags & FLAG_GAP != 0,
        });
        ranges.push(at..end);
        at = end;
    }
    Some((infos, ranges))
}

/// Steps the state, and does what it wants, in order.
async fn perform<R: Runtime, D: Disk>(
    shard: &Rc<Shard<R, D>>,
    uplink: &Rc<Uplink>,
    followed: &Rc<Followed<D>>,
    event: FollowerEvent<'_>,
    ranges: &[Range<usize>],
    body: &Bytes,
) -> Result<(), Stopped> {
    let stepped = followed.step(event, Some(uplink), shard.runtime.now());
    let Some((effects, _)) = stepped else {
        return Ok(());
    };
    let mut effects = std::collections::VecDeque::from(effects);
    while let Some(effect) = effects.pop_front() {
        match effect {
            FollowerEffect::Append(count) => {
                let log = followed.log();
                for range in &ranges[..count] {
                    if !room(shard, uplink, followed, range.len()).await? {
                        return Ok(());
                    }
                    match log.append_frame(&body[range.clone()]) {
                        Ok(()) => {}
                        Err(FrameError::Stopped(stopped)) => return Err(stopped),
                        Err(error) => {
                            damaged(shard, followed, &error.to_string());
                            return Ok(());
                        }
                    }
                }
            }
            FollowerEffect::HighWatermark(offset) => followed.log().set_high_watermark(offset),
            FollowerEffect::RaiseStart(offset) => {
                if let Err(error) = followed.log().set_start_offset(offset).await {
                    return failed(shard, followed, error);
                }
            }
            FollowerEffect::Truncate(offset) => {
                tracing::info!(partition = %followed.id, offset, end = followed.log().end_offset(), "cut: the leader's log parts there");
                let log = followed.log();
                if let Err(error) = log.truncate_to(offset).await {
                    return failed(shard, followed, error);
                }
                effects.extend(cut(shard, uplink, followed));
            }
            FollowerEffect::Restart(offset) => {
                tracing::info!(partition = %followed.id, offset, end = followed.log().end_offset(), "starts anew: the leader's log begins there");
                match shard.store.restart_log(followed.id, offset) {
                    Ok(log) => followed.set_log(log),
                    Err(error) => return failed(shard, followed, error),
                }
                effects.extend(cut(shard, uplink, followed));
            }
            FollowerEffect::Quarantine(reason) => {
                damaged(shard, followed, &reason);
                return Ok(());
            }
            said @ (FollowerEffect::Open(_) | FollowerEffect::Ack(_)) => {
                say(followed, uplink, &[said]);
            }
        }
    }
    Ok(())
}

/// Waits until the shard takes a frame: what is refused for want of room is not refused for good. Meanwhile the leader waits
/// for credit. False if the replica does not follow by this link any more: an image that has it lead must not wait for room.
async fn room<R: Runtime, D: Disk>(
    shard: &Shard<R, D>,
    uplink: &Rc<Uplink>,
    followed: &Followed<D>,
    bytes: usize,
) -> Result<bool, Stopped> {
    while followed.follows_by(uplink) && !uplink.has_ended() {
        let deadline = shard.runtime.now() + ROOM_PAUSE;
        match shard.store.admit(bytes, deadline).await {
            Ok(()) if !shard.store.is_full() => return Ok(followed.follows_by(uplink)),
            Ok(()) => shard.runtime.sleep(ROOM_PAUSE).await,
            Err(StoreError::Stopped(stopped)) => return Err(stopped),
            Err(_) => {}
        }
    }
    Ok(false)
}

/// The log was cut: what its state wants next.
fn cut<R: Runtime, D: Disk>(
    shard: &Shard<R, D>,
    uplink: &Rc<Uplink>,
    followed: &Followed<D>,
) -> Vec<FollowerEffect> {
    let event = FollowerEvent::Cut(position_of(&followed.log()));
    let stepped = followed.step(event, Some(uplink), shard.runtime.now());
    stepped.map_or_else(Vec::new, |(effects, _)| effects)
}

fn failed<R: Runtime, D: Disk>(
    shard: &Rc<Shard<R, D>>,
    followed: &Followed<D>,
    error: StoreError,
) -> Result<(), Stopped> {
    match error {
        StoreError::Stopped(stopped) => Err(stopped),
        // Deleted meanwhile: the image says so.
        StoreError::Unknown(_) => {
            followed.give_up();
            Ok(())
        }
        other => {
            damaged(shard, followed, &other.to_string());
            Ok(())
        }
    }
}

/// The replica follows no more, and the quorum hears of it: it must not lead.
fn damaged<R: Runtime, D: Disk>(shard: &Rc<Shard<R, D>>, followed: &Followed<D>, reason: &str) {
    tracing::error!(partition = %followed.id, reason, "the replica is damaged: it follows no more");
    followed.quarantine();
    let command = Command::ReplicasDamaged {
        broker: shard.broker_id,
        epoch: shard.replicas.epoch.get(),
        replicas: vec![reference(followed.id)],
    };
    let control = shard.control.clone();
    shard.runtime.spawn(Queue::Background, async move {
        // Told again with each heartbeat.
        let _ = control.propose(command, Duration::ZERO).await;
    });
}

/// Sends opens and acks.
pub(super) fn say<D: Disk>(followed: &Followed<D>, uplink: &Uplink, effects: &[FollowerEffect]) {
    for effect in effects {
        match effect {
            FollowerEffect::Open(open) => uplink.open(vec![link_open(followed.id, open)]),
            FollowerEffect::Ack(ack) => uplink.ack(link_ack(followed.id, ack)),
            other => unreachable!("neither time nor a link asks for {other:?}"),
        }
    }
}
