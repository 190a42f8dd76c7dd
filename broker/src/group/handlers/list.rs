//! ListGroups (16): the groups that this shard coordinates.

use std::rc::Rc;

use bytes::Bytes;
use strandline_runtime::Runtime;
use strandline_runtime::local::Turns;
use strandline_storage::disk::Disk;
use strandline_wire::ErrorCode;
use strandline_wire::messages::GroupId;
use strandline_wire::messages::list_groups_request::ListGroupsRequest;
use strandline_wire::messages::list_groups_response::{ListGroupsResponse, ListedGroup};
use strandline_wire::protocol::StrBytes;

use super::text;
use crate::connection::{Answer, Close};
use crate::handlers::Request;

const VERSION_WITH_STATE: i16 = 4;
const VERSION_WITH_TYPE: i16 = 5;

pub(crate) async fn serve<R: Runtime, D: Disk>(
    request: &Request<R, D>,
    body: Bytes,
) -> Result<Answer<D>, Close> {
    let asked: ListGroupsRequest = request.decode(body)?;
    let response = match list(request, &asked).await {
        Ok(groups) => ListGroupsResponse::default().with_groups(groups),
        Err(code) => ListGroupsResponse::default().with_error_code(code.code()),
    };
    let code = ErrorCode::from_code(response.error_code);
    request.encode(&response, std::iter::once(code))
}

async fn list<R: Runtime, D: Disk>(
    request: &Request<R, D>,
    asked: &ListGroupsRequest,
) -> Result<Vec<ListedGroup>, ErrorCode> {
    let (mut listed, mut turns) = (Vec::new(), Turns::default());
    for coordinator in request.shard.groups.all() {
        match coordinator.check() {
            Ok(()) => {}
            // Another shard lists them.
            Err(ErrorCode::NotCoordinator) => continue,
            Err(code) => return Err(code),
        }
        let names: Vec<Rc<str>> = coordinator.groups.borrow().keys().cloned().collect();
        for name in names {
            turns.item().await;
            let groups = coordinator.groups.borrow();
            // Deleted meanwhile, or another shard's now, which lists it.
            let Some(group) = groups.get(&name) else { continue };
            let (state, kind) = (group.machine.state_name(), group.machine.type_name());
            if !matches(&asked.states_filter, state) || !matches(&asked.types_filter, kind) {
                continue;
            }
            let mut answered = ListedGroup::default()
                .with_group_id(GroupId(text(&name)))
                .with_protocol_type(text(group.machine.protocol_type()));
            if request.version >= VERSION_WITH_STATE {
                answered.group_state = text(state);
            }
            if request.version >= VERSION_WITH_TYPE {
                answered.group_type = text(kind);
            }
            listed.push(answered);
        }
    }
    Ok(listed)
}

/// Whether a filter lets a word through; an empty one lets all, and case does not count.
fn matches(filter: &[StrBytes], word: &str) -> bool {
    filter.is_empty() || filter.iter().any(|item| item.eq_ignore_ascii_case(word))
}
