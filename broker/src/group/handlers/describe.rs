//! DescribeGroups (15).

use bytes::Bytes;
use strandline_core::group::classic::GroupDescription;
use strandline_runtime::Runtime;
use strandline_storage::disk::Disk;
use strandline_wire::ErrorCode;
use strandline_wire::messages::GroupId;
use strandline_wire::messages::describe_groups_request::DescribeGroupsRequest;
use strandline_wire::messages::describe_groups_response::{
    DescribeGroupsResponse, DescribedGroup, DescribedGroupMember,
};

use super::{ANSWER_BYTES_MAX, answer_too_large, text};
use crate::connection::{Answer, Close};
use crate::group::machine::Machine;
use crate::handlers::Request;

/// From this version on members have static names.
const VERSION_WITH_INSTANCE: i16 = 4;
/// From this version on a group that is not there is an error; before, it is Dead.
const VERSION_WITH_UNKNOWN_GROUPS: i16 = 6;
/// Read, delete, describe, and both of configurations: bits by Kafka's operation codes.
pub(super) const OPERATIONS: i32 = 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11;
/// A member of an answer beside its bytes, as it stands in memory.
const MEMBER_BYTES: usize = size_of::<DescribedGroupMember>() + 256;
/// Not asked for.
pub(super) const OPERATIONS_OMITTED: i32 = i32::MIN;

pub(crate) async fn serve<R: Runtime, D: Disk>(
    request: &Request<R, D>,
    body: Bytes,
) -> Result<Answer<D>, Close> {
    let asked: DescribeGroupsRequest = request.decode(body)?;
    let operations = match asked.include_authorized_operations {
        true => OPERATIONS,
        false => OPERATIONS_OMITTED,
    };
    let (mut groups, mut room) = (Vec::new(), ANSWER_BYTES_MAX);
    for group in asked.groups {
        let mut described = describe(request, &group);
        let members = described.members.iter();
        let bytes: usize = members
            .map(|member| MEMBER_BYTES + member.member_metadata.len() + member.member_assignment.len())
            .sum();
        match room.checked_sub(bytes) {
            Some(left) => room = left,
            None => {
                let code = answer_too_large(request, &group);
                described = DescribedGroup::default().with_error_code(code.code());
            }
        }
        let operations = match described.error_code {
            0 => operations,
            _ => OPERATIONS_OMITTED,
        };
        groups.push(
            described
                .with_group_id(group)
                .with_authorized_operations(operations),
        );
        request.shard.runtime.yield_if_needed().await;
    }
    let response = DescribeGroupsResponse::default().with_groups(groups);
    let codes = response
        .groups
        .iter()
        .map(|group| ErrorCode::from_code(group.error_code));
    request.encode(&response, codes)
}

fn describe<R: Runtime, D: Disk>(request: &Request<R, D>, group: &GroupId) -> DescribedGroup {
    let coordinator = match request.shard.coordinator_of(group) {
        Ok(coordinator) => coordinator,
        Err(code) => return DescribedGroup::default().with_error_code(code.code()),
    };
    let groups = coordinator.groups.borrow();
    let known = groups.get(group.as_str()).map(|group| &group.machine);
    let reason = match known {
        Some(Machine::Classic(machine)) => return found(request.version, machine.describe()),
        Some(Machine::Consumer(_)) => format!("Group {} is not a classic group.", group.as_str()),
        None => format!("Group {} not found.", group.as_str()),
    };
    let dead = DescribedGroup::default().with_group_state(text("Dead"));
    match request.version < VERSION_WITH_UNKNOWN_GROUPS {
        true => dead,
        false => dead
            .with_error_code(ErrorCode::GroupIdNotFound.code())
            .with_error_message(Some(text(&reason))),
    }
}

fn found(version: i16, described: GroupDescription) -> DescribedGroup {
    let members = described.members.iter().map(|member| {
        let answered = DescribedGroupMember::default()
            .with_member_id(text(&member.member_id))
            .with_client_id(text(&member.client_id))
            .with_client_host(text(&member.client_host))
            .with_member_metadata(member.metadata.clone())
            .with_member_assignment(member.assignment.clone());
        match version >= VERSION_WITH_INSTANCE {
            true => answered.with_group_instance_id(member.instance_id.as_deref().map(text)),
            false => answered,
        }
    });
    DescribedGroup::default()
        .with_group_state(text(described.state.name()))
        .with_protocol_type(text(&described.protocol_type))
        .with_protocol_data(text(&described.protocol_name))
        .with_members(members.collect())
}
