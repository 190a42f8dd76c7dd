//! Starts a node, runs it, and stops it in order: shards first, the quorum last.

use std::path::PathBuf;
use std::sync::Arc;

use super::tokio_stopgap::TokioRuntime;
use strandline_core::metadata::{
    Answer, ClusterImage, Command, Endpoint, NodeRegistration, ShardRegistration,
};
use strandline_runtime::SocketAddr;
use strandline_runtime::glommio_runtime::{
    ExecutorError, HostError, ShardExecutorOptions, ShardHandle, check_host,
};
use strandline_runtime::glommio_runtime::{QueueShares, spawn_shard};
use strandline_runtime::mailbox::{Receiver, mailbox};
use strandline_storage::disk::GlommioDisk;
use thiserror::Error;
use tokio::sync::oneshot;
use uuid::Uuid;

use super::connections::ConnectionLimits;
use super::context::{ImageSlot, ShardContext, ShardListener, ShardMessage, StartedShard};
use super::directories::{Directories, DirectoryError, Inspected};
use super::{limits, panics, ready, signals};
use crate::config::{BrokerConfig, ConfigError};
use crate::control::client::ControlClient;
use crate::control::quorum::{Quorum, QuorumError, SingleQuorum};
use crate::control::run::{Control, NodeFailure, ShardHandle as ShardAddress};
use crate::control::store::{Database, StoreError, ThreadedStore};
use crate::http::{self, HttpError};

/// A shard's mailbox: an announcement, a stop, and the scrapes of one moment.
const SHARD_MAILBOX_CAPACITY: usize = 64;
/// The quorum's log grows by this much before a snapshot replaces it.
const SNAPSHOT_BYTES_MIN: u64 = 8 << 20;

/// Why the node did not start, or ended other than by a signal; each text names a remedy where there is one.
#[derive(Debug, Error)]
pub enum StartError {
    /// The configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A data directory.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// The machine refuses io_uring or memory.
    #[error(transparent)]
    Host(#[from] HostError),
    /// An executor could not be made.
    #[error(transparent)]
    Executor(#[from] ExecutorError),
    /// The metadata store does not open.
    #[error("{path}: {source}", path = path.display())]
    Store {
        /// The file.
        path: PathBuf,
        /// Why.
        source: StoreError,
    },
    /// The metadata is of another cluster than the directory.
    #[error("{path}: it belongs to cluster {stored}, and the data directory to cluster {expected}", path = path.display())]
    OtherCluster {
        /// The file.
        path: PathBuf,
        /// What the file says.
        stored: Uuid,
        /// What `node.toml` says.
        expected: Uuid,
    },
    /// The metadata store failed during the first commit.
    #[error("the metadata store: {0}")]
    Quorum(#[from] QuorumError),
    /// The HTTP endpoint could not be bound.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// The system refused something else.
    #[error("{0}")]
    System(#[from] std::io::Error),
    /// The node failed.
    #[error(transparent)]
    Failed(#[from] NodeFailure),
}

impl StartError {
    /// Whether the node had started when it happened.
    pub fn while_running(&self) -> bool {
        matches!(self, Self::Failed(failure) if !matches!(failure, NodeFailure::Start { .. }))
    }
}

/// Runs a node until a signal stops it.
///
/// # Errors
/// [`StartError`].
pub fn run(config: BrokerConfig, directories: Inspected) -> Result<(), StartError> {
    panics::abort_on_panic();
    check_host()?;
    limits::raise_open_files();
    let directories = directories.open()?;
    let (database, image) = open_quorum(&directories)?;
    let config = Arc::new(config);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let local = tokio::task::LocalSet::new();
    let store = ThreadedStore::start(database)?;
    local.block_on(&runtime, run_control(config, directories, store, image))
}

fn open_quorum(directories: &Directories) -> Result<(Database, ClusterImage), StartError> {
    let path = directories.quorum_file();
    let failed = |source| StartError::Store {
        path: path.clone(),
        source,
    };
    let database = Database::open(&path).map_err(failed)?;
    let image = database.load().map_err(failed)?;
    if let Some(stored) = image.cluster_id()
        && stored != directories.cluster_id()
    {
        let expected = directories.cluster_id();
        return Err(StartError::OtherCluster {
            path,
            stored,
            expected,
        });
    }
    Ok((database, image))
}

async fn run_control(
    config: Arc<BrokerConfig>,
    mut directories: Directories,
    store: ThreadedStore,
    image: ClusterImage,
) -> Result<(), StartError> {
    let mut quorum = SingleQuorum::new(store, image, SNAPSHOT_BYTES_MIN);
    if quorum.image().cluster_id().is_none() {
        let cluster_id = directories.cluster_id();
        let answers = quorum
            .commit(vec![Command::InitializeCluster { cluster_id }])
            .await?;
        assert_eq!(
            answers,
            [Answer::Whole(Ok(()))],
            "an empty log takes its cluster's id"
        );
    }
    let connections = ConnectionLimits::default();
    let (client, inbox) = ControlClient::new(config.shards);
    let (addresses, mailboxes): (Vec<_>, Vec<_>) = (0..config.shards)
        .map(|_| {
            let (sender, receiver) = mailbox(SHARD_MAILBOX_CAPACITY);
            (
                ShardAddress {
                    mailbox: sender,
                    image: ImageSlot::new(quorum.image().clone()),
                },
                receiver,
            )
        })
        .unzip();
    let http = http::Server::bind(&config, &addresses, connections.clone()).await?;
    let executors = start_shards(
        &config,
        &directories,
        &client,
        &connections,
        &addresses,
        mailboxes,
    )?;
    signals::stop_on_signal(client.clone())?;

    let (ready, started) = oneshot::channel();
    let boot_id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?
        .trim()
        .to_owned();
    let register = {
        let config = config.clone();
        Box::new(move |started: &[StartedShard]| {
            // From here on the shards' folders hold whole stores.
            if let Err(error) = directories.mark_formatted() {
                panic!("node.toml cannot be written: {error}");
            }
            registration(&config, &directories, boot_id, started)
        })
    };
    let published = http.as_ref().map(http::Server::images);
    let announce = ready::announce(config.clone(), http.as_ref().map(http::Server::address), started);
    if let Some(http) = http {
        tokio::task::spawn_local(http.serve());
    }
    tokio::task::spawn_local(announce);
    let result = Control {
        runtime: TokioRuntime::new(),
        quorum,
        inbox,
        shards: addresses,
        node: config.node_id,
        register,
        ready,
        published: Box::new(move |image| {
            if let Some(published) = &published {
                published.publish(image.clone());
            }
        }),
    }
    .run()
    .await;
    for executor in executors {
        executor.join()?;
    }
    drop(client);
    Ok(result?)
}

fn start_shards(
    config: &Arc<BrokerConfig>,
    directories: &Directories,
    client: &ControlClient,
    connections: &ConnectionLimits,
    addresses: &[ShardAddress],
    mailboxes: Vec<Receiver<ShardMessage>>,
) -> Result<Vec<ShardHandle<()>>, StartError> {
    let mut executors = Vec::new();
    for ((shard, address), mailbox) in (0..).zip(addresses).zip(mailboxes) {
        let context = ShardContext {
            shard,
            broker_id: config.node_id.broker(shard),
            config: config.clone(),
            directory: directories.shard_folder(shard),
            format: directories.is_new(shard),
            control: client.clone(),
            image: address.image.clone(),
            mailbox,
            connections: connections.clone(),
            listeners: listeners(config, shard),
        };
        let control = client.clone();
        let executor = spawn_shard(executor_options(config, shard), async move |runtime| {
            let result = crate::shard::run(runtime, GlommioDisk::new(), context).await;
            control.ended(shard, result.map_err(|error| error.to_string()));
        })?;
        executors.push(executor);
    }
    Ok(executors)
}

fn listeners(config: &BrokerConfig, shard: u32) -> Vec<ShardListener> {
    let listener = |listener: &crate::config::broker::Listener| {
        let port = match listener.base_port {
            0 => 0,
            base => base + shard as u16,
        };
        ShardListener {
            name: listener.name.clone(),
            address: SocketAddr::new(listener.bind, port),
        }
    };
    config.listeners.iter().map(listener).collect()
}

/// Shards get cores of their own where there are enough; else they share them, and then nothing spins.
fn executor_options(config: &BrokerConfig, shard: u32) -> ShardExecutorOptions {
    let cores = &config.cores;
    let exclusive = config.shards as usize <= cores.len();
    ShardExecutorOptions {
        name: format!("shard-{shard}"),
        cpu: (!cores.is_empty()).then(|| cores[shard as usize % cores.len()]),
        spin: if exclusive {
            config.shard_spin
        } else {
            std::time::Duration::ZERO
        },
        preempt_timer: config.shard_preempt,
        ring_depth: config.shard_ring_depth,
        io_memory_bytes: config.shard_io_memory_bytes,
        shares: QueueShares::default(),
    }
}

fn registration(
    config: &BrokerConfig,
    directories: &Directories,
    boot_id: String,
    started: &[StartedShard],
) -> NodeRegistration {
    let shard = |(shard, started): (u32, &StartedShard)| ShardRegistration {
        shard,
        directory_id: directories.directory_id_of_shard(shard),
        endpoints: endpoints(config, shard, started),
    };
    NodeRegistration {
        node: config.node_id,
        directory_id: directories.directory_id(),
        boot_id,
        rack: config.rack.clone(),
        shards: (0..).zip(started).map(shard).collect(),
    }
}

fn endpoints(config: &BrokerConfig, shard: u32, started: &StartedShard) -> Vec<Endpoint> {
    let pairs = config.listeners.iter().zip(&started.addresses);
    let endpoint = |(listener, address): (&crate::config::broker::Listener, &SocketAddr)| {
        let (host, port) = listener.advertised.of_shard(shard, address.port());
        Endpoint {
            listener: listener.name.clone(),
            host,
            port,
        }
    };
    pairs.map(endpoint).collect()
}
