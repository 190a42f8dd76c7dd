//! The control thread: the metadata quorum, its image, and what the rest of the node asks of them.

pub mod client;
