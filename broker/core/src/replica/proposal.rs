//! The change of the ISR that is under way: one at a time, and counted as possible until the quorum's word is known.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use strandline_wire::ErrorCode;

use crate::metadata::{BrokerEpoch, BrokerId, LeaderEpoch, PartitionEpoch};

/// How long after a refusal that another try may not meet.
const RETRY_MS: i64 = 50;
/// When an answer counts as lost.
const ANSWER_TIMEOUT_MS: i64 = 1_000;

/// What a leader asks of the quorum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlterPartition {
    /// Names this try in its answer.
    pub attempt: u64,
    /// The epoch it leads in.
    pub leader_epoch: LeaderEpoch,
    /// The state it changes.
    pub partition_epoch: PartitionEpoch,
    /// The in-sync set it wants, each member with the registration it is known by.
    pub isr: Vec<(BrokerId, BrokerEpoch)>,
}

/// What the quorum made of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AlteredPartition {
    /// The leader epoch.
    pub leader_epoch: LeaderEpoch,
    /// The new state's.
    pub partition_epoch: PartitionEpoch,
    /// The new in-sync set.
    pub isr: Vec<BrokerId>,
    /// What the quorum judged it by: a leader with an older view of the configuration must not acknowledge what the
    /// quorum's choice of eligible leaders does not reckon with.
    pub min_insync_replicas: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Stage {
    /// Sent; the answer is due.
    Asked { since_ms: i64 },
    /// To be sent again.
    Retry { at_ms: i64 },
    /// The leader's own view is out of date: a newer one is on its way.
    Stale,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Proposal {
    request: AlterPartition,
    stage: Stage,
    tries: u32,
}

/// Proposals of one leader.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Proposals {
    current: Option<Proposal>,
    /// Members of proposals that were refused once after several tries: an earlier try may still be applied, until the
    /// partition epoch rises.
    unresolved: BTreeSet<BrokerId>,
    next_attempt: u64,
    not_before_ms: i64,
}

impl Proposals {
    /// Whether a new one may be made.
    pub(super) fn may_propose(&self, now_ms: i64) -> bool {
        self.current.is_none() && now_ms >= self.not_before_ms
    }

    /// Whether the quorum may have this broker in the ISR, or may take it in.
    pub(super) fn may_contain(&self, broker: BrokerId) -> bool {
        let proposed = |proposal: &Proposal| proposal.request.isr.iter().any(|(member, _)| *member == broker);
        self.current.as_ref().is_some_and(proposed) || self.unresolved.contains(&broker)
    }

    pub(super) fn propose(
        &mut self,
        epochs: (LeaderEpoch, PartitionEpoch),
        isr: Vec<(BrokerId, BrokerEpoch)>,
        now_ms: i64,
    ) -> AlterPartition {
        let request = AlterPartition {
            attempt: self.attempt(),
            leader_epoch: epochs.0,
            partition_epoch: epochs.1,
            isr,
        };
        self.current = Some(Proposal {
            request: request.clone(),
            stage: Stage::Asked { since_ms: now_ms },
            tries: 1,
        });
        request
    }

    /// The one under way, if it is time to send it again.
    pub(super) fn resend(&mut self, now_ms: i64) -> Option<AlterPartition> {
        let attempt = self.next_attempt + 1;
        let proposal = self.current.as_mut()?;
        let due = match proposal.stage {
            Stage::Asked { since_ms } => now_ms - since_ms >= ANSWER_TIMEOUT_MS,
            Stage::Retry { at_ms } => now_ms >= at_ms,
            Stage::Stale => false,
        };
        if !due {
            return None;
        }
        self.next_attempt = attempt;
        proposal.request.attempt = attempt;
        proposal.stage = Stage::Asked { since_ms: now_ms };
        proposal.tries += 1;
        Some(proposal.request.clone())
    }

    /// The quorum refused `attempt`.
    pub(super) fn refused(&mut self, attempt: u64, code: ErrorCode, now_ms: i64) {
        let Some(proposal) = &mut self.current else { return };
        if proposal.request.attempt != attempt {
            return;
        }
        match code {
            // Decided, and not in favour: back to the committed set, and not at once again.
            ErrorCode::IneligibleReplica | ErrorCode::OperationNotAttempted => {
                self.not_before_ms = now_ms + RETRY_MS;
                if proposal.tries > 1 {
                    let members = proposal.request.isr.iter().map(|(member, _)| *member);
                    self.unresolved.extend(members);
                }
                self.current = None;
            }
            ErrorCode::FencedLeaderEpoch
            | ErrorCode::InvalidUpdateVersion
            | ErrorCode::NewLeaderElected
            | ErrorCode::StaleBrokerEpoch
            | ErrorCode::InvalidRequest
            | ErrorCode::UnknownTopicId
            | ErrorCode::UnknownTopicOrPartition => proposal.stage = Stage::Stale,
            // NOT_CONTROLLER above all: whoever answered knows less than the leader does.
            _ => {
                proposal.stage = Stage::Retry {
                    at_ms: now_ms + RETRY_MS,
                }
            }
        }
    }

    /// The partition epoch rose: every proposal for the one before is decided.
    pub(super) fn decided(&mut self) {
        self.current = None;
        self.unresolved.clear();
    }

    fn attempt(&mut self) -> u64 {
        self.next_attempt += 1;
        self.next_attempt
    }
}
