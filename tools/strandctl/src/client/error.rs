//! Why a broker could not be asked, or what it answered instead.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use strandline_wire::{ErrorCode, WireError};

use crate::client_config::Address;

/// An error of the client. Every variant says which broker or which thing it is about. It can be cloned, since one
/// broken connection fails many partitions.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ClientError {
    /// The host name has no address.
    #[error("cannot resolve {address}: {source}")]
    Resolve {
        /// The broker.
        address: Address,
        /// What the resolver said.
        source: Arc<io::Error>,
    },
    /// No connection.
    #[error("cannot connect to {address}: {source}")]
    Connect {
        /// The broker.
        address: Address,
        /// What the system said.
        source: Arc<io::Error>,
    },
    /// The connection failed while in use.
    #[error("connection to {address}: {source}")]
    Io {
        /// The broker.
        address: Address,
        /// What the system said.
        source: Arc<io::Error>,
    },
    /// The broker closed the connection instead of answering.
    #[error("{address} closed the connection during {api}")]
    Closed {
        /// The broker.
        address: Address,
        /// The request that was not answered.
        api: &'static str,
    },
    /// No answer in time.
    #[error("{address} did not answer {api} within {} ms", limit.as_millis())]
    TimedOut {
        /// The broker.
        address: Address,
        /// The request that was not answered.
        api: &'static str,
        /// `request.timeout.ms`
        limit: Duration,
    },
    /// A response larger than the client takes, or a negative size.
    #[error("{address} announced a response of {size} bytes; the limit is {limit}")]
    ResponseTooLarge {
        /// The broker.
        address: Address,
        /// The size as announced.
        size: i32,
        /// `receive.message.max.bytes`
        limit: usize,
    },
    /// The other side speaks HTTP.
    #[error("{address} answers in HTTP: it is no Kafka listener")]
    Http {
        /// The broker.
        address: Address,
    },
    /// Bytes that are no response to what was asked.
    #[error("{address} answered {api} with bytes that are no answer to it: {reason}")]
    Malformed {
        /// The broker.
        address: Address,
        /// The request.
        api: &'static str,
        /// What is wrong with the bytes.
        reason: String,
    },
    /// The request could not be encoded, so that nothing was sent.
    #[error("{api} cannot be encoded: {source}")]
    Encode {
        /// The request.
        api: &'static str,
        /// The field at fault.
        source: WireError,
    },
    /// No version of an API that both sides speak.
    #[error("{address} serves no version of {api} that strandctl speaks ({ours}; broker: {theirs})")]
    Unsupported {
        /// The broker.
        address: Address,
        /// The API.
        api: &'static str,
        /// The versions of this client.
        ours: String,
        /// The versions of the broker.
        theirs: String,
    },
    /// An error code of the broker.
    #[error("{subject}: {code}{}", text.as_ref().map(|text| format!(": {text}")).unwrap_or_default())]
    Broker {
        /// What was asked for.
        subject: String,
        /// Kafka's code.
        code: ErrorCode,
        /// The broker's words.
        text: Option<String>,
    },
    /// A partition without a leader.
    #[error("{topic}-{partition} has no leader")]
    NoLeader {
        /// The topic.
        topic: String,
        /// The partition.
        partition: i32,
    },
    /// Records that cannot be read.
    #[error("{topic}-{partition} at offset {offset}: {reason}")]
    Records {
        /// The topic.
        topic: String,
        /// The partition.
        partition: i32,
        /// Where the unreadable batch starts or was asked for.
        offset: i64,
        /// What is wrong with it.
        reason: String,
    },
    /// An error that is retried did not go away.
    #[error("{last} (gave up after {} s)", after.as_secs())]
    GaveUp {
        /// How long it was retried.
        after: Duration,
        /// The last error.
        last: Box<ClientError>,
    },
}

impl ClientError {
    /// An error code of the broker, with its text where it gave one.
    pub fn broker(subject: impl Into<String>, code: ErrorCode, text: Option<String>) -> Self {
        // An empty text says no more than none.
        Self::Broker {
            subject: subject.into(),
            code,
            text: text.filter(|text| !text.is_empty()),
        }
    }

    /// Kafka's code, where the broker gave one.
    pub fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Broker { code, .. } => Some(*code),
            Self::NoLeader { .. } => Some(ErrorCode::LeaderNotAvailable),
            Self::GaveUp { last, .. } => last.code(),
            _ => None,
        }
    }

    /// The same giving up, with another last error; an error that is no giving up gives way to it.
    pub fn about(self, error: ClientError) -> Self {
        match self {
            Self::GaveUp { after, .. } => Self::GaveUp {
                after,
                last: Box::new(error),
            },
            _ => error,
        }
    }

    /// True where asking again, with fresh metadata, may help.
    pub fn is_retriable(&self) -> bool {
        match self {
            Self::Broker { code, .. } => code.is_retriable(),
            Self::Resolve { .. }
            | Self::Connect { .. }
            | Self::Io { .. }
            | Self::Closed { .. }
            | Self::TimedOut { .. }
            | Self::NoLeader { .. } => true,
            Self::ResponseTooLarge { .. }
            | Self::Http { .. }
            | Self::Malformed { .. }
            | Self::Encode { .. }
            | Self::Unsupported { .. }
            | Self::Records { .. }
            | Self::GaveUp { .. } => false,
        }
    }
}
