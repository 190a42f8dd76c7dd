//! UnregisterBroker (64): a node is lost for good, its disks with it; another may take its id.

use strandline_core::metadata::{Answer, BrokerId, Command};
use strandline_wire::ErrorCode;
use strandline_wire::messages::{UnregisterBrokerRequest, UnregisterBrokerResponse};

use super::context::AdminContext;
use super::text::string;

/// Forgets all shards of the broker's node.
pub async fn handle(
    context: &AdminContext<'_>,
    request: UnregisterBrokerRequest,
    _version: i16,
) -> UnregisterBrokerResponse {
    let refuse = |code: ErrorCode, text: String| {
        UnregisterBrokerResponse::default()
            .with_error_code(code.code())
            .with_error_message(Some(string(&text)))
    };
    let broker = BrokerId(request.broker_id.0);
    if broker.0 < 0 {
        return refuse(
            ErrorCode::BrokerIdNotRegistered,
            format!("{broker} is no broker's id"),
        );
    }
    let command = Command::UnregisterNode { node: broker.node() };
    match context.control.propose(command, std::time::Duration::ZERO).await {
        Ok(Answer::Whole(Ok(()))) => UnregisterBrokerResponse::default(),
        Ok(Answer::Whole(Err(error))) => refuse(error.code(), error.to_string()),
        Ok(other) => unreachable!("apply answers an unregistration as a whole, not with {other:?}"),
        Err(error) => refuse(error.code(), error.to_string()),
    }
}
