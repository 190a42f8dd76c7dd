//! DescribeQuorum (55): who votes on the cluster's metadata, who learns, and how far each is.

use strandline_core::metadata::{ClusterImage, NodeId};
use strandline_wire::messages::describe_quorum_request::DescribeQuorumRequest;
use strandline_wire::messages::describe_quorum_response::{
    DescribeQuorumResponse, Listener, Node, PartitionData, ReplicaState, TopicData,
};
use strandline_wire::{ErrorCode, messages};

use super::context::AdminContext;
use super::text::string;
use crate::control::raft::membership::{Member, Status};

/// The one topic that a quorum keeps, as Kafka calls it; here it is no topic, and nobody fetches it.
const METADATA_TOPIC: &str = "__cluster_metadata";
const CONTROLLER: &str = "CONTROLLER";
/// Before the number of a shard: where shards of other nodes reach it.
const LINK: &str = "LINK-";
/// Where nobody knows.
const UNKNOWN: i64 = -1;

/// Answers what the quorum's leader knows.
pub async fn handle(
    context: &AdminContext<'_>,
    request: DescribeQuorumRequest,
    _version: i16,
) -> DescribeQuorumResponse {
    let status = match context.control.quorum_status().await {
        Ok(status) => status,
        Err(error) => {
            return DescribeQuorumResponse::default()
                .with_error_code(error.code().code())
                .with_error_message(Some(string(&error.to_string())));
        }
    };
    let topics = request.topics.into_iter().map(|topic| {
        let known = topic.topic_name.0.as_str() == METADATA_TOPIC;
        let partitions = topic
            .partitions
            .into_iter()
            .map(|asked| match asked.partition_index {
                0 if known => partition(&status),
                other => PartitionData::default()
                    .with_partition_index(other)
                    .with_error_code(ErrorCode::UnknownTopicOrPartition.code()),
            });
        TopicData::default()
            .with_topic_name(topic.topic_name)
            .with_partitions(partitions.collect())
    });
    DescribeQuorumResponse::default()
        .with_topics(topics.collect())
        .with_nodes(nodes(&status, &context.image()))
}

fn partition(status: &Status) -> PartitionData {
    let replicas = |votes: bool| {
        let members = status.members.iter().filter(move |member| member.votes == votes);
        members.map(|member| replica(status, member)).collect()
    };
    let leader = status.leader.map_or(NodeId(-1), |leader| leader.node);
    PartitionData::default()
        .with_partition_index(0)
        .with_leader_id(messages::BrokerId(leader.0))
        .with_leader_epoch(i32::try_from(status.term).unwrap_or(i32::MAX))
        .with_high_watermark(status.applied.map_or(UNKNOWN, next))
        .with_current_voters(replicas(true))
        .with_observers(replicas(false))
}

/// Kafka counts the end, one above the last entry.
fn next(index: u64) -> i64 {
    index as i64 + 1
}

fn replica(status: &Status, member: &Member) -> ReplicaState {
    let own = member.voter == status.voter;
    let end = if own { status.log_end } else { member.log_end };
    ReplicaState::default()
        .with_replica_id(messages::BrokerId(member.voter.node.0))
        .with_replica_directory_id(member.voter.directory)
        .with_log_end_offset(end.map_or(UNKNOWN, next))
        .with_last_fetch_timestamp(UNKNOWN)
        .with_last_caught_up_timestamp(UNKNOWN)
}

fn nodes(status: &Status, image: &ClusterImage) -> Vec<Node> {
    let nodes = status.members.iter().map(|member| {
        let node = member.voter.node;
        let brokers = image.brokers().filter(|broker| broker.id.node() == node);
        let links = brokers.filter_map(|broker| {
            let link = broker.link.as_ref()?;
            let name = format!("{LINK}{}", broker.id.0 - node.broker(0).0);
            Some(listener(&name, &link.host, link.port))
        });
        let controller = listener(CONTROLLER, &member.address.host, member.address.port);
        Node::default()
            .with_node_id(messages::BrokerId(node.0))
            .with_listeners(std::iter::once(controller).chain(links).collect())
    });
    nodes.collect()
}

fn listener(name: &str, host: &str, port: u16) -> Listener {
    Listener::default()
        .with_name(string(name))
        .with_host(string(host))
        .with_port(port)
}
