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
    /// Several of these: a line each.
    #[error("{}", lines(.0))]
    Several(Vec<ConfigError>),
}

fn lines(errors: &[ConfigError]) -> String {
    let lines: Vec<String> = errors.iter().map(ConfigError::to_string).collect();
    lines.join("\n")
}

/// Errors that are told together: whoever mends a configuration wants to see them all.
#[derive(Debug, Default)]
pub(super) struct Errors(Vec<ConfigError>);

impl Errors {
    pub(super) fn add(&mut self, error: ConfigError) {
        if !self.0.contains(&error) {
            self.0.push(error);
        }
    }

    /// The value, unless there is an error in its place.
    pub(super) fn take<T>(&mut self, result: Result<T, ConfigError>) -> Option<T> {
        result.map_err(|error| self.add(error)).ok()
    }

    /// # Errors
    /// Those that were added.
    pub(super) fn result(mut self) -> Result<(), ConfigError> {
        match self.0.len() {
            0 => Ok(()),
            1 => Err(self.0.remove(0)),
            _ => Err(ConfigError::Several(self.0)),
        }
    }
}
