//! openraft's network: each of its calls is one request to a [`Peer`].

use std::future::Future;
use std::rc::Rc;
use std::time::Duration;

use openraft::error::{
    Fatal, NetworkError, RPCError, RaftError, ReplicationClosed, StreamingError, Unreachable,
};
use openraft::network::{Backoff, RPCOption, RaftNetwork, RaftNetworkFactory};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, VoteRequest, VoteResponse,
};
use openraft::{AnyError, Snapshot};
use strandline_runtime::Runtime;

use super::peer::{CallError, Calls, Peer};
use super::types::{TypeConfig, Vote, VoterAddress, VoterId};
use super::wire::{Request, Response};

/// The pause before a controller that does not answer is called again.
const BACKOFF: Duration = Duration::from_millis(200);

type CallFailed = RPCError<VoterId, VoterAddress, RaftError<VoterId>>;

/// Makes connections to voters and learners.
pub struct Network<R>(pub Rc<Calls<R>>);

impl<R: Runtime> RaftNetworkFactory<TypeConfig> for Network<R> {
    type Network = PeerNetwork<R>;

    async fn new_client(&mut self, target: VoterId, address: &VoterAddress) -> PeerNetwork<R> {
        let peer = Peer::new(self.0.clone(), target.node, target.directory, address.clone());
        PeerNetwork(peer)
    }
}

/// The connection to one voter or learner.
pub struct PeerNetwork<R: Runtime>(Peer<R>);

fn unexpected(response: &Response) -> CallFailed {
    let text = match response {
        Response::Broken(text) | Response::Refused(text) => text.clone(),
        other => format!("an answer to another request: {other:?}"),
    };
    network(AnyError::error(text))
}

fn network(error: AnyError) -> CallFailed {
    RPCError::Network(NetworkError::new(&error))
}

fn failed(error: CallError) -> CallFailed {
    let any = AnyError::error(&error);
    match error {
        CallError::Unreachable(_) | CallError::Refused(_) => RPCError::Unreachable(Unreachable::new(&any)),
        CallError::Lost(_) => network(any),
    }
}

impl<R: Runtime> RaftNetwork<TypeConfig> for PeerNetwork<R> {
    async fn append_entries(
        &mut self,
        request: AppendEntriesRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<VoterId>, CallFailed> {
        let request = Request::Append(request);
        match self.0.call(&request, &[], option.hard_ttl()).await {
            Ok(Response::Append(response)) => Ok(response),
            Ok(other) => Err(unexpected(&other)),
            Err(error) => Err(failed(error)),
        }
    }

    async fn vote(
        &mut self,
        request: VoteRequest<VoterId>,
        option: RPCOption,
    ) -> Result<VoteResponse<VoterId>, CallFailed> {
        let request = Request::Vote(request);
        match self.0.call(&request, &[], option.hard_ttl()).await {
            Ok(Response::Vote(response)) => Ok(response),
            Ok(other) => Err(unexpected(&other)),
            Err(error) => Err(failed(error)),
        }
    }

    async fn full_snapshot(
        &mut self,
        vote: Vote,
        snapshot: Snapshot<TypeConfig>,
        cancel: impl Future<Output = ReplicationClosed> + 'static,
        option: RPCOption,
    ) -> Result<SnapshotResponse<VoterId>, StreamingError<TypeConfig, Fatal<VoterId>>> {
        let request = Request::Snapshot {
            vote,
            meta: snapshot.meta,
        };
        let call = std::pin::pin!(self.0.call(&request, &snapshot.snapshot, option.hard_ttl()));
        let answer = match futures_util::future::select(call, std::pin::pin!(cancel)).await {
            futures_util::future::Either::Left((answer, _)) => answer,
            futures_util::future::Either::Right((closed, _)) => return Err(closed.into()),
        };
        match answer {
            Ok(Response::Snapshot { vote }) => Ok(SnapshotResponse::new(vote)),
            Ok(other) => Err(NetworkError::new(&AnyError::error(format!("{other:?}"))).into()),
            Err(CallError::Lost(text)) => Err(NetworkError::new(&AnyError::error(text)).into()),
            Err(error) => Err(Unreachable::new(&AnyError::error(error)).into()),
        }
    }

    fn backoff(&self) -> Backoff {
        Backoff::new(std::iter::repeat(BACKOFF))
    }
}
