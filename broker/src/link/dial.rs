//! The follower's side: keeps a link to the shard of another node open for as long as something is followed there.

use std::convert::Infallible;
use std::future::pending;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::select;
use strandline_core::link::LinkMessage;
use strandline_runtime::{Runtime, SocketAddr};
use strandline_storage::disk::Disk;

use super::converse::{Taker, converse};
use super::transport::{self, Link, LinkFailure, LinkOptions};
use crate::replica::{self, Uplink};
use crate::shard::Shard;

/// Between two tries: doubled each time, up to a bound.
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// After a refusal that somebody has to do something about.
const REFUSED_PAUSE: Duration = Duration::from_secs(10);
/// Tries in which a name may be looked up before somebody is told of it.
const LOOKUP_TRIES: u32 = 4;
/// What a frame is larger than its batch, and what recompression may add to one.
const FRAME_BYTES_MORE: usize = 64 << 10;

/// Keeps the link of `uplink`, until that or the shard ends.
pub(crate) async fn dial<R: Runtime, D: Disk>(shard: Rc<Shard<R, D>>, uplink: Rc<Uplink>) {
    {
        let kept = pin!(keep(&shard, &uplink));
        let ended = pin!(uplink.until_ended());
        let stop = pin!(shard.stop_requested());
        select(kept, select(ended, stop)).await;
    }
    uplink.disconnected();
}

async fn keep<R: Runtime, D: Disk>(shard: &Rc<Shard<R, D>>, uplink: &Rc<Uplink>) -> Infallible {
    let (mut tries, mut was_open) = (Tries::default(), false);
    loop {
        shard.unpaused().await;
        if !shard.replicas.is_used(uplink) {
            shard.replicas.end_unused(uplink);
            pending::<()>().await;
        }
        let failure = match connect(shard, uplink).await {
            Ok(link) => {
                if tries.told.is_some() {
                    tracing::info!(leader = uplink.leader.0, "the link to the leader is open again");
                }
                tries = Tries::default();
                was_open = true;
                let outgoing = uplink.connected();
                replica::linked(shard, uplink);
                let side = FollowerSide { shard, uplink };
                let failure = converse(&shard.runtime, link, outgoing, &side).await;
                uplink.disconnected();
                failure
            }
            Err(failure) => failure,
        };
        if was_open && failure.is_no_listener() {
            // Whether it was is seen in the image, and what it means; the next try asks again.
            let _ = shard.control.suspect(uplink.leader, uplink.leader_epoch).await;
        }
        tries.tell(uplink, &failure);
        let pause = tries.pause(&failure, shard.runtime.random_u64());
        shard.runtime.sleep(pause).await;
    }
}

async fn connect<R: Runtime, D: Disk>(shard: &Shard<R, D>, uplink: &Uplink) -> Result<Link<R>, LinkFailure> {
    let own = shard.replicas.identity();
    let own = own.filter(|own| own.broker_epoch == uplink.own.1);
    let (Some(own), Some(link)) = (own, &uplink.link) else {
        return Err(LinkFailure::NoAddress);
    };
    let host = (shard.hosts)(&link.host).map_err(|reason| LinkFailure::Host {
        host: link.host.clone(),
        reason,
    })?;
    let config = &shard.config;
    let batch_bytes_max = config
        .socket_request_max_bytes
        .max(config.decompressed_batch_max_bytes);
    let options = LinkOptions {
        own,
        body_bytes_max: u32::try_from(batch_bytes_max.saturating_add(FRAME_BYTES_MORE)).unwrap_or(u32::MAX),
    };
    let address = SocketAddr::new(host, link.port);
    let opened = transport::open(&shard.runtime, address, uplink.leader, options).await?;
    match opened.peer.broker_epoch == uplink.leader_epoch {
        true => Ok(opened),
        false => Err(LinkFailure::Registration {
            expected: uplink.leader_epoch,
            found: opened.peer.broker_epoch,
        }),
    }
}

/// How often it went wrong since the link was open, and what was told of it.
#[derive(Default)]
struct Tries {
    count: u32,
    told: Option<String>,
}

impl Tries {
    /// Tells of a failure, once.
    fn tell(&mut self, uplink: &Uplink, failure: &LinkFailure) {
        let text = failure.to_string();
        // A name that is looked up for the first time has no answer yet.
        let is_early = matches!(failure, LinkFailure::Host { .. }) && self.count < LOOKUP_TRIES;
        if self.told.as_ref() != Some(&text) && !is_early {
            let (leader, link) = (uplink.leader.0, &uplink.link);
            let address = link.as_ref().map(|link| format!("{}:{}", link.host, link.port));
            tracing::warn!(
                leader,
                address = address.as_deref().unwrap_or("-"),
                "no link to the leader: {text}"
            );
            self.told = Some(text);
        }
    }

    /// How long to wait before the next try. The network's failures are tried again soon; `random` keeps the links to a node
    /// that died from coming back all at once.
    fn pause(&mut self, failure: &LinkFailure, random: u64) -> Duration {
        self.count += 1;
        if failure.is_refusal() {
            return REFUSED_PAUSE;
        }
        let pause = PAUSE_MAX.min(PAUSE_MIN * 2_u32.pow(self.count.min(16) - 1));
        pause / 2 + pause.mul_f64((random % 1_024) as f64 / 2_048.0)
    }
}

struct FollowerSide<'a, R: Runtime, D: Disk> {
    shard: &'a Rc<Shard<R, D>>,
    uplink: &'a Rc<Uplink>,
}

impl<R: Runtime, D: Disk> Taker for FollowerSide<'_, R, D> {
    async fn gate(&self) {
        self.shard.unpaused().await;
    }

    fn admits(&self, message: &LinkMessage, body_bytes: u64) -> Result<(), LinkFailure> {
        match message {
            LinkMessage::Frames(head) => Ok(self.uplink.reserve(head.window, body_bytes)?),
            _ => Ok(()),
        }
    }

    fn take(&self, message: LinkMessage, body: Bytes) -> Result<(), LinkFailure> {
        match message {
            LinkMessage::Opened(answers) => answers.into_iter().for_each(|opened| self.uplink.opened(opened)),
            LinkMessage::Frames(head) => self.uplink.arrived(head, body),
            LinkMessage::Alive => {}
            LinkMessage::Open(_) | LinkMessage::Ack(_) | LinkMessage::Credit { .. } => {
                return Err(LinkFailure::Unexpected);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn a_refusal_is_not_tried_again_at_once_and_a_broken_network_soon_but_ever_less() {
        let mut tries = Tries::default();
        let refused = LinkFailure::Unexpected;
        assert_eq!(tries.pause(&refused, 7), REFUSED_PAUSE);
        assert_eq!(tries.pause(&refused, 8), REFUSED_PAUSE);
        let broken = || LinkFailure::Io(io::ErrorKind::ConnectionReset.into());
        for count in 0..40 {
            let most = PAUSE_MAX.min(PAUSE_MIN * 2_u32.pow(count.min(10)));
            for random in [0, 1_023, u64::MAX] {
                let pause = Tries { count, told: None }.pause(&broken(), random);
                assert!((most / 2..=most).contains(&pause), "{count}: {pause:?}");
            }
        }
    }
}
