//! How a shard reaches another one.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use strandline_core::link::LinkMessage;
use strandline_core::metadata::{BrokerEpoch, BrokerId};
use strandline_runtime::mailbox::{Receiver, Sender, mailbox};

/// Messages that wait for a shard, at most. Data is bounded by credit; the rest is small and said again.
pub(crate) const MAILBOX_CAPACITY: usize = 1024;

/// A message of another shard.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// Who says it.
    pub(crate) from: BrokerId,
    /// Its registration.
    pub(crate) epoch: BrokerEpoch,
    /// The registration that it speaks to: another life of a shard has other links, and other credit.
    pub(crate) to: BrokerEpoch,
    /// What.
    pub(crate) message: LinkMessage,
    /// The frames of [`LinkMessage::Frames`].
    pub(crate) body: Bytes,
}

/// The shards that can be reached, each through its mailbox. Clones share one table.
///
/// The lock is held for a look, when a link opens: never on the path of a frame.
#[derive(Clone, Default)]
pub struct Peers(Arc<Mutex<BTreeMap<BrokerId, Sender<Delivery>>>>);

impl Peers {
    /// A shard starts: from now on it is reached through this mailbox.
    pub fn enter(&self, broker: BrokerId) -> Receiver<Delivery> {
        let (sender, receiver) = mailbox(MAILBOX_CAPACITY);
        let mut peers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        peers.insert(broker, sender);
        receiver
    }

    pub(super) fn sender(&self, broker: BrokerId) -> Option<Sender<Delivery>> {
        let peers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        peers.get(&broker).cloned()
    }

    pub(super) fn count(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}
