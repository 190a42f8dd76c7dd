//! What shards and admin handlers ask of the control thread.

use std::time::Duration;

use strandline_core::metadata::{
    Answer, ApplyError, BlockOfProducerIds, BrokerEpoch, BrokerId, Command, MetadataOffset,
};
use strandline_runtime::mailbox::{Receiver, SendError, Sender, mailbox};
use strandline_wire::ErrorCode;
use thiserror::Error;
use tokio::sync::oneshot;

use super::raft::membership::{Change, NoChange, Status};
use crate::node::context::StartedShard;

/// Proposals that may wait for the control thread; beyond it they are refused rather than queued without bound.
const PROPOSALS_MAX: usize = 4096;
/// Operators' questions that may wait.
const QUESTIONS_MAX: usize = 256;
/// Reports of one shard that can wait at once: its start, its end, and one for each image it was told of; the control
/// thread tells of at most one between two looks at its reports.
const REPORTS_PER_SHARD: usize = 8;

/// A change of metadata that waits to be committed.
#[derive(Debug)]
pub struct Proposal {
    /// What to decide; `None` only waits for the shards.
    pub command: Option<Command>,
    /// How long to wait for the shards once it is committed.
    pub timeout: Duration,
    /// Takes apply's answer.
    pub reply: oneshot::Sender<Result<Answer, ControlError>>,
}

/// What is asked about the quorum itself.
#[derive(Debug)]
pub enum Question {
    /// What its leader knows of it.
    Status(oneshot::Sender<Result<Status, ControlError>>),
    /// Another membership.
    Change(Change, oneshot::Sender<Result<(), ControlError>>),
    /// Whether the process of another node's shard, in this registration of it, is dead.
    Suspect(
        (BrokerId, BrokerEpoch),
        oneshot::Sender<Result<bool, ControlError>>,
    ),
}

/// What the rest of the node tells the control thread.
#[derive(Debug)]
pub enum Report {
    /// A shard serves by the image of this offset.
    Applied {
        /// Which shard.
        shard: u32,
        /// Which image.
        offset: MetadataOffset,
    },
    /// A shard has replayed and listens.
    Started {
        /// Which shard.
        shard: u32,
        /// What it found and bound.
        started: StartedShard,
    },
    /// A shard's executor ended.
    Ended {
        /// Which shard.
        shard: u32,
        /// Why, unless it was told to stop.
        result: Result<(), String>,
    },
    /// The node shall stop (a signal came).
    Stop,
    /// One shard shall stop, or start again, while the node goes on.
    Order {
        /// Which shard.
        shard: u32,
        /// What of it.
        order: ShardOrder,
        /// Whether that fits its state.
        reply: oneshot::Sender<Result<(), OrderError>>,
    },
}

/// Why an order to a shard changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum OrderError {
    /// There is none of this number.
    #[error("the node has no such shard")]
    Unknown,
    /// It is down, or not there yet.
    #[error("it does not run")]
    NotRunning,
    /// It does not need to be started.
    #[error("it runs, or is about to")]
    Running,
    /// No shard has a life of its own then.
    #[error("the node is starting or stopping")]
    NotServing,
}

/// What can be asked of one shard while its node goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShardOrder {
    /// Hand its leaderships over, close its store and end. It is fenced once it has ended.
    Stop,
    /// Start again, as a new registration; or go on after a pause.
    Start,
    /// Stand still, as one that hangs. Nobody is told.
    Pause,
    /// It is gone already, without a word: for a simulation that kills it.
    Lost,
}

/// The control thread's end of its mailboxes: one lane a kind, so that proposals never keep a report out.
pub struct ControlInbox {
    /// Changes of metadata.
    pub proposals: Receiver<Proposal>,
    /// Questions about the quorum.
    pub questions: Receiver<Question>,
    /// What shards and signals report.
    pub reports: Receiver<Report>,
}

/// Why a proposal has no answer.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ControlError {
    /// Too many proposals wait.
    #[error("too many metadata changes wait; try again")]
    Busy,
    /// The node stops.
    #[error("the node is stopping")]
    Stopping,
    /// The quorum refuses it, for this reason.
    #[error("{0}")]
    Refused(String),
    /// The membership of the quorum is as asked for, or does not hold who was meant.
    #[error("{1}")]
    NoChange(NoChange, String),
    /// No majority of the quorum answers: the change may not have been made.
    #[error("the metadata quorum did not commit it: {0}")]
    NoMajority(String),
    /// The quorum's disk is full: nothing was changed.
    #[error("the metadata could not be stored: {0}")]
    Storage(String),
}

impl ControlError {
    /// The code a client gets.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Busy | Self::NoMajority(_) => ErrorCode::RequestTimedOut,
            Self::Refused(_) => ErrorCode::InvalidRequest,
            Self::NoChange(NoChange::DuplicateVoter, _) => ErrorCode::DuplicateVoter,
            Self::NoChange(NoChange::VoterNotFound, _) => ErrorCode::VoterNotFound,
            Self::Stopping => ErrorCode::NotController,
            Self::Storage(_) => ErrorCode::KafkaStorageError,
        }
    }
}

fn refused<T>(error: SendError<T>) -> ControlError {
    match error {
        SendError::Full(_) => ControlError::Busy,
        SendError::Closed(_) => ControlError::Stopping,
    }
}

/// Asks the control thread, from any thread. Clone it freely.
#[derive(Clone)]
pub struct ControlClient {
    proposals: Sender<Proposal>,
    questions: Sender<Question>,
    reports: Sender<Report>,
}

impl ControlClient {
    /// A client and the control thread's end, for a node of `shards` shards.
    pub fn new(shards: u32) -> (Self, ControlInbox) {
        let (proposals, proposals_inbox) = mailbox(PROPOSALS_MAX);
        let (questions, questions_inbox) = mailbox(QUESTIONS_MAX);
        let (reports, reports_inbox) = mailbox((shards as usize + 1) * REPORTS_PER_SHARD);
        let inbox = ControlInbox {
            proposals: proposals_inbox,
            questions: questions_inbox,
            reports: reports_inbox,
        };
        let client = Self {
            proposals,
            questions,
            reports,
        };
        (client, inbox)
    }

    /// Has `command` committed, and waits until every shard serves by an image that contains it, but not beyond
    /// `timeout` after the commit: what is committed is answered as such even if a shard lags.
    ///
    /// # Errors
    /// [`ControlError`] if it was not committed, or may not have been because the node stops.
    pub async fn propose(&self, command: Command, timeout: Duration) -> Result<Answer, ControlError> {
        self.ask(Some(command), timeout).await
    }

    /// Waits until every shard serves by all that is committed now, but no longer than `timeout`.
    ///
    /// # Errors
    /// [`ControlError`] if the node stops, or too many wait.
    pub async fn settled(&self, timeout: Duration) -> Result<(), ControlError> {
        self.ask(None, timeout).await.map(drop)
    }

    /// What the quorum's leader knows of it.
    ///
    /// # Errors
    /// [`ControlError`] if there is no leader, or it does not answer.
    pub async fn quorum_status(&self) -> Result<Status, ControlError> {
        let (reply, answer) = oneshot::channel();
        self.question(Question::Status(reply), answer).await
    }

    /// Changes who votes and who learns.
    ///
    /// # Errors
    /// [`ControlError`] if it was not done, or may not have been.
    pub async fn change_quorum(&self, change: Change) -> Result<(), ControlError> {
        let (reply, answer) = oneshot::channel();
        self.question(Question::Change(change, reply), answer).await
    }

    /// A link to this registration of another node's shard is gone, and its port refuses: has the quorum's leader told if the process is
    /// dead. Whether it was.
    ///
    /// # Errors
    /// [`ControlError`] if the leader could not be told.
    pub async fn suspect(&self, broker: BrokerId, epoch: BrokerEpoch) -> Result<bool, ControlError> {
        let (reply, answer) = oneshot::channel();
        self.question(Question::Suspect((broker, epoch), reply), answer)
            .await
    }

    async fn question<T>(
        &self,
        question: Question,
        answer: oneshot::Receiver<Result<T, ControlError>>,
    ) -> Result<T, ControlError> {
        self.questions.send(question).map_err(refused)?;
        answer.await.unwrap_or(Err(ControlError::Stopping))
    }

    async fn ask(&self, command: Option<Command>, timeout: Duration) -> Result<Answer, ControlError> {
        let (reply, answer) = oneshot::channel();
        self.proposals
            .send(Proposal {
                command,
                timeout,
                reply,
            })
            .map_err(refused)?;
        answer.await.unwrap_or(Err(ControlError::Stopping))
    }

    /// A block of producer ids for `broker`, never given to anyone else.
    ///
    /// # Errors
    /// The code and text for the client.
    pub async fn allocate_producer_ids(
        &self,
        broker: BrokerId,
    ) -> Result<BlockOfProducerIds, (ErrorCode, String)> {
        let command = Command::AllocateProducerIds { broker };
        match self.propose(command, Duration::ZERO).await {
            Ok(Answer::ProducerIds(block)) => {
                block.map_err(|error: ApplyError| (error.code(), error.to_string()))
            }
            Ok(other) => unreachable!("apply answers an allocation with producer ids, not {other:?}"),
            Err(error) => Err((error.code(), error.to_string())),
        }
    }

    /// Reports that `shard` serves by the image of `offset`.
    pub fn applied(&self, shard: u32, offset: MetadataOffset) {
        self.tell(Report::Applied { shard, offset });
    }

    /// Reports that `shard` has replayed and listens.
    pub fn started(&self, shard: u32, started: StartedShard) {
        self.tell(Report::Started { shard, started });
    }

    /// Reports that the executor of `shard` ended.
    pub fn ended(&self, shard: u32, result: Result<(), String>) {
        self.tell(Report::Ended { shard, result });
    }

    /// Asks something of one shard. The answer says whether that fits its state; it is not done yet then.
    pub fn order(&self, shard: u32, order: ShardOrder) -> oneshot::Receiver<Result<(), OrderError>> {
        let (reply, answer) = oneshot::channel();
        self.tell(Report::Order { shard, order, reply });
        answer
    }

    /// Asks the node to stop.
    pub fn stop(&self) {
        self.tell(Report::Stop);
    }

    fn tell(&self, report: Report) {
        match self.reports.send(report) {
            // Nobody is left who needs it.
            Ok(()) | Err(SendError::Closed(_)) => {}
            Err(SendError::Full(report)) => {
                panic!("the report lane has room for every shard's reports: {report:?}")
            }
        }
    }
}
