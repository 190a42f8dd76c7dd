//! What went wrong, told so that the operator knows what to do next.

use std::io;

use serde::Serialize;
use strandline_wire::ErrorCode;

use crate::client::ClientError;
use crate::remedy;

/// Why a command did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The command line asks for something that makes no sense. Exit 2.
    #[error("{0}")]
    Usage(String),
    /// The user answered no.
    #[error("not done")]
    Declined,
    /// The broker refused, or could not be spoken to.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// A file or a stream of this machine.
    #[error("{what}: {source}")]
    Local {
        /// What was being done.
        what: String,
        /// What the system said.
        source: io::Error,
    },
    /// Anything else, in words.
    #[error("{0}")]
    Failed(String),
}

impl Failure {
    /// Wrong usage.
    pub fn usage(text: impl Into<String>) -> Self {
        Self::Usage(text.into())
    }

    /// An error of this machine.
    pub fn local(what: impl Into<String>, source: io::Error) -> Self {
        Self::Local {
            what: what.into(),
            source,
        }
    }

    /// An error while printing.
    pub fn stdout(source: io::Error) -> Self {
        Self::local("writing to stdout", source)
    }

    /// A refusal of the broker.
    pub fn refused(subject: impl Into<String>, code: ErrorCode, text: Option<String>) -> Self {
        Self::Client(ClientError::Broker {
            subject: subject.into(),
            code,
            text,
        })
    }

    /// Kafka's code, where the broker gave one.
    pub fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Client(error) => error.code(),
            _ => None,
        }
    }

    /// True when the reader of stdout went away, which ends a pipeline and is no failure.
    pub fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::Local { source, .. } if source.kind() == io::ErrorKind::BrokenPipe)
    }

    /// 1 for a failure, 2 for wrong usage.
    pub fn exit_code(&self) -> u8 {
        if matches!(self, Self::Usage(_)) { 2 } else { 1 }
    }

    /// What the user can do about it.
    pub fn remedy(&self) -> Option<&'static str> {
        match self {
            Self::Client(error) => remedy::of_client_error(error),
            Self::Usage(_) | Self::Declined | Self::Local { .. } | Self::Failed(_) => None,
        }
    }

    /// Prints the failure on stderr.
    pub fn report(&self, json: bool) {
        if json {
            let report = JsonReport {
                error: JsonFailure {
                    name: self.code().map(ErrorCode::name),
                    code: self.code().map(ErrorCode::code),
                    message: self.to_string(),
                    remedy: self.remedy(),
                },
            };
            if let Ok(text) = serde_json::to_string(&report) {
                eprintln!("{text}");
                return;
            }
        }
        eprintln!("strandctl: {self}");
        if let Some(remedy) = self.remedy() {
            eprintln!("  remedy: {remedy}");
        }
    }
}

#[derive(Serialize)]
struct JsonReport {
    error: JsonFailure,
}

#[derive(Serialize)]
struct JsonFailure {
    name: Option<&'static str>,
    code: Option<i16>,
    message: String,
    remedy: Option<&'static str>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_code_the_brokers_text_and_a_remedy() {
        let failure = Failure::refused(
            "topic orders",
            ErrorCode::TopicAlreadyExists,
            Some("it is there".to_owned()),
        );
        assert_eq!(
            failure.to_string(),
            "topic orders: TOPIC_ALREADY_EXISTS (36): it is there"
        );
        assert!(failure.remedy().unwrap().contains("--if-not-exists"));
        assert_eq!(failure.exit_code(), 1);
        assert_eq!(Failure::usage("no").exit_code(), 2);
    }
}
