//! Topics and partitions, by the calls that most tests need.

use std::collections::BTreeMap;

use bytes::Bytes;
use kafka_protocol::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use kafka_protocol::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use kafka_protocol::messages::delete_records_response::DeleteRecordsPartitionResult;
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::fetch_response::PartitionData;
use kafka_protocol::messages::incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig};
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::list_offsets_response::ListOffsetsPartitionResponse;
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::produce_response::PartitionProduceResponse;
use kafka_protocol::messages::{
    BrokerId, CreateTopicsRequest, DeleteRecordsRequest, FetchRequest, IncrementalAlterConfigsRequest,
    ListOffsetsRequest, MetadataRequest, MetadataResponse, ProduceRequest, TopicName,
};
use kafka_protocol::protocol::StrBytes;
use uuid::Uuid;

use super::batch::{Batch, Record, decode_all};
use super::broker::Broker;
use super::client::Client;

pub const PRODUCE_VERSION: i16 = 11;
pub const FETCH_VERSION: i16 = 12;

pub fn name(name: &str) -> TopicName {
    TopicName(StrBytes::from_string(name.to_owned()))
}

/// Creates a topic; panics on an error.
pub fn create(client: &mut Client, topic: &str, partitions: i32, configs: &[(&str, &str)]) {
    let configs = configs.iter().map(|(key, value)| {
        CreatableTopicConfig::default()
            .with_name(StrBytes::from_string((*key).to_owned()))
            .with_value(Some(StrBytes::from_string((*value).to_owned())))
    });
    let topic = CreatableTopic::default()
        .with_name(name(topic))
        .with_num_partitions(partitions)
        .with_replication_factor(1)
        .with_configs(configs.collect());
    let request = CreateTopicsRequest::default()
        .with_topics(vec![topic])
        .with_timeout_ms(30_000);
    let answer = client.call(7, &request);
    assert_eq!(
        answer.topics[0].error_code, 0,
        "{:?}",
        answer.topics[0].error_message
    );
}

/// Sets a key of a topic; panics on an error.
pub fn set_config(client: &mut Client, topic: &str, key: &str, value: &str) {
    const TOPIC: i8 = 2;
    let text = |text: &str| StrBytes::from_string(text.to_owned());
    let config = AlterableConfig::default()
        .with_name(text(key))
        .with_value(Some(text(value)));
    let resource = AlterConfigsResource::default()
        .with_resource_type(TOPIC)
        .with_resource_name(text(topic))
        .with_configs(vec![config]);
    let request = IncrementalAlterConfigsRequest::default().with_resources(vec![resource]);
    let answer = client.call(1, &request);
    assert_eq!(
        answer.responses[0].error_code, 0,
        "{:?}",
        answer.responses[0].error_message
    );
}

pub fn metadata(client: &mut Client, topics: &[&str]) -> MetadataResponse {
    let topics = topics
        .iter()
        .map(|topic| MetadataRequestTopic::default().with_name(Some(name(topic))));
    let request = MetadataRequest::default()
        .with_topics(Some(topics.collect()))
        .with_allow_auto_topic_creation(false);
    client.call(12, &request)
}

/// One partition, and a connection to its leader.
pub struct Partition {
    pub client: Client,
    pub topic: String,
    pub topic_id: Uuid,
    pub index: i32,
}

impl Partition {
    /// The only partition of a new topic.
    pub fn create(broker: &Broker, topic: &str, configs: &[(&str, &str)]) -> Self {
        create(&mut broker.client(), topic, 1, configs);
        Self::find(broker, topic, 0)
    }

    /// A partition of an existing topic.
    pub fn find(broker: &Broker, topic: &str, index: i32) -> Self {
        let found = metadata(&mut broker.client(), &[topic]);
        let entry = &found.topics[0];
        assert_eq!(entry.error_code, 0, "{topic}");
        let partition = entry
            .partitions
            .iter()
            .find(|p| p.partition_index == index)
            .unwrap();
        let client = broker.client_of(partition.leader_id.0);
        Self {
            client,
            topic: topic.to_owned(),
            topic_id: entry.topic_id,
            index,
        }
    }

    pub fn produce_request(&self, acks: i16, records: Vec<u8>) -> ProduceRequest {
        let partition = PartitionProduceData::default()
            .with_index(self.index)
            .with_records(Some(Bytes::from(records)));
        let topic = TopicProduceData::default()
            .with_name(name(&self.topic))
            .with_partition_data(vec![partition]);
        ProduceRequest::default()
            .with_acks(acks)
            .with_timeout_ms(30_000)
            .with_topic_data(vec![topic])
    }

    /// Produces with acks=all; the partition's answer.
    pub fn produce(&mut self, batch: &Batch) -> PartitionProduceResponse {
        self.produce_bytes(batch.encode())
    }

    pub fn produce_bytes(&mut self, records: Vec<u8>) -> PartitionProduceResponse {
        let request = self.produce_request(-1, records);
        let mut answer = self.client.call(PRODUCE_VERSION, &request);
        answer.responses.remove(0).partition_responses.remove(0)
    }

    /// Produces, and expects success; the offset of the first record.
    pub fn append(&mut self, batch: &Batch) -> i64 {
        let answer = self.produce(batch);
        assert_eq!(answer.error_code, 0, "{:?}", answer.error_message);
        answer.base_offset
    }

    pub fn fetch_request(&self, offset: i64) -> FetchRequest {
        let partition = FetchPartition::default()
            .with_partition(self.index)
            .with_fetch_offset(offset)
            .with_current_leader_epoch(-1)
            .with_last_fetched_epoch(-1)
            .with_partition_max_bytes(1 << 20);
        let topic = FetchTopic::default()
            .with_topic(name(&self.topic))
            .with_partitions(vec![partition]);
        FetchRequest::default()
            .with_replica_id(BrokerId(-1))
            .with_max_wait_ms(0)
            .with_min_bytes(1)
            .with_max_bytes(64 << 20)
            .with_session_epoch(-1)
            .with_topics(vec![topic])
    }

    /// One fetch that does not wait; the partition's answer.
    pub fn fetch(&mut self, offset: i64) -> PartitionData {
        let mut answer = self.client.call(FETCH_VERSION, &self.fetch_request(offset));
        assert_eq!(answer.error_code, 0);
        answer.responses.remove(0).partitions.remove(0)
    }

    /// The batches of one fetch.
    pub fn batches(&mut self, offset: i64) -> Vec<Batch> {
        let data = self.fetch(offset);
        assert_eq!(data.error_code, 0);
        decode_all(&data.records.unwrap_or_default())
    }

    /// Every record from `offset` to the high watermark, with its offset; panics on a gap.
    pub fn read_all(&mut self, offset: i64) -> BTreeMap<i64, Record> {
        let mut records = BTreeMap::new();
        let mut next = offset;
        loop {
            let data = self.fetch(next);
            assert_eq!(data.error_code, 0, "fetch at {next}");
            if next >= data.high_watermark {
                return records;
            }
            let batches = decode_all(&data.records.unwrap_or_default());
            assert!(
                !batches.is_empty(),
                "no records at {next} below the high watermark {}",
                data.high_watermark
            );
            for batch in batches {
                assert!(batch.base_offset <= next, "gap before {}", batch.base_offset);
                for record in &batch.records {
                    let at = batch.base_offset + i64::from(record.offset_delta);
                    if at >= next {
                        records.insert(at, record.clone());
                    }
                }
                next = batch.last_offset() + 1;
            }
        }
    }

    /// ListOffsets of this version.
    pub fn list_offset(&mut self, version: i16, timestamp: i64) -> ListOffsetsPartitionResponse {
        let partition = ListOffsetsPartition::default()
            .with_partition_index(self.index)
            .with_current_leader_epoch(-1)
            .with_timestamp(timestamp);
        let topic = ListOffsetsTopic::default()
            .with_name(name(&self.topic))
            .with_partitions(vec![partition]);
        let request = ListOffsetsRequest::default()
            .with_replica_id(BrokerId(-1))
            .with_topics(vec![topic]);
        let mut answer = self.client.call(version, &request);
        answer.topics.remove(0).partitions.remove(0)
    }

    /// Deletes the records below `offset`; -1 stands for the high watermark.
    pub fn delete_records(&mut self, offset: i64) -> DeleteRecordsPartitionResult {
        let partition = DeleteRecordsPartition::default()
            .with_partition_index(self.index)
            .with_offset(offset);
        let topic = DeleteRecordsTopic::default()
            .with_name(name(&self.topic))
            .with_partitions(vec![partition]);
        let request = DeleteRecordsRequest::default()
            .with_topics(vec![topic])
            .with_timeout_ms(30_000);
        let mut answer = self.client.call(2, &request);
        answer.topics.remove(0).partitions.remove(0)
    }

    pub fn end_offset(&mut self) -> i64 {
        self.list_offset(7, -1).offset
    }
}
