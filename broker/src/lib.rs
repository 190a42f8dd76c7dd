//! The server: shards, listeners, handlers, and the control thread that holds the cluster's metadata.

pub mod admin;
pub mod cli;
pub mod config;
mod connection;
pub mod control;
mod group;
mod handlers;
pub mod http;
mod link;
pub mod node;
mod replica;
pub mod shard;
