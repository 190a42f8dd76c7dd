//! The tool's own client: small, pipelined, and free of everything that would measure itself.
//!
//! [`blocking`] asks one question at a time (set-up, never timed); [`cluster`] knows the questions; [`pipe`] carries the load;
//! [`dial`] opens connections, with TLS and SASL if the [`security`] asks for them.

pub mod blocking;
pub mod cluster;
pub mod dial;
pub mod pipe;
mod scram;
pub mod security;

pub use blocking::Connection;
pub use cluster::{Cluster, ProducerIdentity, TopicLayout};
pub use dial::Dialer;
pub use pipe::Pipe;
pub use security::Security;

use strandline_wire::{ApiKey, ErrorCode, WireError};

/// The name under which brokers see this tool.
pub const CLIENT_ID: &str = "strandline-bench";

/// The highest Produce version spoken: the last that names topics, so that a run needs no topic ids.
pub const PRODUCE_VERSION_MAX: i16 = 12;

/// The highest Fetch version spoken, for the same reason.
pub const FETCH_VERSION_MAX: i16 = 12;

/// Why a conversation with a broker failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No connection, or it broke.
    #[error("{address}: {source}")]
    Io {
        /// The broker.
        address: String,
        /// What the socket said.
        source: std::io::Error,
    },
    /// The answer cannot be read.
    #[error("{0}")]
    Wire(#[from] WireError),
    /// The broker does not serve what the tool needs.
    #[error("the broker does not serve {} in a version that this tool speaks", .0.name())]
    Unsupported(ApiKey),
    /// The broker refused.
    #[error("{what}: {} ({}){}", .code.name(), .code.code(), .message.as_deref().map(|m| format!(": {m}")).unwrap_or_default())]
    Refused {
        /// What was asked.
        what: String,
        /// The broker's code.
        code: ErrorCode,
        /// The broker's text, where the version has one.
        message: Option<String>,
    },
    /// The broker never reached the state that was waited for.
    #[error("{0}")]
    NotReady(String),
}
