//! What can be wrong with a configuration; each text names the key and the remedy.

use std::path::PathBuf;

use thiserror::Error;

/// A configuration that the node does not start with.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("the configuration file {path} cannot be read: {reason}", path = path.display())]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// The system's words.
        reason: String,
    },
    /// The file does not parse.
    #[error("{path}: {reason}", path = path.display())]
    Syntax {
        /// Which file.
        path: PathBuf,
        /// Line and cause.
        reason: String,
    },
    /// No such key.
    #[error("{origin}: unknown key '{key}'{hint}")]
    UnknownKey {
        /// Where it was set.
        origin: String,
        /// The key.
        key: String,
        /// The nearest known key, or why the key is gone; empty if there is nothing to say.
        hint: String,
    },
    /// A value that its key does not take, or that this version refuses.
    #[error("{origin}: {reason}")]
    Value {
        /// Where it was set.
        origin: String,
        /// Key, value and cause.
        reason: String,
    },
    /// Values that do not fit together, or not this machine.
    #[error("{0}")]
    Conflict(String),
}
