//! The first bytes of each side.
//!
//! ```text
//! magic "SLNQ" · lowest version u16 · highest version u16 · cluster id 16 bytes (zero: of none yet) · directory id of the
//! sender 16 bytes · directory id meant 16 bytes (zero: any) · sender's node i32 · node meant i32 · zero, 8 bytes ·
//! XXH3-64 of all before u64
//! ```
//!
//! These bytes stay as they are in every version.

use thiserror::Error;
use uuid::Uuid;
use xxhash_rust::xxh3::xxh3_64;

use crate::link::Versions;
use crate::metadata::NodeId;

/// Bytes of a hello.
pub const CONTROLLER_HELLO_BYTES: usize = 80;
const MAGIC: [u8; 4] = *b"SLNQ";

/// What this program speaks.
pub const CONTROLLER_VERSIONS: Versions = Versions { min: 1, max: 1 };

/// Who a controller is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControllerIdentity {
    /// The cluster; nil before it has one.
    pub cluster_id: Uuid,
    /// The node.
    pub node: NodeId,
    /// Its first data directory.
    pub directory_id: Uuid,
}

/// The first message of each side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControllerHello {
    /// Who speaks.
    pub from: ControllerIdentity,
    /// The node that it means to reach.
    pub to: NodeId,
    /// With which directory; nil for any.
    pub to_directory: Uuid,
    /// What it speaks.
    pub versions: Versions,
}

/// Why a connection between controllers does not open; each text names the remedy.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ControllerHelloError {
    /// Some other service.
    #[error(
        "no controller answers there: check that 'controller.quorum.voters' names the controllers' ports"
    )]
    Magic,
    /// Bits changed on the way.
    #[error("the hello of the other side is damaged")]
    Checksum,
    /// No version in common.
    #[error(
        "node {node} speaks controller versions {}-{}, this one {}-{}: upgrade the older node to the release between",
        theirs.min, theirs.max, ours.min, ours.max
    )]
    Versions {
        /// The other node.
        node: NodeId,
        /// This side's.
        ours: Versions,
        /// The other side's.
        theirs: Versions,
    },
    /// Another cluster.
    #[error(
        "node {node} is of cluster {theirs}, this node of {ours}: correct 'controller.quorum.voters' or the data directory"
    )]
    Cluster {
        /// The other node.
        node: NodeId,
        /// This side's.
        ours: Uuid,
        /// The other side's.
        theirs: Uuid,
    },
    /// Another node than the one meant.
    #[error("node {found} answers where node {expected} was expected: correct 'controller.quorum.voters'")]
    Node {
        /// The one meant.
        expected: NodeId,
        /// The one there.
        found: NodeId,
    },
    /// Both sides have one id.
    #[error("two nodes have the id {0}: give one of them another 'node.id'")]
    SameNode(NodeId),
    /// The node's directory is another than the one meant.
    #[error(
        "node {node} has the data directory {found}, and the quorum knows it with {expected}: if the old one is lost, let \
         `strandctl cluster replace {node}` admit the new one"
    )]
    Directory {
        /// The node.
        node: NodeId,
        /// The one meant.
        expected: Uuid,
        /// The one there.
        found: Uuid,
    },
}

impl ControllerHello {
    /// Its bytes.
    pub fn encode(&self) -> [u8; CONTROLLER_HELLO_BYTES] {
        let mut out = Vec::with_capacity(CONTROLLER_HELLO_BYTES);
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&self.versions.min.to_le_bytes());
        out.extend_from_slice(&self.versions.max.to_le_bytes());
        out.extend_from_slice(self.from.cluster_id.as_bytes());
        out.extend_from_slice(self.from.directory_id.as_bytes());
        out.extend_from_slice(self.to_directory.as_bytes());
        out.extend_from_slice(&self.from.node.0.to_le_bytes());
        out.extend_from_slice(&self.to.0.to_le_bytes());
        out.extend_from_slice(&[0; 8]);
        let sum = xxh3_64(&out);
        out.extend_from_slice(&sum.to_le_bytes());
        out.try_into().expect("the fields fill a hello")
    }

    /// Reads a hello.
    ///
    /// # Errors
    /// [`ControllerHelloError::Magic`], [`ControllerHelloError::Checksum`].
    pub fn decode(bytes: &[u8; CONTROLLER_HELLO_BYTES]) -> Result<Self, ControllerHelloError> {
        let (fields, sum) = bytes.split_at(CONTROLLER_HELLO_BYTES - 8);
        if fields[..4] != MAGIC {
            return Err(ControllerHelloError::Magic);
        }
        if xxh3_64(fields).to_le_bytes() != sum {
            return Err(ControllerHelloError::Checksum);
        }
        let uuid = |at: usize| Uuid::from_bytes(array(&bytes[at..]));
        let node = |at: usize| NodeId(i32::from_le_bytes(array(&bytes[at..])));
        Ok(Self {
            versions: Versions {
                min: u16::from_le_bytes(array(&bytes[4..])),
                max: u16::from_le_bytes(array(&bytes[6..])),
            },
            from: ControllerIdentity {
                cluster_id: uuid(8),
                directory_id: uuid(24),
                node: node(56),
            },
            to_directory: uuid(40),
            to: node(60),
        })
    }

    /// The version to speak with the sender of this hello, which a node that is `own` received.
    ///
    /// # Errors
    /// [`ControllerHelloError`], for which the connection is closed.
    pub fn accept(&self, own: &ControllerIdentity, ours: Versions) -> Result<u16, ControllerHelloError> {
        let (theirs, node) = (self.versions, self.from.node);
        let highest = ours.max.min(theirs.max);
        if highest < ours.min.max(theirs.min) {
            return Err(ControllerHelloError::Versions { node, ours, theirs });
        }
        let both_known = !own.cluster_id.is_nil() && !self.from.cluster_id.is_nil();
        if both_known && self.from.cluster_id != own.cluster_id {
            return Err(ControllerHelloError::Cluster {
                node,
                ours: own.cluster_id,
                theirs: self.from.cluster_id,
            });
        }
        if self.to != own.node {
            return Err(ControllerHelloError::Node {
                expected: self.to,
                found: own.node,
            });
        }
        if node == own.node && self.from.directory_id != own.directory_id {
            return Err(ControllerHelloError::SameNode(node));
        }
        if !self.to_directory.is_nil() && self.to_directory != own.directory_id {
            return Err(ControllerHelloError::Directory {
                node: own.node,
                expected: self.to_directory,
                found: own.directory_id,
            });
        }
        Ok(highest)
    }

    /// The version to speak with whoever answered with this hello to a node that is `own` and called `asked`.
    ///
    /// # Errors
    /// [`ControllerHelloError`], for which the connection is closed.
    pub fn accept_answer(
        &self,
        asked: &ControllerHello,
        ours: Versions,
    ) -> Result<u16, ControllerHelloError> {
        if self.from.node != asked.to {
            return Err(ControllerHelloError::Node {
                expected: asked.to,
                found: self.from.node,
            });
        }
        if !asked.to_directory.is_nil() && asked.to_directory != self.from.directory_id {
            return Err(ControllerHelloError::Directory {
                node: self.from.node,
                expected: asked.to_directory,
                found: self.from.directory_id,
            });
        }
        self.accept(&asked.from, ours)
    }
}

fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes[..N].try_into().expect("the slice is long enough")
}
