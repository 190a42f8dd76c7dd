use strandline_wire::messages::alter_configs_request::{
    AlterConfigsRequest, AlterConfigsResource as LegacyResource, AlterableConfig as LegacyConfig,
};
use strandline_wire::messages::create_topics_request::{CreatableTopic, CreateTopicsRequest};
use strandline_wire::messages::describe_configs_request::{DescribeConfigsRequest, DescribeConfigsResource};
use strandline_wire::messages::describe_configs_response::{
    DescribeConfigsResourceResult, DescribeConfigsResult,
};
use strandline_wire::messages::incremental_alter_configs_request::{
    AlterConfigsResource, AlterableConfig, IncrementalAlterConfigsRequest,
};

use super::super::text::{string, topic_name};
use super::super::{alter_configs, create_topics, describe_configs, incremental_alter_configs};
use super::Cluster;

const TOPIC: i8 = 2;
const BROKER: i8 = 4;
const GROUP: i8 = 32;
const SET: i8 = 0;
const DELETE: i8 = 1;
const APPEND: i8 = 2;
const SUBTRACT: i8 = 3;

fn with_topic(settings: &[(&str, &str)]) -> Cluster {
    let mut cluster = Cluster::new(2, settings);
    let topic = CreatableTopic::default()
        .with_name(topic_name("t"))
        .with_num_partitions(1)
        .with_replication_factor(1);
    let request = CreateTopicsRequest::default().with_topics(vec![topic]);
    cluster.run(async |context| create_topics::handle(context, request, 7).await);
    cluster
}

fn alter(cluster: &mut Cluster, kind: i8, name: &str, changes: &[(&str, i8, &str)]) -> (i16, Option<String>) {
    alter_with(cluster, kind, name, changes, false)
}

fn alter_with(
    cluster: &mut Cluster,
    kind: i8,
    name: &str,
    changes: &[(&str, i8, &str)],
    validate_only: bool,
) -> (i16, Option<String>) {
    let change = |(key, operation, value): &(&str, i8, &str)| {
        let config = AlterableConfig::default()
            .with_name(string(key))
            .with_config_operation(*operation);
        config.with_value((*operation != DELETE).then(|| string(value)))
    };
    let resource = AlterConfigsResource::default()
        .with_resource_type(kind)
        .with_resource_name(string(name))
        .with_configs(changes.iter().map(change).collect());
    let request = IncrementalAlterConfigsRequest::default()
        .with_resources(vec![resource])
        .with_validate_only(validate_only);
    let answer = cluster.run(async |context| incremental_alter_configs::handle(context, request, 1).await);
    let answer = &answer.responses[0];
    (
        answer.error_code,
        answer.error_message.as_ref().map(ToString::to_string),
    )
}

fn describe_with(
    cluster: &mut Cluster,
    kind: i8,
    name: &str,
    keys: Option<&[&str]>,
) -> DescribeConfigsResult {
    let keys = keys.map(|keys| keys.iter().map(|key| string(key)).collect());
    let resource = DescribeConfigsResource::default()
        .with_resource_type(kind)
        .with_resource_name(string(name))
        .with_configuration_keys(keys);
    let request = DescribeConfigsRequest::default()
        .with_resources(vec![resource])
        .with_include_synonyms(true)
        .with_include_documentation(true);
    cluster
        .run(async |context| describe_configs::handle(context, request, 4).await)
        .results
        .remove(0)
}

fn describe(cluster: &mut Cluster, kind: i8, name: &str, key: &str) -> DescribeConfigsResourceResult {
    describe_with(cluster, kind, name, Some(&[key])).configs.remove(0)
}

fn value(config: &DescribeConfigsResourceResult) -> (&str, i8) {
    (
        config.value.as_ref().map_or("null", |value| value.as_str()),
        config.config_source,
    )
}

#[test]
fn a_value_equal_to_the_default_is_kept_and_deletion_follows_the_broker() {
    let mut cluster = with_topic(&[]);
    assert_eq!(
        alter(&mut cluster, TOPIC, "t", &[("retention.ms", SET, "604800000")]).0,
        0
    );
    assert_eq!(
        value(&describe(&mut cluster, TOPIC, "t", "retention.ms")),
        ("604800000", 1)
    );
    assert_eq!(
        alter(&mut cluster, BROKER, "", &[("log.retention.ms", SET, "77")]).0,
        0
    );
    assert_eq!(
        alter(&mut cluster, TOPIC, "t", &[("retention.ms", DELETE, "")]).0,
        0
    );
    let config = describe(&mut cluster, TOPIC, "t", "retention.ms");
    assert_eq!(value(&config), ("77", 3));
    let chain: Vec<(&str, i8)> = config
        .synonyms
        .iter()
        .map(|layer| (layer.name.as_str(), layer.source))
        .collect();
    assert_eq!(chain, [("log.retention.ms", 3), ("log.retention.hours", 5)]);
}

#[test]
fn a_resource_named_again_is_described_once_and_not_altered() {
    let mut cluster = with_topic(&[]);
    let broker = "1000";
    let named = |name: &str, kind| {
        DescribeConfigsResource::default()
            .with_resource_type(kind)
            .with_resource_name(string(name))
    };
    let mut resources = vec![named("t", TOPIC); 1000];
    resources.extend(vec![named(broker, BROKER); 1000]);
    let request = DescribeConfigsRequest::default().with_resources(resources);
    let answer = cluster.run(async |context| describe_configs::handle(context, request, 4).await);
    assert_eq!(answer.results.len(), 2);

    let change = AlterConfigsResource::default()
        .with_resource_type(TOPIC)
        .with_resource_name(string("t"));
    let request = IncrementalAlterConfigsRequest::default().with_resources(vec![change; 2]);
    let answer = cluster.run(async |context| incremental_alter_configs::handle(context, request, 1).await);
    assert_eq!(
        answer
            .responses
            .iter()
            .map(|one| one.error_code)
            .collect::<Vec<_>>(),
        [42, 42]
    );
}

#[test]
fn lists_grow_and_shrink_from_what_they_inherit() {
    let mut cluster = with_topic(&[]);
    assert_eq!(
        alter(&mut cluster, TOPIC, "t", &[("cleanup.policy", APPEND, "compact")]).0,
        0
    );
    assert_eq!(
        value(&describe(&mut cluster, TOPIC, "t", "cleanup.policy")),
        ("delete,compact", 1)
    );
    assert_eq!(
        alter(
            &mut cluster,
            TOPIC,
            "t",
            &[("cleanup.policy", SUBTRACT, "delete")]
        )
        .0,
        0
    );
    assert_eq!(
        value(&describe(&mut cluster, TOPIC, "t", "cleanup.policy")).0,
        "compact"
    );
    assert_eq!(
        alter(&mut cluster, TOPIC, "t", &[("retention.ms", APPEND, "1")]).0,
        40
    );
}

#[test]
fn a_bad_key_or_value_changes_nothing_of_its_resource() {
    let mut cluster = with_topic(&[]);
    for bad in [
        ("no.such", SET, "1"),
        ("retention.ms", SET, "soon"),
        ("remote.storage.enable", SET, "true"),
    ] {
        let (code, text) = alter(&mut cluster, TOPIC, "t", &[("segment.ms", SET, "5"), bad]);
        assert_eq!(code, 40);
        assert!(text.unwrap().contains(bad.0));
    }
    assert_eq!(value(&describe(&mut cluster, TOPIC, "t", "segment.ms")).1, 5);
    assert_eq!(
        alter(&mut cluster, TOPIC, "none", &[("segment.ms", SET, "5")]).0,
        3
    );
    assert_eq!(
        alter(&mut cluster, BROKER, "1000", &[("num.partitions", SET, "5")]).0,
        42
    );
    assert_eq!(alter(&mut cluster, BROKER, "7", &[]).0, 42);
    let twice = [("segment.ms", SET, "5"), ("segment.ms", SET, "6")];
    assert_eq!(alter(&mut cluster, TOPIC, "t", &twice).0, 42);
    assert_eq!(alter(&mut cluster, TOPIC, "t", &[("segment.ms", 9, "5")]).0, 42);
}

#[test]
fn validation_alone_changes_nothing() {
    let mut cluster = with_topic(&[]);
    assert_eq!(
        alter_with(&mut cluster, TOPIC, "t", &[("segment.ms", SET, "5")], true).0,
        0
    );
    assert_eq!(
        alter_with(&mut cluster, TOPIC, "t", &[("segment.ms", SET, "x")], true).0,
        40
    );
    assert_eq!(value(&describe(&mut cluster, TOPIC, "t", "segment.ms")).1, 5);
}

#[test]
fn the_legacy_form_resets_what_it_does_not_name() {
    let mut cluster = with_topic(&[]);
    alter(
        &mut cluster,
        TOPIC,
        "t",
        &[("segment.ms", SET, "5"), ("retention.ms", SET, "6")],
    );
    let config = LegacyConfig::default()
        .with_name(string("retention.ms"))
        .with_value(Some(string("7")));
    let resource = LegacyResource::default()
        .with_resource_type(TOPIC)
        .with_resource_name(string("t"))
        .with_configs(vec![config]);
    let request = AlterConfigsRequest::default().with_resources(vec![resource]);
    let answer = cluster.run(async |context| alter_configs::handle(context, request, 2).await);
    assert_eq!(answer.responses[0].error_code, 0);
    assert_eq!(
        value(&describe(&mut cluster, TOPIC, "t", "retention.ms")),
        ("7", 1)
    );
    assert_eq!(value(&describe(&mut cluster, TOPIC, "t", "segment.ms")).1, 5);
}

#[test]
fn a_broker_tells_where_each_value_comes_from() {
    let mut cluster = with_topic(&[("num.partitions", "6"), ("log.retention.minutes", "2")]);
    let mut of = |key: &str| describe(&mut cluster, BROKER, "1001", key);
    assert_eq!(value(&of("num.partitions")), ("6", 4));
    assert!(of("num.partitions").read_only && !of("message.max.bytes").read_only);
    assert_eq!(value(&of("broker.id")).0, "1001");
    assert_eq!(
        value(&of("log.retention.ms")),
        ("120000", 4),
        "the value in effect, not null"
    );
    assert_eq!(value(&of("default.replication.factor")), ("1", 5));
    let secret = of("ssl.keystore.password");
    assert!(secret.is_sensitive && secret.value.is_none());
    assert!(of("num.partitions").documentation.is_some());
    alter(
        &mut cluster,
        BROKER,
        "1001",
        &[("message.max.bytes", SET, "9000")],
    );
    assert_eq!(
        value(&describe(&mut cluster, BROKER, "1001", "message.max.bytes")),
        ("9000", 2)
    );
    assert_eq!(
        value(&describe(&mut cluster, BROKER, "1000", "message.max.bytes")),
        ("1048588", 5)
    );
    let everything = describe_with(&mut cluster, BROKER, "1000", None).configs;
    assert!(everything.len() > 300);
    let kafkas = |config: &DescribeConfigsResourceResult| {
        config.name.starts_with("strandline.") || !config.name.contains("strandline")
    };
    assert!(everything.iter().all(kafkas));
}

#[test]
fn the_clusters_default_lists_only_what_was_set() {
    let mut cluster = with_topic(&[("message.max.bytes", "5")]);
    assert!(describe_with(&mut cluster, BROKER, "", None).configs.is_empty());
    alter(&mut cluster, BROKER, "", &[("message.max.bytes", SET, "9000")]);
    let configs = describe_with(&mut cluster, BROKER, "", None).configs;
    assert_eq!(configs.len(), 1);
    assert_eq!((value(&configs[0]), configs[0].synonyms.len()), (("9000", 3), 1));
    // Kafka lets the cluster's default win over the file of a broker.
    assert_eq!(
        value(&describe(&mut cluster, TOPIC, "t", "max.message.bytes")),
        ("9000", 3)
    );
}

/// As Apache Kafka 4.2 answers the same.
#[test]
fn a_group_has_values_of_its_own_within_the_brokers_bounds() {
    let (session, heartbeat) = ("consumer.session.timeout.ms", "consumer.heartbeat.interval.ms");
    let mut cluster = with_topic(&[("group.consumer.session.timeout.ms", "50000")]);
    assert_eq!(value(&describe(&mut cluster, GROUP, "g", session)), ("50000", 5));
    for (key, operation, set, code) in [
        (session, SET, "44999", 40),
        (session, SET, "60001", 40),
        (session, SET, "x", 40),
        (session, APPEND, "50000", 40),
        ("message.max.bytes", SET, "5", 40),
        (session, SET, "60000", 0),
        (heartbeat, SET, "15000", 0),
    ] {
        let answer = alter(&mut cluster, GROUP, "g", &[(key, operation, set)]);
        assert_eq!((answer.0, answer.1.is_some()), (code, code != 0), "{key}={set}");
    }
    let config = describe(&mut cluster, GROUP, "g", session);
    assert_eq!((value(&config), config.synonyms.len()), (("60000", 8), 2));
    assert_eq!(
        value(&describe(&mut cluster, GROUP, "g", heartbeat)),
        ("15000", 8)
    );
    assert_eq!(
        value(&describe(&mut cluster, GROUP, "other", heartbeat)),
        ("5000", 5)
    );
    assert_eq!(alter(&mut cluster, GROUP, "g", &[(session, DELETE, "")]).0, 0);
    assert_eq!(value(&describe(&mut cluster, GROUP, "g", session)), ("50000", 5));
}

#[test]
fn resources_that_are_not_served_are_refused_with_a_text() {
    let mut cluster = with_topic(&[]);
    for (kind, name, code) in [
        (TOPIC, "none", 3),
        (TOPIC, "bad name", 17),
        (BROKER, "x", 42),
        (8, "1000", 42),
        (16, "metrics", 42),
        (GROUP, "", 42),
        (77, "", 42),
    ] {
        let answer = describe_with(&mut cluster, kind, name, None);
        assert_eq!(answer.error_code, code);
        assert!(answer.error_message.is_some());
    }
}
