//! AddRaftVoter (80) and RemoveRaftVoter (81), KIP-853: who votes on the cluster's metadata.

use strandline_core::metadata::NodeId;
use strandline_wire::ErrorCode;
use strandline_wire::protocol::StrBytes;
use uuid::Uuid;

use super::context::AdminContext;
use super::text::string;
use super::topology::cluster_id;
use crate::control::raft::membership::Change;
use crate::control::raft::types::VoterId;

pub mod add {
    //! AddRaftVoter: a node that learns from the quorum shall vote.

    use strandline_wire::messages::{AddRaftVoterRequest, AddRaftVoterResponse};

    use super::{decide, voter};
    use crate::admin::AdminContext;
    use crate::control::raft::membership::Change;

    /// Waits until it votes.
    pub async fn handle(
        context: &AdminContext<'_>,
        request: AddRaftVoterRequest,
        _version: i16,
    ) -> AddRaftVoterResponse {
        let voter = voter(request.voter_id, request.voter_directory_id);
        let change = Change::AddVoter { voter };
        let (code, text) = decide(context, request.cluster_id.as_deref(), change).await;
        AddRaftVoterResponse::default()
            .with_error_code(code)
            .with_error_message(text)
    }
}

pub mod remove {
    //! RemoveRaftVoter: a voter, or a node that learns, is forgotten.

    use strandline_wire::messages::{RemoveRaftVoterRequest, RemoveRaftVoterResponse};

    use super::{decide, voter};
    use crate::admin::AdminContext;
    use crate::control::raft::membership::Change;

    /// Waits until it is.
    pub async fn handle(
        context: &AdminContext<'_>,
        request: RemoveRaftVoterRequest,
        _version: i16,
    ) -> RemoveRaftVoterResponse {
        let voter = voter(request.voter_id, request.voter_directory_id);
        let change = Change::Remove { voter };
        let (code, text) = decide(context, request.cluster_id.as_deref(), change).await;
        RemoveRaftVoterResponse::default()
            .with_error_code(code)
            .with_error_message(text)
    }
}

fn voter(node: i32, directory: Uuid) -> VoterId {
    VoterId {
        node: NodeId(node),
        directory,
    }
}

/// Has the quorum changed, if it is that of the cluster meant: the code and the text of the answer.
async fn decide(context: &AdminContext<'_>, meant: Option<&str>, change: Change) -> (i16, Option<StrBytes>) {
    let own = cluster_id(&context.image());
    if let Some(meant) = meant
        && *meant != *own
    {
        let text = format!("this is cluster {}, not {meant}", &*own);
        return (ErrorCode::InconsistentClusterId.code(), Some(string(&text)));
    }
    match context.control.change_quorum(change).await {
        Ok(()) => (ErrorCode::None.code(), None),
        Err(error) => (error.code().code(), Some(string(&error.to_string()))),
    }
}
