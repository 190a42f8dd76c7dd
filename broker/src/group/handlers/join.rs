//! JoinGroup (11). The request is parked until its group has the members it waits for.

use std::rc::Rc;

use bytes::Bytes;
use strandline_core::group::classic::{Answer as Answered, Growth, JoinAnswer, JoinRequest, Protocol};
use strandline_runtime::Runtime;
use strandline_storage::disk::Disk;
use strandline_wire::messages::join_group_request::JoinGroupRequest;
use strandline_wire::messages::join_group_response::{JoinGroupResponse, JoinGroupResponseMember};
use strandline_wire::{ErrorCode, Uuid};

use super::{answered, optional, rc, stepped, take_in, text};
use crate::connection::{Answer, Close};
use crate::group::Coordinator;
use crate::group::drive::unexpected;
use crate::group::machine::Machine;
use crate::handlers::Request;

/// The first version that names the kind of group in the answer; before it, no protocol is an empty one.
const VERSION_WITH_PROTOCOL_TYPE: i16 = 7;
/// The first version in which members have static names.
const VERSION_WITH_INSTANCE: i16 = 5;
const VERSION_WITH_SKIP_ASSIGNMENT: i16 = 9;

pub(crate) async fn serve<R: Runtime, D: Disk>(
    request: &Request<R, D>,
    body: Bytes,
) -> Result<Answer<D>, Close> {
    let asked: JoinGroupRequest = request.decode(body)?;
    let member_id = rc(&asked.member_id);
    let answer = match join(request, asked).await {
        Ok(answer) => answer,
        Err(code) => JoinAnswer::error(member_id, code),
    };
    let code = answer.error;
    request.encode(&response(request.version, &answer), std::iter::once(code))
}

async fn join<R: Runtime, D: Disk>(
    request: &Request<R, D>,
    asked: JoinGroupRequest,
) -> Result<JoinAnswer, ErrorCode> {
    let shard = &request.shard;
    let group = rc(&asked.group_id);
    let join = join_request(request, &asked);
    // The group copies what it keeps: a join that waits must not keep its request as well.
    drop(asked);
    join.validate(&group, &shard.groups.classic)?;
    let coordinator = shard.coordinator_of(&group)?;
    let growth = growth(&coordinator, &group, &join);
    take_in(request, &group, join.profile_bytes(), growth)?;
    let joined = coordinator.step_unless_empty(shard, &group, |machine, around| {
        machine.classic_join(around.now_ms, around.config, &join, around.image)
    });
    if let Some(joined) = joined {
        return stepped(request, &coordinator, joined).await;
    }
    if !coordinator.has_classic(&group) {
        if !join.member_id.is_empty() {
            return Err(ErrorCode::UnknownMemberId);
        }
        coordinator.make_classic(shard, &group)?;
    }
    let answer = coordinator.ask(shard, &group, |machine, ticket, now_ms, effects| {
        machine.join(join, ticket, now_ms, effects);
    });
    match answered(answer.ok_or(ErrorCode::UnknownMemberId)?).await? {
        Answered::Join(answer) => Ok(answer),
        _ => Err(unexpected()),
    }
}

/// By how much the join would let its group grow.
fn growth<D: Disk>(coordinator: &Coordinator<D>, group: &str, join: &JoinRequest) -> Growth {
    let groups = coordinator.groups.borrow();
    match groups.get(group).map(|group| &group.machine) {
        None => Growth::of_new(join),
        Some(Machine::Classic(machine)) => machine.growth(join),
        Some(Machine::Consumer(machine)) => machine.growth_of_join(join),
    }
}

fn join_request<R: Runtime, D: Disk>(request: &Request<R, D>, asked: &JoinGroupRequest) -> JoinRequest {
    let runtime = &request.shard.runtime;
    let random = (u128::from(runtime.random_u64()) << 64) | u128::from(runtime.random_u64());
    let protocols = asked.protocols.iter().map(|protocol| Protocol {
        name: rc(&protocol.name),
        metadata: protocol.metadata.clone(),
    });
    JoinRequest {
        version: request.version,
        member_id: rc(&asked.member_id),
        instance_id: optional(asked.group_instance_id.as_ref()),
        client_id: request.connection.client_id().unwrap_or_else(|| Rc::from("")),
        // As Java writes an address.
        client_host: format!("/{}", request.connection.peer.ip()).into(),
        session_timeout_ms: asked.session_timeout_ms,
        rebalance_timeout_ms: asked.rebalance_timeout_ms,
        protocol_type: rc(&asked.protocol_type),
        protocols: protocols.collect(),
        reason: optional(asked.reason.as_ref()),
        random: Uuid::from_u128(random),
    }
}

fn response(version: i16, answer: &JoinAnswer) -> JoinGroupResponse {
    let members = answer.members.iter().map(|member| {
        let answered = JoinGroupResponseMember::default()
            .with_member_id(text(&member.member_id))
            .with_metadata(member.metadata.clone());
        match version >= VERSION_WITH_INSTANCE {
            true => answered.with_group_instance_id(member.instance_id.as_deref().map(text)),
            false => answered,
        }
    });
    let response = JoinGroupResponse::default()
        .with_error_code(answer.error.code())
        .with_generation_id(answer.generation)
        .with_leader(text(&answer.leader))
        .with_member_id(text(&answer.member_id))
        .with_members(members.collect());
    let protocol = answer.protocol_name.as_deref().map(text);
    let response = match version >= VERSION_WITH_PROTOCOL_TYPE {
        true => response
            .with_protocol_type(answer.protocol_type.as_deref().map(text))
            .with_protocol_name(protocol),
        false => response.with_protocol_name(Some(protocol.unwrap_or_default())),
    };
    match version >= VERSION_WITH_SKIP_ASSIGNMENT {
        true => response.with_skip_assignment(answer.skip_assignment),
        false => response,
    }
}
