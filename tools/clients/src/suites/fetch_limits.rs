//! Row B09 of the field reports: the byte limit of a fetch holds for all its partitions together, and a session
//! serves every one of them in turn.

use super::{expect, fresh};
use crate::client::{Client, Produce};
use crate::native::Native;
use crate::raw::{Raw, topic_name};
use crate::record::Record;
use crate::report::Report;
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::{FetchRequest, FetchResponse};
use std::collections::BTreeMap;

const PARTITIONS: i32 = 32;
/// Batches of one record in each partition.
const BATCHES: i64 = 6;
const BATCH_BYTES: usize = 100_000;
/// The limit of a fetch: two batches and a half.
const FETCH_BYTES: usize = 250_000;
/// What a batch adds to its record, generously.
const BATCH_OVERHEAD_BYTES: usize = 1000;

/// Runs the suite.
pub(crate) fn run(report: &mut Report, bootstrap: &str) {
    report.begin("fetch limits");
    report.check(
        "limits hold and every partition is served (B09)",
        session(bootstrap),
    );
    report.end();
}

fn session(bootstrap: &str) -> Result<(), String> {
    let topic = fresh("limits");
    expect(
        &Raw::connect(bootstrap)?.create_topic(&topic, PARTITIONS, &[])?,
        &0,
    )?;
    let value = vec![b'v'; BATCH_BYTES];
    let round: Vec<Record> = (0..PARTITIONS)
        .map(|partition| Record::new(None, Some(&value)).partition(i64::from(partition)))
        .collect();
    for _ in 0..BATCHES {
        Native::new(bootstrap).produce(&Produce::to(&topic), &round)?;
    }
    let (mut leader, led) = Raw::leader_with_partitions(bootstrap, &topic, 0)?;
    let mut offsets: BTreeMap<i32, i64> = led.iter().map(|partition| (*partition, 0)).collect();
    let (mut session, mut epoch, mut moved) = (0, 0, led.clone());
    // Each answer brings at least one batch; and each partition is served once before any is served twice.
    let fetches_max = led.len() * BATCHES as usize;
    for fetch in 0..fetches_max {
        let wanted = moved
            .iter()
            .map(|partition| (*partition, offsets[partition]))
            .collect();
        let answer: FetchResponse = leader.call(11, &request(&topic, session, epoch, wanted))?;
        expect(&answer.error_code, &0)?;
        (session, epoch) = (answer.session_id, epoch + 1);
        let mut bytes = 0;
        moved.clear();
        for found in answer.responses.iter().flat_map(|topic| &topic.partitions) {
            expect(&found.error_code, &0)?;
            let records = found.records.as_ref().map_or(0, bytes::Bytes::len);
            bytes += records;
            let batches = (records / BATCH_BYTES) as i64;
            if batches > 0 {
                *offsets.entry(found.partition_index).or_default() += batches;
                moved.push(found.partition_index);
            }
        }
        if !(BATCH_BYTES..=FETCH_BYTES + BATCH_BYTES + BATCH_OVERHEAD_BYTES).contains(&bytes) {
            return Err(format!("fetch {fetch} brought {bytes} bytes"));
        }
        if fetch == led.len() && offsets.values().any(|offset| *offset == 0) {
            return Err(format!("partitions not served in {fetch} fetches: {offsets:?}"));
        }
        if offsets.values().all(|offset| *offset == BATCHES) {
            return Ok(());
        }
    }
    Err(format!("not at the end after {fetches_max} fetches: {offsets:?}"))
}

fn request(topic: &str, session: i32, epoch: i32, partitions: Vec<(i32, i64)>) -> FetchRequest {
    let wanted = |(partition, offset)| {
        FetchPartition::default()
            .with_partition(partition)
            .with_fetch_offset(offset)
            .with_partition_max_bytes(1 << 20)
    };
    let topic = FetchTopic::default()
        .with_topic(topic_name(topic))
        .with_partitions(partitions.into_iter().map(wanted).collect());
    FetchRequest::default()
        .with_replica_id((-1).into())
        .with_max_wait_ms(10_000)
        .with_min_bytes(1)
        .with_max_bytes(FETCH_BYTES as i32)
        .with_session_id(session)
        .with_session_epoch(epoch)
        .with_topics(vec![topic])
}
