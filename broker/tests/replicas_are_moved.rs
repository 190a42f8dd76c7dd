//! Moves of partitions and elections, asked for by a client of the shards of one process, on virtual time: the new replicas catch up,
//! the old ones are deleted, and nothing that was acknowledged is lost.

#![allow(clippy::unwrap_used)]

#[path = "support/replicated.rs"]
mod replicated;
#[path = "support/simulated.rs"]
mod simulated;
mod support;

use std::path::{Path, PathBuf};
use std::time::Duration;

use kafka_protocol::messages::alter_partition_reassignments_request::{
    ReassignablePartition, ReassignableTopic,
};
use kafka_protocol::messages::elect_leaders_request::TopicPartitions;
use kafka_protocol::messages::list_partition_reassignments_response::OngoingPartitionReassignment;
use kafka_protocol::messages::{
    AlterPartitionReassignmentsRequest, ElectLeadersRequest, ListPartitionReassignmentsRequest,
};
use replicated::{Cluster, cluster_on};
use strandline::control::client::ShardOrder;
use strandline_core::metadata::BrokerId;
use strandline_runtime::Runtime;
use strandline_runtime::sim::Simulation;
use strandline_storage::disk::{Disk, SimDisk, SimDiskOptions};

const TOPIC: &str = "t";
const SHARDS: u32 = 4;
/// Longer than `file.delete.delay.ms`, in virtual time.
const PATIENCE: Duration = Duration::from_secs(120);
const LOOK: Duration = Duration::from_millis(200);
const PREFERRED_LEADER_NOT_AVAILABLE: i16 = 80;
const ELECTION_NOT_NEEDED: i16 = 84;
const NO_REASSIGNMENT_IN_PROGRESS: i16 = 85;

fn with_four_shards<F: Future<Output = ()>>(seed: u64, test: impl FnOnce(Cluster) -> F + 'static) {
    with_four_shards_of(seed, &[], test);
}

fn with_four_shards_of<F: Future<Output = ()>>(
    seed: u64,
    more: &[(&str, &str)],
    test: impl FnOnce(Cluster) -> F + 'static,
) {
    let simulation = Simulation::new(seed);
    let runtime = simulation.runtime("node");
    let disk = SimDisk::new(runtime.clone(), SimDiskOptions::default());
    let mut settings = vec![
        ("listeners", "PLAINTEXT://0.0.0.0:9092"),
        ("strandline.memory.bytes", "268435456"),
        ("replica.lag.time.max.ms", "2000"),
    ];
    settings.extend(more);
    let config = simulated::config_of(SHARDS, &settings);
    simulation.run_until(async move {
        let cluster = cluster_on(&runtime, &disk, config).await;
        test(cluster).await;
    });
}

/// The shards that hold no replica of the topic's only partition.
fn others(cluster: &Cluster) -> Vec<BrokerId> {
    let held = cluster.partition(TOPIC, 0).replicas;
    let all = (1000..1000 + SHARDS as i32).map(BrokerId);
    all.filter(|broker| !held.contains(broker)).collect()
}

/// Asks for a move, or takes it back; the code of the only partition. Waits for no shard.
async fn reassign(cluster: &mut Cluster, asked: BrokerId, replicas: Option<&[BrokerId]>) -> i16 {
    let ids = |replicas: &[BrokerId]| {
        let ids = replicas.iter().map(|id| kafka_protocol::messages::BrokerId(id.0));
        ids.collect::<Vec<_>>()
    };
    let partition = ReassignablePartition::default().with_replicas(replicas.map(ids));
    let topic = ReassignableTopic::default()
        .with_name(simulated::name(TOPIC))
        .with_partitions(vec![partition]);
    let request = AlterPartitionReassignmentsRequest::default()
        .with_topics(vec![topic])
        .with_timeout_ms(0);
    let answer = cluster.ask(asked, 1, &request).await.unwrap();
    assert_eq!(answer.error_code, 0);
    answer.responses[0].partitions[0].error_code
}

async fn moves(cluster: &mut Cluster, asked: BrokerId) -> Vec<OngoingPartitionReassignment> {
    let request = ListPartitionReassignmentsRequest::default().with_topics(None);
    let answer = cluster.ask(asked, 0, &request).await.unwrap();
    assert_eq!(answer.error_code, 0);
    answer
        .topics
        .into_iter()
        .flat_map(|topic| topic.partitions)
        .collect()
}

/// Asks for leaders of everything, or of the only partition; the codes in the answer.
async fn elect(cluster: &mut Cluster, asked: BrokerId, kind: i8, named: bool) -> Vec<i16> {
    let topic = TopicPartitions::default()
        .with_topic(simulated::name(TOPIC))
        .with_partitions(vec![0]);
    let request = ElectLeadersRequest::default()
        .with_election_type(kind)
        .with_topic_partitions(named.then(|| vec![topic]));
    let answer = cluster.ask(asked, 2, &request).await.unwrap();
    assert_eq!(answer.error_code, 0);
    let results = answer.replica_election_results.into_iter();
    let results = results.flat_map(|topic| topic.partition_result);
    results.map(|result| result.error_code).collect()
}

/// How many logs of the topic lie in this folder of the shard.
async fn logs(cluster: &Cluster, broker: BrokerId, folder: &str) -> usize {
    let path: PathBuf = Path::new("/data")
        .join(format!("shard-{}", broker.shard()))
        .join(folder);
    if !cluster.disk.exists(&path).await.unwrap() {
        return 0;
    }
    let id = cluster.image().topic_by_name(TOPIC).unwrap().id.to_string();
    let entries = cluster.disk.list(&path).await.unwrap();
    let of_topic = entries
        .iter()
        .filter(|entry| entry.name.to_string().starts_with(&id));
    of_topic.count()
}

async fn until_logs(cluster: &Cluster, broker: BrokerId, count: usize) {
    let end = cluster.runtime.now() + PATIENCE;
    while logs(cluster, broker, "logs").await != count {
        assert!(cluster.runtime.now() < end, "{broker} never has {count} logs");
        cluster.runtime.sleep(LOOK).await;
    }
}

/// Waits until the disk holds logs of the topic where its replicas are, and nowhere else.
async fn until_only_replicas_hold_logs(cluster: &Cluster) {
    let end = cluster.runtime.now() + PATIENCE;
    let held = cluster.partition(TOPIC, 0).replicas;
    loop {
        let mut found = Vec::new();
        for broker in (1000..1000 + SHARDS as i32).map(BrokerId) {
            assert_eq!(
                logs(cluster, broker, "stray").await,
                0,
                "{broker} set a log aside"
            );
            if logs(cluster, broker, "logs").await > 0 {
                found.push(broker);
            }
        }
        if found.len() == held.len() && found.iter().all(|broker| held.contains(broker)) {
            return;
        }
        assert!(
            cluster.runtime.now() < end,
            "replicas {held:?}, logs at {found:?}"
        );
        cluster.runtime.sleep(LOOK).await;
    }
}

async fn until_moved(cluster: &Cluster, replicas: &[BrokerId]) {
    cluster
        .until("moved", |image| {
            let partition = &image.topic_by_name(TOPIC).unwrap().partitions[0];
            partition.replicas == replicas && !partition.is_reassigning()
        })
        .await;
}

#[test]
fn a_partition_moves_to_other_shards_while_it_is_written() {
    for seed in 1..=2 {
        with_four_shards(seed, |mut cluster| async move {
            cluster.create(TOPIC, 2, &[("min.insync.replicas", "2")]).await;
            let before = cluster.partition(TOPIC, 0);
            let target = others(&cluster);
            let asked = before.replicas[0];
            let mut written = Vec::new();
            let write = async |cluster: &mut Cluster, written: &mut Vec<String>| {
                let value = format!("v{}", written.len());
                cluster.produce(TOPIC, &value).await;
                written.push(value);
            };
            fill(&mut cluster, &mut written).await;
            // One that hangs keeps the move from its end.
            cluster.order(target[1], ShardOrder::Pause);
            assert_eq!(reassign(&mut cluster, asked, Some(&target)).await, 0);
            for _ in 0..10 {
                write(&mut cluster, &mut written).await;
            }
            let under_way = moves(&mut cluster, asked).await;
            let ids = |brokers: &[BrokerId]| {
                let ids = brokers.iter().map(|id| kafka_protocol::messages::BrokerId(id.0));
                ids.collect::<Vec<_>>()
            };
            assert_eq!(under_way.len(), 1);
            assert_eq!(under_way[0].adding_replicas, ids(&target));
            assert_eq!(under_way[0].removing_replicas, ids(&before.replicas));
            assert_eq!(
                under_way[0].replicas,
                ids(&[target.clone(), before.replicas.clone()].concat())
            );
            cluster.order(target[1], ShardOrder::Start);
            while !moves(&mut cluster, asked).await.is_empty() {
                write(&mut cluster, &mut written).await;
            }
            until_moved(&cluster, &target).await;
            for _ in 0..10 {
                write(&mut cluster, &mut written).await;
            }
            assert!(target.contains(&cluster.leader(TOPIC)));
            until_only_replicas_hold_logs(&cluster).await;
            check(&mut cluster, &written).await;
            // Each of the new ones has all.
            let leader = cluster.leader(TOPIC);
            cluster.kill(leader);
            cluster.until_leader_is_not(TOPIC, leader).await;
            check(&mut cluster, &written).await;
        });
    }
}

/// Writes more than a journal holds: logs have folders from then on.
async fn fill(cluster: &mut Cluster, written: &mut Vec<String>) {
    for _ in 0..20 {
        let value = format!("v{} {}", written.len(), "x".repeat(256 << 10));
        cluster.produce(TOPIC, &value).await;
        written.push(value);
    }
}

/// All that was acknowledged can be read in its order; what was tried again may be there twice.
async fn check(cluster: &mut Cluster, written: &[String]) {
    let values = cluster.values(TOPIC).await;
    let mut found = values.iter();
    for value in written {
        let start = |value: &String| value.chars().take(8).collect::<String>();
        assert!(
            found.any(|there| there == value),
            "{} is gone: {:?}",
            start(value),
            values.iter().map(start).collect::<Vec<_>>()
        );
    }
}

#[test]
fn an_only_replica_moves_and_gets_a_second_one() {
    with_four_shards(11, |mut cluster| async move {
        cluster.create(TOPIC, 1, &[]).await;
        let free = others(&cluster);
        let mut written = Vec::new();
        fill(&mut cluster, &mut written).await;
        for target in [vec![free[0]], vec![free[1], free[0]], vec![free[2]]] {
            assert_eq!(reassign(&mut cluster, free[0], Some(&target)).await, 0);
            until_moved(&cluster, &target).await;
            cluster.until_isr(TOPIC, target.len()).await;
            written.push(format!("at {target:?}"));
            cluster.produce(TOPIC, written.last().unwrap()).await;
            until_only_replicas_hold_logs(&cluster).await;
        }
        check(&mut cluster, &written).await;
    });
}

#[test]
fn a_move_that_is_taken_back_leaves_nothing() {
    with_four_shards(3, |mut cluster| async move {
        cluster.create(TOPIC, 2, &[]).await;
        let before = cluster.partition(TOPIC, 0);
        let asked = before.replicas[0];
        let mut written = Vec::new();
        fill(&mut cluster, &mut written).await;
        assert_eq!(
            reassign(&mut cluster, asked, None).await,
            NO_REASSIGNMENT_IN_PROGRESS
        );
        let target = others(&cluster);
        cluster.order(target[0], ShardOrder::Pause);
        assert_eq!(reassign(&mut cluster, asked, Some(&target)).await, 0);
        // The other one has got its records by now.
        cluster
            .until("one is in sync", |image| {
                let partition = &image.topic_by_name(TOPIC).unwrap().partitions[0];
                partition.isr.contains(&target[1])
            })
            .await;
        // So much that the newcomer has a folder, too.
        fill(&mut cluster, &mut written).await;
        until_logs(&cluster, target[1], 1).await;
        assert_eq!(reassign(&mut cluster, asked, None).await, 0);
        assert_eq!(moves(&mut cluster, asked).await, []);
        cluster.order(target[0], ShardOrder::Start);
        assert_eq!(cluster.partition(TOPIC, 0).replicas, before.replicas);
        until_only_replicas_hold_logs(&cluster).await;
        fill(&mut cluster, &mut written).await;
        check(&mut cluster, &written).await;
    });
}

#[test]
fn a_replica_that_was_dropped_while_its_shard_was_down_is_deleted_when_it_returns() {
    with_four_shards(4, |mut cluster| async move {
        cluster.create(TOPIC, 2, &[]).await;
        let before = cluster.partition(TOPIC, 0).replicas;
        let mut written = Vec::new();
        fill(&mut cluster, &mut written).await;
        cluster.order(before[1], ShardOrder::Stop);
        cluster.until_isr(TOPIC, 1).await;
        let target = [before[0], others(&cluster)[0]];
        assert_eq!(reassign(&mut cluster, before[0], Some(&target)).await, 0);
        until_moved(&cluster, &target).await;
        until_logs(&cluster, before[1], 1).await;
        cluster.start(before[1]).await;
        until_only_replicas_hold_logs(&cluster).await;
        fill(&mut cluster, &mut written).await;
        check(&mut cluster, &written).await;
    });
}

#[test]
fn the_preferred_leader_leads_again_after_its_restart() {
    with_four_shards(5, |mut cluster| async move {
        cluster.create(TOPIC, 2, &[]).await;
        let partition = cluster.partition(TOPIC, 0);
        let (preferred, other) = (partition.replicas[0], partition.replicas[1]);
        assert_eq!(partition.leader, preferred);
        cluster.produce(TOPIC, "v0").await;
        assert_eq!(elect(&mut cluster, other, 0, true).await, [ELECTION_NOT_NEEDED]);
        cluster.kill(preferred);
        cluster.until_leader_is_not(TOPIC, preferred).await;
        assert_eq!(
            elect(&mut cluster, other, 0, false).await,
            [PREFERRED_LEADER_NOT_AVAILABLE]
        );
        cluster.produce(TOPIC, "v1").await;
        cluster.start(preferred).await;
        cluster.until_isr(TOPIC, 2).await;
        assert_eq!(cluster.leader(TOPIC), other);
        assert_eq!(elect(&mut cluster, other, 0, false).await, [0]);
        assert_eq!(cluster.leader(TOPIC), preferred);
        assert!(elect(&mut cluster, other, 0, false).await.is_empty());
        cluster.produce(TOPIC, "v2").await;
        assert_eq!(cluster.values(TOPIC).await, ["v0", "v1", "v2"]);
    });
}

#[test]
fn leaderships_go_back_by_themselves_unless_that_is_turned_off() {
    for enabled in ["true", "false"] {
        let settings = [
            ("auto.leader.rebalance.enable", enabled),
            ("leader.imbalance.check.interval.seconds", "20"),
        ];
        with_four_shards_of(7, &settings, move |mut cluster| async move {
            cluster.create(TOPIC, 2, &[]).await;
            let preferred = cluster.partition(TOPIC, 0).leader;
            cluster.produce(TOPIC, "v0").await;
            cluster.kill(preferred);
            cluster.until_leader_is_not(TOPIC, preferred).await;
            cluster.produce(TOPIC, "v1").await;
            cluster.start(preferred).await;
            cluster.until_isr(TOPIC, 2).await;
            // More than two intervals of virtual time.
            cluster.runtime.sleep(Duration::from_secs(50)).await;
            assert_eq!(cluster.leader(TOPIC) == preferred, enabled == "true");
            cluster.produce(TOPIC, "v2").await;
            assert_eq!(cluster.values(TOPIC).await, ["v0", "v1", "v2"]);
        });
    }
}

#[test]
fn an_unclean_election_ends_a_partition_without_leader() {
    with_four_shards(6, |mut cluster| async move {
        cluster.create(TOPIC, 2, &[]).await;
        let replicas = cluster.partition(TOPIC, 0).replicas;
        let asked = others(&cluster)[0];
        cluster.produce(TOPIC, "on both").await;
        cluster.kill(replicas[1]);
        cluster.until_isr(TOPIC, 1).await;
        cluster.produce(TOPIC, "on one").await;
        cluster.kill(replicas[0]);
        cluster.start(replicas[1]).await;
        assert_eq!(cluster.leader(TOPIC), BrokerId::NONE);
        assert_eq!(
            elect(&mut cluster, asked, 0, true).await,
            [PREFERRED_LEADER_NOT_AVAILABLE]
        );
        assert_eq!(elect(&mut cluster, asked, 1, false).await, [0]);
        assert_eq!(cluster.leader(TOPIC), replicas[1]);
        cluster.produce(TOPIC, "after").await;
        assert_eq!(cluster.values(TOPIC).await, ["on both", "after"]);
        assert_eq!(elect(&mut cluster, asked, 1, true).await, [ELECTION_NOT_NEEDED]);
    });
}
