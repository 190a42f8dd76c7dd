//! A group's protocol, one question at a time: find the coordinator, join, heartbeat, commit, leave. The questions of the classic protocol are
//! here, those of KIP-848 in [`super::consumer_protocol`].

use crate::client::blocking::{Connection, refuse};
use crate::client::{ClientError, Dialer, TopicLayout};
use bytes::{Buf, Bytes, BytesMut};
use std::collections::BTreeMap;
use std::time::Duration;
use strandline_wire::messages::consumer_protocol_assignment::TopicPartition;
use strandline_wire::messages::join_group_request::JoinGroupRequestProtocol;
use strandline_wire::messages::leave_group_request::MemberIdentity;
use strandline_wire::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use strandline_wire::messages::offset_fetch_request::OffsetFetchRequestTopic;
use strandline_wire::messages::sync_group_request::SyncGroupRequestAssignment;
use strandline_wire::messages::{
    ConsumerProtocolAssignment, ConsumerProtocolSubscription, FindCoordinatorRequest,
    FindCoordinatorResponse, GroupId, HeartbeatRequest, HeartbeatResponse, JoinGroupRequest,
    JoinGroupResponse, LeaveGroupRequest, LeaveGroupResponse, OffsetCommitRequest, OffsetCommitResponse,
    OffsetFetchRequest, OffsetFetchResponse, SyncGroupRequest, SyncGroupResponse, TopicName,
};
use strandline_wire::protocol::{Decodable, Encodable, StrBytes};
use strandline_wire::{ApiKey, ErrorCode};

/// As Kafka's consumer has it, but shorter: a member that died is noticed within a run.
const SESSION_TIMEOUT_MS: i32 = 10_000;

/// How long members may take to come back to a rebalance, and so how long a join may wait.
pub(super) const REBALANCE_TIMEOUT_MS: i32 = 20_000;

/// The time limit of every question: above that of a rebalance.
const QUESTION_TIMEOUT: Duration = Duration::from_secs(30);

/// The type of groups of consumers, and the one way to assign that is offered.
const PROTOCOL_TYPE: StrBytes = StrBytes::from_static_str("consumer");
const PROTOCOL: StrBytes = StrBytes::from_static_str("roundrobin");

/// The newest version of FindCoordinator that asks for one group, of LeaveGroup and of OffsetFetch.
const FIND_COORDINATOR_VERSION_MAX: i16 = 3;
const LEAVE_VERSION_MIN_OF_LISTS: i16 = 3;
const OFFSET_FETCH_VERSION_MAX: i16 = 7;

/// The newest version of OffsetCommit that names topics.
const OFFSET_COMMIT_VERSION_MAX: i16 = 9;

/// The version of the embedded messages of the consumer protocol: that of the first.
const CONSUMER_PROTOCOL_VERSION: i16 = 0;

/// How the members of a group find out who reads what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum GroupProtocol {
    /// They join, and the leader among them assigns.
    Classic,
    /// The broker assigns by heartbeats (KIP-848).
    Consumer,
}

/// What a heartbeat said.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Pulse {
    /// Read on.
    Same,
    /// Give everything back and join again.
    Rejoin,
    /// Give back what is not among these partitions, and read these.
    Assigned(Vec<i32>),
}

/// A member of a group, between joins too.
pub(super) struct Membership {
    dialer: Dialer,
    bootstrap: String,
    pub(super) protocol: GroupProtocol,
    pub(super) group: GroupId,
    coordinator: Option<Connection>,
    pub(super) member_id: StrBytes,
    /// The generation, or the member's epoch.
    pub(super) generation: i32,
}

impl Membership {
    pub(super) fn new(dialer: &Dialer, bootstrap: &str, group: &str, protocol: GroupProtocol) -> Self {
        Self {
            dialer: dialer.clone(),
            bootstrap: bootstrap.to_owned(),
            protocol,
            group: GroupId(StrBytes::from_string(group.to_owned())),
            coordinator: None,
            member_id: StrBytes::from_static_str(""),
            generation: -1,
        }
    }

    /// The connection to the coordinator, which is looked for when there is none.
    pub(super) fn coordinator(&mut self) -> Result<&mut Connection, ClientError> {
        if self.coordinator.is_none() {
            self.coordinator = Some(self.find()?);
        }
        self.coordinator
            .as_mut()
            .ok_or_else(|| ClientError::NotReady("no coordinator".to_owned()))
    }

    fn find(&self) -> Result<Connection, ClientError> {
        let first = self.bootstrap.split(',').next().unwrap_or_default();
        let mut asked = Connection::open_within(&self.dialer, first, QUESTION_TIMEOUT)?;
        let request = FindCoordinatorRequest::default().with_key(self.group.0.clone());
        let answer: FindCoordinatorResponse =
            asked.call_up_to(ApiKey::FindCoordinator, FIND_COORDINATOR_VERSION_MAX, &request)?;
        refuse("the group's coordinator", answer.error_code, None)?;
        Connection::open_within(
            &self.dialer,
            &crate::client::cluster::address(answer.host.as_str(), answer.port),
            QUESTION_TIMEOUT,
        )
    }

    /// Forgets what a refusal says is no longer true. The caller tries again from the start.
    pub(super) fn forget(&mut self, error: &ClientError) {
        match error {
            ClientError::Refused { code, .. } => match code {
                ErrorCode::UnknownMemberId | ErrorCode::IllegalGeneration | ErrorCode::FencedMemberEpoch => {
                    self.member_id = StrBytes::from_static_str("");
                    self.generation = -1;
                }
                ErrorCode::NotCoordinator
                | ErrorCode::CoordinatorNotAvailable
                | ErrorCode::CoordinatorLoadInProgress => self.coordinator = None,
                _ => {}
            },
            _ => self.coordinator = None,
        }
    }

    /// Joins: the partitions of this member, counted through all topics.
    pub(super) fn join(&mut self, layout: &TopicLayout) -> Result<Vec<i32>, ClientError> {
        match self.protocol {
            GroupProtocol::Classic => self.join_and_sync(layout),
            GroupProtocol::Consumer => self.join_by_heartbeat(layout),
        }
    }

    fn join_and_sync(&mut self, layout: &TopicLayout) -> Result<Vec<i32>, ClientError> {
        let joined = loop {
            let request = JoinGroupRequest::default()
                .with_group_id(self.group.clone())
                .with_session_timeout_ms(SESSION_TIMEOUT_MS)
                .with_rebalance_timeout_ms(REBALANCE_TIMEOUT_MS)
                .with_member_id(self.member_id.clone())
                .with_protocol_type(PROTOCOL_TYPE)
                .with_protocols(vec![
                    JoinGroupRequestProtocol::default()
                        .with_name(PROTOCOL)
                        .with_metadata(subscription(&layout.topics)?),
                ]);
            let answer: JoinGroupResponse = self.coordinator()?.call(ApiKey::JoinGroup, &request)?;
            // KIP-394: the first join is told its id, and joins with it.
            if ErrorCode::from_code(answer.error_code) == ErrorCode::MemberIdRequired {
                self.member_id = answer.member_id;
                continue;
            }
            refuse("joining the group", answer.error_code, None)?;
            break answer;
        };
        self.member_id = joined.member_id.clone();
        self.generation = joined.generation_id;
        let assignments = if joined.leader == joined.member_id {
            let members: Vec<StrBytes> = joined
                .members
                .iter()
                .map(|member| member.member_id.clone())
                .collect();
            assignments(&members, layout)?
        } else {
            Vec::new()
        };
        let request = SyncGroupRequest::default()
            .with_group_id(self.group.clone())
            .with_generation_id(self.generation)
            .with_member_id(self.member_id.clone())
            .with_protocol_type(Some(PROTOCOL_TYPE))
            .with_protocol_name(Some(PROTOCOL))
            .with_assignments(assignments);
        let answer: SyncGroupResponse = self.coordinator()?.call(ApiKey::SyncGroup, &request)?;
        refuse("syncing with the group", answer.error_code, None)?;
        assigned(answer.assignment, layout)
    }

    /// Tells that it lives; an error when the group no longer knows it.
    pub(super) fn heartbeat(&mut self, layout: &TopicLayout) -> Result<Pulse, ClientError> {
        if self.protocol == GroupProtocol::Consumer {
            return self.pulse(layout);
        }
        match self.classic_heartbeat() {
            Ok(()) => Ok(Pulse::Same),
            Err(ClientError::Refused {
                code: ErrorCode::RebalanceInProgress,
                ..
            }) => Ok(Pulse::Rejoin),
            Err(error) => Err(error),
        }
    }

    fn classic_heartbeat(&mut self) -> Result<(), ClientError> {
        let request = HeartbeatRequest::default()
            .with_group_id(self.group.clone())
            .with_generation_id(self.generation)
            .with_member_id(self.member_id.clone());
        let answer: HeartbeatResponse = self.coordinator()?.call(ApiKey::Heartbeat, &request)?;
        refuse("heartbeat", answer.error_code, None)
    }

    /// Commits where the next record of each partition is.
    pub(super) fn commit(
        &mut self,
        layout: &TopicLayout,
        positions: impl Iterator<Item = (i32, i64)>,
    ) -> Result<(), ClientError> {
        let mut topics: BTreeMap<usize, Vec<OffsetCommitRequestPartition>> = BTreeMap::new();
        for (partition, offset) in positions {
            let (topic, index) = layout.place(partition);
            topics.entry(topic).or_default().push(
                OffsetCommitRequestPartition::default()
                    .with_partition_index(index)
                    .with_committed_offset(offset)
                    .with_committed_metadata(Some(StrBytes::from_static_str(""))),
            );
        }
        if topics.is_empty() {
            return Ok(());
        }
        let topics = topics
            .into_iter()
            .map(|(topic, partitions)| {
                OffsetCommitRequestTopic::default()
                    .with_name(name(&layout.topics[topic]))
                    .with_partitions(partitions)
            })
            .collect();
        let request = OffsetCommitRequest::default()
            .with_group_id(self.group.clone())
            .with_generation_id_or_member_epoch(self.generation)
            .with_member_id(self.member_id.clone())
            .with_topics(topics);
        let answer: OffsetCommitResponse =
            self.coordinator()?
                .call_up_to(ApiKey::OffsetCommit, OFFSET_COMMIT_VERSION_MAX, &request)?;
        for partition in answer.topics.iter().flat_map(|topic| &topic.partitions) {
            refuse("committing", partition.error_code, None)?;
        }
        Ok(())
    }

    /// What the group has committed of `partitions`; those without a commit are left out.
    pub(super) fn committed(
        &mut self,
        layout: &TopicLayout,
        partitions: &[i32],
    ) -> Result<BTreeMap<i32, i64>, ClientError> {
        let mut wanted: BTreeMap<usize, Vec<i32>> = BTreeMap::new();
        for &partition in partitions {
            let (topic, index) = layout.place(partition);
            wanted.entry(topic).or_default().push(index);
        }
        let topics = wanted
            .into_iter()
            .map(|(topic, indexes)| {
                OffsetFetchRequestTopic::default()
                    .with_name(name(&layout.topics[topic]))
                    .with_partition_indexes(indexes)
            })
            .collect();
        let request = OffsetFetchRequest::default()
            .with_group_id(self.group.clone())
            .with_topics(Some(topics));
        let answer: OffsetFetchResponse =
            self.coordinator()?
                .call_up_to(ApiKey::OffsetFetch, OFFSET_FETCH_VERSION_MAX, &request)?;
        refuse("what is committed", answer.error_code, None)?;
        let mut found = BTreeMap::new();
        for topic in &answer.topics {
            let Some(place) = layout.topics.iter().position(|one| one == topic.name.as_str()) else {
                continue;
            };
            for partition in &topic.partitions {
                refuse("what is committed", partition.error_code, None)?;
                if partition.committed_offset >= 0 {
                    found.insert(
                        place as i32 * layout.each + partition.partition_index,
                        partition.committed_offset,
                    );
                }
            }
        }
        Ok(found)
    }

    /// Leaves, so that the others need not wait for the session to end.
    pub(super) fn leave(&mut self) -> Result<(), ClientError> {
        let left = match self.protocol {
            GroupProtocol::Classic => self.leave_group(),
            GroupProtocol::Consumer => self.leave_by_heartbeat(),
        };
        self.member_id = StrBytes::from_static_str("");
        self.generation = -1;
        left
    }

    fn leave_group(&mut self) -> Result<(), ClientError> {
        let (group, member_id) = (self.group.clone(), self.member_id.clone());
        let coordinator = self.coordinator()?;
        let version = coordinator.versions().pick(ApiKey::LeaveGroup, i16::MAX)?;
        let request = LeaveGroupRequest::default().with_group_id(group);
        let request = if version >= LEAVE_VERSION_MIN_OF_LISTS {
            request.with_members(vec![MemberIdentity::default().with_member_id(member_id)])
        } else {
            request.with_member_id(member_id)
        };
        let answer: LeaveGroupResponse = coordinator.call(ApiKey::LeaveGroup, &request)?;
        refuse("leaving the group", answer.error_code, None)
    }
}

fn name(topic: &str) -> TopicName {
    TopicName(StrBytes::from_string(topic.to_owned()))
}

/// A message of the consumer protocol: its version, then its fields.
fn embedded(message: &impl Encodable) -> Result<Bytes, ClientError> {
    let mut out = BytesMut::new();
    out.extend_from_slice(&CONSUMER_PROTOCOL_VERSION.to_be_bytes());
    message
        .encode(&mut out, CONSUMER_PROTOCOL_VERSION)
        .map_err(|error| ClientError::NotReady(format!("the consumer protocol: {error}")))?;
    Ok(out.freeze())
}

fn subscription(topics: &[String]) -> Result<Bytes, ClientError> {
    let topics = topics
        .iter()
        .map(|topic| StrBytes::from_string(topic.clone()))
        .collect();
    embedded(&ConsumerProtocolSubscription::default().with_topics(topics))
}

/// Every partition of every topic to one of `members`, in turn.
fn assignments(
    members: &[StrBytes],
    layout: &TopicLayout,
) -> Result<Vec<SyncGroupRequestAssignment>, ClientError> {
    let all = layout.topics.len() as i32 * layout.each;
    let mut given = Vec::with_capacity(members.len());
    for (number, member) in members.iter().enumerate() {
        let mut topics: BTreeMap<usize, Vec<i32>> = BTreeMap::new();
        for partition in (0..all).skip(number).step_by(members.len()) {
            let (topic, index) = layout.place(partition);
            topics.entry(topic).or_default().push(index);
        }
        let partitions = topics
            .into_iter()
            .map(|(topic, indexes)| {
                TopicPartition::default()
                    .with_topic(name(&layout.topics[topic]))
                    .with_partitions(indexes)
            })
            .collect();
        given.push(
            SyncGroupRequestAssignment::default()
                .with_member_id(member.clone())
                .with_assignment(embedded(
                    &ConsumerProtocolAssignment::default().with_assigned_partitions(partitions),
                )?),
        );
    }
    Ok(given)
}

/// The partitions of an assignment, counted through all topics.
fn assigned(mut assignment: Bytes, layout: &TopicLayout) -> Result<Vec<i32>, ClientError> {
    if assignment.is_empty() {
        return Ok(Vec::new());
    }
    let invalid = |what: String| ClientError::NotReady(format!("the assignment of the group: {what}"));
    if assignment.len() < 2 {
        return Err(invalid("too short".to_owned()));
    }
    let version = assignment.get_i16();
    let assignment = ConsumerProtocolAssignment::decode(&mut assignment, version.clamp(0, 3))
        .map_err(|error| invalid(error.to_string()))?;
    let mut partitions = Vec::new();
    for topic in &assignment.assigned_partitions {
        let Some(place) = layout.topics.iter().position(|one| one == topic.topic.as_str()) else {
            continue;
        };
        partitions.extend(
            topic
                .partitions
                .iter()
                .map(|index| place as i32 * layout.each + index),
        );
    }
    partitions.sort_unstable();
    Ok(partitions)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_partition_goes_to_one_member() {
        let layout = TopicLayout {
            topics: vec!["a".to_owned(), "b".to_owned()],
            topic_ids: Vec::new(),
            each: 3,
            leaders: BTreeMap::new(),
        };
        let members = ["x", "y", "z", "w"].map(StrBytes::from_static_str);
        let mut all = Vec::new();
        let mut sizes = Vec::new();
        for given in assignments(&members, &layout).unwrap() {
            let partitions = assigned(given.assignment, &layout).unwrap();
            sizes.push(partitions.len());
            all.extend(partitions);
        }
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2, 3, 4, 5]);
        assert_eq!(sizes, [2, 2, 1, 1]);
        assert!(assigned(Bytes::new(), &layout).unwrap().is_empty());
        assert!(assigned(Bytes::from_static(&[0]), &layout).is_err());
    }
}
