//! Each shard is a broker: partitions are served by their leader alone, and others say who that is.

mod support;

use std::collections::BTreeSet;

use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::{DescribeLogDirsRequest, MetadataRequest, ProduceRequest};
use strandline_wire::log_details::LogDetails;
use support::topic::{FETCH_VERSION, PRODUCE_VERSION, create, metadata, name};
use support::{Batch, Broker, Partition};

const NOT_LEADER_OR_FOLLOWER: i16 = 6;

#[test]
fn two_shards_on_one_core_serve_their_partitions() {
    let broker = Broker::start_with(&["--shards", "2"]);
    assert_eq!(broker.addresses().len(), 2);
    create(&mut broker.client(), "spread", 8, &[]);
    let found = metadata(&mut broker.client_of(1001), &["spread"]);
    let ports: Vec<(i32, i32)> = found.brokers.iter().map(|b| (b.node_id.0, b.port)).collect();
    let own = broker.addresses();
    assert_eq!(
        ports,
        [(1000, own[0].port().into()), (1001, own[1].port().into())]
    );
    let leaders: Vec<i32> = found.topics[0].partitions.iter().map(|p| p.leader_id.0).collect();
    for shard in [1000, 1001] {
        assert_eq!(
            leaders.iter().filter(|leader| **leader == shard).count(),
            4,
            "{leaders:?}"
        );
    }
    for index in 0..8 {
        let mut p = Partition::find(&broker, "spread", index);
        for n in 0..10 {
            assert_eq!(p.append(&Batch::of_values([format!("{index}-{n}")])), n);
        }
        assert_eq!(p.read_all(0).len(), 10);
    }
}

#[test]
fn the_wrong_shard_names_the_leader() {
    let broker = Broker::start_with(&["--shards", "2"]);
    create(&mut broker.client(), "wrong", 2, &[]);
    let p = Partition::find(&broker, "wrong", 0);
    let found = metadata(&mut broker.client(), &["wrong"]);
    let leader = found.topics[0]
        .partitions
        .iter()
        .find(|p| p.partition_index == 0)
        .unwrap();
    let other = if leader.leader_id.0 == 1000 { 1001 } else { 1000 };
    let leader_port = i32::from(broker.addresses()[(leader.leader_id.0 % 1000) as usize].port());
    let mut client = broker.client_of(other);

    let request = p.produce_request(-1, Batch::of_values(["v"]).encode());
    let answer = client.call(PRODUCE_VERSION, &request);
    let refused = &answer.responses[0].partition_responses[0];
    assert_eq!(refused.error_code, NOT_LEADER_OR_FOLLOWER);
    assert_eq!(refused.current_leader.leader_id, leader.leader_id);
    assert_eq!(refused.current_leader.leader_epoch, leader.leader_epoch);
    assert_eq!(
        (answer.node_endpoints[0].node_id, answer.node_endpoints[0].port),
        (leader.leader_id, leader_port)
    );

    let partition = FetchPartition::default()
        .with_current_leader_epoch(-1)
        .with_last_fetched_epoch(-1)
        .with_partition_max_bytes(1);
    let topic = FetchTopic::default()
        .with_topic_id(p.topic_id)
        .with_partitions(vec![partition]);
    let answer = client.call(17, &p.fetch_request(0).with_topics(vec![topic]));
    let refused = &answer.responses[0].partitions[0];
    assert_eq!(refused.error_code, NOT_LEADER_OR_FOLLOWER);
    assert_eq!(refused.current_leader.leader_id, leader.leader_id);
    assert_eq!(answer.node_endpoints[0].port, leader_port);
    let by_name = client.call(FETCH_VERSION, &p.fetch_request(0));
    assert_eq!(
        by_name.responses[0].partitions[0].error_code,
        NOT_LEADER_OR_FOLLOWER
    );
}

/// B31: redpanda #903 and others: tools that ask every broker must count each replica once.
#[test]
fn log_directories_list_each_partition_once() {
    let broker = Broker::start_with(&["--shards", "2"]);
    create(&mut broker.client(), "listed", 6, &[]);
    for index in 0..6 {
        let mut p = Partition::find(&broker, "listed", index);
        for _ in 0..10 {
            p.append(&Batch::of_values([vec![b'x'; 1000]]));
        }
    }
    let mut seen = BTreeSet::new();
    for shard in [1000, 1001] {
        for version in 1..=4 {
            let answer = broker
                .client_of(shard)
                .call(version, &DescribeLogDirsRequest::default().with_topics(None));
            assert_eq!(answer.results.len(), 1);
            let directory = &answer.results[0];
            assert_eq!(directory.error_code, 0);
            if version == 4 {
                assert!(directory.total_bytes > 0 && directory.usable_bytes > 0);
            }
            for partition in directory.topics.iter().flat_map(|topic| &topic.partitions) {
                assert!(
                    (10_000..12_000).contains(&partition.partition_size),
                    "{}",
                    partition.partition_size
                );
                assert_eq!(partition.offset_lag, 0);
                let details = LogDetails::decode(&partition.unknown_tagged_fields);
                let expected = LogDetails {
                    segments: 1,
                    compaction: None,
                };
                assert_eq!(details, (version >= 2).then_some(expected));
                if version == 4 {
                    assert!(seen.insert(partition.partition_index), "listed twice");
                }
            }
        }
    }
    assert_eq!(seen.len(), 6);
}

/// B29: redpanda #7162, #1256: a topic could not be used right after its creation.
#[test]
fn a_topic_is_usable_at_once_and_made_once_by_many() {
    let broker = Broker::start_with(&["--shards", "2"]);
    for n in 0..50 {
        let topic = format!("fresh-{n}");
        create(&mut broker.client_of(1000 + n % 2), &topic, 8, &[]);
        for index in [0, 7] {
            Partition::find(&broker, &topic, index).append(&Batch::of_values(["v"]));
        }
    }
    // Auto-creation by many clients at once.
    let ids: BTreeSet<_> = std::thread::scope(|scope| {
        let makers: Vec<_> = (0..20)
            .map(|n| {
                let mut client = broker.client_of(1000 + n % 2);
                scope.spawn(move || {
                    let topic = kafka_protocol::messages::metadata_request::MetadataRequestTopic::default()
                        .with_name(Some(name("auto")));
                    let request = MetadataRequest::default()
                        .with_topics(Some(vec![topic]))
                        .with_allow_auto_topic_creation(true);
                    loop {
                        let answer = client.call(12, &request);
                        if answer.topics[0].error_code == 0 {
                            return answer.topics[0].topic_id;
                        }
                    }
                })
            })
            .collect();
        makers.into_iter().map(|maker| maker.join().unwrap()).collect()
    });
    assert_eq!(ids.len(), 1);
    Partition::find(&broker, "auto", 0).append(&Batch::of_values(["v"]));
}

/// Produce 13 names topics by id; an id that is gone is told as such, never written elsewhere.
#[test]
fn produce_by_topic_id() {
    let broker = Broker::start();
    let mut p = Partition::create(&broker, "by-id", &[]);
    let mut produce = |id, n: i64| {
        let data = PartitionProduceData::default().with_records(Some(bytes::Bytes::from(
            Batch::of_values([format!("{n}")]).encode(),
        )));
        let topic = TopicProduceData::default()
            .with_topic_id(id)
            .with_partition_data(vec![data]);
        let request = ProduceRequest::default()
            .with_acks(-1)
            .with_timeout_ms(30_000)
            .with_topic_data(vec![topic]);
        let answer = p.client.call(13, &request);
        let answer = &answer.responses[0].partition_responses[0];
        (answer.error_code, answer.base_offset)
    };
    let id = metadata(&mut broker.client(), &["by-id"]).topics[0].topic_id;
    assert_eq!(produce(id, 0), (0, 0));
    assert_eq!(produce(uuid::Uuid::from_u128(9), 1), (100, -1));
    assert_eq!(produce(id, 2), (0, 1));
}
