//! FindCoordinator (10): the broker that leads the partition of `__consumer_offsets` which a group belongs to.
//!
//! The topic is created by the first group that is asked for. Transactional ids are refused, with a code that no client
//! retries: a retriable one would have it ask for ever.

use std::sync::Arc;

use strandline_core::group::offsets::{OFFSETS_TOPIC, partition_of};
use strandline_core::metadata::{Broker, ClusterImage, Command};
use strandline_runtime::local::collect_in_turns;
use strandline_wire::messages::find_coordinator_request::FindCoordinatorRequest;
use strandline_wire::messages::find_coordinator_response::{Coordinator, FindCoordinatorResponse};
use strandline_wire::protocol::StrBytes;
use strandline_wire::{ErrorCode, messages};

use super::context::{AdminContext, shard_timeout};
use super::text::{Refusal, string};
use super::topology::address;
use super::{create_topics, new_topics};

const KEY_GROUP: i8 = 0;
const KEY_TRANSACTION: i8 = 1;
/// From this version on a request has several keys.
const VERSION_WITH_BATCHES: i16 = 4;
/// How long the creation of the topic waits for the shards: the client asks again.
const CREATION_TIMEOUT_MS: i32 = 10_000;

/// A coordinator's id, host and port.
type Found = (messages::BrokerId, StrBytes, i32);

/// Names the coordinator of each key.
pub async fn handle(
    context: &AdminContext<'_>,
    request: FindCoordinatorRequest,
    version: i16,
) -> FindCoordinatorResponse {
    let image = match request.key_type {
        KEY_GROUP => with_offsets_topic(context).await,
        other => Err(refusal(other)),
    };
    let find = |key: &str| coordinator_of(image.as_ref(), context.listener, key);
    if version < VERSION_WITH_BATCHES {
        let found = find(&request.key);
        let answer = FindCoordinatorResponse::default();
        let ((id, host, port), refusal) = parts(found);
        return match refusal {
            None => answer,
            Some(refusal) => answer
                .with_error_code(refusal.code.code())
                .with_error_message(refusal.message()),
        }
        .with_node_id(id)
        .with_host(host)
        .with_port(port);
    }
    let coordinators = request.coordinator_keys.into_iter().map(|key| {
        let ((id, host, port), refusal) = parts(find(&key));
        let answer = Coordinator::default()
            .with_key(key)
            .with_node_id(id)
            .with_host(host)
            .with_port(port);
        match refusal {
            None => answer,
            Some(refusal) => answer
                .with_error_code(refusal.code.code())
                .with_error_message(refusal.message()),
        }
    });
    FindCoordinatorResponse::default().with_coordinators(collect_in_turns(coordinators).await)
}

/// An image that has the topic, created if it is missing, once every shard serves it: whoever was sent to a shard that does
/// not know yet what it coordinates would be told to look elsewhere.
async fn with_offsets_topic(context: &AdminContext<'_>) -> Result<Arc<ClusterImage>, Refusal> {
    let mut image = context.image();
    if image.topic_by_name(OFFSETS_TOPIC).is_none() {
        create(context).await?;
        image = context.image();
    }
    let id = image.topic_by_name(OFFSETS_TOPIC).map(|topic| topic.id);
    if id.is_some() && context.offsets_topic.get() != id {
        // After the timeout it goes on as it is: the client asks again.
        let settled = context.control.settled(shard_timeout(CREATION_TIMEOUT_MS)).await;
        settled.map_err(|error| Refusal::new(ErrorCode::CoordinatorNotAvailable, error.to_string()))?;
        context.offsets_topic.set(id);
    }
    Ok(image)
}

async fn create(context: &AdminContext<'_>) -> Result<(), Refusal> {
    let topics = vec![new_topics::automatic(context, OFFSETS_TOPIC)];
    let command = Command::CreateTopics { topics };
    let decided = create_topics::decide(context, command, false, CREATION_TIMEOUT_MS).await;
    match decided.into_iter().next() {
        Some(Err(refusal)) if refusal.code != ErrorCode::TopicAlreadyExists => {
            tracing::warn!(
                topic = OFFSETS_TOPIC,
                code = refusal.code.name(),
                "not created: {}",
                refusal.text
            );
            let text = format!("{OFFSETS_TOPIC} could not be created: {}", refusal.text);
            Err(Refusal::new(ErrorCode::CoordinatorNotAvailable, text))
        }
        _ => Ok(()),
    }
}

fn coordinator_of(
    image: Result<&Arc<ClusterImage>, &Refusal>,
    listener: &str,
    key: &str,
) -> Result<Found, Refusal> {
    let image = image.map_err(Clone::clone)?;
    let leader = leader_for(image, key).ok_or_else(|| {
        let text = "the partition that keeps the group has no leader now";
        Refusal::new(ErrorCode::CoordinatorNotAvailable, text)
    })?;
    let (host, port, _rack) = address(leader, listener).ok_or_else(|| {
        let text = format!(
            "the group's coordinator, broker {}, has no listener {listener}",
            leader.id
        );
        Refusal::new(ErrorCode::CoordinatorNotAvailable, text)
    })?;
    Ok((messages::BrokerId(leader.id.0), host, port))
}

fn leader_for<'a>(image: &'a ClusterImage, group: &str) -> Option<&'a Arc<Broker>> {
    let partitions = &image.topic_by_name(OFFSETS_TOPIC)?.partitions;
    let number = partition_of(group, partitions.len() as i32);
    let leader = partitions.get(number as usize)?.leader;
    image.broker(leader).filter(|broker| !broker.fenced)
}

fn parts(found: Result<Found, Refusal>) -> (Found, Option<Refusal>) {
    match found {
        Ok(found) => (found, None),
        Err(refusal) => ((messages::BrokerId(-1), string(""), -1), Some(refusal)),
    }
}

fn refusal(key_type: i8) -> Refusal {
    match key_type {
        KEY_TRANSACTION => Refusal::new(
            ErrorCode::TransactionalIdAuthorizationFailed,
            "transactions are not served by this version: leave transactional.id out",
        ),
        other => Refusal::new(
            ErrorCode::InvalidRequest,
            format!("coordinator type {other} is not known"),
        ),
    }
}
