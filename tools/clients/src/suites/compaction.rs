//! Compacted topics: every library reads a log with gaps from each of its offsets to the end, Kafka's tool accepts the exported
//! log, a table of random updates is right, and Kafka Streams restores one.

use super::{expect, export, fresh, streams};
use crate::broker::Broker;
use crate::client::{Client, Consume, Produce};
use crate::native::Native;
use crate::raw::Raw;
use crate::record::Record;
use crate::report::Report;
use crate::tools::{JAVA_VERSIONS, Tools};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

/// Batches, each a segment of its own, and their records.
const BATCHES: usize = 32;
const BATCH_RECORDS: usize = 3;
const KEYS: usize = 7;
/// When the first batch is from, and how far they are apart.
const FIRST_MS: i64 = 1_700_000_000_000;
const EVERY_MS: i64 = 10_000;
/// Longer than any cleaning should take.
const PATIENCE: Duration = Duration::from_secs(60);
const CONFIGS: [(&str, &str); 3] = [
    ("cleanup.policy", "compact"),
    ("segment.ms", "1000"),
    ("min.cleanable.dirty.ratio", "0.01"),
];

/// Runs the suite on a node of its own.
pub(crate) fn run(report: &mut Report, tools: &Tools, broker: &Path, strandctl: &Path, scratch: &Path) {
    let settings = ["log.cleaner.backoff.ms=50", "group.initial.rebalance.delay.ms=0"];
    match Broker::start_set(broker, scratch, 2, &settings) {
        Ok(mut node) => {
            streams::restores(report, tools, &node.bootstrap(), scratch);
            report.begin("compaction");
            let random = random_table(tools, &node.bootstrap());
            report.check("a table of random updates is right (Java)", random);
            let gaps = Gaps::make(&node.bootstrap());
            if let Some(gaps) = checked(report, gaps) {
                gaps.read(report, tools, &node.bootstrap());
                let dumped = export::dumped(tools, &mut node, strandctl, scratch, &gaps.topic);
                let dumped = dumped.and_then(|records| expect(&records, &gaps.left.len()));
                report.check("kafka-dump-log --deep-iteration accepts the exported log", dumped);
            }
            report.check("stops cleanly", node.stop());
        }
        Err(why) => {
            report.begin("compaction");
            report.check("starts", Err(why));
        }
    }
    report.end();
}

fn checked(report: &mut Report, gaps: Result<Gaps, String>) -> Option<Gaps> {
    match gaps {
        Ok(gaps) => report
            .check("a log is compacted to gaps and empty batches", Ok(()))
            .then_some(gaps),
        Err(why) => {
            report.check("a log is compacted to gaps and empty batches", Err(why));
            None
        }
    }
}

/// A log that was compacted: what was written, and what is left of it.
struct Gaps {
    topic: String,
    written: Vec<Record>,
    left: Vec<i64>,
}

impl Gaps {
    fn make(bootstrap: &str) -> Result<Self, String> {
        let topic = fresh("gaps");
        expect(&Raw::connect(bootstrap)?.create_topic(&topic, 1, &CONFIGS)?, &0)?;
        let mut writer = Native::new(bootstrap);
        let mut written: Vec<Record> = Vec::new();
        for batch in 0..BATCHES {
            let records = (0..BATCH_RECORDS).map(|at| {
                let number = batch * BATCH_RECORDS + at;
                let key = format!("key-{}", (number * number + batch) % KEYS);
                let value = (number % 11 != 5).then(|| format!("value-{number}"));
                let record = Record::new(Some(key.as_bytes()), value.as_ref().map(String::as_bytes));
                record.at(FIRST_MS + batch as i64 * EVERY_MS)
            });
            let records: Vec<Record> = records.collect();
            // An idempotent producer's last batch stays, empty if need be; each call is another producer.
            let how = Produce {
                idempotent: batch % 4 == 1,
                // The one that every library reads.
                codec: if batch % 3 == 0 { "gzip" } else { "none" },
                ..Produce::to(&topic)
            };
            let offsets = writer.produce(&how, &records)?;
            expect(&offsets.first().copied(), &Some(written.len() as i64))?;
            written.extend(records);
        }
        for (offset, record) in (0..).zip(&mut written) {
            record.place = offset;
        }
        let left = left(&written);
        let (end, began) = (written.len() as i64, Instant::now());
        loop {
            let found = writer.tails(&topic, 0, end, 0..1)?.concat();
            if found == left {
                break;
            }
            if began.elapsed() > PATIENCE {
                return Err(format!("not {left:?} but {found:?} is left"));
            }
        }
        let (gaps, empty) = holes(bootstrap, &topic)?;
        if gaps == 0 || empty == 0 {
            return Err(format!(
                "{gaps} gaps between batches, {empty} batches without a record"
            ));
        }
        Ok(Self { topic, written, left })
    }

    fn read(&self, report: &mut Report, tools: &Tools, bootstrap: &str) {
        let end = self.written.len() as i64;
        let right: Vec<Vec<i64>> = (0..end)
            .map(|start| {
                self.left
                    .iter()
                    .copied()
                    .filter(|offset| *offset >= start)
                    .collect()
            })
            .collect();
        let native = Native::new(bootstrap).tails(&self.topic, 0, end, 0..end);
        let every = |name: &str| format!("{name} reads to the end from each of {end} offsets");
        report.check(&every("rdkafka"), native.and_then(|found| expect(&found, &right)));
        let lines: Vec<String> = right.iter().map(|offsets| joined(offsets)).collect();
        match tools.scripts(bootstrap) {
            Ok(scripts) => {
                for mut script in scripts {
                    let name = script.name().to_owned();
                    let head = format!("tails topic={} partition=0 end={end}", self.topic);
                    let found = script.request(&head, &[]);
                    report.check(&every(&name), found.and_then(|found| expect(&found, &lines)));
                }
            }
            Err(why) => {
                report.check("clients start", Err(why));
            }
        }
        match tools.clients(bootstrap) {
            Ok(clients) => {
                for mut client in clients.into_iter().filter(|client| client.can_consume()) {
                    let name = format!("{} reads what was written", client.name());
                    report.check(&name, self.same(client.as_mut()));
                }
            }
            Err(why) => {
                report.check("clients start", Err(why));
            }
        }
    }

    /// What is left is as it was written.
    fn same(&self, client: &mut dyn Client) -> Result<(), String> {
        let found = client.consume(&Consume::start_of(&self.topic, self.left.len()))?;
        let written: Vec<Record> = self
            .left
            .iter()
            .map(|offset| self.written[*offset as usize].clone())
            .collect();
        expect(&found, &written)
    }
}

/// What a cleaning leaves of batches that are each a segment, the last one that appends go to.
fn left(written: &[Record]) -> Vec<i64> {
    let (closed, open) = written.split_at(written.len() - BATCH_RECORDS);
    let newest: BTreeMap<_, _> = closed.iter().map(|record| (&record.key, record.place)).collect();
    let mut left: Vec<i64> = newest.into_values().collect();
    left.sort_unstable();
    left.extend(open.iter().map(|record| record.place));
    left
}

/// Gaps between batches, and batches without a record, of what one fetch from the start gives.
fn holes(bootstrap: &str, topic: &str) -> Result<(usize, usize), String> {
    let found = Raw::leader(bootstrap, topic, 0)?.fetch(topic, 0, 0, 0)?;
    let bytes = found.records.unwrap_or_default();
    let (mut rest, mut next, mut gaps, mut empty) = (&bytes[..], 0, 0, 0);
    while let Some(header) = rest.first_chunk::<61>() {
        let at = |from: usize| header[from..from + 4].try_into().map_or(0, i32::from_be_bytes);
        let base = header[..8].try_into().map_or(0, i64::from_be_bytes);
        gaps += usize::from(base > next);
        next = base + i64::from(at(23)) + 1;
        empty += usize::from(at(57) == 0);
        rest = rest.get(12 + at(8) as usize..).unwrap_or_default();
    }
    Ok((gaps, empty))
}

fn joined(offsets: &[i64]) -> String {
    let offsets: Vec<String> = offsets.iter().map(i64::to_string).collect();
    offsets.join(",")
}

/// Random updates and deletions by Kafka's own classes (`java/CompactionTester.java`).
fn random_table(tools: &Tools, bootstrap: &str) -> Result<(), String> {
    let topic = fresh("random");
    expect(&Raw::connect(bootstrap)?.create_topic(&topic, 3, &CONFIGS)?, &0)?;
    let mut java = tools.java_client(bootstrap, JAVA_VERSIONS[1])?;
    let head =
        format!("compaction topic={topic} partitions=3 records=12000 keys=200 deletes=20 segment_every=300");
    let lines = java.request(&head, &[])?;
    match lines.iter().find(|line| !line.starts_with("counts ")) {
        Some(fault) => Err(fault.clone()),
        None => Ok(()),
    }
}
