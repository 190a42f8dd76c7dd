//! The types that openraft is instantiated with.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use strandline_core::metadata::{Command, NodeId};
use uuid::Uuid;

use super::runtime::Seam;
use crate::control::quorum::Decided;

/// A voter or learner: a node with the data directory that keeps its log.
///
/// A node whose directory was wiped is another one: what the old one had promised, it does not know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VoterId {
    /// The node.
    pub node: NodeId,
    /// The id of its first data directory.
    pub directory: Uuid,
}

/// Where a voter's controller listens.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VoterAddress {
    /// A name or an address, without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
}

/// Commands that are committed as one: all or none, in this order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Batch {
    /// In the order of the answers.
    pub commands: Vec<Command>,
}

openraft::declare_raft_types!(
    /// openraft with our types.
    pub TypeConfig:
        D = Batch,
        R = Decided,
        NodeId = VoterId,
        Node = VoterAddress,
        Entry = openraft::Entry<TypeConfig>,
        SnapshotData = Vec<u8>,
        AsyncRuntime = Seam,
);

/// The place of an entry in the log.
pub type LogId = openraft::LogId<VoterId>;
/// Who votes and who learns, with the entry that says so.
pub type StoredMembership = openraft::StoredMembership<VoterId, VoterAddress>;
/// Why the store failed, as openraft wants it.
pub type RaftStorageError = openraft::StorageError<VoterId>;
/// An entry of the log.
pub type Entry = openraft::Entry<TypeConfig>;
/// A vote.
pub type Vote = openraft::Vote<VoterId>;

impl fmt::Display for VoterId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.node, self.directory)
    }
}

impl FromStr for VoterId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refuse = || format!("'{text}' is no voter: it is written as node:directory");
        let (node, directory) = text.split_once(':').ok_or_else(refuse)?;
        Ok(Self {
            node: NodeId(node.parse().map_err(|_| refuse())?),
            directory: directory.parse().map_err(|_| refuse())?,
        })
    }
}

/// A text, so that it can be the key of a map.
impl Serialize for VoterId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for VoterId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl fmt::Display for VoterAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(formatter, "[{}]:{}", self.host, self.port),
            false => write!(formatter, "{}:{}", self.host, self.port),
        }
    }
}

impl fmt::Display for Batch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} commands", self.commands.len())
    }
}

#[cfg(test)]
impl From<u64> for VoterId {
    fn from(number: u64) -> Self {
        Self {
            node: NodeId(number as i32),
            directory: Uuid::from_u128(number.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_voter_is_written_and_read() {
        let voter = VoterId::from(7);
        assert_eq!(voter.to_string(), "7:00000000-0000-0000-0000-000000000007");
        assert_eq!(voter.to_string().parse(), Ok(voter));
        for text in ["", "7", "x:y", "7:", ":00000000-0000-0000-0000-000000000007"] {
            assert!(text.parse::<VoterId>().is_err(), "{text}");
        }
    }

    #[test]
    fn an_ipv6_address_has_brackets() {
        let of = |host: &str| VoterAddress {
            host: host.into(),
            port: 9090,
        };
        assert_eq!(of("::1").to_string(), "[::1]:9090");
        assert_eq!(of("a").to_string(), "a:9090");
    }
}
