//! Topics and configurations through the protocol: in effect at once, and after a restart.

#![allow(clippy::unwrap_used)]

mod support;

use std::thread;

use kafka_protocol::messages::create_topics_request::{CreatableTopic, CreateTopicsRequest};
use kafka_protocol::messages::describe_configs_request::{DescribeConfigsRequest, DescribeConfigsResource};
use kafka_protocol::messages::incremental_alter_configs_request::{
    AlterConfigsResource, AlterableConfig, IncrementalAlterConfigsRequest,
};
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::{MetadataRequest, MetadataResponse};
use kafka_protocol::protocol::StrBytes;
use support::topic::{create, metadata, name};
use support::{Batch, Broker, Client, Partition};

const TOPIC: i8 = 2;
const BROKER: i8 = 4;
const MESSAGE_TOO_LARGE: i16 = 10;
const INVALID_RECORD: i16 = 87;

fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

fn set(client: &mut Client, kind: i8, resource: &str, key: &str, value: &str) {
    let config = AlterableConfig::default()
        .with_name(text(key))
        .with_value(Some(text(value)));
    let resource = AlterConfigsResource::default()
        .with_resource_type(kind)
        .with_resource_name(text(resource))
        .with_configs(vec![config]);
    let answer = client.call(
        1,
        &IncrementalAlterConfigsRequest::default().with_resources(vec![resource]),
    );
    assert_eq!(
        answer.responses[0].error_code, 0,
        "{:?}",
        answer.responses[0].error_message
    );
}

/// Value and source.
fn describe(client: &mut Client, kind: i8, resource: &str, key: &str) -> (String, i8) {
    let resource = DescribeConfigsResource::default()
        .with_resource_type(kind)
        .with_resource_name(text(resource))
        .with_configuration_keys(Some(vec![text(key)]));
    let answer = client.call(
        4,
        &DescribeConfigsRequest::default().with_resources(vec![resource]),
    );
    let config = &answer.results[0].configs[0];
    (config.value.as_ref().unwrap().to_string(), config.config_source)
}

fn ask_and_create(client: &mut Client, topic: &str) -> MetadataResponse {
    let topic = MetadataRequestTopic::default().with_name(Some(name(topic)));
    let request = MetadataRequest::default()
        .with_topics(Some(vec![topic]))
        .with_allow_auto_topic_creation(true);
    client.call(12, &request)
}

/// B27.
#[test]
fn configurations_take_effect_at_once_and_survive_a_restart() {
    let mut broker = Broker::start();
    let large = Batch::of_values([vec![b'x'; 2_000]]);
    let mut partition = Partition::create(&broker, "t", &[]);
    assert_eq!(partition.produce(&large).error_code, 0);
    set(&mut broker.client(), TOPIC, "t", "max.message.bytes", "1000");
    assert_eq!(partition.produce(&large).error_code, MESSAGE_TOO_LARGE);
    set(&mut broker.client(), TOPIC, "t", "cleanup.policy", "compact");
    assert_eq!(
        partition.produce(&Batch::of_values(["keyless"])).error_code,
        INVALID_RECORD
    );

    let mut other = Partition::create(&broker, "u", &[]);
    set(&mut broker.client(), BROKER, "", "message.max.bytes", "1500");
    assert_eq!(other.produce(&large).error_code, MESSAGE_TOO_LARGE);
    set(&mut broker.client(), BROKER, "1000", "message.max.bytes", "5000");
    assert_eq!(
        other.produce(&large).error_code,
        0,
        "the broker's own value wins over the cluster's"
    );

    for restart in [Broker::kill as fn(&mut Broker), |broker| {
        assert!(broker.stop().success())
    }] {
        restart(&mut broker);
        broker.launch();
        let mut client = broker.client();
        assert_eq!(
            describe(&mut client, TOPIC, "t", "max.message.bytes"),
            ("1000".into(), 1)
        );
        assert_eq!(
            describe(&mut client, TOPIC, "u", "max.message.bytes"),
            ("5000".into(), 2)
        );
        let mut partition = Partition::find(&broker, "t", 0);
        assert_eq!(partition.produce(&large).error_code, MESSAGE_TOO_LARGE);
        assert_eq!(partition.end_offset(), 1);
    }
}

#[test]
fn a_topic_is_usable_as_soon_as_its_creation_is_answered() {
    let broker = Broker::start_with(&["--shards", "2"]);
    for number in 0..40 {
        let topic = format!("t-{number}");
        create(&mut broker.client_of(1000 + number % 2), &topic, 4, &[]);
        for index in 0..4 {
            assert_eq!(
                Partition::find(&broker, &topic, index).append(&Batch::of_values(["first"])),
                0
            );
        }
    }
}

/// B29.
#[test]
fn many_clients_at_once_create_one_topic() {
    let broker = Broker::start_with(&["--shards", "2", "--set", "num.partitions=3"]);
    let ids: Vec<_> = thread::scope(|scope| {
        let ask = |number: i32| {
            let mut client = broker.client_of(1000 + number % 2);
            scope.spawn(move || ask_and_create(&mut client, "wanted").topics.remove(0))
        };
        let asking: Vec<_> = (0..50).map(ask).collect();
        asking.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for topic in &ids {
        assert_eq!(
            (topic.error_code, topic.partitions.len(), topic.topic_id),
            (0, 3, ids[0].topic_id)
        );
    }
}

#[test]
fn a_thousand_partitions_and_a_thousand_topics_are_created_in_one_request_each() {
    let mut broker = Broker::start_with(&["--shards", "2"]);
    create(&mut broker.client(), "wide", 1_000, &[]);
    assert_eq!(
        Partition::find(&broker, "wide", 999).append(&Batch::of_values(["v"])),
        0
    );
    let topic = |number| {
        let topic = CreatableTopic::default().with_name(name(&format!("many-{number}")));
        topic.with_num_partitions(1).with_replication_factor(1)
    };
    let request = CreateTopicsRequest::default()
        .with_topics((0..1_000).map(topic).collect())
        .with_timeout_ms(30_000);
    let answer = broker.client().call(7, &request);
    assert!(answer.topics.iter().all(|topic| topic.error_code == 0));
    let leaders = metadata(&mut broker.client(), &["wide"])
        .topics
        .remove(0)
        .partitions;
    let first = leaders
        .iter()
        .filter(|partition| partition.leader_id.0 == 1000)
        .count();
    assert_eq!(first, 500, "spread over the shards");
    assert!(broker.stop().success());
    broker.launch();
    assert_eq!(
        Partition::find(&broker, "many-999", 0).append(&Batch::of_values(["v"])),
        0
    );
    assert_eq!(
        Partition::find(&broker, "wide", 999).append(&Batch::of_values(["v"])),
        1
    );
}

/// B41.
#[test]
fn shards_are_advertised_as_configured() {
    let mapped = Broker::start_with(&[
        "--shards",
        "2",
        "--set",
        "advertised.listeners=PLAINTEXT://outside:19092",
    ]);
    let addresses = |broker: &Broker| -> Vec<(String, i32)> {
        let found = metadata(&mut broker.client(), &[]);
        found
            .brokers
            .iter()
            .map(|broker| (broker.host.to_string(), broker.port))
            .collect()
    };
    assert_eq!(
        addresses(&mapped),
        [("outside".to_owned(), 19_092), ("outside".to_owned(), 19_093)]
    );
    let listed = "strandline.advertised.listeners.per.shard=PLAINTEXT://a:1,PLAINTEXT://b:7";
    let listed = Broker::start_with(&["--shards", "2", "--set", listed]);
    assert_eq!(addresses(&listed), [("a".to_owned(), 1), ("b".to_owned(), 7)]);
}
