//! What goes over a link once it is open.

use thiserror::Error;

use crate::metadata::{LeaderEpoch, PartitionReference};

/// A message, without the frames that follow one of [`LinkMessage::Frames`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkMessage {
    /// The follower asks for frames of these partitions.
    Open(Vec<LinkOpen>),
    /// The leader answers opens.
    Opened(Vec<LinkOpened>),
    /// The head of frames of one partition, or only the leader's high watermark and log start.
    Frames(LinkFrames),
    /// The follower tells how far it is.
    Ack(Vec<LinkAck>),
    /// The follower has reserved memory: so many bytes in all since the link opened.
    Credit {
        /// For which frames.
        window: Window,
        /// In all, so that the newest says everything.
        bytes: u64,
    },
    /// Nothing to say: the link lives.
    Alive,
}

/// Which frames a credit is for: those of the tail never wait behind a follower's catching up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// Frames that were just appended.
    Tail,
    /// Older ones.
    CatchUp,
}

/// A partition to open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkOpen {
    /// Which.
    pub partition: PartitionReference,
    /// The epoch the follower follows in.
    pub leader_epoch: LeaderEpoch,
    /// Which open of this follower in this epoch.
    pub open: u32,
    /// The epoch of its last frame; -1 without one.
    pub last_epoch: i32,
    /// Its appended end.
    pub end: i64,
    /// Its log start.
    pub start: i64,
}

/// A partition opened, or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkOpened {
    /// Which.
    pub partition: PartitionReference,
    /// The epoch the leader leads in.
    pub leader_epoch: LeaderEpoch,
    /// Which open.
    pub open: u32,
    /// The answer.
    pub answer: Answer,
}

/// The answer to an open.
pub type Answer = crate::replica::message::OpenAnswer;

/// The head of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkFrames {
    /// Of which partition.
    pub partition: PartitionReference,
    /// The epoch the leader leads in.
    pub leader_epoch: LeaderEpoch,
    /// Which open they belong to.
    pub open: u32,
    /// Whose credit they take.
    pub window: Window,
    /// The leader's high watermark.
    pub high_watermark: i64,
    /// The leader's log start.
    pub log_start: i64,
}

/// How far a follower is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkAck {
    /// In which partition.
    pub partition: PartitionReference,
    /// The epoch the follower follows in.
    pub leader_epoch: LeaderEpoch,
    /// Which open this belongs to.
    pub open: u32,
    /// Everything below is flushed (of a relaxed topic: written).
    pub end: i64,
    /// Its log start.
    pub log_start: i64,
}

/// What is wrong with bytes that came over a link; the link is closed for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum LinkError {
    /// A message ends before its fields do.
    #[error("a message is too short for its fields")]
    Short,
    /// More bytes than fields.
    #[error("a message is longer than its fields by {0} bytes")]
    Long(usize),
    /// A list with another number of entries than it says.
    #[error("a message does not hold the {0} entries that it says")]
    Count(usize),
    /// The head is larger than any.
    #[error("a message's head of {0} bytes is larger than any")]
    HeadTooLarge(u32),
    /// The body is larger than the receiver takes.
    #[error("a message's body of {0} bytes is larger than any")]
    BodyTooLarge(u32),
    /// Frames behind a message that has none.
    #[error("a message of kind {0} has a body")]
    Body(u8),
    /// Bits changed on the way.
    #[error("a message's checksum is wrong")]
    Checksum,
    /// A message was lost, or came twice.
    #[error("message {found} came where {expected} was due")]
    Sequence {
        /// The one due.
        expected: u64,
        /// The one that came.
        found: u64,
    },
    /// Not a kind of this version.
    #[error("messages of kind {0} are not known")]
    Kind(u8),
    /// A field with a value that it cannot have.
    #[error("field {field} has the value {value}")]
    Field {
        /// Which.
        field: &'static str,
        /// What it says.
        value: u8,
    },
    /// An offset below zero.
    #[error("{0} is no offset")]
    Offset(i64),
}
