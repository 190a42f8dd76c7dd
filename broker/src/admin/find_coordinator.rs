//! FindCoordinator (10): refuses, clearly, until groups and transactions are served.
//!
//! The codes are ones that no client retries: a retriable one would have it ask for ever.

use strandline_wire::messages::find_coordinator_request::FindCoordinatorRequest;
use strandline_wire::messages::find_coordinator_response::{Coordinator, FindCoordinatorResponse};
use strandline_wire::{ErrorCode, messages};

use super::context::AdminContext;
use super::text::{Refusal, string};

const KEY_GROUP: i8 = 0;
const KEY_TRANSACTION: i8 = 1;
/// From this version on a request has several keys.
const VERSION_WITH_BATCHES: i16 = 4;

/// Refuses every key.
pub async fn handle(
    _context: &AdminContext<'_>,
    request: FindCoordinatorRequest,
    version: i16,
) -> FindCoordinatorResponse {
    let refusal = refusal(request.key_type);
    let nobody = messages::BrokerId(-1);
    if version < VERSION_WITH_BATCHES {
        return FindCoordinatorResponse::default()
            .with_error_code(refusal.code.code())
            .with_error_message(refusal.message())
            .with_node_id(nobody)
            .with_host(string(""))
            .with_port(-1);
    }
    let coordinator = |key| {
        Coordinator::default()
            .with_key(key)
            .with_node_id(nobody)
            .with_host(string(""))
            .with_port(-1)
            .with_error_code(refusal.code.code())
            .with_error_message(refusal.message())
    };
    FindCoordinatorResponse::default()
        .with_coordinators(request.coordinator_keys.into_iter().map(coordinator).collect())
}

fn refusal(key_type: i8) -> Refusal {
    match key_type {
        KEY_GROUP => Refusal::new(
            ErrorCode::GroupAuthorizationFailed,
            "consumer groups are not served by this version: assign partitions yourself",
        ),
        KEY_TRANSACTION => Refusal::new(
            ErrorCode::TransactionalIdAuthorizationFailed,
            "transactions are not served by this version: leave transactional.id out",
        ),
        other => Refusal::new(
            ErrorCode::InvalidRequest,
            format!("coordinator type {other} is not known"),
        ),
    }
}
