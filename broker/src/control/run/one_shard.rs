//! One shard that stops, fails or comes back while its node goes on.

use strandline_core::metadata::{Answer, Command};
use strandline_runtime::Runtime;

use super::super::client::{OrderError, ShardOrder};
use super::super::quorum::{Decided, Quorum};
use super::{NodeFailure, Phase, Purpose, State};
use crate::node::context::{ShardMessage, StartedShard};

impl<R: Runtime, Q: Quorum> State<R, Q> {
    /// Whether the node has ended: one shard that is down alone may come back.
    pub(super) fn all_ended(&self) -> bool {
        self.shards.all_ended(matches!(self.phase, Phase::Stopping))
    }

    pub(super) fn order(&mut self, shard: u32, order: ShardOrder) -> Result<(), OrderError> {
        if !matches!(self.phase, Phase::Serving) {
            return Err(OrderError::NotServing);
        }
        match order {
            ShardOrder::Stop => {
                self.shards.check_runs(shard)?;
                let registrations = self.shards.registrations();
                let own = registrations.filter(|(number, _)| *number == shard);
                let brokers = own.map(|(number, epoch)| (self.node.broker(number), epoch));
                let brokers = brokers.collect();
                self.own
                    .push_back((Purpose::DrainShard(shard), vec![Command::StopBrokers { brokers }]));
            }
            ShardOrder::Pause => self.shards.tell(shard, ShardMessage::Pause)?,
            ShardOrder::Lost => {
                self.shards.check_runs(shard)?;
                self.shards.leave(shard);
                self.shards.ended(shard);
                self.fence(shard, Ok(()));
            }
            // One that runs goes on, if it was paused.
            ShardOrder::Start if self.shards.check_runs(shard).is_ok() => {
                self.shards.tell(shard, ShardMessage::Resume)?;
            }
            ShardOrder::Start => {
                let launch = self.launch.as_mut().ok_or(OrderError::NotServing)?;
                self.shards.begin_return(shard)?;
                launch(shard);
            }
        }
        Ok(())
    }

    /// A shard is gone while the node goes on: others lead what it led.
    pub(super) fn fence(&mut self, shard: u32, result: Result<(), String>) {
        match result {
            Ok(()) => tracing::warn!(shard, "the shard is down; the node goes on without it"),
            Err(reason) => tracing::error!(shard, reason, "the shard is down; the node goes on without it"),
        }
        let id = self.node.broker(shard);
        if let Some(broker) = self.quorum.image().broker(id) {
            let brokers = vec![(id, broker.epoch)];
            self.own
                .push_back((Purpose::Fence, vec![Command::FenceBrokers { brokers }]));
        }
        // Nobody waits for it any more.
        self.waiting.applied(self.shards.applied_by_all());
    }

    /// A shard listens again: it is registered by a record of its own.
    pub(super) fn register_shard(&mut self, number: u32, started: &StartedShard) {
        let (directory_id, shard) = self.registrar.shard(number, started);
        let command = Command::RegisterShard {
            node: self.node,
            directory_id,
            shard,
        };
        self.own
            .push_back((Purpose::RegisterShard(number), vec![command]));
    }

    pub(super) fn shard_registered(&mut self, shard: u32, decided: &Decided) {
        match decided.answers.as_slice() {
            [Answer::Registered(Ok(epoch))] => {
                self.shards.registered(shard, decided.first, *epoch);
                self.shards.publish(&self.quorum.image());
            }
            [Answer::Registered(Err(error))] => self.fail(NodeFailure::Shard {
                shard,
                reason: format!("it cannot be registered again: {error}"),
            }),
            other => unreachable!("apply answers a registration as such, not with {other:?}"),
        }
    }

    /// A shard that came back serves by its registration.
    pub(super) fn unfence_returned(&mut self, shard: u32) {
        if let Some(epoch) = self.shards.returned(shard) {
            let brokers = vec![(self.node.broker(shard), epoch)];
            self.own
                .push_back((Purpose::Unfence, vec![Command::UnfenceBrokers { brokers }]));
        }
    }
}
