//! A simulated node whose shards have a host each, with topics of several replicas, and a client that finds leaders.
//! `#[path = "support/replicated.rs"] mod replicated;`, beside `simulated` and `support`.
#![allow(dead_code, unreachable_pub)]
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kafka_protocol::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use kafka_protocol::messages::{CreateTopicsRequest, FetchRequest, ProduceRequest, TopicName};
use kafka_protocol::protocol::{Request, StrBytes};
use strandline::config::BrokerConfig;
use strandline::control::client::ShardOrder;
use strandline::node::simulated::{SimulatedNode, start_apart};
use strandline_core::metadata::{BrokerId, ClusterImage, Command, MetadataVersion, Partition};
use strandline_runtime::sim::{SimRuntime, Simulation};
use strandline_runtime::{Runtime, SocketAddr};
use strandline_storage::disk::{SimDisk, SimDiskOptions};

use crate::simulated::{
    FETCH_VERSION, PRODUCE_VERSION, SimClient, config_of, fetch_request, produce_request,
};
use crate::support::batch::{Batch, Record, decode_all};

pub const SHARDS: u32 = 3;
const PORT: u16 = 9092;
const RECORD_TIME_MS: i64 = 1_735_689_600_000;
/// What the tests wait for at most, in virtual time.
const PATIENCE: Duration = Duration::from_secs(120);
const LOOK: Duration = Duration::from_millis(5);

pub const NONE: i16 = 0;
pub const NOT_LEADER: i16 = 6;
pub const NOT_ENOUGH_REPLICAS: i16 = 19;
pub const NOT_ENOUGH_REPLICAS_AFTER_APPEND: i16 = 20;
pub const FENCED_LEADER_EPOCH: i16 = 74;
pub const UNKNOWN_LEADER_EPOCH: i16 = 75;

/// The cluster, and a client of it.
pub struct Cluster {
    pub runtime: SimRuntime,
    pub disk: SimDisk,
    pub node: SimulatedNode,
    clients: BTreeMap<BrokerId, SimClient>,
}

/// What a cluster of these tests is started with.
pub fn config(more: &[(&str, &str)]) -> Arc<BrokerConfig> {
    let mut settings = vec![
        ("listeners", "PLAINTEXT://0.0.0.0:9092"),
        ("strandline.memory.bytes", "201326592"),
        ("replica.lag.time.max.ms", "2000"),
        ("offsets.topic.num.partitions", "2"),
    ];
    settings.extend(more);
    config_of(SHARDS, &settings)
}

/// A cluster with what the disk holds, ready and with replication.
pub async fn cluster_on(runtime: &SimRuntime, disk: &SimDisk, config: Arc<BrokerConfig>) -> Cluster {
    let mut node = start_apart(runtime, disk, config).await.unwrap();
    let (_, never) = tokio::sync::oneshot::channel();
    std::mem::replace(&mut node.ready, never).await.unwrap();
    let version = MetadataVersion::NEWEST;
    let command = Command::FinalizeMetadataVersion { version };
    node.client.propose(command, PATIENCE).await.unwrap();
    Cluster {
        runtime: runtime.clone(),
        disk: disk.clone(),
        node,
        clients: BTreeMap::new(),
    }
}

/// Runs `test` against a new cluster of the simulation of `seed`; gives what the simulation sums up to.
pub fn with_cluster<F: Future<Output = ()>>(
    seed: u64,
    more: &[(&str, &str)],
    test: impl FnOnce(Cluster) -> F + 'static,
) -> u64 {
    let simulation = Simulation::new(seed);
    let runtime = simulation.runtime("node");
    let disk = SimDisk::new(runtime.clone(), SimDiskOptions::default());
    let config = config(more);
    simulation.run_until(async move {
        let cluster = cluster_on(&runtime, &disk, config).await;
        test(cluster).await;
    });
    simulation.trace_hash()
}

/// What a produce came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Produced {
    /// Acknowledged at this offset.
    At(i64),
    /// Refused with this code.
    Refused(i16),
    /// The connection ended: nobody knows.
    Lost,
}

impl Cluster {
    pub fn image(&self) -> Arc<ClusterImage> {
        self.node.images.latest()
    }

    pub fn partition(&self, topic: &str, number: usize) -> Partition {
        self.image().topic_by_name(topic).unwrap().partitions[number].clone()
    }

    pub fn leader(&self, topic: &str) -> BrokerId {
        self.partition(topic, 0).leader
    }

    /// Waits until the metadata is as wanted.
    pub async fn until(&self, what: &str, wanted: impl Fn(&ClusterImage) -> bool) {
        let end = self.runtime.now() + PATIENCE;
        while !wanted(&self.image()) {
            let image = self.image();
            let fenced: Vec<_> = image
                .brokers()
                .map(|broker| (broker.id.0, broker.fenced))
                .collect();
            let topics: Vec<_> = image.topics().collect();
            assert!(
                self.runtime.now() < end,
                "never: {what}: fenced {fenced:?}, {topics:?}"
            );
            self.runtime.sleep(LOOK).await;
        }
    }

    /// Waits until so many are in sync, and somebody leads.
    pub async fn until_isr(&self, topic: &str, members: usize) {
        self.until(&format!("{members} in sync"), |image| {
            let partition = &image.topic_by_name(topic).unwrap().partitions[0];
            partition.isr.len() == members && partition.leader != BrokerId::NONE
        })
        .await;
    }

    pub async fn until_leader_is_not(&self, topic: &str, before: BrokerId) {
        self.until("another leader", |image| {
            let leader = image.topic_by_name(topic).unwrap().partitions[0].leader;
            leader != before && leader != BrokerId::NONE
        })
        .await;
    }

    pub fn kill(&mut self, broker: BrokerId) {
        self.node.kill_shard(broker.shard());
        self.clients.remove(&broker);
    }

    pub fn order(&self, broker: BrokerId, order: ShardOrder) {
        self.node.order(broker.shard(), order);
    }

    /// Starts a shard again, and waits until it is unfenced.
    pub async fn start(&self, broker: BrokerId) {
        self.until("fenced", |image| image.broker(broker).unwrap().fenced)
            .await;
        self.order(broker, ShardOrder::Start);
        self.until("unfenced", |image| !image.broker(broker).unwrap().fenced)
            .await;
    }

    pub async fn create(&mut self, topic: &str, factor: i16, configs: &[(&str, &str)]) {
        let text = |text: &str| StrBytes::from_string(text.to_owned());
        let configs = configs.iter().map(|(key, value)| {
            CreatableTopicConfig::default()
                .with_name(text(key))
                .with_value(Some(text(value)))
        });
        let topic = CreatableTopic::default()
            .with_name(TopicName(text(topic)))
            .with_num_partitions(1)
            .with_replication_factor(factor)
            .with_configs(configs.collect());
        let request = CreateTopicsRequest::default()
            .with_topics(vec![topic])
            .with_timeout_ms(30_000);
        let answer = self.ask(BrokerId(1000), 5, &request).await.unwrap();
        assert_eq!(
            answer.topics[0].error_code, 0,
            "{:?}",
            answer.topics[0].error_message
        );
    }

    /// Asks one shard; `None` if the connection ends before the answer.
    pub async fn ask<Q: Request>(
        &mut self,
        broker: BrokerId,
        version: i16,
        request: &Q,
    ) -> Option<Q::Response> {
        let client = match self.clients.remove(&broker) {
            Some(client) => Some(client),
            None => self.connect(broker).await,
        };
        let mut client = client?;
        let answer = client.try_ask(version, request).await?;
        self.clients.insert(broker, client);
        Some(answer)
    }

    async fn connect(&self, broker: BrokerId) -> Option<SimClient> {
        let host = self.node.host(broker.shard());
        let address = SocketAddr::new(host.address(), PORT + broker.shard() as u16);
        SimClient::try_connect_to(&self.runtime, address).await.ok()
    }

    pub async fn produce_to(&mut self, broker: BrokerId, topic: &str, request: ProduceRequest) -> Produced {
        let _ = topic;
        let Some(answer) = self.ask(broker, PRODUCE_VERSION, &request).await else {
            return Produced::Lost;
        };
        let answer = &answer.responses[0].partition_responses[0];
        match answer.error_code {
            0 => Produced::At(answer.base_offset),
            code => Produced::Refused(code),
        }
    }

    /// Produces one record to partition 0 with `acks=all`, once.
    pub async fn try_produce(&mut self, topic: &str, value: &str) -> Produced {
        let leader = self.leader(topic);
        if leader == BrokerId::NONE {
            return Produced::Lost;
        }
        self.produce_to(leader, topic, produce_request(topic, batch(value)))
            .await
    }

    /// The same until it is acknowledged; a record may then be there twice.
    pub async fn produce(&mut self, topic: &str, value: &str) -> i64 {
        let end = self.runtime.now() + PATIENCE;
        loop {
            if let Produced::At(offset) = self.try_produce(topic, value).await {
                return offset;
            }
            assert!(self.runtime.now() < end, "{value} is never acknowledged");
            self.runtime.sleep(LOOK).await;
        }
    }

    /// All records that the leader lets be read, from an offset on.
    pub async fn read(&mut self, topic: &str, from: i64) -> Vec<(i64, String)> {
        let mut all: Vec<(i64, String)> = Vec::new();
        let mut next = from;
        loop {
            let leader = self.leader(topic);
            let request = fetch_from(topic, next, -1);
            let Some(answer) = self.ask(leader, FETCH_VERSION, &request).await else {
                self.runtime.sleep(LOOK).await;
                continue;
            };
            let answer = &answer.responses[0].partitions[0];
            if answer.error_code == NOT_LEADER {
                self.runtime.sleep(LOOK).await;
                continue;
            }
            assert_eq!(answer.error_code, 0);
            let records = answer.records.clone().unwrap_or_default();
            if records.is_empty() {
                return all;
            }
            for batch in decode_all(&records) {
                for (offset, value) in (batch.base_offset..).zip(batch.values()) {
                    if offset >= next {
                        all.push((offset, String::from_utf8(value).unwrap()));
                    }
                }
            }
            next = all.last().unwrap().0 + 1;
        }
    }

    pub async fn values(&mut self, topic: &str) -> Vec<String> {
        let all = self.read(topic, 0).await;
        all.into_iter().map(|(_, value)| value).collect()
    }
}

pub fn batch(value: &str) -> Vec<u8> {
    Batch::new(vec![Record::new(RECORD_TIME_MS, None, Some(value.as_bytes()))]).encode()
}

/// A fetch of partition 0 that waits little.
pub fn fetch_from(topic: &str, offset: i64, epoch: i32) -> FetchRequest {
    let mut request = fetch_request(topic, 1 << 20, 20);
    let partition = &mut request.topics[0].partitions[0];
    partition.fetch_offset = offset;
    partition.current_leader_epoch = epoch;
    request
}
