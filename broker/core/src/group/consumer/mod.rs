//! A group of the consumer protocol (KIP-848): ConsumerGroupHeartbeat and ConsumerGroupDescribe.
//!
//! - [`record`]: what is kept of a group, and its bytes.

mod assignment;
pub mod record;
#[cfg(test)]
mod testing;

pub use assignment::Assignment;
