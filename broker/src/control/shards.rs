//! The control thread's view of the node's shards: how far each is, and how to reach it.

use std::sync::{Arc, Mutex, PoisonError};

use strandline_core::metadata::{BrokerEpoch, ClusterImage, MetadataOffset};
use strandline_runtime::mailbox::{SendError, Sender};
use tokio::sync::oneshot;

use super::client::OrderError;
use crate::node::context::{ImageSlot, ShardMessage, StartedShard};
use crate::node::report::{Detail, ShardReport};

/// How to reach a shard. Clones reach the same one, also after it started again.
#[derive(Clone)]
pub struct ShardHandle {
    /// Its mailbox.
    pub mailbox: ShardMailbox,
    /// Its image slot.
    pub image: ImageSlot,
}

/// Where a shard is told things: a shard that starts again has another mailbox behind the same handle.
#[derive(Clone)]
pub struct ShardMailbox(Arc<Mutex<Sender<ShardMessage>>>);

impl ShardMailbox {
    /// A handle of `sender`.
    pub fn new(sender: Sender<ShardMessage>) -> Self {
        Self(Arc::new(Mutex::new(sender)))
    }

    /// The shard reads from another mailbox now.
    pub(crate) fn replace(&self, sender: Sender<ShardMessage>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = sender;
    }

    /// Puts `message` in the mailbox; never waits.
    ///
    /// # Errors
    /// [`SendError`] gives it back when the mailbox is full or the shard gone.
    pub fn send(&self, message: ShardMessage) -> Result<(), SendError<ShardMessage>> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .send(message)
    }
}

/// What a shard is, as far as the control thread knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    /// It starts with the node, and is not registered yet.
    Starting,
    /// It runs.
    Up,
    /// It is to stop while the node goes on.
    Leaving,
    /// It is not there while the node goes on.
    Down,
    /// It starts again, and is not registered yet.
    Returning,
    /// It is registered again, and may not have that image yet.
    Registered,
    /// It ended with the node.
    Ended,
}

struct Shard {
    handle: ShardHandle,
    started: Option<StartedShard>,
    applied: MetadataOffset,
    life: Life,
    /// Where and as what this life of it is registered. Before that it sees no image: by an older one it would serve in a
    /// leader epoch that it held before its restart, and speak to others as who it was.
    registration: Option<(MetadataOffset, BrokerEpoch)>,
}

/// All shards of the node, by number.
pub(super) struct Shards(Vec<Shard>);

impl Shards {
    pub(super) fn new(handles: Vec<ShardHandle>) -> Self {
        let shard = |handle| Shard {
            handle,
            started: None,
            applied: MetadataOffset(0),
            life: Life::Starting,
            registration: None,
        };
        Self(handles.into_iter().map(shard).collect())
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
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

    /// What every shard serves by; those that are down serve nothing.
    pub(super) fn applied_by_all(&self) -> MetadataOffset {
        let up = self.0.iter().filter(|shard| shard.life == Life::Up);
        up.map(|shard| shard.applied).min().unwrap_or_default()
    }

    /// What one shard serves by.
    pub(super) fn applied_by(&self, shard: u32) -> MetadataOffset {
        self.0[shard as usize].applied
    }

    /// Where and as what a shard is registered, unless it is away.
    pub(super) fn registration(&self, shard: u32) -> Option<(MetadataOffset, BrokerEpoch)> {
        self.0[shard as usize].registration
    }

    /// The shards that are registered, and as what.
    pub(super) fn registrations(&self) -> impl Iterator<Item = (u32, BrokerEpoch)> + '_ {
        let shards = (0..).zip(&self.0);
        shards.filter_map(|(number, shard)| Some((number, shard.registration?.1)))
    }

    /// Asks a shard for a sign of life, which is the answer; `None` if it cannot be asked now.
    pub(super) fn ping(&self, shard: u32) -> Option<oneshot::Receiver<ShardReport>> {
        let (answer, answered) = oneshot::channel();
        let message = ShardMessage::Report(Detail::Shard, answer);
        let sent = self.0[shard as usize].handle.mailbox.send(message);
        sent.is_ok().then_some(answered)
    }

    /// Ends a shard's life. Whether that was wanted of it alone.
    pub(super) fn ended(&mut self, shard: u32) -> bool {
        let shard = &mut self.0[shard as usize];
        // One that could not come back is as down as it was.
        let alone = matches!(shard.life, Life::Leaving | Life::Returning | Life::Registered);
        shard.life = if alone { Life::Down } else { Life::Ended };
        if alone {
            shard.registration = None;
        }
        alone
    }

    /// Whether none is left; while the node serves, one that is down may come back.
    pub(super) fn all_ended(&self, stopping: bool) -> bool {
        let gone = |shard: &Shard| shard.life == Life::Ended || (stopping && shard.life == Life::Down);
        self.0.iter().all(gone)
    }

    /// Whether a shard runs, so that something may be asked of it.
    ///
    /// # Errors
    /// [`OrderError`] if not.
    pub(super) fn check_runs(&self, shard: u32) -> Result<(), OrderError> {
        match self.0.get(shard as usize) {
            None => Err(OrderError::Unknown),
            Some(shard) if shard.life != Life::Up => Err(OrderError::NotRunning),
            Some(_) => Ok(()),
        }
    }

    /// Tells one shard to close while the node goes on, if it runs.
    pub(super) fn leave(&mut self, shard: u32) {
        if self.check_runs(shard).is_ok() {
            let shard = &mut self.0[shard as usize];
            shard.life = Life::Leaving;
            shard.tell(ShardMessage::Stop);
        }
    }

    /// Tells one shard something, if it runs.
    ///
    /// # Errors
    /// [`OrderError`] if not.
    pub(super) fn tell(&self, shard: u32, message: ShardMessage) -> Result<(), OrderError> {
        self.check_runs(shard)?;
        self.0[shard as usize].tell(message);
        Ok(())
    }

    /// A shard that is down is to start again.
    ///
    /// # Errors
    /// [`OrderError`] if it is not down.
    pub(super) fn begin_return(&mut self, shard: u32) -> Result<(), OrderError> {
        let shard = self.0.get_mut(shard as usize).ok_or(OrderError::Unknown)?;
        if shard.life != Life::Down {
            return Err(OrderError::Running);
        }
        shard.life = Life::Returning;
        shard.started = None;
        shard.applied = MetadataOffset(0);
        Ok(())
    }

    pub(super) fn is_returning(&self, shard: u32) -> bool {
        self.0[shard as usize].life == Life::Returning
    }

    /// One shard that starts again is registered.
    pub(super) fn registered(&mut self, shard: u32, offset: MetadataOffset, epoch: BrokerEpoch) {
        let shard = &mut self.0[shard as usize];
        if shard.life == Life::Returning {
            shard.life = Life::Registered;
            shard.registration = Some((offset, epoch));
        }
    }

    /// All shards are registered with their node.
    pub(super) fn all_registered(&mut self, offset: MetadataOffset, epoch: BrokerEpoch) {
        for shard in &mut self.0 {
            if shard.life == Life::Starting {
                shard.life = Life::Up;
                shard.registration = Some((offset, epoch));
            }
        }
    }

    /// The registration of a shard that came back, once it serves by that.
    pub(super) fn returned(&mut self, shard: u32) -> Option<BrokerEpoch> {
        let shard = &mut self.0[shard as usize];
        let (offset, epoch) = shard.registration?;
        if shard.life != Life::Registered || shard.applied < offset {
            return None;
        }
        shard.life = Life::Up;
        Some(epoch)
    }

    /// Puts a newer image before every shard that is in it as what it is now.
    pub(super) fn publish(&self, image: &Arc<ClusterImage>) {
        for shard in &self.0 {
            let knows_it = |(offset, _)| image.offset() >= offset;
            if shard.registration.is_some_and(knows_it) && shard.handle.image.publish(image.clone()) {
                shard.tell(ShardMessage::ImageChanged);
            }
        }
    }

    /// Tells every shard to close.
    pub(super) fn stop(&self) {
        for shard in self.0.iter().filter(|shard| shard.life != Life::Leaving) {
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
