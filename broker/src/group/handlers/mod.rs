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
use strandline_runtime::local::OneshotReceiver;
use strandline_wire::ErrorCode;
use strandline_wire::protocol::StrBytes;

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
