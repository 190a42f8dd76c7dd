//! What is kept of a group of the consumer protocol in `__consumer_offsets`.
//!
//! A group is the sum of its records: the machine changes itself only by applying a record that it also hands out to be
//! stored, so replaying them builds it again. The keys carry Kafka's numbers:
//!
//! | key | record | one for |
//! |---|---|---|
//! | 3 | [`GroupEpoch`] | a group |
//! | 4 | topic metadata, as brokers before Kafka 4.1 wrote it; read, never written but for its tombstone | a group |
//! | 5 | [`MemberMetadata`] | a member |
//! | 6 | the epoch of the target assignment | a group |
//! | 7 | the target [`Assignment`] | a member |
//! | 8 | [`CurrentAssignment`] | a member |
//! | 16 | [`ResolvedRegex`] | a regular expression |

mod codec;
#[cfg(test)]
mod codec_tests;

use std::collections::BTreeSet;
use std::rc::Rc;

pub use codec::{DecodeError, decode, encode};

use super::assignment::Assignment;

/// A member's id.
pub type MemberId = Rc<str>;

/// One record of a group; a payload of `None` is a tombstone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConsumerRecord {
    /// Key 3. Its tombstone deletes the group.
    GroupEpoch(Option<GroupEpoch>),
    /// Key 4, from brokers before Kafka 4.1; `true` for a value, whose content nobody needs.
    TopicMetadata(bool),
    /// Key 5. Its tombstone removes the member.
    Member(MemberId, Option<Rc<MemberMetadata>>),
    /// Key 6: the group epoch that the target assignment was computed for.
    TargetEpoch(Option<i32>),
    /// Key 7: the partitions that the member is to own in the end.
    Target(MemberId, Option<Assignment>),
    /// Key 8.
    Current(MemberId, Option<CurrentAssignment>),
    /// Key 16: a regular expression and what it matches.
    Regex(Rc<str>, Option<Rc<ResolvedRegex>>),
}

/// Raised by every change of the members, their subscriptions, or the topics they subscribe to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupEpoch {
    /// The epoch.
    pub epoch: i32,
    /// A hash of the subscribed topics as they were; another hash asks for another epoch.
    pub metadata_hash: i64,
}

/// What a member says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemberMetadata {
    /// `group.instance.id` of a static member (KIP-345).
    pub instance_id: Option<Rc<str>>,
    /// `client.rack`.
    pub rack_id: Option<Rc<str>>,
    /// The client id of the last heartbeat.
    pub client_id: Rc<str>,
    /// The address of the last heartbeat, with Java's leading slash.
    pub client_host: Rc<str>,
    /// The topics it subscribes to by name.
    pub topic_names: Rc<BTreeSet<Rc<str>>>,
    /// The regular expression it subscribes by; empty if none.
    pub topic_regex: Rc<str>,
    /// How long it may take to give up partitions.
    pub rebalance_timeout_ms: i32,
    /// The assignor it asks for.
    pub server_assignor: Option<Rc<str>>,
    /// Set while the member speaks the classic protocol.
    pub classic: Option<ClassicMemberMetadata>,
}

/// What the classic protocol needs to know of a member of a group that was upgraded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClassicMemberMetadata {
    /// Its own session timeout.
    pub session_timeout_ms: i32,
    /// The protocols it supports with their metadata, in its order.
    pub supported_protocols: Vec<(Rc<str>, Rc<[u8]>)>,
}

/// Where a member stands on its way to the target assignment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MemberState {
    /// It owns what its epoch gives it.
    #[default]
    Stable,
    /// It must say that it gave up partitions before it moves on.
    UnrevokedPartitions,
    /// Partitions of its target are still with other members.
    UnreleasedPartitions,
    /// A state of a later version, kept as it is; such a member must join again.
    Unknown(i8),
}

impl MemberState {
    const fn code(self) -> i8 {
        match self {
            Self::Stable => 0,
            Self::UnrevokedPartitions => 1,
            Self::UnreleasedPartitions => 2,
            Self::Unknown(code) => code,
        }
    }

    const fn from_code(code: i8) -> Self {
        match code {
            0 => Self::Stable,
            1 => Self::UnrevokedPartitions,
            2 => Self::UnreleasedPartitions,
            code => Self::Unknown(code),
        }
    }
}

/// What a member owns and must give up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CurrentAssignment {
    /// The epoch it may commit with; 0 while it joins, -2 while a static member is away.
    pub epoch: i32,
    /// The epoch before, which it may still send when the answer that raised it was lost.
    pub previous_epoch: i32,
    /// Where it stands.
    pub state: MemberState,
    /// Its partitions.
    pub assigned: Assignment,
    /// Partitions that are its own until it says that it gave them up.
    pub pending_revocation: Assignment,
}

/// A regular expression matched against the topics of a metadata image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResolvedRegex {
    /// The topics that match.
    pub topics: BTreeSet<Rc<str>>,
    /// The version of the image.
    pub version: i64,
    /// When it was matched, in milliseconds since 1970.
    pub timestamp_ms: i64,
}
