//! Retention as clients see it: what is deleted, what is not, and what they are told
//! (B13: redpanda #10221, #2140, #12549, rskafka PR #150; B02: KAFKA-6482; B01: redpanda PR #25200).

mod support;

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use kafka_protocol::messages::DeleteTopicsRequest;
use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
use support::batch::now_ms;
use support::topic::{FETCH_VERSION, name, set_config};
use support::{Batch, Broker, Partition, Record};

const LATEST: i64 = -1;
const EARLIEST: i64 = -2;
const OFFSET_OUT_OF_RANGE: i16 = 1;
const INVALID_TIMESTAMP: i16 = 32;
/// How long a round of retention may be waited for.
const PATIENCE: Duration = Duration::from_secs(60);

const QUICK: [&str; 3] = [
    "log.initial.task.delay.ms=0",
    "log.retention.check.interval.ms=100",
    "log.segment.delete.delay.ms=0",
];

fn at_time(time: i64) -> Batch {
    Batch::new(vec![Record::new(time, None, Some(b"v"))])
}

fn start_of(p: &mut Partition) -> i64 {
    let found = p.list_offset(7, EARLIEST);
    assert_eq!(found.error_code, 0);
    found.offset
}

/// Waits until the partition starts at `offset`; it must not go past it.
fn await_start(p: &mut Partition, offset: i64) {
    let end = Instant::now() + PATIENCE;
    loop {
        let start = start_of(p);
        assert!(start <= offset, "{start} is past {offset}");
        if start == offset {
            return;
        }
        assert!(Instant::now() < end, "the log starts at {start}, not at {offset}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Bytes of the segment files of shard 0.
fn segment_bytes(broker: &Broker) -> u64 {
    fn walk(folder: &Path) -> u64 {
        let Ok(entries) = std::fs::read_dir(folder) else {
            return 0;
        };
        let sizes = entries.flatten().map(|entry| match entry.metadata() {
            Ok(meta) if meta.is_dir() => walk(&entry.path()),
            Ok(meta) if entry.path().extension().is_some_and(|ending| ending == "log") => meta.len(),
            _ => 0,
        });
        sizes.sum()
    }
    walk(&broker.data_directory().join("shard-0/logs"))
}

/// B13: a consumer that retention overtakes is told so at once, and where the log starts; space comes back; a kill takes nothing back.
#[test]
fn a_consumer_below_the_start_is_told_where_the_log_starts() {
    let mut broker = Broker::start_set(&QUICK);
    let mut p = Partition::create(
        &broker,
        "b13",
        &[("retention.ms", "1000"), ("segment.bytes", "1048576")],
    );
    let old = now_ms() - 3_600_000;
    for _ in 0..6 {
        p.append(&Batch::new(vec![Record::new(
            old,
            None,
            Some(&vec![b'x'; 900_000]),
        )]));
    }
    await_start(&mut p, 6);
    let told = p.fetch(2);
    assert_eq!(told.error_code, OFFSET_OUT_OF_RANGE);
    assert_eq!((told.high_watermark, told.log_start_offset), (6, 6));
    assert_eq!(p.list_offset(7, LATEST).offset, 6);
    assert_eq!(p.list_offset(7, old).offset, -1, "nothing of that time is left");
    let end = Instant::now() + PATIENCE;
    while segment_bytes(&broker) > 0 {
        assert!(Instant::now() < end, "{} bytes are left", segment_bytes(&broker));
        thread::sleep(Duration::from_millis(50));
    }
    broker.kill();
    broker.launch();
    p = Partition::find(&broker, "b13", 0);
    assert_eq!(start_of(&mut p), 6);
    assert_eq!(p.append(&Batch::of_values(["next"])), 6);
    assert_eq!(p.batches(6)[0].values(), [b"next"]);
}

/// B13: the start that anybody was told never goes back over kill -9, whatever was under way.
#[test]
fn the_start_never_goes_back_over_kills() {
    let mut broker = Broker::start_set(&QUICK);
    let mut p = Partition::create(
        &broker,
        "kills",
        &[("retention.bytes", "2000000"), ("segment.bytes", "1048576")],
    );
    let mut told = 0;
    for round in 0..8 {
        for _ in 0..4 {
            p.append(&Batch::of_values([vec![b'x'; 600_000]]));
            let start = start_of(&mut p);
            assert!(start >= told, "round {round}: {start} after {told}");
            told = start;
        }
        if round % 2 == 1 {
            let deleted = p.delete_records(told + 1);
            assert_eq!(deleted.error_code, 0);
            told = deleted.low_watermark;
        }
        broker.kill();
        broker.launch();
        p = Partition::find(&broker, "kills", 0);
        let start = start_of(&mut p);
        assert!(start >= told, "round {round}: {start} after {told} and a kill");
        told = start;
        let end = p.end_offset();
        assert_eq!(end, (round + 1) * 4);
        // What a next round may still delete is not read here.
        assert_eq!(p.read_all(end - 3).len(), 3);
    }
    // 2,000,000 bytes are kept, and what makes the fourth record up to them; unless DeleteRecords came when all else was gone.
    await_start(&mut p, told.max(28));
}

/// B13: a parked fetch that retention passes is answered at once.
#[test]
fn a_parked_fetch_hears_of_the_new_start() {
    let broker = Broker::start_set(&QUICK);
    let mut p = Partition::create(&broker, "parked", &[("retention.ms", "-1")]);
    p.append(&at_time(1_000_000));
    let mut reader = Partition::find(&broker, "parked", 0);
    let waits = reader
        .fetch_request(0)
        .with_max_wait_ms(600_000)
        .with_min_bytes(i32::MAX);
    reader.client.send(FETCH_VERSION, &waits).unwrap();
    set_config(&mut broker.client(), "parked", "retention.ms", "1000");
    let (_, answer) = reader
        .client
        .receive::<kafka_protocol::messages::FetchRequest>(FETCH_VERSION)
        .unwrap();
    assert_eq!(answer.responses[0].partitions[0].error_code, OFFSET_OUT_OF_RANGE);
    assert_eq!(start_of(&mut p), 1);
}

/// B02, KAFKA-6482: with append time, times of clients neither keep records nor lose them.
#[test]
fn append_time_decides_where_the_topic_says_so() {
    let broker = Broker::start_set(&QUICK);
    let mut other = Partition::create(&broker, "create-time", &[("retention.ms", "3600000")]);
    let year = 365 * 86_400_000;
    let microseconds = now_ms() * 1000;
    assert_eq!(
        other.produce(&at_time(microseconds)).error_code,
        INVALID_TIMESTAMP
    );

    let mut p = Partition::create(
        &broker,
        "append-time",
        &[
            ("message.timestamp.type", "LogAppendTime"),
            ("retention.ms", "3600000"),
        ],
    );
    let before = now_ms();
    for time in [0, before + year] {
        let answer = p.produce(&at_time(time));
        assert_eq!(answer.error_code, 0);
        assert!((before..=now_ms()).contains(&answer.log_append_time_ms));
    }
    // A topic beside it, of which the oldest go, tells when a round went by.
    other.append(&at_time(now_ms() - 2 * 3_600_000));
    await_start(&mut other, 1);
    assert_eq!(start_of(&mut p), 0, "an hour has not passed since the append");
    set_config(&mut broker.client(), "append-time", "retention.ms", "1");
    await_start(&mut p, 2);
}

/// KAFKA-6482: a time from the future keeps its segment until it is past, and no longer; size does not ask for times.
#[test]
fn a_time_from_the_future_keeps_its_segment_only_until_it_is_past() {
    let broker = Broker::start_set(&QUICK);
    let mut p = Partition::create(&broker, "future", &[("retention.ms", "10")]);
    let due = now_ms() + 3_000;
    p.append(&at_time(due));
    await_start(&mut p, 1);
    assert!(now_ms() > due + 10);

    let mut sized = Partition::create(
        &broker,
        "future-size",
        &[("retention.ms", "10"), ("retention.bytes", "0")],
    );
    sized.append(&at_time(now_ms() + 3_000_000));
    await_start(&mut sized, 1);
}

/// B01: a batch whose header has a wrong largest timestamp expires by the times of its records.
#[test]
fn a_wrong_largest_timestamp_in_the_header_keeps_nothing() {
    let broker = Broker::start_set(&QUICK);
    let mut p = Partition::create(&broker, "b01", &[("retention.ms", "60000")]);
    let old = now_ms() - 120_000;
    for header in [-1, now_ms() + 3_000_000] {
        let mut batch = at_time(old);
        batch.max_timestamp = header;
        p.append(&batch);
    }
    await_start(&mut p, 2);
    p.append(&at_time(now_ms()));
    assert_eq!(start_of(&mut p), 2);
}

/// Kafka: only the policy delete deletes, and a change of the policy holds from the next round on.
#[test]
fn a_compacted_topic_keeps_its_old_records() {
    let broker = Broker::start_set(&QUICK);
    let mut p = Partition::create(
        &broker,
        "compacted",
        &[("cleanup.policy", "compact"), ("retention.ms", "1")],
    );
    let keyed = Batch::new(vec![Record::new(1000, Some(b"k"), Some(b"v"))]);
    p.append(&keyed);
    let mut other = Partition::create(&broker, "other", &[("retention.ms", "1")]);
    other.append(&at_time(1000));
    await_start(&mut other, 1);
    assert_eq!(start_of(&mut p), 0);
    set_config(
        &mut broker.client(),
        "compacted",
        "cleanup.policy",
        "compact,delete",
    );
    await_start(&mut p, 1);
}

/// Kafka: `log.retention.ms` wins over minutes, these over hours; a topic's own over all.
#[test]
fn the_broker_s_keys_hold_in_kafka_s_order() {
    let mut settings = QUICK.to_vec();
    settings.extend(["log.retention.hours=1000000", "log.retention.minutes=1"]);
    let broker = Broker::start_set(&settings);
    let mut kept = Partition::create(&broker, "kept", &[("retention.ms", "-1")]);
    let mut p = Partition::create(&broker, "minutes", &[]);
    for p in [&mut kept, &mut p] {
        p.append(&at_time(now_ms() - 90_000));
    }
    await_start(&mut p, 1);
    assert_eq!(start_of(&mut kept), 0);
}

/// B30: redpanda #264: of a topic that was deleted after much was written and read, no folder and no descriptor stays.
#[test]
fn a_deleted_topic_leaves_no_folder_and_no_descriptor() {
    let broker = Broker::start_set(&QUICK);
    for round in 0..3 {
        let topic = format!("gone-{round}");
        let mut p = Partition::create(&broker, &topic, &[("segment.bytes", "1048576")]);
        for _ in 0..4 {
            p.append(&Batch::of_values([vec![b'x'; 700_000]]));
        }
        assert_eq!(p.read_all(0).len(), 4);
        let state = DeleteTopicState::default().with_name(Some(name(&topic)));
        let request = DeleteTopicsRequest::default()
            .with_topics(vec![state])
            .with_timeout_ms(30_000);
        assert_eq!(broker.client().call(6, &request).responses[0].error_code, 0);
    }
    let logs = broker.data_directory().join("shard-0/logs");
    let descriptors = format!("/proc/{}/fd", broker.pid());
    let left = || {
        let folders = std::fs::read_dir(&logs).unwrap().count();
        let links = std::fs::read_dir(&descriptors).unwrap().flatten();
        let open = links.filter(|link| {
            let target = std::fs::read_link(link.path()).unwrap_or_default();
            target.starts_with(&logs)
        });
        (folders, open.count())
    };
    let end = Instant::now() + PATIENCE;
    while left() != (0, 0) {
        assert!(Instant::now() < end, "folders and descriptors left: {:?}", left());
        thread::sleep(Duration::from_millis(50));
    }
}
