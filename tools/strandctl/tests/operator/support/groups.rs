//! Groups of the cluster: each is coordinated by one broker, the others refuse it.

use std::collections::BTreeMap;

use bytes::{BufMut, Bytes, BytesMut};
use kafka_protocol::messages::consumer_group_describe_response::{self, Assignment, TopicPartitions};
use kafka_protocol::messages::delete_groups_response::DeletableGroupResult;
use kafka_protocol::messages::describe_groups_response::{DescribedGroup, DescribedGroupMember};
use kafka_protocol::messages::find_coordinator_response::Coordinator;
use kafka_protocol::messages::list_groups_response::ListedGroup;
use kafka_protocol::messages::offset_commit_response::{
    OffsetCommitResponsePartition, OffsetCommitResponseTopic,
};
use kafka_protocol::messages::offset_fetch_response::{
    OffsetFetchResponseGroup, OffsetFetchResponsePartition, OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic, OffsetFetchResponseTopics,
};
use kafka_protocol::messages::{
    BrokerId, ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse, DeleteGroupsRequest,
    DeleteGroupsResponse, DescribeGroupsRequest, DescribeGroupsResponse, FindCoordinatorRequest,
    FindCoordinatorResponse, GroupId, ListGroupsRequest, ListGroupsResponse, OffsetCommitRequest,
    OffsetCommitResponse, OffsetFetchRequest, OffsetFetchResponse, TopicName,
};

use super::cluster::{Fault, State};
use super::handlers::text;

const LOAD_IN_PROGRESS: i16 = 14;
const NOT_COORDINATOR: i16 = 16;
const UNKNOWN_MEMBER_ID: i16 = 25;
const NON_EMPTY_GROUP: i16 = 68;
const GROUP_ID_NOT_FOUND: i16 = 69;

/// A group, classic unless it says otherwise.
#[derive(Clone, Debug, Default)]
pub(crate) struct Group {
    /// Member id, client id, and the partitions it owns of one topic.
    pub(crate) members: Vec<(&'static str, &'static str, &'static str, Vec<i32>)>,
    pub(crate) offsets: BTreeMap<(String, i32), i64>,
    /// It is of the consumer protocol.
    pub(crate) is_new: bool,
}

impl Group {
    fn state(&self) -> &'static str {
        if self.members.is_empty() {
            "Empty"
        } else {
            "Stable"
        }
    }
}

/// Which broker coordinates a group: by the length of its name.
fn coordinator(state: &State, group: &str) -> i32 {
    let brokers: Vec<i32> = state.brokers.keys().copied().collect();
    brokers[group.len() % brokers.len()]
}

/// Why this broker does not answer for a group.
fn refusal(state: &mut State, broker: i32, group: &str) -> Option<i16> {
    if coordinator(state, group) != broker {
        return Some(NOT_COORDINATOR);
    }
    state.strikes(Fault::Loading).then_some(LOAD_IN_PROGRESS)
}

pub(super) fn find(state: &mut State, request: FindCoordinatorRequest) -> FindCoordinatorResponse {
    let stale = state.strikes(Fault::StaleCoordinator);
    let of = |group: &str| {
        let right = coordinator(state, group);
        let other = state.brokers.keys().find(|id| **id != right).copied();
        let id = if stale { other.unwrap_or(right) } else { right };
        (
            BrokerId(id),
            text(&state.brokers[&id].ip().to_string()),
            state.brokers[&id].port().into(),
        )
    };
    let (id, host, port) = of(&request.key);
    let coordinators = request.coordinator_keys.iter().map(|key| {
        let (id, host, port) = of(key);
        Coordinator::default()
            .with_key(key.clone())
            .with_node_id(id)
            .with_host(host)
            .with_port(port)
    });
    let several = FindCoordinatorResponse::default().with_coordinators(coordinators.collect());
    match request.coordinator_keys.is_empty() {
        true => several.with_node_id(id).with_host(host).with_port(port),
        false => several,
    }
}

pub(super) fn list(state: &mut State, broker: i32, version: i16, _: ListGroupsRequest) -> ListGroupsResponse {
    if state.strikes(Fault::Loading) {
        return ListGroupsResponse::default().with_error_code(LOAD_IN_PROGRESS);
    }
    let own = state
        .groups
        .iter()
        .filter(|(name, _)| coordinator(state, name) == broker);
    let groups = own.map(|(name, group)| {
        let listed = ListedGroup::default()
            .with_group_id(GroupId(text(name)))
            .with_protocol_type(text("consumer"));
        match version {
            5.. => listed
                .with_group_state(text(group.state()))
                .with_group_type(text("Classic")),
            4 => listed.with_group_state(text(group.state())),
            _ => listed,
        }
    });
    ListGroupsResponse::default().with_groups(groups.collect())
}

pub(super) fn describe(
    state: &mut State,
    broker: i32,
    version: i16,
    request: DescribeGroupsRequest,
) -> DescribeGroupsResponse {
    let groups = request.groups.into_iter().map(|name| {
        let answer = DescribedGroup::default().with_group_id(name.clone());
        if let Some(code) = refusal(state, broker, &name) {
            return answer.with_error_code(code);
        }
        let classic = state.groups.get(name.as_str()).filter(|group| !group.is_new);
        let Some(group) = classic else {
            let dead = answer.with_group_state(text("Dead"));
            return match version {
                6.. => dead
                    .with_error_code(GROUP_ID_NOT_FOUND)
                    .with_error_message(Some(text("no such group"))),
                _ => dead,
            };
        };
        let members = group.members.iter().map(|(id, client, topic, partitions)| {
            let member = DescribedGroupMember::default()
                .with_member_id(text(id))
                .with_client_id(text(client))
                .with_client_host(text("/127.0.0.1"))
                .with_member_assignment(assignment(topic, partitions));
            match version {
                4.. => member.with_group_instance_id(Some(text("static"))),
                _ => member,
            }
        });
        answer
            .with_group_state(text(group.state()))
            .with_protocol_type(text("consumer"))
            .with_protocol_data(text(if group.members.is_empty() { "" } else { "range" }))
            .with_members(members.collect())
    });
    let groups = groups.collect();
    DescribeGroupsResponse::default().with_groups(groups)
}

pub(super) fn describe_new(
    state: &mut State,
    broker: i32,
    request: ConsumerGroupDescribeRequest,
) -> ConsumerGroupDescribeResponse {
    let groups = request.group_ids.into_iter().map(|name| {
        let answer = consumer_group_describe_response::DescribedGroup::default().with_group_id(name.clone());
        if let Some(code) = refusal(state, broker, &name) {
            return answer.with_error_code(code);
        }
        let new = state.groups.get(name.as_str()).filter(|group| group.is_new);
        let Some(group) = new else {
            return answer.with_error_code(GROUP_ID_NOT_FOUND);
        };
        let members = group.members.iter().map(|(id, client, topic, partitions)| {
            let of = |partitions: &[i32]| {
                let topic = TopicPartitions::default()
                    .with_topic_name(TopicName(text(topic)))
                    .with_partitions(partitions.to_vec());
                Assignment::default().with_topic_partitions(vec![topic])
            };
            // One partition is still to be taken over from another member.
            let owned = &partitions[..partitions.len().min(1)];
            consumer_group_describe_response::Member::default()
                .with_member_id(text(id))
                .with_client_id(text(client))
                .with_client_host(text("/127.0.0.1"))
                .with_member_epoch(6)
                .with_subscribed_topic_names(vec![TopicName(text(topic))])
                .with_assignment(of(owned))
                .with_target_assignment(of(partitions))
                .with_member_type(1)
        });
        answer
            .with_group_state(text("Reconciling"))
            .with_group_epoch(7)
            .with_assignment_epoch(7)
            .with_assignor_name(text("uniform"))
            .with_members(members.collect())
    });
    let groups = groups.collect();
    ConsumerGroupDescribeResponse::default().with_groups(groups)
}

fn assignment(topic: &str, partitions: &[i32]) -> Bytes {
    let mut bytes = BytesMut::new();
    bytes.put_i16(0);
    bytes.put_i32(1);
    bytes.put_i16(topic.len() as i16);
    bytes.put_slice(topic.as_bytes());
    bytes.put_i32(partitions.len() as i32);
    partitions.iter().for_each(|partition| bytes.put_i32(*partition));
    bytes.put_i32(-1);
    bytes.freeze()
}

pub(super) fn delete(state: &mut State, broker: i32, request: DeleteGroupsRequest) -> DeleteGroupsResponse {
    let results = request.groups_names.into_iter().map(|name| {
        let code = match (refusal(state, broker, &name), state.groups.get(name.as_str())) {
            (Some(code), _) => code,
            (_, None) => GROUP_ID_NOT_FOUND,
            (_, Some(group)) if !group.members.is_empty() => NON_EMPTY_GROUP,
            _ => {
                state.groups.remove(name.as_str());
                0
            }
        };
        DeletableGroupResult::default()
            .with_group_id(name)
            .with_error_code(code)
    });
    let results = results.collect();
    DeleteGroupsResponse::default().with_results(results)
}

pub(super) fn fetch_offsets(
    state: &mut State,
    broker: i32,
    version: i16,
    request: OffsetFetchRequest,
) -> OffsetFetchResponse {
    if version < 8 {
        let name = request.group_id.as_str();
        if let Some(code) = refusal(state, broker, name) {
            return OffsetFetchResponse::default().with_error_code(code);
        }
        let topics = by_topic(state, name).into_iter().map(|(topic, partitions)| {
            let partitions = partitions.into_iter().map(|(partition, offset)| {
                OffsetFetchResponsePartition::default()
                    .with_partition_index(partition)
                    .with_committed_offset(offset)
            });
            OffsetFetchResponseTopic::default()
                .with_name(TopicName(text(&topic)))
                .with_partitions(partitions.collect())
        });
        return OffsetFetchResponse::default().with_topics(topics.collect());
    }
    let groups = request.groups.into_iter().map(|asked| {
        let answer = OffsetFetchResponseGroup::default().with_group_id(asked.group_id.clone());
        if let Some(code) = refusal(state, broker, &asked.group_id) {
            return answer.with_error_code(code);
        }
        let topics = by_topic(state, &asked.group_id)
            .into_iter()
            .map(|(topic, partitions)| {
                let partitions = partitions.into_iter().map(|(partition, offset)| {
                    OffsetFetchResponsePartitions::default()
                        .with_partition_index(partition)
                        .with_committed_offset(offset)
                        .with_metadata(Some(text("note")))
                });
                OffsetFetchResponseTopics::default()
                    .with_name(TopicName(text(&topic)))
                    .with_partitions(partitions.collect())
            });
        answer.with_topics(topics.collect())
    });
    let groups = groups.collect();
    OffsetFetchResponse::default().with_groups(groups)
}

fn by_topic(state: &State, group: &str) -> BTreeMap<String, Vec<(i32, i64)>> {
    let mut topics: BTreeMap<String, Vec<(i32, i64)>> = BTreeMap::new();
    for ((topic, partition), offset) in state
        .groups
        .get(group)
        .into_iter()
        .flat_map(|group| &group.offsets)
    {
        topics
            .entry(topic.clone())
            .or_default()
            .push((*partition, *offset));
    }
    topics
}

pub(super) fn commit(state: &mut State, broker: i32, request: OffsetCommitRequest) -> OffsetCommitResponse {
    let name = request.group_id.as_str();
    let joined = state.strikes(Fault::MemberJoins);
    let has_members = state
        .groups
        .get(name)
        .is_some_and(|group| !group.members.is_empty());
    let code = match refusal(state, broker, name) {
        Some(code) => code,
        // Only a group without members takes what nobody's member commits.
        None if has_members || joined => UNKNOWN_MEMBER_ID,
        None => 0,
    };
    assert_eq!(
        (request.generation_id_or_member_epoch, request.member_id.as_str()),
        (-1, "")
    );
    let topics = request.topics.iter().map(|topic| {
        let partitions = topic.partitions.iter().map(|partition| {
            if code == 0 {
                let at = (topic.name.to_string(), partition.partition_index);
                let group = state.groups.entry(name.to_owned()).or_default();
                group.offsets.insert(at, partition.committed_offset);
            }
            OffsetCommitResponsePartition::default()
                .with_partition_index(partition.partition_index)
                .with_error_code(code)
        });
        let partitions = partitions.collect();
        OffsetCommitResponseTopic::default()
            .with_name(topic.name.clone())
            .with_partitions(partitions)
    });
    let topics = topics.collect();
    OffsetCommitResponse::default().with_topics(topics)
}
