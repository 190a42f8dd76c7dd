//! Three nodes of one cluster, each a process.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use kafka_protocol::messages::CreateTopicsRequest;
use kafka_protocol::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use kafka_protocol::protocol::StrBytes;

use super::batch::Batch;
use super::broker::Broker;
use super::topic::{Partition, metadata, name};

const NONE: i16 = 0;
/// The topic of [`create_replicated`].
pub const REPLICATED: &str = "replicated";

/// More than anything takes that does come.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// `broker.session.timeout.ms`, shorter than by default.
const SESSION_MS: u32 = 3_000;

/// Ports that were free a moment ago: voters are named before they run.
fn voters(count: i32) -> String {
    let listeners: Vec<TcpListener> = (0..count)
        .map(|_| TcpListener::bind("127.0.0.1:0").unwrap())
        .collect();
    let voter = |(node, listener): (i32, &TcpListener)| format!("{node}@{}", listener.local_addr().unwrap());
    let voters: Vec<String> = (1..).zip(&listeners).map(voter).collect();
    voters.join(",")
}

fn prepare(node: i32, voters: &str, settings: &[&str]) -> Broker {
    let mut broker = Broker::prepare(&["--shards", "1", "--node-id", &node.to_string()]);
    broker.set(&format!("controller.quorum.voters={voters}"));
    broker.set(&format!("broker.session.timeout.ms={SESSION_MS}"));
    broker.set("broker.heartbeat.interval.ms=500");
    settings.iter().for_each(|setting| broker.set(setting));
    broker
}

/// Nodes 1 to 3.
pub fn cluster() -> Vec<Broker> {
    cluster_with(&[])
}

/// Nodes 1 to 3, with more settings.
pub fn cluster_with(settings: &[&str]) -> Vec<Broker> {
    let voters = voters(3);
    let nodes = (1..=3).map(|node| prepare(node, &voters, settings));
    let mut nodes: Vec<Broker> = nodes.collect();
    // The quorum's first start takes all of them.
    nodes.iter_mut().for_each(Broker::spawn);
    nodes.iter_mut().for_each(Broker::wait_until_ready);
    nodes
}

pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "waited in vain: {what}");
    }
}

/// The brokers that a node tells its clients of.
pub fn brokers(node: &Broker) -> Vec<i32> {
    let found = metadata(&mut node.client(), &[]);
    found.brokers.iter().map(|broker| broker.node_id.0).collect()
}

/// What somebody who lives says of the partition: who leads, and who is in sync.
pub fn seen(nodes: &[Broker]) -> (i32, Vec<i32>, Vec<i32>) {
    let asked = nodes.iter().find(|node| node.runs()).unwrap();
    let found = metadata(&mut asked.client(), &[REPLICATED]);
    let Some(partition) = found.topics[0].partitions.first() else {
        return (-1, Vec::new(), Vec::new());
    };
    let ids =
        |brokers: &[kafka_protocol::messages::BrokerId]| brokers.iter().map(|broker| broker.0).collect();
    let mut in_sync: Vec<i32> = ids(&partition.isr_nodes);
    in_sync.sort_unstable();
    (partition.leader_id.0, in_sync, ids(&partition.replica_nodes))
}

/// A topic with a replica on each node, of which two must have a record.
pub fn create_replicated(nodes: &[Broker]) {
    let text = |text: &str| StrBytes::from_string(text.to_owned());
    let config = CreatableTopicConfig::default()
        .with_name(text("min.insync.replicas"))
        .with_value(Some(text("2")));
    let topic = CreatableTopic::default()
        .with_name(name(REPLICATED))
        .with_num_partitions(1)
        .with_replication_factor(3)
        .with_configs(vec![config]);
    let request = CreateTopicsRequest::default()
        .with_topics(vec![topic])
        .with_timeout_ms(30_000);
    until("all brokers", || {
        nodes.iter().all(|node| brokers(node) == [1000, 2000, 3000])
    });
    let answer = nodes[0].client().call(7, &request);
    let topic = &answer.topics[0];
    assert_eq!(topic.error_code, NONE, "{:?}", topic.error_message);
    assert_eq!(topic.replication_factor, 3);
    until("everybody is in sync", || seen(nodes).1 == [1000, 2000, 3000]);
}

pub fn node_of(broker: i32) -> usize {
    (broker / 1000 - 1) as usize
}

/// The partition at whoever leads it, once that is somebody who lives and knows it.
pub fn partition(nodes: &[Broker]) -> (i32, Partition) {
    let mut leader = -1;
    until("a leader that lives and knows it", || {
        leader = seen(nodes).0;
        leader >= 0 && nodes[node_of(leader)].runs() && {
            let own = metadata(&mut nodes[node_of(leader)].client(), &[REPLICATED]);
            own.topics[0]
                .partitions
                .first()
                .is_some_and(|found| found.leader_id.0 == leader)
        }
    });
    (leader, Partition::find(&nodes[node_of(leader)], REPLICATED, 0))
}

/// Values by offset.
pub type Acknowledged = BTreeMap<i64, String>;

/// Appends with acks=all until a value is acknowledged: what is refused meanwhile is retriable.
pub fn append(nodes: &[Broker], value: &str, acknowledged: &mut Acknowledged) {
    until("an acknowledgement", || {
        let (_, mut found) = partition(nodes);
        let answer = found.produce(&Batch::of_values([value]));
        if answer.error_code == NONE {
            acknowledged.insert(answer.base_offset, value.to_owned());
        }
        answer.error_code == NONE
    });
}

pub fn read(nodes: &[Broker]) -> Acknowledged {
    let (_, mut found) = partition(nodes);
    let records = found.read_all(0).into_iter();
    let text = |value: Option<Vec<u8>>| String::from_utf8(value.unwrap()).unwrap();
    records.map(|(at, record)| (at, text(record.value))).collect()
}

pub fn assert_kept(nodes: &[Broker], acknowledged: &Acknowledged) {
    let last = *acknowledged.keys().next_back().unwrap();
    let mut found = Acknowledged::new();
    until("the high watermark covers what was acknowledged", || {
        found = read(nodes);
        found.contains_key(&last)
    });
    for (at, value) in acknowledged {
        assert_eq!(found.get(at), Some(value), "at {at}");
    }
}
