//! OffsetCommit (8): acknowledged once it is durable.

use std::rc::Rc;

use bytes::Bytes;
use strandline_core::group::classic::Identity;
use strandline_core::group::offsets::{CommittedOffset, OffsetsRecord};
use strandline_core::metadata::{ClusterImage, Topic};
use strandline_runtime::Runtime;
use strandline_runtime::local::Turns;
use strandline_storage::disk::Disk;
use strandline_wire::messages::OffsetCommitRequest;
use strandline_wire::messages::offset_commit_request::OffsetCommitRequestPartition;
use strandline_wire::messages::offset_commit_response::{
    OffsetCommitResponse, OffsetCommitResponsePartition, OffsetCommitResponseTopic,
};
use strandline_wire::offsets_by_id::{self, FIRST_VERSION_BY_ID};
use strandline_wire::{ErrorCode, Uuid};

use super::identity;
use crate::connection::{Answer, Close};
use crate::group::Coordinator;
use crate::group::write::{batch_bytes_max, bytes_of};
use crate::handlers::Request;

/// From this version on an unknown group has its own code.
const VERSION_WITH_UNKNOWN_GROUPS: i16 = 9;
/// What a record takes at least beside its strings: numbers of its key and value, and its frame in the batch.
const RECORD_BYTES_MIN: usize = 40;
/// A commit without a retention of its own.
const NO_RETENTION: i64 = -1;

/// What becomes of one partition of the request.
struct Item {
    code: ErrorCode,
    /// What is written for it.
    record: Option<OffsetsRecord>,
}

pub(crate) async fn serve<R: Runtime, D: Disk>(
    request: &Request<R, D>,
    body: Bytes,
) -> Result<Answer<D>, Close> {
    let (asked, ids) = match request.version >= FIRST_VERSION_BY_ID {
        true => offsets_by_id::decode_commit(&body)?,
        false => (request.decode::<OffsetCommitRequest>(body)?, Vec::new()),
    };
    let mut items = check(request, &asked, &ids).await;
    if items.iter().any(|item| item.record.is_some())
        && let Err(code) = commit(request, &asked, &mut items).await
    {
        // What could not be written is refused; what was refused before keeps its own code.
        for item in items.iter_mut().filter(|item| item.code.is_none()) {
            item.code = code;
        }
    }
    let codes: Vec<ErrorCode> = items.iter().map(|item| item.code).collect();
    let mut left = codes.iter();
    let topics = asked.topics.iter().enumerate().map(|(number, topic)| {
        let partitions = topic
            .partitions
            .iter()
            .zip(left.by_ref())
            .map(|(partition, code)| {
                OffsetCommitResponsePartition::default()
                    .with_partition_index(partition.partition_index)
                    .with_error_code(code.code())
            });
        let answer = OffsetCommitResponseTopic::default().with_partitions(partitions.collect());
        match ids.get(number) {
            Some(id) => answer.with_topic_id(*id),
            None => answer.with_name(topic.name.clone()),
        }
    });
    let response = OffsetCommitResponse::default().with_topics(topics.collect());
    request.encode(&response, codes.iter().copied())
}

/// Looks at each partition, whatever group it is of.
///
/// Each record repeats the group's name and the topic's, so that a small request could ask for very much: what does not fit one
/// batch is refused before it is made, all of it, as the batch would be.
async fn check<R: Runtime, D: Disk>(
    request: &Request<R, D>,
    asked: &OffsetCommitRequest,
    ids: &[Uuid],
) -> Vec<Item> {
    let shard = &request.shard;
    let image = shard.image();
    let now_ms = shard.runtime.wall_clock_ms();
    let expire_timestamp_ms = match asked.retention_time_ms {
        NO_RETENTION => None,
        retention_ms => Some(now_ms.saturating_add(retention_ms)),
    };
    let (mut items, mut turns) = (Vec::new(), Turns::default());
    let room = batch_bytes_max(shard);
    let mut bytes = 0;
    for (number, named) in asked.topics.iter().enumerate() {
        let found = find(&image, ids.get(number), &named.name);
        for partition in &named.partitions {
            turns.item().await;
            let value = found.and_then(|topic| {
                let value = value(topic, partition, shard.groups.settings.offset_metadata_max)?;
                bytes += RECORD_BYTES_MIN + asked.group_id.len() + topic.name.len() + value.metadata.len();
                if bytes > room {
                    return Err(ErrorCode::UnknownServerError);
                }
                Ok(OffsetsRecord::Offset {
                    group: asked.group_id.to_string(),
                    topic: topic.name.clone(),
                    partition: partition.partition_index,
                    value: Some(CommittedOffset {
                        commit_timestamp_ms: now_ms,
                        expire_timestamp_ms,
                        ..value
                    }),
                })
            });
            items.push(match value {
                Ok(record) => Item {
                    code: ErrorCode::None,
                    record: Some(record),
                },
                Err(code) => Item { code, record: None },
            });
        }
    }
    if bytes > room {
        for item in items.iter_mut().filter(|item| item.record.is_some()) {
            *item = Item {
                code: ErrorCode::UnknownServerError,
                record: None,
            };
        }
    }
    items
}

fn find<'a>(image: &'a ClusterImage, id: Option<&Uuid>, name: &str) -> Result<&'a Topic, ErrorCode> {
    match id {
        Some(id) => image.topic(*id).ok_or(ErrorCode::UnknownTopicId),
        None => image
            .topic_by_name(name)
            .ok_or(ErrorCode::UnknownTopicOrPartition),
    }
    .map(|topic| &**topic)
}

fn value(
    topic: &Topic,
    asked: &OffsetCommitRequestPartition,
    metadata_max: usize,
) -> Result<CommittedOffset, ErrorCode> {
    match usize::try_from(asked.partition_index) {
        Ok(number) if number < topic.partitions.len() => {}
        _ => return Err(ErrorCode::UnknownTopicOrPartition),
    }
    let metadata = asked.committed_metadata.as_deref().unwrap_or_default();
    // As Kafka counts it.
    if metadata.len() > metadata_max && metadata.encode_utf16().count() > metadata_max {
        return Err(ErrorCode::OffsetMetadataTooLarge);
    }
    Ok(CommittedOffset {
        offset: asked.committed_offset,
        leader_epoch: asked.committed_leader_epoch,
        metadata: metadata.into(),
        commit_timestamp_ms: 0,
        expire_timestamp_ms: None,
        topic_id: topic.id,
    })
}

async fn commit<R: Runtime, D: Disk>(
    request: &Request<R, D>,
    asked: &OffsetCommitRequest,
    items: &mut [Item],
) -> Result<(), ErrorCode> {
    let shard = &request.shard;
    let group = asked.group_id.as_str();
    let coordinator = shard.coordinator_of(group)?;
    let records: Vec<OffsetsRecord> = items.iter_mut().filter_map(|item| item.record.take()).collect();
    coordinator.admit(shard, bytes_of(&records)).await?;
    coordinator.check()?;
    if shard.groups.are_full() && coordinator.lacks_one_of(&records) {
        let code = ErrorCode::CoordinatorNotAvailable;
        let reason = "groups hold all the memory that they may: no offset of another partition is taken";
        request.refused(code, &group, -1, reason);
        return Err(code);
    }
    let identity = identity(
        &asked.member_id,
        asked.group_instance_id.as_ref(),
        asked.generation_id_or_member_epoch,
    );
    if !coordinator.has(group) {
        match (
            identity.generation < 0,
            request.version >= VERSION_WITH_UNKNOWN_GROUPS,
        ) {
            // A consumer that was assigned its partitions, or an operator.
            (true, _) => coordinator.make(shard, group),
            (false, true) => return Err(ErrorCode::GroupIdNotFound),
            (false, false) => return Err(ErrorCode::IllegalGeneration),
        }
    }
    allowed(request, &coordinator, group, &identity)?;
    let end = coordinator.append(shard, &records)?;
    coordinator.durable_in_time(shard, end).await
}

/// Whether the group takes a commit of this member.
fn allowed<R: Runtime, D: Disk>(
    request: &Request<R, D>,
    coordinator: &Rc<Coordinator<D>>,
    group: &str,
    identity: &Identity,
) -> Result<(), ErrorCode> {
    let of_consumers = {
        let groups = coordinator.groups.borrow();
        let machine = groups.get(group).and_then(|group| group.machine.consumer());
        let instance_id = identity.instance_id.as_deref();
        machine.map(|machine| {
            let version = Some(request.version);
            machine.commit_allowed(&identity.member_id, instance_id, identity.generation, version)
        })
    };
    match of_consumers {
        Some(allowed) => allowed.map_err(|error| error.code),
        None => coordinator
            .call(&request.shard, group, |machine, now_ms, _| {
                machine.commit(identity, false, now_ms)
            })
            .ok_or(ErrorCode::UnknownMemberId)?,
    }
}
