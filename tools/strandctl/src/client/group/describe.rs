//! Groups in detail: state and members.

use strandline_wire::ErrorCode;
use strandline_wire::messages::DescribeGroupsRequest;
use strandline_wire::messages::describe_groups_response::{DescribedGroup, DescribedGroupMember};

use super::coordinator::is_repeatable;
use super::{CLASSIC, Partitions, assignment, group_id, left_out, subject};
use crate::client::{Client, ClientError, Connection, NamedResults, check};

/// The protocol type of consumers: theirs are the only assignments that can be read.
const CONSUMERS: &str = "consumer";
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
    /// Its members.
    pub members: Vec<Member>,
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
}

impl Client {
    /// Describes groups. One that is not there is GROUP_ID_NOT_FOUND, whatever the broker's version.
    pub fn describe_groups(&mut self, names: &[String]) -> NamedResults<GroupDescription> {
        self.ask_coordinators(names, is_repeatable, describe_classic)
    }
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
    };
    Ok(GroupDescription {
        name: name.to_owned(),
        kind: CLASSIC,
        state: group.group_state.to_string(),
        protocol_type: group.protocol_type.to_string(),
        assignor: group.protocol_data.to_string(),
        members: group.members.iter().map(member).collect(),
    })
}

/// Kafka's brokers tell an address as Java prints it, `/127.0.0.1`.
fn host(told: &str) -> String {
    told.strip_prefix('/').unwrap_or(told).to_owned()
}
