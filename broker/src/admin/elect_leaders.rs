//! ElectLeaders (43): the preferred leaders lead again, or anyone who lives where nobody leads (KIP-460).

use std::time::Duration;

use strandline_core::metadata::{Answer, ApplyError, ClusterImage, Command, Election, PartitionReference};
use strandline_runtime::local::{Turns, collect_in_turns};
use strandline_wire::ErrorCode;
use strandline_wire::messages::elect_leaders_request::{ElectLeadersRequest, TopicPartitions};
use strandline_wire::messages::elect_leaders_response::{
    ElectLeadersResponse, PartitionResult, ReplicaElectionResult,
};

use super::context::{AdminContext, shard_timeout};
use super::partitions::{reference, refusal};
use super::text::{Refusal, topic_name};

/// From this version on the request names a kind of election, and the answer has a code of its own.
const VERSION_WITH_KINDS: i16 = 1;

/// Of one partition.
type Outcome = Result<(), Refusal>;

/// Elects leaders; answers once every shard of the node goes by them. Without topics, all partitions are meant, and those whose leader is
/// the right one already are left out of the answer.
pub async fn handle(
    context: &AdminContext<'_>,
    request: ElectLeadersRequest,
    version: i16,
) -> ElectLeadersResponse {
    let election = match (version < VERSION_WITH_KINDS, request.election_type) {
        (true, _) | (false, 0) => Election::Preferred,
        (false, 1) => Election::Unclean,
        (false, other) => {
            let refusal = Refusal::new(
                ErrorCode::InvalidRequest,
                format!("there is no election type {other}"),
            );
            return refuse(&request, refusal, version).await;
        }
    };
    let all = request.topic_partitions.is_none();
    let topics = match &request.topic_partitions {
        Some(topics) => topics.clone(),
        None => every_partition(&context.image()).await,
    };
    let timeout = shard_timeout(request.timeout_ms);
    let outcomes = match elect(context, election, &topics, all, timeout).await {
        Ok(outcomes) => outcomes,
        Err(refusal) => return refuse(&request, refusal, version).await,
    };
    let mut outcomes = outcomes.into_iter();
    let mut turns = Turns::default();
    let mut results = Vec::with_capacity(topics.len());
    for topic in topics {
        let mut partitions = Vec::new();
        for number in topic.partitions {
            let outcome = outcomes.next().expect("every partition has an outcome");
            let needless = matches!(&outcome, Err(refusal) if refusal.code == ErrorCode::ElectionNotNeeded);
            if !(all && needless) {
                partitions.push(result(number, outcome));
            }
            turns.item().await;
        }
        let answer = ReplicaElectionResult::default().with_topic(topic.topic);
        results.push(answer.with_partition_result(partitions));
    }
    ElectLeadersResponse::default().with_replica_election_results(results)
}

async fn every_partition(image: &ClusterImage) -> Vec<TopicPartitions> {
    let topics = image.topics_by_name().map(|topic| {
        let partitions = 0..topic.partitions.len() as i32;
        TopicPartitions::default()
            .with_topic(topic_name(&topic.name))
            .with_partitions(partitions.collect())
    });
    collect_in_turns(topics).await
}

/// The outcome of each partition, in the order of the request. A look at `all` partitions shall not be a record of all of them: only
/// those are proposed that need it.
async fn elect(
    context: &AdminContext<'_>,
    election: Election,
    topics: &[TopicPartitions],
    all: bool,
    timeout: Duration,
) -> Result<Vec<Outcome>, Refusal> {
    let image = context.image();
    let named = topics.iter().flat_map(|topic| {
        let numbers = topic.partitions.iter();
        numbers.map(|number| reference(&image, topic.topic.as_str(), *number))
    });
    let named: Vec<Result<PartitionReference, Refusal>> = collect_in_turns(named).await;
    let needs = |asked: &PartitionReference| {
        let partition = image.partition(asked.topic, asked.partition);
        !all || partition.is_some_and(|partition| election.is_needed(partition))
    };
    let needed = named.iter().flatten().copied().filter(needs);
    let partitions: Vec<PartitionReference> = collect_in_turns(needed).await;
    let mut decided = match partitions.is_empty() {
        true => Vec::new(),
        false => {
            let command = Command::ElectLeaders { election, partitions };
            match context.control.propose(command, timeout).await {
                Ok(Answer::LeadersElected(answers)) => answers,
                Ok(other) => unreachable!("apply answers an election with leaders, not {other:?}"),
                Err(error) => return Err(Refusal::from(error)),
            }
        }
    }
    .into_iter();
    let outcomes = named.into_iter().map(|named| {
        let reference = named?;
        if !needs(&reference) {
            return Err(refusal(ApplyError::ElectionNotNeeded));
        }
        let answer = decided
            .next()
            .expect("apply answers every partition of the command");
        answer.map_err(refusal)
    });
    Ok(collect_in_turns(outcomes).await)
}

async fn refuse(request: &ElectLeadersRequest, refusal: Refusal, version: i16) -> ElectLeadersResponse {
    let topics = request.topic_partitions.iter().flatten().map(|topic| {
        let numbers = topic.partitions.iter();
        let results = numbers.map(|number| result(*number, Err(refusal.clone())));
        ReplicaElectionResult::default()
            .with_topic(topic.topic.clone())
            .with_partition_result(results.collect())
    });
    let answer =
        ElectLeadersResponse::default().with_replica_election_results(collect_in_turns(topics).await);
    match version < VERSION_WITH_KINDS {
        true => answer,
        false => answer.with_error_code(refusal.code.code()),
    }
}

fn result(number: i32, outcome: Outcome) -> PartitionResult {
    let result = PartitionResult::default().with_partition_id(number);
    match outcome {
        Ok(()) => result.with_error_message(None),
        Err(refusal) => result
            .with_error_code(refusal.code.code())
            .with_error_message(refusal.message()),
    }
}
