//! Groups: which there are, what they are, what they have committed, and taking them away.
//!
//! Each group is asked of its own coordinator ([`coordinator`]). What one group is refused harms no other: results come
//! group by group.

mod assignment;
pub mod coordinator;
mod describe;
mod offsets;

use std::collections::BTreeMap;

use strandline_wire::ErrorCode;
use strandline_wire::messages::{DeleteGroupsRequest, GroupId, ListGroupsRequest};
use strandline_wire::protocol::StrBytes;

pub use describe::{ConsumerMember, Epochs, GroupDescription, Member};
pub use offsets::{Committed, Position, PositionResults};

use super::metadata::Topics;
use super::{BrokerId, Client, ClientError, NamedResults, Retry, check};

/// The type of groups of the classic protocol, as ListGroups names it.
pub const CLASSIC: &str = "classic";
/// The type of groups of the consumer protocol (KIP-848).
pub const CONSUMER: &str = "consumer";

/// Partitions by topic.
pub type Partitions = BTreeMap<String, Vec<i32>>;

/// A group as ListGroups shows it.
#[derive(Debug)]
pub struct ListedGroup {
    /// Its name.
    pub name: String,
    /// `consumer` for consumers; empty for one that has offsets alone.
    pub protocol_type: String,
    /// None from brokers older than Kafka 2.6 (KIP-518).
    pub state: Option<String>,
    /// None from brokers older than Kafka 3.8 (KIP-848).
    pub kind: Option<String>,
}

impl Client {
    /// The groups of every broker, by name.
    pub fn list_groups(&mut self) -> Result<Vec<ListedGroup>, ClientError> {
        let mut retry = Retry::new(self.config());
        let brokers: Vec<BrokerId> = loop {
            match self.metadata(Topics::None) {
                Ok(metadata) => break metadata.brokers.into_keys().collect(),
                Err(error) => retry.pause_after(error)?,
            }
        };
        let mut groups = Vec::new();
        for broker in brokers {
            let mut retry = Retry::new(self.config());
            loop {
                match self.list_groups_of(broker) {
                    Ok(listed) => break groups.extend(listed),
                    Err(error) => retry.pause_after(error)?,
                }
            }
        }
        groups.sort_by(|one: &ListedGroup, other| one.name.cmp(&other.name));
        // One whose coordinator moved meanwhile may come twice.
        groups.dedup_by(|one, other| one.name == other.name);
        Ok(groups)
    }

    fn list_groups_of(&mut self, broker: BrokerId) -> Result<Vec<ListedGroup>, ClientError> {
        let response = self.ask(broker, |connection| {
            let version = connection.version::<ListGroupsRequest>(i16::MAX)?;
            let response = connection.call(version, &ListGroupsRequest::default())?;
            check(format!("groups of broker {broker}"), response.error_code, None)?;
            Ok(response)
        })?;
        let told = |text: &StrBytes| (!text.is_empty()).then(|| text.to_string());
        let groups = response.groups.iter().map(|group| ListedGroup {
            name: group.group_id.to_string(),
            protocol_type: group.protocol_type.to_string(),
            state: told(&group.group_state),
            kind: told(&group.group_type),
        });
        Ok(groups.collect())
    }

    /// Deletes groups with everything that they have committed.
    pub fn delete_groups(&mut self, names: &[String]) -> NamedResults<()> {
        self.ask_coordinators(names, coordinator::surely_did_nothing, |connection, names| {
            let version = connection.version::<DeleteGroupsRequest>(i16::MAX)?;
            let request = DeleteGroupsRequest::default()
                .with_groups_names(names.iter().map(|name| group_id(name)).collect());
            let response = connection.call(version, &request)?;
            let answer = |name: &String| {
                let mut results = response.results.iter();
                let answer = results.find(|result| result.group_id.as_str() == name);
                let answer = answer.ok_or_else(|| left_out(name))?;
                check(subject(name), answer.error_code, None)
            };
            Ok(names.iter().map(|name| (name.clone(), answer(name))).collect())
        })
    }
}

fn group_id(name: &str) -> GroupId {
    GroupId(StrBytes::from_string(name.to_owned()))
}

/// What an error about a group is about.
pub fn subject(name: &str) -> String {
    format!("group {}", crate::output::printable(name))
}

fn left_out(name: &str) -> ClientError {
    let text = Some("the broker left it out of its answer".to_owned());
    ClientError::broker(subject(name), ErrorCode::UnknownServerError, text)
}
