//! Why bytes from outside could not be decoded, or a message not encoded.

/// Why a frame could not be decoded or encoded. The connection that sent it is closed, as Kafka does.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// The bytes end inside a field.
    #[error("the message ends inside {field}")]
    Truncated {
        /// The field, for the log line.
        field: &'static str,
    },
    /// A length or a count that the remaining bytes cannot hold.
    #[error("{field} claims {claimed}, but {remaining} bytes remain")]
    TooLong {
        /// The field, for the log line.
        field: &'static str,
        /// The length or element count as sent.
        claimed: i64,
        /// The bytes that remained.
        remaining: usize,
    },
    /// A negative length or count where the schema has no null.
    #[error("{field} is null or has a negative length")]
    NotNullable {
        /// The field, for the log line.
        field: &'static str,
    },
    /// A varint that does not fit its type.
    #[error("{field} is not a valid varint")]
    BadVarint {
        /// The field, for the log line.
        field: &'static str,
    },
    /// A string that is not UTF-8.
    #[error("{field} is not UTF-8")]
    NotUtf8 {
        /// The field, for the log line.
        field: &'static str,
    },
    /// A key that is not served here.
    #[error("API key {api_key} is not served")]
    UnknownApi {
        /// The key as sent.
        api_key: i16,
    },
    /// A version outside the served range.
    #[error("version {version} of API key {api_key} is not served")]
    UnsupportedVersion {
        /// The API.
        api_key: i16,
        /// The version as sent.
        version: i16,
    },
    /// The decoded form would be too many times larger than the bytes.
    #[error("the message would decode to more than {limit} bytes")]
    TooLarge {
        /// The bound that was passed.
        limit: usize,
    },
    /// The generated codec refused it.
    #[error("{0}")]
    Codec(String),
}
