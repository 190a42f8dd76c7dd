//! The questions a run asks before and after the load: topics, leaders, offsets, durability.

use super::blocking::{Connection, refuse};
use super::dial::Dialer;
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
    BrokerId, CreateTopicsResponse, DeleteTopicsResponse, DescribeConfigsResponse, InitProducerIdRequest,
    InitProducerIdResponse, ListOffsetsResponse, MetadataResponse, ProducerId, TopicName,
};
use strandline_wire::protocol::StrBytes;
use strandline_wire::{ApiKey, ErrorCode, Uuid};

/// How long a new topic may take until every partition has a leader that answers.
const READY_TIMEOUT: Duration = Duration::from_secs(30);

/// How often to ask while waiting for leaders.
const READY_POLL: Duration = Duration::from_millis(20);

/// The special timestamp of ListOffsets that asks for the end of the log.
const LATEST: i64 = -1;

/// The resource type of a topic in DescribeConfigs.
const RESOURCE_TOPIC: i8 = 2;

/// Where the partitions of all topics are led. A partition's number counts on through the topics, each of which has as many.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TopicLayout {
    /// The topics.
    pub topics: Vec<String>,
    /// Their ids; zero where the broker does not tell.
    pub topic_ids: Vec<Uuid>,
    /// Partitions of each.
    pub each: i32,
    /// The address of every broker that leads a partition, and the partitions it leads.
    pub leaders: BTreeMap<String, Vec<i32>>,
}

impl TopicLayout {
    /// How many partitions there are, of all topics.
    pub fn partitions(&self) -> usize {
        self.leaders.values().map(Vec::len).sum()
    }

    /// The topic (its place in [`Self::topics`]) and the partition in it.
    pub fn place(&self, partition: i32) -> (usize, i32) {
        (
            (partition / self.each.max(1)).unsigned_abs() as usize,
            partition % self.each.max(1),
        )
    }
}

/// What an idempotent producer is known by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProducerIdentity {
    /// Its id.
    pub id: i64,
    /// Its epoch.
    pub epoch: i16,
}

impl ProducerIdentity {
    /// Asks the broker at `address` for a new one; again while it says that it cannot tell yet, but no longer than `timeout`.
    pub fn ask(dialer: &Dialer, address: &str, timeout: Duration) -> Result<Self, ClientError> {
        let mut connection = Connection::open_within(dialer, address, timeout)?;
        let request = InitProducerIdRequest::default()
            .with_transactional_id(None)
            .with_producer_id(ProducerId(-1))
            .with_producer_epoch(-1);
        let deadline = Instant::now() + timeout;
        loop {
            let answer: InitProducerIdResponse = connection.call(ApiKey::InitProducerId, &request)?;
            match refuse("a producer id", answer.error_code, None) {
                Err(ClientError::Refused { code, .. })
                    if code.is_retriable() && Instant::now() < deadline =>
                {
                    std::thread::sleep(READY_POLL);
                }
                Err(error) => return Err(error),
                Ok(()) => {
                    return Ok(Self {
                        id: answer.producer_id.0,
                        epoch: answer.producer_epoch,
                    });
                }
            }
        }
    }
}

/// A cluster as seen through one of its brokers.
#[derive(Debug)]
pub struct Cluster {
    connection: Connection,
    dialer: Dialer,
}

impl Cluster {
    /// Connects to the first address of a comma-separated list that answers.
    pub fn connect(dialer: &Dialer, bootstrap: &str) -> Result<Self, ClientError> {
        let mut last = ClientError::NotReady("the list of bootstrap servers is empty".to_owned());
        for address in bootstrap
            .split(',')
            .map(str::trim)
            .filter(|address| !address.is_empty())
        {
            match Connection::open(dialer, address) {
                Ok(connection) => {
                    return Ok(Self {
                        connection,
                        dialer: dialer.clone(),
                    });
                }
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

    /// Where the partitions of a topic are led that is there already.
    pub fn existing_topic(&mut self, topic: &str) -> Result<TopicLayout, ClientError> {
        self.layout(&[topic.to_owned()])?.map_err(ClientError::NotReady)
    }

    /// Waits until every partition of `topics` has a leader.
    pub fn wait_for_leaders(&mut self, topics: &[String]) -> Result<TopicLayout, ClientError> {
        let deadline = Instant::now() + READY_TIMEOUT;
        loop {
            match self.layout(topics)? {
                Ok(layout) => return Ok(layout),
                Err(state) if Instant::now() > deadline => {
                    return Err(ClientError::NotReady(format!(
                        "there are no leaders after 30 s: {state}"
                    )));
                }
                Err(_) => std::thread::sleep(READY_POLL),
            }
        }
    }

    /// The leaders, or what is still missing.
    fn layout(&mut self, topics: &[String]) -> Result<Result<TopicLayout, String>, ClientError> {
        let wanted = topics
            .iter()
            .map(|topic| MetadataRequestTopic::default().with_name(Some(topic_name(topic))))
            .collect();
        let request = MetadataRequest::default()
            .with_topics(Some(wanted))
            .with_allow_auto_topic_creation(false);
        let answer: MetadataResponse = self.connection.call(ApiKey::Metadata, &request)?;
        let mut layout = TopicLayout {
            topics: topics.to_vec(),
            ..TopicLayout::default()
        };
        for (index, topic) in (0..).zip(topics) {
            let described = answer
                .topics
                .iter()
                .find(|described| described.name.as_ref().is_some_and(|name| name.as_str() == topic));
            let Some(described) = described else {
                return Ok(Err(format!("the answer does not name {topic}")));
            };
            let code = ErrorCode::from_code(described.error_code);
            if code != ErrorCode::None {
                return Ok(Err(format!("{topic}: {} ({})", code.name(), code.code())));
            }
            let each = described.partitions.len() as i32;
            if index == 0 {
                layout.each = each;
            } else if each != layout.each {
                return Err(ClientError::NotReady(format!(
                    "{topic} has {each} partitions and {} has {}: topics of a run have as many",
                    topics[0], layout.each
                )));
            }
            layout.topic_ids.push(described.topic_id);
            for partition in &described.partitions {
                let leader = answer
                    .brokers
                    .iter()
                    .find(|broker| broker.node_id == partition.leader_id);
                let Some(leader) = leader else {
                    return Ok(Err(format!(
                        "partition {} of {topic} has no leader",
                        partition.partition_index
                    )));
                };
                layout
                    .leaders
                    .entry(address(leader.host.as_str(), leader.port))
                    .or_default()
                    .push(index * each + partition.partition_index);
            }
        }
        layout.leaders.values_mut().for_each(|list| list.sort_unstable());
        Ok(Ok(layout))
    }

    /// The log end offset of every partition, asked of its leader; waits for leaders that are not ready yet.
    pub fn end_offsets(&mut self, layout: &TopicLayout) -> Result<BTreeMap<i32, i64>, ClientError> {
        self.end_offsets_within(layout, READY_TIMEOUT)
    }

    /// The same, with a time limit for each leader.
    pub fn end_offsets_within(
        &mut self,
        layout: &TopicLayout,
        timeout: Duration,
    ) -> Result<BTreeMap<i32, i64>, ClientError> {
        let mut offsets = BTreeMap::new();
        for (address, partitions) in &layout.leaders {
            let deadline = Instant::now() + timeout;
            let mut leader = Connection::open_within(&self.dialer, address, timeout)?;
            loop {
                match list_offsets(&mut leader, layout, partitions) {
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

/// `host:port`, an IPv6 address in brackets.
pub(crate) fn address(host: &str, port: i32) -> String {
    if host.contains(':') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    }
}

fn list_offsets(
    leader: &mut Connection,
    layout: &TopicLayout,
    partitions: &[i32],
) -> Result<Vec<(i32, i64)>, ClientError> {
    let mut wanted: BTreeMap<usize, Vec<ListOffsetsPartition>> = BTreeMap::new();
    for &partition in partitions {
        let (topic, index) = layout.place(partition);
        wanted.entry(topic).or_default().push(
            ListOffsetsPartition::default()
                .with_partition_index(index)
                .with_current_leader_epoch(-1)
                .with_timestamp(LATEST),
        );
    }
    let topics = wanted
        .into_iter()
        .map(|(topic, partitions)| {
            ListOffsetsTopic::default()
                .with_name(topic_name(&layout.topics[topic]))
                .with_partitions(partitions)
        })
        .collect();
    let request = ListOffsetsRequest::default()
        .with_replica_id(BrokerId(-1))
        .with_topics(topics);
    let answer: ListOffsetsResponse = leader.call(ApiKey::ListOffsets, &request)?;
    let mut found = Vec::with_capacity(partitions.len());
    for topic in &answer.topics {
        let Some(place) = layout.topics.iter().position(|name| name == topic.name.as_str()) else {
            continue;
        };
        for partition in &topic.partitions {
            refuse(
                &format!("the end of {}-{}", topic.name.as_str(), partition.partition_index),
                partition.error_code,
                None,
            )?;
            found.push((
                place as i32 * layout.each + partition.partition_index,
                partition.offset,
            ));
        }
    }
    if found.len() < partitions.len() {
        return Err(ClientError::NotReady(
            "the answer leaves out the ends of some partitions".to_owned(),
        ));
    }
    Ok(found)
}

fn topic_name(topic: &str) -> TopicName {
    TopicName(StrBytes::from_string(topic.to_owned()))
}
