//! A [`Quorum`] of several nodes: what this node proposes goes to the leader, wherever that is, within a bounded time.

use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use openraft::AsyncRuntime;
use strandline_core::metadata::{BrokerEpoch, BrokerId, ClusterImage, Command, MetadataOffset, NodeId};
use strandline_core::sessions::ShardHeartbeat;
use strandline_runtime::{Runtime, SocketAddr};

use super::member::{COMMIT_TIMEOUT, Member};
use super::membership::{Change, Status};
use super::peer::{CallError, Peer};
use super::runtime::{Seam, within};
use super::types::{Batch, VoterAddress, VoterId};
use super::wire::{Request, Response};
use crate::control::quorum::{Decided, Quorum, QuorumError};

/// The pause before the leader is looked for again.
const LEADER_PAUSE: Duration = Duration::from_millis(50);
/// A port that refuses does so at once.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(1);

/// The quorum, as the control loop sees it.
pub struct RaftQuorum<R: Runtime>(pub Rc<Member<R>>);

impl<R: Runtime> RaftQuorum<R> {
    /// Whether nothing listens where the controller of `node` should; not if that cannot be said.
    async fn refuses(&self, node: NodeId) -> bool {
        let address = {
            let metrics = self.0.raft.metrics();
            let metrics = metrics.borrow();
            let mut nodes = metrics.membership_config.membership().nodes();
            nodes
                .find(|(member, _)| member.node == node)
                .map(|(_, address)| address.clone())
        };
        let Some(address) = address else { return false };
        let calls = &self.0.calls;
        let Ok(host) = (calls.resolve)(&address.host) else {
            return false;
        };
        let connected = pin!(calls.runtime.connect(SocketAddr::new(host, address.port)));
        let late = pin!(calls.runtime.sleep(REFUSAL_TIMEOUT));
        match select(connected, late).await {
            Either::Left((Err(error), _)) => error.kind() == std::io::ErrorKind::ConnectionRefused,
            _ => false,
        }
    }

    /// Has a request answered by the leader, as soon as there is one. It is asked again only where it is certain that
    /// nothing was done.
    async fn at_leader(&self, request: Request) -> Result<Response, QuorumError> {
        let member = self.0.clone();
        within(member.any_runtime(), async move {
            let deadline = member.calls.runtime.now() + COMMIT_TIMEOUT;
            let mut reason = "the quorum has no leader".to_owned();
            while member.calls.runtime.now() < deadline {
                match leader_of(&member)? {
                    Some((leader, _)) if leader == member.calls.voter => {
                        match member.answer(request.clone(), Vec::new()).await {
                            Response::NotLeader => {}
                            response => return Ok(response),
                        }
                    }
                    Some((leader, address)) => {
                        let left = deadline.since(member.calls.runtime.now());
                        // Anew each time: on a connection that was kept, nobody could tell a leader that died before the request
                        // from one that died after it.
                        let calls = member.calls.clone();
                        let mut peer = Peer::new(calls, leader.node, leader.directory, address);
                        match peer.call(&request, &[], left).await {
                            Ok(Response::NotLeader) => {}
                            Ok(response) => return Ok(response),
                            Err(CallError::Lost(text)) => return Err(QuorumError::Unknown(text)),
                            Err(CallError::Unreachable(text) | CallError::Refused(text)) => reason = text,
                        }
                    }
                    None => {}
                }
                Seam::sleep(LEADER_PAUSE).await;
            }
            Err(QuorumError::NoLeader(reason))
        })
        .await
    }
}

fn leader_of<R: Runtime>(member: &Member<R>) -> Result<Option<(VoterId, VoterAddress)>, QuorumError> {
    let metrics = member.raft.metrics();
    let metrics = metrics.borrow();
    if let Err(error) = &metrics.running_state {
        return Err(QuorumError::Broken(error.to_string()));
    }
    let membership = metrics.membership_config.membership();
    let leader = metrics.current_leader;
    Ok(leader.and_then(|leader| Some((leader, membership.get_node(&leader)?.clone()))))
}

fn failed(response: Response) -> QuorumError {
    match response {
        Response::Refused(text) => QuorumError::Refused(text),
        Response::NoChange(why, text) => QuorumError::NoChange(why, text),
        Response::Unknown(text) => QuorumError::Unknown(text),
        Response::Broken(text) => QuorumError::NoLeader(text),
        other => QuorumError::Unknown(format!("an answer to another request: {other:?}")),
    }
}

impl<R: Runtime> Quorum for RaftQuorum<R> {
    fn image(&self) -> Arc<ClusterImage> {
        self.0.images.borrow().clone()
    }

    async fn changed(&self, seen: MetadataOffset) {
        let mut images = self.0.images.clone();
        let newer = images.wait_for(|image| image.offset() > seen).await;
        if newer.is_err() {
            // openraft has ended; the next commit says why.
            drop(newer);
            futures_util::future::pending::<()>().await;
        }
    }

    async fn commit(&self, commands: Vec<Command>) -> Result<Decided, QuorumError> {
        match self.at_leader(Request::Commit(Batch { commands })).await? {
            Response::Committed(decided) => Ok(decided),
            other => Err(failed(other)),
        }
    }

    fn is_alone(&self) -> bool {
        false
    }

    async fn status(&self) -> Result<Status, QuorumError> {
        match self.at_leader(Request::Status).await? {
            Response::Status(status) => Ok(*status),
            other => Err(failed(other)),
        }
    }

    async fn change(&self, change: Change) -> Result<(), QuorumError> {
        match self.at_leader(Request::Change(change)).await? {
            Response::Done => Ok(()),
            other => Err(failed(other)),
        }
    }

    async fn suspect(&self, node: NodeId, shards: Vec<(BrokerId, BrokerEpoch)>) -> Result<bool, QuorumError> {
        if !self.refuses(node).await {
            return Ok(false);
        }
        match self.at_leader(Request::Dead(shards)).await? {
            Response::Done => Ok(true),
            other => Err(failed(other)),
        }
    }

    async fn heartbeat(&self, shards: Vec<ShardHeartbeat>) -> Result<(), QuorumError> {
        match self.at_leader(Request::Heartbeat(shards)).await? {
            Response::Done => Ok(()),
            other => Err(failed(other)),
        }
    }
}
