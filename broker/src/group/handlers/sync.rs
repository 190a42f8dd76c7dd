//! SyncGroup (14). The request is parked until the leader's assignment is durable.

use bytes::Bytes;
use strandline_core::group::classic::{Answer as Answered, SyncAnswer, SyncRequest};
use strandline_runtime::Runtime;
use strandline_storage::disk::Disk;
use strandline_wire::ErrorCode;
use strandline_wire::messages::sync_group_request::SyncGroupRequest;
use strandline_wire::messages::sync_group_response::SyncGroupResponse;

use super::{answered, identity, optional, rc, stepped, text};
use crate::connection::{Answer, Close};
use crate::group::drive::unexpected;
use crate::handlers::Request;

/// The first version that names the kind of group and the protocol.
const VERSION_WITH_PROTOCOL: i16 = 5;

pub(crate) async fn serve<R: Runtime, D: Disk>(
    request: &Request<R, D>,
    body: Bytes,
) -> Result<Answer<D>, Close> {
    let bytes = body.len();
    let asked: SyncGroupRequest = request.decode(body)?;
    let answer = match sync(request, asked, bytes).await {
        Ok(answer) => answer,
        Err(code) => SyncAnswer::error(code),
    };
    let response = SyncGroupResponse::default()
        .with_error_code(answer.error.code())
        .with_assignment(answer.assignment);
    let response = match request.version >= VERSION_WITH_PROTOCOL {
        true => response
            .with_protocol_type(answer.protocol_type.as_deref().map(text))
            .with_protocol_name(answer.protocol_name.as_deref().map(text)),
        false => response,
    };
    request.encode(&response, std::iter::once(answer.error))
}

async fn sync<R: Runtime, D: Disk>(
    request: &Request<R, D>,
    asked: SyncGroupRequest,
    bytes: usize,
) -> Result<SyncAnswer, ErrorCode> {
    let shard = &request.shard;
    let group = rc(&asked.group_id);
    if group.is_empty() {
        return Err(ErrorCode::InvalidGroupId);
    }
    if !asked.assignments.is_empty() {
        // The leader's is written.
        shard.coordinator_of(&group)?.admit(shard, bytes).await?;
    }
    let coordinator = shard.coordinator_of(&group)?;
    let assignments = asked
        .assignments
        .into_iter()
        .map(|assigned| (rc(&assigned.member_id), assigned.assignment));
    let sync = SyncRequest {
        version: request.version,
        identity: identity(
            &asked.member_id,
            asked.group_instance_id.as_ref(),
            asked.generation_id,
        ),
        protocol_type: optional(asked.protocol_type.as_ref()),
        protocol_name: optional(asked.protocol_name.as_ref()),
        assignments: assignments.collect(),
    };
    let synced = coordinator.step(shard, &group, |machine, around| {
        machine.classic_sync(around.now_ms, &sync, around.image)
    });
    if let Some(synced) = synced {
        return stepped(request, &coordinator, synced).await;
    }
    let answer = coordinator.ask(shard, &group, |machine, ticket, now_ms, effects| {
        machine.sync(sync, ticket, now_ms, effects);
    });
    match answered(answer.ok_or(ErrorCode::UnknownMemberId)?).await? {
        Answered::Sync(answer) => Ok(answer),
        _ => Err(unexpected()),
    }
}
