//! Heartbeat (12).

use bytes::Bytes;
use strandline_runtime::Runtime;
use strandline_storage::disk::Disk;
use strandline_wire::ErrorCode;
use strandline_wire::messages::heartbeat_request::HeartbeatRequest;
use strandline_wire::messages::heartbeat_response::HeartbeatResponse;

use super::identity;
use crate::connection::{Answer, Close};
use crate::handlers::Request;

pub(crate) fn serve<R: Runtime, D: Disk>(request: &Request<R, D>, body: Bytes) -> Result<Answer<D>, Close> {
    let asked: HeartbeatRequest = request.decode(body)?;
    let code = heartbeat(request, &asked);
    let response = HeartbeatResponse::default().with_error_code(code.code());
    request.encode(&response, std::iter::once(code))
}

fn heartbeat<R: Runtime, D: Disk>(request: &Request<R, D>, asked: &HeartbeatRequest) -> ErrorCode {
    let shard = &request.shard;
    if asked.group_id.is_empty() {
        return ErrorCode::InvalidGroupId;
    }
    let identity = identity(
        &asked.member_id,
        asked.group_instance_id.as_ref(),
        asked.generation_id,
    );
    match shard.coordinator_of(&asked.group_id) {
        // Nothing is known of the group yet; its members need not look elsewhere.
        Err(ErrorCode::CoordinatorLoadInProgress) => ErrorCode::None,
        Err(code) => code,
        Ok(coordinator) => {
            let stepped = coordinator.step(shard, &asked.group_id, |machine, around| {
                machine.classic_heartbeat(around.now_ms, &identity)
            });
            match stepped {
                // It changes nothing that is written, and may be told at once.
                Some(Ok(stepped)) => stepped.answer,
                Some(Err(code)) => code,
                None => coordinator
                    .call(shard, &asked.group_id, |machine, now_ms, _| {
                        machine.heartbeat(&identity, now_ms)
                    })
                    .unwrap_or(ErrorCode::UnknownMemberId),
            }
        }
    }
}
