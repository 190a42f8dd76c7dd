//! Questions about the quorum, and what a client is told of its errors.

use strandline_core::metadata::{BrokerEpoch, BrokerId};
use strandline_runtime::{Queue, Runtime};

use super::super::client::{ControlError, Question};
use super::super::quorum::{Quorum, QuorumError};
use super::State;

/// An error of the quorum, as a proposer hears of it.
pub(super) fn told(error: QuorumError) -> ControlError {
    match error {
        QuorumError::Full(text) => ControlError::Storage(text),
        QuorumError::NoLeader(text) | QuorumError::Unknown(text) => ControlError::NoMajority(text),
        QuorumError::Refused(text) => ControlError::Refused(text),
        QuorumError::NoChange(why, text) => ControlError::NoChange(why, text),
        QuorumError::Broken(_) => ControlError::Stopping,
    }
}

/// All shards of a process are dead if one is.
async fn suspect(
    quorum: &impl Quorum,
    (broker, epoch): (BrokerId, BrokerEpoch),
) -> Result<bool, QuorumError> {
    let image = quorum.image();
    let known = image.broker(broker);
    if !known.is_some_and(|known| known.epoch == epoch && !known.fenced) {
        return Ok(false);
    }
    let node = broker.node();
    let of_node = image
        .brokers()
        .filter(|other| other.id.node() == node && !other.fenced);
    let shards = of_node.map(|other| (other.id, other.epoch)).collect();
    quorum.suspect(node, shards).await
}

impl<R: Runtime, Q: Quorum> State<R, Q> {
    /// About the quorum itself: it may take its leader's time, and holds up nothing else.
    pub(super) fn answer(&self, question: Question) {
        let quorum = self.quorum.clone();
        self.runtime.spawn(Queue::Latency, async move {
            match question {
                Question::Status(reply) => drop(reply.send(quorum.status().await.map_err(told))),
                Question::Change(change, reply) => {
                    drop(reply.send(quorum.change(change).await.map_err(told)));
                }
                Question::Suspect(shard, reply) => {
                    drop(reply.send(suspect(&*quorum, shard).await.map_err(told)));
                }
            }
        });
    }
}
