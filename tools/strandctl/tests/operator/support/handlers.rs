//! What the brokers answer.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::api_versions_response::ApiVersion;
use kafka_protocol::messages::create_partitions_response::CreatePartitionsTopicResult;
use kafka_protocol::messages::create_topics_response::CreatableTopicResult;
use kafka_protocol::messages::delete_records_response::{
    DeleteRecordsPartitionResult, DeleteRecordsTopicResult,
};
use kafka_protocol::messages::delete_topics_response::DeletableTopicResult;
use kafka_protocol::messages::describe_configs_response::{
    DescribeConfigsResourceResult, DescribeConfigsResult,
};
use kafka_protocol::messages::describe_log_dirs_response::{
    DescribeLogDirsPartition, DescribeLogDirsResult, DescribeLogDirsTopic,
};
use kafka_protocol::messages::fetch_response::{FetchableTopicResponse, PartitionData};
use kafka_protocol::messages::incremental_alter_configs_response::AlterConfigsResourceResponse;
use kafka_protocol::messages::list_offsets_response::{
    ListOffsetsPartitionResponse, ListOffsetsTopicResponse,
};
use kafka_protocol::messages::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use kafka_protocol::messages::produce_response::{PartitionProduceResponse, TopicProduceResponse};
use kafka_protocol::messages::{
    ApiKey, ApiVersionsRequest, ApiVersionsResponse, BrokerId, ConsumerGroupDescribeRequest,
    CreatePartitionsRequest, CreatePartitionsResponse, CreateTopicsRequest, CreateTopicsResponse,
    DeleteGroupsRequest, DeleteRecordsRequest, DeleteRecordsResponse, DeleteTopicsRequest,
    DeleteTopicsResponse, DescribeClusterRequest, DescribeClusterResponse, DescribeConfigsRequest,
    DescribeConfigsResponse, DescribeGroupsRequest, DescribeLogDirsRequest, DescribeLogDirsResponse,
    FetchRequest, FetchResponse, FindCoordinatorRequest, IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse, InitProducerIdRequest, InitProducerIdResponse, ListGroupsRequest,
    ListOffsetsRequest, ListOffsetsResponse, MetadataRequest, MetadataResponse, OffsetCommitRequest,
    OffsetFetchRequest, ProduceRequest, ProduceResponse, ProducerId, RequestHeader, ResponseHeader,
    TopicName,
};
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, Request, StrBytes};

use strandline_wire::log_details::{CompactionDetails, LogDetails};

use super::cluster::{Fault, Partition, Shared, State};
use super::groups;

const OFFSET_OUT_OF_RANGE: i16 = 1;
const UNKNOWN_TOPIC_OR_PARTITION: i16 = 3;
const NOT_LEADER_OR_FOLLOWER: i16 = 6;
const UNSUPPORTED_VERSION: i16 = 35;
const TOPIC_ALREADY_EXISTS: i16 = 36;
const INVALID_PARTITIONS: i16 = 37;
const INVALID_CONFIG: i16 = 40;
const KAFKA_STORAGE_ERROR: i16 = 56;
/// Kafka's resource type of brokers.
const BROKER: i8 = 4;

/// What goes back.
pub(crate) enum Answer {
    Send(Vec<u8>),
    Nothing,
    Close,
}

/// Answers one frame.
pub(crate) fn answer(broker: i32, mut frame: Bytes, shared: &Shared) -> Answer {
    let key = ApiKey::try_from(i16::from_be_bytes([frame[0], frame[1]])).unwrap();
    let version = i16::from_be_bytes([frame[2], frame[3]]);
    let correlation_id = i32::from_be_bytes([frame[4], frame[5], frame[6], frame[7]]);
    if key == ApiKey::ApiVersions && version > shared.lock().api_versions_max {
        let refusal = api_versions(&shared.lock()).with_error_code(UNSUPPORTED_VERSION);
        return send::<ApiVersionsRequest>(0, correlation_id, &refusal);
    }
    RequestHeader::decode(&mut frame, key.request_header_version(version)).unwrap();
    macro_rules! call {
        ($request:ty, $handler:expr) => {{
            let request = <$request>::decode(&mut frame, version).unwrap();
            let mut state = shared.lock();
            send::<$request>(version, correlation_id, &$handler(&mut *state, request))
        }};
    }
    match key {
        ApiKey::ApiVersions => call!(ApiVersionsRequest, |state: &mut State, _| api_versions(state)),
        ApiKey::Metadata => call!(MetadataRequest, metadata),
        ApiKey::InitProducerId => call!(InitProducerIdRequest, init_producer_id),
        ApiKey::ListOffsets => call!(ListOffsetsRequest, |state: &mut State, request| list_offsets(
            state, broker, request
        )),
        ApiKey::CreateTopics => call!(CreateTopicsRequest, create_topics),
        ApiKey::DeleteTopics => call!(DeleteTopicsRequest, delete_topics),
        ApiKey::CreatePartitions => call!(CreatePartitionsRequest, create_partitions),
        ApiKey::DeleteRecords => call!(DeleteRecordsRequest, |state: &mut State, request| delete_records(
            state, broker, request
        )),
        ApiKey::DescribeConfigs => call!(DescribeConfigsRequest, describe_configs),
        ApiKey::IncrementalAlterConfigs => call!(IncrementalAlterConfigsRequest, alter_configs),
        ApiKey::DescribeCluster => call!(DescribeClusterRequest, describe_cluster),
        ApiKey::DescribeLogDirs => call!(DescribeLogDirsRequest, |state: &mut State, _| log_dirs(
            state, broker
        )),
        ApiKey::FindCoordinator => call!(FindCoordinatorRequest, groups::find),
        ApiKey::ListGroups => call!(ListGroupsRequest, |state: &mut State, request| groups::list(
            state, broker, version, request
        )),
        ApiKey::DescribeGroups => call!(DescribeGroupsRequest, |state: &mut State, request| {
            groups::describe(state, broker, version, request)
        }),
        ApiKey::ConsumerGroupDescribe => {
            call!(ConsumerGroupDescribeRequest, |state: &mut State, request| {
                groups::describe_new(state, broker, request)
            })
        }
        ApiKey::OffsetFetch => call!(OffsetFetchRequest, |state: &mut State, request| {
            groups::fetch_offsets(state, broker, version, request)
        }),
        ApiKey::OffsetCommit => call!(OffsetCommitRequest, |state: &mut State, request| groups::commit(
            state, broker, request
        )),
        ApiKey::DeleteGroups => {
            let answer = call!(DeleteGroupsRequest, |state: &mut State, request| groups::delete(
                state, broker, request
            ));
            match shared.lock().strikes(Fault::LostDeletion) {
                true => Answer::Close,
                false => answer,
            }
        }
        ApiKey::Produce => {
            let request = ProduceRequest::decode(&mut frame, version).unwrap();
            let acks = request.acks;
            let mut state = shared.lock();
            state.produced.push((broker, version));
            let response = produce(&mut state, broker, request);
            shared.arrived.notify_all();
            if state.strikes(Fault::LostAcknowledgement) {
                Answer::Close
            } else if acks == 0 {
                Answer::Nothing
            } else {
                send::<ProduceRequest>(version, correlation_id, &response)
            }
        }
        ApiKey::Fetch => {
            let request = FetchRequest::decode(&mut frame, version).unwrap();
            send::<FetchRequest>(version, correlation_id, &long_poll(shared, broker, &request))
        }
        other => panic!("strandctl asked for {other:?}"),
    }
}

fn send<R: Request>(version: i16, correlation_id: i32, response: &R::Response) -> Answer {
    let mut out = BytesMut::new();
    let header = ResponseHeader::default().with_correlation_id(correlation_id);
    header
        .encode(&mut out, <R::Response as HeaderVersion>::header_version(version))
        .unwrap();
    response.encode(&mut out, version).unwrap();
    Answer::Send(out.to_vec())
}

pub(super) fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

fn api_versions(state: &State) -> ApiVersionsResponse {
    let ranges = [
        (ApiKey::Produce, 3, state.produce_max),
        (ApiKey::Fetch, 4, 18),
        (ApiKey::ListOffsets, 1, 10),
        (ApiKey::Metadata, 0, 13),
        (ApiKey::ApiVersions, 0, state.api_versions_max),
        (ApiKey::CreateTopics, 2, 7),
        (ApiKey::DeleteTopics, 1, 6),
        (ApiKey::CreatePartitions, 0, 3),
        (ApiKey::DeleteRecords, 0, 2),
        (ApiKey::InitProducerId, 0, 5),
        (ApiKey::DescribeConfigs, 1, 4),
        (ApiKey::IncrementalAlterConfigs, 0, 1),
        (ApiKey::DescribeCluster, 0, 2),
        (ApiKey::DescribeLogDirs, 1, 4),
        (ApiKey::DeleteGroups, 0, 2),
        (ApiKey::FindCoordinator, 0, if state.old_groups { 3 } else { 6 }),
        (ApiKey::ListGroups, 0, if state.old_groups { 4 } else { 5 }),
        (ApiKey::DescribeGroups, 0, if state.old_groups { 5 } else { 6 }),
        (ApiKey::OffsetFetch, 0, if state.old_groups { 7 } else { 10 }),
        (ApiKey::OffsetCommit, 0, if state.old_groups { 8 } else { 10 }),
    ];
    // Kafka 2.8 has no groups of the consumer protocol.
    let new = (!state.old_groups).then_some((ApiKey::ConsumerGroupDescribe, 0, 1));
    let keys = ranges.into_iter().chain(new).map(|(key, min, max)| {
        ApiVersion::default()
            .with_api_key(key as i16)
            .with_min_version(min)
            .with_max_version(max)
    });
    ApiVersionsResponse::default().with_api_keys(keys.collect())
}

fn metadata(state: &mut State, request: MetadataRequest) -> MetadataResponse {
    let stale = state.striking(|fault| match fault {
        Fault::StaleMetadata(leader) => Some(*leader),
        _ => None,
    });
    let names: Vec<String> = match &request.topics {
        None => state.topics.keys().cloned().collect(),
        Some(topics) => topics
            .iter()
            .filter_map(|topic| topic.name.as_ref().map(|name| name.to_string()))
            .collect(),
    };
    let topics = names.iter().map(|name| {
        let topic = MetadataResponseTopic::default().with_name(Some(TopicName(text(name))));
        let Some(partitions) = state.topics.get(name) else {
            return topic.with_error_code(UNKNOWN_TOPIC_OR_PARTITION);
        };
        let partitions = partitions.iter().enumerate().map(|(index, partition)| {
            let leader = BrokerId(stale.unwrap_or(partition.leader));
            MetadataResponsePartition::default()
                .with_partition_index(index as i32)
                .with_leader_id(leader)
                .with_replica_nodes(vec![leader])
                .with_isr_nodes(vec![leader])
        });
        topic.with_partitions(partitions.collect())
    });
    let topics = topics.collect();
    let brokers = state.brokers.iter().map(|(&id, address)| {
        MetadataResponseBroker::default()
            .with_node_id(BrokerId(id))
            .with_host(text(&address.ip().to_string()))
            .with_port(address.port().into())
    });
    MetadataResponse::default()
        .with_brokers(brokers.collect())
        .with_cluster_id(Some(text("fake")))
        .with_controller_id(BrokerId(1))
        .with_topics(topics)
}

fn init_producer_id(state: &mut State, _: InitProducerIdRequest) -> InitProducerIdResponse {
    state.next_producer_id += 1;
    InitProducerIdResponse::default()
        .with_producer_id(ProducerId(state.next_producer_id))
        .with_producer_epoch(0)
}

/// The partition of a request that this broker leads.
fn led<'a>(state: &'a mut State, broker: i32, topic: &str, index: i32) -> Result<&'a mut Partition, i16> {
    let partition = state
        .topics
        .get_mut(topic)
        .and_then(|partitions| partitions.get_mut(index as usize));
    match partition {
        None => Err(UNKNOWN_TOPIC_OR_PARTITION),
        Some(partition) if partition.leader != broker => Err(NOT_LEADER_OR_FOLLOWER),
        Some(partition) => Ok(partition),
    }
}

fn list_offsets(state: &mut State, broker: i32, request: ListOffsetsRequest) -> ListOffsetsResponse {
    let topics = request.topics.into_iter().map(|topic| {
        let partitions = topic.partitions.iter().map(|asked| {
            let answer = ListOffsetsPartitionResponse::default().with_partition_index(asked.partition_index);
            match led(state, broker, &topic.name, asked.partition_index) {
                Err(code) => answer.with_error_code(code),
                Ok(partition) => answer.with_offset(match asked.timestamp {
                    -2 => partition.start,
                    -1 => partition.end,
                    time => first_since(partition, time),
                }),
            }
        });
        let partitions = partitions.collect();
        ListOffsetsTopicResponse::default()
            .with_name(topic.name)
            .with_partitions(partitions)
    });
    ListOffsetsResponse::default().with_topics(topics.collect())
}

/// What a broker leads, a segment a batch; the first broker tells of segments, and of the cleaner where the topic's name says that
/// it is compacted; the others are Kafka's.
fn log_dirs(state: &State, broker: i32) -> DescribeLogDirsResponse {
    let topics = state.topics.iter().map(|(name, partitions)| {
        let led = (0..).zip(partitions).filter(|(_, p)| p.leader == broker);
        let partitions = led.map(|(index, partition)| {
            let bytes: usize = partition.batches.iter().map(|(_, batch)| batch.len()).sum();
            let details = LogDetails {
                segments: partition.batches.len() as u32,
                compaction: name.contains("compacted").then_some(CompactionDetails {
                    cleaned_to: 3,
                    clean_bytes: 100,
                    dirty_bytes: 300,
                    last_cleaned_ms: (index == 0).then_some(1_700_000_000_000),
                    is_uncleanable: index == 2,
                }),
            };
            let tagged = if broker == 1 {
                details.encode()
            } else {
                Default::default()
            };
            DescribeLogDirsPartition::default()
                .with_partition_index(index)
                .with_partition_size(bytes as i64)
                .with_unknown_tagged_fields(tagged)
        });
        DescribeLogDirsTopic::default()
            .with_name(TopicName(text(name)))
            .with_partitions(partitions.collect())
    });
    let directory = DescribeLogDirsResult::default()
        .with_log_dir(text("/data"))
        .with_topics(topics.collect());
    DescribeLogDirsResponse::default().with_results(vec![directory])
}

/// The first batch with a record at or after a time, or -1.
fn first_since(partition: &Partition, time: i64) -> i64 {
    let is_late = |(_, batch): &&(i64, Vec<u8>)| i64::from_be_bytes(field(batch, 35)) >= time;
    partition
        .batches
        .iter()
        .find(is_late)
        .map_or(-1, |(base_offset, _)| *base_offset)
}

/// The field of a batch header at a byte position.
fn field<const N: usize>(batch: &[u8], at: usize) -> [u8; N] {
    batch[at..at + N].try_into().unwrap()
}

fn produce(state: &mut State, broker: i32, request: ProduceRequest) -> ProduceResponse {
    let topics = request.topic_data.into_iter().map(|topic| {
        let partitions = topic.partition_data.into_iter().map(|data| {
            let answer = PartitionProduceResponse::default().with_index(data.index);
            match led(state, broker, &topic.name, data.index) {
                Err(code) => answer.with_error_code(code).with_base_offset(-1),
                Ok(partition) => answer.with_base_offset(append(partition, &data.records.unwrap())),
            }
        });
        let partitions = partitions.collect();
        TopicProduceResponse::default()
            .with_name(topic.name)
            .with_partition_responses(partitions)
    });
    ProduceResponse::default().with_responses(topics.collect())
}

/// Stores a batch, or finds it stored by its sequence. Returns its base offset.
fn append(partition: &mut Partition, records: &[u8]) -> i64 {
    let producer_id = i64::from_be_bytes(field(records, 43));
    let sequence = i32::from_be_bytes(field(records, 53));
    if let Some(&(last, base_offset)) = partition.producers.get(&producer_id)
        && producer_id >= 0
        && last == sequence
    {
        return base_offset;
    }
    let base_offset = partition.end;
    let mut batch = records.to_vec();
    batch[..8].copy_from_slice(&base_offset.to_be_bytes());
    partition.end += i64::from(i32::from_be_bytes(field(records, 23))) + 1;
    partition.batches.push((base_offset, batch));
    partition.producers.insert(producer_id, (sequence, base_offset));
    base_offset
}

/// Waits for records as long as the request allows.
fn long_poll(shared: &Shared, broker: i32, request: &FetchRequest) -> FetchResponse {
    let mut state = shared.lock();
    if state.strikes(Fault::FetchMoved) {
        return fetch(&mut state, -1, request).0;
    }
    let deleted = state.striking(|fault| match fault {
        Fault::DeletedBefore(offset) => Some(*offset),
        _ => None,
    });
    if let Some(offset) = deleted {
        state
            .topics
            .values_mut()
            .flatten()
            .for_each(|partition| partition.start = offset);
    }
    let (response, empty) = fetch(&mut state, broker, request);
    if !empty {
        return response;
    }
    let wait = Duration::from_millis(request.max_wait_ms as u64);
    let (mut state, _) = shared.arrived.wait_timeout(state, wait).unwrap();
    fetch(&mut state, broker, request).0
}

fn fetch(state: &mut State, broker: i32, request: &FetchRequest) -> (FetchResponse, bool) {
    let mut empty = true;
    let broken = state.broken_disk;
    let topics = request.topics.iter().map(|topic| {
        let partitions = topic.partitions.iter().map(|asked| {
            let answer = PartitionData::default().with_partition_index(asked.partition);
            let (code, records) = match led(state, broker, &topic.topic, asked.partition) {
                Err(code) => (code, Bytes::new()),
                Ok(_) if broken => (KAFKA_STORAGE_ERROR, Bytes::new()),
                Ok(partition) if !(partition.start..=partition.end).contains(&asked.fetch_offset) => {
                    (OFFSET_OUT_OF_RANGE, Bytes::new())
                }
                Ok(partition) => (0, batch_with(partition, asked.fetch_offset)),
            };
            empty &= code == 0 && records.is_empty();
            answer.with_error_code(code).with_records(Some(records))
        });
        let partitions = partitions.collect();
        FetchableTopicResponse::default()
            .with_topic(topic.topic.clone())
            .with_partitions(partitions)
    });
    let response = FetchResponse::default().with_responses(topics.collect());
    (response, empty)
}

/// The one batch that holds an offset: many small answers are the harder case for a consumer.
fn batch_with(partition: &Partition, offset: i64) -> Bytes {
    let batch = partition
        .batches
        .iter()
        .rev()
        .find(|(base_offset, _)| *base_offset <= offset);
    match batch {
        Some((_, batch)) if offset < partition.end => Bytes::copy_from_slice(batch),
        _ => Bytes::new(),
    }
}

fn create_topics(state: &mut State, request: CreateTopicsRequest) -> CreateTopicsResponse {
    let topics = request.topics.into_iter().map(|topic| {
        let answer = CreatableTopicResult::default().with_name(topic.name.clone());
        if state.topics.contains_key(topic.name.as_str()) {
            let words = Some(text("it is there already"));
            return answer
                .with_error_code(TOPIC_ALREADY_EXISTS)
                .with_error_message(words);
        }
        let partitions = topic.num_partitions.max(1);
        state.create(&topic.name, partitions as usize);
        answer.with_num_partitions(partitions).with_replication_factor(1)
    });
    CreateTopicsResponse::default().with_topics(topics.collect())
}

fn delete_topics(state: &mut State, request: DeleteTopicsRequest) -> DeleteTopicsResponse {
    let topics = request.topics.into_iter().map(|topic| {
        let name = topic.name.unwrap();
        let known = state.topics.remove(name.as_str()).is_some();
        let code = if known { 0 } else { UNKNOWN_TOPIC_OR_PARTITION };
        DeletableTopicResult::default()
            .with_name(Some(name))
            .with_error_code(code)
    });
    DeleteTopicsResponse::default().with_responses(topics.collect())
}

fn create_partitions(state: &mut State, request: CreatePartitionsRequest) -> CreatePartitionsResponse {
    let results = request.topics.into_iter().map(|topic| {
        let answer = CreatePartitionsTopicResult::default().with_name(topic.name.clone());
        let have = state.topics.get(topic.name.as_str()).map(Vec::len);
        match have {
            None => answer.with_error_code(UNKNOWN_TOPIC_OR_PARTITION),
            Some(have) if topic.count as usize <= have => answer
                .with_error_code(INVALID_PARTITIONS)
                .with_error_message(Some(text("it has as many"))),
            Some(_) => {
                let partitions = state.partitions(topic.count as usize);
                let held = state.topics.get_mut(topic.name.as_str()).unwrap();
                let more = partitions.into_iter().skip(held.len());
                held.extend(more);
                answer
            }
        }
    });
    CreatePartitionsResponse::default().with_results(results.collect())
}

fn delete_records(state: &mut State, broker: i32, request: DeleteRecordsRequest) -> DeleteRecordsResponse {
    let topics = request.topics.into_iter().map(|topic| {
        let partitions = topic.partitions.iter().map(|asked| {
            let answer = DeleteRecordsPartitionResult::default().with_partition_index(asked.partition_index);
            match led(state, broker, &topic.name, asked.partition_index) {
                Err(code) => answer.with_error_code(code),
                Ok(partition) if asked.offset > partition.end => answer.with_error_code(OFFSET_OUT_OF_RANGE),
                Ok(partition) => {
                    partition.start = partition.start.max(asked.offset);
                    answer.with_low_watermark(partition.start)
                }
            }
        });
        let partitions = partitions.collect();
        DeleteRecordsTopicResult::default()
            .with_name(topic.name)
            .with_partitions(partitions)
    });
    DeleteRecordsResponse::default().with_topics(topics.collect())
}

fn describe_configs(state: &mut State, request: DescribeConfigsRequest) -> DescribeConfigsResponse {
    let results = request.resources.into_iter().map(|resource| {
        let set = state
            .configs
            .get(resource.resource_name.as_str())
            .cloned()
            .unwrap_or_default();
        let source = match (resource.resource_type, resource.resource_name.as_str()) {
            (BROKER, "") => 3,
            (BROKER, _) => 2,
            _ => 1,
        };
        let configs = set.into_iter().map(|(key, value)| {
            DescribeConfigsResourceResult::default()
                .with_name(text(&key))
                .with_value(Some(text(&value)))
                .with_config_source(source)
        });
        DescribeConfigsResult::default()
            .with_resource_type(resource.resource_type)
            .with_resource_name(resource.resource_name)
            .with_configs(configs.collect())
    });
    DescribeConfigsResponse::default().with_results(results.collect())
}

fn alter_configs(
    state: &mut State,
    request: IncrementalAlterConfigsRequest,
) -> IncrementalAlterConfigsResponse {
    let responses = request.resources.into_iter().map(|resource| {
        let mut answer =
            AlterConfigsResourceResponse::default().with_resource_name(resource.resource_name.clone());
        let configs = state
            .configs
            .entry(resource.resource_name.to_string())
            .or_default();
        for change in resource.configs {
            match (change.config_operation, change.value) {
                (0, Some(value)) if change.name.as_str().contains('.') => {
                    configs.insert(change.name.to_string(), value.to_string());
                }
                (1, _) => {
                    configs.remove(change.name.as_str());
                }
                _ => {
                    answer = answer
                        .with_error_code(INVALID_CONFIG)
                        .with_error_message(Some(text("no such key")))
                }
            }
        }
        answer
    });
    IncrementalAlterConfigsResponse::default().with_responses(responses.collect())
}

fn describe_cluster(state: &mut State, _: DescribeClusterRequest) -> DescribeClusterResponse {
    use kafka_protocol::messages::describe_cluster_response::DescribeClusterBroker;
    let brokers = state.brokers.iter().map(|(&id, address)| {
        DescribeClusterBroker::default()
            .with_broker_id(BrokerId(id))
            .with_host(text(&address.ip().to_string()))
            .with_port(address.port().into())
    });
    DescribeClusterResponse::default()
        .with_cluster_id(text("fake"))
        .with_controller_id(BrokerId(1))
        .with_brokers(brokers.collect())
}
