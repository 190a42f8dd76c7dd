//! Groups in detail: state and members.

use strandline_wire::ErrorCode;
use strandline_wire::messages::consumer_group_describe_response::{
    Assignment, DescribedGroup as DescribedConsumerGroup, Member as DescribedConsumer,
};
use strandline_wire::messages::describe_groups_response::{DescribedGroup, DescribedGroupMember};
use strandline_wire::messages::{ConsumerGroupDescribeRequest, DescribeGroupsRequest};
use strandline_wire::protocol::StrBytes;

use super::coordinator::is_repeatable;
use super::{CLASSIC, CONSUMER, Partitions, assignment, group_id, left_out, subject};
use crate::client::{Client, ClientError, Connection, NamedResults, check};

/// The protocol type of consumers: theirs are the only assignments that can be read.
const CONSUMERS: &str = "consumer";
/// The first version of ConsumerGroupDescribe that tells a member's protocol (KIP-1099).
const MEMBER_TYPE_VERSION: i16 = 1;
/// The state of a group that is not there.
const DEAD: &str = "Dead";

/// A group.
#[derive(Debug)]
pub struct GroupDescription {
    /// Its name.
    pub name: String,
    /// Its type, as ListGroups names it.
    pub kind: &'static str,
    /// Its state, in Kafka's words.
    pub state: String,
    /// `consumer` for consumers.
    pub protocol_type: String,
    /// The assignor; empty while there is none.
    pub assignor: String,
    /// What only groups of the consumer protocol have.
    pub epochs: Option<Epochs>,
    /// Its members.
    pub members: Vec<Member>,
}

/// How far a group of the consumer protocol is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Epochs {
    /// Grows with every change of members, subscriptions and topics.
    pub group: i32,
    /// The group's epoch that the newest assignment was made for.
    pub assignment: i32,
}

/// A member of a group.
#[derive(Debug)]
pub struct Member {
    /// Its id.
    pub id: String,
    /// Its own name, of a static member.
    pub instance_id: Option<String>,
    /// What its client calls itself.
    pub client_id: String,
    /// Where it came from.
    pub host: String,
    /// What it owns; none where it cannot be read.
    pub assignment: Option<Partitions>,
    /// What only members of groups of the consumer protocol have.
    pub consumer: Option<ConsumerMember>,
}

/// What a group of the consumer protocol knows of a member.
#[derive(Debug)]
pub struct ConsumerMember {
    /// The group's epoch that it has come to.
    pub epoch: i32,
    /// What it shall own.
    pub target: Partitions,
    /// The topics that it named.
    pub topics: Vec<String>,
    /// The pattern that it gave.
    pub pattern: Option<String>,
    /// Its protocol: `consumer`, or `classic` while a group goes over; none from brokers that do not tell.
    pub protocol: Option<&'static str>,
}

impl Client {
    /// Describes groups of either protocol. One that is not there is GROUP_ID_NOT_FOUND, whatever the broker's version.
    pub fn describe_groups(&mut self, names: &[String]) -> NamedResults<GroupDescription> {
        self.ask_coordinators(names, is_repeatable, |connection, names| {
            let mut described = match connection.serves::<ConsumerGroupDescribeRequest>() {
                true => describe_consumer(connection, names)?,
                false => Vec::new(),
            };
            described.retain(|(_, result)| !is_of_another_protocol(result));
            let is_left = |name: &&String| !described.iter().any(|(found, _)| found == *name);
            let left: Vec<String> = names.iter().filter(is_left).cloned().collect();
            if !left.is_empty() {
                described.extend(describe_classic(connection, &left)?);
            }
            Ok(described)
        })
    }
}

/// Not found, not served, not named as this protocol allows: then the classic one knows.
fn is_of_another_protocol(result: &Result<GroupDescription, ClientError>) -> bool {
    let is_final = |error: &ClientError| {
        error.is_retriable() || error.code() == Some(ErrorCode::GroupAuthorizationFailed)
    };
    result.as_ref().is_err_and(|error| !is_final(error))
}

fn describe_consumer(
    connection: &mut Connection,
    names: &[String],
) -> Result<NamedResults<GroupDescription>, ClientError> {
    let version = connection.version::<ConsumerGroupDescribeRequest>(i16::MAX)?;
    let asked = names.iter().map(|name| group_id(name)).collect();
    let request = ConsumerGroupDescribeRequest::default().with_group_ids(asked);
    let response = connection.call(version, &request)?;
    let answer = |name: &String| {
        let mut groups = response.groups.iter();
        let group = groups.find(|group| group.group_id.as_str() == name);
        consumer(name, version, group.ok_or_else(|| left_out(name))?)
    };
    Ok(names.iter().map(|name| (name.clone(), answer(name))).collect())
}

fn consumer(
    name: &str,
    version: i16,
    group: &DescribedConsumerGroup,
) -> Result<GroupDescription, ClientError> {
    check(subject(name), group.error_code, group.error_message.as_ref())?;
    let text = |text: &Option<StrBytes>| text.as_ref().map(|text| text.to_string());
    let member = |member: &DescribedConsumer| Member {
        id: member.member_id.to_string(),
        instance_id: text(&member.instance_id),
        client_id: member.client_id.to_string(),
        host: host(&member.client_host),
        assignment: Some(partitions(&member.assignment)),
        consumer: Some(ConsumerMember {
            epoch: member.member_epoch,
            target: partitions(&member.target_assignment),
            topics: member
                .subscribed_topic_names
                .iter()
                .map(|topic| topic.to_string())
                .collect(),
            pattern: text(&member.subscribed_topic_regex).filter(|pattern| !pattern.is_empty()),
            protocol: match (version, member.member_type) {
                (MEMBER_TYPE_VERSION.., 0) => Some(CLASSIC),
                (MEMBER_TYPE_VERSION.., 1) => Some(CONSUMER),
                _ => None,
            },
        }),
    };
    Ok(GroupDescription {
        name: name.to_owned(),
        kind: CONSUMER,
        state: group.group_state.to_string(),
        protocol_type: CONSUMERS.to_owned(),
        assignor: group.assignor_name.to_string(),
        epochs: Some(Epochs {
            group: group.group_epoch,
            assignment: group.assignment_epoch,
        }),
        members: group.members.iter().map(member).collect(),
    })
}

fn partitions(assignment: &Assignment) -> Partitions {
    let topics = assignment.topic_partitions.iter().map(|topic| {
        let mut partitions = topic.partitions.clone();
        partitions.sort_unstable();
        (topic.topic_name.to_string(), partitions)
    });
    topics.collect()
}

fn describe_classic(
    connection: &mut Connection,
    names: &[String],
) -> Result<NamedResults<GroupDescription>, ClientError> {
    let version = connection.version::<DescribeGroupsRequest>(i16::MAX)?;
    let request =
        DescribeGroupsRequest::default().with_groups(names.iter().map(|name| group_id(name)).collect());
    let response = connection.call(version, &request)?;
    let answer = |name: &String| {
        let mut groups = response.groups.iter();
        let group = groups.find(|group| group.group_id.as_str() == name);
        classic(name, group.ok_or_else(|| left_out(name))?)
    };
    Ok(names.iter().map(|name| (name.clone(), answer(name))).collect())
}

fn classic(name: &str, group: &DescribedGroup) -> Result<GroupDescription, ClientError> {
    check(subject(name), group.error_code, group.error_message.as_ref())?;
    if group.group_state.as_str() == DEAD {
        // Before version 6 that is no error of its own (KIP-1043).
        return Err(ClientError::broker(
            subject(name),
            ErrorCode::GroupIdNotFound,
            None,
        ));
    }
    let has_consumers = group.protocol_type.as_str() == CONSUMERS;
    let member = |member: &DescribedGroupMember| Member {
        id: member.member_id.to_string(),
        instance_id: member.group_instance_id.as_ref().map(|id| id.to_string()),
        client_id: member.client_id.to_string(),
        host: host(&member.client_host),
        assignment: match has_consumers {
            true => assignment::read(&member.member_assignment).ok(),
            false => None,
        },
        consumer: None,
    };
    Ok(GroupDescription {
        name: name.to_owned(),
        kind: CLASSIC,
        state: group.group_state.to_string(),
        protocol_type: group.protocol_type.to_string(),
        assignor: group.protocol_data.to_string(),
        epochs: None,
        members: group.members.iter().map(member).collect(),
    })
}

/// Kafka's brokers tell an address as Java prints it, `/127.0.0.1`.
fn host(told: &str) -> String {
    told.strip_prefix('/').unwrap_or(told).to_owned()
}
