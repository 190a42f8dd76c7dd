use std::collections::{BTreeMap, BTreeSet};

use super::*;

type Map = BTreeMap<String, String>;

fn map(pairs: &[(&str, &str)]) -> Map {
    pairs
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

#[test]
fn every_row_is_whole() {
    let mut seen = BTreeSet::new();
    for key in keys() {
        assert!(seen.insert((key.scope, key.name)), "{} is there twice", key.name);
        assert!(
            key.doc.len() > 10 && key.doc.ends_with('.'),
            "{} has no sentence: {:?}",
            key.name,
            key.doc
        );
        if let Some(default) = key.default {
            check_value(key, default).unwrap();
        }
        if let Effect::Partly(reason) | Effect::Without(reason) | Effect::Refused(reason) = key.effect {
            assert!(
                !reason.is_empty() && !reason.ends_with('.'),
                "{}: the reason is part of a sentence",
                key.name
            );
        }
        for synonym in key.synonyms {
            let of = lookup(Scope::Broker, synonym.name).unwrap();
            assert_eq!(of.kind == Kind::List, key.kind == Kind::List, "{}", key.name);
        }
    }
    assert_eq!(
        keys().filter(|key| key.scope == Scope::Topic).count(),
        34,
        "Kafka 4.2 has 34 topic keys"
    );
}

#[test]
fn values_that_would_stop_the_cleaner_or_all_groups_are_refused() {
    let refused: &[(&str, &[&str])] = &[
        (
            "log.cleaner.io.max.bytes.per.second",
            &["0", "-5", "0.5", "NaN", "-inf"],
        ),
        (
            "log.cleaner.io.buffer.load.factor",
            &["0", "-3", "NaN", "inf", "1.5"],
        ),
        ("log.cleaner.dedupe.buffer.size", &["0", "-1", "1048575"]),
        ("offsets.topic.segment.bytes", &["1", "1048575"]),
        ("offsets.topic.num.partitions", &["0", "10001", "2147483647"]),
    ];
    for (name, values) in refused {
        let key = lookup(Scope::Broker, name).unwrap();
        for value in *values {
            let why = check_value(key, value).unwrap_err();
            assert!(why.contains(name) && why.contains("must be"), "{why}");
        }
    }
    for (name, value) in [
        ("log.cleaner.io.max.bytes.per.second", "1.5"),
        ("log.cleaner.io.buffer.load.factor", "1"),
        ("offsets.topic.segment.bytes", "1048576"),
    ] {
        check_value(lookup(Scope::Broker, name).unwrap(), value).unwrap();
    }
}

#[test]
fn a_topics_default_is_that_of_its_synonym() {
    let nothing = Map::new();
    let node = StaticConfig::default();
    let layers = Layers::of_topic(&node, &nothing, &nothing, &nothing);
    for key in keys().filter(|key| key.scope == Scope::Topic && !key.synonyms.is_empty()) {
        let (value, source) = layers.resolve(key);
        let both_null = value.is_none() && key.default.is_none();
        assert!(
            both_null || value.as_deref() == key.default || key.name == "flush.ms",
            "{}: {value:?}",
            key.name
        );
        assert_eq!(source, Source::Default);
    }
    let settings = TopicSettings::new(&node, &nothing, &nothing, &nothing);
    assert!(settings.durable && settings.deleted && !settings.compacted);
    assert_eq!(
        (settings.max_message_bytes, settings.segment_ms),
        (1_048_588, 604_800_000)
    );
    assert_eq!(
        BrokerSettings::new(&node, &nothing, &nothing).max_connections,
        i32::MAX as u32
    );
}

#[test]
fn values_are_read_as_they_were_judged() {
    let nothing = map(&[]);
    let node = StaticConfig(map(&[]));
    let with = |key: &str, value: &str| {
        let topic = map(&[(key, value)]);
        validate_topic(&topic).unwrap();
        TopicSettings::new(&node, &nothing, &nothing, &topic)
    };
    for one in ["1", " 1", "+1", "01", "1 "] {
        assert!(with("flush.messages", one).durable, "{one:?}");
    }
    assert!(!with("flush.messages", " 2").durable);
    assert_eq!(
        with("max.message.bytes", " 2000000 ").max_message_bytes,
        2_000_000
    );
    assert_eq!(with("compression.type", " gzip").compression, Compression::Gzip);
    assert!(with("message.timestamp.type", "LogAppendTime ").log_append_time);
    assert!(with("cleanup.policy", " compact , delete").compacted);
}

#[test]
fn the_nearest_layer_decides_and_units_are_converted() {
    let key = lookup(Scope::Topic, "retention.ms").unwrap();
    let node = StaticConfig(map(&[
        ("log.retention.hours", "1"),
        ("log.retention.minutes", "2"),
    ]));
    let (cluster, broker) = (map(&[("log.retention.ms", "33")]), Map::new());
    let topic = map(&[("retention.ms", "44")]);
    let resolve = |cluster, topic| Layers::of_topic(&node, cluster, &broker, topic).resolve(key);
    let nothing = Map::new();
    assert_eq!(
        resolve(&cluster, &topic),
        (Some("44".to_owned()), Source::DynamicTopic)
    );
    assert_eq!(
        resolve(&cluster, &nothing),
        (Some("33".to_owned()), Source::DynamicDefaultBroker)
    );
    assert_eq!(
        resolve(&nothing, &nothing),
        (Some("120000".to_owned()), Source::StaticBroker)
    );
    let layers = Layers::of_topic(&node, &cluster, &broker, &topic);
    let chain: Vec<_> = layers
        .chain(key)
        .into_iter()
        .map(|layer| (layer.name, layer.source))
        .collect();
    let expected = [
        ("retention.ms", Source::DynamicTopic),
        ("log.retention.ms", Source::DynamicDefaultBroker),
        ("log.retention.minutes", Source::StaticBroker),
        ("log.retention.hours", Source::StaticBroker),
        ("log.retention.hours", Source::Default),
    ];
    assert_eq!(chain, expected);
    let forever = StaticConfig(map(&[("log.retention.hours", "-1")]));
    assert_eq!(
        Layers::of_topic(&forever, &nothing, &nothing, &nothing)
            .resolve(key)
            .0
            .unwrap(),
        "-1"
    );
}

#[test]
fn topic_configs_are_judged() {
    let judge = |key: &str, value: &str| validate_topic(&map(&[(key, value)]));
    for (key, value) in [
        ("cleanup.policy", "compact,delete"),
        ("retention.ms", "-1"),
        ("compression.gzip.level", "-1"),
        ("min.cleanable.dirty.ratio", "0.25"),
        ("flush.messages", "1"),
        ("leader.replication.throttled.replicas", "0:1000,1:1001"),
        ("remote.storage.enable", "false"),
    ] {
        judge(key, value).unwrap();
    }
    for (key, value) in [
        ("cleanup.policy", "shred"),
        ("retention.ms", "-2"),
        ("retention.ms", "soon"),
        ("compression.type", "lzma"),
        ("compression.gzip.level", "0"),
        ("min.cleanable.dirty.ratio", "1.5"),
        ("leader.replication.throttled.replicas", "0-1"),
        ("remote.storage.enable", "true"),
        ("preallocate", "yes"),
        ("no.such.key", "1"),
    ] {
        assert!(judge(key, value).is_err(), "{key}={value}");
    }
    assert!(
        validate_topic(&map(&[
            ("min.compaction.lag.ms", "5"),
            ("max.compaction.lag.ms", "4")
        ]))
        .is_err()
    );
}

#[test]
fn only_dynamic_keys_change_while_the_node_runs() {
    let judge = |key: &str, value: &str, one| validate_dynamic_broker(&map(&[(key, value)]), one);
    judge("message.max.bytes", "1000", false).unwrap();
    assert!(
        judge("num.partitions", "3", true)
            .unwrap_err()
            .contains("read-only")
    );
    assert!(
        judge("ssl.client.auth", "none", false)
            .unwrap_err()
            .contains("one broker only")
    );
    assert!(
        judge("listeners", "PLAINTEXT://a:1", true)
            .unwrap_err()
            .contains("read-only"),
        "it was taken, shown and not obeyed"
    );
    assert!(
        judge("retention.ms", "1", false).is_err(),
        "a topic's key is none of a broker's"
    );
}

#[test]
fn the_page_lists_every_key() {
    let page = configuration_markdown();
    for key in keys().filter(|key| !key.internal) {
        assert!(page.contains(&format!("| `{}` |", key.name)), "{}", key.name);
    }
}
