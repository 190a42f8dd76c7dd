use strandline_core::metadata::BrokerId;
use strandline_wire::messages::TopicName;
use strandline_wire::messages::create_partitions_request::{CreatePartitionsRequest, CreatePartitionsTopic};
use strandline_wire::messages::create_topics_request::{
    CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig, CreateTopicsRequest,
};
use strandline_wire::messages::create_topics_response::CreatableTopicResult;
use strandline_wire::messages::delete_topics_request::{DeleteTopicState, DeleteTopicsRequest};
use strandline_wire::messages::metadata_request::{MetadataRequest, MetadataRequestTopic};
use strandline_wire::messages::metadata_response::MetadataResponse;
use uuid::Uuid;

use super::super::text::{string, topic_name};
use super::super::{create_partitions, create_topics, delete_topics, metadata};
use super::Cluster;

fn topic(name: &str, partitions: i32, factor: i16) -> CreatableTopic {
    CreatableTopic::default()
        .with_name(topic_name(name))
        .with_num_partitions(partitions)
        .with_replication_factor(factor)
}

fn create(
    cluster: &mut Cluster,
    topics: Vec<CreatableTopic>,
    validate_only: bool,
) -> Vec<CreatableTopicResult> {
    let request = CreateTopicsRequest::default()
        .with_topics(topics)
        .with_validate_only(validate_only);
    cluster
        .run(async |context| create_topics::handle(context, request, 7).await)
        .topics
}

fn code_of(cluster: &mut Cluster, topic: CreatableTopic) -> i16 {
    create(cluster, vec![topic], false)[0].error_code
}

#[test]
fn topics_are_created_with_defaults_and_their_configuration_listed() {
    let mut cluster = Cluster::new(2, &[("num.partitions", "3")]);
    let config = CreatableTopicConfig::default()
        .with_name(string("retention.ms"))
        .with_value(Some(string("5")));
    let answers = create(
        &mut cluster,
        vec![topic("a", -1, -1).with_configs(vec![config]), topic("b", 1, 1)],
        false,
    );
    assert_eq!(
        (
            answers[0].error_code,
            answers[0].num_partitions,
            answers[0].replication_factor
        ),
        (0, 3, 1)
    );
    assert_eq!(
        answers[0].topic_id,
        cluster.image().topic_by_name("a").unwrap().id
    );
    let configs = answers[0].configs.as_ref().unwrap();
    let retention = configs
        .iter()
        .find(|config| config.name.as_str() == "retention.ms")
        .unwrap();
    assert_eq!(
        (
            retention.value.as_ref().unwrap().as_str(),
            retention.config_source
        ),
        ("5", 1)
    );
    let retention = answers[1]
        .configs
        .as_ref()
        .unwrap()
        .iter()
        .find(|config| config.name.as_str() == "retention.ms");
    assert_eq!(retention.unwrap().value.as_ref().unwrap().as_str(), "604800000");
}

#[test]
fn one_bad_topic_does_not_hurt_the_others() {
    let mut cluster = Cluster::new(1, &[]);
    let answers = create(
        &mut cluster,
        vec![
            topic("bad name", 1, 1),
            topic("good", 1, 1),
            topic("twice", 1, 1),
            topic("twice", 1, 1),
        ],
        false,
    );
    let codes: Vec<i16> = answers.iter().map(|answer| answer.error_code).collect();
    assert_eq!(codes, [17, 0, 42, 42]);
    assert!(answers[0].error_message.is_some() && answers[0].num_partitions == -1);
    assert_eq!(cluster.image().topics().len(), 1);
}

#[test]
fn refusals_have_kafkas_codes() {
    let mut cluster = Cluster::new(1, &[]);
    assert_eq!(code_of(&mut cluster, topic("t", 0, 1)), 37);
    assert_eq!(code_of(&mut cluster, topic("t", 1, 0)), 38);
    assert_eq!(code_of(&mut cluster, topic("t", 1, 3)), 38);
    assert_eq!(code_of(&mut cluster, topic("__cluster_metadata", 1, 1)), 42);
    let unknown = CreatableTopicConfig::default()
        .with_name(string("no.such"))
        .with_value(Some(string("5")));
    assert_eq!(
        code_of(&mut cluster, topic("t", 1, 1).with_configs(vec![unknown])),
        40
    );
    let null = CreatableTopicConfig::default()
        .with_name(string("retention.ms"))
        .with_value(None);
    assert_eq!(
        code_of(&mut cluster, topic("t", 1, 1).with_configs(vec![null])),
        40
    );
    assert_eq!(code_of(&mut cluster, topic("t", 1, 1)), 0);
    assert_eq!(code_of(&mut cluster, topic("t", 1, 1)), 36);
}

#[test]
fn manual_assignments_name_one_broker_a_partition() {
    let mut cluster = Cluster::new(2, &[]);
    let at = |number: i32, broker: i32| {
        let brokers = vec![strandline_wire::messages::BrokerId(broker)];
        CreatableReplicaAssignment::default()
            .with_partition_index(number)
            .with_broker_ids(brokers)
    };
    assert_eq!(
        code_of(
            &mut cluster,
            topic("t", 1, -1).with_assignments(vec![at(0, 1001)])
        ),
        42
    );
    assert_eq!(
        code_of(
            &mut cluster,
            topic("t", -1, -1).with_assignments(vec![at(1, 1001)])
        ),
        39
    );
    assert_eq!(
        code_of(&mut cluster, topic("t", -1, -1).with_assignments(vec![at(0, 9)])),
        39
    );
    assert_eq!(
        code_of(
            &mut cluster,
            topic("t", -1, -1).with_assignments(vec![at(1, 1000), at(0, 1001)])
        ),
        0
    );
    let leaders: Vec<BrokerId> = cluster
        .image()
        .topic_by_name("t")
        .unwrap()
        .partitions
        .iter()
        .map(|partition| partition.leader)
        .collect();
    assert_eq!(leaders, [BrokerId(1001), BrokerId(1000)]);
}

#[test]
fn validation_alone_creates_nothing() {
    let mut cluster = Cluster::new(1, &[]);
    let answers = create(
        &mut cluster,
        vec![topic("t", 2, 1), topic("bad name", 1, 1)],
        true,
    );
    assert_eq!(
        (
            answers[0].error_code,
            answers[0].num_partitions,
            answers[1].error_code
        ),
        (0, 2, 17)
    );
    assert!(answers[0].topic_id.is_nil() && cluster.image().topics().len() == 0);
}

#[test]
fn topics_are_deleted_by_name_and_by_id() {
    let mut cluster = Cluster::new(1, &[]);
    create(&mut cluster, vec![topic("a", 1, 1), topic("b", 1, 1)], false);
    let id = cluster.image().topic_by_name("b").unwrap().id;
    let state = |name: Option<&str>, id| {
        DeleteTopicState::default()
            .with_name(name.map(topic_name))
            .with_topic_id(id)
    };
    let unknown = Uuid::from_u128(99);
    let topics = vec![
        state(Some("a"), Uuid::nil()),
        state(None, id),
        state(None, unknown),
        state(Some("c"), Uuid::nil()),
        state(Some("a"), id),
        state(None, Uuid::nil()),
    ];
    let request = DeleteTopicsRequest::default().with_topics(topics);
    let answer = cluster.run(async |context| delete_topics::handle(context, request, 6).await);
    let codes: Vec<i16> = answer.responses.iter().map(|topic| topic.error_code).collect();
    assert_eq!(codes, [0, 0, 100, 3, 42, 42]);
    assert_eq!(
        answer.responses[1].name.as_ref().unwrap().as_str(),
        "b",
        "the answer names what was deleted"
    );
    assert_eq!(cluster.image().topics().len(), 0);
}

#[test]
fn deletion_can_be_turned_off() {
    let mut cluster = Cluster::new(1, &[("delete.topic.enable", "false")]);
    for (version, code) in [(2, 42), (3, 73)] {
        let request = DeleteTopicsRequest::default().with_topic_names(vec![topic_name("a")]);
        let answer = cluster.run(async |context| delete_topics::handle(context, request, version).await);
        assert_eq!(answer.responses[0].error_code, code);
    }
}

#[test]
fn partitions_are_added() {
    let mut cluster = Cluster::new(1, &[]);
    create(&mut cluster, vec![topic("a", 1, 1)], false);
    let grow = |name: &str, count| {
        let topic = CreatePartitionsTopic::default().with_name(topic_name(name));
        topic.with_count(count).with_assignments(None)
    };
    let topics = vec![grow("a", 3), grow("missing", 3)];
    let request = CreatePartitionsRequest::default().with_topics(topics);
    let answer = cluster.run(async |context| create_partitions::handle(context, request, 3).await);
    let codes: Vec<i16> = answer.results.iter().map(|topic| topic.error_code).collect();
    assert_eq!(codes, [0, 3]);
    assert_eq!(cluster.image().topic_by_name("a").unwrap().partitions.len(), 3);
}

fn ask(cluster: &mut Cluster, names: Option<&[&str]>, allow: bool, version: i16) -> MetadataResponse {
    let topic = |name: &&str| MetadataRequestTopic::default().with_name(Some(topic_name(name)));
    let topics = names.map(|names| names.iter().map(topic).collect());
    let request = MetadataRequest::default()
        .with_topics(topics)
        .with_allow_auto_topic_creation(allow);
    cluster.run(async |context| metadata::handle(context, request, version).await)
}

#[test]
fn metadata_creates_only_what_both_sides_allow() {
    let mut cluster = Cluster::new(2, &[("num.partitions", "2")]);
    assert_eq!(ask(&mut cluster, Some(&["a"]), false, 13).topics[0].error_code, 3);
    let created = ask(&mut cluster, Some(&["a", "bad name"]), true, 13);
    assert_eq!(
        (created.topics[0].error_code, created.topics[0].partitions.len()),
        (0, 2),
        "usable at once"
    );
    assert_eq!(created.topics[1].error_code, 17);
    assert_eq!(
        ask(&mut cluster, None, true, 13).topics.len(),
        1,
        "all topics never creates"
    );
    let mut closed = Cluster::new(1, &[("auto.create.topics.enable", "false")]);
    assert_eq!(ask(&mut closed, Some(&["a"]), true, 13).topics[0].error_code, 3);
}

#[test]
fn metadata_tells_null_from_empty() {
    let mut cluster = Cluster::new(2, &[]);
    create(&mut cluster, vec![topic("a", 1, 1)], false);
    assert_eq!(ask(&mut cluster, None, true, 1).topics.len(), 1);
    assert_eq!(ask(&mut cluster, Some(&[]), true, 1).topics.len(), 0);
    let answer = ask(&mut cluster, Some(&[]), true, 0);
    assert_eq!(
        (answer.topics.len(), answer.brokers.len()),
        (1, 2),
        "version 0 has no null"
    );
    assert_eq!(answer.cluster_id.unwrap().as_str(), "cGVlcnBlZXJwZWVycGVlcg");
    assert_eq!(
        (answer.brokers[1].node_id.0, answer.brokers[1].port),
        (1001, 9093)
    );
}

#[test]
fn metadata_finds_topics_by_id() {
    let mut cluster = Cluster::new(1, &[]);
    create(&mut cluster, vec![topic("a", 1, 1)], false);
    let id = cluster.image().topic_by_name("a").unwrap().id;
    // Java's admin client sends an empty name beside the id, not a null.
    for name in [None, Some("")] {
        metadata_by_id(&mut cluster, name.map(topic_name), id);
    }
}

fn metadata_by_id(cluster: &mut Cluster, name: Option<TopicName>, id: Uuid) {
    let mut ask = |id, version| {
        let topic = MetadataRequestTopic::default()
            .with_topic_id(id)
            .with_name(name.clone());
        let request = MetadataRequest::default().with_topics(Some(vec![topic]));
        cluster
            .run(async |context| metadata::handle(context, request, version).await)
            .topics
            .remove(0)
    };
    assert_eq!(ask(id, 12).name.unwrap().as_str(), "a");
    let unknown = ask(Uuid::from_u128(9), 12);
    assert_eq!(
        (unknown.error_code, unknown.name, unknown.topic_id),
        (100, None, Uuid::from_u128(9))
    );
    let early = ask(id, 11);
    assert_eq!(
        (early.error_code, early.name.unwrap().as_str(), early.topic_id),
        (42, "", id),
        "a null name has no place in this version"
    );
}
