//! Every node of a cluster is stopped and started in turn, under load: clients see errors that they retry, and lose nothing.

#![allow(clippy::unwrap_used)]

mod support;

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use bytes::Bytes;
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::{MetadataRequest, ProduceRequest};
use support::nodes::{REPLICATED, assert_kept, cluster, create_replicated, seen, until};
use support::topic::{PRODUCE_VERSION, name};
use support::{Batch, Broker, Client};

const NONE: i16 = 0;
/// LEADER_NOT_AVAILABLE, NOT_LEADER_OR_FOLLOWER, REQUEST_TIMED_OUT, NOT_ENOUGH_REPLICAS and
/// NOT_ENOUGH_REPLICAS_AFTER_APPEND: clients go on.
const RETRIABLE: [i16; 5] = [5, 6, 7, 19, 20];
/// Acknowledgements before, between and after the restarts.
const ROUND: u64 = 50;

/// A producer that knows the nodes' addresses, and nothing else.
struct Producer {
    nodes: Arc<Mutex<Vec<SocketAddr>>>,
    leader: Option<Client>,
}

impl Producer {
    /// Where the partition is led, by the first node that tells.
    fn find(&mut self) -> io::Result<()> {
        let nodes = self.nodes.lock().unwrap().clone();
        for node in nodes {
            let Ok(mut asked) = Client::try_connect(node) else {
                continue;
            };
            let topic = MetadataRequestTopic::default().with_name(Some(name(REPLICATED)));
            let request = MetadataRequest::default().with_topics(Some(vec![topic]));
            let found = asked.try_call(12, &request)?;
            let leader = found.topics[0].partitions.first().map(|found| found.leader_id);
            let leader = found.brokers.iter().find(|broker| Some(broker.node_id) == leader);
            if let Some(leader) = leader {
                let port = u16::try_from(leader.port).unwrap();
                self.leader = Some(Client::try_connect(SocketAddr::from(([127, 0, 0, 1], port)))?);
                return Ok(());
            }
        }
        Err(io::ErrorKind::NotFound.into())
    }

    /// The code and the offset of one try.
    fn produce(&mut self, value: &str) -> io::Result<(i16, i64)> {
        if self.leader.is_none() {
            self.find()?;
        }
        let partition = PartitionProduceData::default()
            .with_index(0)
            .with_records(Some(Bytes::from(Batch::of_values([value]).encode())));
        let topic = TopicProduceData::default()
            .with_name(name(REPLICATED))
            .with_partition_data(vec![partition]);
        let request = ProduceRequest::default()
            .with_acks(-1)
            .with_timeout_ms(10_000)
            .with_topic_data(vec![topic]);
        let leader = self.leader.as_mut().unwrap();
        let answer = leader.try_call(PRODUCE_VERSION, &request)?;
        let answer = &answer.responses[0].partition_responses[0];
        Ok((answer.error_code, answer.base_offset))
    }

    /// Everything that was acknowledged until it is told to stop.
    fn run(mut self, stop: &AtomicBool, count: &AtomicU64) -> BTreeMap<i64, String> {
        let mut acknowledged = BTreeMap::new();
        while !stop.load(Ordering::Relaxed) {
            let value = format!("value {}", acknowledged.len());
            match self.produce(&value) {
                Ok((NONE, offset)) => {
                    acknowledged.insert(offset, value);
                    count.fetch_add(1, Ordering::Relaxed);
                }
                Ok((code, _)) => {
                    assert!(RETRIABLE.contains(&code), "error {code} ends a client's work");
                    self.leader = None;
                }
                Err(_) => self.leader = None,
            }
        }
        acknowledged
    }
}

#[test]
fn every_node_restarts_in_turn_and_nothing_is_lost() {
    let mut nodes = cluster();
    create_replicated(&nodes);
    let addresses = |nodes: &[Broker]| nodes.iter().map(Broker::address).collect();
    let known = Arc::new(Mutex::new(addresses(&nodes)));
    let producer = Producer {
        nodes: known.clone(),
        leader: None,
    };
    let (stop, count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let runs = {
        let (stop, count) = (stop.clone(), count.clone());
        thread::spawn(move || producer.run(&stop, &count))
    };
    let more = |what: &str| {
        let before = count.load(Ordering::Relaxed);
        until(what, || {
            assert!(!runs.is_finished(), "the producer ended");
            count.load(Ordering::Relaxed) >= before + ROUND
        });
    };
    more("acknowledgements");
    for node in 0..3 {
        assert!(nodes[node].stop().success());
        more("acknowledgements while a node is away");
        nodes[node].launch();
        *known.lock().unwrap() = addresses(&nodes);
        until("it is in sync again", || seen(&nodes).1.len() == 3);
        more("acknowledgements once it is back");
    }
    stop.store(true, Ordering::Relaxed);
    let acknowledged = runs.join().unwrap();
    assert!(acknowledged.len() as u64 >= 7 * ROUND);
    assert_kept(&nodes, &acknowledged);
}
