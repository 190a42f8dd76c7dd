//! Why a node ends.

use strandline_core::metadata::MetadataOffset;
use thiserror::Error;

use super::quorum::QuorumError;

/// Why a node cannot go on.
#[derive(Debug, Error)]
pub enum NodeFailure {
    /// A shard could not start: a port in use, a store that does not open.
    #[error("shard {shard}: {reason}")]
    Start {
        /// Which.
        shard: u32,
        /// Its own words.
        reason: String,
    },
    /// A shard ended while it served.
    #[error("shard {shard} stopped: {reason}")]
    Shard {
        /// Which.
        shard: u32,
        /// Its own words.
        reason: String,
    },
    /// The metadata store cannot be relied on.
    #[error("{0}")]
    Quorum(#[from] QuorumError),
    /// The quorum refused this node.
    #[error("the node cannot be registered: {0}")]
    Registration(String),
    /// A shard has applied what the quorum does not know.
    #[error(
        "shard {shard} has applied metadata up to {applied}, but the quorum's log ends at {stored}: quorum.redb is \
         older than the logs; restore the newer file"
    )]
    QuorumBehindLogs {
        /// Which.
        shard: u32,
        /// What its checkpoint covers.
        applied: MetadataOffset,
        /// Where the quorum's log ends.
        stored: MetadataOffset,
    },
}

impl NodeFailure {
    /// Whether the node had been ready when it happened.
    pub fn while_running(&self) -> bool {
        match self {
            Self::Shard { .. } | Self::Quorum(_) => true,
            Self::Start { .. } | Self::Registration(_) | Self::QuorumBehindLogs { .. } => false,
        }
    }
}
