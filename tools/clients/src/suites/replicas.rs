//! Replicas on three nodes, which are killed and come back one after the other: every library goes on writing and reading, and
//! groups go on with another coordinator.

use std::path::Path;

use super::group::{CONSUMER, Group};
use super::library::read_back;
use super::{create, fresh};
use crate::client::{Client, Produce};
use crate::cluster::Cluster;
use crate::native::Native;
use crate::record::Record;
use crate::report::Report;
use crate::tools::Tools;

/// Records of one write.
const RECORDS: usize = 20;
const PARTITIONS: i32 = 4;
const MEMBERS: usize = 2;

/// Groups of a library that shares so.
const GROUPS: [(&str, &str); 5] = [
    ("rdkafka", "cooperative-sticky"),
    ("confluent-kafka", CONSUMER),
    ("kafka-python", "range"),
    ("kafkajs", "range"),
    ("kafka-clients-4.4.0", CONSUMER),
];

/// A library, its topic, and what it wrote there.
struct Writer {
    client: Box<dyn Client>,
    topic: String,
    written: Vec<Record>,
}

impl Writer {
    fn write(&mut self) -> Result<(), String> {
        let from = self.written.len();
        let record = |number: usize| Record::new(Some(b"key"), Some(number.to_string().as_bytes()));
        let records: Vec<Record> = (from..from + RECORDS).map(record).collect();
        self.client.produce(&Produce::to(&self.topic), &records)?;
        self.written.extend(records);
        Ok(())
    }

    /// All that was written, once and in order.
    fn read(&mut self, reader: &mut Native) -> Result<(), String> {
        match self.client.can_consume() {
            true => read_back(self.client.as_mut(), &self.topic, &self.written),
            false => read_back(reader, &self.topic, &self.written),
        }
    }
}

/// Starts the nodes, and plays.
pub(crate) fn run(report: &mut Report, tools: &Tools, broker: &Path, scratch: &Path) {
    report.begin("replicas on three nodes");
    if let Err(why) = play(report, tools, broker, scratch) {
        report.check("set-up", Err(why));
    }
    report.end();
}

fn play(report: &mut Report, tools: &Tools, broker: &Path, scratch: &Path) -> Result<(), String> {
    let mut cluster = Cluster::start(broker, scratch)?;
    let bootstrap = cluster.bootstrap();
    let mut writers = Vec::new();
    for client in tools.clients(&bootstrap)? {
        let topic = fresh("replicated");
        create(tools, &bootstrap, &topic, 1)?;
        let written = Vec::new();
        writers.push(Writer {
            client,
            topic,
            written,
        });
    }
    let mut groups = Vec::new();
    for (name, assignor) in GROUPS {
        let mut group = Group::new(tools, &bootstrap, name, assignor, PARTITIONS)?;
        (0..MEMBERS).try_for_each(|_| group.join())?;
        groups.push((name, group));
    }
    every(report, "with all nodes", &mut writers, &mut groups, &bootstrap);
    let offsets = "__consumer_offsets".to_owned();
    let topics: Vec<String> = writers
        .iter()
        .map(|writer| writer.topic.clone())
        .chain([offsets])
        .collect();
    for number in 0..cluster.count() {
        cluster.wait_until_in_sync(&topics)?;
        cluster.node(number).die()?;
        let without = format!("without node {}", number + 1);
        every(report, &without, &mut writers, &mut groups, &bootstrap);
        cluster.node(number).come_back()?;
    }
    for (name, group) in &mut groups {
        report.check(&format!("{name}: committed offsets are exact"), group.committed());
        report.check(&format!("{name}: a new member resumes there"), group.resumed());
    }
    for number in 0..cluster.count() {
        let stopped = cluster.node(number).stop();
        report.check(&format!("node {} stops cleanly", number + 1), stopped);
    }
    Ok(())
}

/// Everybody works.
fn every(
    report: &mut Report,
    when: &str,
    writers: &mut [Writer],
    groups: &mut [(&str, Group<'_>)],
    bootstrap: &str,
) {
    for writer in writers {
        let outcome = writer
            .write()
            .and_then(|()| writer.read(&mut Native::new(bootstrap)));
        let name = writer.client.name();
        report.check(&format!("{name} writes and reads {when}"), outcome);
    }
    for (name, group) in groups {
        report.check(&format!("{name}'s group goes on {when}"), group.balanced());
    }
}
