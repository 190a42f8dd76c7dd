//! A group of the consumer protocol (KIP-848): ConsumerGroupHeartbeat and ConsumerGroupDescribe.
//!
//! Pure: the shell passes the time in milliseconds since 1970, the topics, and random ids for members that have none.
//! The rules are Apache Kafka 4.2's.
//!
//! A group is the sum of its [`record`]s. A step changes the group only by applying records, and hands the same records
//! out to be stored; the answer waits for that. Any beginning of the records that were handed out is a sound group, so a
//! crash in the middle of a step loses that step alone.
//!
//! - [`ConsumerGroup::heartbeat`]: validation, members, epochs, the target (`heartbeat`), regular expressions
//!   (`regexes`, `pattern`), one member's step towards the target (`reconcile`), leaving (`leave`).
//! - [`ConsumerGroup::tick`]: session and rebalance timeouts.
//! - [`ConsumerGroup::describe`], [`ConsumerGroup::commit_allowed`], [`ConsumerGroup::fetch_allowed`],
//!   [`ConsumerGroup::is_subscribed_to`], [`ConsumerGroup::delete`].
//! - [`ConsumerGroup::replay`], [`ConsumerGroup::loaded`]: a group from its stored records.
//! - [`assignor`]: who is meant to own what.
//!
//! Invariants: a partition is never owned by two members; epochs never go back.

mod assignment;
pub mod assignor;
mod describe;
#[cfg(test)]
mod describe_tests;
mod heartbeat;
#[cfg(test)]
mod heartbeat_tests;
mod leave;
#[cfg(test)]
mod leave_tests;
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
#[cfg(test)]
mod testing;
mod topics;

pub use assignment::Assignment;
pub use describe::{DescribedTopic, GroupDescription, MemberDescription};
pub use request::{
    ConsumerGroupConfig, Effects, FenceReason, FencedMember, GroupError, HeartbeatAnswer, HeartbeatRequest,
    JOIN_EPOCH, LEAVE_EPOCH, LEAVE_STATIC_EPOCH,
};
pub use state::{ConsumerGroup, ConsumerGroupState};
pub use topics::{TopicImage, TopicInfo};
