//! Row B13 of the field reports: retention overtakes consumers while they run. They read on, in order, from where the log starts.

use super::{expect, fresh};
use crate::broker::Broker;
use crate::client::{Client, Consume, Produce};
use crate::native::Native;
use crate::raw::{Raw, topic_name};
use crate::record::Record;
use crate::report::Report;
use crate::tools::Tools;
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::{BrokerId, ListOffsetsRequest};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const BURSTS: i64 = 60;
const BURST_RECORDS: i64 = 20;
/// Between two bursts: all together take some times `retention.ms`.
const BURST_EVERY: Duration = Duration::from_millis(100);
/// What the slow consumer does with a record: with all of them it would take a minute.
const SLOW: Duration = Duration::from_millis(50);
const OFFSETS: &str = "org.apache.kafka.tools.GetOffsetShell";
const EARLIEST: i64 = -2;

/// Runs the suite on a node of its own.
pub(crate) fn run(report: &mut Report, tools: &Tools, broker: &Path, scratch: &Path) {
    report.begin("retention (B13)");
    let settings = [
        "log.initial.task.delay.ms=0",
        "log.retention.check.interval.ms=200",
        "log.segment.delete.delay.ms=0",
    ];
    match Broker::start_set(broker, scratch, 2, &settings) {
        Ok(mut node) => {
            overtaken(report, tools, &node.bootstrap());
            report.check("stops cleanly", node.stop());
        }
        Err(why) => {
            report.check("starts", Err(why));
        }
    }
    report.end();
}

fn overtaken(report: &mut Report, tools: &Tools, bootstrap: &str) {
    let topic = fresh("overtaken");
    let configs = [("retention.ms", "1000"), ("segment.ms", "500")];
    let created = Raw::connect(bootstrap)
        .and_then(|mut admin| admin.create_topic(&topic, 1, &configs))
        .and_then(|code| expect(&code, &0));
    if !report.check("topic is created", created) {
        return;
    }
    let last = BURSTS * BURST_RECORDS;
    let (produced, quick, slow) = std::thread::scope(|scope| {
        let producer = scope.spawn(|| bursts(bootstrap, &topic));
        let quick = scope.spawn(|| Native::new(bootstrap).follow(&topic, last, Duration::ZERO));
        let slow = scope.spawn(|| Native::new(bootstrap).follow(&topic, last, SLOW));
        (joined(producer), joined(quick), joined(slow))
    });
    report.check("bursts are produced", produced);
    report.check(
        "a consumer that keeps up reads in order to the end",
        quick.and_then(|offsets| in_order(&offsets, last)),
    );
    let slow = slow.and_then(|offsets| {
        in_order(&offsets, last)?;
        let skips = offsets.windows(2).any(|pair| pair[1] > pair[0] + 1);
        skips
            .then_some(())
            .ok_or_else(|| "nothing was deleted before it".to_owned())
    });
    report.check(
        "a consumer that retention overtakes goes on where the log starts",
        slow,
    );

    let start = earliest(bootstrap, &topic);
    let tool = || {
        let arguments = ["--bootstrap-server", bootstrap, "--topic", &topic, "--time", "-2"];
        let text = tools.kafka_tool(OFFSETS, &arguments)?;
        expect(&text.trim(), &&*format!("{topic}:0:{}", start.clone()?))
    };
    report.check("kafka-get-offsets tells the same start as ListOffsets", tool());
    let Ok(start) = start else { return };
    let above = (start > 0)
        .then_some(())
        .ok_or_else(|| "the log starts at 0".to_owned());
    report.check("old records are gone", above);
    match tools.clients(bootstrap) {
        Ok(clients) => {
            for mut client in clients.into_iter().filter(|client| client.can_consume()) {
                let name = format!("{} reads from the start", client.name());
                report.check(&name, reads_first(client.as_mut(), &topic, start));
            }
        }
        Err(why) => {
            report.check("clients start", Err(why));
        }
    }
}

/// All but the last record are old soon; that one is of the next half an hour, so that everyone can read to it.
fn bursts(bootstrap: &str, topic: &str) -> Result<(), String> {
    let mut client = Native::new(bootstrap);
    let value = vec![b'v'; 1000];
    for _ in 0..BURSTS {
        let records = vec![Record::new(None, Some(&value)); BURST_RECORDS as usize];
        client.produce(&Produce::to(topic), &records)?;
        std::thread::sleep(BURST_EVERY);
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let later = now + Duration::from_secs(1800);
    let last = Record::new(None, Some(b"last")).at(later.as_millis() as i64);
    let offsets = client.produce(&Produce::to(topic), &[last])?;
    expect(&offsets, &vec![BURSTS * BURST_RECORDS])
}

fn joined<T>(thread: std::thread::ScopedJoinHandle<'_, Result<T, String>>) -> Result<T, String> {
    thread.join().unwrap_or_else(|_| Err("it panicked".to_owned()))
}

fn in_order(offsets: &[i64], last: i64) -> Result<(), String> {
    let ascend = offsets.windows(2).all(|pair| pair[0] < pair[1]);
    expect(&(ascend, offsets.last().copied()), &(true, Some(last)))
}

fn earliest(bootstrap: &str, topic: &str) -> Result<i64, String> {
    let partition = ListOffsetsPartition::default()
        .with_partition_index(0)
        .with_current_leader_epoch(-1)
        .with_timestamp(EARLIEST);
    let asked = ListOffsetsTopic::default()
        .with_name(topic_name(topic))
        .with_partitions(vec![partition]);
    let request = ListOffsetsRequest::default()
        .with_replica_id(BrokerId(-1))
        .with_topics(vec![asked]);
    let answer = Raw::leader(bootstrap, topic, 0)?.call(7, &request)?;
    let found = answer.topics.iter().flat_map(|topic| &topic.partitions).next();
    let found = found.ok_or("no partition in the answer")?;
    expect(&found.error_code, &0)?;
    Ok(found.offset)
}

fn reads_first(client: &mut dyn Client, topic: &str, start: i64) -> Result<(), String> {
    let records = client.consume(&Consume {
        from: start,
        ..Consume::start_of(topic, 1)
    })?;
    expect(&records.first().map(|record| record.place), &Some(start))
}
