//! Short forms between our types and the generated ones.

use std::collections::BTreeSet;

use strandline_core::metadata::ApplyError;
use strandline_runtime::local::Turns;
use strandline_wire::ErrorCode;
use strandline_wire::messages::TopicName;
use strandline_wire::protocol::StrBytes;

/// What an answer carries for one refused item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) code: ErrorCode,
    pub(super) text: String,
}

impl Refusal {
    pub(super) fn new(code: ErrorCode, text: impl Into<String>) -> Self {
        Self {
            code,
            text: text.into(),
        }
    }

    pub(super) fn message(&self) -> Option<StrBytes> {
        Some(StrBytes::from_string(self.text.clone()))
    }
}

impl From<ApplyError> for Refusal {
    fn from(error: ApplyError) -> Self {
        Self::new(error.code(), error.to_string())
    }
}

impl From<crate::control::client::ControlError> for Refusal {
    fn from(error: crate::control::client::ControlError) -> Self {
        Self::new(error.code(), error.to_string())
    }
}

pub(super) fn string(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

pub(super) fn topic_name(name: &str) -> TopicName {
    TopicName(string(name))
}

/// The first of each name that comes again.
pub(super) async fn duplicates<T: Ord + Copy>(names: impl Iterator<Item = T>) -> BTreeSet<T> {
    let mut turns = Turns::default();
    let (mut seen, mut twice) = (BTreeSet::new(), BTreeSet::new());
    for name in names {
        if !seen.insert(name) {
            twice.insert(name);
        }
        turns.item().await;
    }
    twice
}
