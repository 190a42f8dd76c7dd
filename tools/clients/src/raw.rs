//! Requests by hand, through the codec of the `kafka-protocol` crate, which shares no line with the broker's.

use bytes::{Buf, Bytes, BytesMut};
use kafka_protocol::messages::{
    ApiVersionsRequest, CreateTopicsRequest, DeleteTopicsRequest, FetchRequest, MetadataRequest,
    MetadataResponse, RequestHeader, ResponseHeader, TopicName,
    create_topics_request::{CreatableTopic, CreatableTopicConfig},
    delete_topics_request::DeleteTopicState,
    fetch_request::{FetchPartition, FetchTopic},
    fetch_response::PartitionData,
    metadata_request::MetadataRequestTopic,
};
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, Request, StrBytes};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// No answer takes longer, a parked fetch included.
const READ_TIMEOUT: Duration = Duration::from_secs(60);
/// How often metadata is asked for a topic's leader, which a new topic may lack for a moment.
const LEADER_TRIES: usize = 200;

/// One connection.
pub(crate) struct Raw {
    stream: TcpStream,
    correlation_id: i32,
}

impl Raw {
    /// Connects to the first address of a bootstrap list.
    pub(crate) fn connect(bootstrap: &str) -> Result<Self, String> {
        let address = bootstrap.split(',').next().unwrap_or(bootstrap);
        let stream = TcpStream::connect(address).map_err(|error| format!("{address}: {error}"))?;
        stream
            .set_read_timeout(Some(READ_TIMEOUT))
            .map_err(|error| error.to_string())?;
        Ok(Self {
            stream,
            correlation_id: 0,
        })
    }

    /// Connects to the broker that leads a partition.
    pub(crate) fn leader(bootstrap: &str, topic: &str, partition: i32) -> Result<Self, String> {
        Self::leader_with_partitions(bootstrap, topic, partition).map(|(leader, _)| leader)
    }

    /// The same, with all partitions of the topic that this broker leads.
    pub(crate) fn leader_with_partitions(
        bootstrap: &str,
        topic: &str,
        partition: i32,
    ) -> Result<(Self, Vec<i32>), String> {
        let mut any = Self::connect(bootstrap)?;
        for _ in 0..LEADER_TRIES {
            let metadata = any.metadata(topic, false)?;
            let partitions = metadata
                .topics
                .first()
                .map(|found| found.partitions.as_slice())
                .unwrap_or_default();
            let found = partitions
                .iter()
                .find(|one| one.partition_index == partition && one.error_code == 0);
            let Some(leader) = found.map(|one| one.leader_id) else {
                continue;
            };
            if let Some(broker) = metadata.brokers.iter().find(|broker| broker.node_id == leader) {
                let led = partitions
                    .iter()
                    .filter(|one| one.leader_id == leader)
                    .map(|one| one.partition_index);
                let address = format!("{}:{}", broker.host.as_str(), broker.port);
                return Ok((Self::connect(&address)?, led.collect()));
            }
        }
        Err(format!("no leader of {topic}-{partition}"))
    }

    /// Sends a request and reads its answer.
    pub(crate) fn call<R: Request>(&mut self, version: i16, request: &R) -> Result<R::Response, String> {
        self.correlation_id += 1;
        let header = RequestHeader::default()
            .with_request_api_key(R::KEY)
            .with_request_api_version(version)
            .with_correlation_id(self.correlation_id)
            .with_client_id(Some(StrBytes::from_static_str("raw")));
        let mut body = BytesMut::new();
        header
            .encode(&mut body, R::header_version(version))
            .map_err(|error| error.to_string())?;
        request
            .encode(&mut body, version)
            .map_err(|error| error.to_string())?;
        let mut frame = (body.len() as u32).to_be_bytes().to_vec();
        frame.extend_from_slice(&body);
        self.stream.write_all(&frame).map_err(|error| error.to_string())?;
        let mut length = [0; 4];
        self.stream
            .read_exact(&mut length)
            .map_err(|error| format!("no answer: {error}"))?;
        let mut answer = vec![0; u32::from_be_bytes(length) as usize];
        self.stream
            .read_exact(&mut answer)
            .map_err(|error| format!("half an answer: {error}"))?;
        let mut answer = Bytes::from(answer);
        let header = ResponseHeader::decode(&mut answer, R::Response::header_version(version))
            .map_err(|error| error.to_string())?;
        if header.correlation_id != self.correlation_id {
            return Err(format!(
                "answer {} to request {}",
                header.correlation_id, self.correlation_id
            ));
        }
        let response = R::Response::decode(&mut answer, version).map_err(|error| error.to_string())?;
        if answer.has_remaining() {
            Err(format!("{} bytes after the answer", answer.remaining()))
        } else {
            Ok(response)
        }
    }

    /// The version ranges that the broker advertises: key, first, last.
    pub(crate) fn api_ranges(&mut self) -> Result<Vec<(i16, i16, i16)>, String> {
        let name = || StrBytes::from_static_str("strandline-clients");
        let request = ApiVersionsRequest::default()
            .with_client_software_name(name())
            .with_client_software_version(name());
        let answer = self.call(3, &request)?;
        Ok(answer
            .api_keys
            .iter()
            .map(|one| (one.api_key, one.min_version, one.max_version))
            .collect())
    }

    /// The metadata of one topic.
    pub(crate) fn metadata(&mut self, topic: &str, create: bool) -> Result<MetadataResponse, String> {
        let wanted = MetadataRequestTopic::default().with_name(Some(topic_name(topic)));
        self.call(
            9,
            &MetadataRequest::default()
                .with_topics(Some(vec![wanted]))
                .with_allow_auto_topic_creation(create),
        )
    }

    /// Creates a topic; the answer is its error code.
    pub(crate) fn create_topic(
        &mut self,
        topic: &str,
        partitions: i32,
        configs: &[(&str, &str)],
    ) -> Result<i16, String> {
        let config = |(name, value): &(&str, &str)| {
            let string = |text: &str| StrBytes::from_string(text.to_owned());
            CreatableTopicConfig::default()
                .with_name(string(name))
                .with_value(Some(string(value)))
        };
        let wanted = CreatableTopic::default()
            .with_name(topic_name(topic))
            .with_num_partitions(partitions)
            // As many as the broker says.
            .with_replication_factor(-1)
            .with_configs(configs.iter().map(config).collect());
        let answer = self.call(
            5,
            &CreateTopicsRequest::default()
                .with_topics(vec![wanted])
                .with_timeout_ms(30_000),
        )?;
        answer
            .topics
            .first()
            .map(|one| one.error_code)
            .ok_or_else(|| "no topic in the answer".to_owned())
    }

    /// Deletes a topic; the answer is its error code.
    pub(crate) fn delete_topic(&mut self, topic: &str) -> Result<i16, String> {
        let wanted = DeleteTopicState::default().with_name(Some(topic_name(topic)));
        let request = DeleteTopicsRequest::default()
            .with_topics(vec![wanted])
            .with_topic_names(vec![topic_name(topic)])
            .with_timeout_ms(30_000);
        let answer = self.call(5, &request.with_topics(Vec::new()))?;
        answer
            .responses
            .first()
            .map(|one| one.error_code)
            .ok_or_else(|| "no topic in the answer".to_owned())
    }

    /// Fetches one partition from `offset` on, waiting up to `max_wait_ms` for a byte.
    pub(crate) fn fetch(
        &mut self,
        topic: &str,
        partition: i32,
        offset: i64,
        max_wait_ms: i32,
    ) -> Result<PartitionData, String> {
        let wanted = FetchPartition::default()
            .with_partition(partition)
            .with_fetch_offset(offset)
            .with_partition_max_bytes(1 << 20);
        let topic = FetchTopic::default()
            .with_topic(topic_name(topic))
            .with_partitions(vec![wanted]);
        let request = FetchRequest::default()
            .with_replica_id((-1).into())
            .with_max_wait_ms(max_wait_ms)
            .with_min_bytes(1)
            .with_max_bytes(1 << 20)
            .with_session_epoch(-1)
            .with_topics(vec![topic]);
        let answer = self.call(11, &request)?;
        let found = answer
            .responses
            .into_iter()
            .next()
            .and_then(|topic| topic.partitions.into_iter().next());
        found.ok_or_else(|| format!("no partition in the answer, error {}", answer.error_code))
    }
}

/// A topic's name as the codec wants it.
pub(crate) fn topic_name(name: &str) -> TopicName {
    TopicName(StrBytes::from_string(name.to_owned()))
}
