//! CreatePartitions (37).

use strandline_core::metadata::{Answer, BrokerId, Command, NewPartitions};
use strandline_runtime::local::collect_in_turns;
use strandline_wire::ErrorCode;
use strandline_wire::messages::create_partitions_request::{CreatePartitionsRequest, CreatePartitionsTopic};
use strandline_wire::messages::create_partitions_response::{
    CreatePartitionsResponse, CreatePartitionsTopicResult,
};

use super::context::{AdminContext, shard_timeout};
use super::text::{Refusal, duplicates};

/// Adds partitions to topics; answers once every shard serves them.
pub async fn handle(
    context: &AdminContext<'_>,
    request: CreatePartitionsRequest,
    _version: i16,
) -> CreatePartitionsResponse {
    let twice = duplicates(request.topics.iter().map(|topic| topic.name.as_str())).await;
    let once = |topic: &&CreatePartitionsTopic| !twice.contains(topic.name.as_str());
    let topics = request.topics.iter().filter(once).map(new_partitions);
    let topics: Vec<NewPartitions> = collect_in_turns(topics).await;
    let mut decided = decide(context, topics, request.validate_only, request.timeout_ms)
        .await
        .into_iter();
    let results = request.topics.iter().map(|topic| {
        let outcome = match once(&topic) {
            true => decided.next().expect("apply answers every topic of the command"),
            false => Err(Refusal::new(
                ErrorCode::InvalidRequest,
                "the request names this topic twice",
            )),
        };
        let answer = CreatePartitionsTopicResult::default().with_name(topic.name.clone());
        match outcome {
            Ok(()) => answer,
            Err(refusal) => answer
                .with_error_code(refusal.code.code())
                .with_error_message(refusal.message()),
        }
    });
    CreatePartitionsResponse::default().with_results(collect_in_turns(results).await)
}

fn new_partitions(topic: &CreatePartitionsTopic) -> NewPartitions {
    let assignments = topic.assignments.as_ref().map(|assignments| {
        let brokers =
            |ids: &[strandline_wire::messages::BrokerId]| ids.iter().map(|id| BrokerId(id.0)).collect();
        assignments
            .iter()
            .map(|assignment| brokers(&assignment.broker_ids))
            .collect()
    });
    NewPartitions {
        name: topic.name.to_string(),
        total: topic.count,
        assignments,
    }
}

async fn decide(
    context: &AdminContext<'_>,
    topics: Vec<NewPartitions>,
    validate_only: bool,
    timeout_ms: i32,
) -> Vec<Result<(), Refusal>> {
    let count = topics.len();
    if count == 0 {
        return Vec::new();
    }
    let command = Command::CreatePartitions { topics };
    let answer = match validate_only {
        true => Ok(context.image().check(&command)),
        false => context.control.propose(command, shard_timeout(timeout_ms)).await,
    };
    match answer {
        Ok(Answer::PartitionsCreated(answers)) => {
            collect_in_turns(answers.into_iter().map(|answer| answer.map_err(Refusal::from))).await
        }
        Ok(other) => unreachable!("apply answers a growth with partitions, not {other:?}"),
        Err(error) => collect_in_turns((0..count).map(|_| Err(Refusal::from(error.clone())))).await,
    }
}
