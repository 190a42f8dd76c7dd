//! ConsumerGroupDescribe (69): groups of the consumer protocol, once what is told of them is durable.

use bytes::Bytes;
use strandline_core::group::consumer::{DescribedTopic, GroupDescription, MemberDescription};
use strandline_runtime::Runtime;
use strandline_storage::disk::Disk;
use strandline_wire::ErrorCode;
use strandline_wire::messages::consumer_group_describe_request::ConsumerGroupDescribeRequest;
use strandline_wire::messages::consumer_group_describe_response::{
    Assignment, ConsumerGroupDescribeResponse, DescribedGroup, Member, TopicPartitions,
};
use strandline_wire::messages::{GroupId, TopicName};

use super::describe::{OPERATIONS, OPERATIONS_OMITTED};
use super::{ANSWER_BYTES_MAX, answer_too_large, text};
use crate::connection::{Answer, Close};
use crate::handlers::Request;

/// From this version on an answer says which protocol a member speaks.
const VERSION_WITH_MEMBER_TYPE: i16 = 1;
/// A member and a topic of an answer beside their bytes, as they stand in memory.
const MEMBER_BYTES: usize = size_of::<Member>() + 256;
const TOPIC_BYTES: usize = size_of::<TopicPartitions>() + 64;

pub(crate) async fn serve<R: Runtime, D: Disk>(
    request: &Request<R, D>,
    body: Bytes,
) -> Result<Answer<D>, Close> {
    let asked: ConsumerGroupDescribeRequest = request.decode(body)?;
    let operations = match asked.include_authorized_operations {
        true => OPERATIONS,
        false => OPERATIONS_OMITTED,
    };
    let (mut groups, mut room) = (Vec::new(), ANSWER_BYTES_MAX);
    for group in asked.group_ids {
        let described = describe(request, &group, &mut room).await;
        let described = match described {
            Ok(described) => described.with_authorized_operations(operations),
            Err((code, reason)) => DescribedGroup::default()
                .with_error_code(code.code())
                .with_error_message(reason.map(|reason| text(&reason)))
                .with_authorized_operations(OPERATIONS_OMITTED),
        };
        groups.push(described.with_group_id(group));
        request.shard.runtime.yield_if_needed().await;
    }
    let response = ConsumerGroupDescribeResponse::default().with_groups(groups);
    let codes = response
        .groups
        .iter()
        .map(|group| ErrorCode::from_code(group.error_code));
    request.encode(&response, codes)
}

/// A code, and what is to be said beside it.
type Refusal = (ErrorCode, Option<String>);

async fn describe<R: Runtime, D: Disk>(
    request: &Request<R, D>,
    group: &GroupId,
    room: &mut usize,
) -> Result<DescribedGroup, Refusal> {
    let shard = &request.shard;
    let plain = |code| (code, None);
    if !shard.groups.consumer.is_served {
        return Err(plain(ErrorCode::UnsupportedVersion));
    }
    if group.is_empty() {
        return Err((ErrorCode::InvalidGroupId, None));
    }
    let coordinator = shard.coordinator_of(group).map_err(plain)?;
    let (described, end) = {
        let groups = coordinator.groups.borrow();
        let unknown = |what: &str| {
            let reason = format!("Group {} {what}.", group.as_str());
            (ErrorCode::GroupIdNotFound, Some(reason))
        };
        let found = groups.get(group.as_str()).ok_or_else(|| unknown("not found"))?;
        let machine = found.machine.consumer();
        let machine = machine.ok_or_else(|| unknown("is not a consumer group"))?;
        let image = shard.image();
        let config = shard.groups.consumer_config(&image, group);
        let described = machine.describe(&config, &*image);
        (described, found.appended_end)
    };
    *room = match room.checked_sub(bytes_of(&described)) {
        Some(left) => left,
        None => return Err(plain(answer_too_large(request, group))),
    };
    coordinator.durable_in_time(shard, end).await.map_err(plain)?;
    coordinator.check().map_err(plain)?;
    Ok(found(request.version, described))
}

fn bytes_of(described: &GroupDescription) -> usize {
    let topics = |topics: &[DescribedTopic]| -> usize {
        let topics = topics.iter();
        topics
            .map(|topic| TOPIC_BYTES + topic.name.len() + 4 * topic.partitions.len())
            .sum()
    };
    let members = described.members.iter().map(|member| {
        let names = member.metadata.topic_names.iter();
        let names: usize = names.map(|name| size_of::<TopicName>() + name.len()).sum();
        MEMBER_BYTES + names + topics(&member.assignment) + topics(&member.target)
    });
    members.sum()
}

fn found(version: i16, described: GroupDescription) -> DescribedGroup {
    let members = described.members.into_iter();
    DescribedGroup::default()
        .with_group_state(text(described.state.name()))
        .with_group_epoch(described.group_epoch)
        .with_assignment_epoch(described.assignment_epoch)
        .with_assignor_name(text(described.assignor))
        .with_members(members.map(|described| member(version, described)).collect())
}

fn member(version: i16, described: MemberDescription) -> Member {
    let metadata = &described.metadata;
    let optional = |value: &Option<std::rc::Rc<str>>| value.as_deref().map(text);
    let names = metadata.topic_names.iter().map(|name| TopicName(text(name)));
    let answer = Member::default()
        .with_member_id(text(&described.id))
        .with_instance_id(optional(&metadata.instance_id))
        .with_rack_id(optional(&metadata.rack_id))
        .with_member_epoch(described.epoch)
        .with_client_id(text(&metadata.client_id))
        .with_client_host(text(&metadata.client_host))
        .with_subscribed_topic_names(names.collect())
        .with_subscribed_topic_regex(Some(text(&metadata.topic_regex)))
        .with_assignment(assignment(&described.assignment))
        .with_target_assignment(assignment(&described.target));
    match version >= VERSION_WITH_MEMBER_TYPE {
        true => answer.with_member_type(described.member_type()),
        false => answer,
    }
}

fn assignment(topics: &[DescribedTopic]) -> Assignment {
    let topics = topics.iter().map(|topic| {
        TopicPartitions::default()
            .with_topic_id(topic.id)
            .with_topic_name(TopicName(text(&topic.name)))
            .with_partitions(topic.partitions.clone())
    });
    Assignment::default().with_topic_partitions(topics.collect())
}
