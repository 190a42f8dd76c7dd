//! A node of several: its controller starts, finds its place in the quorum, and learns which cluster it is of.

use std::io;
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::{Either, select};
use strandline_core::metadata::{MetadataOffset, NodeId};
use strandline_runtime::tokio_runtime::TokioRuntime;
use strandline_runtime::{Runtime, SocketAddr};
use thiserror::Error;
use uuid::Uuid;

use super::directories::Directories;
use super::signals;
use crate::config::BrokerConfig;
use crate::config::controller::ControllerConfig;
use crate::config::hosts;
use crate::control::quorum::Quorum;
use crate::control::raft::log::carried_over;
use crate::control::raft::member::{Member, MemberError, MemberOptions};
use crate::control::raft::quorum::RaftQuorum;
use crate::control::raft::types::VoterId;
use crate::control::store::{Database, StoreError, ThreadedStore};

/// Entries of the quorum's log between two snapshots.
const SNAPSHOT_ENTRIES: u64 = 10_000;
/// Between two lines that say what a node still waits for.
const WAITING_LINE: Duration = Duration::from_secs(10);

/// Why a node cannot take part in its cluster.
#[derive(Debug, Error)]
pub enum ClusterError {
    /// Its controller's port.
    #[error("the controller cannot listen on {address}: {source}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// openraft or its store.
    #[error(transparent)]
    Member(#[from] MemberError),
    /// The store.
    #[error("quorum.redb: {0}")]
    Store(#[from] StoreError),
    /// `node.toml`.
    #[error(transparent)]
    Directory(#[from] super::directories::DirectoryError),
    /// A voter without its log: it may have promised what it does not know any more.
    #[error(
        "the data directory has taken part in a quorum, and quorum.redb is gone: restore that file; if it is lost, empty the \
         data directory, start the node, and let `strandctl cluster replace {node}` admit it"
    )]
    LogLost {
        /// This node.
        node: NodeId,
    },
    /// A node of several was configured as one that is alone.
    #[error(
        "the data directory is of a cluster of several nodes: set 'controller.quorum.voters' as on the others"
    )]
    NoVoters,
    /// The quorum is of another cluster than this node's logs.
    #[error(
        "the quorum is of cluster {found}, and the data directory of {expected}: correct 'controller.quorum.voters', or \
         start with an empty directory"
    )]
    OtherCluster {
        /// The quorum's.
        found: Uuid,
        /// What the directory was formatted for.
        expected: Uuid,
    },
}

/// Makes the file one of a quorum of several, and remembers in `node.toml` that this node may have voted: from then on it does
/// not start without its log.
///
/// # Errors
/// [`ClusterError`].
pub(super) fn prepare(
    database: &Database,
    directories: &mut Directories,
    controller: &ControllerConfig,
    config: &BrokerConfig,
) -> Result<(), ClusterError> {
    if directories.is_member() && !database.is_raft()? {
        return Err(ClusterError::LogLost { node: config.node_id });
    }
    let voter = voter(directories, config);
    database.begin_raft(carried_over(voter, controller.advertised.clone()))?;
    Ok(directories.mark_member()?)
}

fn voter(directories: &Directories, config: &BrokerConfig) -> VoterId {
    VoterId {
        node: config.node_id,
        directory: directories.directory_id(),
    }
}

/// Starts the controller, and waits until this node knows its cluster; `None` if a signal came first.
///
/// # Errors
/// [`ClusterError`].
pub(super) async fn join(
    runtime: TokioRuntime,
    store: ThreadedStore,
    config: &BrokerConfig,
    controller: &ControllerConfig,
    directories: &mut Directories,
) -> Result<Option<RaftQuorum<TokioRuntime>>, ClusterError> {
    let address = controller.bind;
    let listener = runtime
        .listen(address)
        .await
        .map_err(|source| ClusterError::Listen { address, source })?;
    let options = MemberOptions {
        voter: voter(directories, config),
        address: controller.advertised.clone(),
        voters: controller.voters.clone(),
        cluster_id: directories.cluster_id(),
        election_timeout: config.election_timeout(),
        session_timeout: config.session_timeout(),
        leader_balance_interval: config.leader_balance_interval(),
        snapshot_entries: SNAPSHOT_ENTRIES,
    };
    let resolve = Rc::new(hosts::in_background());
    let member = Member::start(runtime.clone(), store, options, resolve).await?;
    member.serve(listener);
    let quorum = RaftQuorum(member);
    let cluster_id = {
        let known = std::pin::pin!(know_the_cluster(&runtime, &quorum, controller));
        let interrupted = std::pin::pin!(signals::interrupted());
        match select(known, interrupted).await {
            Either::Left((cluster_id, _)) => Some(cluster_id),
            Either::Right(_) => None,
        }
    };
    let Some(cluster_id) = cluster_id else {
        quorum.0.stop().await;
        return Ok(None);
    };
    directories
        .adopt_cluster(cluster_id)?
        .map_err(|expected| ClusterError::OtherCluster {
            found: cluster_id,
            expected,
        })?;
    Ok(Some(quorum))
}

async fn know_the_cluster(
    runtime: &TokioRuntime,
    quorum: &RaftQuorum<TokioRuntime>,
    controller: &ControllerConfig,
) -> Uuid {
    loop {
        if let Some(cluster_id) = quorum.image().cluster_id() {
            return cluster_id;
        }
        let changed = std::pin::pin!(quorum.changed(MetadataOffset(0)));
        let late = std::pin::pin!(runtime.sleep(WAITING_LINE));
        if let Either::Right(_) = select(changed, late).await {
            let voters = controller.voters.iter();
            let voters: Vec<String> = voters
                .map(|(node, address)| format!("{node}@{address}"))
                .collect();
            tracing::warn!(
                "waiting for a majority of the quorum; a cluster's first start takes all of its voters: {}",
                voters.join(", ")
            );
        }
    }
}
