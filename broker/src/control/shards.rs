//! The control thread's view of the node's shards: how far each is, and how to reach it.

use std::sync::Arc;

use strandline_core::metadata::{ClusterImage, MetadataOffset};
use strandline_runtime::mailbox::{SendError, Sender};
use tokio::sync::oneshot;

use crate::node::context::{ImageSlot, ShardMessage, StartedShard};
use crate::node::report::{Detail, ShardReport};

/// How to reach a shard.
#[derive(Clone)]
pub struct ShardHandle {
    /// Its mailbox.
    pub mailbox: Sender<ShardMessage>,
    /// Its image slot.
    pub image: ImageSlot,
}

struct Shard {
    handle: ShardHandle,
    started: Option<StartedShard>,
    applied: MetadataOffset,
    ended: bool,
}

/// All shards of the node, by number.
pub(super) struct Shards(Vec<Shard>);

impl Shards {
    pub(super) fn new(handles: Vec<ShardHandle>) -> Self {
        let shard = |handle| Shard {
            handle,
            started: None,
            applied: MetadataOffset(0),
            ended: false,
        };
        Self(handles.into_iter().map(shard).collect())
    }

    pub(super) fn started(&mut self, shard: u32, started: StartedShard) {
        self.0[shard as usize].started = Some(started);
    }

    /// What every shard found and bound, by number, once all have started.
    pub(super) fn all_started(&self) -> Option<Vec<StartedShard>> {
        self.0.iter().map(|shard| shard.started.clone()).collect()
    }

    pub(super) fn applied(&mut self, shard: u32, offset: MetadataOffset) {
        let shard = &mut self.0[shard as usize];
        shard.applied = shard.applied.max(offset);
    }

    /// What every shard serves by.
    pub(super) fn applied_by_all(&self) -> MetadataOffset {
        self.0.iter().map(|shard| shard.applied).min().unwrap_or_default()
    }

    /// What one shard serves by.
    pub(super) fn applied_by(&self, shard: u32) -> MetadataOffset {
        self.0[shard as usize].applied
    }

    /// Asks a shard for a sign of life, which is the answer; `None` if it cannot be asked now.
    pub(super) fn ping(&self, shard: u32) -> Option<oneshot::Receiver<ShardReport>> {
        let (answer, answered) = oneshot::channel();
        let message = ShardMessage::Report(Detail::Shard, answer);
        let sent = self.0[shard as usize].handle.mailbox.send(message);
        sent.is_ok().then_some(answered)
    }

    pub(super) fn ended(&mut self, shard: u32) {
        self.0[shard as usize].ended = true;
    }

    pub(super) fn all_ended(&self) -> bool {
        self.0.iter().all(|shard| shard.ended)
    }

    /// Puts a newer image before every shard.
    pub(super) fn publish(&self, image: &Arc<ClusterImage>) {
        for shard in &self.0 {
            if shard.handle.image.publish(image.clone()) {
                shard.tell(ShardMessage::ImageChanged);
            }
        }
    }

    /// Tells every shard to close.
    pub(super) fn stop(&self) {
        for shard in &self.0 {
            shard.tell(ShardMessage::Stop);
        }
    }
}

impl Shard {
    fn tell(&self, message: ShardMessage) {
        match self.handle.mailbox.send(message) {
            // A shard that ended reports so itself.
            Ok(()) | Err(SendError::Closed(_)) => {}
            Err(SendError::Full(message)) => {
                panic!(
                    "a shard's mailbox has room for one announcement, one stop and one scrape: {message:?}"
                )
            }
        }
    }
}
