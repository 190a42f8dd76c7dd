//! Puts a node together from its parts: the same parts on real machines and in the simulator.

use std::path::PathBuf;
use std::sync::Arc;

use strandline_core::metadata::{
    Answer, ClusterImage, Command, Endpoint, NodeRegistration, ShardRegistration,
};
use strandline_runtime::mailbox::mailbox;
use strandline_runtime::{Runtime, SocketAddr};
use tokio::sync::oneshot;
use uuid::Uuid;

use super::connections::ConnectionLimits;
use super::context::{ImageSlot, ShardContext, ShardListener, StartedShard};
use crate::config::BrokerConfig;
use crate::config::broker::Listener;
use crate::control::client::ControlClient;
use crate::control::quorum::{Quorum, QuorumError};
use crate::control::run::{Control, ShardHandle};

/// A shard's mailbox: an announcement, a stop, and the scrapes of one moment.
const SHARD_MAILBOX_CAPACITY: usize = 64;

/// Where a node's data lives, and whose it is.
pub struct Layout {
    /// The cluster it was formatted for.
    pub cluster_id: Uuid,
    /// The id of the node's directory.
    pub directory_id: Uuid,
    /// The boot of the machine.
    pub boot_id: String,
    /// Where each shard lives, by number.
    pub shards: Vec<ShardLayout>,
    /// Called once every shard has started: from then on no folder is formatted again.
    pub mark_formatted: Box<dyn FnOnce()>,
}

/// Where a shard lives.
pub struct ShardLayout {
    /// Its folder.
    pub folder: PathBuf,
    /// The id of the directory that holds it.
    pub directory_id: Uuid,
    /// Whether the folder has never held a whole store.
    pub is_new: bool,
}

/// A node, ready to run: each context goes to `shard::run` on an executor of its own, the control to its thread.
pub struct Assembly<R, Q> {
    /// By number.
    pub shards: Vec<ShardContext>,
    /// The control loop.
    pub control: Control<R, Q>,
    /// Asks of the control loop, and stops the node.
    pub client: ControlClient,
    /// The shards, for a scrape.
    pub handles: Vec<ShardHandle>,
    /// Completes once every shard serves.
    pub ready: oneshot::Receiver<Vec<StartedShard>>,
    /// Holds the newest image, for readers beside the shards.
    pub images: ImageSlot,
    /// Open connections of the node.
    pub connections: ConnectionLimits,
}

/// Puts a node together; an empty quorum gets its cluster's id first.
///
/// # Errors
/// [`QuorumError`] if that cannot be stored.
pub async fn assemble<R: Runtime, Q: Quorum>(
    runtime: R,
    quorum: Q,
    config: Arc<BrokerConfig>,
    layout: Layout,
) -> Result<Assembly<R, Q>, QuorumError> {
    assert_eq!(
        layout.shards.len(),
        config.shards as usize,
        "every shard has a place"
    );
    initialize(&quorum, layout.cluster_id).await?;
    let connections = ConnectionLimits::default();
    let (client, inbox) = ControlClient::new(config.shards);
    let mut handles = Vec::new();
    let mut contexts = Vec::new();
    for (shard, place) in (0..).zip(&layout.shards) {
        let (sender, receiver) = mailbox(SHARD_MAILBOX_CAPACITY);
        let image = ImageSlot::new(quorum.image());
        contexts.push(ShardContext {
            shard,
            broker_id: config.node_id.broker(shard),
            config: config.clone(),
            directory: place.folder.clone(),
            format: place.is_new,
            control: client.clone(),
            image: image.clone(),
            mailbox: receiver,
            connections: connections.clone(),
            listeners: config
                .listeners
                .iter()
                .map(|listener| bind_address(listener, shard))
                .collect(),
        });
        handles.push(ShardHandle {
            mailbox: sender,
            image,
        });
    }
    let images = ImageSlot::new(quorum.image());
    let (ready_sender, ready) = oneshot::channel();
    let heartbeat_interval = config.heartbeat_interval();
    let control = Control {
        runtime,
        quorum,
        inbox,
        client: client.clone(),
        shards: handles.clone(),
        node: config.node_id,
        register: Box::new(move |started| registration(&config, layout, started)),
        ready: ready_sender,
        images: images.clone(),
        heartbeat_interval,
    };
    Ok(Assembly {
        shards: contexts,
        control,
        client,
        handles,
        ready,
        images,
        connections,
    })
}

async fn initialize(quorum: &impl Quorum, cluster_id: Uuid) -> Result<(), QuorumError> {
    if quorum.image().cluster_id().is_none() {
        let decided = quorum
            .commit(vec![Command::InitializeCluster { cluster_id }])
            .await?;
        assert_eq!(
            decided.answers,
            [Answer::Whole(Ok(()))],
            "an empty log takes its cluster's id"
        );
    }
    Ok(())
}

/// Whether the metadata is of the cluster that the directory was formatted for; a new one is of none.
pub fn is_of_cluster(image: &ClusterImage, cluster_id: Uuid) -> bool {
    image.cluster_id().is_none_or(|stored| stored == cluster_id)
}

fn bind_address(listener: &Listener, shard: u32) -> ShardListener {
    let port = match listener.base_port {
        0 => 0,
        base => base + shard as u16,
    };
    ShardListener {
        name: listener.name.clone(),
        address: SocketAddr::new(listener.bind, port),
    }
}

fn registration(config: &BrokerConfig, layout: Layout, started: &[StartedShard]) -> NodeRegistration {
    (layout.mark_formatted)();
    let shards = layout
        .shards
        .iter()
        .zip(started)
        .zip(0..)
        .map(|((place, started), shard)| ShardRegistration {
            shard,
            directory_id: place.directory_id,
            endpoints: endpoints(config, shard, started),
            damaged: Vec::new(),
        });
    NodeRegistration {
        node: config.node_id,
        directory_id: layout.directory_id,
        boot_id: layout.boot_id,
        rack: config.rack.clone(),
        shards: shards.collect(),
    }
}

fn endpoints(config: &BrokerConfig, shard: u32, started: &StartedShard) -> Vec<Endpoint> {
    let endpoint = |(listener, address): (&Listener, &SocketAddr)| {
        let (host, port) = listener.advertised.of_shard(shard, address.port());
        Endpoint {
            listener: listener.name.clone(),
            host,
            port,
        }
    };
    config
        .listeners
        .iter()
        .zip(&started.addresses)
        .map(endpoint)
        .collect()
}
