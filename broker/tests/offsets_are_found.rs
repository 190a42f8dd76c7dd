//! ListOffsets, OffsetForLeaderEpoch and DeleteRecords: where a partition begins and ends, and what lies at a time.

mod support;

use kafka_protocol::messages::OffsetForLeaderEpochRequest;
use kafka_protocol::messages::offset_for_leader_epoch_request::{
    OffsetForLeaderPartition, OffsetForLeaderTopic,
};
use support::batch::{CODECS, now_ms};
use support::topic::name;
use support::{Batch, Broker, Partition, Record};

const LATEST: i64 = -1;
const EARLIEST: i64 = -2;
const MAX_TIMESTAMP: i64 = -3;
const OFFSET_OUT_OF_RANGE: i16 = 1;
const UNSUPPORTED_VERSION: i16 = 35;
const POLICY_VIOLATION: i16 = 44;
const UNKNOWN_LEADER_EPOCH: i16 = 75;

/// Their records are of the year 1970: retention would delete them.
const KEPT: &[(&str, &str)] = &[("retention.ms", "-1")];

fn at_times(times: &[i64]) -> Batch {
    Batch::new(
        times
            .iter()
            .map(|time| Record::new(*time, None, Some(b"v")))
            .collect(),
    )
}

/// B16: KAFKA-16342, KAFKA-16310: the lookup of the largest timestamp was wrong in compressed batches.
#[test]
fn the_largest_timestamp_is_found_in_every_codec() {
    let broker = Broker::start();
    for codec in CODECS {
        let mut p = Partition::create(&broker, &format!("max-{codec:?}"), KEPT);
        let empty = p.list_offset(7, MAX_TIMESTAMP);
        assert_eq!((empty.error_code, empty.offset, empty.timestamp), (0, -1, -1));
        p.append(&at_times(&[5, 9, 7]).compressed(codec));
        p.append(&at_times(&[1, 9, 9]).compressed(codec));
        let found = p.list_offset(7, MAX_TIMESTAMP);
        assert_eq!(
            (found.error_code, found.offset, found.timestamp),
            (0, 1, 9),
            "{codec:?}"
        );
    }
}

/// B16.
#[test]
fn the_first_record_at_or_after_a_time_is_found() {
    let broker = Broker::start();
    let mut p = Partition::create(&broker, "times", KEPT);
    let base = now_ms() - 100_000;
    for (round, codec) in CODECS.into_iter().enumerate() {
        let start = base + round as i64 * 1000;
        p.append(&at_times(&[start, start + 10, start + 20]).compressed(codec));
    }
    for (time, offset, found_at) in [
        (0, 0, base),
        (base + 1, 1, base + 10),
        (base + 20, 2, base + 20),
        (base + 21, 3, base + 1000),
        (base + 4020, 14, base + 4020),
        (base + 4021, -1, -1),
    ] {
        let found = p.list_offset(7, time);
        assert_eq!(
            (found.error_code, found.offset, found.timestamp),
            (0, offset, found_at),
            "at {time}"
        );
    }
}

/// B16.
#[test]
fn append_time_topics_give_the_batchs_first_offset_for_the_maximum() {
    let broker = Broker::start();
    let mut p = Partition::create(&broker, "append", &[("message.timestamp.type", "LogAppendTime")]);
    p.append(&at_times(&[1, 2, 3]));
    assert_eq!(p.list_offset(7, MAX_TIMESTAMP).offset, 0);
}

/// B16.
#[test]
fn special_timestamps_are_known_from_the_version_that_brought_them() {
    let broker = Broker::start();
    let mut p = Partition::create(&broker, "special", KEPT);
    p.append(&at_times(&[1, 2, 3]));
    p.delete_records(1);
    for (timestamp, since, offset) in [
        (LATEST, 1, 3),
        (EARLIEST, 1, 1),
        (MAX_TIMESTAMP, 7, 2),
        (-4, 8, 1),
        (-5, 9, -1),
        (-6, 11, -1),
    ] {
        for version in 1..=11 {
            let found = p.list_offset(version, timestamp);
            let expected = if version >= since {
                (0, offset)
            } else {
                (UNSUPPORTED_VERSION, -1)
            };
            assert_eq!(
                (found.error_code, found.offset),
                expected,
                "{timestamp} in version {version}"
            );
        }
    }
    assert_eq!(p.list_offset(11, -7).error_code, UNSUPPORTED_VERSION);
}

/// B13: redpanda #10221, #2140, #12549: the start offset was not readable, or went back after a crash.
#[test]
fn deleted_records_stay_deleted() {
    let mut broker = Broker::start();
    let mut p = Partition::create(&broker, "deleted", KEPT);
    for _ in 0..10 {
        p.append(&Batch::of_values(["a", "b", "c"]));
    }
    // The middle of a batch.
    assert_eq!(p.delete_records(10).low_watermark, 10);
    // Lower: nothing changes. Beyond the high watermark, or nonsense: refused.
    assert_eq!(p.delete_records(3).low_watermark, 10);
    assert_eq!(p.delete_records(31).error_code, OFFSET_OUT_OF_RANGE);
    assert_eq!(p.delete_records(-7).error_code, OFFSET_OUT_OF_RANGE);
    for _ in 0..2 {
        assert_eq!(p.list_offset(7, EARLIEST).offset, 10);
        let below = p.fetch(9);
        assert_eq!(
            (below.error_code, below.log_start_offset, below.high_watermark),
            (OFFSET_OUT_OF_RANGE, 10, 30)
        );
        assert_eq!(p.batches(10)[0].base_offset, 9);
        assert_eq!(p.read_all(10).len(), 20);
        broker.kill();
        broker.launch();
        p = Partition::find(&broker, "deleted", 0);
    }
    assert_eq!(p.delete_records(-1).low_watermark, 30);
    assert_eq!((p.list_offset(7, EARLIEST).offset, p.end_offset()), (30, 30));
    assert_eq!(p.append(&Batch::of_values(["new"])), 30);
}

/// B16: with every record gone there is no offset at any time; librdkafka #4308 met an exception there.
#[test]
fn nothing_is_found_by_time_where_nothing_is_left() {
    let broker = Broker::start();
    let mut p = Partition::create(&broker, "expired", KEPT);
    p.append(&at_times(&[1000, 2000]));
    assert_eq!(p.delete_records(1).low_watermark, 1);
    // The record that is left, not the batch's first.
    assert_eq!(
        (p.list_offset(7, 5).offset, p.list_offset(7, MAX_TIMESTAMP).offset),
        (1, 1)
    );
    // So also with batches behind it.
    p.append(&at_times(&[900, 5]));
    assert_eq!(
        (p.list_offset(7, 5).offset, p.list_offset(7, MAX_TIMESTAMP).offset),
        (1, 1)
    );
    assert_eq!(p.delete_records(3).low_watermark, 3);
    assert_eq!(
        (p.list_offset(7, 5).offset, p.list_offset(7, MAX_TIMESTAMP).offset),
        (3, 3)
    );
    assert_eq!(p.list_offset(7, 6).offset, -1);
    assert_eq!(p.delete_records(-1).low_watermark, 4);
    for timestamp in [0, 5, i64::MAX, MAX_TIMESTAMP] {
        let found = p.list_offset(7, timestamp);
        assert_eq!(
            (found.error_code, found.offset, found.timestamp),
            (0, -1, -1),
            "at {timestamp}"
        );
    }
}

#[test]
fn records_of_a_compacted_topic_are_not_deleted_by_request() {
    let broker = Broker::start();
    let mut p = Partition::create(&broker, "compacted", &[("cleanup.policy", "compact")]);
    assert_eq!(p.delete_records(-1).error_code, POLICY_VIOLATION);
}

#[test]
fn epochs_end_where_the_next_one_starts() {
    let mut broker = Broker::start();
    let mut p = Partition::create(&broker, "epochs", KEPT);
    p.append(&Batch::of_values(["a", "b"]));
    let first = p.list_offset(7, LATEST).leader_epoch;
    broker.kill();
    broker.launch();
    let mut p = Partition::find(&broker, "epochs", 0);
    p.append(&Batch::of_values(["c"]));
    let second = p.list_offset(7, LATEST).leader_epoch;
    assert!(second > first);
    let mut ask = |epoch: i32, current: i32| {
        let partition = OffsetForLeaderPartition::default()
            .with_partition(0)
            .with_current_leader_epoch(current)
            .with_leader_epoch(epoch);
        let topic = OffsetForLeaderTopic::default()
            .with_topic(name("epochs"))
            .with_partitions(vec![partition]);
        let request = OffsetForLeaderEpochRequest::default()
            .with_replica_id((-1).into())
            .with_topics(vec![topic]);
        let answer = p.client.call(4, &request);
        let answer = &answer.topics[0].partitions[0];
        (answer.error_code, answer.leader_epoch, answer.end_offset)
    };
    assert_eq!(ask(first, -1), (0, first, 2));
    assert_eq!(ask(second, second), (0, second, 3));
    assert_eq!(ask(second + 1, -1), (0, -1, -1));
    assert_eq!(ask(second, second + 1), (UNKNOWN_LEADER_EPOCH, -1, -1));
    assert_eq!(ask(-1, -1), (0, -1, -1));
    assert_eq!(p.list_offset(7, EARLIEST).leader_epoch, first);
}

/// A client whose records are all deleted asks for an epoch that is kept no more: it ends where the log starts. Without an
/// end the client would take its position for lost, and start over.
#[test]
fn an_epoch_older_than_every_record_ends_where_the_log_starts() {
    let mut broker = Broker::start();
    let mut p = Partition::create(&broker, "old", KEPT);
    p.append(&Batch::of_values(["a", "b", "c"]));
    let first = p.list_offset(7, LATEST).leader_epoch;
    broker.kill();
    broker.launch();
    let mut p = Partition::find(&broker, "old", 0);
    p.append(&Batch::of_values(["d"]));
    assert_eq!(p.delete_records(3).low_watermark, 3);
    let partition = OffsetForLeaderPartition::default()
        .with_current_leader_epoch(-1)
        .with_leader_epoch(first);
    let topic = OffsetForLeaderTopic::default()
        .with_topic(name("old"))
        .with_partitions(vec![partition]);
    let request = OffsetForLeaderEpochRequest::default()
        .with_replica_id((-1).into())
        .with_topics(vec![topic]);
    for version in 2..=4 {
        let answer = p.client.call(version, &request);
        let answer = &answer.topics[0].partitions[0];
        assert_eq!(
            (answer.error_code, answer.leader_epoch, answer.end_offset),
            (0, first, 3)
        );
    }
}
