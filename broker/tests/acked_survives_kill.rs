//! kill -9 in a loop under load: every acknowledged record is there once and in order, and nothing else.

#![allow(clippy::unwrap_used)]

mod support;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use support::batch::CODECS;
use support::topic::{PRODUCE_VERSION, create};
use support::{Batch, Broker, Partition};

const PARTITIONS: i32 = 4;
const ROUNDS: u64 = 12;
/// A round ends after this many acknowledgements: no clock decides.
const ACKS_PER_ROUND: u64 = 150;

/// What one writer knows: every value it sent, and the offset of each that was acknowledged.
#[derive(Default)]
struct Written {
    sent: Vec<Vec<u8>>,
    acked: BTreeMap<i64, Vec<u8>>,
}

/// Writes batches of one to three records until the broker dies.
fn write_until_death(
    mut p: Partition,
    round: u64,
    written: &Mutex<BTreeMap<i32, Written>>,
    acks: &AtomicU64,
    stop: &AtomicBool,
) {
    for n in 0u64.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let values: Vec<Vec<u8>> = (0..=n % 3)
            .map(|k| {
                // All zero and frame-like values too: recovery must not be led astray by a payload.
                let mut value = format!("{}-{round}-{n}-{k}-", p.index).into_bytes();
                value.extend(vec![if n % 5 == 0 { 0 } else { b'x' }; (n % 40 * 97) as usize]);
                value
            })
            .collect();
        written
            .lock()
            .unwrap()
            .entry(p.index)
            .or_default()
            .sent
            .extend(values.iter().cloned());
        let batch = Batch::of_values(&values).compressed(CODECS[(n % 5) as usize]);
        let request = p.produce_request(-1, batch.encode());
        let Ok(answer) = p.client.try_call(PRODUCE_VERSION, &request) else {
            return;
        };
        let answer = &answer.responses[0].partition_responses[0];
        if answer.error_code != 0 {
            return;
        }
        let mut all = written.lock().unwrap();
        let acked = &mut all.entry(p.index).or_default().acked;
        for (delta, value) in values.into_iter().enumerate() {
            let twice = acked.insert(answer.base_offset + delta as i64, value);
            assert!(
                twice.is_none(),
                "two acknowledged records at offset {}",
                answer.base_offset
            );
        }
        drop(all);
        acks.fetch_add(1, Ordering::Relaxed);
    }
}

fn check(broker: &Broker, written: &BTreeMap<i32, Written>) {
    for (index, known) in written {
        let mut p = Partition::find(broker, "loop", *index);
        let stored = p.read_all(0);
        let offsets: Vec<i64> = stored.keys().copied().collect();
        assert_eq!(
            offsets,
            (0..stored.len() as i64).collect::<Vec<_>>(),
            "offsets have gaps"
        );
        for (offset, value) in &known.acked {
            let found = stored
                .get(offset)
                .unwrap_or_else(|| panic!("{index}: lost offset {offset}"));
            assert!(
                found.value.as_deref() == Some(value),
                "{index}: another record at {offset}"
            );
        }
        // Nothing but what was sent, each at most once, in the order it was sent.
        let mut sent = known.sent.iter();
        for (offset, record) in &stored {
            let value = record.value.as_ref().unwrap();
            assert!(
                sent.any(|s| s == value),
                "{index}: a record nobody sent, or a second copy, at {offset}"
            );
        }
    }
}

#[test]
fn under_load_again_and_again() {
    let mut broker = Broker::start_with(&["--shards", "2"]);
    create(
        &mut broker.client(),
        "loop",
        PARTITIONS,
        &[("segment.bytes", "1048576")],
    );
    let written = Arc::new(Mutex::new(BTreeMap::new()));
    for round in 0..ROUNDS {
        let (acks, stop) = (AtomicU64::new(0), AtomicBool::new(false));
        thread::scope(|scope| {
            for index in 0..PARTITIONS {
                let p = Partition::find(&broker, "loop", index);
                let (written, acks, stop) = (&written, &acks, &stop);
                scope.spawn(move || write_until_death(p, round, written, acks, stop));
            }
            while acks.load(Ordering::Relaxed) < ACKS_PER_ROUND {
                thread::yield_now();
                assert!(broker.is_running());
            }
            if round % 4 == 3 {
                assert!(broker.stop().success());
            } else {
                broker.kill();
            }
            stop.store(true, Ordering::Relaxed);
        });
        broker.launch();
        check(&broker, &written.lock().unwrap());
    }
    let all = written.lock().unwrap();
    let acked: usize = all.values().map(|known| known.acked.len()).sum();
    println!("{ROUNDS} stops, {acked} acknowledged records, none lost");
}

#[test]
fn a_clean_stop_ends_with_status_zero_and_keeps_everything() {
    let mut broker = Broker::start();
    let mut p = Partition::create(&broker, "clean", &[]);
    for n in 0..50 {
        p.append(&Batch::of_values([format!("{n}")]));
    }
    // A connection with a parked fetch does not hold the stop up.
    let parked = p.fetch_request(50).with_max_wait_ms(600_000);
    p.client.send(support::topic::FETCH_VERSION, &parked).unwrap();
    assert!(broker.stop().success());
    broker.launch();
    assert_eq!(Partition::find(&broker, "clean", 0).read_all(0).len(), 50);
}

/// A second process on one data directory is refused, and the first goes on.
#[test]
fn a_data_directory_has_one_owner() {
    let broker = Broker::start();
    let second = std::process::Command::new(env!("CARGO_BIN_EXE_strandline"))
        .args(["--port", "0", "--http-port", "0", "--shards", "1", "--data-dir"])
        .arg(broker.data_directory())
        .output()
        .unwrap();
    assert_eq!(second.status.code(), Some(2));
    let said = String::from_utf8_lossy(&second.stderr);
    assert_eq!(
        said.lines()
            .filter(|line| line.starts_with("strandline:"))
            .count(),
        1,
        "{said}"
    );
    Partition::create(&broker, "alive", &[]).append(&Batch::of_values(["v"]));
}
