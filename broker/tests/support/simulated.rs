//! A node in the simulator, and clients that speak to it through the codec of the `kafka-protocol` crate. Not a part of
//! `support`, whose other users test the program alone: `#[path = "support/simulated.rs"] mod simulated;`.

#![allow(dead_code, unreachable_pub)]
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kafka_protocol::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::{
    BrokerId, CreateTopicsRequest, FetchRequest, ProduceRequest, ResponseHeader, TopicName,
};
use kafka_protocol::protocol::{Decodable, HeaderVersion, Request, StrBytes};
use strandline::config::machine::Machine;
use strandline::config::{BrokerConfig, Origin, Settings, resolve};
use strandline::node::simulated::{self, SimulatedNode};
use strandline_runtime::sim::{SimRuntime, SimStream, Simulation};
use strandline_runtime::{Monotonic, ReadHalf, Runtime, SocketAddr, TcpStream, WriteHalf};
use strandline_storage::disk::{SimDisk, SimDiskOptions};

use crate::support::batch::{Batch, Record};
use crate::support::client::frame;

pub const PRODUCE_VERSION: i16 = 9;
pub const FETCH_VERSION: i16 = 11;
const CREATE_TOPICS_VERSION: i16 = 5;
const PORT: u16 = 9092;
/// The simulation's wall clock is not that of the test.
const RECORD_TIME_MS: i64 = 1_735_689_600_000;

/// A small node of one shard.
pub fn config(more: &[(&str, &str)]) -> Arc<BrokerConfig> {
    config_of(1, more)
}

/// A small node.
pub fn config_of(shards: u32, more: &[(&str, &str)]) -> Arc<BrokerConfig> {
    let mut settings = Settings::default();
    let usual = [
        ("listeners", "PLAINTEXT://127.0.0.1:9092"),
        ("advertised.listeners", "PLAINTEXT://node:9092"),
        ("strandline.memory.bytes", "67108864"),
        ("strandline.journal.bytes", "4194304"),
        ("strandline.disk.free.min.bytes", "1"),
    ];
    for (key, value) in usual.iter().chain(more) {
        settings.set(key, value, Origin::Set);
    }
    let machine = Machine {
        cores: vec![0],
        memory_bytes: 8 << 30,
        descriptors_max: 65_536,
    };
    let identity = resolve::identity(&settings, &machine).unwrap();
    Arc::new(resolve::resolve(&settings, &identity, shards, &machine).unwrap())
}

/// Runs `test` against a new node of the simulation of `seed`.
pub fn with_node<T, F>(
    seed: u64,
    disk: SimDiskOptions,
    config: Arc<BrokerConfig>,
    test: impl FnOnce(SimRuntime, SimulatedNode) -> F + 'static,
) -> T
where
    T: 'static,
    F: Future<Output = T>,
{
    let simulation = Simulation::new(seed);
    let runtime = simulation.runtime("node");
    let disk = SimDisk::new(runtime.clone(), disk);
    simulation.run_until(async move {
        let node = simulated::start(&runtime, &disk, config).await.unwrap();
        test(runtime, node).await
    })
}

/// Virtual time since `start`.
pub fn since(runtime: &SimRuntime, start: Monotonic) -> Duration {
    runtime.now().since(start)
}

pub struct SimClient {
    pub read: <SimStream as TcpStream>::ReadHalf,
    pub write: <SimStream as TcpStream>::WriteHalf,
    next_correlation_id: i32,
}

impl SimClient {
    pub async fn connect(runtime: &SimRuntime) -> Self {
        Self::try_connect(runtime).await.unwrap()
    }

    pub async fn try_connect(runtime: &SimRuntime) -> std::io::Result<Self> {
        Self::try_connect_to(runtime, SocketAddr::from(([127, 0, 0, 1], PORT))).await
    }

    pub async fn try_connect_to(runtime: &SimRuntime, address: SocketAddr) -> std::io::Result<Self> {
        let stream = runtime.connect(address).await?;
        let (read, write) = stream.split();
        Ok(Self {
            read,
            write,
            next_correlation_id: 1,
        })
    }

    pub async fn send<Q: Request>(&mut self, version: i16, request: &Q) {
        self.try_send(version, request).await.unwrap();
    }

    pub async fn try_send<Q: Request>(&mut self, version: i16, request: &Q) -> std::io::Result<()> {
        let frame = frame(version, self.next_correlation_id, request);
        self.next_correlation_id += 1;
        self.write.write_all(&frame).await
    }

    /// The answer; `None` if the connection ends before.
    pub async fn try_ask<Q: Request>(&mut self, version: i16, request: &Q) -> Option<Q::Response> {
        self.try_send(version, request).await.ok()?;
        self.try_receive::<Q>(version).await
    }

    pub async fn receive<Q: Request>(&mut self, version: i16) -> Q::Response {
        self.try_receive::<Q>(version)
            .await
            .expect("an answer, not the end of the connection")
    }

    /// The next answer; `None` at the connection's end.
    pub async fn try_receive<Q: Request>(&mut self, version: i16) -> Option<Q::Response> {
        let size = u32::from_be_bytes(self.exactly(4).await?.try_into().unwrap());
        let mut answer = Bytes::from(self.exactly(size as usize).await?);
        ResponseHeader::decode(&mut answer, Q::Response::header_version(version)).unwrap();
        Some(Q::Response::decode(&mut answer, version).unwrap())
    }

    pub async fn ask<Q: Request>(&mut self, version: i16, request: &Q) -> Q::Response {
        self.send(version, request).await;
        self.receive::<Q>(version).await
    }

    /// As many bytes; `None` if the connection ends before.
    pub async fn exactly(&mut self, length: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; length];
        let mut filled = 0;
        while filled < length {
            match self.read.read(&mut bytes[filled..]).await {
                Ok(0) | Err(_) => return None,
                Ok(read) => filled += read,
            }
        }
        Some(bytes)
    }

    pub async fn create(&mut self, topic: &str, partitions: i32, configs: &[(&str, &str)]) {
        let text = |text: &str| StrBytes::from_string(text.to_owned());
        let configs = configs.iter().map(|(key, value)| {
            CreatableTopicConfig::default()
                .with_name(text(key))
                .with_value(Some(text(value)))
        });
        let topic = CreatableTopic::default()
            .with_name(name(topic))
            .with_num_partitions(partitions)
            .with_replication_factor(1)
            .with_configs(configs.collect());
        let request = CreateTopicsRequest::default()
            .with_topics(vec![topic])
            .with_timeout_ms(30_000);
        let answer = self.ask(CREATE_TOPICS_VERSION, &request).await;
        assert_eq!(answer.topics[0].error_code, 0);
    }
}

pub fn name(name: &str) -> TopicName {
    TopicName(StrBytes::from_string(name.to_owned()))
}

/// A produce of one batch to partition 0.
pub fn produce_request(topic: &str, records: Vec<u8>) -> ProduceRequest {
    let data = PartitionProduceData::default().with_records(Some(Bytes::from(records)));
    let topic = TopicProduceData::default()
        .with_name(name(topic))
        .with_partition_data(vec![data]);
    ProduceRequest::default()
        .with_acks(-1)
        .with_timeout_ms(60_000)
        .with_topic_data(vec![topic])
}

/// A batch with one record of so many bytes.
pub fn batch_of(bytes: usize) -> Vec<u8> {
    Batch::new(vec![Record::new(RECORD_TIME_MS, None, Some(&vec![b'x'; bytes]))]).encode()
}

/// A fetch of partition 0 from its start, outside of a session.
pub fn fetch_request(topic: &str, max_bytes: i32, max_wait_ms: i32) -> FetchRequest {
    let asked = FetchPartition::default().with_partition_max_bytes(max_bytes);
    let topic = FetchTopic::default()
        .with_topic(name(topic))
        .with_partitions(vec![asked]);
    FetchRequest::default()
        .with_replica_id(BrokerId(-1))
        .with_max_wait_ms(max_wait_ms)
        .with_min_bytes(1)
        .with_max_bytes(max_bytes)
        .with_session_epoch(-1)
        .with_topics(vec![topic])
}
