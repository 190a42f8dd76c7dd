//! Shards of one process die, hang, stop and come back at random, and in the end the power of all is cut: every record that was
//! acknowledged is at its offset on every replica.
//!
//! `STRANDLINE_FAULT_SEEDS` sets how many histories are run, `STRANDLINE_FAULT_SEED` where the seeds begin.

#![allow(clippy::unwrap_used)]

#[path = "support/replicated.rs"]
mod replicated;
#[path = "support/simulated.rs"]
mod simulated;
mod support;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use kafka_protocol::messages::ProduceRequest;
use replicated::{Cluster, SHARDS, batch, cluster_on, config};
use simulated::{PRODUCE_VERSION, SimClient, produce_request};
use strandline::control::client::ShardOrder;
use strandline_core::metadata::{BrokerId, Command, Election, PartitionReference};
use strandline_runtime::sim::{SimRuntime, Simulation};
use strandline_runtime::{Queue, Runtime, SocketAddr};
use strandline_storage::disk::{SimDisk, SimDiskOptions};

const TOPICS: [&str; 3] = ["a", "b", "c"];
const FAULTS: u32 = 12;
/// How long all is well in the end, with producers at work.
const CALM: Duration = Duration::from_secs(2);

/// What a producer was told: value and offset.
type Acknowledged = Rc<RefCell<BTreeMap<&'static str, Vec<(String, i64)>>>>;

/// Produces to one topic, one record after the other, whoever leads; each value is sent once.
async fn produce(
    runtime: SimRuntime,
    images: strandline::node::context::ImageSlot,
    hosts: Vec<SimRuntime>,
    topic: &'static str,
    acknowledged: Acknowledged,
    stop: Rc<Cell<bool>>,
    running: Rc<Cell<u32>>,
) {
    let mut client: Option<(BrokerId, SimClient)> = None;
    let mut number = 0;
    while !stop.get() {
        let leader = images.latest().topic_by_name(topic).unwrap().partitions[0].leader;
        if client.as_ref().is_some_and(|(known, _)| *known != leader) {
            client = None;
        }
        if client.is_none() && leader != BrokerId::NONE {
            let host = hosts[leader.shard() as usize].clone();
            let address = SocketAddr::new(host.address(), 9092 + leader.shard() as u16);
            let connected = SimClient::try_connect_to(&runtime, address).await;
            client = connected.ok().map(|connected| (leader, connected));
        }
        let Some((_, connection)) = &mut client else {
            runtime.sleep(Duration::from_millis(20)).await;
            continue;
        };
        let value = format!("{topic}-{number}");
        number += 1;
        let request: ProduceRequest = produce_request(topic, batch(&value)).with_timeout_ms(3_000);
        match connection.try_ask(PRODUCE_VERSION, &request).await {
            None => client = None,
            Some(answer) => {
                let answer = &answer.responses[0].partition_responses[0];
                match answer.error_code {
                    0 => acknowledged
                        .borrow_mut()
                        .entry(topic)
                        .or_default()
                        .push((value, answer.base_offset)),
                    _ => runtime.sleep(Duration::from_millis(20)).await,
                }
            }
        }
        runtime.sleep(Duration::from_millis(7)).await;
    }
    running.set(running.get() - 1);
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Health {
    Up,
    Down,
    Paused,
}

/// Hurts one shard after the other at random; heals all in the end.
async fn hurt(cluster: &mut Cluster) {
    let mut health = vec![Health::Up; SHARDS as usize];
    let runtime = cluster.runtime.clone();
    for _ in 0..FAULTS {
        let shard = (runtime.random_u64() % u64::from(SHARDS)) as u32;
        let broker = BrokerId(1000 + shard as i32);
        let now = &mut health[shard as usize];
        *now = match (*now, runtime.random_u64() % 4) {
            (Health::Up, 0 | 1) => {
                cluster.kill(broker);
                Health::Down
            }
            (Health::Up, 2) => {
                cluster.order(broker, ShardOrder::Stop);
                Health::Down
            }
            (Health::Up, _) => {
                cluster.order(broker, ShardOrder::Pause);
                Health::Paused
            }
            (Health::Paused, _) => {
                cluster.order(broker, ShardOrder::Start);
                Health::Up
            }
            (Health::Down, _) => {
                cluster.start(broker).await;
                Health::Up
            }
        };
        let pause_ms = runtime.random_u64() % 3_000;
        runtime.sleep(Duration::from_millis(pause_ms)).await;
    }
    for (shard, health) in health.into_iter().enumerate() {
        let broker = BrokerId(1000 + shard as i32);
        match health {
            Health::Up => {}
            Health::Down => cluster.start(broker).await,
            Health::Paused => cluster.order(broker, ShardOrder::Start),
        }
    }
}

async fn all_in_sync(cluster: &Cluster) {
    for topic in TOPICS {
        cluster.until_isr(topic, SHARDS as usize).await;
    }
}

/// Every acknowledged record is at its offset, whoever leads; all replicas have the same.
async fn check(cluster: &mut Cluster, acknowledged: &Acknowledged, seed: u64) {
    let mut first: BTreeMap<&str, Vec<(i64, String)>> = BTreeMap::new();
    for round in 0..SHARDS {
        for topic in TOPICS {
            let all = cluster.read(topic, 0).await;
            for (value, offset) in acknowledged.borrow().get(topic).into_iter().flatten() {
                let there = all.binary_search_by_key(offset, |(at, _)| *at);
                let there = there.map(|at| &all[at].1);
                assert_eq!(there, Ok(value), "seed {seed}, round {round}, offset {offset}");
            }
            let known = first.entry(topic).or_insert_with(|| all.clone());
            assert_eq!(*known, all, "seed {seed}, round {round}: replicas differ");
        }
        // The next one leads everything.
        let next = BrokerId(1000 + round as i32);
        cluster.order(next, ShardOrder::Stop);
        for topic in TOPICS {
            cluster.until_isr(topic, SHARDS as usize - 1).await;
        }
        cluster.start(next).await;
        all_in_sync(cluster).await;
        if round + 1 < SHARDS {
            elect(cluster).await;
        }
    }
}

/// Preferred leaders lead again, so that each shard has led in the end.
async fn elect(cluster: &Cluster) {
    let image = cluster.image();
    let partitions = image.topics().map(|topic| PartitionReference {
        topic: topic.id,
        partition: 0,
    });
    let command = Command::ElectLeaders {
        election: Election::Preferred,
        partitions: partitions.collect(),
    };
    let wait = Duration::from_secs(30);
    cluster.node.client.propose(command, wait).await.unwrap();
}

/// What the simulation sums up to, and how many records were acknowledged.
fn history(seed: u64) -> (u64, usize) {
    let simulation = Simulation::new(seed);
    let runtime = simulation.runtime("node");
    let disk = SimDisk::new(runtime.clone(), SimDiskOptions::default());
    let acknowledged = Acknowledged::default();
    let (of_run, on_disk) = (acknowledged.clone(), disk.clone());
    simulation.run_until(async move {
        let mut cluster = cluster_on(&runtime, &on_disk, config(&[])).await;
        for topic in TOPICS {
            cluster.create(topic, 3, &[("min.insync.replicas", "2")]).await;
        }
        let (stop, running) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(0)));
        for topic in TOPICS {
            running.set(running.get() + 1);
            let hosts = (0..SHARDS).map(|shard| cluster.node.host(shard)).collect();
            let client = runtime.of_host("clients");
            let task = produce(
                client.clone(),
                cluster.node.images.clone(),
                hosts,
                topic,
                of_run.clone(),
                stop.clone(),
                running.clone(),
            );
            client.spawn(Queue::Latency, task);
        }
        hurt(&mut cluster).await;
        all_in_sync(&cluster).await;
        // A leader may have stood still for most of the time.
        runtime.sleep(CALM).await;
        stop.set(true);
        while running.get() > 0 {
            runtime.sleep(Duration::from_millis(10)).await;
        }
        check(&mut cluster, &of_run, seed).await;
    });
    let total: usize = acknowledged.borrow().values().map(Vec::len).sum();
    assert!(total > 100, "seed {seed} acknowledged {total} records only");
    disk.crash();
    for host in ["node", "shard-0", "shard-1", "shard-2", "clients"] {
        simulation.kill_host(host);
    }
    let runtime = simulation.runtime("node");
    let disk = disk.attach(runtime.clone());
    simulation.run_until(async move {
        let mut cluster = cluster_on(&runtime, &disk, config(&[])).await;
        all_in_sync(&cluster).await;
        check(&mut cluster, &acknowledged, seed).await;
    });
    (simulation.trace_hash(), total)
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.replace('_', "").parse().unwrap())
}

#[test]
fn acknowledged_records_survive_random_faults_and_a_power_cut_of_everything() {
    let (first, seeds) = (
        number("STRANDLINE_FAULT_SEED", 1),
        number("STRANDLINE_FAULT_SEEDS", 4),
    );
    let records: usize = (first..first + seeds).map(|seed| history(seed).1).sum();
    println!(
        "random faults: {seeds} histories from seed {first}, {records} records acknowledged, all there on every replica"
    );
}

#[test]
fn one_seed_is_one_history() {
    assert_eq!(history(1_000), history(1_000));
}
