//! Who votes and who learns: what is told of it, and how it changes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use openraft::error::{ChangeMembershipError, ClientWriteError, RaftError};
use openraft::{AsyncRuntime, ChangeMembers, Raft};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::runtime::Seam;
use super::types::{TypeConfig, VoterAddress, VoterId};
use super::wire::Response;

/// More voters make a commit wait for more machines than it gains in safety: further nodes learn.
pub const VOTERS_MAX: usize = 7;
/// The pause before a change is tried again that waits for another one.
const TURN_PAUSE: Duration = Duration::from_millis(50);

/// A voter or learner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Who.
    pub voter: VoterId,
    /// Where its controller listens.
    pub address: VoterAddress,
    /// Whether it votes.
    pub votes: bool,
    /// The last entry that it has, as far as the leader knows; only the leader does.
    #[serde(default)]
    pub log_end: Option<u64>,
}

/// What a controller knows of the quorum.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// Who says so.
    pub voter: VoterId,
    /// The cluster; nil before it has one.
    pub cluster_id: Uuid,
    /// Whom it follows.
    pub leader: Option<VoterId>,
    /// The newest term that it knows.
    pub term: u64,
    /// The last entry of its log.
    pub log_end: Option<u64>,
    /// The last entry that it has applied.
    pub applied: Option<u64>,
    /// Empty before the quorum's first start, as far as it knows.
    pub members: Vec<Member>,
}

/// A change of the membership.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// A node asks to learn.
    Join {
        /// Who.
        voter: VoterId,
        /// Where its controller listens.
        address: VoterAddress,
    },
    /// A learner shall vote.
    AddVoter {
        /// Who.
        voter: VoterId,
    },
    /// A voter or learner shall be forgotten.
    Remove {
        /// Who.
        voter: VoterId,
    },
}

/// Why a change finds nothing to do (KIP-853).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoChange {
    /// A node that shall vote does already.
    DuplicateVoter,
    /// Who shall be forgotten, or shall vote, is not there.
    VoterNotFound,
}

/// What `raft` knows now.
pub fn status(raft: &Raft<TypeConfig>, voter: VoterId, cluster_id: Uuid) -> Status {
    let metrics = raft.metrics();
    let metrics = metrics.borrow();
    let membership = metrics.membership_config.membership();
    let votes: BTreeSet<VoterId> = membership.voter_ids().collect();
    let member = |(member, address): (&VoterId, &VoterAddress)| {
        let replicated = metrics.replication.as_ref();
        let matched = replicated.and_then(|replicated| replicated.get(member)).copied();
        Member {
            voter: *member,
            address: address.clone(),
            votes: votes.contains(member),
            log_end: matched.flatten().map(|last| last.index),
        }
    };
    Status {
        voter,
        cluster_id,
        leader: metrics.current_leader,
        term: metrics.current_term,
        log_end: metrics.last_log_index,
        applied: metrics.last_applied.map(|last| last.index),
        members: membership.nodes().map(member).collect(),
    }
}

/// Makes a change, on the leader, once the one before is done; within `timeout`, after which nobody knows.
pub async fn change(raft: &Raft<TypeConfig>, change: Change, timeout: Duration) -> Response {
    let in_turn = async {
        loop {
            match decide(raft, change.clone()).await {
                Some(response) => return response,
                None => Seam::sleep(TURN_PAUSE).await,
            }
        }
    };
    match Seam::timeout(timeout, in_turn).await {
        Ok(response) => response,
        Err(_) => Response::Unknown("no majority of the quorum answered in time".to_owned()),
    }
}

/// `None` while another change is under way.
async fn decide(raft: &Raft<TypeConfig>, change: Change) -> Option<Response> {
    let (addresses, voters) = {
        let metrics = raft.metrics();
        let metrics = metrics.borrow();
        if metrics.current_leader != Some(metrics.id) {
            return Some(Response::NotLeader);
        }
        let membership = metrics.membership_config.membership();
        let addresses: BTreeMap<VoterId, VoterAddress> = membership
            .nodes()
            .map(|(voter, address)| (*voter, address.clone()))
            .collect();
        let voters: BTreeSet<VoterId> = membership.voter_ids().collect();
        (addresses, voters)
    };
    let result = match change {
        Change::Join { voter, address } => {
            if addresses.contains_key(&voter) {
                return Some(Response::Done);
            }
            let holds = addresses.keys().find(|member| member.node == voter.node);
            if let Some(holder) = holds {
                return Some(Response::Refused(format!(
                    "node {} is in the quorum with the data directory {}, and this one is {}: if the old one is lost, \
                     `strandctl cluster replace {}` admits the new one; if it lives, give this node another 'node.id'",
                    voter.node, holder.directory, voter.directory, voter.node
                )));
            }
            raft.add_learner(voter, address, false).await
        }
        Change::AddVoter { voter } => {
            let Some(address) = addresses.get(&voter) else {
                let text = format!("{voter} does not learn from the quorum yet: start the node");
                return Some(Response::NoChange(NoChange::VoterNotFound, text));
            };
            if voters.contains(&voter) {
                return Some(Response::NoChange(
                    NoChange::DuplicateVoter,
                    format!("{voter} votes already"),
                ));
            }
            if voters.len() >= VOTERS_MAX {
                return Some(Response::Refused(format!(
                    "the quorum has {VOTERS_MAX} voters, as many as it may: remove one first"
                )));
            }
            // A voter that lags would hold up every commit: it has the log before it votes.
            match raft.add_learner(voter, address.clone(), true).await {
                Ok(_) => {
                    let added = ChangeMembers::AddVoterIds(BTreeSet::from([voter]));
                    raft.change_membership(added, true).await
                }
                Err(error) => Err(error),
            }
        }
        Change::Remove { voter } => {
            if !addresses.contains_key(&voter) {
                let text = format!("{voter} neither votes nor learns");
                return Some(Response::NoChange(NoChange::VoterNotFound, text));
            }
            let removed = BTreeSet::from([voter]);
            match voters.contains(&voter) {
                true if voters.len() == 1 => {
                    return Some(Response::Refused(format!(
                        "{voter} is the only voter of the quorum"
                    )));
                }
                true => {
                    raft.change_membership(ChangeMembers::RemoveVoters(removed), false)
                        .await
                }
                false => {
                    raft.change_membership(ChangeMembers::RemoveNodes(removed), false)
                        .await
                }
            }
        }
    };
    Some(match result {
        Ok(_) => Response::Done,
        Err(RaftError::APIError(ClientWriteError::ChangeMembershipError(
            ChangeMembershipError::InProgress(_),
        ))) => return None,
        Err(RaftError::APIError(ClientWriteError::ForwardToLeader(_))) => Response::NotLeader,
        Err(RaftError::APIError(ClientWriteError::ChangeMembershipError(error))) => {
            Response::Refused(error.to_string())
        }
        Err(RaftError::Fatal(error)) => Response::Broken(error.to_string()),
    })
}
