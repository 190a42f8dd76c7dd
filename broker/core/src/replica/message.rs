//! What leader and follower of a partition say to each other.
//!
//! Every message names the leader epoch and its sender's broker epoch; one with others than the receiver knows is
//! dropped. `open` numbers the opens of one follower in one leader epoch: what belongs to an earlier one is dropped too.

use crate::metadata::{BrokerEpoch, BrokerId, LeaderEpoch};

/// A follower asks its leader for frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Open {
    /// The follower.
    pub broker: BrokerId,
    /// Its registration.
    pub broker_epoch: BrokerEpoch,
    /// The epoch it follows in.
    pub leader_epoch: LeaderEpoch,
    /// Which open of this follower, from 1.
    pub open: u32,
    /// The leader epoch of its last frame; -1 without one.
    pub last_epoch: i32,
    /// Its appended end.
    pub end: i64,
    /// Its log start.
    pub start: i64,
}

/// What the leader answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenAnswer {
    /// The logs agree as far as epochs can tell; frames follow from the asked end on.
    Stream,
    /// The leader has no such end in that epoch: its largest epoch at or below the asked one, and where that ends.
    Diverging {
        /// -1 for none.
        epoch: i32,
        /// The offset where the next epoch starts, or the log ends.
        end: i64,
    },
    /// All below was deleted, and the follower has nothing that agrees with the leader from here on.
    StartsAt {
        /// The leader's log start.
        log_start: i64,
    },
}

/// The answer to an [`Open`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// The leader's registration.
    pub broker_epoch: BrokerEpoch,
    /// The epoch it leads in.
    pub leader_epoch: LeaderEpoch,
    /// Which open.
    pub open: u32,
    /// The answer.
    pub answer: OpenAnswer,
}

/// What a follower checks of a frame before it takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameInfo {
    /// Its first record.
    pub base_offset: i64,
    /// The offset after its last one.
    pub end_offset: i64,
    /// The epoch of the leader that appended it.
    pub leader_epoch: i32,
    /// The chain value of the frame appended before it; 0 where its leader knew none, because all before was deleted: then
    /// it says nothing.
    pub previous: u64,
    /// Its own: the checksum it was first appended with.
    pub chain: u64,
    /// Offsets before it are missing: the cleaner removed them.
    pub gap: bool,
}

/// The head of a message with frames, possibly none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FramesHead {
    /// The leader's registration.
    pub broker_epoch: BrokerEpoch,
    /// The epoch it leads in.
    pub leader_epoch: LeaderEpoch,
    /// Which open these belong to.
    pub open: u32,
    /// The leader's high watermark.
    pub high_watermark: i64,
    /// The leader's log start.
    pub log_start: i64,
}

/// A follower tells how far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack {
    /// The follower.
    pub broker: BrokerId,
    /// Its registration.
    pub broker_epoch: BrokerEpoch,
    /// The epoch it follows in.
    pub leader_epoch: LeaderEpoch,
    /// Which open this belongs to.
    pub open: u32,
    /// Everything below is flushed (of a relaxed topic: written).
    pub end: i64,
    /// Its log start.
    pub log_start: i64,
}
