//! What a node of several tells the quorum's leader of its shards: each is pinged, and the heartbeat says who answered.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use strandline_core::metadata::{BrokerEpoch, MetadataOffset, NodeId, PartitionReference};
use strandline_core::sessions::{ShardHealth, ShardHeartbeat};
use strandline_runtime::Monotonic;
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;

use super::shards::Shards;
use crate::node::report::ShardReport;

/// Between two pings: a shard counts as alive only while it answers.
const PING: Duration = Duration::from_millis(500);

/// The pings and heartbeats of one node.
pub(super) struct Beats {
    interval: Duration,
    next_ping: Monotonic,
    next_beat: Monotonic,
    /// What each shard was asked and has not answered yet.
    asked: Vec<Option<oneshot::Receiver<ShardReport>>>,
    silent: Vec<bool>,
    /// The replicas that each shard found damaged, by its last answer.
    damaged: Vec<Vec<PartitionReference>>,
    /// A heartbeat is on its way; no second one overtakes it.
    under_way: Rc<Cell<bool>>,
}

/// Clears the mark of the heartbeat that is under way, however that ends.
pub(super) struct UnderWay(Rc<Cell<bool>>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

/// What a node's shards are registered as.
#[derive(Clone, Copy, Debug)]
pub(super) struct Registered {
    pub(super) node: NodeId,
    /// The record's.
    pub(super) offset: MetadataOffset,
    pub(super) epoch: BrokerEpoch,
}

impl Beats {
    pub(super) fn new(interval: Duration, shards: usize, now: Monotonic) -> Self {
        Self {
            interval,
            next_ping: now,
            next_beat: now,
            asked: (0..shards).map(|_| None).collect(),
            silent: vec![false; shards],
            damaged: vec![Vec::new(); shards],
            under_way: Rc::default(),
        }
    }

    pub(super) fn next_due(&self) -> Monotonic {
        self.next_ping.min(self.next_beat)
    }

    /// Pings what is due; the heartbeat that is to be sent, if it is time for one.
    pub(super) fn turn(
        &mut self,
        now: Monotonic,
        shards: &Shards,
        registered: Option<Registered>,
        stopping: bool,
    ) -> Option<(Vec<ShardHeartbeat>, UnderWay)> {
        if self.next_ping <= now {
            self.next_ping = now + PING;
            self.ping(shards);
        }
        if self.next_beat > now {
            return None;
        }
        self.next_beat = now + self.interval;
        let registered = registered?;
        if self.under_way.replace(true) {
            return None;
        }
        let beat = |(shard, silent): (u32, &bool)| {
            let applied = shards.applied_by(shard);
            let (offset, epoch) = shards.registration(shard)?;
            Some(ShardHeartbeat {
                broker: registered.node.broker(shard),
                epoch,
                health: match silent {
                    _ if stopping => ShardHealth::Stopping,
                    true => ShardHealth::Silent,
                    false if applied >= offset => ShardHealth::Serving(applied),
                    false => ShardHealth::Starting,
                },
                damaged: self.damaged[shard as usize].clone(),
            })
        };
        // One that is away alone has nobody to speak for it.
        let beats = (0..).zip(&self.silent).filter_map(beat).collect();
        Some((beats, UnderWay(self.under_way.clone())))
    }

    fn ping(&mut self, shards: &Shards) {
        for (shard, asked) in (0..).zip(&mut self.asked) {
            let answered = match asked.as_mut().map(oneshot::Receiver::try_recv) {
                Some(Err(TryRecvError::Empty)) => {
                    self.silent[shard as usize] = true;
                    continue;
                }
                Some(Ok(report)) => {
                    self.damaged[shard as usize] = report.damaged;
                    true
                }
                None => true,
                Some(Err(TryRecvError::Closed)) => false,
            };
            self.silent[shard as usize] = !answered;
            *asked = shards.ping(shard);
        }
    }
}
