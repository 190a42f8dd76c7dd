//! The whole node on virtual time: produce, power cut with torn writes, restart, fetch. One seed is one history.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::{
    ApiKey, BrokerId, FetchRequest, FetchResponse, MetadataRequest, MetadataResponse, ProduceRequest,
    ProduceResponse, RequestHeader, ResponseHeader, TopicName,
};
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, StrBytes};
use kafka_protocol::records::{
    Compression, Record, RecordBatchDecoder, RecordBatchEncoder, RecordEncodeOptions, TimestampType,
};
use strandline::config::machine::Machine;
use strandline::config::{BrokerConfig, Origin, Settings, resolve};
use strandline::node::simulated;
use strandline_runtime::sim::{SimRuntime, SimStream, Simulation};
use strandline_runtime::{ReadHalf, Runtime, SocketAddr, TcpStream, WriteHalf};
use strandline_storage::disk::{SimDisk, SimDiskOptions};

const TOPIC: &str = "t";
const PRODUCE_VERSION: i16 = 9;
const FETCH_VERSION: i16 = 11;
const METADATA_VERSION: i16 = 9;

fn config() -> Arc<BrokerConfig> {
    let mut settings = Settings::default();
    for (key, value) in [
        ("listeners", "PLAINTEXT://127.0.0.1:9092"),
        ("advertised.listeners", "PLAINTEXT://node:9092"),
        ("strandline.memory.bytes", "67108864"),
        ("strandline.journal.bytes", "4194304"),
        ("strandline.disk.free.min.bytes", "1"),
        ("num.partitions", "2"),
    ] {
        settings.set(key, value, Origin::Set);
    }
    let machine = Machine {
        cores: vec![0, 1],
        memory_bytes: 8 << 30,
        descriptors_max: 65_536,
    };
    let identity = resolve::identity(&settings, &machine).unwrap();
    Arc::new(resolve::resolve(&settings, &identity, 2, &machine).unwrap())
}

struct Client {
    read: <SimStream as TcpStream>::ReadHalf,
    write: <SimStream as TcpStream>::WriteHalf,
}

impl Client {
    async fn connect(runtime: &SimRuntime, shard: u16) -> Self {
        let stream = runtime
            .connect(SocketAddr::from(([127, 0, 0, 1], 9092 + shard)))
            .await
            .unwrap();
        let (read, write) = stream.split();
        Self { read, write }
    }

    async fn ask<Q: Encodable + HeaderVersion, A: Decodable + HeaderVersion>(
        &mut self,
        key: ApiKey,
        version: i16,
        request: &Q,
    ) -> A {
        let header = RequestHeader::default()
            .with_request_api_key(key as i16)
            .with_request_api_version(version)
            .with_client_id(Some(StrBytes::from_static_str("simulated")));
        let mut body = BytesMut::new();
        header.encode(&mut body, Q::header_version(version)).unwrap();
        request.encode(&mut body, version).unwrap();
        let mut frame = (body.len() as u32).to_be_bytes().to_vec();
        frame.extend_from_slice(&body);
        self.write.write_all(&frame).await.unwrap();
        let size = u32::from_be_bytes(self.exactly(4).await.try_into().unwrap());
        let mut answer = Bytes::from(self.exactly(size as usize).await);
        ResponseHeader::decode(&mut answer, A::header_version(version)).unwrap();
        A::decode(&mut answer, version).unwrap()
    }

    async fn exactly(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        let mut filled = 0;
        while filled < length {
            let read = self.read.read(&mut bytes[filled..]).await.unwrap();
            assert!(read > 0, "the connection was closed");
            filled += read;
        }
        bytes
    }
}

fn name() -> TopicName {
    TopicName(StrBytes::from_static_str(TOPIC))
}

async fn metadata(client: &mut Client) -> MetadataResponse {
    let topic = MetadataRequestTopic::default().with_name(Some(name()));
    let request = MetadataRequest::default()
        .with_topics(Some(vec![topic]))
        .with_allow_auto_topic_creation(true);
    client.ask(ApiKey::Metadata, METADATA_VERSION, &request).await
}

fn batch(value: &str) -> Bytes {
    let record = Record {
        delete_horizon: false,
        transactional: false,
        control: false,
        partition_leader_epoch: -1,
        producer_id: -1,
        producer_epoch: -1,
        timestamp_type: TimestampType::Creation,
        offset: 0,
        sequence: -1,
        timestamp: 1_735_689_600_000,
        key: None,
        value: Some(Bytes::copy_from_slice(value.as_bytes())),
        headers: Default::default(),
    };
    let mut bytes = BytesMut::new();
    let options = RecordEncodeOptions {
        version: 2,
        compression: Compression::None,
    };
    RecordBatchEncoder::encode(&mut bytes, [&record], &options).unwrap();
    bytes.freeze()
}

/// Appends a record durably; gives its offset.
async fn produce(client: &mut Client, partition: i32, value: &str) -> i64 {
    let data = PartitionProduceData::default()
        .with_index(partition)
        .with_records(Some(batch(value)));
    let topic = TopicProduceData::default()
        .with_name(name())
        .with_partition_data(vec![data]);
    let request = ProduceRequest::default()
        .with_acks(-1)
        .with_timeout_ms(5_000)
        .with_topic_data(vec![topic]);
    let answer: ProduceResponse = client.ask(ApiKey::Produce, PRODUCE_VERSION, &request).await;
    let answer = &answer.responses[0].partition_responses[0];
    assert_eq!(answer.error_code, 0, "{:?}", answer.error_message);
    answer.base_offset
}

async fn fetch(client: &mut Client, partition: i32) -> Vec<String> {
    let asked = FetchPartition::default()
        .with_partition(partition)
        .with_partition_max_bytes(1 << 20);
    let topic = FetchTopic::default()
        .with_topic(name())
        .with_partitions(vec![asked]);
    let request = FetchRequest::default()
        .with_replica_id(BrokerId(-1))
        .with_max_wait_ms(100)
        .with_min_bytes(1)
        .with_max_bytes(1 << 20)
        .with_session_epoch(-1)
        .with_topics(vec![topic]);
    let answer: FetchResponse = client.ask(ApiKey::Fetch, FETCH_VERSION, &request).await;
    let answer = &answer.responses[0].partitions[0];
    assert_eq!(answer.error_code, 0);
    let mut records = answer.records.clone().unwrap_or_default();
    let sets = RecordBatchDecoder::decode_all(&mut records).unwrap();
    let values = sets
        .into_iter()
        .flat_map(|set| set.records)
        .map(|record| record.value.unwrap());
    values
        .map(|value| String::from_utf8(value.to_vec()).unwrap())
        .collect()
}

/// Produces, cuts the power, starts again, and gives what is there then.
fn history(seed: u64) -> (Vec<Vec<String>>, u64) {
    let simulation = Simulation::new(seed);
    let first = simulation.runtime("node");
    let disk = SimDisk::new(first.clone(), SimDiskOptions::default());
    let (runtime, on_disk) = (first, disk.clone());
    let produced = simulation.run_until(async move {
        let node = simulated::start(&runtime, &on_disk, config()).await.unwrap();
        let started = node.ready.await.unwrap();
        assert_eq!(started.len(), 2);
        let mut shards = [
            Client::connect(&runtime, 0).await,
            Client::connect(&runtime, 1).await,
        ];
        let topics = metadata(&mut shards[0]).await.topics;
        assert_eq!(
            (topics[0].error_code, topics[0].partitions.len()),
            (0, 2),
            "created, and usable at once"
        );
        let mut produced = vec![Vec::new(), Vec::new()];
        for number in 0..20 {
            let partition = number % 2;
            let leader = topics[0].partitions[partition].leader_id.0 - 1000;
            let value = format!("{seed}-{number}");
            let offset = produce(&mut shards[leader as usize], partition as i32, &value).await;
            assert_eq!(offset, produced[partition].len() as i64);
            produced[partition].push(value);
        }
        produced
    });
    disk.crash();
    simulation.kill_host("node");

    let runtime = simulation.runtime("node");
    let disk = disk.attach(runtime.clone());
    let fetched = simulation.run_until(async move {
        let node = simulated::start(&runtime, &disk, config()).await.unwrap();
        node.ready.await.unwrap();
        let mut shards = [
            Client::connect(&runtime, 0).await,
            Client::connect(&runtime, 1).await,
        ];
        let topics = metadata(&mut shards[1]).await.topics;
        let mut fetched = Vec::new();
        for (number, partition) in topics[0].partitions.iter().enumerate() {
            assert!(partition.leader_epoch > 0, "a restart raises the epoch");
            fetched.push(
                fetch(
                    &mut shards[(partition.leader_id.0 - 1000) as usize],
                    number as i32,
                )
                .await,
            );
        }
        node.client.stop();
        node.ended.await.unwrap().unwrap();
        fetched
    });
    assert_eq!(
        fetched, produced,
        "what was acknowledged is there, in order, and nothing else"
    );
    (fetched, simulation.trace_hash())
}

#[test]
fn what_was_acknowledged_survives_a_power_cut() {
    for seed in 1..=5 {
        let (first, again) = (history(seed), history(seed));
        assert_eq!(first, again, "seed {seed} repeats");
    }
}
