//! The leader's side: links that the shards of other nodes open.

use std::cell::Cell;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{Either, select};
use strandline_core::link::{LinkIdentity, LinkMessage};
use strandline_core::metadata::{BrokerEpoch, BrokerId};
use strandline_runtime::mailbox::mailbox;
use strandline_runtime::{Queue, Runtime, SocketAddr};
use strandline_storage::disk::Disk;

use super::converse::{Taker, converse};
use super::transport::{self, Link, LinkFailure, LinkOptions};
use crate::connection;
use crate::replica::{self, Downlink, MAILBOX_CAPACITY, Session};
use crate::shard::Shard;

/// How often a follower is looked for whose link closed, and the pauses, doubled each time up to a bound: in all a minute. The
/// system may take a while to let go of the ports of a process that is gone.
const LOOKS_MAX: u32 = 20;
const LOOK_PAUSE_MIN: Duration = Duration::from_millis(50);
const LOOK_PAUSE_MAX: Duration = Duration::from_secs(5);
/// Connections at one time, those that have not said who they are included: more shards than a cluster has.
const CONNECTIONS_MAX: usize = 4_096;

/// Accepts links until the shard stops.
pub(crate) async fn accept<R: Runtime, D: Disk>(shard: Rc<Shard<R, D>>, listener: R::Listener) {
    let count = Rc::new(Cell::new(0));
    while let Some((stream, address)) = connection::next(&shard, &listener, &"links").await {
        if count.get() >= CONNECTIONS_MAX {
            let reason = "a shard takes no more links";
            shard.refusals.log_close(shard.runtime.now(), &address, reason);
            continue;
        }
        let (shard, counted) = (shard.clone(), Counted::new(&count));
        shard.clone().runtime.spawn(Queue::Latency, async move {
            serve(&shard, stream, address).await;
            drop(counted);
        });
    }
}

struct Counted(Rc<Cell<usize>>);

impl Counted {
    fn new(count: &Rc<Cell<usize>>) -> Self {
        count.set(count.get() + 1);
        Self(count.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

async fn serve<R: Runtime, D: Disk>(shard: &Rc<Shard<R, D>>, stream: R::Stream, address: SocketAddr) {
    let opened = {
        let opening = pin!(open(shard, stream));
        let stop = pin!(shard.stop_requested());
        match select(opening, stop).await {
            Either::Left((opened, _)) => opened,
            Either::Right(_) => return,
        }
    };
    let failure = match opened {
        Ok(link) => {
            let peer = (link.peer.broker, link.peer.broker_epoch);
            let failure = talk(shard, link).await;
            if matches!(failure, Some(LinkFailure::Io(_) | LinkFailure::Closed)) {
                look_for(shard, peer).await;
            }
            failure
        }
        Err(failure) => Some(failure),
    };
    // What the network does, the follower tells: it is the one that opens the link again.
    if let Some(failure) = failure.filter(LinkFailure::is_refusal) {
        let reason = format!("link: {failure}");
        shard.refusals.log_close(shard.runtime.now(), &address, &reason);
    }
}

async fn open<R: Runtime, D: Disk>(shard: &Shard<R, D>, stream: R::Stream) -> Result<Link<R>, LinkFailure> {
    let own = shard.replicas.identity().ok_or(LinkFailure::NoAddress)?;
    let options = LinkOptions {
        own,
        body_bytes_max: 0,
    };
    let link = transport::accept(&shard.runtime, stream, options).await?;
    is_known(shard, &link.peer)?;
    Ok(link)
}

/// Who has registered from another directory, or again since, is not who it says.
fn is_known<R: Runtime, D: Disk>(shard: &Shard<R, D>, peer: &LinkIdentity) -> Result<(), LinkFailure> {
    let image = shard.image();
    let Some(known) = image.broker(peer.broker) else {
        return Ok(());
    };
    let node = image.node(peer.broker.node());
    if known.epoch > peer.broker_epoch {
        return Err(LinkFailure::Registration {
            expected: known.epoch,
            found: peer.broker_epoch,
        });
    }
    match known.epoch == peer.broker_epoch && node.is_some_and(|node| node.directory_id != peer.directory_id)
    {
        true => Err(LinkFailure::Directory(peer.broker)),
        false => Ok(()),
    }
}

/// Serves an open link; why it ended, unless that was this shard's doing.
async fn talk<R: Runtime, D: Disk>(shard: &Rc<Shard<R, D>>, link: Link<R>) -> Option<LinkFailure> {
    let session = Session {
        peer: link.peer.broker,
        epoch: link.peer.broker_epoch,
        own: link.own,
    };
    let (sender, outgoing) = mailbox(MAILBOX_CAPACITY);
    let downlink = replica::link_accepted(shard, session, sender)?;
    let side = LeaderSide {
        shard,
        downlink: &downlink,
    };
    let failure = {
        let talk = pin!(converse(&shard.runtime, link, outgoing, &side));
        let ended = pin!(downlink.until_ended());
        let stop = pin!(shard.stop_requested());
        match select(talk, select(ended, stop)).await {
            Either::Left((failure, _)) => Some(failure),
            Either::Right(_) => None,
        }
    };
    replica::link_closed(shard, &downlink);
    failure
}

/// A follower that closed its link opens another one, unless its process is dead: then its ports refuse.
async fn look_for<R: Runtime, D: Disk>(shard: &Shard<R, D>, (peer, epoch): (BrokerId, BrokerEpoch)) {
    for look in 0..LOOKS_MAX {
        let link = shard.image().broker(peer).and_then(|known| {
            let waits = known.epoch == epoch && !known.fenced;
            known.link.clone().filter(|_| waits)
        });
        let Some(link) = link.filter(|_| !shard.is_stopping() && !shard.replicas.has_link_to(peer)) else {
            return;
        };
        if let Ok(host) = (shard.hosts)(&link.host)
            && let Err(error) = shard.runtime.connect(SocketAddr::new(host, link.port)).await
            && error.kind() == std::io::ErrorKind::ConnectionRefused
        {
            // Whether it was is seen in the image.
            let _ = shard.control.suspect(peer, epoch).await;
        }
        let pause = LOOK_PAUSE_MAX.min(LOOK_PAUSE_MIN * 2_u32.pow(look.min(16)));
        shard.runtime.sleep(pause).await;
    }
}

struct LeaderSide<'a, R: Runtime, D: Disk> {
    shard: &'a Rc<Shard<R, D>>,
    downlink: &'a Rc<Downlink<D>>,
}

impl<R: Runtime, D: Disk> Taker for LeaderSide<'_, R, D> {
    async fn gate(&self) {
        self.shard.unpaused().await;
    }

    fn admits(&self, _: &LinkMessage, _: u64) -> Result<(), LinkFailure> {
        Ok(())
    }

    fn take(&self, message: LinkMessage, _: Bytes) -> Result<(), LinkFailure> {
        let session = self.downlink.session;
        match message {
            LinkMessage::Open(opens) => replica::open(self.shard, session, opens),
            LinkMessage::Ack(acks) => replica::acks(self.shard, session, acks),
            LinkMessage::Credit { window, bytes } => self.downlink.granted(window, bytes),
            LinkMessage::Alive => {}
            LinkMessage::Opened(_) | LinkMessage::Frames(_) => return Err(LinkFailure::Unexpected),
        }
        Ok(())
    }
}
