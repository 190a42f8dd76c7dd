//! The questions a run asks before and after the load: topics, leaders, offsets, durability.

use super::blocking::{Connection, refuse};
use super::{ClientError, FETCH_VERSION_MAX, PRODUCE_VERSION_MAX};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use strandline_wire::messages::create_topics_request::{
    CreatableTopic, CreatableTopicConfig, CreateTopicsRequest,
};
use strandline_wire::messages::delete_topics_request::{DeleteTopicState, DeleteTopicsRequest};
use strandline_wire::messages::describe_configs_request::{DescribeConfigsRequest, DescribeConfigsResource};
use strandline_wire::messages::list_offsets_request::{
    ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic,
};
use strandline_wire::messages::metadata_request::{MetadataRequest, MetadataRequestTopic};
use strandline_wire::messages::{
    BrokerId, CreateTopicsResponse, DeleteTopicsResponse, DescribeConfigsResponse, ListOffsetsResponse,
    MetadataResponse, TopicName,
};
use strandline_wire::protocol::StrBytes;
use strandline_wire::{ApiKey, ErrorCode};

/// How long a new topic may take until every partition has a leader that answers.
const READY_TIMEOUT: Duration = Duration::from_secs(30);

/// How often to ask while waiting for leaders.
const READY_POLL: Duration = Duration::from_millis(20);

/// The special timestamp of ListOffsets that asks for the end of the log.
const LATEST: i64 = -1;

/// The resource type of a topic in DescribeConfigs.
const RESOURCE_TOPIC: i8 = 2;

/// Where the partitions of a topic are led.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TopicLayout {
    /// The address of every broker that leads a partition, and the partitions it leads.
    pub leaders: BTreeMap<String, Vec<i32>>,
}

impl TopicLayout {
    /// How many partitions there are.
    pub fn partitions(&self) -> usize {
        self.leaders.values().map(Vec::len).sum()
    }
}

/// A cluster as seen through one of its brokers.
#[derive(Debug)]
pub struct Cluster {
    connection: Connection,
}

impl Cluster {
    /// Connects to the first address of a comma-separated list that answers.
    pub fn connect(bootstrap: &str) -> Result<Self, ClientError> {
        let mut last = ClientError::NotReady("the list of bootstrap servers is empty".to_owned());
        for address in bootstrap
            .split(',')
            .map(str::trim)
            .filter(|address| !address.is_empty())
        {
            match Connection::open(address) {
                Ok(connection) => return Ok(Self { connection }),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// The Produce version to speak.
    pub fn produce_version(&self) -> Result<i16, ClientError> {
        self.connection
            .versions()
            .pick(ApiKey::Produce, PRODUCE_VERSION_MAX)
    }

    /// The Fetch version to speak; `None` when the target does not serve Fetch, as the null broker.
    pub fn fetch_version(&self) -> Option<i16> {
        self.connection
            .versions()
            .pick(ApiKey::Fetch, FETCH_VERSION_MAX)
            .ok()
    }

    /// Creates `topic`; `false` when it is there already.
    pub fn create_topic(
        &mut self,
        topic: &str,
        partitions: i32,
        configs: &[(String, String)],
    ) -> Result<bool, ClientError> {
        let configs = configs
            .iter()
            .map(|(key, value)| {
                CreatableTopicConfig::default()
                    .with_name(StrBytes::from_string(key.clone()))
                    .with_value(Some(StrBytes::from_string(value.clone())))
            })
            .collect();
        let creatable = CreatableTopic::default()
            .with_name(topic_name(topic))
            .with_num_partitions(partitions)
            .with_replication_factor(-1)
            .with_configs(configs);
        let request = CreateTopicsRequest::default()
            .with_topics(vec![creatable])
            .with_timeout_ms(READY_TIMEOUT.as_millis() as i32);
        let answer: CreateTopicsResponse = self.connection.call(ApiKey::CreateTopics, &request)?;
        for result in answer.topics {
            if ErrorCode::from_code(result.error_code) == ErrorCode::TopicAlreadyExists {
                return Ok(false);
            }
            refuse(
                &format!("creating topic {topic}"),
                result.error_code,
                result.error_message.map(|m| m.to_string()),
            )?;
        }
        Ok(true)
    }

    /// Deletes `topic`.
    pub fn delete_topic(&mut self, topic: &str) -> Result<(), ClientError> {
        let version = self.connection.versions().pick(ApiKey::DeleteTopics, i16::MAX)?;
        // Version 6 replaced the list of names by one of names or ids.
        let request = DeleteTopicsRequest::default().with_timeout_ms(READY_TIMEOUT.as_millis() as i32);
        let request = if version >= 6 {
            request.with_topics(vec![
                DeleteTopicState::default().with_name(Some(topic_name(topic))),
            ])
        } else {
            request.with_topic_names(vec![topic_name(topic)])
        };
        let answer: DeleteTopicsResponse = self.connection.call(ApiKey::DeleteTopics, &request)?;
        for result in answer.responses {
            refuse(
                &format!("deleting topic {topic}"),
                result.error_code,
                result.error_message.map(|m| m.to_string()),
            )?;
        }
        Ok(())
    }

    /// Waits until every partition of `topic` has a leader.
    pub fn wait_for_leaders(&mut self, topic: &str) -> Result<TopicLayout, ClientError> {
        let deadline = Instant::now() + READY_TIMEOUT;
        loop {
            match self.layout(topic)? {
                Ok(layout) => return Ok(layout),
                Err(state) if Instant::now() > deadline => {
                    return Err(ClientError::NotReady(format!(
                        "topic {topic} has no leaders after 30 s: {state}"
                    )));
                }
                Err(_) => std::thread::sleep(READY_POLL),
            }
        }
    }

    /// The leaders, or what is still missing.
    fn layout(&mut self, topic: &str) -> Result<Result<TopicLayout, String>, ClientError> {
        let request = MetadataRequest::default()
            .with_topics(Some(vec![
                MetadataRequestTopic::default().with_name(Some(topic_name(topic))),
            ]))
            .with_allow_auto_topic_creation(false);
        let answer: MetadataResponse = self.connection.call(ApiKey::Metadata, &request)?;
        let Some(described) = answer.topics.first() else {
            return Ok(Err("the answer does not name it".to_owned()));
        };
        let code = ErrorCode::from_code(described.error_code);
        if code != ErrorCode::None {
            return Ok(Err(format!("{} ({})", code.name(), code.code())));
        }
        let mut layout = TopicLayout::default();
        for partition in &described.partitions {
            let leader = answer
                .brokers
                .iter()
                .find(|broker| broker.node_id == partition.leader_id);
            let Some(leader) = leader else {
                return Ok(Err(format!(
                    "partition {} has no leader",
                    partition.partition_index
                )));
            };
            let host = leader.host.as_str();
            let address = if host.contains(':') {
                format!("[{host}]:{}", leader.port)
            } else {
                format!("{host}:{}", leader.port)
            };
            layout
                .leaders
                .entry(address)
                .or_default()
                .push(partition.partition_index);
        }
        Ok(Ok(layout))
    }

    /// The log end offset of every partition, asked of its leader; waits for leaders that are not ready yet.
    pub fn end_offsets(
        &mut self,
        topic: &str,
        layout: &TopicLayout,
    ) -> Result<BTreeMap<i32, i64>, ClientError> {
        let mut offsets = BTreeMap::new();
        for (address, partitions) in &layout.leaders {
            let deadline = Instant::now() + READY_TIMEOUT;
            let mut leader = Connection::open(address)?;
            loop {
                match list_offsets(&mut leader, topic, partitions) {
                    Ok(found) => {
                        offsets.extend(found);
                        break;
                    }
                    Err(ClientError::Refused { code, .. })
                        if code.is_retriable() && Instant::now() < deadline =>
                    {
                        std::thread::sleep(READY_POLL);
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(offsets)
    }

    /// What the topic's `flush.messages` says about an acknowledgement; `None` when the target does not tell.
    pub fn flush_messages(&mut self, topic: &str) -> Option<String> {
        if !self.connection.versions().serves(ApiKey::DescribeConfigs) {
            return None;
        }
        let resource = DescribeConfigsResource::default()
            .with_resource_type(RESOURCE_TOPIC)
            .with_resource_name(StrBytes::from_string(topic.to_owned()))
            .with_configuration_keys(Some(vec![StrBytes::from_static_str("flush.messages")]));
        let request = DescribeConfigsRequest::default().with_resources(vec![resource]);
        let answer: DescribeConfigsResponse = self.connection.call(ApiKey::DescribeConfigs, &request).ok()?;
        let configs = &answer.results.first()?.configs;
        let config = configs
            .iter()
            .find(|config| config.name.as_str() == "flush.messages")?;
        config.value.as_ref().map(|value| value.to_string())
    }
}

fn list_offsets(
    leader: &mut Connection,
    topic: &str,
    partitions: &[i32],
) -> Result<Vec<(i32, i64)>, ClientError> {
    let wanted = partitions
        .iter()
        .map(|&index| {
            ListOffsetsPartition::default()
                .with_partition_index(index)
                .with_current_leader_epoch(-1)
                .with_timestamp(LATEST)
        })
        .collect();
    let request = ListOffsetsRequest::default()
        .with_replica_id(BrokerId(-1))
        .with_topics(vec![
            ListOffsetsTopic::default()
                .with_name(topic_name(topic))
                .with_partitions(wanted),
        ]);
    let answer: ListOffsetsResponse = leader.call(ApiKey::ListOffsets, &request)?;
    let mut found = Vec::with_capacity(partitions.len());
    for partition in answer.topics.iter().flat_map(|topic| &topic.partitions) {
        refuse(
            &format!("the end of {topic}-{}", partition.partition_index),
            partition.error_code,
            None,
        )?;
        found.push((partition.partition_index, partition.offset));
    }
    Ok(found)
}

fn topic_name(topic: &str) -> TopicName {
    TopicName(StrBytes::from_string(topic.to_owned()))
}
