//! A whole node in the simulator: the real control loop, shards, store and quorum, on virtual time and a simulated disk.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use strandline_runtime::sim::SimRuntime;
use strandline_runtime::{Queue, Runtime};
use strandline_storage::disk::{Disk, SimDisk};
use thiserror::Error;
use tokio::sync::oneshot;
use uuid::Uuid;

use super::assemble::{Assembly, Layout, ShardLayout, assemble};
use super::context::{ImageSlot, ShardContext, StartedShard};
use crate::config::BrokerConfig;
use crate::control::client::{ControlClient, ShardOrder};
use crate::control::quorum::{QuorumError, SingleQuorum};
use crate::control::run::NodeFailure;
use crate::control::store::{Database, InlineStore, SimulatedBackend, StoreError};

/// Small, so that a simulation meets snapshots.
const SNAPSHOT_BYTES_MIN: u64 = 4 << 10;
/// One per simulated machine; the disk decides what is on it.
const DIRECTORY: &str = "/data";

/// A running node of a simulation.
///
/// Its shards share the node's host, or have one each: then a shard can die alone, and clients reach each at its host.
pub struct SimulatedNode {
    /// Completes once every shard serves, with what each bound.
    pub ready: oneshot::Receiver<Vec<StartedShard>>,
    /// Completes when the node has ended.
    pub ended: oneshot::Receiver<Result<(), NodeFailure>>,
    /// Proposes changes, and stops the node.
    pub client: ControlClient,
    /// Holds the newest image.
    pub images: ImageSlot,
    /// Where each shard runs.
    hosts: Vec<SimRuntime>,
}

impl SimulatedNode {
    /// The host of a shard.
    pub fn host(&self, shard: u32) -> SimRuntime {
        // Its newest life: a runtime of an earlier one is dead.
        self.hosts[shard as usize].revived()
    }

    /// Kills one shard, which has a host of its own, as a panic would that left the rest alone: its tasks end where they
    /// are, its connections are reset. What it had not written is gone.
    pub fn kill_shard(&self, shard: u32) {
        self.hosts[shard as usize].kill_host();
        drop(self.client.order(shard, ShardOrder::Lost));
    }

    /// Has one shard close its store and end, or start again.
    pub fn order(&self, shard: u32, order: ShardOrder) {
        drop(self.client.order(shard, order));
    }
}

/// A node that could not be put together.
#[derive(Debug, Error)]
pub enum SimulatedStartError {
    /// The disk.
    #[error(transparent)]
    Disk(#[from] io::Error),
    /// The metadata store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The first commit.
    #[error(transparent)]
    Quorum(#[from] QuorumError),
}

/// Starts a node on one simulated host, with what its disk holds; an empty disk is formatted.
///
/// # Errors
/// [`SimulatedStartError`]; what a shard meets ends the node instead.
pub async fn start(
    runtime: &SimRuntime,
    disk: &SimDisk,
    config: Arc<BrokerConfig>,
) -> Result<SimulatedNode, SimulatedStartError> {
    let hosts = vec![runtime.clone(); config.shards as usize];
    start_on(runtime, disk, config, hosts).await
}

/// The same with a host for each shard, `shard-<n>`.
///
/// # Errors
/// As [`start`].
pub async fn start_apart(
    runtime: &SimRuntime,
    disk: &SimDisk,
    config: Arc<BrokerConfig>,
) -> Result<SimulatedNode, SimulatedStartError> {
    let host = |shard| runtime.of_host(&format!("shard-{shard}"));
    let hosts = (0..config.shards).map(host).collect();
    start_on(runtime, disk, config, hosts).await
}

async fn start_on(
    runtime: &SimRuntime,
    disk: &SimDisk,
    config: Arc<BrokerConfig>,
    hosts: Vec<SimRuntime>,
) -> Result<SimulatedNode, SimulatedStartError> {
    let directory = Path::new(DIRECTORY);
    disk.make_durable_directories(directory)?;
    let database = Database::open_backend(SimulatedBackend::of(disk, &directory.join("quorum.redb")))?;
    disk.flush_directory(directory).await?;
    let image = database.load()?;
    let mut shards = Vec::new();
    for shard in 0..config.shards {
        let folder = directory.join(format!("shard-{shard}"));
        // A shard that was never registered has never served: what its folder holds is a format that was cut off.
        let is_new = image.broker(config.node_id.broker(shard)).is_none();
        if is_new {
            remove(disk, &folder).await?;
            disk.create_directory(&folder).await?;
            disk.flush_directory(directory).await?;
        }
        shards.push(ShardLayout {
            folder,
            directory_id: directory_id(),
            is_new,
        });
    }
    let layout = Layout {
        cluster_id: Uuid::from_u128(1),
        directory_id: directory_id(),
        boot_id: "simulated".to_owned(),
        shards,
        mark_formatted: Box::new(|| {}),
    };
    let quorum = SingleQuorum::new(InlineStore(database), image, SNAPSHOT_BYTES_MIN);
    let node = assemble(runtime.clone(), quorum, config, layout).await?;
    Ok(run(runtime, disk, node, hosts))
}

fn directory_id() -> Uuid {
    Uuid::from_u128(2)
}

fn run(
    runtime: &SimRuntime,
    disk: &SimDisk,
    mut node: Assembly<SimRuntime, SingleQuorum<InlineStore>>,
    hosts: Vec<SimRuntime>,
) -> SimulatedNode {
    for context in node.shards {
        let host = &hosts[context.shard as usize];
        let is_apart = host.address() != runtime.address();
        run_shard(host.clone(), disk.clone(), node.client.clone(), context, is_apart);
    }
    let (factory, launched, client) = (node.factory, hosts.clone(), node.client.clone());
    let disk = disk.clone();
    let own = runtime.address();
    node.control.launch = Some(Box::new(move |shard| {
        let host = launched[shard as usize].revived();
        let is_apart = host.address() != own;
        let context = factory.context(shard, false);
        run_shard(host, disk.clone(), client.clone(), context, is_apart);
    }));
    let (end, ended) = oneshot::channel();
    let control = node.control.run();
    runtime.spawn(Queue::Latency, async move {
        // A driver that does not wait for the end needs no word of it.
        let _ = end.send(control.await);
    });
    SimulatedNode {
        ready: node.ready,
        ended,
        client: node.client,
        images: node.images,
        hosts,
    }
}

fn run_shard(
    runtime: SimRuntime,
    disk: SimDisk,
    client: ControlClient,
    context: ShardContext,
    is_apart: bool,
) {
    runtime.clone().spawn(Queue::Latency, async move {
        let shard = context.shard;
        let result = crate::shard::run(runtime.clone(), disk, context).await;
        client.ended(shard, result.map_err(|error| error.to_string()));
        // As with a real executor: what is left of its tasks ends with it.
        if is_apart {
            runtime.kill_host();
        }
    });
}

/// Removes a folder and all in it.
async fn remove(disk: &SimDisk, folder: &Path) -> io::Result<()> {
    if !disk.exists(folder).await? {
        return Ok(());
    }
    let mut folders = vec![folder.to_owned()];
    let mut emptied: Vec<PathBuf> = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in disk.list(&folder).await? {
            let path = folder.join(entry.name);
            match entry.is_directory {
                true => folders.push(path),
                false => disk.remove_file(&path).await?,
            }
        }
        emptied.push(folder);
    }
    for folder in emptied.iter().rev() {
        disk.remove_directory(folder).await?;
    }
    Ok(())
}
