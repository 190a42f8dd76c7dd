//! One error enum a boundary. The broker maps them to Kafka's codes.

use std::io;

use crate::types::{Offset, TopicPartitionId};

/// The shard stopped: a write or flush failed, or it was closed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the shard's storage stopped: {reason}")]
pub struct Stopped {
    /// What happened, for people.
    pub reason: std::rc::Rc<str>,
}

/// Why a store cannot be formatted or opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The disk refused.
    #[error("{action} {path}: {source}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file or folder.
        path: String,
        /// What the system said.
        source: io::Error,
    },
    /// Format was asked for a directory that holds a store.
    #[error("{path} is formatted already")]
    AlreadyFormatted {
        /// The directory.
        path: String,
    },
    /// There is no store in the directory.
    #[error("{path} holds no store")]
    NotFormatted {
        /// The directory.
        path: String,
    },
    /// A size is out of its bounds.
    #[error("{0}")]
    BadOptions(String),
    /// Both checkpoint slots are gone, torn or of another format.
    #[error("no usable checkpoint in {path}: {detail}")]
    NoCheckpoint {
        /// The directory.
        path: String,
        /// What was wrong with each slot.
        detail: String,
    },
}

/// Why a change of a log or of the store was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The shard stopped.
    #[error(transparent)]
    Stopped(#[from] Stopped),
    /// A log of this partition exists.
    #[error("log {0} exists")]
    Exists(TopicPartitionId),
    /// No log of this partition exists, or it was deleted meanwhile.
    #[error("log {0} does not exist")]
    Unknown(TopicPartitionId),
    /// The log is damaged.
    #[error("log {id} is damaged from offset {from} on")]
    Damaged {
        /// The log.
        id: TopicPartitionId,
        /// The first offset that may be gone.
        from: Offset,
    },
    /// The deadline passed while the store had no room.
    #[error("no memory or journal space was free before the deadline")]
    Busy,
    /// The argument makes no sense for the log as it is.
    #[error("{0}")]
    Invalid(&'static str),
}

/// Why a batch was not appended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AppendError {
    /// The shard stopped.
    #[error(transparent)]
    Stopped(#[from] Stopped),
    /// The batch is one of the producer's last five: answer its first answer once that would be due.
    #[error("duplicate of the batch at offset {base_offset}")]
    Duplicate {
        /// Where the first copy begins.
        base_offset: Offset,
        /// Where it ends.
        last_offset: Offset,
        /// Its maximum timestamp.
        timestamp: i64,
    },
    /// The sequence does not follow the producer's last one.
    #[error("producer {producer_id}: sequence {sequence} does not follow {last}")]
    OutOfOrderSequence {
        /// The producer.
        producer_id: i64,
        /// The batch's first sequence.
        sequence: i32,
        /// The last one known; -1 when none.
        last: i32,
    },
    /// The producer's epoch is older than the one known.
    #[error("producer {producer_id}: epoch {epoch} is older than {current}")]
    InvalidProducerEpoch {
        /// The producer.
        producer_id: i64,
        /// The batch's epoch.
        epoch: i16,
        /// The one known.
        current: i16,
    },
    /// The file system has less free space than the reserve.
    #[error("free space is below strandline.disk.free.min.bytes")]
    StorageFull,
    /// The log is damaged.
    #[error("the log is damaged from offset {from} on")]
    Damaged {
        /// The first offset that may be gone.
        from: Offset,
    },
    /// The log was deleted or set aside.
    #[error("the log was deleted")]
    Deleted,
    /// The batch is too large for any segment.
    #[error("a batch of {bytes} bytes is too large for a frame")]
    TooLarge {
        /// Its size.
        bytes: usize,
    },
}

/// Why a replica did not take a frame of its leader.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The shard stopped.
    #[error(transparent)]
    Stopped(#[from] Stopped),
    /// The file system has less free space than the reserve.
    #[error("free space is below strandline.disk.free.min.bytes")]
    StorageFull,
    /// The log is damaged.
    #[error("the log is damaged from offset {from} on")]
    Damaged {
        /// The first offset that may be gone.
        from: Offset,
    },
    /// The log was deleted or set aside.
    #[error("the log was deleted")]
    Deleted,
    /// The bytes are no frame of this log.
    #[error("the bytes are no frame of this log: {0}")]
    Invalid(String),
    /// The frame does not follow what the log has.
    #[error("{0}")]
    OutOfPlace(&'static str),
}

/// Why a read gave nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The shard stopped.
    #[error(transparent)]
    Stopped(#[from] Stopped),
    /// The offset is below the start or above the end of the log.
    #[error("offset {offset} is outside {start}..={end}")]
    OutOfRange {
        /// What was asked.
        offset: Offset,
        /// The log's start offset.
        start: Offset,
        /// The log's end offset.
        end: Offset,
    },
    /// The bytes at this offset are not what was written.
    #[error("the log is damaged from offset {from} on: {detail}")]
    Damaged {
        /// The first offset that may be gone.
        from: Offset,
        /// What was found.
        detail: String,
    },
    /// The log was deleted or set aside.
    #[error("the log was deleted")]
    Deleted,
    /// The disk refused a read.
    #[error("read failed: {0}")]
    Io(String),
}
