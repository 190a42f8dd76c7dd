//! Members of groups, as a test drives them: one request at a time, each answer looked at.

use kafka_protocol::messages::describe_groups_response::DescribedGroup;
use kafka_protocol::messages::find_coordinator_response::Coordinator;
use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::leave_group_request::MemberIdentity;
use kafka_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafka_protocol::messages::offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics};
use kafka_protocol::messages::sync_group_request::SyncGroupRequestAssignment;
use kafka_protocol::messages::{
    DescribeGroupsRequest, FindCoordinatorRequest, GroupId, HeartbeatRequest, JoinGroupRequest,
    JoinGroupResponse, LeaveGroupRequest, OffsetCommitRequest, OffsetFetchRequest, SyncGroupRequest,
    SyncGroupResponse,
};
use kafka_protocol::protocol::StrBytes;

use super::broker::Broker;
use super::client::Client;
use super::topic::name;

pub const MEMBER_ID_REQUIRED: i16 = 79;
pub const REBALANCE_IN_PROGRESS: i16 = 27;
pub const UNKNOWN_MEMBER_ID: i16 = 25;
pub const ILLEGAL_GENERATION: i16 = 22;
pub const FENCED_INSTANCE_ID: i16 = 82;
pub const LOAD_IN_PROGRESS: i16 = 14;
pub const GROUP_ID_NOT_FOUND: i16 = 69;

pub fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

pub fn group_id(group: &str) -> GroupId {
    GroupId(text(group))
}

/// The coordinator of a group; panics on an error.
pub fn find(client: &mut Client, group: &str) -> Coordinator {
    let request = FindCoordinatorRequest::default().with_coordinator_keys(vec![text(group)]);
    let mut answer = client.call(4, &request);
    let found = answer.coordinators.remove(0);
    assert_eq!(found.error_code, 0, "{:?}", found.error_message);
    found
}

/// A connection to the coordinator of a group.
pub fn coordinator(broker: &Broker, group: &str) -> Client {
    let found = find(&mut broker.client(), group);
    broker.client_of(found.node_id.0)
}

/// A member of a group of consumers, on a connection of its own.
pub struct Member {
    pub client: Client,
    pub group: String,
    pub id: String,
    pub instance: Option<String>,
    pub generation: i32,
    pub session_timeout_ms: i32,
    /// Names of assignors.
    pub protocols: Vec<String>,
    pub topics: Vec<String>,
}

impl Member {
    pub fn new(broker: &Broker, group: &str) -> Self {
        Self {
            client: coordinator(broker, group),
            group: group.to_owned(),
            id: String::new(),
            instance: None,
            generation: -1,
            session_timeout_ms: 30_000,
            protocols: vec!["range".to_owned()],
            topics: vec!["t".to_owned()],
        }
    }

    pub fn named(broker: &Broker, group: &str, instance: &str) -> Self {
        Self {
            instance: Some(instance.to_owned()),
            ..Self::new(broker, group)
        }
    }

    pub fn join_request(&self, version: i16) -> JoinGroupRequest {
        let protocols = self.protocols.iter().map(|name| {
            JoinGroupRequestProtocol::default()
                .with_name(text(name))
                .with_metadata(subscription(&self.topics).into())
        });
        let request = JoinGroupRequest::default()
            .with_group_id(group_id(&self.group))
            .with_session_timeout_ms(self.session_timeout_ms)
            .with_member_id(text(&self.id))
            .with_protocol_type(text("consumer"))
            .with_protocols(protocols.collect());
        let request = match version >= 1 {
            true => request.with_rebalance_timeout_ms(60_000),
            false => request,
        };
        match version >= 5 {
            true => request.with_group_instance_id(self.instance.as_deref().map(text)),
            false => request,
        }
    }

    /// Sends a join, and takes the answer later.
    pub fn send_join(&mut self, version: i16) {
        let request = self.join_request(version);
        self.client.send(version, &request).unwrap();
    }

    pub fn receive_join(&mut self, version: i16) -> JoinGroupResponse {
        let (_, answer) = self.client.receive::<JoinGroupRequest>(version).unwrap();
        if answer.error_code == 0 || answer.error_code == MEMBER_ID_REQUIRED {
            self.id = answer.member_id.to_string();
        }
        if answer.error_code == 0 {
            self.generation = answer.generation_id;
        }
        answer
    }

    /// Learns its id, as versions from 4 on ask a dynamic member to.
    pub fn learn_id(&mut self) {
        self.send_join(5);
        assert_eq!(self.receive_join(5).error_code, MEMBER_ID_REQUIRED);
    }

    /// Joins; panics on an error.
    pub fn join(&mut self) -> JoinGroupResponse {
        if self.id.is_empty() && self.instance.is_none() {
            self.learn_id();
        }
        self.send_join(5);
        let answer = self.receive_join(5);
        assert_eq!(answer.error_code, 0);
        answer
    }

    pub fn sync_request(&self, version: i16, assignments: &[(&str, &str)]) -> SyncGroupRequest {
        let assignments = assignments.iter().map(|(member, assignment)| {
            SyncGroupRequestAssignment::default()
                .with_member_id(text(member))
                .with_assignment(assignment.to_string().into_bytes().into())
        });
        let request = SyncGroupRequest::default()
            .with_group_id(group_id(&self.group))
            .with_generation_id(self.generation)
            .with_member_id(text(&self.id))
            .with_assignments(assignments.collect());
        let request = match version >= 3 {
            true => request.with_group_instance_id(self.instance.as_deref().map(text)),
            false => request,
        };
        match version >= 5 {
            true => request
                .with_protocol_type(Some(text("consumer")))
                .with_protocol_name(Some(text(&self.protocols[0]))),
            false => request,
        }
    }

    pub fn sync(&mut self, assignments: &[(&str, &str)]) -> SyncGroupResponse {
        let request = self.sync_request(3, assignments);
        self.client.call(3, &request)
    }

    /// Joins alone and gives itself everything.
    pub fn join_alone(&mut self) {
        let joined = self.join();
        assert_eq!(joined.leader, joined.member_id);
        let id = self.id.clone();
        assert_eq!(self.sync(&[(&id, "all")]).error_code, 0);
    }

    pub fn heartbeat(&mut self) -> i16 {
        let request = HeartbeatRequest::default()
            .with_group_id(group_id(&self.group))
            .with_generation_id(self.generation)
            .with_member_id(text(&self.id))
            .with_group_instance_id(self.instance.as_deref().map(text));
        self.client.call(4, &request).error_code
    }

    pub fn leave(&mut self) -> i16 {
        let member = MemberIdentity::default()
            .with_member_id(text(&self.id))
            .with_group_instance_id(self.instance.as_deref().map(text));
        let request = LeaveGroupRequest::default()
            .with_group_id(group_id(&self.group))
            .with_members(vec![member]);
        let answer = self.client.call(5, &request);
        assert_eq!(answer.error_code, 0);
        answer.members[0].error_code
    }

    /// Commits one offset as this member; the partition's code.
    pub fn commit(&mut self, topic: &str, partition: i32, offset: i64) -> i16 {
        let request = commit_request(&self.group, topic, partition, offset)
            .with_member_id(text(&self.id))
            .with_generation_id_or_member_epoch(self.generation)
            .with_group_instance_id(self.instance.as_deref().map(text));
        self.client.call(8, &request).topics[0].partitions[0].error_code
    }
}

/// A subscription of version 0 of the consumer protocol.
pub fn subscription(topics: &[String]) -> Vec<u8> {
    let mut bytes = vec![0, 0];
    bytes.extend((topics.len() as i32).to_be_bytes());
    for topic in topics {
        bytes.extend((topic.len() as i16).to_be_bytes());
        bytes.extend(topic.as_bytes());
    }
    bytes.extend((-1_i32).to_be_bytes());
    bytes
}

/// A commit from outside of the group's protocol.
pub fn commit_request(group: &str, topic: &str, partition: i32, offset: i64) -> OffsetCommitRequest {
    let partition = OffsetCommitRequestPartition::default()
        .with_partition_index(partition)
        .with_committed_offset(offset)
        .with_committed_metadata(Some(text("")));
    let topic = OffsetCommitRequestTopic::default()
        .with_name(name(topic))
        .with_partitions(vec![partition]);
    OffsetCommitRequest::default()
        .with_group_id(group_id(group))
        .with_topics(vec![topic])
}

/// Commits from outside of the group's protocol; the partition's code.
pub fn commit(client: &mut Client, group: &str, topic: &str, partition: i32, offset: i64) -> i16 {
    let request = commit_request(group, topic, partition, offset);
    client.call(8, &request).topics[0].partitions[0].error_code
}

pub fn fetch_request(group: &str, topic: &str, partitions: &[i32]) -> OffsetFetchRequest {
    let topic = OffsetFetchRequestTopics::default()
        .with_name(name(topic))
        .with_partition_indexes(partitions.to_vec());
    let group = OffsetFetchRequestGroup::default()
        .with_group_id(group_id(group))
        .with_topics(Some(vec![topic]));
    OffsetFetchRequest::default().with_groups(vec![group])
}

/// The offset committed for a partition, -1 for none; asks again while the coordinator loads.
pub fn committed(client: &mut Client, group: &str, topic: &str, partition: i32) -> i64 {
    loop {
        let answer = client.call(8, &fetch_request(group, topic, &[partition]));
        match answer.groups[0].error_code {
            0 => {
                let partition = &answer.groups[0].topics[0].partitions[0];
                assert_eq!(partition.error_code, 0);
                return partition.committed_offset;
            }
            LOAD_IN_PROGRESS => std::thread::yield_now(),
            code => panic!("OffsetFetch of {group}: {code}"),
        }
    }
}

pub fn describe(client: &mut Client, group: &str) -> DescribedGroup {
    let request = DescribeGroupsRequest::default().with_groups(vec![group_id(group)]);
    client.call(6, &request).groups.remove(0)
}
