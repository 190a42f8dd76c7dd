//! What an admin handler works with.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use strandline_core::metadata::{BrokerId, ClusterImage};
use uuid::Uuid;

use crate::config::BrokerConfig;
use crate::node::context::{ControlClient, ImageSlot};

/// What an admin handler may use, made by the shard's dispatcher for one request.
pub struct AdminContext<'a> {
    /// The broker that was asked.
    pub broker_id: BrokerId,
    /// The listener that the client used: answers name the addresses of the same listener.
    pub listener: &'a str,
    /// What the node was started with.
    pub config: &'a BrokerConfig,
    /// Changes go here.
    pub control: &'a ControlClient,
    /// Reads come from here: a request sees the changes it made itself.
    pub images: &'a ImageSlot,
    /// The topic of groups' offsets that every shard is known to serve, if one is.
    pub offsets_topic: &'a Cell<Option<Uuid>>,
    /// A random number, from the shard's runtime: new topics get their ids from it.
    pub random: &'a dyn Fn() -> u64,
}

impl AdminContext<'_> {
    /// The newest image.
    pub fn image(&self) -> Arc<ClusterImage> {
        self.images.latest()
    }

    /// A random id of version 4.
    pub fn random_id(&self) -> Uuid {
        let random = (u128::from((self.random)()) << 64) | u128::from((self.random)());
        uuid::Builder::from_random_bytes(random.to_be_bytes()).into_uuid()
    }
}

/// How long a change waits for the shards, from a request's own timeout; zero and less wait for nothing.
pub fn shard_timeout(timeout_ms: i32) -> Duration {
    Duration::from_millis(u64::try_from(timeout_ms).unwrap_or_default())
}
