//! The server: shards, listeners, handlers, and the control thread that holds the cluster's metadata.

pub mod admin;
pub mod config;
pub mod control;
pub mod node;
