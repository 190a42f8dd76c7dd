//! The node's configuration: from files, environment and flags to typed values.
//!
//! [`sources`] gathers texts by key, [`check`] judges them by the table, [`resolve`] makes a [`BrokerConfig`] of them.

pub mod broker;
pub mod check;
pub mod controller;
mod descriptors;
mod error;
pub mod hosts;
pub mod links;
pub mod listeners;
pub mod machine;
pub mod print;
mod properties;
pub mod resolve;
pub mod sources;
mod toml_file;

pub use broker::BrokerConfig;
pub use error::ConfigError;
pub use sources::{Origin, Settings};
