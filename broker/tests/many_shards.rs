//! B42: a node of 32 shards, whatever the cores: each is a broker that serves its partitions, and the node stays within its
//! bounds (kafkajs #370, librdkafka #825, ClickHouse #75706).

#![allow(clippy::unwrap_used)]

mod support;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use support::topic::{create, metadata};
use support::{Batch, Broker, Partition};

const SHARDS: u64 = 32;
const PARTITIONS: i32 = 64;
const MEMORY_BYTES: u64 = 1 << 30;

/// The threads that it made. The kernel's helpers of its rings (`iou-wrk`) come and go with the disk's pace.
fn threads(broker: &Broker) -> usize {
    std::fs::read_dir(format!("/proc/{}/task", broker.pid()))
        .unwrap()
        .filter(|task| {
            // One that ended since it was listed has no name any more.
            std::fs::read_to_string(task.as_ref().unwrap().path().join("comm"))
                .is_ok_and(|name| !name.starts_with("iou-"))
        })
        .count()
}

#[test]
fn thirty_two_shards_serve_on_few_cores() {
    let memory = format!("strandline.memory.bytes={MEMORY_BYTES}");
    let mut broker = Broker::start_with(&["--shards", "32", "--set", &memory]);
    assert_eq!(broker.addresses().len() as u64, SHARDS);
    create(&mut broker.client_of(1031), "wide", PARTITIONS, &[]);
    for round in 0..2 {
        // Every shard shows the same cluster.
        for shard in [1000, 1017, 1031] {
            let found = metadata(&mut broker.client_of(shard), &["wide"]);
            assert_eq!(found.brokers.len() as u64, SHARDS);
            let leaders: BTreeSet<i32> = found.topics[0].partitions.iter().map(|p| p.leader_id.0).collect();
            assert_eq!(leaders.len() as u64, SHARDS, "two partitions a shard");
            let addresses: BTreeSet<_> = found
                .brokers
                .iter()
                .map(|b| (b.host.to_string(), b.port))
                .collect();
            assert_eq!(addresses.len() as u64, SHARDS);
        }
        for index in 0..PARTITIONS {
            let mut p = Partition::find(&broker, "wide", index);
            assert_eq!(p.append(&Batch::of_values([format!("{index}-{round}")])), round);
            let stored: Vec<_> = p.read_all(0).into_values().map(|r| r.value.unwrap()).collect();
            let expected: Vec<_> = (0..=round).map(|n| format!("{index}-{n}").into_bytes()).collect();
            assert_eq!(stored, expected);
        }
        // One record at a time to one partition: other shards, idle, do not slow it down.
        if round == 0 {
            let mut p = Partition::create(&broker, "trickle", &[]);
            let mut slowest = Duration::ZERO;
            for n in 0..50 {
                let began = Instant::now();
                assert_eq!(p.append(&Batch::of_values(["v"])), n);
                assert_eq!(p.batches(n).len(), 1);
                slowest = slowest.max(began.elapsed());
            }
            println!(
                "32 shards: {} threads, {} MiB resident, slowest of 50 produces and fetches {slowest:?}",
                threads(&broker),
                broker.resident_bytes() >> 20
            );
        }
        let resident = broker.resident_bytes();
        assert!(
            resident < MEMORY_BYTES + (64 << 20) + SHARDS * (2 << 20),
            "{resident}"
        );
        // A shard has its executor and the helper of its executor.
        assert!(threads(&broker) as u64 <= 3 * SHARDS + 8, "{}", threads(&broker));
        if round == 0 {
            broker.kill();
            broker.launch();
        }
    }
    assert!(broker.stop().success());
}
