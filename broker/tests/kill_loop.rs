//! kill -9 in a loop under load: every acknowledged record is there once and in order, and nothing that nobody sent
//! (field reports B04, B37, B40). `STRANDLINE_KILLS` sets the number of stops.

#![allow(clippy::unwrap_used)]

mod support;

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use kafka_protocol::messages::{InitProducerIdRequest, ProduceRequest};
use support::batch::{CODECS, decode_all};
use support::stops::{StopAtEnd, stops};
use support::topic::{FETCH_VERSION, PRODUCE_VERSION, create};
use support::{Batch, Broker, Partition};

const PARTITIONS: i32 = 4;
const STOPS_DEFAULT: u64 = 8;
/// Batches of one writer that are under way together.
const IN_FLIGHT: usize = 5;
/// Every so many batches one is large: it goes straight to its segment.
const LARGE_EVERY: usize = 29;
const LARGE_BYTES: usize = 300_000;

/// A batch that was sent, and where it was acknowledged.
struct Sent {
    values: Vec<Vec<u8>>,
    /// The sequence of its first record.
    sequence: i32,
    offset: Option<i64>,
}

/// All that is known of a partition.
#[derive(Default)]
struct History {
    /// Set where an idempotent producer writes: it sends again what was not acknowledged.
    producer: Option<(i64, i16)>,
    sent: Vec<Sent>,
    /// What a consumer was given, from offset 0 on, over all restarts.
    consumed: Vec<Vec<u8>>,
}

impl History {
    /// Makes the next batch; its place.
    fn next(&mut self, index: i32) -> usize {
        let n = self.sent.len();
        let values: Vec<Vec<u8>> = (0..=n % 3)
            .map(|k| {
                let mut value = format!("{index}-{n}-{k}-").into_bytes();
                let length = if n % LARGE_EVERY == LARGE_EVERY - 1 {
                    LARGE_BYTES
                } else {
                    n % 40 * 97
                };
                // All zero too: recovery must not be led astray by a payload.
                value.resize(value.len() + length, if n.is_multiple_of(5) { 0 } else { b'x' });
                value
            })
            .collect();
        let sequence = self
            .sent
            .last()
            .map_or(0, |last| last.sequence + last.values.len() as i32);
        self.sent.push(Sent {
            values,
            sequence,
            offset: None,
        });
        n
    }

    fn encode(&self, n: usize) -> Vec<u8> {
        let sent = &self.sent[n];
        let batch = Batch::of_values(&sent.values).compressed(CODECS[n % CODECS.len()]);
        match self.producer {
            Some((id, epoch)) => batch.by_producer(id, epoch, sent.sequence).encode(),
            None => batch.encode(),
        }
    }

    fn acked(&self) -> usize {
        let acked = self.sent.iter().filter(|sent| sent.offset.is_some());
        acked.map(|sent| sent.values.len()).sum()
    }
}

/// Writes until the broker dies or `stop` is set; then waits for what is under way.
fn write(mut p: Partition, history: &Mutex<History>, acks: &AtomicU64, stop: &AtomicBool) {
    let mut again: VecDeque<usize> = {
        let history = history.lock().unwrap();
        let open = history
            .sent
            .iter()
            .enumerate()
            .filter(|(_, sent)| sent.offset.is_none() && history.producer.is_some());
        open.map(|(n, _)| n).collect()
    };
    assert!(again.len() <= IN_FLIGHT);
    let mut under_way: VecDeque<usize> = VecDeque::new();
    loop {
        while under_way.len() < IN_FLIGHT {
            let records = {
                let mut history = history.lock().unwrap();
                let n = match again.pop_front() {
                    Some(n) => n,
                    None if stop.load(Ordering::Relaxed) => break,
                    None => history.next(p.index),
                };
                under_way.push_back(n);
                history.encode(n)
            };
            if p.client
                .send(PRODUCE_VERSION, &p.produce_request(-1, records))
                .is_err()
            {
                return;
            }
        }
        let Some(n) = under_way.pop_front() else { return };
        let Ok((_, answer)) = p.client.receive::<ProduceRequest>(PRODUCE_VERSION) else {
            return;
        };
        let answer = &answer.responses[0].partition_responses[0];
        if answer.error_code != 0 {
            return;
        }
        history.lock().unwrap().sent[n].offset = Some(answer.base_offset);
        acks.fetch_add(1, Ordering::Relaxed);
    }
}

/// Reads on from where the last reader was cut off, until the broker dies or `stop` is set.
fn read(mut p: Partition, history: &Mutex<History>, stop: &AtomicBool) {
    let mut next = history.lock().unwrap().consumed.len() as i64;
    while !stop.load(Ordering::Relaxed) {
        let request = p.fetch_request(next).with_max_wait_ms(50);
        let Ok(mut answer) = p.client.try_call(FETCH_VERSION, &request) else {
            return;
        };
        let data = answer.responses.remove(0).partitions.remove(0);
        if data.error_code != 0 {
            return;
        }
        for batch in decode_all(&data.records.unwrap_or_default()) {
            let mut history = history.lock().unwrap();
            for (delta, value) in batch.values().into_iter().enumerate() {
                let offset = batch.base_offset + delta as i64;
                if offset >= next {
                    assert_eq!(offset, next, "a record was skipped");
                    history.consumed.push(value);
                    next += 1;
                }
            }
        }
    }
}

fn check(broker: &Broker, index: i32, history: &History) {
    let mut p = Partition::find(broker, "loop", index);
    let stored: Vec<Vec<u8>> = p
        .read_all(0)
        .into_iter()
        .enumerate()
        .map(|(at, (offset, record))| {
            assert_eq!(offset, at as i64, "{index}: offsets have a gap");
            record.value.unwrap()
        })
        .collect();
    // What is stored is what was sent, batch by batch in the order of sending; only what was not acknowledged may lack.
    let mut at = 0;
    for (n, sent) in history.sent.iter().enumerate() {
        let end = at + sent.values.len();
        let is_here = stored.get(at..end) == Some(&sent.values[..]);
        match sent.offset {
            Some(offset) => {
                assert_eq!(offset, at as i64, "{index}: batch {n} was acknowledged elsewhere");
                assert!(is_here, "{index}: batch {n} is lost or changed");
            }
            None if !is_here => continue,
            None => {}
        }
        at = end;
    }
    assert_eq!(
        at,
        stored.len(),
        "{index}: a record nobody sent, or a second copy"
    );
    assert!(
        stored.starts_with(&history.consumed),
        "{index}: a consumer saw another record"
    );
}

/// Two shards on one core; plain and idempotent producers with five batches in flight, and a consumer a partition.
#[test]
fn every_acknowledged_record_is_there_once_and_in_order() {
    let mut broker = Broker::start_on_one_core(&["--shards", "2"]);
    create(
        &mut broker.client(),
        "loop",
        PARTITIONS,
        &[("segment.bytes", "1048576")],
    );
    let histories: Vec<Mutex<History>> = (0..PARTITIONS)
        .map(|index| {
            // Two partitions a shard, one of each kind.
            let idempotent = index / 2 % 2 == 1;
            let producer = idempotent.then(|| {
                let answer = broker
                    .client()
                    .call(4, &InitProducerIdRequest::default().with_transactional_id(None));
                assert_eq!(answer.error_code, 0);
                (answer.producer_id.0, answer.producer_epoch)
            });
            Mutex::new(History {
                producer,
                ..History::default()
            })
        })
        .collect();
    let stops = stops(STOPS_DEFAULT);
    for round in 0..=stops {
        let (acks, stop) = (AtomicU64::new(0), AtomicBool::new(false));
        thread::scope(|scope| {
            for (history, index) in histories.iter().zip(0..) {
                let (acks, stop) = (&acks, &stop);
                let (writer, reader) = (
                    Partition::find(&broker, "loop", index),
                    Partition::find(&broker, "loop", index),
                );
                scope.spawn(move || write(writer, history, acks, stop));
                scope.spawn(move || read(reader, history, stop));
            }
            let _end = StopAtEnd(&stop);
            // Acknowledgements decide when a round ends, no clock.
            let enough = 40 + round * 61 % 160;
            while acks.load(Ordering::Relaxed) < enough {
                thread::yield_now();
                assert!(broker.is_running());
            }
            if round == stops {
                // The last one ends by itself.
            } else if round % 4 == 3 {
                assert!(broker.stop().success());
            } else {
                broker.kill();
            }
        });
        if round < stops {
            broker.launch();
        }
        for (history, index) in histories.iter().zip(0..) {
            check(&broker, index, &history.lock().unwrap());
        }
    }
    let histories: Vec<History> = histories
        .into_iter()
        .map(|history| history.into_inner().unwrap())
        .collect();
    for history in histories.iter().filter(|history| history.producer.is_some()) {
        assert!(
            history.sent.iter().all(|sent| sent.offset.is_some()),
            "a retried batch was never acknowledged"
        );
    }
    let acked: usize = histories.iter().map(History::acked).sum();
    let consumed: usize = histories.iter().map(|history| history.consumed.len()).sum();
    println!(
        "kill loop: {stops} stops ({} of them clean), {acked} acknowledged records, {consumed} consumed, none lost, none twice",
        stops / 4
    );
}
