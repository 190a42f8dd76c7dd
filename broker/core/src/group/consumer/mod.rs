//! A group of the consumer protocol (KIP-848): ConsumerGroupHeartbeat and ConsumerGroupDescribe.
//!
//! Pure: the shell passes the time in milliseconds since 1970, the topics, and random ids for members that have none.
//! The rules are Apache Kafka 4.2's.
//!
//! A group is the sum of its [`record`]s. A step changes the group only by applying records, and hands the same records
//! out to be stored; the answer waits for that. Any beginning of the records that were handed out is a sound group, so a
//! crash in the middle of a step loses that step alone.
//!
//! # How the shell drives a group
//!
//! | what happens | what the shell calls |
//! |---|---|
//! | a ConsumerGroupHeartbeat | without a group: [`ConsumerGroup::new`]; then [`ConsumerGroup::heartbeat`], or in parts with [`ConsumerGroup::begin_heartbeat`], so that members that come together share a target; if it does not [`exist`](ConsumerGroup::exists) after that, it is dropped |
//! | a ConsumerGroupHeartbeat with epoch 0 to a classic group | if that is empty: its tombstone, then as without a group; else, if the [`MigrationPolicy`] allows it, [`ConsumerGroup::upgraded`], then as above |
//! | JoinGroup, SyncGroup, Heartbeat, LeaveGroup to this group | [`ConsumerGroup::classic_join`] and so on; to one that [`is_empty`](ConsumerGroup::is_empty), a JoinGroup makes a classic group after [`ConsumerGroup::delete`] |
//! | OffsetCommit, TxnOffsetCommit; OffsetFetch | [`ConsumerGroup::commit_allowed`]; [`ConsumerGroup::fetch_allowed`] |
//! | OffsetDelete, expiry of offsets | [`ConsumerGroup::is_subscribed_to`] |
//! | how much memory a group takes | [`ConsumerGroup::bytes`] |
//! | ConsumerGroupDescribe, ListGroups | [`ConsumerGroup::describe`], [`ConsumerGroup::state`] |
//! | DeleteGroups, or the last offset of an empty group expired | [`ConsumerGroup::delete`] |
//! | [`ConsumerGroup::deadline_ms`] has come | [`ConsumerGroup::tick`] |
//! | after each of these: [`ConsumerGroup::may_downgrade`], and the policy and `group.max.size` allow it | [`ConsumerGroup::migrating_members`], the classic group of them, [`ConsumerGroup::dissolve`] |
//! | only some of a step's records could be stored | [`ConsumerGroup::take_back`] |
//! | a record is loaded; all are | [`record::decode`], [`ConsumerGroup::replay`]; [`ConsumerGroup::loaded`] |
//!
//! The code: validation and epochs are in `heartbeat`, the target in `target`, one member's step towards it in `reconcile`,
//! regular expressions in `regexes` and `pattern`, leaving and timeouts in `leave`, the protocols' changes in `migrate`,
//! `classic_members` and `embedded`; [`assignor`] says who is meant to own what.
//!
//! Invariants: a partition is never owned by two members; epochs never go back.

mod assignment;
pub mod assignor;
mod classic_members;
mod describe;
#[cfg(test)]
mod describe_tests;
mod embedded;
mod heartbeat;
#[cfg(test)]
mod heartbeat_tests;
mod leave;
#[cfg(test)]
mod leave_tests;
mod memory;
mod migrate;
#[cfg(test)]
mod migrate_model_tests;
#[cfg(test)]
mod migrate_tests;
#[cfg(test)]
mod model_tests;
mod pattern;
mod reconcile;
pub mod record;
mod regexes;
#[cfg(test)]
mod regexes_tests;
mod request;
mod state;
mod target;
#[cfg(test)]
mod target_tests;
#[cfg(test)]
mod testing;
mod topics;

pub use assignment::Assignment;
pub use describe::{DescribedTopic, GroupDescription, MemberDescription};
pub use heartbeat::{Heartbeat, PendingHeartbeat};
pub use migrate::MigrationPolicy;
pub use request::{
    ConsumerGroupConfig, Effects, FenceReason, FencedMember, GroupError, HeartbeatAnswer, HeartbeatRequest,
    JOIN_EPOCH, LEAVE_EPOCH, LEAVE_STATIC_EPOCH,
};
pub use state::{ConsumerGroup, ConsumerGroupState};
pub use topics::{TopicImage, TopicInfo};
