//! ConsumerGroupHeartbeat (68): joining, leaving, and everything between, in the consumer protocol (KIP-848).

use std::rc::Rc;

use bytes::Bytes;
use strandline_core::group::consumer::{
    Assignment, ConsumerGroup, GroupError, HeartbeatAnswer, HeartbeatRequest, JOIN_EPOCH,
};
use strandline_runtime::Runtime;
use strandline_runtime::local::Turns;
use strandline_storage::disk::Disk;
use strandline_wire::messages::consumer_group_heartbeat_request::ConsumerGroupHeartbeatRequest;
use strandline_wire::messages::consumer_group_heartbeat_response::{
    Assignment as Assigned, ConsumerGroupHeartbeatResponse, TopicPartitions,
};
use strandline_wire::{ErrorCode, Uuid};

use super::{rc, stepped, take_in, text};
use crate::admin::base64;
use crate::connection::{Answer, Close};
use crate::handlers::Request;

/// More partitions than a member can own anywhere: what it owns is read into memory.
const OWNED_MAX: usize = 1_000_000;
/// About what a heartbeat's records take beside what its member says of itself.
const RECORDS_BYTES: usize = 1_024;

pub(crate) async fn serve<R: Runtime, D: Disk>(
    request: &Request<R, D>,
    body: Bytes,
) -> Result<Answer<D>, Close> {
    let asked: ConsumerGroupHeartbeatRequest = request.decode(body)?;
    let response = match heartbeat(request, &asked).await {
        Ok(answer) => response(&answer),
        Err(error) => ConsumerGroupHeartbeatResponse::default()
            .with_error_code(error.code.code())
            .with_error_message(
                Some(error.message)
                    .filter(|message| !message.is_empty())
                    .map(|message| text(&message)),
            ),
    };
    let code = ErrorCode::from_code(response.error_code);
    request.encode(&response, std::iter::once(code))
}

async fn heartbeat<R: Runtime, D: Disk>(
    request: &Request<R, D>,
    asked: &ConsumerGroupHeartbeatRequest,
) -> Result<HeartbeatAnswer, GroupError> {
    let shard = &request.shard;
    if !shard.groups.consumer.is_served {
        let reason = "the consumer protocol is not among group.coordinator.rebalance.protocols";
        return Err(error(ErrorCode::UnsupportedVersion, reason));
    }
    let client_id = request.connection.client_id().unwrap_or_else(|| Rc::from(""));
    // As Java writes an address.
    let client_host = format!("/{}", request.connection.peer.ip());
    let new_member_id = new_member_id(request);
    let asked_now = HeartbeatRequest {
        version: request.version,
        member_id: &asked.member_id,
        new_member_id: &new_member_id,
        member_epoch: asked.member_epoch,
        instance_id: asked.instance_id.as_deref(),
        rack_id: asked.rack_id.as_deref(),
        rebalance_timeout_ms: asked.rebalance_timeout_ms,
        topic_names: asked
            .subscribed_topic_names
            .as_ref()
            .map(|names| names.iter().map(|name| name.as_str()).collect()),
        topic_regex: asked.subscribed_topic_regex.as_deref(),
        server_assignor: asked.server_assignor.as_deref(),
        owned: owned(asked).await?,
        client_id: &client_id,
        client_host: &client_host,
    };
    let group = rc(&asked.group_id);
    asked_now.validate(&group, &shard.groups.consumer.defaults)?;
    let coordinator = shard.coordinator_of(&group).map_err(plain)?;
    let said = said_bytes(&asked_now);
    // A heartbeat that says nothing new seldom writes anything, and never waits for room.
    let coordinator = match says_nothing(&asked_now) {
        true => coordinator,
        false => {
            let bytes = said + RECORDS_BYTES;
            coordinator.admit(shard, bytes).await.map_err(plain)?;
            shard.coordinator_of(&group).map_err(plain)?
        }
    };
    if asked.member_epoch >= JOIN_EPOCH {
        let growth = {
            let groups = coordinator.groups.borrow();
            let machine = groups.get(&group).and_then(|group| group.machine.consumer());
            machine.map_or_else(
                || ConsumerGroup::new(group.clone()).growth(&asked_now),
                |machine| machine.growth(&asked_now),
            )
        };
        take_in(request, &group, said, growth).map_err(plain)?;
    }
    let step = coordinator.consumer_heartbeat(shard, &group, &asked_now).await;
    stepped(request, &coordinator, step).await.map_err(plain)?
}

/// What the member says of itself takes in a record.
fn said_bytes(asked: &HeartbeatRequest<'_>) -> usize {
    let names = asked.topic_names.iter().flatten();
    names.map(|name| name.len() + 3).sum::<usize>() + asked.topic_regex.map_or(0, str::len)
}

fn says_nothing(asked: &HeartbeatRequest<'_>) -> bool {
    asked.member_epoch > JOIN_EPOCH && asked.topic_names.is_none() && asked.topic_regex.is_none()
}

/// The partitions that the member says it owns.
async fn owned(asked: &ConsumerGroupHeartbeatRequest) -> Result<Option<Assignment>, GroupError> {
    let Some(topics) = &asked.topic_partitions else {
        return Ok(None);
    };
    let (mut owned, mut turns) = (Assignment::default(), Turns::default());
    let mut count = 0;
    for topic in topics {
        for partition in &topic.partitions {
            count += 1;
            if count > OWNED_MAX {
                let reason = "TopicPartitions has more partitions than a member can own.";
                return Err(error(ErrorCode::InvalidRequest, reason));
            }
            owned.insert(topic.topic_id, *partition);
            turns.item().await;
        }
    }
    Ok(Some(owned))
}

/// An id for a member of version 0 that has none.
fn new_member_id<R: Runtime, D: Disk>(request: &Request<R, D>) -> String {
    let runtime = &request.shard.runtime;
    let random = (u128::from(runtime.random_u64()) << 64) | u128::from(runtime.random_u64());
    base64(Uuid::from_u128(random))
}

fn error(code: ErrorCode, message: &str) -> GroupError {
    GroupError {
        code,
        message: message.to_owned(),
    }
}

/// A code that says it all.
fn plain(code: ErrorCode) -> GroupError {
    error(code, "")
}

fn response(answer: &HeartbeatAnswer) -> ConsumerGroupHeartbeatResponse {
    let assignment = answer.assignment.as_ref().map(|assignment| {
        let topics = assignment.topics().map(|(id, partitions)| {
            TopicPartitions::default()
                .with_topic_id(id)
                .with_partitions(partitions.iter().copied().collect())
        });
        Assigned::default().with_topic_partitions(topics.collect())
    });
    ConsumerGroupHeartbeatResponse::default()
        .with_member_id(Some(text(&answer.member_id)))
        .with_member_epoch(answer.member_epoch)
        .with_heartbeat_interval_ms(answer.heartbeat_interval_ms)
        .with_assignment(assignment)
}
