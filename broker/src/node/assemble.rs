//! Puts a node together from its parts: the same parts on real machines and in the simulator.

use std::path::PathBuf;
use std::sync::Arc;

use strandline_core::metadata::{
    Answer, ClusterImage, Command, Endpoint, LinkAddress, MetadataVersion, NodeRegistration,
    ShardRegistration,
};
use strandline_runtime::mailbox::mailbox;
use strandline_runtime::runtime::IpAddr;
use strandline_runtime::{Runtime, SocketAddr};
use tokio::sync::oneshot;
use uuid::Uuid;

use super::connections::ConnectionLimits;
use super::context::{ImageSlot, Peers, ShardContext, ShardListener, StartedShard};
use crate::config::BrokerConfig;
use crate::config::broker::Listener;
use crate::control::client::ControlClient;
use crate::control::quorum::{Quorum, QuorumError};
use crate::control::run::{Control, Registrar, ShardHandle, ShardMailbox};

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
    /// Makes the contexts of shards that start again.
    pub factory: ShardFactory,
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
    let handle = |_: &ShardLayout| ShardHandle {
        mailbox: ShardMailbox::new(mailbox(1).0),
        image: ImageSlot::new(quorum.image()),
    };
    let handles: Vec<ShardHandle> = layout.shards.iter().map(handle).collect();
    let factory = ShardFactory {
        config: config.clone(),
        folders: layout.shards.iter().map(|place| place.folder.clone()).collect(),
        client: client.clone(),
        connections: connections.clone(),
        peers: Peers::default(),
        handles: handles.clone(),
    };
    let places = (0..).zip(&layout.shards);
    let contexts = places.map(|(shard, place)| factory.context(shard, place.is_new));
    let contexts = contexts.collect();
    let images = ImageSlot::new(quorum.image());
    let (ready_sender, ready) = oneshot::channel();
    let heartbeat_interval = config.heartbeat_interval();
    let session_timeout = config.session_timeout();
    let leader_balance_interval = config.leader_balance_interval();
    let control = Control {
        runtime,
        quorum,
        inbox,
        client: client.clone(),
        shards: handles.clone(),
        node: config.node_id,
        registrar: Box::new(Registrations::new(config, layout)),
        launch: None,
        ready: ready_sender,
        images: images.clone(),
        heartbeat_interval,
        session_timeout,
        leader_balance_interval,
    };
    Ok(Assembly {
        shards: contexts,
        control,
        client,
        handles,
        factory,
        ready,
        images,
        connections,
    })
}

/// Makes what a shard is started with, at the node's start and again.
pub struct ShardFactory {
    config: Arc<BrokerConfig>,
    folders: Vec<PathBuf>,
    client: ControlClient,
    connections: ConnectionLimits,
    peers: Peers,
    handles: Vec<ShardHandle>,
}

impl ShardFactory {
    /// What `shard` is started with; from now on its handle reaches the mailbox in it.
    pub fn context(&self, shard: u32, format: bool) -> ShardContext {
        let handle = &self.handles[shard as usize];
        let (sender, receiver) = mailbox(SHARD_MAILBOX_CAPACITY);
        handle.mailbox.replace(sender);
        // What the one before was told and did not take is told again.
        handle.image.take();
        let listeners = self.config.listeners.iter();
        let broker_id = self.config.node_id.broker(shard);
        ShardContext {
            shard,
            broker_id,
            replication: self.peers.enter(broker_id),
            peers: self.peers.clone(),
            config: self.config.clone(),
            directory: self.folders[shard as usize].clone(),
            format,
            control: self.client.clone(),
            image: handle.image.clone(),
            mailbox: receiver,
            connections: self.connections.clone(),
            listeners: listeners
                .map(|listener| ShardListener {
                    name: listener.name.clone(),
                    address: bind_address(listener.bind, listener.base_port, shard),
                })
                .collect(),
            link: self
                .config
                .links
                .as_ref()
                .map(|links| bind_address(links.bind, links.base_port, shard)),
        }
    }
}

async fn initialize(quorum: &impl Quorum, cluster_id: Uuid) -> Result<(), QuorumError> {
    if quorum.image().cluster_id().is_none() {
        let mut commands = vec![Command::InitializeCluster { cluster_id }];
        // Nobody is there who would not understand it.
        if quorum.is_alone() {
            let version = MetadataVersion::NEWEST;
            commands.push(Command::FinalizeMetadataVersion { version });
        }
        let decided = quorum.commit(commands).await?;
        let done = |answer: &Answer| *answer == Answer::Whole(Ok(()));
        assert!(
            decided.answers.iter().all(done),
            "an empty log takes its cluster's id and version"
        );
    }
    Ok(())
}

/// Whether the metadata is of the cluster that the directory was formatted for; a new one is of none.
pub fn is_of_cluster(image: &ClusterImage, cluster_id: Uuid) -> bool {
    image.cluster_id().is_none_or(|stored| stored == cluster_id)
}

fn bind_address(ip: IpAddr, base_port: u16, shard: u32) -> SocketAddr {
    let port = match base_port {
        0 => 0,
        base => base + shard as u16,
    };
    SocketAddr::new(ip, port)
}

/// Registers the node and its shards.
struct Registrations {
    config: Arc<BrokerConfig>,
    directory_id: Uuid,
    boot_id: String,
    /// By shard.
    directory_ids: Vec<Uuid>,
    mark_formatted: Option<Box<dyn FnOnce()>>,
}

impl Registrations {
    fn new(config: Arc<BrokerConfig>, layout: Layout) -> Self {
        Self {
            config,
            directory_id: layout.directory_id,
            boot_id: layout.boot_id,
            directory_ids: layout.shards.iter().map(|place| place.directory_id).collect(),
            mark_formatted: Some(layout.mark_formatted),
        }
    }
}

impl Registrar for Registrations {
    fn node(&mut self, started: &[StartedShard]) -> NodeRegistration {
        if let Some(mark_formatted) = self.mark_formatted.take() {
            mark_formatted();
        }
        let shards = (0..).zip(started);
        NodeRegistration {
            node: self.config.node_id,
            directory_id: self.directory_id,
            boot_id: self.boot_id.clone(),
            rack: self.config.rack.clone(),
            shards: shards
                .map(|(shard, started)| self.shard(shard, started).1)
                .collect(),
        }
    }

    fn shard(&self, shard: u32, started: &StartedShard) -> (Uuid, ShardRegistration) {
        let registration = ShardRegistration {
            shard,
            directory_id: self.directory_ids[shard as usize],
            endpoints: endpoints(&self.config, shard, started),
            link: link(&self.config, started),
            damaged: started.damaged.clone(),
        };
        (self.directory_id, registration)
    }
}

fn link(config: &BrokerConfig, started: &StartedShard) -> Option<LinkAddress> {
    let links = config.links.as_ref()?;
    Some(LinkAddress {
        host: links.advertised_host.clone(),
        port: started.link?.port(),
    })
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
