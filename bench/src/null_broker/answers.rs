//! What the reference broker answers: enough for a producer, and for a consumer when it keeps records.

use super::Shared;
use super::connection::owned;
use super::topics::Partition;
use bytes::{Bytes, BytesMut};
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use strandline_wire::fetch::{self, FetchPartitionHeader, FetchResponseEncoder, FetchResponseHeader};
use strandline_wire::frame::{begin_frame, encode_response_header, end_frame};
use strandline_wire::messages::api_versions_response::{ApiVersion, ApiVersionsResponse};
use strandline_wire::messages::create_topics_response::{CreatableTopicResult, CreateTopicsResponse};
use strandline_wire::messages::delete_topics_response::{DeletableTopicResult, DeleteTopicsResponse};
use strandline_wire::messages::list_offsets_response::{
    ListOffsetsPartitionResponse, ListOffsetsResponse, ListOffsetsTopicResponse,
};
use strandline_wire::messages::metadata_response::{
    MetadataResponse, MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use strandline_wire::messages::{
    BrokerId, CreateTopicsRequest, DeleteTopicsRequest, InitProducerIdResponse, ListOffsetsRequest,
    MetadataRequest, ProducerId, TopicName,
};
use strandline_wire::produce::{self, ProducePartitionResponse, ProduceResponse};
use strandline_wire::protocol::StrBytes;
use strandline_wire::{
    ADVERTISED, ApiKey, ErrorCode, Grouped, RequestHeader, WireError, decode_cold, decode_request_header,
    encode_response,
};

/// One of the brokers that this process looks like.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    pub(super) id: i32,
    pub(super) address: SocketAddr,
}

/// What a request leaves for the journal.
pub(super) enum Reply<'a> {
    /// Batches to be made durable before the answer leaves.
    Produced(Vec<&'a [u8]>),
    /// Nothing.
    Other,
}

/// How often a waiting fetch looks for new records.
const FETCH_POLL: Duration = Duration::from_micros(200);

/// The special timestamp of ListOffsets that asks for the start of the log.
const EARLIEST: i64 = -2;

/// Answers one request into `out`; nothing is written for a produce with acks 0.
pub(super) fn answer<'a>(
    shared: &Shared,
    frame: &'a [u8],
    out: &mut BytesMut,
) -> Result<Reply<'a>, WireError> {
    let (header, body_start) = decode_request_header(frame)?;
    let body = &frame[body_start..];
    let Some(api) = ApiKey::from_key(header.api_key) else {
        return Err(WireError::UnknownApi {
            api_key: header.api_key,
        });
    };
    let exchange = Exchange { shared, api, header };
    match api {
        ApiKey::Produce => return exchange.produce(body, out),
        ApiKey::Fetch if shared.topics.retain_bytes() > 0 => exchange.fetch(body, out)?,
        ApiKey::ApiVersions => exchange.api_versions(out)?,
        ApiKey::Metadata => exchange.metadata(body, out)?,
        ApiKey::CreateTopics => exchange.create_topics(body, out)?,
        ApiKey::DeleteTopics => exchange.delete_topics(body, out)?,
        ApiKey::ListOffsets => exchange.list_offsets(body, out)?,
        ApiKey::InitProducerId => exchange.init_producer_id(out)?,
        _ => {
            return Err(WireError::UnknownApi {
                api_key: header.api_key,
            });
        }
    }
    Ok(Reply::Other)
}

struct Exchange<'a> {
    shared: &'a Shared,
    api: ApiKey,
    header: RequestHeader<'a>,
}

impl Exchange<'_> {
    fn decode<T: strandline_wire::protocol::Decodable>(&self, body: &[u8]) -> Result<T, WireError> {
        decode_cold(self.header.api_key, self.header.api_version, owned(body))
    }

    fn encode<T: strandline_wire::protocol::Encodable>(
        &self,
        out: &mut BytesMut,
        answer: &T,
    ) -> Result<(), WireError> {
        encode_response(
            out,
            self.header.api_key,
            self.header.api_version,
            self.header.correlation_id,
            answer,
        )
    }

    fn produce<'a>(&self, body: &'a [u8], out: &mut BytesMut) -> Result<Reply<'a>, WireError> {
        let request = produce::decode_request(self.header.api_version, body)?;
        let mut batches = Vec::with_capacity(request.topics.item_count());
        let mut records = 0;
        let mut answers = Grouped::with_capacity(1, request.topics.item_count());
        for (name, partitions) in request.topics.iter() {
            let topic = match name {
                produce::TopicRef::Name(name) => self.shared.topics.get(name),
                produce::TopicRef::Id(_) => None,
            };
            answers.begin(*name);
            for partition in partitions {
                let offset = topic
                    .as_ref()
                    .and_then(|topic| topic.partition(partition.index))
                    .map(|mut log| {
                        let batch = partition.records.unwrap_or_default();
                        (log.append(batch, self.shared.topics.retain_bytes()), batch)
                    });
                answers.push(match offset {
                    Some((Some((base_offset, count)), batch)) => {
                        records += count;
                        batches.push(batch);
                        let mut answer = ProducePartitionResponse::error(partition.index, ErrorCode::None);
                        answer.base_offset = base_offset;
                        answer.log_start_offset = 0;
                        answer
                    }
                    Some((None, _)) => {
                        ProducePartitionResponse::error(partition.index, ErrorCode::CorruptMessage)
                    }
                    None => {
                        ProducePartitionResponse::error(partition.index, ErrorCode::UnknownTopicOrPartition)
                    }
                });
            }
        }
        self.shared.gate.pass(records);
        if request.acks != 0 {
            let frame = begin_frame(out);
            encode_response_header(
                out,
                self.header.api_key,
                self.header.api_version,
                self.header.correlation_id,
            );
            let answer = ProduceResponse {
                topics: answers,
                ..ProduceResponse::default()
            };
            produce::encode_response(out, self.header.api_version, &answer)?;
            end_frame(out, frame, 0)?;
        }
        Ok(Reply::Produced(batches))
    }

    fn fetch(&self, body: &[u8], out: &mut BytesMut) -> Result<(), WireError> {
        let request = fetch::decode_request(self.header.api_version, body)?;
        let deadline = Instant::now() + Duration::from_millis(request.max_wait_ms.max(0) as u64);
        let mut found = self.read(&request);
        while found.iter().all(|(_, records)| records.is_empty()) && Instant::now() < deadline {
            std::thread::sleep(FETCH_POLL);
            found = self.read(&request);
        }
        let mut encoder = FetchResponseEncoder::<Bytes>::new(
            BytesMut::new(),
            self.header.api_version,
            self.header.correlation_id,
            &FetchResponseHeader::default(),
            request.topics.group_count(),
        );
        let mut found = found.into_iter();
        for (topic, partitions) in request.topics.iter() {
            encoder.begin_topic(*topic, partitions.len());
            for (header, records) in found.by_ref().take(partitions.len()) {
                encoder.partition(&header, records);
            }
        }
        encoder.finish(&[])?.copy_into(out);
        Ok(())
    }

    fn read(&self, request: &fetch::FetchRequest<'_>) -> Vec<(FetchPartitionHeader, Vec<Bytes>)> {
        let mut found = Vec::with_capacity(request.topics.item_count());
        for (name, partition) in request.topics.flat() {
            let topic = match name {
                fetch::TopicRef::Name(name) => self.shared.topics.get(name),
                fetch::TopicRef::Id(_) => None,
            };
            let log = topic.as_ref().and_then(|topic| topic.partition(partition.index));
            let Some(log) = log else {
                let header = FetchPartitionHeader::error(partition.index, ErrorCode::UnknownTopicOrPartition);
                found.push((header, Vec::new()));
                continue;
            };
            let records = log.read(partition.fetch_offset, partition.max_bytes.max(0) as usize);
            let code = if records.is_some() {
                ErrorCode::None
            } else {
                ErrorCode::OffsetOutOfRange
            };
            let mut header = FetchPartitionHeader::error(partition.index, code);
            header.high_watermark = log.end_offset();
            header.last_stable_offset = log.end_offset();
            header.log_start_offset = log.start_offset();
            found.push((header, records.unwrap_or_default()));
        }
        found
    }

    fn api_versions(&self, out: &mut BytesMut) -> Result<(), WireError> {
        let served = |api: ApiKey| match api {
            ApiKey::Produce | ApiKey::ApiVersions | ApiKey::Metadata => true,
            ApiKey::CreateTopics | ApiKey::DeleteTopics | ApiKey::ListOffsets => true,
            ApiKey::InitProducerId => true,
            ApiKey::Fetch => self.shared.topics.retain_bytes() > 0,
            _ => false,
        };
        // Topics are known by name only here.
        let named = |api: ApiKey, max: i16| match api {
            ApiKey::Produce => max.min(produce::FIRST_TOPIC_ID_VERSION - 1),
            ApiKey::Fetch => max.min(fetch::FIRST_TOPIC_ID_VERSION - 1),
            _ => max,
        };
        let api_keys = ADVERTISED
            .iter()
            .filter(|range| served(range.api))
            .map(|range| {
                ApiVersion::default()
                    .with_api_key(range.api.key())
                    .with_min_version(range.min_version)
                    .with_max_version(named(range.api, range.max_version))
            })
            .collect();
        let mut answer = ApiVersionsResponse::default().with_api_keys(api_keys);
        let mut version = self.header.api_version;
        if !self.api.is_supported(version) {
            // KIP-511: the error in version 0, with the ranges, so that the client can ask again.
            answer = answer.with_error_code(ErrorCode::UnsupportedVersion.code());
            version = 0;
        }
        encode_response(
            out,
            self.header.api_key,
            version,
            self.header.correlation_id,
            &answer,
        )
    }

    fn metadata(&self, body: &[u8], out: &mut BytesMut) -> Result<(), WireError> {
        let request: MetadataRequest = self.decode(body)?;
        let brokers = self
            .shared
            .nodes
            .iter()
            .map(|node| {
                MetadataResponseBroker::default()
                    .with_node_id(BrokerId(node.id))
                    .with_host(StrBytes::from_string(node.address.ip().to_string()))
                    .with_port(i32::from(node.address.port()))
            })
            .collect();
        let wanted = match request.topics {
            None => self
                .shared
                .topics
                .all()
                .into_iter()
                .map(|(name, topic)| (name, Some(topic)))
                .collect(),
            Some(topics) => topics
                .into_iter()
                .filter_map(|topic| topic.name)
                .map(|name| (name.to_string(), self.shared.topics.get(&name)))
                .collect::<Vec<_>>(),
        };
        let topics = wanted
            .into_iter()
            .map(|(name, topic)| {
                let answer =
                    MetadataResponseTopic::default().with_name(Some(TopicName(StrBytes::from_string(name))));
                match topic {
                    Some(topic) => answer.with_topic_id(topic.id).with_partitions(
                        (0..topic.partition_count() as i32)
                            .map(|index| self.partition(index))
                            .collect(),
                    ),
                    None => answer.with_error_code(ErrorCode::UnknownTopicOrPartition.code()),
                }
            })
            .collect();
        let answer = MetadataResponse::default()
            .with_brokers(brokers)
            .with_cluster_id(Some(StrBytes::from_static_str("strandline-null-broker")))
            .with_controller_id(BrokerId(self.shared.nodes[0].id))
            .with_topics(topics);
        self.encode(out, &answer)
    }

    fn partition(&self, index: i32) -> MetadataResponsePartition {
        let leader = BrokerId(self.shared.nodes[index as usize % self.shared.nodes.len()].id);
        MetadataResponsePartition::default()
            .with_partition_index(index)
            .with_leader_id(leader)
            .with_leader_epoch(0)
            .with_replica_nodes(vec![leader])
            .with_isr_nodes(vec![leader])
    }

    fn create_topics(&self, body: &[u8], out: &mut BytesMut) -> Result<(), WireError> {
        let request: CreateTopicsRequest = self.decode(body)?;
        let topics = request
            .topics
            .into_iter()
            .map(|topic| {
                let partitions = topic.num_partitions.max(1);
                let answer = CreatableTopicResult::default().with_name(topic.name.clone());
                match self.shared.topics.create(&topic.name, partitions as usize) {
                    Some(created) => answer
                        .with_topic_id(created.id)
                        .with_num_partitions(partitions)
                        .with_replication_factor(1),
                    None => answer.with_error_code(ErrorCode::TopicAlreadyExists.code()),
                }
            })
            .collect();
        self.encode(out, &CreateTopicsResponse::default().with_topics(topics))
    }

    fn delete_topics(&self, body: &[u8], out: &mut BytesMut) -> Result<(), WireError> {
        let request: DeleteTopicsRequest = self.decode(body)?;
        let named = request
            .topics
            .into_iter()
            .filter_map(|topic| topic.name)
            .chain(request.topic_names);
        let responses = named
            .map(|name| {
                let code = if self.shared.topics.delete(&name) {
                    ErrorCode::None
                } else {
                    ErrorCode::UnknownTopicOrPartition
                };
                DeletableTopicResult::default()
                    .with_name(Some(name))
                    .with_error_code(code.code())
            })
            .collect();
        self.encode(out, &DeleteTopicsResponse::default().with_responses(responses))
    }

    /// Every producer is a new one: nothing here looks at sequences.
    fn init_producer_id(&self, out: &mut BytesMut) -> Result<(), WireError> {
        let id = ProducerId(fastrand::i64(0..));
        self.encode(out, &InitProducerIdResponse::default().with_producer_id(id))
    }

    fn list_offsets(&self, body: &[u8], out: &mut BytesMut) -> Result<(), WireError> {
        let request: ListOffsetsRequest = self.decode(body)?;
        let topics = request
            .topics
            .into_iter()
            .map(|asked| {
                let topic = self.shared.topics.get(&asked.name);
                let partitions = asked
                    .partitions
                    .iter()
                    .map(|partition| {
                        let answer = ListOffsetsPartitionResponse::default()
                            .with_partition_index(partition.partition_index);
                        let offset = |log: &Partition| {
                            if partition.timestamp == EARLIEST {
                                log.start_offset()
                            } else {
                                log.end_offset()
                            }
                        };
                        match topic
                            .as_ref()
                            .and_then(|topic| topic.partition(partition.partition_index))
                        {
                            Some(log) => answer
                                .with_offset(offset(&log))
                                .with_timestamp(-1)
                                .with_leader_epoch(0),
                            None => answer.with_error_code(ErrorCode::UnknownTopicOrPartition.code()),
                        }
                    })
                    .collect();
                ListOffsetsTopicResponse::default()
                    .with_name(asked.name)
                    .with_partitions(partitions)
            })
            .collect();
        self.encode(out, &ListOffsetsResponse::default().with_topics(topics))
    }
}
