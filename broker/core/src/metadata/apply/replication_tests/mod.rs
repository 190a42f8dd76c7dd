mod property;

use std::collections::BTreeMap;
use std::time::Duration;

use uuid::Uuid;

use super::super::command::*;
use super::super::ids::*;
use super::super::image::Partition;
use super::super::snapshot::Snapshot;
use super::super::{Answer, ApplyError, Balance, ClusterImage};
use crate::replica::AlteredPartition;

const T: Uuid = Uuid::from_u128(5);
const P: PartitionReference = PartitionReference {
    topic: T,
    partition: 0,
};

fn id(broker: i32) -> BrokerId {
    BrokerId(broker)
}

fn ids(brokers: &[i32]) -> Vec<BrokerId> {
    brokers.iter().copied().map(BrokerId).collect()
}

fn shard(shard: u32, directory: u128, damaged: &[PartitionReference]) -> ShardRegistration {
    ShardRegistration {
        shard,
        directory_id: Uuid::from_u128(directory),
        endpoints: Vec::new(),
        link: None,
        damaged: damaged.to_vec(),
    }
}

fn registration(node: i32, boot: &str, shards: Vec<ShardRegistration>) -> Command {
    Command::RegisterNode(NodeRegistration {
        node: NodeId(node),
        directory_id: Uuid::from_u128(node as u128),
        boot_id: boot.into(),
        rack: format!("node-{node}"),
        shards,
    })
}

/// Nodes 1 to `nodes` of two shards each, all serving, with replication.
fn cluster(nodes: i32) -> ClusterImage {
    let mut image = ClusterImage::default();
    image.apply(&Command::InitializeCluster {
        cluster_id: Uuid::from_u128(1),
    });
    image.apply(&Command::FinalizeMetadataVersion {
        version: MetadataVersion::REPLICATION,
    });
    for node in 1..=nodes {
        restart(&mut image, node, "boot", &[]);
    }
    image
}

fn register(image: &mut ClusterImage, command: &Command) {
    assert!(matches!(image.apply(command), Answer::Registered(Ok(_))));
}

fn restart(image: &mut ClusterImage, node: i32, boot: &str, damaged: &[PartitionReference]) {
    let shards = (0..2)
        .map(|number| shard(number, node as u128, damaged))
        .collect();
    register(image, &registration(node, boot, shards));
    unfence(image, &[node * 1000, node * 1000 + 1]);
}

fn named(image: &ClusterImage, brokers: &[i32]) -> Vec<(BrokerId, BrokerEpoch)> {
    let epoch = |broker: BrokerId| {
        image
            .broker(broker)
            .map_or(BrokerEpoch(-1), |broker| broker.epoch)
    };
    ids(brokers)
        .into_iter()
        .map(|broker| (broker, epoch(broker)))
        .collect()
}

fn unfence(image: &mut ClusterImage, brokers: &[i32]) {
    let brokers = named(image, brokers);
    image.apply(&Command::UnfenceBrokers { brokers });
}

fn fence(image: &mut ClusterImage, brokers: &[i32]) {
    let brokers = named(image, brokers);
    image.apply(&Command::FenceBrokers { brokers });
}

fn create(image: &mut ClusterImage, replicas: &[i32], configs: &[(&str, &str)]) {
    let pairs = configs
        .iter()
        .map(|(key, value)| ((*key).into(), (*value).into()));
    let topic = NewTopic {
        name: "t".into(),
        id: T,
        layout: PartitionLayout::Manual(vec![ids(replicas)]),
        configs: pairs.collect(),
    };
    match image.apply(&Command::CreateTopics { topics: vec![topic] }) {
        Answer::TopicsCreated(answers) => assert!(answers[0].is_ok(), "{answers:?}"),
        other => panic!("{other:?}"),
    }
}

fn state(image: &ClusterImage) -> (i32, Vec<i32>, Vec<i32>) {
    let partition = partition(image);
    let numbers = |brokers: &[BrokerId]| brokers.iter().map(|broker| broker.0).collect();
    (
        partition.leader.0,
        numbers(&partition.isr),
        numbers(&partition.elr),
    )
}

fn partition(image: &ClusterImage) -> &Partition {
    image.partition(T, 0).unwrap()
}

fn alter(image: &mut ClusterImage, leader: i32, isr: &[i32]) -> Result<AlteredPartition, ApplyError> {
    let known = partition(image);
    let change = IsrChange {
        partition: P,
        leader_epoch: known.leader_epoch,
        partition_epoch: known.partition_epoch,
        isr: named(image, isr),
    };
    alter_with(image, leader, change)
}

fn alter_with(
    image: &mut ClusterImage,
    leader: i32,
    change: IsrChange,
) -> Result<AlteredPartition, ApplyError> {
    let epoch = image.broker(id(leader)).unwrap().epoch;
    let command = Command::AlterPartitions {
        leader: id(leader),
        epoch,
        changes: vec![change],
    };
    match image.apply(&command) {
        Answer::PartitionsAltered(mut answers) => answers.remove(0),
        other => panic!("{other:?}"),
    }
}

fn elect(image: &mut ClusterImage, election: Election) -> Result<(), ApplyError> {
    match image.apply(&Command::ElectLeaders {
        election,
        partitions: vec![P],
    }) {
        Answer::LeadersElected(mut answers) => answers.remove(0),
        other => panic!("{other:?}"),
    }
}

fn reassign(image: &mut ClusterImage, replicas: Option<&[i32]>) -> Result<(), ApplyError> {
    let reassignment = Reassignment {
        partition: P,
        replicas: replicas.map(ids),
        allow_factor_change: true,
    };
    match image.apply(&Command::AlterReassignments {
        reassignments: vec![reassignment],
    }) {
        Answer::Reassigned(mut answers) => answers.remove(0),
        other => panic!("{other:?}"),
    }
}

#[test]
fn before_its_version_a_partition_has_one_replica() {
    let mut image = ClusterImage::default();
    image.apply(&Command::InitializeCluster {
        cluster_id: Uuid::from_u128(1),
    });
    for node in 1..=2 {
        restart(&mut image, node, "boot", &[]);
    }
    let layout = PartitionLayout::Manual(vec![ids(&[1000, 2000])]);
    let topic = NewTopic {
        name: "t".into(),
        id: T,
        layout,
        configs: BTreeMap::new(),
    };
    let answer = image.apply(&Command::CreateTopics {
        topics: vec![topic.clone()],
    });
    assert!(matches!(answer, Answer::TopicsCreated(answers) if answers[0].is_err()));
    create(&mut image, &[1000], &[]);
    restart(&mut image, 1, "boot", &[]);
    assert_eq!(
        state(&image),
        (1000, vec![1000], vec![]),
        "in office while it restarts"
    );
    assert_eq!(partition(&image).leader_epoch, LeaderEpoch(1));
    assert!(reassign(&mut image, Some(&[2000])).is_err());
    let finalize = |image: &mut ClusterImage, version| {
        let version = MetadataVersion(version);
        image.apply(&Command::FinalizeMetadataVersion { version })
    };
    assert_eq!(finalize(&mut image, 1), Answer::Whole(Ok(())));
    assert!(
        matches!(finalize(&mut image, 0), Answer::Whole(Err(_))),
        "never lowered"
    );
    assert!(
        matches!(finalize(&mut image, 2), Answer::Whole(Err(_))),
        "unknown here"
    );
    restart(&mut image, 1, "boot", &[]);
    assert_eq!(state(&image), (1000, vec![1000], vec![]));
    assert_eq!(
        partition(&image).leader_epoch,
        LeaderEpoch(3),
        "out of office and in again"
    );
}

#[test]
fn a_fenced_leader_is_followed_by_a_member_of_the_isr() {
    let mut image = cluster(3);
    create(&mut image, &[1000, 2000, 3000], &[("min.insync.replicas", "2")]);
    fence(&mut image, &[1000]);
    assert_eq!(state(&image), (2000, vec![2000, 3000], vec![]));
    assert_eq!(partition(&image).leader_epoch, LeaderEpoch(1));
    fence(&mut image, &[3000]);
    assert_eq!(
        state(&image),
        (2000, vec![2000], vec![3000]),
        "too few: it stays eligible"
    );
    assert_eq!(
        partition(&image).leader_epoch,
        LeaderEpoch(1),
        "a smaller ISR is no new leader"
    );
    fence(&mut image, &[2000]);
    assert_eq!(state(&image), (-1, vec![], vec![2000, 3000]));
    assert_eq!(partition(&image).last_known_leader, id(2000));
    unfence(&mut image, &[1000]);
    assert_eq!(
        state(&image),
        (-1, vec![], vec![2000, 3000]),
        "it left while the rest sufficed"
    );
    unfence(&mut image, &[3000]);
    assert_eq!(
        state(&image),
        (3000, vec![3000], vec![2000]),
        "one of the ELR leads"
    );
    assert_eq!(partition(&image).last_known_leader, BrokerId::NONE);
    unfence(&mut image, &[2000]);
    alter(&mut image, 3000, &[3000, 2000]).unwrap();
    assert_eq!(state(&image), (3000, vec![3000, 2000], vec![]), "enough again");
}

#[test]
fn an_old_epochs_fencing_fences_nobody() {
    let mut image = cluster(2);
    create(&mut image, &[1000, 2000], &[]);
    let brokers = vec![(id(1000), BrokerEpoch(1))];
    image.apply(&Command::FenceBrokers { brokers });
    assert_eq!(state(&image).0, 1000);
}

#[test]
fn leaderships_move_before_a_shard_stops() {
    let mut image = cluster(3);
    create(&mut image, &[1000, 2000, 3000], &[]);
    let brokers = named(&image, &[1000]);
    image.apply(&Command::StopBrokers { brokers });
    assert_eq!(state(&image), (2000, vec![2000, 3000], vec![]));
    assert!(matches!(
        alter(&mut image, 2000, &[1000, 2000, 3000]),
        Err(ApplyError::IneligibleReplica(BrokerId(1000)))
    ));
    restart(&mut image, 1, "boot", &[]);
    alter(&mut image, 2000, &[1000, 2000, 3000]).unwrap();
    elect(&mut image, Election::Preferred).unwrap();
    assert_eq!(state(&image).0, 1000);
}

#[test]
fn a_change_of_the_isr_is_checked() {
    let mut image = cluster(3);
    create(&mut image, &[1000, 2000, 3000], &[]);
    let altered = alter(&mut image, 1000, &[1000, 2000]).unwrap();
    assert_eq!(
        (altered.partition_epoch, altered.isr),
        (PartitionEpoch(1), ids(&[1000, 2000]))
    );
    assert_eq!(altered.leader_epoch, LeaderEpoch(0));
    assert_eq!(altered.min_insync_replicas, 1);
    let good = IsrChange {
        partition: P,
        leader_epoch: LeaderEpoch(0),
        partition_epoch: PartitionEpoch(1),
        isr: named(&image, &[1000]),
    };
    let mut refused = |leader, change: IsrChange| alter_with(&mut image, leader, change).unwrap_err();
    let epochs = |leader, partition| IsrChange {
        leader_epoch: LeaderEpoch(leader),
        partition_epoch: PartitionEpoch(partition),
        ..good.clone()
    };
    assert_eq!(refused(1000, epochs(1, 1)), ApplyError::NotController(1));
    assert_eq!(refused(1000, epochs(0, 2)), ApplyError::NotController(2));
    assert_eq!(
        refused(1000, epochs(-1, 1)),
        ApplyError::FencedLeaderEpoch(LeaderEpoch(0))
    );
    assert_eq!(
        refused(1000, epochs(0, 0)),
        ApplyError::InvalidUpdateVersion(PartitionEpoch(1))
    );
    assert!(matches!(
        refused(2000, good.clone()),
        ApplyError::InvalidRequest(_)
    ));
    let members = |isr: Vec<(BrokerId, BrokerEpoch)>| IsrChange { isr, ..good.clone() };
    let own = good.isr[0];
    assert!(matches!(
        refused(1000, members(vec![])),
        ApplyError::InvalidRequest(_)
    ));
    assert!(matches!(
        refused(1000, members(vec![own, own])),
        ApplyError::InvalidRequest(_)
    ));
    assert!(matches!(
        refused(1000, members(vec![own, (id(1001), own.1)])),
        ApplyError::InvalidRequest(_)
    ));
    assert!(matches!(
        refused(1000, members(vec![own, (id(3000), BrokerEpoch(1))])),
        ApplyError::IneligibleReplica(BrokerId(3000))
    ));
    let elsewhere = |topic, partition| IsrChange {
        partition: PartitionReference { topic, partition },
        ..good.clone()
    };
    assert!(matches!(
        refused(1000, elsewhere(T, 1)),
        ApplyError::UnknownPartition { .. }
    ));
    assert!(matches!(
        refused(1000, elsewhere(Uuid::from_u128(9), 0)),
        ApplyError::UnknownTopicId(_)
    ));
    let stale = Command::AlterPartitions {
        leader: id(1000),
        epoch: BrokerEpoch(1),
        changes: vec![good.clone()],
    };
    let answer = image.apply(&stale);
    assert!(matches!(
        answer,
        Answer::PartitionsAltered(answers) if matches!(answers[0], Err(ApplyError::StaleBrokerEpoch { .. }))
    ));
    assert_eq!(
        state(&image),
        (1000, vec![1000, 2000], vec![]),
        "none of it changed anything"
    );
}

#[test]
fn a_restart_supersedes_the_previous_incarnation() {
    let mut image = cluster(3);
    create(&mut image, &[1000, 2000, 3000], &[("min.insync.replicas", "2")]);
    let before = image.broker(id(1000)).unwrap().epoch;
    let shards = (0..2).map(|number| shard(number, 1, &[])).collect();
    register(&mut image, &registration(1, "boot", shards));
    assert_eq!(state(&image), (2000, vec![2000, 3000], vec![]), "fenced at once");
    assert!(image.broker(id(1000)).unwrap().epoch > before);
    unfence(&mut image, &[1000]);
    let stale = IsrChange {
        partition: P,
        leader_epoch: partition(&image).leader_epoch,
        partition_epoch: partition(&image).partition_epoch,
        isr: vec![
            (id(2000), image.broker(id(2000)).unwrap().epoch),
            (id(1000), before),
        ],
    };
    assert!(matches!(
        alter_with(&mut image, 2000, stale),
        Err(ApplyError::IneligibleReplica(BrokerId(1000)))
    ));
}

#[test]
fn one_shard_registers_alone() {
    let mut image = cluster(1);
    create(&mut image, &[1000, 1001], &[]);
    let other = image.broker(id(1001)).unwrap().epoch;
    let register_shard = |directory| Command::RegisterShard {
        node: NodeId(1),
        directory_id: Uuid::from_u128(directory),
        shard: shard(0, 1, &[]),
    };
    assert!(matches!(
        image.apply(&register_shard(2)),
        Answer::Registered(Err(ApplyError::DuplicateNode { .. }))
    ));
    register(&mut image, &register_shard(1));
    assert_eq!(state(&image), (1001, vec![1001], vec![]));
    assert_eq!(image.broker(id(1001)).unwrap().epoch, other);
    assert!(image.broker(id(1000)).unwrap().fenced);
}

#[test]
fn who_lost_bytes_loses_its_standing_except_the_last() {
    // Damage: another leads.
    let mut image = cluster(3);
    create(&mut image, &[1000, 2000, 3000], &[("min.insync.replicas", "3")]);
    restart(&mut image, 1, "boot", &[P]);
    assert_eq!(
        state(&image),
        (2000, vec![2000, 3000], vec![]),
        "neither in sync nor eligible"
    );
    assert_eq!(partition(&image).lossy_epoch, None);
    fence(&mut image, &[3000]);
    restart(&mut image, 2, "boot", &[P]);
    assert_eq!(state(&image), (-1, vec![], vec![3000]), "the fenced one is whole");
    restart(&mut image, 3, "boot", &[P]);
    assert_eq!(
        state(&image),
        (3000, vec![3000], vec![]),
        "the last one leads with what it has"
    );
    let lossy = partition(&image).lossy_epoch.unwrap();
    assert!(lossy < partition(&image).leader_epoch && lossy > LeaderEpoch(1));

    // A relaxed topic and another boot; durable ones keep their standing.
    for (messages, elr) in [("1", vec![2000]), ("10", vec![])] {
        let mut image = cluster(2);
        create(
            &mut image,
            &[1000, 2000],
            &[("min.insync.replicas", "2"), ("flush.messages", messages)],
        );
        let shards = (0..2).map(|number| shard(number, 2, &[])).collect();
        register(&mut image, &registration(2, "next boot", shards));
        assert_eq!(state(&image), (1000, vec![1000], elr));
    }

    // A new directory has nothing: not even the last member leads.
    let mut image = cluster(1);
    create(&mut image, &[1000], &[]);
    register(
        &mut image,
        &registration(1, "boot", vec![shard(0, 77, &[]), shard(1, 1, &[])]),
    );
    unfence(&mut image, &[1000]);
    assert_eq!(state(&image), (-1, vec![], vec![]));
    assert_eq!(elect(&mut image, Election::Unclean), Ok(()));
    assert_eq!(state(&image).0, 1000, "by an operator's word alone");
    assert_eq!(
        partition(&image).lossy_epoch,
        Some(partition(&image).leader_epoch)
    );
}

#[test]
fn a_power_cut_of_everything_takes_no_durable_partition_offline() {
    let mut image = cluster(3);
    create(&mut image, &[1000, 2000, 3000], &[("min.insync.replicas", "2")]);
    for node in 1..=3 {
        let shards = (0..2).map(|number| shard(number, node as u128, &[])).collect();
        register(&mut image, &registration(node, "next boot", shards));
    }
    assert_eq!(
        state(&image),
        (-1, vec![], vec![2000, 3000]),
        "those that were in sync last"
    );
    unfence(&mut image, &[3000]);
    assert_eq!(state(&image).0, 3000);
}

#[test]
fn a_damaged_replica_gives_way_while_it_lives() {
    let mut image = cluster(2);
    create(&mut image, &[1000, 2000], &[]);
    let report = |image: &ClusterImage, broker| Command::ReplicasDamaged {
        broker: id(broker),
        epoch: image.broker(id(broker)).unwrap().epoch,
        replicas: vec![P],
    };
    let command = report(&image, 1000);
    assert_eq!(image.apply(&command), Answer::Whole(Ok(())));
    assert_eq!(state(&image), (2000, vec![2000], vec![]));
    let command = report(&image, 2000);
    image.apply(&command);
    assert_eq!(state(&image), (2000, vec![2000], vec![]), "the last one stays");
    assert_eq!(partition(&image).leader_epoch, LeaderEpoch(2), "in a new epoch");
    let stale = Command::ReplicasDamaged {
        broker: id(1000),
        epoch: BrokerEpoch(1),
        replicas: vec![P],
    };
    assert!(matches!(
        image.apply(&stale),
        Answer::Whole(Err(ApplyError::StaleBrokerEpoch { .. }))
    ));
}

#[test]
fn unclean_elections_are_off_unless_somebody_wants_them() {
    let mut image = cluster(2);
    create(&mut image, &[1000, 2000], &[]);
    fence(&mut image, &[2000]);
    fence(&mut image, &[1000]);
    unfence(&mut image, &[2000]);
    assert_eq!(state(&image), (-1, vec![], vec![1000]));
    let configs = Command::AlterConfigs {
        changes: vec![ConfigChange {
            resource: ConfigResource::Topic("t".into()),
            replace: false,
            operations: vec![(
                "unclean.leader.election.enable".into(),
                ConfigOperation::Set("true".into()),
            )],
        }],
    };
    image.apply(&configs);
    assert_eq!(state(&image), (2000, vec![2000], vec![]));
    assert_eq!(
        partition(&image).lossy_epoch,
        Some(partition(&image).leader_epoch)
    );
    assert_eq!(
        elect(&mut image, Election::Unclean),
        Err(ApplyError::ElectionNotNeeded)
    );
}

#[test]
fn another_minimum_is_another_elr_in_the_same_record() {
    let mut image = cluster(3);
    create(&mut image, &[1000, 2000, 3000], &[("min.insync.replicas", "2")]);
    fence(&mut image, &[2000, 3000]);
    assert_eq!(state(&image), (1000, vec![1000], vec![2000, 3000]));
    image.apply(&Command::AlterConfigs {
        changes: vec![ConfigChange {
            resource: ConfigResource::Topic("t".into()),
            replace: false,
            operations: vec![("min.insync.replicas".into(), ConfigOperation::Set("1".into()))],
        }],
    });
    assert_eq!(
        state(&image),
        (1000, vec![1000], vec![]),
        "the leader alone acknowledges now"
    );
}

#[test]
fn the_preferred_leader_comes_back_when_it_is_in_sync() {
    let mut image = cluster(3);
    create(&mut image, &[1000, 2000, 3000], &[]);
    assert_eq!(
        elect(&mut image, Election::Preferred),
        Err(ApplyError::ElectionNotNeeded)
    );
    fence(&mut image, &[1000]);
    unfence(&mut image, &[1000]);
    assert_eq!(state(&image).0, 2000);
    assert_eq!(
        elect(&mut image, Election::Preferred),
        Err(ApplyError::PreferredLeaderNotAvailable(id(1000)))
    );
    assert_eq!(image.imbalanced_partitions(10), [], "it could not lead");
    alter(&mut image, 2000, &[1000, 2000, 3000]).unwrap();
    assert_eq!(image.imbalanced_partitions(10), [P]);
    assert_eq!(image.imbalanced_partitions(0), []);
    assert_eq!(Balance::new(None, 0).turn(&image, i64::MAX - 1), None);
    let mut balance = Balance::new(Some(Duration::from_millis(300)), 1000);
    assert_eq!(balance.turn(&image, 1299), None);
    let command = balance.turn(&image, 1300).unwrap();
    assert_eq!(balance.turn(&image, 1301), None, "an interval between two looks");
    balance.begin(1500);
    assert_eq!(
        balance.turn(&image, 1799),
        None,
        "and after an election of the quorum's leader"
    );
    assert_eq!(image.apply(&command), Answer::LeadersElected(vec![Ok(())]));
    assert_eq!(state(&image).0, 1000);
    assert_eq!(image.imbalanced_partitions(10), []);
    assert_eq!(balance.turn(&image, 1800), None);
}

#[test]
fn a_move_adds_catches_up_and_drops() {
    let mut image = cluster(3);
    create(&mut image, &[1000, 2000], &[("min.insync.replicas", "2")]);
    reassign(&mut image, Some(&[3000, 2000])).unwrap();
    let moving = partition(&image);
    assert_eq!(moving.replicas, ids(&[3000, 2000, 1000]));
    assert_eq!((&moving.adding, &moving.removing), (&ids(&[3000]), &ids(&[1000])));
    assert_eq!(moving.assigned_at(id(3000)), image.offset());
    assert!(moving.assigned_at(id(1000)) < image.offset());
    assert_eq!(state(&image).0, 1000);
    let epoch = partition(&image).leader_epoch;
    assert_eq!(
        alter(&mut image, 1000, &[1000, 2000, 3000]),
        Err(ApplyError::NewLeaderElected(id(3000))),
        "complete: the old leader is dropped"
    );
    assert_eq!(state(&image), (3000, vec![2000, 3000], vec![]));
    let moved = partition(&image);
    assert_eq!(moved.replicas, ids(&[3000, 2000]));
    assert!(!moved.is_reassigning() && moved.leader_epoch > epoch);
}

#[test]
fn a_move_is_taken_back_or_changed() {
    let mut image = cluster(3);
    create(&mut image, &[1000, 2000], &[]);
    assert_eq!(
        reassign(&mut image, None),
        Err(ApplyError::NoReassignmentInProgress)
    );
    reassign(&mut image, Some(&[3000])).unwrap();
    reassign(&mut image, None).unwrap();
    assert_eq!(partition(&image).replicas, ids(&[1000, 2000]));
    assert!(!partition(&image).is_reassigning());
    reassign(&mut image, Some(&[3000, 2000])).unwrap();
    reassign(&mut image, Some(&[2001, 2000])).unwrap();
    assert_eq!(partition(&image).replicas, ids(&[2001, 2000, 1000]));
    assert_eq!(partition(&image).adding, ids(&[2001]));
    // Merely another order is done at once.
    reassign(&mut image, None).unwrap();
    reassign(&mut image, Some(&[2000, 1000])).unwrap();
    assert_eq!(partition(&image).replicas, ids(&[2000, 1000]));
    assert!(!partition(&image).is_reassigning());
    for wrong in [&[][..], &[1000, 1000], &[9000]] {
        assert!(matches!(
            reassign(&mut image, Some(wrong)),
            Err(ApplyError::InvalidReplicaAssignment(_))
        ));
    }
    // Only the newcomer holds all that was acknowledged: there is no way back.
    reassign(&mut image, Some(&[3000, 1000])).unwrap();
    let leader = state(&image).0;
    alter(&mut image, leader, &[leader]).unwrap();
    assert!(reassign(&mut image, None).is_ok());
}

#[test]
fn a_newcomer_that_alone_has_all_is_not_dropped() {
    let mut image = cluster(4);
    create(&mut image, &[1000], &[]);
    reassign(&mut image, Some(&[2000, 3000])).unwrap();
    alter(&mut image, 1000, &[1000, 2000]).unwrap();
    fence(&mut image, &[1000]);
    assert_eq!(state(&image), (2000, vec![2000], vec![]));
    assert!(matches!(
        reassign(&mut image, None),
        Err(ApplyError::InvalidReplicaAssignment(_))
    ));
    assert!(matches!(
        reassign(&mut image, Some(&[4000])),
        Err(ApplyError::InvalidReplicaAssignment(_))
    ));
    assert_eq!(state(&image), (2000, vec![2000], vec![]));
}

#[test]
fn a_lost_node_is_removed_before_another_takes_its_place() {
    let mut image = cluster(3);
    create(&mut image, &[1000, 2000, 3000], &[("min.insync.replicas", "3")]);
    let unregister = Command::UnregisterNode { node: NodeId(1) };
    assert!(matches!(
        image.apply(&unregister),
        Answer::Whole(Err(ApplyError::InvalidRequest(_)))
    ));
    fence(&mut image, &[1000, 1001]);
    assert_eq!(state(&image), (2000, vec![2000, 3000], vec![1000]));
    assert_eq!(image.apply(&unregister), Answer::Whole(Ok(())));
    assert_eq!(
        state(&image),
        (2000, vec![2000, 3000], vec![]),
        "what it had is gone"
    );
    assert!(image.node(NodeId(1)).is_none());
    let shards = vec![shard(0, 9, &[])];
    let anew = Command::RegisterNode(NodeRegistration {
        node: NodeId(1),
        directory_id: Uuid::from_u128(9),
        boot_id: "boot".into(),
        rack: "node-1".into(),
        shards,
    });
    register(&mut image, &anew);
}

#[test]
fn records_of_earlier_versions_are_read() {
    let stored = r#"{"offset":3,"cluster_id":null,"nodes":[],"brokers":[{"id":1000,"epoch":2,"rack":"r","endpoints":[],
        "directory_id":"00000000-0000-0000-0000-000000000001","fenced":false}],"topics":[{"id":
        "00000000-0000-0000-0000-000000000005","name":"t","configs":{},"partitions":[{"leader":1000,"leader_epoch":4,
        "partition_epoch":6,"replicas":[1000],"isr":[1000],"assigned_at":2}]}],"broker_configs":{},
        "cluster_config":{},"next_producer_id":0}"#;
    let image: ClusterImage = serde_json::from_str::<Snapshot>(stored).unwrap().into();
    assert_eq!(image.metadata_version(), MetadataVersion::ONE_REPLICA);
    let partition = partition(&image);
    assert_eq!(
        (partition.leader, partition.last_known_leader),
        (id(1000), BrokerId::NONE)
    );
    assert!(partition.elr.is_empty() && partition.lossy_epoch.is_none() && partition.added_at.is_empty());
    assert_eq!(partition.assigned_at(id(1000)), MetadataOffset(2));
    let stored = r#"{"register_node":{"node":1,"directory_id":"00000000-0000-0000-0000-000000000001","boot_id":"b",
        "rack":"r","shards":[{"shard":0,"directory_id":"00000000-0000-0000-0000-000000000001","endpoints":[]}]}}"#;
    let Command::RegisterNode(node) = serde_json::from_str(stored).unwrap() else {
        panic!("another command")
    };
    assert!(node.shards[0].damaged.is_empty() && node.shards[0].link.is_none());
}
