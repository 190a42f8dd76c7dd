//! LeaveGroup (13).

use bytes::Bytes;
use strandline_core::group::classic::{Answer as Answered, LeaveAnswer, LeavingMember, LeftMember};
use strandline_runtime::Runtime;
use strandline_storage::disk::Disk;
use strandline_wire::ErrorCode;
use strandline_wire::messages::leave_group_request::LeaveGroupRequest;
use strandline_wire::messages::leave_group_response::{LeaveGroupResponse, MemberResponse};

use super::{answered, optional, rc, stepped, text};
use crate::connection::{Answer, Close};
use crate::group::drive::unexpected;
use crate::handlers::Request;

/// From this version on a request names several members.
const VERSION_WITH_MEMBERS: i16 = 3;

pub(crate) async fn serve<R: Runtime, D: Disk>(
    request: &Request<R, D>,
    body: Bytes,
) -> Result<Answer<D>, Close> {
    let asked: LeaveGroupRequest = request.decode(body)?;
    let answer = match leave(request, &asked).await {
        Ok(answer) => answer,
        Err(error) => LeaveAnswer {
            error,
            members: Vec::new(),
        },
    };
    let response = LeaveGroupResponse::default();
    if request.version < VERSION_WITH_MEMBERS {
        let of_member = answer.members.first().map(|member| member.error);
        let code = match answer.error {
            ErrorCode::None => of_member.unwrap_or_default(),
            error => error,
        };
        return request.encode(&response.with_error_code(code.code()), std::iter::once(code));
    }
    let members = answer.members.iter().map(|member| {
        MemberResponse::default()
            .with_member_id(text(&member.member_id))
            .with_group_instance_id(member.instance_id.as_deref().map(text))
            .with_error_code(member.error.code())
    });
    let response = response
        .with_error_code(answer.error.code())
        .with_members(members.collect());
    let codes = answer.members.iter().map(|member| member.error);
    request.encode(&response, codes.chain(std::iter::once(answer.error)))
}

async fn leave<R: Runtime, D: Disk>(
    request: &Request<R, D>,
    asked: &LeaveGroupRequest,
) -> Result<LeaveAnswer, ErrorCode> {
    let shard = &request.shard;
    if asked.group_id.is_empty() {
        return Err(ErrorCode::InvalidGroupId);
    }
    let coordinator = shard.coordinator_of(&asked.group_id)?;
    let members = leaving(request.version, asked);
    let left = coordinator.step(shard, &asked.group_id, |machine, around| {
        machine.classic_leave(&members, around.image)
    });
    if let Some(left) = left {
        return stepped(request, &coordinator, left).await;
    }
    let receiver = coordinator.ask(shard, &asked.group_id, |machine, ticket, now_ms, effects| {
        machine.leave(members.clone(), ticket, now_ms, effects);
    });
    let Some(receiver) = receiver else {
        let unknown = members.into_iter().map(|member| LeftMember {
            member_id: member.member_id,
            instance_id: member.instance_id,
            error: ErrorCode::UnknownMemberId,
        });
        return Ok(LeaveAnswer {
            error: ErrorCode::None,
            members: unknown.collect(),
        });
    };
    match answered(receiver).await? {
        Answered::Leave(answer) => Ok(answer),
        _ => Err(unexpected()),
    }
}

fn leaving(version: i16, asked: &LeaveGroupRequest) -> Vec<LeavingMember> {
    if version < VERSION_WITH_MEMBERS {
        return vec![LeavingMember {
            member_id: rc(&asked.member_id),
            instance_id: None,
            reason: None,
        }];
    }
    let members = asked.members.iter().map(|member| LeavingMember {
        member_id: rc(&member.member_id),
        instance_id: optional(member.group_instance_id.as_ref()),
        reason: optional(member.reason.as_ref()),
    });
    members.collect()
}
