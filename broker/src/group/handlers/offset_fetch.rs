//! OffsetFetch (9): what groups have committed, once it is durable.

use bytes::Bytes;
use strandline_core::group::offsets::CommittedOffset;
use strandline_core::metadata::ClusterImage;
use strandline_runtime::Runtime;
use strandline_storage::disk::Disk;
use strandline_wire::messages::TopicName;
use strandline_wire::messages::offset_fetch_request::{
    OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics,
};
use strandline_wire::messages::offset_fetch_response::{
    OffsetFetchResponse, OffsetFetchResponseGroup, OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions, OffsetFetchResponseTopic, OffsetFetchResponseTopics,
};
use strandline_wire::offsets_by_id::{self, FIRST_VERSION_BY_ID};
use strandline_wire::{ErrorCode, Uuid};

use super::{ANSWER_BYTES_MAX, answer_too_large, text};
use crate::connection::{Answer, Close};
use crate::group::Coordinator;
use crate::handlers::Request;

/// From this version on an answer has a code of its own; before, each partition has it.
const VERSION_WITH_CODE: i16 = 2;
/// From this version on a request has several groups.
const VERSION_WITH_GROUPS: i16 = 8;
const VERSION_WITH_LEADER_EPOCH: i16 = 5;
/// A partition of an answer beside its metadata, as it stands in memory.
const PARTITION_BYTES: usize = size_of::<OffsetFetchResponsePartitions>() + 32;
/// Nothing is committed.
const NO_OFFSET: i64 = -1;

pub(crate) async fn serve<R: Runtime, D: Disk>(
    request: &Request<R, D>,
    body: Bytes,
) -> Result<Answer<D>, Close> {
    let (asked, ids) = match request.version >= FIRST_VERSION_BY_ID {
        true => offsets_by_id::decode_fetch(&body)?,
        false => (request.decode::<OffsetFetchRequest>(body)?, Vec::new()),
    };
    let mut groups = Vec::new();
    let mut room = ANSWER_BYTES_MAX;
    for (number, group) in groups_of(request.version, asked).into_iter().enumerate() {
        let ids = ids.get(number).map(Vec::as_slice);
        groups.push(match fetch(request, &group, ids, &mut room).await {
            Ok(found) => found,
            Err(code) => refused(request.version, &group, code),
        });
        request.shard.runtime.yield_if_needed().await;
    }
    let partitions = groups
        .iter()
        .flat_map(|group| &group.topics)
        .flat_map(|topic| &topic.partitions);
    let codes: Vec<ErrorCode> = partitions
        .map(|partition| partition.error_code)
        .chain(groups.iter().map(|group| group.error_code))
        .map(ErrorCode::from_code)
        .collect();
    request.encode(&response(request.version, groups), codes.into_iter())
}

/// The groups of a request, whichever version wrote them.
fn groups_of(version: i16, asked: OffsetFetchRequest) -> Vec<OffsetFetchRequestGroup> {
    if version >= VERSION_WITH_GROUPS {
        return asked.groups;
    }
    let topics = asked.topics.map(|topics| {
        let topics = topics.into_iter().map(|topic| {
            OffsetFetchRequestTopics::default()
                .with_name(topic.name)
                .with_partition_indexes(topic.partition_indexes)
        });
        topics.collect()
    });
    vec![
        OffsetFetchRequestGroup::default()
            .with_group_id(asked.group_id)
            .with_topics(topics),
    ]
}

async fn fetch<R: Runtime, D: Disk>(
    request: &Request<R, D>,
    asked: &OffsetFetchRequestGroup,
    ids: Option<&[Uuid]>,
    room: &mut usize,
) -> Result<OffsetFetchResponseGroup, ErrorCode> {
    let shard = &request.shard;
    let group = asked.group_id.as_str();
    let coordinator = shard.coordinator_of(group)?;
    allowed(&coordinator, asked)?;
    let image = shard.image();
    let topics: Option<Vec<_>> = match &asked.topics {
        Some(topics) => topics
            .iter()
            .enumerate()
            .map(|(number, topic)| {
                let id = ids.and_then(|ids| ids.get(number)).copied();
                named(&coordinator, &image, group, topic, id, room)
            })
            .collect(),
        None => everything(&coordinator, &image, group, ids.is_some(), room),
    };
    let Some(topics) = topics else {
        return Err(answer_too_large(request, group));
    };
    // What is told is what a restart would tell: it was looked up first, and what was appended by then is waited for.
    let durable = coordinator
        .durable_in_time(shard, coordinator.appended_end.get())
        .await;
    durable.map_err(|code| match code {
        // Clients before 3.9 know no other code to look for the coordinator again by.
        ErrorCode::CoordinatorNotAvailable => ErrorCode::NotCoordinator,
        other => other,
    })?;
    coordinator.check()?;
    Ok(OffsetFetchResponseGroup::default()
        .with_group_id(asked.group_id.clone())
        .with_topics(topics))
}

/// Whether the group tells its offsets to this member, if it says that it is one.
fn allowed<D: Disk>(coordinator: &Coordinator<D>, asked: &OffsetFetchRequestGroup) -> Result<(), ErrorCode> {
    let groups = coordinator.groups.borrow();
    let group = groups.get(asked.group_id.as_str());
    let Some(machine) = group.and_then(|group| group.machine.consumer()) else {
        return Ok(());
    };
    let allowed = machine.fetch_allowed(asked.member_id.as_deref(), asked.member_epoch);
    allowed.map_err(|error| error.code)
}

/// Takes what one more partition of an answer takes; `None` if the answer has no room for it.
fn take(room: &mut usize, metadata: &str) -> Option<()> {
    *room = room.checked_sub(PARTITION_BYTES + metadata.len())?;
    Some(())
}

fn named<D: Disk>(
    coordinator: &Coordinator<D>,
    image: &ClusterImage,
    group: &str,
    asked: &OffsetFetchRequestTopics,
    id: Option<Uuid>,
    room: &mut usize,
) -> Option<OffsetFetchResponseTopics> {
    let topic = match id {
        Some(id) => image.topic(id),
        None => image.topic_by_name(&asked.name),
    };
    let answer = match id {
        Some(id) => OffsetFetchResponseTopics::default().with_topic_id(id),
        None => OffsetFetchResponseTopics::default().with_name(asked.name.clone()),
    };
    let offsets = coordinator.offsets.borrow();
    let partitions = asked.partition_indexes.iter().map(|number| {
        let held = topic.and_then(|topic| {
            let held = offsets.get(group, &topic.name, *number);
            held.filter(|offset| !offset.is_of_other_topic(topic.id))
        });
        take(room, held.map_or("", |offset| &offset.metadata))?;
        Some(match (held, topic, id) {
            (Some(offset), _, _) => committed(*number, offset),
            (None, None, Some(_)) => nothing(*number, ErrorCode::UnknownTopicId),
            _ => nothing(*number, ErrorCode::None),
        })
    });
    Some(answer.with_partitions(partitions.collect::<Option<_>>()?))
}

fn everything<D: Disk>(
    coordinator: &Coordinator<D>,
    image: &ClusterImage,
    group: &str,
    by_id: bool,
    room: &mut usize,
) -> Option<Vec<OffsetFetchResponseTopics>> {
    let mut topics: Vec<OffsetFetchResponseTopics> = Vec::new();
    let mut last = "";
    let offsets = coordinator.offsets.borrow();
    for (name, number, offset) in offsets.of_group(group) {
        let Some(topic) = image.topic_by_name(name) else {
            continue;
        };
        if offset.is_of_other_topic(topic.id) {
            continue;
        }
        take(room, &offset.metadata)?;
        if last != name || topics.is_empty() {
            topics.push(match by_id {
                true => OffsetFetchResponseTopics::default().with_topic_id(topic.id),
                false => OffsetFetchResponseTopics::default().with_name(TopicName(text(name))),
            });
            last = name;
        }
        if let Some(topic) = topics.last_mut() {
            topic.partitions.push(committed(number, offset));
        }
    }
    Some(topics)
}

fn committed(number: i32, offset: &CommittedOffset) -> OffsetFetchResponsePartitions {
    OffsetFetchResponsePartitions::default()
        .with_partition_index(number)
        .with_committed_offset(offset.offset)
        .with_committed_leader_epoch(offset.leader_epoch)
        .with_metadata(Some(text(&offset.metadata)))
}

fn nothing(number: i32, code: ErrorCode) -> OffsetFetchResponsePartitions {
    OffsetFetchResponsePartitions::default()
        .with_partition_index(number)
        .with_committed_offset(NO_OFFSET)
        .with_committed_leader_epoch(-1)
        .with_metadata(Some(text("")))
        .with_error_code(code.code())
}

/// A group that cannot be answered for.
fn refused(version: i16, asked: &OffsetFetchRequestGroup, code: ErrorCode) -> OffsetFetchResponseGroup {
    let answer = OffsetFetchResponseGroup::default()
        .with_group_id(asked.group_id.clone())
        .with_error_code(code.code());
    if version >= VERSION_WITH_CODE {
        return answer;
    }
    let topics = asked.topics.iter().flatten().map(|topic| {
        let partitions = topic.partition_indexes.iter();
        OffsetFetchResponseTopics::default()
            .with_name(topic.name.clone())
            .with_partitions(partitions.map(|number| nothing(*number, code)).collect())
    });
    answer.with_topics(topics.collect())
}

fn response(version: i16, groups: Vec<OffsetFetchResponseGroup>) -> OffsetFetchResponse {
    if version >= VERSION_WITH_GROUPS {
        return OffsetFetchResponse::default().with_groups(groups);
    }
    let group = groups.into_iter().next().unwrap_or_default();
    let topics = group.topics.into_iter().map(|topic| {
        let partitions = topic.partitions.into_iter().map(|partition| {
            let answer = OffsetFetchResponsePartition::default()
                .with_partition_index(partition.partition_index)
                .with_committed_offset(partition.committed_offset)
                .with_metadata(partition.metadata)
                .with_error_code(partition.error_code);
            match version >= VERSION_WITH_LEADER_EPOCH {
                true => answer.with_committed_leader_epoch(partition.committed_leader_epoch),
                false => answer,
            }
        });
        OffsetFetchResponseTopic::default()
            .with_name(topic.name)
            .with_partitions(partitions.collect())
    });
    let answer = OffsetFetchResponse::default().with_topics(topics.collect());
    match version >= VERSION_WITH_CODE {
        true => answer.with_error_code(group.error_code),
        false => answer,
    }
}
