//! One shard of a process stops, hangs and comes back while the others take over, as `strandctl shard` asks for it.

#![allow(clippy::unwrap_used)]

mod support;

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use kafka_protocol::messages::CreateTopicsRequest;
use kafka_protocol::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use kafka_protocol::messages::metadata_response::MetadataResponse;
use kafka_protocol::protocol::StrBytes;
use support::http::{Labels, metrics};
use support::topic::{metadata, name};
use support::{Batch, Broker, Client, Partition};

const TOPIC: &str = "t";
const SHARDS: i32 = 3;
const PATIENCE: Duration = Duration::from_secs(60);

fn start(settings: &[&str]) -> Broker {
    let mut arguments = vec!["--shards", "3", "--set", "strandline.memory.bytes=201326592"];
    for setting in settings {
        arguments.extend(["--set", setting]);
    }
    let broker = Broker::start_with(&arguments);
    let text = |text: &str| StrBytes::from_string(text.to_owned());
    let minimum = CreatableTopicConfig::default()
        .with_name(text("min.insync.replicas"))
        .with_value(Some(text("2")));
    let topic = CreatableTopic::default()
        .with_name(name(TOPIC))
        .with_num_partitions(1)
        .with_replication_factor(3)
        .with_configs(vec![minimum]);
    let request = CreateTopicsRequest::default()
        .with_topics(vec![topic])
        .with_timeout_ms(30_000);
    let answer = broker.client().call(7, &request);
    assert_eq!(
        answer.topics[0].error_code, 0,
        "{:?}",
        answer.topics[0].error_message
    );
    broker
}

/// What the node answers to an operator.
fn ask(broker: &Broker, line: &str) -> String {
    let mut stream = UnixStream::connect(broker.data_directory().join("operations.sock")).unwrap();
    stream.write_all(format!("{line}\n").as_bytes()).unwrap();
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).unwrap();
    answer
}

/// The cluster as the shard at `address` sees it.
fn seen(address: SocketAddr) -> MetadataResponse {
    metadata(&mut Client::connect(address), &[TOPIC])
}

fn leader(seen: &MetadataResponse) -> i32 {
    seen.topics[0].partitions[0].leader_id.0
}

fn in_sync(seen: &MetadataResponse) -> usize {
    seen.topics[0].partitions[0].isr_nodes.len()
}

fn until(address: SocketAddr, what: &str, wanted: impl Fn(&MetadataResponse) -> bool) -> MetadataResponse {
    let end = Instant::now() + PATIENCE;
    loop {
        let seen = seen(address);
        if wanted(&seen) {
            return seen;
        }
        assert!(Instant::now() < end, "never {what}: {seen:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The partition, by a connection to whom `seen` names its leader.
fn partition(seen: &MetadataResponse) -> Partition {
    let leads = leader(seen);
    let broker = seen
        .brokers
        .iter()
        .find(|broker| broker.node_id.0 == leads)
        .unwrap();
    let port = u16::try_from(broker.port).unwrap();
    Partition {
        client: Client::connect(SocketAddr::from(([127, 0, 0, 1], port))),
        topic: TOPIC.to_owned(),
        topic_id: seen.topics[0].topic_id,
        index: 0,
    }
}

#[test]
fn a_shard_that_stops_is_followed_by_another_and_has_everything_when_it_is_back() {
    let broker = start(&[]);
    let before = seen(broker.address());
    assert_eq!(in_sync(&before), 3);
    let first = leader(&before);
    let mut expected = Vec::new();
    for number in 0..20 {
        let value = format!("v{number}");
        assert_eq!(
            partition(&before).append(&Batch::of_values([value.clone()])),
            number
        );
        expected.push(value);
    }
    let stopped = first % 1000;
    let other = broker.addresses()[((stopped + 1) % SHARDS) as usize];
    assert_eq!(ask(&broker, &format!("shard stop {stopped}")), "ok\n");
    // It is so by now.
    let now = seen(other);
    assert_ne!(leader(&now), first);
    assert_eq!(in_sync(&now), 2);
    assert_eq!(now.topics[0].partitions[0].offline_replicas[0].0, first);
    TcpStream::connect(broker.addresses()[stopped as usize]).unwrap_err();
    assert_eq!(
        ask(&broker, &format!("shard stop {stopped}")),
        "error it does not run\n"
    );
    let page = metrics(&broker);
    let of_leader = |name: &str| {
        let labels = Labels::from([("broker".to_owned(), leader(&now).to_string())]);
        page[&(format!("strandline_{name}"), labels)]
    };
    assert_eq!(of_leader("under_replicated_partitions"), 1.0);
    assert_eq!(of_leader("at_min_isr_partition_count"), 1.0);
    assert_eq!(of_leader("under_min_isr_partition_count"), 0.0);
    assert_eq!(of_leader("leader_count"), 1.0);
    let offline = ("strandline_offline_partitions_count".to_owned(), Labels::new());
    assert_eq!(page[&offline], 0.0);
    for number in 20..40 {
        let value = format!("v{number}");
        assert_eq!(partition(&now).append(&Batch::of_values([value.clone()])), number);
        expected.push(value);
    }
    assert_eq!(ask(&broker, &format!("shard start {stopped}")), "ok\n");
    let back = until(other, "three in sync", |seen| in_sync(seen) == 3);
    let page = metrics(&broker);
    let sum = |name: &str| -> f64 {
        let all = page
            .iter()
            .filter(|((known, _), _)| *known == format!("strandline_{name}"));
        all.map(|(_, value)| value).sum()
    };
    assert_eq!(sum("under_replicated_partitions"), 0.0);
    assert_eq!(sum("isr_expands_total"), 1.0);
    let lags = page
        .iter()
        .filter(|((known, _), _)| known == "strandline_replica_lag");
    let lags: Vec<f64> = lags.map(|(_, lag)| *lag).collect();
    assert_eq!(lags, [0.0, 0.0], "both followers have all");
    let port = back
        .brokers
        .iter()
        .find(|broker| broker.node_id.0 == first)
        .unwrap()
        .port;
    let returned = SocketAddr::from(([127, 0, 0, 1], u16::try_from(port).unwrap()));
    for shard in (0..SHARDS).filter(|shard| *shard != stopped) {
        assert_eq!(ask(&broker, &format!("shard stop {shard}")), "ok\n");
    }
    let last = until(returned, "it leads", |seen| leader(seen) == first);
    let read: Vec<String> = partition(&last)
        .read_all(0)
        .into_values()
        .map(|record| String::from_utf8(record.value.unwrap()).unwrap())
        .collect();
    assert_eq!(read, expected);
}

#[test]
fn a_shard_that_hangs_is_replaced_after_its_session_and_comes_back() {
    let broker = start(&[
        "broker.heartbeat.interval.ms=200",
        "broker.session.timeout.ms=1500",
    ]);
    let before = seen(broker.address());
    let first = leader(&before);
    assert_eq!(partition(&before).append(&Batch::of_values(["before"])), 0);
    let other = broker.addresses()[((first % 1000 + 1) % SHARDS) as usize];
    assert_eq!(ask(&broker, &format!("shard pause {}", first % 1000)), "ok\n");
    let now = until(other, "another leader", |seen| {
        ![first, -1].contains(&leader(seen))
    });
    assert_eq!(partition(&now).append(&Batch::of_values(["meanwhile"])), 1);
    assert_eq!(ask(&broker, &format!("shard start {}", first % 1000)), "ok\n");
    let back = until(other, "three in sync", |seen| in_sync(seen) == 3);
    assert_eq!(partition(&back).append(&Batch::of_values(["after"])), 2);
}

#[test]
fn what_makes_no_sense_is_refused() {
    let broker = Broker::start_with(&["--shards", "2"]);
    assert_eq!(ask(&broker, "shard stop 2"), "error the node has no such shard\n");
    assert_eq!(
        ask(&broker, "shard burn 1"),
        "error a shard cannot burn: it can pause, stop and start\n"
    );
    assert_eq!(
        ask(&broker, "hello"),
        "error expected: shard <pause|stop|start> <number>\n"
    );
    assert_eq!(ask(&broker, "shard start 1"), "ok\n", "it serves already");
}
