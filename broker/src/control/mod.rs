//! The control thread: the metadata quorum, its image, and what the rest of the node asks of them.
//!
//! Nothing here names an executor: the node runs it on tokio, the simulator on virtual time.

mod beats;
pub mod client;
pub mod failure;
pub mod quorum;
pub mod raft;
pub mod run;
mod shards;
pub mod store;
mod told;
mod waiting;
