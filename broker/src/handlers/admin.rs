//! Hands admin requests to their handlers, and counts what they answer.

use bytes::Bytes;
use strandline_runtime::Runtime;
use strandline_storage::disk::Disk;
use strandline_wire::{ApiKey, ErrorCode};

use super::Request;
use crate::admin::{self, AdminContext};
use crate::connection::{Answer, Close};

/// Decodes, handles and encodes one admin API: its module, and where its answer keeps its error codes.
macro_rules! handle {
    ($request:expr, $context:expr, $body:expr, $api:ident, $codes:expr) => {{
        let asked = $request.decode($body)?;
        let answer = admin::$api::handle(&$context, asked, $request.version).await;
        let codes: Vec<i16> = $codes(&answer);
        $request.encode(&answer, codes.into_iter().map(ErrorCode::from_code))
    }};
}

pub(super) async fn serve<R: Runtime, D: Disk>(
    request: &Request<R, D>,
    body: Bytes,
) -> Result<Answer<D>, Close> {
    use strandline_wire::messages as m;

    let shard = &request.shard;
    let random = || shard.runtime.random_u64();
    let context = AdminContext {
        broker_id: shard.broker_id,
        listener: &request.connection.listener,
        config: &shard.config,
        control: &shard.control,
        images: &shard.images,
        offsets_topic: &shard.groups.offsets_topic,
        random: &random,
    };
    match request.api {
        ApiKey::Metadata => handle!(request, context, body, metadata, |a: &m::MetadataResponse| a
            .topics
            .iter()
            .map(|topic| topic.error_code)
            .collect()),
        ApiKey::FindCoordinator => {
            handle!(
                request,
                context,
                body,
                find_coordinator,
                |a: &m::FindCoordinatorResponse| a
                    .coordinators
                    .iter()
                    .map(|coordinator| coordinator.error_code)
                    .chain((a.coordinators.is_empty()).then_some(a.error_code))
                    .collect()
            )
        }
        ApiKey::CreateTopics => {
            handle!(
                request,
                context,
                body,
                create_topics,
                |a: &m::CreateTopicsResponse| a.topics.iter().map(|topic| topic.error_code).collect()
            )
        }
        ApiKey::DeleteTopics => {
            handle!(
                request,
                context,
                body,
                delete_topics,
                |a: &m::DeleteTopicsResponse| a.responses.iter().map(|topic| topic.error_code).collect()
            )
        }
        ApiKey::CreatePartitions => {
            handle!(
                request,
                context,
                body,
                create_partitions,
                |a: &m::CreatePartitionsResponse| a.results.iter().map(|topic| topic.error_code).collect()
            )
        }
        ApiKey::DescribeConfigs => {
            handle!(
                request,
                context,
                body,
                describe_configs,
                |a: &m::DescribeConfigsResponse| a
                    .results
                    .iter()
                    .map(|resource| resource.error_code)
                    .collect()
            )
        }
        ApiKey::AlterConfigs => {
            handle!(
                request,
                context,
                body,
                alter_configs,
                |a: &m::AlterConfigsResponse| a
                    .responses
                    .iter()
                    .map(|resource| resource.error_code)
                    .collect()
            )
        }
        ApiKey::IncrementalAlterConfigs => {
            handle!(
                request,
                context,
                body,
                incremental_alter_configs,
                |a: &m::IncrementalAlterConfigsResponse| a
                    .responses
                    .iter()
                    .map(|resource| resource.error_code)
                    .collect()
            )
        }
        ApiKey::DescribeCluster => {
            handle!(
                request,
                context,
                body,
                describe_cluster,
                |a: &m::DescribeClusterResponse| vec![a.error_code]
            )
        }
        ApiKey::DescribeQuorum => {
            handle!(
                request,
                context,
                body,
                describe_quorum,
                |a: &m::DescribeQuorumResponse| vec![a.error_code]
            )
        }
        ApiKey::UnregisterBroker => {
            handle!(
                request,
                context,
                body,
                unregister_broker,
                |a: &m::UnregisterBrokerResponse| vec![a.error_code]
            )
        }
        ApiKey::ElectLeaders => {
            handle!(
                request,
                context,
                body,
                elect_leaders,
                |a: &m::ElectLeadersResponse| a
                    .replica_election_results
                    .iter()
                    .flat_map(|topic| &topic.partition_result)
                    .map(|partition| partition.error_code)
                    .chain((a.error_code != 0).then_some(a.error_code))
                    .collect()
            )
        }
        ApiKey::AlterPartitionReassignments => {
            handle!(
                request,
                context,
                body,
                alter_partition_reassignments,
                |a: &m::AlterPartitionReassignmentsResponse| a
                    .responses
                    .iter()
                    .flat_map(|topic| &topic.partitions)
                    .map(|partition| partition.error_code)
                    .collect()
            )
        }
        ApiKey::ListPartitionReassignments => {
            handle!(
                request,
                context,
                body,
                list_partition_reassignments,
                |a: &m::ListPartitionReassignmentsResponse| vec![a.error_code]
            )
        }
        ApiKey::AddRaftVoter => {
            handle!(
                request,
                context,
                body,
                add_raft_voter,
                |a: &m::AddRaftVoterResponse| vec![a.error_code]
            )
        }
        ApiKey::RemoveRaftVoter => {
            handle!(
                request,
                context,
                body,
                remove_raft_voter,
                |a: &m::RemoveRaftVoterResponse| vec![a.error_code]
            )
        }
        ApiKey::DescribeTopicPartitions => {
            handle!(
                request,
                context,
                body,
                describe_topic_partitions,
                |a: &m::DescribeTopicPartitionsResponse| a
                    .topics
                    .iter()
                    .map(|topic| topic.error_code)
                    .collect()
            )
        }
        ApiKey::ListConfigResources => {
            handle!(
                request,
                context,
                body,
                list_config_resources,
                |a: &m::ListConfigResourcesResponse| vec![a.error_code]
            )
        }
        // Every API that is advertised has its arm, here or in the caller.
        other => Err(Close::Refused(format!("{} has no handler", other.name()).into())),
    }
}
