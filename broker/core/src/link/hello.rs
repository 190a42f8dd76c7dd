//! The first bytes in each direction: who speaks, to whom, and which versions both understand.
//!
//! ```text
//! magic "SLNK" · lowest version u16 · highest version u16 · cluster id 16 bytes · directory id of the sender's node
//! 16 bytes · sender's broker i32 · broker meant i32 · sender's broker epoch i64 · zero, 8 bytes · XXH3-64 of all before u64
//! ```
//!
//! These bytes stay as they are in every version.

use thiserror::Error;
use uuid::Uuid;
use xxhash_rust::xxh3::xxh3_64;

use super::cursor::Cursor;
use crate::metadata::{BrokerEpoch, BrokerId};

/// Bytes of a hello.
pub const HELLO_BYTES: usize = 72;
const MAGIC: [u8; 4] = *b"SLNK";

/// The link versions that a program speaks, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Versions {
    /// The oldest.
    pub min: u16,
    /// The newest.
    pub max: u16,
}

/// What this program speaks.
pub const VERSIONS: Versions = Versions { min: 1, max: 1 };

/// Who a shard is on a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkIdentity {
    /// The cluster.
    pub cluster_id: Uuid,
    /// The node's data directory.
    pub directory_id: Uuid,
    /// The shard.
    pub broker: BrokerId,
    /// Its registration.
    pub broker_epoch: BrokerEpoch,
}

/// The first message of each side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Who speaks.
    pub from: LinkIdentity,
    /// Whom it means to reach.
    pub to: BrokerId,
    /// What it speaks.
    pub versions: Versions,
}

/// Why a link does not open; each text names the remedy.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum HelloError {
    /// Some other service.
    #[error("the other side is no Strandline link: check that the port is the peer's link port")]
    Magic,
    /// Bits changed on the way.
    #[error("the hello of the other side is damaged")]
    Checksum,
    /// No version in common.
    #[error(
        "the other side speaks link versions {}-{}, this one {}-{}: upgrade the older node to the release between",
        theirs.min, theirs.max, ours.min, ours.max
    )]
    Versions {
        /// This side's.
        ours: Versions,
        /// The other side's.
        theirs: Versions,
    },
    /// Another cluster.
    #[error(
        "the other side is of cluster {theirs}, this node of {ours}: correct the address or the data directory"
    )]
    Cluster {
        /// This side's.
        ours: Uuid,
        /// The other side's.
        theirs: Uuid,
    },
    /// Another shard than the one meant.
    #[error("broker {found} answers where {expected} was expected: correct the advertised link addresses")]
    Broker {
        /// The one meant.
        expected: BrokerId,
        /// The one there.
        found: BrokerId,
    },
}

impl Hello {
    /// Its bytes.
    pub fn encode(&self) -> [u8; HELLO_BYTES] {
        let mut out = Vec::with_capacity(HELLO_BYTES);
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&self.versions.min.to_le_bytes());
        out.extend_from_slice(&self.versions.max.to_le_bytes());
        out.extend_from_slice(self.from.cluster_id.as_bytes());
        out.extend_from_slice(self.from.directory_id.as_bytes());
        out.extend_from_slice(&self.from.broker.0.to_le_bytes());
        out.extend_from_slice(&self.to.0.to_le_bytes());
        out.extend_from_slice(&self.from.broker_epoch.0.to_le_bytes());
        out.extend_from_slice(&[0; 8]);
        let sum = xxh3_64(&out);
        out.extend_from_slice(&sum.to_le_bytes());
        out.try_into().expect("the fields fill a hello")
    }

    /// Reads a hello.
    ///
    /// # Errors
    /// [`HelloError::Magic`], [`HelloError::Checksum`].
    pub fn decode(bytes: &[u8; HELLO_BYTES]) -> Result<Self, HelloError> {
        let (fields, sum) = bytes.split_at(HELLO_BYTES - 8);
        if fields[..4] != MAGIC {
            return Err(HelloError::Magic);
        }
        if xxh3_64(fields).to_le_bytes() != sum {
            return Err(HelloError::Checksum);
        }
        let mut cursor = Cursor(&fields[4..]);
        let mut read = || -> Result<Self, super::LinkError> {
            let versions = Versions {
                min: cursor.u16()?,
                max: cursor.u16()?,
            };
            let (cluster_id, directory_id) = (cursor.uuid()?, cursor.uuid()?);
            let (broker, to) = (BrokerId(cursor.i32()?), BrokerId(cursor.i32()?));
            let from = LinkIdentity {
                cluster_id,
                directory_id,
                broker,
                broker_epoch: BrokerEpoch(cursor.i64()?),
            };
            Ok(Self { from, to, versions })
        };
        read().map_err(|_| HelloError::Checksum)
    }

    /// The version to speak with the sender of this hello, which `own` received; `expected` is whom it called, if it did.
    ///
    /// # Errors
    /// [`HelloError`], for which the link is closed.
    pub fn accept(
        &self,
        own: &LinkIdentity,
        ours: Versions,
        expected: Option<BrokerId>,
    ) -> Result<u16, HelloError> {
        let theirs = self.versions;
        let highest = ours.max.min(theirs.max);
        if highest < ours.min.max(theirs.min) {
            return Err(HelloError::Versions { ours, theirs });
        }
        if self.from.cluster_id != own.cluster_id {
            return Err(HelloError::Cluster {
                ours: own.cluster_id,
                theirs: self.from.cluster_id,
            });
        }
        let wrong = |expected, found| Err(HelloError::Broker { expected, found });
        match expected {
            Some(expected) if expected != self.from.broker => wrong(expected, self.from.broker),
            _ if self.to != own.broker => wrong(self.to, own.broker),
            _ => Ok(highest),
        }
    }
}
