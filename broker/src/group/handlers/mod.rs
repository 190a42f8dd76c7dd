//! The handlers of the group APIs, one file each.

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

use strandline_core::group::classic::{Answer, Identity};
use strandline_runtime::Runtime;
use strandline_runtime::local::OneshotReceiver;
use strandline_storage::disk::Disk;
use strandline_wire::ErrorCode;
use strandline_wire::protocol::StrBytes;

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
