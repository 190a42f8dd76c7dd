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
use super::context::{ImageSlot, StartedShard};
use crate::config::BrokerConfig;
use crate::control::client::ControlClient;
use crate::control::quorum::{QuorumError, SingleQuorum};
use crate::control::run::NodeFailure;
use crate::control::store::{Database, InlineStore, SimulatedBackend, StoreError};

/// Small, so that a simulation meets snapshots.
const SNAPSHOT_BYTES_MIN: u64 = 4 << 10;
/// One per simulated machine; the disk decides what is on it.
const DIRECTORY: &str = "/data";

/// A running node of a simulation.
pub struct SimulatedNode {
    /// Completes once every shard serves, with what each bound.
    pub ready: oneshot::Receiver<Vec<StartedShard>>,
    /// Completes when the node has ended.
    pub ended: oneshot::Receiver<Result<(), NodeFailure>>,
    /// Proposes changes, and stops the node.
    pub client: ControlClient,
    /// Holds the newest image.
    pub images: ImageSlot,
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
    Ok(run(runtime, disk, node))
}

fn directory_id() -> Uuid {
    Uuid::from_u128(2)
}

fn run(
    runtime: &SimRuntime,
    disk: &SimDisk,
    node: Assembly<SimRuntime, SingleQuorum<InlineStore>>,
) -> SimulatedNode {
    for context in node.shards {
        let (runtime_of_shard, disk, client) = (runtime.clone(), disk.clone(), node.client.clone());
        runtime.spawn(Queue::Latency, async move {
            let shard = context.shard;
            let result = crate::shard::run(runtime_of_shard, disk, context).await;
            client.ended(shard, result.map_err(|error| error.to_string()));
        });
    }
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
    }
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
