//! Committed offsets, and the records that `__consumer_offsets` keeps them in.
//!
//! - [`record`]: the keys and values of `__consumer_offsets`, byte for byte as Kafka writes them.
//! - [`store`]: the offsets of the groups of one partition of that topic, and which of them expire.
//! - [`placement`]: which partition of that topic a group belongs to.
//!
//! Nothing here knows members: who may commit is for the state machines of the groups to say.

mod few;
pub mod placement;
pub mod record;
pub mod store;
#[cfg(test)]
mod store_tests;

pub use placement::{OFFSETS_TOPIC, partition_of};
pub use record::{OffsetsRecord, RecordError};
pub use store::{CommittedOffset, ExpiryBase, OffsetStore};
