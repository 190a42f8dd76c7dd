//! The seam between the control thread and a shard: what a shard is given, what it is told, what it tells.
//!
//! The life of a shard, in the calls of this page:
//! 1. `shard::run(runtime, disk, context)` starts on the shard's own executor. It formats its folder if
//!    [`ShardContext::format`] says so, opens the store (which replays the journal), and binds its listeners.
//! 2. It reports [`ControlClient::started`] with the bound addresses, and waits for [`ShardMessage::ImageChanged`].
//! 3. Once every shard has reported, the control thread registers the node: all shards in one record. Each shard takes
//!    the image from its [`ImageSlot`], brings its logs in line with it, and reports [`ControlClient::applied`] with the
//!    image's offset. Once all have, the control thread unfences the node's brokers. From the first image on in which its
//!    own broker is unfenced, a shard accepts connections.
//! 4. For each later image: the same message, the same report. Whoever proposed the change is answered after that, so a
//!    created topic is usable at once.
//! 5. [`ShardMessage::Stop`]: it stops accepting, lets running requests end, closes the store, and returns from `run`.
//!
//! An error that `run` returns stops the node: a node is whole or gone. Only on order ([`ControlClient::order`]) a shard stops
//! alone: its broker is fenced, the node goes on, and when the shard starts again it is registered by a record of its own.

use std::path::PathBuf;
use std::sync::Arc;

use strandline_core::metadata::{BrokerId, MetadataOffset, PartitionReference};
use strandline_runtime::SocketAddr;
use strandline_runtime::mailbox::Receiver;
use tokio::sync::oneshot;

use super::connections::ConnectionLimits;
use super::report::{Detail, ShardReport};
pub use super::slot::ImageSlot;
use crate::config::BrokerConfig;
pub use crate::control::client::ControlClient;
pub use crate::replica::{Delivery, Peers};

/// What a shard is made of, handed to it once.
pub struct ShardContext {
    /// Its number within the node.
    pub shard: u32,
    /// Its Kafka broker id.
    pub broker_id: BrokerId,
    /// What the node was started with; the same for all shards.
    pub config: Arc<BrokerConfig>,
    /// Its folder, `<log.dirs entry>/shard-<n>`; it exists.
    pub directory: PathBuf,
    /// Whether the folder is new and shall be formatted.
    pub format: bool,
    /// Asks of the control thread, and reports to it.
    pub control: ControlClient,
    /// Holds the newest image.
    pub image: ImageSlot,
    /// What the control thread asks of the shard.
    pub mailbox: Receiver<ShardMessage>,
    /// What other shards say to it as leaders and followers.
    pub replication: Receiver<Delivery>,
    /// How it reaches them.
    pub peers: Peers,
    /// Counts connections over all shards.
    pub connections: ConnectionLimits,
    /// What to bind, one a listener.
    pub listeners: Vec<ShardListener>,
    /// Where to bind for links of other nodes; port 0 takes a free one.
    pub link: Option<SocketAddr>,
}

/// An address that a shard serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardListener {
    /// The listener's name, for example `PLAINTEXT`; handlers choose the addresses they tell a client by it.
    pub name: String,
    /// Where to bind; port 0 takes a free one.
    pub address: SocketAddr,
}

/// From the control thread to a shard.
#[derive(Debug)]
pub enum ShardMessage {
    /// A newer image lies in the slot.
    ImageChanged,
    /// A copy of counters, for a scrape or to see whether the shard answers; collected in slices that hold the shard well under 1 ms.
    Report(Detail, oneshot::Sender<ShardReport>),
    /// Stand still: take no message, no request and no image, as a shard does that hangs; until [`ShardMessage::Resume`].
    Pause,
    /// Go on.
    Resume,
    /// Close everything and return.
    Stop,
}

/// A shard has replayed and listens.
#[derive(Clone, Debug)]
pub struct StartedShard {
    /// The bound addresses, in the order of [`ShardContext::listeners`].
    pub addresses: Vec<SocketAddr>,
    /// Where it takes links of other nodes.
    pub link: Option<SocketAddr>,
    /// The metadata offset that the shard's checkpoint covers: an image behind it means that the quorum lost its state.
    pub metadata_offset: MetadataOffset,
    /// Replicas in which its replay found damage.
    pub damaged: Vec<PartitionReference>,
}
