//! Random commands, as operators, shards and leaders give them.

use proptest::prelude::*;
use uuid::Uuid;

use super::{P, T, cluster, create, id, ids, named, partition, registration, shard};
use crate::metadata::*;
use crate::replica::suffices;

#[derive(Clone, Debug)]
enum Step {
    Restart(i32, bool, bool),
    Fence(i32),
    Unfence(i32),
    Stop(i32),
    Shard(i32),
    Isr(u8),
    Elect(Election),
    Reassign(Option<Vec<i32>>),
    Minimum(u8),
    Unclean(bool),
    Damage(i32),
    Lost(i32),
}

fn step() -> impl Strategy<Value = Step> {
    let broker = || prop::sample::select(vec![1000, 1001, 2000, 2001, 3000, 3001]);
    let target = prop::sample::subsequence(vec![3000, 1000, 2000, 1001, 3001], 1..4);
    prop_oneof![
        2 => (1..4, any::<bool>(), any::<bool>()).prop_map(|(node, boot, damage)| Step::Restart(node, boot, damage)),
        4 => broker().prop_map(Step::Fence),
        6 => broker().prop_map(Step::Unfence),
        1 => broker().prop_map(Step::Stop),
        1 => broker().prop_map(Step::Shard),
        6 => any::<u8>().prop_map(Step::Isr),
        1 => prop::sample::select(vec![Election::Preferred, Election::Unclean]).prop_map(Step::Elect),
        2 => prop::option::weighted(0.7, target).prop_map(Step::Reassign),
        1 => (1_u8..4).prop_map(Step::Minimum),
        1 => prop::bool::weighted(0.1).prop_map(Step::Unclean),
        1 => broker().prop_map(Step::Damage),
        1 => (1..4).prop_map(Step::Lost),
    ]
}

fn command(image: &ClusterImage, step: &Step) -> Command {
    let shards = |node: i32, damaged: &[PartitionReference]| {
        (0..2)
            .map(|number| shard(number, node as u128, damaged))
            .collect()
    };
    let config = |key: &str, value: String| Command::AlterConfigs {
        changes: vec![ConfigChange {
            resource: ConfigResource::Topic("t".into()),
            replace: false,
            operations: vec![(key.into(), ConfigOperation::Set(value))],
        }],
    };
    match step {
        Step::Restart(node, boots, damage) => {
            let damaged: &[PartitionReference] = if *damage { &[P] } else { &[] };
            registration(
                *node,
                if *boots { "again" } else { "boot" },
                shards(*node, damaged),
            )
        }
        Step::Fence(broker) => Command::FenceBrokers {
            brokers: named(image, &[*broker]),
        },
        Step::Unfence(broker) => Command::UnfenceBrokers {
            brokers: named(image, &[*broker]),
        },
        Step::Stop(broker) => Command::StopBrokers {
            brokers: named(image, &[*broker]),
        },
        Step::Shard(broker) => Command::RegisterShard {
            node: id(*broker).node(),
            directory_id: Uuid::from_u128(id(*broker).node().0 as u128),
            shard: shard(id(*broker).shard(), id(*broker).node().0 as u128, &[]),
        },
        Step::Isr(mask) => {
            let known = partition(image);
            let chosen = (0..).zip(&known.replicas);
            let chosen = chosen.filter(|(at, broker)| mask >> at & 1 == 1 || **broker == known.leader);
            let isr: Vec<i32> = chosen.map(|(_, broker)| broker.0).collect();
            let leader = if mask & 128 == 0 {
                known.leader
            } else {
                known.replicas[0]
            };
            Command::AlterPartitions {
                leader,
                epoch: image
                    .broker(leader)
                    .map_or(BrokerEpoch(-1), |broker| broker.epoch),
                changes: vec![IsrChange {
                    partition: P,
                    leader_epoch: known.leader_epoch,
                    partition_epoch: PartitionEpoch(known.partition_epoch.0 - i32::from(mask & 64 == 64)),
                    isr: named(image, &isr),
                }],
            }
        }
        Step::Elect(election) => Command::ElectLeaders {
            election: *election,
            partitions: vec![P],
        },
        Step::Reassign(target) => Command::AlterReassignments {
            reassignments: vec![Reassignment {
                partition: P,
                replicas: target.as_deref().map(ids),
                allow_factor_change: true,
            }],
        },
        Step::Minimum(minimum) => config("min.insync.replicas", minimum.to_string()),
        Step::Unclean(allowed) => config("unclean.leader.election.enable", allowed.to_string()),
        Step::Damage(broker) => Command::ReplicasDamaged {
            broker: id(*broker),
            epoch: image
                .broker(id(*broker))
                .map_or(BrokerEpoch(-1), |broker| broker.epoch),
            replicas: vec![P],
        },
        Step::Lost(node) => Command::UnregisterNode { node: NodeId(*node) },
    }
}

fn check(image: &ClusterImage) {
    let partition = partition(image);
    let active = |broker: &BrokerId| image.broker(*broker).is_some_and(|broker| broker.is_active());
    let topic = image.topic(T).unwrap();
    assert_eq!(partition.leader == BrokerId::NONE, partition.isr.is_empty());
    if partition.leader != BrokerId::NONE {
        assert!(
            partition.isr.contains(&partition.leader),
            "the leader is in sync: {partition:?}"
        );
        assert_eq!(partition.last_known_leader, BrokerId::NONE);
    }
    assert!(
        partition.isr.iter().all(active),
        "who is in sync serves: {partition:?}"
    );
    for member in partition.isr.iter().chain(&partition.elr) {
        assert!(partition.replicas.contains(member));
    }
    assert!(partition.elr.iter().all(|member| !partition.isr.contains(member)));
    let minimum = image.min_insync_replicas(topic);
    if suffices(&partition.isr, &partition.replicas, &partition.adding, minimum) {
        assert!(
            partition.elr.is_empty(),
            "an ISR that suffices empties the ELR: {partition:?}"
        );
    }
    let distinct: std::collections::BTreeSet<_> = partition.replicas.iter().collect();
    assert_eq!(distinct.len(), partition.replicas.len());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn elections_stay_within_isr_and_elr_and_epochs_only_rise(steps in prop::collection::vec(step(), 0..60)) {
        let mut image = cluster(3);
        create(&mut image, &[1000, 2000, 3000], &[("min.insync.replicas", "2")]);
        for step in &steps {
            let before = partition(&image).clone();
            let unclean = image
                .topic(T)
                .is_some_and(|topic| topic.configs.get("unclean.leader.election.enable").is_some_and(|on| on == "true"))
                || matches!(step, Step::Elect(Election::Unclean) | Step::Unclean(true));
            let command = command(&image, step);
            let stored: Command = serde_json::from_str(&serde_json::to_string(&command).unwrap()).unwrap();
            image.apply(&stored);
            check(&image);
            let after = partition(&image);
            prop_assert!(after.leader_epoch >= before.leader_epoch);
            prop_assert_eq!(after.partition_epoch > before.partition_epoch, *after != before, "{:?}", after);
            if after.leader != before.leader && after.leader != BrokerId::NONE && !unclean {
                let stood = before.isr.contains(&after.leader)
                    || (after.isr == [after.leader] && before.elr.contains(&after.leader))
                    || (matches!(step, Step::Isr(_)) && after.isr.contains(&after.leader));
                prop_assert!(stood, "{:?}: {:?} -> {:?}", step, before, after);
                let dropped = matches!(step, Step::Damage(_) | Step::Restart(_, _, true) | Step::Reassign(_));
                if !before.isr.contains(&after.leader) && !matches!(step, Step::Isr(_)) && !dropped {
                    prop_assert!(before.isr.iter().all(|member| !image.is_active(*member)), "the ISR comes first");
                }
            }
            if after.leader != before.leader {
                prop_assert!(after.leader_epoch > before.leader_epoch);
            }
            let restored: ClusterImage = serde_json::from_str::<Snapshot>(
                &serde_json::to_string(&Snapshot::from(&image)).unwrap(),
            )
            .unwrap()
            .into();
            prop_assert_eq!(&restored, &image);
        }
    }
}
