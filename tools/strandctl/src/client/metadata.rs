//! Brokers, topics, partitions and who leads them.

use std::collections::BTreeMap;
use std::time::Duration;

use strandline_wire::messages::metadata_request::MetadataRequestTopic;
use strandline_wire::messages::metadata_response::{MetadataResponsePartition, MetadataResponseTopic};
use strandline_wire::messages::{BrokerId as WireBrokerId, MetadataRequest, MetadataResponse, TopicName};
use strandline_wire::protocol::StrBytes;
use strandline_wire::{ErrorCode, Uuid};

use super::{BrokerId, Client, ClientError, Retry, check};
use crate::client_config::Address;

/// How long an unknown topic is asked for again: a topic just created may not have reached every broker, a misspelt one
/// never will.
const UNKNOWN_TOPIC_LIMIT: Duration = Duration::from_secs(1);

/// The same where the asking itself creates the topic.
const CREATION_LIMIT: Duration = Duration::from_secs(15);

/// The first version that can be asked not to create topics.
const CREATION_FLAG_VERSION: i16 = 4;

/// What a broker knows of its cluster.
#[derive(Debug)]
pub struct Metadata {
    /// The cluster's id.
    pub cluster_id: Option<String>,
    /// The controller, or in KRaft a broker that stands for it; none while it is unknown.
    pub controller: Option<BrokerId>,
    /// The live brokers.
    pub brokers: BTreeMap<BrokerId, Broker>,
    /// The topics asked for, by name.
    pub topics: Vec<Topic>,
}

/// A broker.
#[derive(Debug)]
pub struct Broker {
    /// Its id.
    pub id: BrokerId,
    /// Where clients reach it.
    pub address: Address,
    /// Its failure domain.
    pub rack: Option<String>,
}

/// A topic.
#[derive(Debug)]
pub struct Topic {
    /// Its name.
    pub name: String,
    /// Its id; none from brokers older than Kafka 2.8.
    pub id: Option<Uuid>,
    /// True for the broker's own topics.
    pub is_internal: bool,
    /// Why it could not be described; [`ErrorCode::None`] when it could.
    pub error: ErrorCode,
    /// The partitions, by index.
    pub partitions: Vec<Partition>,
}

/// A partition.
#[derive(Debug)]
pub struct Partition {
    /// Its index.
    pub index: i32,
    /// Its leader.
    pub leader: Option<BrokerId>,
    /// The epoch of its leader; -1 when the broker told none.
    pub leader_epoch: i32,
    /// All replicas, the preferred leader first.
    pub replicas: Vec<BrokerId>,
    /// Those in sync.
    pub isr: Vec<BrokerId>,
    /// Those on brokers or disks that are down.
    pub offline: Vec<BrokerId>,
}

/// Which topics to ask for.
#[derive(Clone, Copy, Debug)]
pub enum Topics<'a> {
    /// Every topic.
    All,
    /// None: the brokers alone.
    None,
    /// These.
    Named(&'a [String]),
    /// This one, created if it does not exist and the broker allows it.
    Created(&'a str),
}

impl Client {
    /// Asks once, whichever broker answers.
    pub fn metadata(&mut self, topics: Topics<'_>) -> Result<Metadata, ClientError> {
        let response = self.ask_any(|connection| {
            let version = connection.version::<MetadataRequest>(i16::MAX)?;
            let names: Option<Vec<&str>> = match topics {
                Topics::All => None,
                Topics::None => Some(Vec::new()),
                Topics::Named(names) => Some(names.iter().map(String::as_str).collect()),
                Topics::Created(name) => Some(vec![name]),
            };
            let names = names.map(|names| names.into_iter().map(topic_request).collect());
            let request = MetadataRequest::default()
                .with_topics(names)
                .with_allow_auto_topic_creation(
                    matches!(topics, Topics::Created(_)) || version < CREATION_FLAG_VERSION,
                );
            connection.call(version, &request)
        })?;
        check("Metadata", response.error_code, None)?;
        let metadata = Metadata::from(response);
        self.learn(&metadata);
        Ok(metadata)
    }

    /// The brokers and one topic, whose partitions may lack a leader. Retries what may pass.
    pub fn topic(&mut self, name: &str, create: bool) -> Result<Topic, ClientError> {
        let names = [name.to_owned()];
        let selection = if create {
            Topics::Created(name)
        } else {
            Topics::Named(&names)
        };
        let mut retry = Retry::new(self.config());
        let limit = if create {
            CREATION_LIMIT
        } else {
            UNKNOWN_TOPIC_LIMIT
        };
        let mut unknown = Retry::within(self.config(), limit.min(self.config().api_timeout));
        loop {
            let error = match self
                .metadata(selection)
                .and_then(|metadata| metadata.into_topic(name))
            {
                Ok(topic) => return Ok(topic),
                Err(error) => error,
            };
            if error.code() == Some(ErrorCode::UnknownTopicOrPartition) {
                // That it was looked for a while is no news: the plain refusal is told.
                if unknown.pause_after(error).is_err() {
                    return Err(ClientError::broker(
                        format!("topic {name}"),
                        ErrorCode::UnknownTopicOrPartition,
                        None,
                    ));
                }
            } else {
                retry.pause_after(error)?;
            }
        }
    }
}

fn topic_request(name: &str) -> MetadataRequestTopic {
    MetadataRequestTopic::default().with_name(Some(TopicName(StrBytes::from_string(name.to_owned()))))
}

impl Metadata {
    /// The topic of a name, or the broker's refusal.
    fn into_topic(self, name: &str) -> Result<Topic, ClientError> {
        match self.topics.into_iter().find(|topic| topic.name == name) {
            Some(topic) if topic.error.is_none() => Ok(topic),
            Some(topic) => Err(ClientError::broker(format!("topic {name}"), topic.error, None)),
            None => Err(ClientError::broker(
                format!("topic {name}"),
                ErrorCode::UnknownTopicOrPartition,
                None,
            )),
        }
    }
}

impl From<MetadataResponse> for Metadata {
    fn from(response: MetadataResponse) -> Self {
        let brokers = response.brokers.iter().filter_map(|broker| {
            // A port that is none cannot be connected to: as if the broker were not there.
            let port = u16::try_from(broker.port).ok()?;
            let address = Address {
                host: broker.host.to_string(),
                port,
            };
            let rack = broker.rack.as_ref().map(|rack| rack.to_string());
            Some((
                broker.node_id.0,
                Broker {
                    id: broker.node_id.0,
                    address,
                    rack,
                },
            ))
        });
        let mut topics: Vec<_> = response.topics.iter().map(Topic::from).collect();
        topics.sort_by(|one, other| one.name.cmp(&other.name));
        Self {
            cluster_id: response.cluster_id.as_ref().map(|id| id.to_string()),
            controller: (response.controller_id.0 >= 0).then_some(response.controller_id.0),
            brokers: brokers.collect(),
            topics,
        }
    }
}

impl From<&MetadataResponseTopic> for Topic {
    fn from(topic: &MetadataResponseTopic) -> Self {
        let mut partitions: Vec<_> = topic.partitions.iter().map(Partition::from).collect();
        partitions.sort_by_key(|partition| partition.index);
        Self {
            name: topic
                .name
                .as_ref()
                .map(|name| name.to_string())
                .unwrap_or_default(),
            id: (!topic.topic_id.is_nil()).then_some(topic.topic_id),
            is_internal: topic.is_internal,
            error: ErrorCode::from_code(topic.error_code),
            partitions,
        }
    }
}

impl From<&MetadataResponsePartition> for Partition {
    fn from(partition: &MetadataResponsePartition) -> Self {
        let ids = |brokers: &[WireBrokerId]| brokers.iter().map(|broker| broker.0).collect::<Vec<_>>();
        Self {
            index: partition.partition_index,
            leader: (partition.leader_id.0 >= 0).then_some(partition.leader_id.0),
            leader_epoch: partition.leader_epoch,
            replicas: ids(&partition.replica_nodes),
            isr: ids(&partition.isr_nodes),
            offline: ids(&partition.offline_replicas),
        }
    }
}

impl Topic {
    /// Replicas of its first partition: its replication factor unless a reassignment is under way.
    pub fn replication_factor(&self) -> usize {
        self.partitions
            .first()
            .map_or(0, |partition| partition.replicas.len())
    }

    /// The leader of each partition that has one.
    pub fn leaders(&self) -> BTreeMap<i32, BrokerId> {
        self.partitions
            .iter()
            .filter_map(|partition| Some((partition.index, partition.leader?)))
            .collect()
    }
}
