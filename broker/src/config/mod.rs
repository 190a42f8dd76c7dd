//! The node's configuration: from files, environment and flags to typed values.

pub mod broker;

pub use broker::BrokerConfig;
