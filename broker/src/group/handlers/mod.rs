//! The handlers of the group APIs, one file each.

pub(crate) mod consumer_describe;
pub(crate) mod consumer_heartbeat;
pub(crate) mod delete;
pub(crate) mod describe;
pub(crate) mod heartbeat;
pub(crate) mod join;
pub(crate) mod leave;
pub(crate) mod list;
pub(crate) mod offset_commit;
pub(crate) mod offset_delete;
pub(crate) mod offset_fetch;
pub(crate) mod sync;

use std::rc::Rc;

use strandline_core::group::classic::{Answer, Growth, Identity};
use strandline_runtime::Runtime;
use strandline_runtime::local::OneshotReceiver;
use strandline_storage::disk::Disk;
use strandline_wire::ErrorCode;
use strandline_wire::protocol::StrBytes;

use crate::group::Coordinator;
use crate::group::consumer::Stepped;
use crate::group::write::batch_bytes_max;
use crate::handlers::Request;

/// What an answer takes at most while it is made: a quarter of a million partitions of an OffsetFetch.
const ANSWER_BYTES_MAX: usize = 32 << 20;

/// The code for a group that an answer has no room for, with a log line.
fn answer_too_large<R: Runtime, D: Disk>(request: &Request<R, D>, group: &str) -> ErrorCode {
    let code = ErrorCode::UnknownServerError;
    let reason = "the answer would be larger than an answer may be: ask for less at a time";
    request.refused(code, &group, -1, reason);
    code
}

/// Whether there is room for a member whose part of a record takes `record_bytes`, and that would let its group grow by `growth`.
/// One that says no more than before always has its place.
fn take_in<R: Runtime, D: Disk>(
    request: &Request<R, D>,
    group: &str,
    record_bytes: usize,
    growth: Growth,
) -> Result<(), ErrorCode> {
    let shard = &request.shard;
    let (code, reason) = if record_bytes > batch_bytes_max(shard) {
        let reason = "what the member says of itself is larger than a record of its group may be";
        (ErrorCode::UnknownServerError, reason)
    } else if shard.groups.have_room_for(growth.bytes) {
        return Ok(());
    } else if growth.is_new {
        let reason = "groups hold all the memory that they may: no new member is taken";
        (ErrorCode::GroupMaxSizeReached, reason)
    } else {
        let reason = "groups hold all the memory that they may: a member says more of itself than before";
        (ErrorCode::CoordinatorNotAvailable, reason)
    };
    request.refused(code, &group, -1, reason);
    Err(code)
}

/// What a step of a group of the consumer protocol answers, once that may be told.
async fn stepped<R: Runtime, D: Disk, A>(
    request: &Request<R, D>,
    coordinator: &Coordinator<D>,
    stepped: Result<Stepped<A>, ErrorCode>,
) -> Result<A, ErrorCode> {
    let Stepped { answer, end } = stepped?;
    coordinator.durable_in_time(&request.shard, end).await?;
    Ok(answer)
}

fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

fn rc(text: &StrBytes) -> Rc<str> {
    Rc::from(text.as_str())
}

fn optional(text: Option<&StrBytes>) -> Option<Rc<str>> {
    text.map(rc)
}

fn identity(member_id: &StrBytes, instance_id: Option<&StrBytes>, generation: i32) -> Identity {
    Identity {
        member_id: rc(member_id),
        instance_id: optional(instance_id),
        generation,
    }
}

/// What a group answers, now or later; NOT_COORDINATOR if its coordinator ends before.
async fn answered(receiver: OneshotReceiver<Answer>) -> Result<Answer, ErrorCode> {
    receiver.await.map_err(|_| ErrorCode::NotCoordinator)
}
