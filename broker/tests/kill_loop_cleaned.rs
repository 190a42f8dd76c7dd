//! kill -9 in a loop while topics are compacted and retention goes on: a table that a reader builds is right at any time, before
//! and after each stop, and neither a start offset nor what is clean goes back. `STRANDLINE_KILLS` sets the number of stops.

#![allow(clippy::unwrap_used)]

mod support;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use kafka_protocol::messages::describe_log_dirs_request::DescribableLogDirTopic;
use kafka_protocol::messages::{DescribeLogDirsRequest, InitProducerIdRequest, ProduceRequest};
use strandline_wire::log_details::LogDetails;
use support::batch::{CODECS, decode_all, now_ms};
use support::stops::{StopAtEnd, stops};
use support::topic::{FETCH_VERSION, PRODUCE_VERSION, create, name};
use support::{Batch, Broker, Partition, Record};

const STOPS_DEFAULT: u64 = 6;
const KEYS: usize = 40;
/// Batches of one writer that are under way together.
const IN_FLIGHT: usize = 5;
/// So many batches make a segment.
const BATCHES_PER_SEGMENT: usize = 12;
const SEGMENT_MS: i64 = 1000;
/// The fetch or the start is below what retention left.
const OFFSET_OUT_OF_RANGE: i16 = 1;

/// Topics, one partition each: compacted alone, and with retention.
const TOPICS: [(&str, &[(&str, &str)]); 4] = [
    ("table-0", &[("cleanup.policy", "compact")]),
    ("table-1", &[("cleanup.policy", "compact")]),
    (
        "window-0",
        &[("cleanup.policy", "compact,delete"), ("retention.bytes", "30000")],
    ),
    (
        "old-0",
        &[("cleanup.policy", "delete"), ("retention.bytes", "40000")],
    ),
];

/// A record that was sent: its key, and whether it deletes it.
#[derive(Clone, Debug)]
struct Sent {
    key: usize,
    value: Option<Vec<u8>>,
}

struct SentBatch {
    records: Vec<Sent>,
    timestamp: i64,
    offset: Option<i64>,
}

/// All that is known of a partition. One idempotent producer writes it, and sends again what was not acknowledged: the record
/// of sequence n has offset n.
struct History {
    producer: (i64, i16),
    batches: Vec<SentBatch>,
    /// The number of each batch's first record.
    firsts: Vec<usize>,
    records: Vec<Sent>,
    clock: i64,
    /// Records below were acknowledged.
    acknowledged: usize,
    /// The largest start, and the farthest that was clean, that a client was told of.
    start: i64,
    cleaned_to: i64,
}

impl History {
    fn new(producer: (i64, i16)) -> Self {
        Self {
            producer,
            batches: Vec::new(),
            firsts: Vec::new(),
            records: Vec::new(),
            clock: now_ms() - 100_000_000,
            acknowledged: 0,
            start: 0,
            cleaned_to: 0,
        }
    }

    /// Makes the next batch; its place.
    fn next(&mut self) -> usize {
        let n = self.batches.len();
        if n.is_multiple_of(BATCHES_PER_SEGMENT) {
            self.clock += 2 * SEGMENT_MS;
        }
        self.firsts.push(self.records.len());
        let records: Vec<Sent> = (0..=n % 4)
            .map(|k| {
                let number = self.records.len() + k;
                let key = (number * 7 + n / 5) % KEYS;
                let value = (!(number * 13 + n).is_multiple_of(6)).then(|| {
                    let mut value = format!("{number}/").into_bytes();
                    value.resize(value.len() + n % 23 * 31, b'x');
                    value
                });
                Sent { key, value }
            })
            .collect();
        self.records.extend(records.iter().cloned());
        self.batches.push(SentBatch {
            records,
            timestamp: self.clock,
            offset: None,
        });
        n
    }

    fn encode(&self, n: usize) -> Vec<u8> {
        let batch = &self.batches[n];
        let records = batch.records.iter().map(|sent| {
            let key = format!("key-{}", sent.key);
            Record::new(batch.timestamp, Some(key.as_bytes()), sent.value.as_deref())
        });
        let (id, epoch) = self.producer;
        Batch::new(records.collect())
            .compressed(CODECS[n % CODECS.len()])
            .by_producer(id, epoch, self.firsts[n] as i32)
            .encode()
    }

    fn acknowledge(&mut self, n: usize, offset: i64) {
        assert_eq!(offset, self.firsts[n] as i64, "batch {n} is elsewhere");
        self.batches[n].offset = Some(offset);
        self.acknowledged = self.firsts[n] + self.batches[n].records.len();
    }

    /// The newest record of each key below `end`.
    fn newest(&self, end: usize) -> HashMap<usize, usize> {
        let records = self.records[..end].iter().enumerate();
        records.map(|(number, sent)| (sent.key, number)).collect()
    }
}

/// Writes until the broker dies or `stop` is set; then waits for what is under way.
fn write(mut p: Partition, history: &Mutex<History>, acks: &AtomicU64, stop: &AtomicBool) {
    let mut again: VecDeque<usize> = {
        let history = history.lock().unwrap();
        let open = history.batches.iter().enumerate();
        let open = open.filter(|(_, batch)| batch.offset.is_none());
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
                    None => history.next(),
                };
                under_way.push_back(n);
                history.encode(n)
            };
            let request = p.produce_request(-1, records);
            if p.client.send(PRODUCE_VERSION, &request).is_err() {
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
        history.lock().unwrap().acknowledge(n, answer.base_offset);
        acks.fetch_add(1, Ordering::Relaxed);
    }
}

/// Everything from the start to the high watermark, by offset, and that start; `None` when the broker died.
fn read_table(p: &mut Partition) -> Option<(BTreeMap<i64, Record>, i64)> {
    'again: loop {
        let start = try_start(p)?;
        let (mut found, mut next) = (BTreeMap::new(), start);
        loop {
            let request = p.fetch_request(next);
            let mut answer = p.client.try_call(FETCH_VERSION, &request).ok()?;
            let data = answer.responses.remove(0).partitions.remove(0);
            match data.error_code {
                0 => {}
                // Retention came by.
                OFFSET_OUT_OF_RANGE => continue 'again,
                // On its way down.
                _ => return None,
            }
            if next >= data.high_watermark {
                return Some((found, start));
            }
            for batch in decode_all(&data.records.unwrap_or_default()) {
                assert!(batch.last_offset() >= next, "a batch that nobody asked for");
                for record in &batch.records {
                    let at = batch.base_offset + i64::from(record.offset_delta);
                    if at >= next {
                        assert!(found.insert(at, record.clone()).is_none());
                    }
                }
                next = batch.last_offset() + 1;
            }
        }
    }
}

fn try_start(p: &mut Partition) -> Option<i64> {
    use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
    let partition = ListOffsetsPartition::default()
        .with_partition_index(p.index)
        .with_current_leader_epoch(-1)
        .with_timestamp(-2);
    let topic = ListOffsetsTopic::default()
        .with_name(name(&p.topic))
        .with_partitions(vec![partition]);
    let request = kafka_protocol::messages::ListOffsetsRequest::default()
        .with_replica_id((-1).into())
        .with_topics(vec![topic]);
    let answer = p.client.try_call(7, &request).ok()?;
    let found = &answer.topics[0].partitions[0];
    (found.error_code == 0).then_some(found.offset)
}

/// How far the log is clean; 0 where it is not compacted.
fn cleaned_to(p: &mut Partition) -> Option<i64> {
    let topic = DescribableLogDirTopic::default()
        .with_topic(name(&p.topic))
        .with_partitions(vec![p.index]);
    let request = DescribeLogDirsRequest::default().with_topics(Some(vec![topic]));
    let answer = p.client.try_call(4, &request).ok()?;
    let partition = answer.results.first()?.topics.first()?.partitions.first()?;
    let details = LogDetails::decode(&partition.unknown_tagged_fields).unwrap();
    Some(details.compaction.map_or(0, |compaction| compaction.cleaned_to))
}

/// Whether a table that was read is right. `acknowledged`: records below were before the reading began.
fn check(topic: &str, history: &History, found: &BTreeMap<i64, Record>, start: i64, acknowledged: usize) {
    let mut table: HashMap<usize, usize> = HashMap::new();
    for (offset, record) in found {
        let number = *offset as usize;
        let sent = &history.records[number];
        let key = format!("key-{}", sent.key);
        assert_eq!(record.key.as_deref(), Some(key.as_bytes()), "{topic}: {offset}");
        assert_eq!(record.value, sent.value, "{topic}: {offset}");
        table.insert(sent.key, number);
    }
    for (key, newest) in history.newest(acknowledged) {
        match table.get(&key) {
            Some(number) => assert!(
                *number >= newest,
                "{topic}: key {key} is at {number}, though {newest} was acknowledged"
            ),
            None => {
                let deleted = |sent: &Sent| sent.key == key && sent.value.is_none();
                let gone = (newest as i64) < start || history.records[newest..].iter().any(deleted);
                assert!(gone, "{topic}: key {key} of {newest} is gone, from {start}");
            }
        }
    }
}

/// Builds the table again and again, until the broker dies or `stop` is set.
fn read(mut p: Partition, history: &Mutex<History>, tables: &AtomicU64, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let acknowledged = history.lock().unwrap().acknowledged;
        let Some((found, start)) = read_table(&mut p) else {
            return;
        };
        let Some(cleaned_to) = cleaned_to(&mut p) else {
            return;
        };
        let mut history = history.lock().unwrap();
        check(&p.topic, &history, &found, start, acknowledged);
        moved_on(&p.topic, &mut history, start, cleaned_to);
        tables.fetch_add(1, Ordering::Relaxed);
    }
}

fn moved_on(topic: &str, history: &mut History, start: i64, cleaned_to: i64) {
    assert!(
        start >= history.start,
        "{topic}: the start went back from {} to {start}",
        history.start
    );
    assert!(
        cleaned_to >= history.cleaned_to,
        "{topic}: clean to {}, then to {cleaned_to} alone",
        history.cleaned_to
    );
    (history.start, history.cleaned_to) = (start, cleaned_to);
}

fn load(
    broker: &mut Broker,
    histories: &[Mutex<History>],
    enough: u64,
    end: impl FnOnce(&mut Broker),
) -> u64 {
    let (acks, tables, stop) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        for (history, (topic, _)) in histories.iter().zip(TOPICS) {
            let (acks, tables, stop) = (&acks, &tables, &stop);
            let (writer, reader) = (
                Partition::find(broker, topic, 0),
                Partition::find(broker, topic, 0),
            );
            scope.spawn(move || write(writer, history, acks, stop));
            scope.spawn(move || read(reader, history, tables, stop));
        }
        let _end = StopAtEnd(&stop);
        // Acknowledgements decide when a round ends, no clock.
        while acks.load(Ordering::Relaxed) < enough {
            thread::yield_now();
            assert!(broker.is_running());
        }
        end(broker);
    });
    tables.into_inner()
}

#[test]
fn tables_are_right_whatever_stops_the_cleaner() {
    let mut broker = Broker::start_on_one_core(&[
        "--shards",
        "2",
        "--set",
        "log.cleaner.backoff.ms=20",
        "--set",
        "log.initial.task.delay.ms=0",
        "--set",
        "log.retention.check.interval.ms=50",
        "--set",
        "log.segment.delete.delay.ms=0",
    ]);
    let histories: Vec<Mutex<History>> = TOPICS
        .iter()
        .map(|(topic, configs)| {
            let common = [
                ("segment.ms", "1000"),
                ("min.cleanable.dirty.ratio", "0.01"),
                ("delete.retention.ms", "0"),
            ];
            let configs = [&common[..], configs].concat();
            create(&mut broker.client(), topic, 1, &configs);
            let request = InitProducerIdRequest::default().with_transactional_id(None);
            let answer = broker.client().call(4, &request);
            assert_eq!(answer.error_code, 0);
            Mutex::new(History::new((answer.producer_id.0, answer.producer_epoch)))
        })
        .collect();
    let (stops, mut tables) = (stops(STOPS_DEFAULT), 0);
    for round in 0..=stops {
        let enough = 150 + round * 97 % 400;
        tables += load(&mut broker, &histories, enough, |broker| match round {
            // The last one ends by itself.
            _ if round == stops => {}
            _ if round % 4 == 3 => assert!(broker.stop().success()),
            _ => broker.kill(),
        });
        if round < stops {
            broker.launch();
        }
        for (history, (topic, _)) in histories.iter().zip(TOPICS) {
            let mut p = Partition::find(&broker, topic, 0);
            let (found, start) = read_table(&mut p).unwrap();
            let cleaned_to = cleaned_to(&mut p).unwrap();
            let mut history = history.lock().unwrap();
            let acknowledged = history.acknowledged;
            check(topic, &history, &found, start, acknowledged);
            moved_on(topic, &mut history, start, cleaned_to);
        }
    }
    let (mut sent, mut kept) = (0, 0);
    for (history, (topic, _)) in histories.into_iter().zip(TOPICS) {
        let history = history.into_inner().unwrap();
        let all = history.records.len();
        assert_eq!(
            history.acknowledged, all,
            "{topic}: a retried batch was never acknowledged"
        );
        let (found, start) = read_table(&mut Partition::find(&broker, topic, 0)).unwrap();
        check(topic, &history, &found, start, all);
        let deletes = !topic.starts_with("table");
        assert_eq!(start > 0, deletes, "{topic} starts at {start}");
        assert!(found.len() < all, "{topic}: all of {all} are there");
        assert_eq!(history.cleaned_to > 0, !topic.starts_with("old"), "{topic}");
        sent += all;
        kept += found.len();
    }
    println!(
        "kill loop of cleaned topics: {stops} stops ({} of them clean), {tables} tables read meanwhile, {kept} of {sent} records kept",
        stops / 4
    );
}
