//! The metadata quorum: who votes, who learns, and changing that.

use strandline_wire::messages::describe_quorum_request::{PartitionData, TopicData};
use strandline_wire::messages::describe_quorum_response::{Listener, ReplicaState};
use strandline_wire::messages::{
    AddRaftVoterRequest, BrokerId, DescribeQuorumRequest, RemoveRaftVoterRequest, TopicName,
    UnregisterBrokerRequest,
};
use strandline_wire::protocol::StrBytes;
use strandline_wire::{ErrorCode, Uuid};

use super::{Client, ClientError, check};

const METADATA_TOPIC: &str = "__cluster_metadata";
/// Listeners of links are called so, with the number of the shard.
const LINK: &str = "LINK-";
/// How long the cluster waits for a node that is to vote, in milliseconds.
const ADD_TIMEOUT_MS: i32 = 30_000;

/// A node of the quorum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuorumMember {
    /// The node.
    pub node: i32,
    /// Its data directory; nil where the broker does not tell.
    pub directory: Uuid,
    /// Whether it votes.
    pub votes: bool,
    /// One above the last entry of its log, if the leader knows.
    pub log_end: Option<i64>,
    /// Where its controller listens.
    pub address: Option<String>,
    /// Where the shards of other nodes reach its own, by number.
    pub links: Vec<String>,
}

/// The quorum, as its leader sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quorum {
    /// The leader's node.
    pub leader: i32,
    /// Its term.
    pub epoch: i32,
    /// One above the last committed entry.
    pub high_watermark: i64,
    /// Voters first.
    pub members: Vec<QuorumMember>,
}

impl Client {
    /// The metadata quorum (KIP-595).
    ///
    /// # Errors
    /// The broker's, or the network's.
    pub fn describe_quorum(&mut self) -> Result<Quorum, ClientError> {
        let topic = TopicData::default()
            .with_topic_name(TopicName(StrBytes::from_static_str(METADATA_TOPIC)))
            .with_partitions(vec![PartitionData::default()]);
        let request = DescribeQuorumRequest::default().with_topics(vec![topic]);
        let response = self.ask_any(|connection| {
            let version = connection.version::<DescribeQuorumRequest>(2)?;
            connection.call(version, &request)
        })?;
        check("the quorum", response.error_code, response.error_message.as_ref())?;
        let partition = response.topics.first().and_then(|topic| topic.partitions.first());
        let Some(partition) = partition else {
            return Err(ClientError::broker(
                "the quorum",
                ErrorCode::UnknownServerError,
                None,
            ));
        };
        check(
            "the quorum",
            partition.error_code,
            partition.error_message.as_ref(),
        )?;
        let member = |replica: &ReplicaState, votes| {
            let node = response
                .nodes
                .iter()
                .find(|node| node.node_id == replica.replica_id);
            let listeners = node.map(|node| &node.listeners[..]).unwrap_or_default();
            let address = |listener: &Listener| format!("{}:{}", listener.host, listener.port);
            let is_link = |listener: &&Listener| listener.name.starts_with(LINK);
            QuorumMember {
                node: replica.replica_id.0,
                directory: replica.replica_directory_id,
                votes,
                log_end: (replica.log_end_offset >= 0).then_some(replica.log_end_offset),
                address: listeners.first().map(address),
                links: listeners.iter().filter(is_link).map(address).collect(),
            }
        };
        let voters = partition
            .current_voters
            .iter()
            .map(|replica| member(replica, true));
        let observers = partition.observers.iter().map(|replica| member(replica, false));
        Ok(Quorum {
            leader: partition.leader_id.0,
            epoch: partition.leader_epoch,
            high_watermark: partition.high_watermark,
            members: voters.chain(observers).collect(),
        })
    }

    /// Makes a node that learns from the quorum a voter (KIP-853).
    ///
    /// # Errors
    /// The broker's, or the network's.
    pub fn add_voter(&mut self, member: &QuorumMember) -> Result<(), ClientError> {
        let request = AddRaftVoterRequest::default()
            .with_cluster_id(None)
            .with_voter_id(member.node)
            .with_voter_directory_id(member.directory)
            .with_timeout_ms(ADD_TIMEOUT_MS);
        let response = self.ask_any(|connection| {
            let version = connection.version::<AddRaftVoterRequest>(0)?;
            connection.call(version, &request)
        })?;
        let subject = format!("node {}", member.node);
        check(&subject, response.error_code, response.error_message.as_ref())
    }

    /// Has the quorum forget a voter, or a node that learns (KIP-853).
    ///
    /// # Errors
    /// The broker's, or the network's.
    pub fn remove_voter(&mut self, member: &QuorumMember) -> Result<(), ClientError> {
        let request = RemoveRaftVoterRequest::default()
            .with_cluster_id(None)
            .with_voter_id(member.node)
            .with_voter_directory_id(member.directory);
        let response = self.ask_any(|connection| {
            let version = connection.version::<RemoveRaftVoterRequest>(0)?;
            connection.call(version, &request)
        })?;
        let subject = format!("node {}", member.node);
        check(&subject, response.error_code, response.error_message.as_ref())
    }

    /// Has the cluster forget the node that a broker is a shard of; true if it knew it.
    ///
    /// # Errors
    /// The broker's, or the network's.
    pub fn unregister_node(&mut self, broker: i32) -> Result<bool, ClientError> {
        let request = UnregisterBrokerRequest::default().with_broker_id(BrokerId(broker));
        let response = self.ask_any(|connection| {
            let version = connection.version::<UnregisterBrokerRequest>(0)?;
            connection.call(version, &request)
        })?;
        if ErrorCode::from_code(response.error_code) == ErrorCode::BrokerIdNotRegistered {
            return Ok(false);
        }
        let subject = format!("broker {broker}");
        check(&subject, response.error_code, response.error_message.as_ref())?;
        Ok(true)
    }
}
