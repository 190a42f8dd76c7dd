//! AddRaftVoter (80) and RemoveRaftVoter (81), KIP-853: who votes on the cluster's metadata.

pub mod add {
    //! AddRaftVoter: a node that learns from the quorum shall vote.

    use strandline_core::metadata::NodeId;
    use strandline_wire::messages::{AddRaftVoterRequest, AddRaftVoterResponse};

    use super::super::context::AdminContext;
    use super::super::text::string;
    use super::{check_cluster, outcome};
    use crate::control::raft::membership::Change;
    use crate::control::raft::types::VoterId;

    /// Waits until it votes.
    pub async fn handle(
        context: &AdminContext<'_>,
        request: AddRaftVoterRequest,
        _version: i16,
    ) -> AddRaftVoterResponse {
        let voter = VoterId {
            node: NodeId(request.voter_id),
            directory: request.voter_directory_id,
        };
        let decided = match check_cluster(context, request.cluster_id.as_deref()) {
            Ok(()) => outcome(context.control.change_quorum(Change::AddVoter { voter }).await),
            Err(refused) => refused,
        };
        let (code, text) = decided;
        AddRaftVoterResponse::default()
            .with_error_code(code.code())
            .with_error_message(text.map(|text| string(&text)))
    }
}

pub mod remove {
    //! RemoveRaftVoter: a voter, or a node that learns, is forgotten.

    use strandline_core::metadata::NodeId;
    use strandline_wire::messages::{RemoveRaftVoterRequest, RemoveRaftVoterResponse};

    use super::super::context::AdminContext;
    use super::super::text::string;
    use super::{check_cluster, outcome};
    use crate::control::raft::membership::Change;
    use crate::control::raft::types::VoterId;

    /// Waits until it is.
    pub async fn handle(
        context: &AdminContext<'_>,
        request: RemoveRaftVoterRequest,
        _version: i16,
    ) -> RemoveRaftVoterResponse {
        let voter = VoterId {
            node: NodeId(request.voter_id),
            directory: request.voter_directory_id,
        };
        let decided = match check_cluster(context, request.cluster_id.as_deref()) {
            Ok(()) => outcome(context.control.change_quorum(Change::Remove { voter }).await),
            Err(refused) => refused,
        };
        let (code, text) = decided;
        RemoveRaftVoterResponse::default()
            .with_error_code(code.code())
            .with_error_message(text.map(|text| string(&text)))
    }
}

use strandline_wire::ErrorCode;

use super::context::AdminContext;
use super::topology::cluster_id;
use crate::control::client::ControlError;

type Outcome = (ErrorCode, Option<String>);

fn check_cluster(context: &AdminContext<'_>, asked: Option<&str>) -> Result<(), Outcome> {
    let own = cluster_id(&context.image());
    match asked {
        Some(asked) if *asked != *own => Err((
            ErrorCode::InconsistentClusterId,
            Some(format!("this is cluster {}, not {asked}", &*own)),
        )),
        _ => Ok(()),
    }
}

fn outcome(decided: Result<(), ControlError>) -> Outcome {
    match decided {
        Ok(()) => (ErrorCode::None, None),
        Err(error) => (error.code(), Some(error.to_string())),
    }
}
