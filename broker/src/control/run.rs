//! The control loop: gathers proposals, has them committed as one, publishes the image, answers.
//!
//! It also carries the node through its life: every shard replays and listens; the node is registered; every shard
//! serves by that image; its brokers are unfenced; and at the end every shard is stopped before the quorum is.

use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, FutureExt, pending, select};
use strandline_core::metadata::{Answer, BrokerEpoch, Command, MetadataOffset, NodeId, NodeRegistration};
use strandline_runtime::Runtime;
use thiserror::Error;
use tokio::sync::oneshot;

use super::client::{ControlClient, ControlError, ControlInbox, Proposal, Report};
use super::quorum::{Quorum, QuorumError};
pub use super::shards::ShardHandle;
use super::shards::Shards;
use super::waiting::Waiting;
use crate::node::context::{ImageSlot, StartedShard};

/// Proposals committed as one; what more waits goes with the next commit.
const PROPOSALS_PER_COMMIT_MAX: usize = 512;

/// Why a node cannot go on.
#[derive(Debug, Error)]
pub enum NodeFailure {
    /// A shard could not start: a port in use, a store that does not open.
    #[error("shard {shard}: {reason}")]
    Start {
        /// Which.
        shard: u32,
        /// Its own words.
        reason: String,
    },
    /// A shard ended while it served.
    #[error("shard {shard} stopped: {reason}")]
    Shard {
        /// Which.
        shard: u32,
        /// Its own words.
        reason: String,
    },
    /// The metadata store cannot be relied on.
    #[error("{0}")]
    Quorum(#[from] QuorumError),
    /// The quorum refused this node.
    #[error("the node cannot be registered: {0}")]
    Registration(String),
    /// A shard has applied what the quorum does not know.
    #[error(
        "shard {shard} has applied metadata up to {applied}, but the quorum's log ends at {stored}: quorum.redb is \
         older than the logs; restore the newer file"
    )]
    QuorumBehindLogs {
        /// Which.
        shard: u32,
        /// What its checkpoint covers.
        applied: MetadataOffset,
        /// Where the quorum's log ends.
        stored: MetadataOffset,
    },
}

impl NodeFailure {
    /// Whether the node had been ready when it happened.
    pub fn while_running(&self) -> bool {
        match self {
            Self::Shard { .. } | Self::Quorum(_) => true,
            Self::Start { .. } | Self::Registration(_) | Self::QuorumBehindLogs { .. } => false,
        }
    }
}

/// Makes a node's registration from what its shards bound.
pub type Register = Box<dyn FnOnce(&[StartedShard]) -> NodeRegistration>;

/// What the control loop is made of.
pub struct Control<R, Q> {
    /// Clock and timers.
    pub runtime: R,
    /// Commands go here.
    pub quorum: Q,
    /// What is asked of it.
    pub inbox: ControlInbox,
    /// Keeps the inbox open while the loop runs.
    pub client: ControlClient,
    /// The node's shards, by number.
    pub shards: Vec<ShardHandle>,
    /// This node.
    pub node: NodeId,
    /// Makes the node's registration from what its shards bound.
    pub register: Register,
    /// Told once every shard serves, with what they bound.
    pub ready: oneshot::Sender<Vec<StartedShard>>,
    /// Where readers beside the shards find the newest image.
    pub images: ImageSlot,
}

enum Phase {
    /// Shards replay and bind.
    Starting,
    /// The node is registered at this offset; shards take that image in.
    Registered(MetadataOffset, BrokerEpoch),
    /// Every shard serves.
    Serving,
    /// Shards close.
    Stopping,
}

struct State<R, Q> {
    runtime: R,
    quorum: Q,
    shards: Shards,
    waiting: Waiting,
    phase: Phase,
    node: NodeId,
    register: Option<Register>,
    ready: Option<oneshot::Sender<Vec<StartedShard>>>,
    images: ImageSlot,
    failure: Option<NodeFailure>,
}

/// How long a proposer waits for the shards, and where its answer goes.
type Waiter = (Duration, oneshot::Sender<Result<Answer, ControlError>>);

enum Event {
    Proposal(Proposal),
    Report(Report),
    Deadline,
}

impl<R: Runtime, Q: Quorum> Control<R, Q> {
    /// Runs until every shard has ended.
    ///
    /// # Errors
    /// [`NodeFailure`], the first one; the shards were stopped for it.
    pub async fn run(self) -> Result<(), NodeFailure> {
        let (mut inbox, _keep_open) = (self.inbox, self.client);
        let mut state = State {
            runtime: self.runtime,
            quorum: self.quorum,
            shards: Shards::new(self.shards),
            waiting: Waiting::default(),
            phase: Phase::Starting,
            node: self.node,
            register: Some(self.register),
            ready: Some(self.ready),
            images: self.images,
            failure: None,
        };
        while !state.shards.all_ended() {
            match state.next_event(&mut inbox).await {
                Event::Report(report) => state.report(report).await,
                Event::Deadline => state.waiting.expire(state.runtime.now()),
                Event::Proposal(first) => {
                    let mut proposals = vec![first];
                    while proposals.len() < PROPOSALS_PER_COMMIT_MAX
                        && let Some(next) = inbox.proposals.try_receive()
                    {
                        proposals.push(next);
                    }
                    state.propose(proposals).await;
                }
            }
        }
        state.failure.map_or(Ok(()), Err)
    }
}

impl<R: Runtime, Q: Quorum> State<R, Q> {
    async fn next_event(&self, inbox: &mut ControlInbox) -> Event {
        let deadline = match self.waiting.next_deadline(self.runtime.now()) {
            Some(span) => Either::Left(self.runtime.sleep(span)),
            None => Either::Right(pending()),
        };
        // Reports first: they let go of proposers.
        let reports = pin!(inbox.reports.receive());
        let proposals = pin!(inbox.proposals.receive());
        let messages = pin!(select(reports, proposals).then(async |message| match message {
            Either::Left((Some(report), _)) => Event::Report(report),
            Either::Right((Some(proposal), _)) => Event::Proposal(proposal),
            // The loop holds a client itself, so that the lanes never end before it.
            Either::Left((None, _)) | Either::Right((None, _)) => pending().await,
        }));
        match select(messages, pin!(deadline)).await {
            Either::Left((event, _)) => event,
            Either::Right(_) => Event::Deadline,
        }
    }

    async fn report(&mut self, report: Report) {
        match report {
            Report::Started { shard, started } => {
                self.shards.started(shard, started);
                if let Some(started) = self.shards.all_started() {
                    self.register(&started).await;
                }
            }
            Report::Applied { shard, offset } => {
                self.shards.applied(shard, offset);
                let by_all = self.shards.applied_by_all();
                self.waiting.applied(by_all);
                self.advance(by_all).await;
            }
            Report::Ended { shard, result } => {
                self.shards.ended(shard);
                let reason = match result {
                    Ok(()) if matches!(self.phase, Phase::Stopping) => return,
                    Ok(()) => "it ended without being told to".to_owned(),
                    Err(reason) => reason,
                };
                self.fail(match self.was_ready() {
                    true => NodeFailure::Shard { shard, reason },
                    false => NodeFailure::Start { shard, reason },
                });
            }
            Report::Stop => self.stop(),
        }
    }

    /// Every shard listens: the node registers itself, all shards in one record.
    async fn register(&mut self, started: &[StartedShard]) {
        let (Phase::Starting, Some(register)) = (&self.phase, self.register.take()) else {
            return;
        };
        let stored = self.quorum.image().offset();
        let ahead = started
            .iter()
            .zip(0..)
            .find(|(shard, _)| shard.metadata_offset > stored);
        if let Some((ahead, shard)) = ahead {
            let applied = ahead.metadata_offset;
            self.fail(NodeFailure::QuorumBehindLogs {
                shard,
                applied,
                stored,
            });
            return;
        }
        let command = Command::RegisterNode(register(started));
        match self.commit(vec![command]).await.as_deref() {
            Ok([Answer::Registered(Ok(epoch))]) => {
                self.phase = Phase::Registered(self.quorum.image().offset(), *epoch);
            }
            Ok([Answer::Registered(Err(error))]) => self.fail(NodeFailure::Registration(error.to_string())),
            Ok(other) => unreachable!("apply answers a registration as such, not with {other:?}"),
            Err(error) => self.fail(NodeFailure::Registration(error.to_string())),
        }
    }

    /// Every shard serves by the image at `by_all`.
    async fn advance(&mut self, by_all: MetadataOffset) {
        if let Phase::Registered(offset, epoch) = self.phase
            && by_all >= offset
        {
            let image = self.quorum.image();
            let own = image
                .brokers()
                .filter(|broker| broker.id.node() == self.node && broker.epoch == epoch);
            let brokers = own.map(|broker| (broker.id, epoch)).collect();
            self.phase = Phase::Serving;
            if let Err(error) = self.commit(vec![Command::UnfenceBrokers { brokers }]).await {
                self.fail(NodeFailure::Registration(error.to_string()));
            }
        } else if matches!(self.phase, Phase::Serving)
            && by_all >= self.quorum.image().offset()
            && let (Some(started), Some(ready)) = (self.shards.all_started(), self.ready.take())
        {
            let _ = ready.send(started);
        }
    }

    async fn propose(&mut self, proposals: Vec<Proposal>) {
        if let Phase::Stopping = self.phase {
            for proposal in proposals {
                let _ = proposal.reply.send(Err(ControlError::Stopping));
            }
            return;
        }
        let mut first = self.quorum.image().offset();
        let (mut commands, mut waiters, mut settling) = (Vec::new(), Vec::new(), Vec::new());
        for Proposal {
            command,
            timeout,
            reply,
        } in proposals
        {
            match command {
                Some(command) => {
                    commands.push(command);
                    waiters.push((timeout, reply));
                }
                None => settling.push((timeout, reply)),
            }
        }
        if !commands.is_empty() {
            match self.commit(commands).await {
                Ok(answers) => {
                    for (waiter, answer) in waiters.into_iter().zip(answers) {
                        first = MetadataOffset(first.0 + 1);
                        self.wait(first, waiter, answer);
                    }
                }
                Err(error) => {
                    for (_, reply) in waiters {
                        let _ = reply.send(Err(error.clone()));
                    }
                }
            }
        }
        for waiter in settling {
            self.wait(first, waiter, Answer::Whole(Ok(())));
        }
        self.waiting.applied(self.shards.applied_by_all());
    }

    /// Answers once every shard serves by what is committed at `offset`.
    fn wait(&mut self, offset: MetadataOffset, (timeout, reply): Waiter, answer: Answer) {
        match timeout.is_zero() {
            true => drop(reply.send(Ok(answer))),
            false => self
                .waiting
                .add(offset, self.runtime.now() + timeout, answer, reply),
        }
    }

    async fn commit(&mut self, commands: Vec<Command>) -> Result<Vec<Answer>, ControlError> {
        match self.quorum.commit(commands).await {
            Ok(answers) => {
                let image = self.quorum.image();
                self.shards.publish(image);
                self.images.publish(image.clone());
                Ok(answers)
            }
            Err(QuorumError::Full(text)) => Err(ControlError::Storage(text)),
            Err(error) => {
                self.fail(match self.was_ready() {
                    true => error.into(),
                    false => NodeFailure::Registration(error.to_string()),
                });
                Err(ControlError::Stopping)
            }
        }
    }

    /// Whether it was announced that the node serves.
    fn was_ready(&self) -> bool {
        self.ready.is_none()
    }

    fn fail(&mut self, failure: NodeFailure) {
        // Why a node does not start is said once, as the last line of the process. One that served takes its time to stop.
        if self.was_ready() {
            tracing::error!("stopping: {failure}");
        }
        self.failure.get_or_insert(failure);
        self.stop();
    }

    fn stop(&mut self) {
        if !matches!(
            std::mem::replace(&mut self.phase, Phase::Stopping),
            Phase::Stopping
        ) {
            self.shards.stop();
        }
    }
}

#[cfg(test)]
#[path = "run_tests.rs"]
mod tests;
