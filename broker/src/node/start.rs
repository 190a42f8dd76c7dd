//! Starts a node, runs it, and stops it in order: shards first, the quorum last.

use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use strandline_core::metadata::ClusterImage;
use strandline_runtime::glommio_runtime::{
    ExecutorError, HostError, QueueShares, ShardExecutorOptions, ShardHandle, check_host, spawn_shard,
};
use strandline_runtime::tokio_runtime::{self, TokioRuntime};
use strandline_runtime::{Queue, Runtime};
use strandline_storage::disk::GlommioDisk;
use thiserror::Error;
use uuid::Uuid;

use super::assemble::{Layout, ShardLayout, assemble, is_of_cluster};
use super::cluster::{self, ClusterError};
use super::context::ShardContext;
use super::directories::{Directories, DirectoryError, Inspected};
use super::operations::Operations;
use super::{large_blocks, panics, ports, ready, signals};
use crate::config::controller::ControllerConfig;
use crate::config::{BrokerConfig, ConfigError};
use crate::control::client::ControlClient;
use crate::control::quorum::{Quorum, QuorumError, SingleQuorum};
use crate::control::run::NodeFailure;
use crate::control::store::{Database, StoreError, ThreadedStore};
use crate::http::{self, HttpError};

const BOOT_ID_FILE: &str = "/proc/sys/kernel/random/boot_id";
/// The quorum's log grows by this much before a snapshot replaces it.
const SNAPSHOT_BYTES_MIN: u64 = 8 << 20;

/// Why the node did not start, or ended other than by a signal; each text names a remedy where there is one.
#[derive(Debug, Error)]
pub enum StartError {
    /// The configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The cluster.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
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
    /// Ports that others listen on: a line each.
    #[error("{}", .0.join("\n"))]
    Ports(Vec<String>),
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
        matches!(self, Self::Failed(failure) if failure.while_running())
    }
}

/// Runs a node until a signal stops it.
///
/// # Errors
/// [`StartError`].
pub fn run(config: BrokerConfig, directories: Inspected) -> Result<(), StartError> {
    panics::abort_on_panic();
    check_host()?;
    // What keeps the node from starting is found before anything is written for it.
    let taken = ports::taken(&config);
    if !taken.is_empty() {
        return Err(StartError::Ports(taken));
    }
    directories.check_writable()?;
    let mut directories = directories.open()?;
    let _locks = directories.locks();
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        node = %config.node_id,
        cluster = %directories.cluster_id(),
        shards = config.shards,
        "starting"
    );
    let (database, image) = open_quorum(&directories)?;
    let config = Arc::new(config);
    match config.controller.clone() {
        None if database.is_raft().map_err(ClusterError::from)? || directories.is_member() => {
            Err(ClusterError::NoVoters.into())
        }
        None => {
            let quorum = SingleQuorum::new(ThreadedStore::start(database)?, image, SNAPSHOT_BYTES_MIN);
            tokio_runtime::run_control(|runtime| run_control(runtime, config, directories, quorum))?
        }
        Some(controller) => {
            cluster::prepare(&database, &mut directories, &controller, &config)?;
            let store = ThreadedStore::start(database)?;
            tokio_runtime::run_control(|runtime| run_member(runtime, config, controller, directories, store))?
        }
    }
}

async fn run_member(
    runtime: TokioRuntime,
    config: Arc<BrokerConfig>,
    controller: ControllerConfig,
    mut directories: Directories,
    store: ThreadedStore,
) -> Result<(), StartError> {
    let joined = cluster::join(runtime.clone(), store, &config, &controller, &mut directories).await?;
    let Some(quorum) = joined else {
        return Ok(());
    };
    let member = quorum.0.clone();
    let result = run_control(runtime, config, directories, quorum).await;
    member.stop().await;
    result
}

fn open_quorum(directories: &Directories) -> Result<(Database, ClusterImage), StartError> {
    let path = directories.quorum_file();
    let failed = |source| StartError::Store {
        path: path.clone(),
        source,
    };
    let database = Database::open(&path).map_err(failed)?;
    let image = database.load().map_err(failed)?;
    let expected = directories.cluster_id();
    // A node of several that has never served takes the id of the cluster that it joins.
    if let Some(stored) = image.cluster_id()
        && (directories.has_served() || !directories.is_member())
        && !is_of_cluster(&image, expected)
    {
        return Err(StartError::OtherCluster {
            path,
            stored,
            expected,
        });
    }
    Ok((database, image))
}

async fn run_control(
    runtime: TokioRuntime,
    config: Arc<BrokerConfig>,
    directories: Directories,
    quorum: impl Quorum,
) -> Result<(), StartError> {
    // Held until every shard has ended.
    let _locks = directories.locks();
    let layout = layout(&config, directories)?;
    let mut node = assemble(runtime.clone(), quorum, config.clone(), layout).await?;
    let images = node.images.clone();
    let http = http::Server::bind(&config, &node.handles, node.images, node.connections).await?;
    let address = http.as_ref().map(http::Server::address);
    let executors = Rc::new(RefCell::new(start_shards(&config, &node.client, node.shards)?));
    let (factory, client) = (node.factory, node.client.clone());
    let (started, config_of_shards) = (executors.clone(), config.clone());
    node.control.launch = Some(Box::new(move |shard| {
        let context = factory.context(shard, false);
        match start_shard(&config_of_shards, &client, context) {
            Ok(executor) => started.borrow_mut().push(executor),
            Err(error) => client.ended(shard, Err(error.to_string())),
        }
    }));
    match Operations::bind(&config.log_dirs[0], node.client.clone(), images, config.node_id) {
        Ok(operations) => runtime.spawn(Queue::Latency, operations.serve()),
        Err(error) => tracing::warn!("strandctl shard cannot reach this node: {error}"),
    }
    runtime.spawn(
        Queue::Latency,
        signals::stop_on_signal(runtime.clone(), node.client)?,
    );
    if let Some(http) = http {
        runtime.spawn(Queue::Latency, http.serve());
    }
    runtime.spawn(Queue::Latency, ready::announce(config, address, node.ready));
    let result = node.control.run().await;
    for executor in executors.take() {
        executor.join()?;
    }
    result?;
    tracing::info!("stopped");
    Ok(())
}

fn layout(config: &BrokerConfig, mut directories: Directories) -> Result<Layout, StartError> {
    let shard = |shard| ShardLayout {
        folder: directories.shard_folder(shard),
        directory_id: directories.directory_id_of_shard(shard),
        is_new: directories.is_new(shard),
    };
    Ok(Layout {
        cluster_id: directories.cluster_id(),
        directory_id: directories.directory_id(),
        boot_id: std::fs::read_to_string(BOOT_ID_FILE)?.trim().to_owned(),
        shards: (0..config.shards).map(shard).collect(),
        mark_formatted: Box::new(move || {
            if let Err(error) = directories.mark_formatted() {
                panic!("the shards' folders cannot be recorded as formatted: {error}");
            }
        }),
    })
}

fn start_shards(
    config: &BrokerConfig,
    client: &ControlClient,
    contexts: Vec<ShardContext>,
) -> Result<Vec<ShardHandle<()>>, StartError> {
    let contexts = contexts.into_iter();
    contexts
        .map(|context| start_shard(config, client, context))
        .collect()
}

fn start_shard(
    config: &BrokerConfig,
    client: &ControlClient,
    context: ShardContext,
) -> Result<ShardHandle<()>, StartError> {
    let (shard, control) = (context.shard, client.clone());
    let kept_bytes = config.shard_kept_bytes();
    let executor = spawn_shard(executor_options(config, shard), async move |runtime| {
        large_blocks::keep_at_most(kept_bytes);
        let result = crate::shard::run(runtime, GlommioDisk::new(), context).await;
        control.ended(shard, result.map_err(|error| error.to_string()));
    })?;
    Ok(executor)
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
            Duration::ZERO
        },
        preempt_timer: config.shard_preempt,
        ring_depth: config.shard_ring_depth,
        io_memory_bytes: config.shard_io_memory_bytes,
        shares: QueueShares::default(),
    }
}
