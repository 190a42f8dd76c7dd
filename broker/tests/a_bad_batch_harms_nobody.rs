//! A refused batch is answered with its code and a reason; the rest of the request, and the connection, go on.

mod support;

use bytes::Bytes;
use kafka_protocol::messages::ProduceRequest;
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::produce_response::PartitionProduceResponse;
use kafka_protocol::protocol::StrBytes;
use support::batch::{CONTROL, TRANSACTIONAL, compress, now_ms};
use support::topic::{PRODUCE_VERSION, name};
use support::{Batch, Broker, Codec, Partition, Record};

const CORRUPT_MESSAGE: i16 = 2;
const MESSAGE_TOO_LARGE: i16 = 10;
const INVALID_REQUIRED_ACKS: i16 = 21;
const INVALID_TIMESTAMP: i16 = 32;
const TRANSACTIONAL_ID_AUTHORIZATION_FAILED: i16 = 53;
const UNSUPPORTED_COMPRESSION_TYPE: i16 = 76;
const INVALID_RECORD: i16 = 87;

/// Expects a refusal that names its reason, and the partition unharmed.
fn expect(partition: &mut Partition, batch: Vec<u8>, code: i16, what: &str) -> PartitionProduceResponse {
    let end = partition.end_offset();
    let answer = partition.produce_bytes(batch);
    assert_eq!(answer.error_code, code, "{what}: {:?}", answer.error_message);
    assert_eq!(answer.base_offset, -1, "{what}");
    assert!(
        answer.error_message.as_ref().is_some_and(|text| !text.is_empty()),
        "{what} has no text"
    );
    assert_eq!(partition.end_offset(), end, "{what} was appended");
    answer
}

/// B06: librdkafka #488, redpanda PR #25807: one too large batch failed good ones, without a reason.
#[test]
fn a_too_large_batch_leaves_its_neighbour_alone() {
    let broker = Broker::start();
    support::topic::create(
        &mut broker.client(),
        "sizes",
        2,
        &[("max.message.bytes", "100000")],
    );
    let mut first = Partition::find(&broker, "sizes", 0);
    let data = |index: i32, batch: Vec<u8>| {
        PartitionProduceData::default()
            .with_index(index)
            .with_records(Some(Bytes::from(batch)))
    };
    let large = Batch::of_values([vec![b'x'; 150_000]]);
    let partitions = vec![
        data(0, large.encode()),
        data(1, Batch::of_values(["good"]).encode()),
    ];
    let topic = TopicProduceData::default()
        .with_name(name("sizes"))
        .with_partition_data(partitions);
    let request = ProduceRequest::default()
        .with_acks(-1)
        .with_timeout_ms(30_000)
        .with_topic_data(vec![topic]);
    let answer = first.client.call(PRODUCE_VERSION, &request);
    let answers = &answer.responses[0].partition_responses;
    assert_eq!(
        (answers[0].error_code, answers[1].error_code),
        (MESSAGE_TOO_LARGE, 0)
    );
    let text = answers[0].error_message.as_ref().unwrap().to_string();
    assert!(
        text.contains(&large.encode().len().to_string()) && text.contains("100000"),
        "{text}"
    );
    // The limit counts bytes as sent.
    assert_eq!(first.append(&large.compressed(Codec::Gzip)), 0);
}

#[test]
fn corrupt_batches_are_never_stored() {
    let broker = Broker::start();
    let mut partition = Partition::create(&broker, "corrupt", &[]);
    let good = Batch::of_values(["a", "b", "c"]);

    let mut flipped = good.encode();
    let last = flipped.len() - 1;
    flipped[last] ^= 1;
    expect(&mut partition, flipped, CORRUPT_MESSAGE, "a flipped bit");
    let mut cut = good.encode();
    cut.truncate(cut.len() - 1);
    // What is cut short counts as no batch at all, as in Kafka.
    expect(&mut partition, cut, INVALID_RECORD, "a cut batch");
    expect(&mut partition, vec![0; 20], CORRUPT_MESSAGE, "less than a header");

    let mut count = good.clone();
    count.record_count = 4;
    expect(&mut partition, count.encode(), INVALID_RECORD, "a wrong count");
    let garbage = good
        .clone()
        .compressed(Codec::Gzip)
        .encode_with(b"this is not gzip");
    let answer = partition.produce_bytes(garbage);
    assert_ne!(answer.error_code, 0, "garbage for gzip");
    let twice = [good.encode(), good.encode()].concat();
    expect(&mut partition, twice, INVALID_RECORD, "two batches");
    expect(&mut partition, Vec::new(), INVALID_RECORD, "no batch");

    let mut control = good.clone();
    control.flags = CONTROL;
    expect(
        &mut partition,
        control.encode(),
        INVALID_RECORD,
        "a control batch",
    );
    let mut transactional = good.clone().by_producer(1, 0, 0);
    transactional.flags = TRANSACTIONAL;
    let code = TRANSACTIONAL_ID_AUTHORIZATION_FAILED;
    expect(
        &mut partition,
        transactional.encode(),
        code,
        "a transactional batch",
    );
    assert_eq!(partition.append(&good), 0);
}

/// B01: a gzip batch whose header and records disagree on offsets is put right, not refused (redpanda PR #25200).
#[test]
fn wrong_offset_deltas_inside_a_compressed_batch_are_rewritten() {
    let broker = Broker::start();
    let mut partition = Partition::create(&broker, "deltas", &[]);
    let mut batch = Batch::of_values(["a", "b", "c"]).compressed(Codec::Gzip);
    batch.records[2].offset_delta = 3;
    partition.append(&batch);
    let stored = &partition.batches(0)[0];
    let deltas: Vec<i32> = stored.records.iter().map(|record| record.offset_delta).collect();
    assert_eq!(deltas, [0, 1, 2]);
    assert_eq!(stored.last_offset_delta, 2);
}

/// B45.
#[test]
fn a_zip_bomb_is_refused_within_bounds() {
    let broker = Broker::start();
    let mut partition = Partition::create(&broker, "bomb", &[]);
    partition.append(&Batch::of_values(["before"]));
    let before = broker.resident_bytes();
    let batch = Batch::of_values(["x"]);
    for codec in [Codec::Zstd, Codec::Gzip, Codec::Lz4] {
        let bomb = compress(codec, &vec![0; 1 << 27]);
        assert!(bomb.len() < 1_000_000);
        let answer = partition.produce_bytes(batch.clone().compressed(codec).encode_with(&bomb));
        assert_ne!(answer.error_code, 0, "{codec:?}");
    }
    let grown = broker.resident_bytes().saturating_sub(before);
    assert!(grown < 16 << 20, "grew by {grown} bytes");
    assert_eq!(partition.append(&Batch::of_values(["after"])), 1);
}

/// B07.
#[test]
fn records_without_a_key_do_not_enter_a_compacted_topic() {
    let broker = Broker::start();
    let mut partition = Partition::create(&broker, "compacted", &[("cleanup.policy", "compact")]);
    let now = now_ms();
    let records = vec![
        Record::new(now, Some(b"k"), Some(b"v")),
        Record::new(now, None, Some(b"v")),
    ];
    let answer = expect(
        &mut partition,
        Batch::new(records).encode(),
        INVALID_RECORD,
        "a null key",
    );
    assert_eq!(answer.record_errors.len(), 1);
    assert_eq!(answer.record_errors[0].batch_index, 1);
    // An empty key is a key.
    partition.append(&Batch::new(vec![Record::new(now, Some(b""), Some(b"v"))]));
}

/// B02: a time in microseconds. The bounds are the topic's.
#[test]
fn timestamps_far_in_the_future_are_refused() {
    let broker = Broker::start();
    let mut partition = Partition::create(&broker, "future", &[]);
    let microseconds = now_ms() * 1000;
    let batch = Batch::new(vec![Record::new(microseconds, None, Some(b"v"))]);
    expect(&mut partition, batch.encode(), INVALID_TIMESTAMP, "microseconds");
    let bounds = [
        ("message.timestamp.before.max.ms", "60000"),
        ("message.timestamp.after.max.ms", "120000"),
    ];
    let mut bounded = Partition::create(&broker, "bounded", &bounds);
    let now = now_ms();
    let at = |time: i64| Batch::new(vec![Record::new(time, None, Some(b"v"))]).encode();
    for (time, what) in [(now - 90_000, "too old"), (now + 180_000, "too young")] {
        let answer = expect(&mut bounded, at(time), INVALID_TIMESTAMP, what);
        assert_eq!(answer.record_errors[0].batch_index, 0);
    }
    for time in [now - 30_000, now + 60_000, -1] {
        assert_eq!(bounded.produce_bytes(at(time)).error_code, 0, "at {time}");
    }
}

#[test]
fn zstd_needs_a_version_that_knows_it() {
    let broker = Broker::start();
    let mut partition = Partition::create(&broker, "zstd", &[]);
    let request = partition.produce_request(-1, Batch::of_values(["v"]).compressed(Codec::Zstd).encode());
    for (version, code) in [
        (3, UNSUPPORTED_COMPRESSION_TYPE),
        (6, UNSUPPORTED_COMPRESSION_TYPE),
        (7, 0),
    ] {
        let answer = partition.client.call(version, &request);
        assert_eq!(
            answer.responses[0].partition_responses[0].error_code, code,
            "version {version}"
        );
    }
}

#[test]
fn acks_other_than_zero_one_and_all_and_transactions_are_refused() {
    let broker = Broker::start();
    let mut partition = Partition::create(&broker, "odd", &[]);
    let request = partition.produce_request(2, Batch::of_values(["v"]).encode());
    let answer = partition.client.call(PRODUCE_VERSION, &request);
    assert_eq!(
        answer.responses[0].partition_responses[0].error_code,
        INVALID_REQUIRED_ACKS
    );
    let request = partition
        .produce_request(-1, Batch::of_values(["v"]).encode())
        .with_transactional_id(Some(StrBytes::from_static_str("t").into()));
    let answer = partition.client.call(PRODUCE_VERSION, &request);
    let code = answer.responses[0].partition_responses[0].error_code;
    assert_eq!(code, TRANSACTIONAL_ID_AUTHORIZATION_FAILED);
    assert_eq!(partition.end_offset(), 0);
}

#[test]
fn without_acks_an_error_closes_the_connection() {
    let broker = Broker::start();
    let mut partition = Partition::create(&broker, "silent", &[]);
    let mut batch = Batch::of_values(["v"]).encode();
    batch[30] ^= 1;
    let request = partition.produce_request(0, batch);
    partition.client.send(PRODUCE_VERSION, &request).unwrap();
    partition.client.expect_close();
    assert_eq!(Partition::find(&broker, "silent", 0).end_offset(), 0);
}
