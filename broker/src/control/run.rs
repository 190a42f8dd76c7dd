//! The control loop: gathers proposals, has them committed as one, publishes the image, answers.
//!
//! It also carries the node through its life: every shard replays and listens; the node is registered; every shard
//! serves by that image; its brokers are unfenced; and at the end every shard is stopped before the quorum is.

mod beat;
mod ending;
mod one_shard;
mod question;

use std::collections::VecDeque;
use std::future::pending;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use strandline_core::metadata::{
    Answer, Balance, BrokerEpoch, BrokerId, Command, MetadataOffset, NodeId, NodeRegistration,
    ShardRegistration,
};
use strandline_core::sessions::Sessions;
use strandline_runtime::{Monotonic, Runtime};
use tokio::sync::oneshot;
use uuid::Uuid;

use super::beats::{Beats, Registered};
use super::client::{ControlClient, ControlError, ControlInbox, Proposal, Question, Report};
pub use super::failure::NodeFailure;
use super::quorum::{Decided, Quorum, QuorumError};
use super::shards::Shards;
pub use super::shards::{ShardHandle, ShardMailbox};
use super::told::{self, Told};
use super::waiting::Waiting;
use crate::node::context::{ImageSlot, StartedShard};

/// Proposals committed as one; what more waits goes with the next commit.
const PROPOSALS_PER_COMMIT_MAX: usize = 512;

/// The pause before what the node itself needs is proposed again.
const RETRY_PAUSE: Duration = Duration::from_millis(200);

/// Makes registrations from what shards bound.
pub trait Registrar {
    /// Of the node, with all its shards; called once.
    fn node(&mut self, started: &[StartedShard]) -> NodeRegistration;

    /// Of one shard that started again, and the id of the node's directory.
    fn shard(&self, shard: u32, started: &StartedShard) -> (Uuid, ShardRegistration);
}

/// Starts a shard again.
pub type Launch = Box<dyn FnMut(u32)>;

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
    /// Makes registrations from what shards bound.
    pub registrar: Box<dyn Registrar>,
    /// Starts a shard again that was stopped alone; without it, none can.
    pub launch: Option<Launch>,
    /// Told once every shard serves, with what they bound.
    pub ready: oneshot::Sender<Vec<StartedShard>>,
    /// Where readers beside the shards find the newest image.
    pub images: ImageSlot,
    /// `broker.heartbeat.interval.ms`; a node that is alone has nobody to tell.
    pub heartbeat_interval: Duration,
    /// `broker.session.timeout.ms`.
    pub session_timeout: Duration,
    /// How often a node that is alone looks at the balance of leaderships, if it does.
    pub leader_balance_interval: Option<Duration>,
}

enum Phase {
    /// Shards replay and bind.
    Starting,
    /// The node is registered; shards take that image in.
    Registered(Registered),
    /// Every shard serves.
    Serving,
    /// The node told that it stops, and serves until its leaderships have moved.
    Draining {
        /// With the image of this offset they have.
        until: Option<MetadataOffset>,
        deadline: Monotonic,
    },
    /// Shards close.
    Stopping,
}

struct State<R, Q> {
    runtime: R,
    quorum: Rc<Q>,
    shards: Shards,
    waiting: Waiting,
    phase: Phase,
    node: NodeId,
    registrar: Box<dyn Registrar>,
    launch: Option<Launch>,
    registered: Option<Registered>,
    ready: Option<oneshot::Sender<Vec<StartedShard>>>,
    images: ImageSlot,
    /// What the shards have been told of.
    published: MetadataOffset,
    /// What the node itself wants committed, before anything that is asked of it.
    own: VecDeque<(Purpose, Vec<Command>)>,
    beats: Option<Beats>,
    /// Who watches over the shards of a node that is alone.
    sessions: Option<Sessions>,
    session_timeout: Duration,
    /// Who gives leaderships back on a node that is alone.
    balance: Balance,
    heartbeat_interval: Duration,
    failure: Option<NodeFailure>,
}

/// How long a proposer waits for the shards, and where its answer goes.
type Waiter = (Duration, oneshot::Sender<Result<Answer, ControlError>>);

/// What a commit is for.
enum Purpose {
    Register,
    Unfence,
    /// One shard is gone.
    Fence,
    /// A shard's session ended, or it is back.
    Watch,
    /// One shard is to stop.
    DrainShard(u32),
    /// One shard is back.
    RegisterShard(u32),
    Drain,
    Proposals(Vec<Waiter>),
}

/// One commit at a time: what comes meanwhile goes with the next one.
type InFlight = Pin<Box<dyn Future<Output = (Purpose, Vec<Command>, Result<Decided, QuorumError>)>>>;

enum Event {
    Proposal(Proposal),
    Report(Report),
    Question(Question),
    Committed(Purpose, Vec<Command>, Result<Decided, QuorumError>),
    Changed,
    Deadline,
}

impl<R: Runtime, Q: Quorum> Control<R, Q> {
    /// Runs until every shard has ended.
    ///
    /// # Errors
    /// [`NodeFailure`], the first one; the shards were stopped for it.
    pub async fn run(self) -> Result<(), NodeFailure> {
        let (mut inbox, _keep_open) = (self.inbox, self.client);
        let alone = self.quorum.is_alone();
        let beats = || Beats::new(self.heartbeat_interval, self.shards.len(), self.runtime.now());
        let mut state = State {
            beats: (!alone).then(beats),
            sessions: None,
            session_timeout: self.session_timeout,
            balance: Balance::new(self.leader_balance_interval, self.runtime.now().millis()),
            heartbeat_interval: self.heartbeat_interval,
            published: self.quorum.image().offset(),
            runtime: self.runtime,
            quorum: Rc::new(self.quorum),
            shards: Shards::new(self.shards),
            waiting: Waiting::default(),
            phase: Phase::Starting,
            node: self.node,
            registrar: self.registrar,
            launch: self.launch,
            registered: None,
            ready: Some(self.ready),
            images: self.images,
            own: VecDeque::new(),
            failure: None,
        };
        let mut in_flight: Option<InFlight> = None;
        while !state.all_ended() {
            if in_flight.is_none()
                && let Some((purpose, commands)) = state.own.pop_front()
            {
                in_flight = Some(state.start_commit(purpose, commands));
            }
            match state.next_event(&mut inbox, &mut in_flight).await {
                Event::Report(report) => state.report(report),
                Event::Question(question) => state.answer(question),
                Event::Changed => state.publish(),
                Event::Deadline => state.deadline(),
                Event::Committed(purpose, commands, result) => {
                    in_flight = None;
                    state.committed(purpose, commands, result, &mut inbox);
                }
                Event::Proposal(first) => {
                    let mut proposals = vec![first];
                    while proposals.len() < PROPOSALS_PER_COMMIT_MAX
                        && let Some(next) = inbox.proposals.try_receive()
                    {
                        proposals.push(next);
                    }
                    in_flight = state.propose(proposals);
                }
            }
        }
        if !alone {
            state.say_farewell().await;
        }
        state.failure.map_or(Ok(()), Err)
    }
}

async fn next_commit(
    in_flight: &mut Option<InFlight>,
) -> (Purpose, Vec<Command>, Result<Decided, QuorumError>) {
    match in_flight {
        Some(commit) => commit.await,
        None => pending().await,
    }
}

impl<R: Runtime, Q: Quorum> State<R, Q> {
    async fn next_event(&self, inbox: &mut ControlInbox, in_flight: &mut Option<InFlight>) -> Event {
        let now = self.runtime.now();
        let due = [
            self.waiting.next_deadline(now),
            self.beats.as_ref().map(|beats| beats.next_due().since(now)),
            match &self.phase {
                Phase::Draining { deadline, .. } => Some(deadline.since(now)),
                _ => None,
            },
        ];
        let deadline = async {
            match due.into_iter().flatten().min() {
                Some(span) => self.runtime.sleep(span).await,
                None => pending().await,
            }
        };
        let idle = in_flight.is_none();
        // Reports first: they let go of proposers. The loop holds a client itself, so that the lanes never end before it.
        tokio::select! {
            biased;
            Some(report) = inbox.reports.receive() => Event::Report(report),
            (purpose, commands, result) = next_commit(in_flight) => Event::Committed(purpose, commands, result),
            () = self.quorum.changed(self.published) => Event::Changed,
            Some(question) = inbox.questions.receive() => Event::Question(question),
            Some(proposal) = inbox.proposals.receive(), if idle => Event::Proposal(proposal),
            () = deadline => Event::Deadline,
        }
    }

    fn start_commit(&self, purpose: Purpose, commands: Vec<Command>) -> InFlight {
        let quorum = self.quorum.clone();
        // What the node itself needs is proposed again where it failed.
        let kept = match purpose {
            Purpose::Register
            | Purpose::Unfence
            | Purpose::Fence
            | Purpose::DrainShard(_)
            | Purpose::RegisterShard(_) => commands.clone(),
            // The next look sees it again.
            Purpose::Watch | Purpose::Drain | Purpose::Proposals(_) => Vec::new(),
        };
        let told: Vec<Told> = commands.iter().map(Told::of).collect();
        let runtime = self.runtime.clone();
        Box::pin(async move {
            let result = quorum.commit(commands).await;
            if let Ok(decided) = &result {
                told::tell(told, &decided.answers);
            }
            if result.is_err() && !kept.is_empty() && !quorum.is_alone() {
                runtime.sleep(RETRY_PAUSE).await;
            }
            (purpose, kept, result)
        })
    }

    fn report(&mut self, report: Report) {
        match report {
            Report::Started { shard, started } => {
                self.shards.started(shard, started.clone());
                if self.shards.is_returning(shard) {
                    self.register_shard(shard, &started);
                } else if let Some(started) = self.shards.all_started() {
                    self.register(&started);
                }
            }
            Report::Applied { shard, offset } => {
                self.shards.applied(shard, offset);
                self.unfence_returned(shard);
                let by_all = self.shards.applied_by_all();
                self.waiting.applied(by_all);
                self.advance(by_all);
            }
            Report::Ended { shard, result } => {
                if self.shards.ended(shard) {
                    return self.fence(shard, result);
                }
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
            Report::Stop => self.drain(),
            Report::Order { shard, order, reply } => drop(reply.send(self.order(shard, order))),
        }
    }

    fn deadline(&mut self) {
        let now = self.runtime.now();
        self.waiting.expire(now);
        if let Phase::Draining { deadline, .. } = self.phase
            && deadline <= now
        {
            tracing::warn!(
                "stopping although leaderships have not moved: the quorum does not answer in time"
            );
            self.stop();
        }
        self.beat(now);
    }

    /// Every shard listens: the node registers itself, all shards in one record.
    fn register(&mut self, started: &[StartedShard]) {
        let Phase::Starting = &self.phase else {
            return;
        };
        // The image of a node of several may lag behind what its shards have applied, but not behind its registration.
        if self.quorum.is_alone() && !self.check_logs(self.quorum.image().offset()) {
            return;
        }
        let registration = self.registrar.node(started);
        self.own
            .push_back((Purpose::Register, vec![Command::RegisterNode(registration)]));
    }

    /// Whether no shard has applied more than the quorum has stored.
    fn check_logs(&mut self, stored: MetadataOffset) -> bool {
        let started = self.shards.all_started().unwrap_or_default();
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
            return false;
        }
        true
    }

    fn registered(&mut self, decided: &Decided) {
        match decided.answers.as_slice() {
            [Answer::Registered(Ok(epoch))] => {
                let registered = Registered {
                    node: self.node,
                    offset: decided.first,
                    epoch: *epoch,
                };
                if !self.check_logs(decided.first) {
                    return;
                }
                self.registered = Some(registered);
                if let Phase::Starting = self.phase {
                    self.phase = Phase::Registered(registered);
                }
                self.shards.all_registered(registered.offset, registered.epoch);
                self.shards.publish(&self.quorum.image());
            }
            [Answer::Registered(Err(error))] => self.fail(NodeFailure::Registration(error.to_string())),
            other => unreachable!("apply answers a registration as such, not with {other:?}"),
        }
    }

    /// This node's shards that are there, as they are registered.
    fn own_brokers(&self) -> Vec<(BrokerId, BrokerEpoch)> {
        let registrations = self.shards.registrations();
        registrations
            .map(|(shard, epoch)| (self.node.broker(shard), epoch))
            .collect()
    }

    /// Every shard serves by the image at `by_all`.
    fn advance(&mut self, by_all: MetadataOffset) {
        match &self.phase {
            Phase::Registered(registered) if by_all >= registered.offset => {
                let brokers = self.own_brokers();
                self.phase = Phase::Serving;
                self.own
                    .push_back((Purpose::Unfence, vec![Command::UnfenceBrokers { brokers }]));
            }
            Phase::Serving if by_all >= self.quorum.image().offset() && self.are_unfenced() => {
                if let (Some(started), Some(ready)) = (self.shards.all_started(), self.ready.take()) {
                    let _ = ready.send(started);
                }
            }
            Phase::Draining {
                until: Some(until), ..
            } if by_all >= *until => self.stop(),
            _ => {}
        }
    }

    /// Whether clients are told of every shard of this node.
    fn are_unfenced(&self) -> bool {
        let Some(registered) = self.registered else {
            return false;
        };
        let image = self.quorum.image();
        let mut own = image.brokers().filter(|broker| broker.id.node() == self.node);
        own.all(|broker| !broker.fenced || broker.epoch != registered.epoch)
    }

    fn propose(&mut self, proposals: Vec<Proposal>) -> Option<InFlight> {
        if let Phase::Stopping = self.phase {
            for proposal in proposals {
                let _ = proposal.reply.send(Err(ControlError::Stopping));
            }
            return None;
        }
        let known = self.quorum.image().offset();
        let (mut commands, mut waiters) = (Vec::new(), Vec::new());
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
                None => self.wait(known, (timeout, reply), Answer::Whole(Ok(()))),
            }
        }
        self.waiting.applied(self.shards.applied_by_all());
        (!commands.is_empty()).then(|| self.start_commit(Purpose::Proposals(waiters), commands))
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

    fn committed(
        &mut self,
        purpose: Purpose,
        commands: Vec<Command>,
        result: Result<Decided, QuorumError>,
        inbox: &mut ControlInbox,
    ) {
        self.publish();
        let decided = match result {
            Ok(decided) => decided,
            Err(error) => return self.not_committed(purpose, commands, error, inbox),
        };
        match purpose {
            Purpose::Register => self.registered(&decided),
            Purpose::RegisterShard(shard) => self.shard_registered(shard, &decided),
            // Others lead now what it led.
            Purpose::DrainShard(shard) => self.shards.leave(shard),
            Purpose::Unfence | Purpose::Fence | Purpose::Watch => self.advance(self.shards.applied_by_all()),
            Purpose::Drain => {
                if let Phase::Draining { until, .. } = &mut self.phase {
                    *until = Some(decided.first);
                }
                self.advance(self.shards.applied_by_all());
            }
            Purpose::Proposals(waiters) => {
                let offsets = (decided.first.0..).map(MetadataOffset);
                for ((waiter, answer), offset) in waiters.into_iter().zip(decided.answers).zip(offsets) {
                    self.wait(offset, waiter, answer);
                }
                self.waiting.applied(self.shards.applied_by_all());
            }
        }
    }

    fn not_committed(
        &mut self,
        purpose: Purpose,
        commands: Vec<Command>,
        error: QuorumError,
        inbox: &mut ControlInbox,
    ) {
        let told = match error {
            broken @ QuorumError::Broken(_) => {
                self.fail(match self.was_ready() {
                    true => broken.into(),
                    false => NodeFailure::Registration(broken.to_string()),
                });
                ControlError::Stopping
            }
            other => question::told(other),
        };
        match purpose {
            Purpose::Proposals(waiters) => {
                for (_, reply) in waiters {
                    let _ = reply.send(Err(told.clone()));
                }
                // They have waited as long, and would wait as long again.
                while let Some(waits) = inbox.proposals.try_receive() {
                    let _ = waits.reply.send(Err(told.clone()));
                }
            }
            _ if matches!(self.phase, Phase::Stopping) => {}
            Purpose::Watch => tracing::warn!("no shard is fenced or unfenced now: {told}"),
            Purpose::Drain => self.stop(),
            Purpose::Register
            | Purpose::Unfence
            | Purpose::Fence
            | Purpose::DrainShard(_)
            | Purpose::RegisterShard(_)
                if self.quorum.is_alone() =>
            {
                self.fail(NodeFailure::Registration(told.to_string()));
            }
            again => {
                tracing::warn!("this node's registration waits: {told}");
                self.own.push_front((again, commands));
            }
        }
    }

    /// Tells the shards of what is new.
    fn publish(&mut self) {
        let image = self.quorum.image();
        if image.offset() > self.published {
            self.published = image.offset();
            self.shards.publish(&image);
            self.watch_if_replicated(&image);
            self.images.publish(image);
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
}

#[cfg(test)]
#[path = "run_tests.rs"]
mod tests;
