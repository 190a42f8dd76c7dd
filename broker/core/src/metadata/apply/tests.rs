use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use uuid::Uuid;

use super::super::command::*;
use super::super::ids::*;
use super::super::snapshot::Snapshot;
use super::super::{Answer, ApplyError, ClusterImage};

fn registration(directory: u128, shards: u32) -> Command {
    let shard = |shard| ShardRegistration {
        shard,
        directory_id: Uuid::from_u128(directory),
        endpoints: vec![Endpoint {
            listener: "PLAINTEXT".into(),
            host: "h".into(),
            port: 9092 + shard as u16,
        }],
        link: Some(LinkAddress {
            host: "h".into(),
            port: 10_092 + shard as u16,
        }),
        damaged: Vec::new(),
    };
    Command::RegisterNode(NodeRegistration {
        node: NodeId(1),
        directory_id: Uuid::from_u128(directory),
        boot_id: "boot".into(),
        rack: "node-1".into(),
        shards: (0..shards).map(shard).collect(),
    })
}

fn serving(shards: u32) -> ClusterImage {
    let mut image = ClusterImage::default();
    image.apply(&Command::InitializeCluster {
        cluster_id: Uuid::from_u128(1),
    });
    let Answer::Registered(Ok(epoch)) = image.apply(&registration(7, shards)) else {
        panic!()
    };
    let brokers = (0..shards)
        .map(|shard| (NodeId(1).broker(shard), epoch))
        .collect();
    image.apply(&Command::UnfenceBrokers { brokers });
    image
}

fn new_topic(name: &str, id: u128, partitions: i32) -> NewTopic {
    let layout = PartitionLayout::Automatic {
        partitions,
        replication_factor: 1,
    };
    NewTopic {
        name: name.into(),
        id: Uuid::from_u128(id),
        layout,
        configs: BTreeMap::new(),
    }
}

fn create(image: &mut ClusterImage, topic: NewTopic) -> Result<CreatedTopic, ApplyError> {
    match image.apply(&Command::CreateTopics { topics: vec![topic] }) {
        Answer::TopicsCreated(mut answers) => answers.remove(0),
        other => panic!("{other:?}"),
    }
}

fn alter(
    image: &mut ClusterImage,
    resource: ConfigResource,
    replace: bool,
    operations: &[(&str, ConfigOperation)],
) -> ConfigAnswer {
    let operations = operations
        .iter()
        .map(|(key, operation)| ((*key).to_owned(), operation.clone()))
        .collect();
    match image.apply(&Command::AlterConfigs {
        changes: vec![ConfigChange {
            resource,
            replace,
            operations,
        }],
    }) {
        Answer::ConfigsAltered(mut answers) => answers.remove(0),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_topic_is_spread_and_found_by_both_names() {
    let mut image = serving(4);
    let created = create(&mut image, new_topic("t", 5, 8)).unwrap();
    assert_eq!((created.partitions, created.replication_factor), (8, 1));
    let topic = image.topic_by_name("t").unwrap();
    assert_eq!(image.topic(Uuid::from_u128(5)), Some(topic));
    let leaders: Vec<i32> = topic
        .partitions
        .iter()
        .map(|partition| partition.leader.0)
        .collect();
    assert_eq!(leaders, [1000, 1001, 1002, 1003, 1000, 1001, 1002, 1003]);
    assert_eq!(topic.partitions[0].assigned_at, image.offset());
}

#[test]
fn names_are_checked() {
    let mut image = serving(1);
    create(&mut image, new_topic("a.b", 5, 1)).unwrap();
    assert!(matches!(
        create(&mut image, new_topic("a.b", 6, 1)),
        Err(ApplyError::TopicExists(_))
    ));
    assert!(matches!(
        create(&mut image, new_topic("a_b", 6, 1)),
        Err(ApplyError::InvalidTopicName(_))
    ));
    assert!(matches!(
        create(&mut image, new_topic("a b", 6, 1)),
        Err(ApplyError::InvalidTopicName(_))
    ));
    assert!(matches!(
        create(&mut image, new_topic("c", 5, 1)),
        Err(ApplyError::TopicIdTaken(_))
    ));
    let delete = Command::DeleteTopics {
        topics: vec![TopicReference::Name("a.b".into())],
    };
    assert_eq!(
        image.apply(&delete),
        Answer::TopicsDeleted(vec![Ok((Uuid::from_u128(5), "a.b".into()))])
    );
    create(&mut image, new_topic("a_b", 6, 1)).unwrap();
}

#[test]
fn layouts_are_checked() {
    let mut image = serving(2);
    let automatic = |partitions, replication_factor| PartitionLayout::Automatic {
        partitions,
        replication_factor,
    };
    let mut refused = |layout| {
        create(
            &mut image,
            NewTopic {
                layout,
                ..new_topic("t", 5, 1)
            },
        )
        .unwrap_err()
    };
    assert!(matches!(
        refused(automatic(0, 1)),
        ApplyError::InvalidPartitions(_)
    ));
    assert!(matches!(
        refused(automatic(10_001, 1)),
        ApplyError::InvalidPartitions(_)
    ));
    assert!(matches!(
        refused(automatic(1, 0)),
        ApplyError::InvalidReplicationFactor(_)
    ));
    assert!(matches!(
        refused(automatic(1, 3)),
        ApplyError::InvalidReplicationFactor(_)
    ));
    let manual = |brokers: &[&[i32]]| {
        let replicas = brokers
            .iter()
            .map(|replicas| replicas.iter().copied().map(BrokerId).collect());
        PartitionLayout::Manual(replicas.collect())
    };
    assert!(matches!(
        refused(manual(&[])),
        ApplyError::InvalidReplicaAssignment(_)
    ));
    assert!(matches!(
        refused(manual(&[&[]])),
        ApplyError::InvalidReplicaAssignment(_)
    ));
    assert!(matches!(
        refused(manual(&[&[1000, 1000]])),
        ApplyError::InvalidReplicaAssignment(_)
    ));
    assert!(matches!(
        refused(manual(&[&[7]])),
        ApplyError::InvalidReplicaAssignment(_)
    ));
    assert!(matches!(
        refused(manual(&[&[1000, 1001]])),
        ApplyError::InvalidReplicationFactor(_)
    ));
    create(
        &mut image,
        NewTopic {
            layout: manual(&[&[1001], &[1001]]),
            ..new_topic("t", 5, 1)
        },
    )
    .unwrap();
    // What is placed by hand counts when the next topic is placed.
    create(&mut image, new_topic("u", 6, 1)).unwrap();
    assert_eq!(
        image.topic_by_name("u").unwrap().partitions[0].leader,
        BrokerId(1000)
    );
}

#[test]
fn partitions_are_added_and_never_removed() {
    let mut image = serving(2);
    create(&mut image, new_topic("t", 5, 2)).unwrap();
    let mut grow = |total, assignments: Option<Vec<Vec<BrokerId>>>| {
        let topics = vec![NewPartitions {
            name: "t".into(),
            total,
            assignments,
        }];
        match image.apply(&Command::CreatePartitions { topics }) {
            Answer::PartitionsCreated(mut answers) => answers.remove(0),
            other => panic!("{other:?}"),
        }
    };
    assert!(matches!(grow(2, None), Err(ApplyError::InvalidPartitions(_))));
    assert!(matches!(grow(1, None), Err(ApplyError::InvalidPartitions(_))));
    assert!(matches!(
        grow(4, Some(vec![vec![BrokerId(1000)]])),
        Err(ApplyError::InvalidReplicaAssignment(_))
    ));
    grow(4, Some(vec![vec![BrokerId(1001)], vec![BrokerId(1001)]])).unwrap();
    grow(5, None).unwrap();
    let topic = image.topic_by_name("t").unwrap();
    assert_eq!(topic.partitions.len(), 5);
    assert_eq!(topic.partitions[4].leader, BrokerId(1000));
}

#[test]
fn a_restart_fences_and_raises_every_leader_epoch() {
    let mut image = serving(2);
    create(&mut image, new_topic("t", 5, 2)).unwrap();
    let stale = image.broker(BrokerId(1000)).unwrap().epoch;
    assert!(matches!(
        image.apply(&registration(8, 2)),
        Answer::Registered(Err(ApplyError::DuplicateNode { .. }))
    ));
    let Answer::Registered(Ok(epoch)) = image.apply(&registration(7, 2)) else {
        panic!()
    };
    assert!(epoch > stale && image.live_brokers().next().is_none());
    let topic = image.topic_by_name("t").unwrap();
    assert!(
        topic
            .partitions
            .iter()
            .all(|partition| partition.leader_epoch == LeaderEpoch(1))
    );
    image.apply(&Command::UnfenceBrokers {
        brokers: vec![(BrokerId(1000), stale), (BrokerId(1001), epoch)],
    });
    let live: Vec<i32> = image.live_brokers().map(|broker| broker.id.0).collect();
    assert_eq!(live, [1001], "an older registration unfences nobody");
}

#[test]
fn configurations_change_whole_or_not_at_all() {
    use ConfigOperation::{Append, Delete, Set, Subtract};
    let set = |value: &str| Set(value.to_owned());
    let mut image = serving(1);
    create(&mut image, new_topic("t", 5, 1)).unwrap();
    let topic = || ConfigResource::Topic("t".into());
    alter(
        &mut image,
        topic(),
        false,
        &[("retention.ms", set("5")), ("segment.ms", set("6"))],
    )
    .unwrap();
    let refused = alter(
        &mut image,
        topic(),
        false,
        &[("retention.ms", set("7")), ("nonsense", set("1"))],
    );
    assert!(matches!(refused, Err(ApplyError::InvalidConfig(_))));
    assert_eq!(image.topic_by_name("t").unwrap().configs["retention.ms"], "5");
    let inherited = || "delete".to_owned();
    let append = Append {
        items: "compact,delete".into(),
        inherited: inherited(),
    };
    alter(&mut image, topic(), false, &[("cleanup.policy", append)]).unwrap();
    assert_eq!(
        image.topic_by_name("t").unwrap().configs["cleanup.policy"],
        "delete,compact"
    );
    let subtract = Subtract {
        items: "delete".into(),
        inherited: inherited(),
    };
    alter(
        &mut image,
        topic(),
        false,
        &[("cleanup.policy", subtract), ("segment.ms", Delete)],
    )
    .unwrap();
    let configs = &image.topic_by_name("t").unwrap().configs;
    assert_eq!(
        (configs["cleanup.policy"].as_str(), configs.get("segment.ms")),
        ("compact", None)
    );
    let append = Append {
        items: "1".into(),
        inherited: String::new(),
    };
    assert!(
        alter(&mut image, topic(), false, &[("retention.ms", append)]).is_err(),
        "no list"
    );
    alter(&mut image, topic(), true, &[("segment.bytes", set("2000000"))]).unwrap();
    assert_eq!(
        image.topic_by_name("t").unwrap().configs.len(),
        1,
        "the legacy form replaces"
    );
    alter(
        &mut image,
        ConfigResource::ClusterDefault,
        false,
        &[("message.max.bytes", set("9"))],
    )
    .unwrap();
    alter(
        &mut image,
        ConfigResource::Broker(BrokerId(1000)),
        false,
        &[("message.max.bytes", set("8"))],
    )
    .unwrap();
    assert!(alter(&mut image, ConfigResource::Broker(BrokerId(2000)), false, &[]).is_err());
    assert_eq!(image.cluster_config()["message.max.bytes"], "9");
    assert_eq!(
        image.broker_config(BrokerId(1000)).unwrap()["message.max.bytes"],
        "8"
    );
}

#[test]
fn producer_ids_never_repeat() {
    let mut image = serving(2);
    let mut blocks = Vec::new();
    for broker in [1000, 1001, 1000] {
        match image.apply(&Command::AllocateProducerIds {
            broker: BrokerId(broker),
        }) {
            Answer::ProducerIds(Ok(block)) => blocks.push(block),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(blocks, [0..1000, 1000..2000, 2000..3000]);
    let unknown = Command::AllocateProducerIds { broker: BrokerId(9) };
    assert!(matches!(
        image.apply(&unknown),
        Answer::ProducerIds(Err(ApplyError::UnknownBroker(_)))
    ));
}

/// Commands over few names and ids, so that they meet; some are refused, which is part of it.
fn command() -> impl Strategy<Value = Command> {
    let name = prop::sample::select(vec!["a", "b", "a.b", "a_b", "c-d", "bad name"]);
    let topics = prop::collection::vec((name.clone(), 1_u128..12, 0_i32..6), 1..4).prop_map(|topics| {
        Command::CreateTopics {
            topics: topics
                .into_iter()
                .map(|(name, id, partitions)| new_topic(name, id, partitions))
                .collect(),
        }
    });
    let delete = prop_oneof![
        name.clone().prop_map(|name| TopicReference::Name(name.into())),
        (1_u128..12).prop_map(|id| TopicReference::Id(Uuid::from_u128(id))),
    ];
    let grow = (name.clone(), 1_i32..9).prop_map(|(name, total)| NewPartitions {
        name: name.into(),
        total,
        assignments: None,
    });
    let value = prop::sample::select(vec!["1", "-1", "x", "compact"]);
    let key = prop::sample::select(vec!["retention.ms", "cleanup.policy", "unknown"]);
    let alter = (name, key, value).prop_map(|(name, key, value)| ConfigChange {
        resource: ConfigResource::Topic(name.into()),
        replace: false,
        operations: vec![(key.into(), ConfigOperation::Set(value.into()))],
    });
    prop_oneof![
        4 => topics,
        2 => delete.prop_map(|topic| Command::DeleteTopics { topics: vec![topic] }),
        2 => grow.prop_map(|topic| Command::CreatePartitions { topics: vec![topic] }),
        2 => alter.prop_map(|change| Command::AlterConfigs { changes: vec![change] }),
        1 => (7_u128..9).prop_map(|directory| registration(directory, 3)),
        1 => (999_i32..1004).prop_map(|broker| Command::AllocateProducerIds { broker: BrokerId(broker) }),
    ]
}

proptest! {
    #[test]
    fn apply_is_deterministic_and_keeps_its_invariants(commands in prop::collection::vec(command(), 0..40)) {
        let mut image = serving(3);
        let mut other = image.clone();
        for command in &commands {
            let before = image.clone();
            prop_assert_eq!(image.check(command), other.apply(command));
            prop_assert_eq!(&image, &before, "a check changes nothing");
            // What was stored and read again does the same.
            let stored: Command = serde_json::from_str(&serde_json::to_string(command).unwrap()).unwrap();
            image.apply(&stored);
            prop_assert_eq!(&image, &other);
            invariants(&image);
        }
        let stored = serde_json::to_string(&Snapshot::from(&image)).unwrap();
        let restored: ClusterImage = serde_json::from_str::<Snapshot>(&stored).unwrap().into();
        prop_assert_eq!(restored, image);
    }
}

fn invariants(image: &ClusterImage) {
    let names: BTreeSet<&str> = image.topics().map(|topic| topic.name.as_str()).collect();
    assert_eq!(names.len(), image.topics().len(), "names are unique");
    assert_eq!(
        image.topics_by_name().count(),
        image.topics().len(),
        "every topic is found by name"
    );
    let flat: BTreeSet<String> = names.iter().map(|name| name.replace('.', "_")).collect();
    assert_eq!(flat.len(), names.len(), "no two names collide");
    for topic in image.topics() {
        assert_eq!(image.topic_by_name(&topic.name).unwrap().id, topic.id);
        assert!(!topic.partitions.is_empty());
        crate::config::validate_topic(&topic.configs).unwrap();
        for partition in &topic.partitions {
            assert_eq!(partition.replicas, [partition.leader]);
            assert!(image.broker(partition.leader).is_some() && partition.assigned_at <= image.offset());
        }
    }
}

#[test]
fn deleted_topics_are_remembered_and_the_oldest_forgotten() {
    let mut image = serving(1);
    let most = super::topics::DELETED_TOPICS_MAX as u128;
    for id in 1..=most + 1 {
        create(&mut image, new_topic("t", id, 1)).unwrap();
        let topics = vec![TopicReference::Name("t".into())];
        image.apply(&Command::DeleteTopics { topics });
    }
    let kept: Vec<u128> = image.deleted_topics().map(|id| id.as_u128()).collect();
    assert_eq!(kept, (2..=most + 1).collect::<Vec<_>>());
    let restored = ClusterImage::from(Snapshot::from(&image));
    assert_eq!(restored, image);
}
