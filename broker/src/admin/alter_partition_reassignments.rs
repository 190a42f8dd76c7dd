//! AlterPartitionReassignments (45): moves partitions to other replicas, and takes moves back (KIP-455).

use strandline_core::metadata::{Answer, BrokerId, Command, PartitionReference, Reassignment};
use strandline_runtime::local::collect_in_turns;
use strandline_wire::messages::alter_partition_reassignments_request::AlterPartitionReassignmentsRequest;
use strandline_wire::messages::alter_partition_reassignments_response::{
    AlterPartitionReassignmentsResponse, ReassignablePartitionResponse, ReassignableTopicResponse,
};

use super::context::{AdminContext, shard_timeout};
use super::partitions::{reference, refusal};
use super::text::Refusal;

/// Begins and takes back moves; answers once every shard of the node knows of them, not once they are done.
pub async fn handle(
    context: &AdminContext<'_>,
    request: AlterPartitionReassignmentsRequest,
    _version: i16,
) -> AlterPartitionReassignmentsResponse {
    let image = context.image();
    let named = request.topics.iter().flat_map(|topic| {
        let partitions = topic.partitions.iter();
        partitions.map(|asked| reference(&image, topic.name.as_str(), asked.partition_index))
    });
    let named: Vec<Result<PartitionReference, Refusal>> = collect_in_turns(named).await;
    let asked = request.topics.iter().flat_map(|topic| &topic.partitions);
    let reassignments = named.iter().zip(asked).filter_map(|(named, asked)| {
        let brokers = |ids: &Vec<strandline_wire::messages::BrokerId>| {
            ids.iter().map(|id| BrokerId(id.0)).collect::<Vec<BrokerId>>()
        };
        Some(Reassignment {
            partition: *named.as_ref().ok()?,
            replicas: asked.replicas.as_ref().map(brokers),
            allow_factor_change: request.allow_replication_factor_change,
        })
    });
    let reassignments: Vec<Reassignment> = collect_in_turns(reassignments).await;
    let mut failed = None;
    let decided = match reassignments.is_empty() {
        true => Vec::new(),
        false => {
            let command = Command::AlterReassignments { reassignments };
            let timeout = shard_timeout(request.timeout_ms);
            match context.control.propose(command, timeout).await {
                Ok(Answer::Reassigned(answers)) => answers,
                Ok(other) => unreachable!("apply answers a move with moves, not {other:?}"),
                Err(error) => {
                    failed = Some(Refusal::from(error));
                    Vec::new()
                }
            }
        }
    };
    let mut decided = decided.into_iter();
    let outcomes = named.into_iter().map(|named| match (&failed, named) {
        (_, Err(refusal)) => Err(refusal),
        (Some(failed), Ok(_)) => Err(failed.clone()),
        (None, Ok(_)) => {
            let answer = decided
                .next()
                .expect("apply answers every partition of the command");
            answer.map_err(refusal)
        }
    });
    let outcomes: Vec<Result<(), Refusal>> = collect_in_turns(outcomes).await;
    let answer = AlterPartitionReassignmentsResponse::default()
        .with_allow_replication_factor_change(request.allow_replication_factor_change)
        .with_responses(responses(&request, outcomes).await);
    match failed {
        None => answer.with_error_message(None),
        Some(failed) => answer
            .with_error_code(failed.code.code())
            .with_error_message(failed.message()),
    }
}

async fn responses(
    request: &AlterPartitionReassignmentsRequest,
    outcomes: Vec<Result<(), Refusal>>,
) -> Vec<ReassignableTopicResponse> {
    let mut outcomes = outcomes.into_iter();
    let topics = request.topics.iter().map(|topic| {
        let partitions = topic.partitions.iter().map(|asked| {
            let answer = ReassignablePartitionResponse::default().with_partition_index(asked.partition_index);
            match outcomes.next().expect("every partition has an outcome") {
                Ok(()) => answer.with_error_message(None),
                Err(refusal) => answer
                    .with_error_code(refusal.code.code())
                    .with_error_message(refusal.message()),
            }
        });
        ReassignableTopicResponse::default()
            .with_name(topic.name.clone())
            .with_partitions(partitions.collect())
    });
    collect_in_turns(topics).await
}
