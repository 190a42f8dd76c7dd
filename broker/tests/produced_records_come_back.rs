//! What was produced is what is fetched: every codec, keys and values null and empty, headers, sizes, timestamps.

mod support;

use support::batch::{CODECS, LOG_APPEND_TIME, now_ms};
use support::{Batch, Broker, Codec, Partition, Record};

const MESSAGE_TOO_LARGE: i16 = 10;

#[test]
fn with_every_codec() {
    let broker = Broker::start();
    let mut partition = Partition::create(&broker, "codecs", &[]);
    let values: Vec<Vec<u8>> = (0..50)
        .map(|n| format!("value {n} ").repeat(20).into_bytes())
        .collect();
    for (round, codec) in CODECS.into_iter().enumerate() {
        let offset = partition.append(&Batch::of_values(&values).compressed(codec));
        assert_eq!(offset, round as i64 * 50);
        let batches = partition.batches(offset);
        assert_eq!(batches.len(), 1);
        assert_eq!((batches[0].codec, batches[0].base_offset), (codec, offset));
        assert_eq!(batches[0].values(), values);
        assert!(batches[0].leader_epoch >= 0);
    }
    assert_eq!(partition.read_all(0).len(), 250);
}

/// B07: kafka-backup #155, Dekaf #1627: null and empty were confused, duplicate header names lost.
#[test]
fn null_and_empty_stay_apart_and_headers_keep_their_order() {
    let broker = Broker::start();
    let mut partition = Partition::create(&broker, "nulls", &[]);
    let choices: [Option<&[u8]>; 3] = [None, Some(b""), Some(b"data")];
    let mut records = Vec::new();
    for key in choices {
        for value in choices {
            records.push(Record::new(now_ms(), key, value));
        }
    }
    for (index, record) in records.iter_mut().enumerate() {
        let some: Vec<(String, Option<Vec<u8>>)> = choices
            .iter()
            .map(|value| ("same".to_owned(), value.map(<[u8]>::to_vec)))
            .collect();
        record.headers = match index % 3 {
            0 => Vec::new(),
            1 => some,
            _ => (0..1000)
                .map(|n| (format!("h{n}"), Some(vec![n as u8])))
                .collect(),
        };
    }
    for codec in CODECS {
        let sent = Batch::new(records.clone());
        let offset = partition.append(&sent.clone().compressed(codec));
        let received = &partition.batches(offset)[0];
        assert_eq!(received.records, sent.records);
    }
}

#[test]
fn large_records_and_many_small_ones() {
    let broker = Broker::start();
    let mut partition = Partition::create(&broker, "large", &[("max.message.bytes", "20000000")]);
    let large: Vec<u8> = (0..10_000_000u32).map(|n| (n * 31 % 251) as u8).collect();
    partition.append(&Batch::of_values([&large]));
    for n in 0..200 {
        assert_eq!(partition.append(&Batch::of_values([format!("small {n}")])), n + 1);
    }
    let records = partition.read_all(0);
    assert_eq!(records.len(), 201);
    assert!(records[&0].value.as_deref() == Some(&large[..]));
    assert_eq!(records[&200].value.as_deref(), Some(&b"small 199"[..]));
}

/// B01: redpanda PR #25200: some clients leave the maximum timestamp unset or wrong; lookups by time then missed the batch.
#[test]
fn the_maximum_timestamp_is_the_true_one() {
    let broker = Broker::start();
    let mut partition = Partition::create(&broker, "max-timestamp", &[]);
    let start = now_ms() - 60_000;
    for codec in [Codec::None, Codec::Gzip] {
        for wrong in [-1, start + 500_000_000] {
            let records = (0..10)
                .map(|n| Record::new(start + n * 10, None, Some(b"v")))
                .collect();
            let mut batch = Batch::new(records).compressed(codec);
            batch.max_timestamp = wrong;
            let offset = partition.append(&batch);
            assert_eq!(partition.batches(offset)[0].max_timestamp, start + 90);
        }
    }
    let found = partition.list_offset(7, start + 70);
    assert_eq!(
        (found.error_code, found.offset, found.timestamp),
        (0, 7, start + 70)
    );
}

/// B02: redpanda #29189, #11922: the append time was missing from the answer. Times of clients have no bounds there.
#[test]
fn append_time_is_the_brokers() {
    let broker = Broker::start();
    let mut partition = Partition::create(
        &broker,
        "append-time",
        &[("message.timestamp.type", "LogAppendTime")],
    );
    for client_time in [0, now_ms() + 365 * 86_400_000] {
        let before = now_ms();
        let answer = partition.produce(&Batch::new(vec![Record::new(client_time, None, Some(b"v"))]));
        assert_eq!(answer.error_code, 0);
        assert!(
            (before..=now_ms()).contains(&answer.log_append_time_ms),
            "{}",
            answer.log_append_time_ms
        );
        let stored = &partition.batches(answer.base_offset)[0];
        assert_eq!(stored.flags & LOG_APPEND_TIME, LOG_APPEND_TIME);
        assert_eq!(stored.max_timestamp, answer.log_append_time_ms);
    }
    // The time index follows the broker's clock.
    let last = partition.batches(1)[0].max_timestamp;
    assert_eq!(partition.list_offset(7, last + 1).offset, -1);
    assert_eq!(partition.list_offset(7, 1).offset, 0);
    let mut by_client = Partition::create(&broker, "create-time", &[]);
    assert_eq!(by_client.produce(&Batch::of_values(["v"])).log_append_time_ms, -1);
}

/// B05: redpanda #866: compression.type was accepted, shown and ignored.
#[test]
fn the_topics_codec_is_obeyed() {
    let broker = Broker::start();
    let values: Vec<String> = (0..20).map(|n| format!("value {n} ").repeat(10)).collect();
    let topics = [
        ("producer", None),
        ("uncompressed", Some(Codec::None)),
        ("gzip", Some(Codec::Gzip)),
        ("snappy", Some(Codec::Snappy)),
        ("lz4", Some(Codec::Lz4)),
        ("zstd", Some(Codec::Zstd)),
    ];
    for (name, stored) in topics {
        let mut partition =
            Partition::create(&broker, &format!("type-{name}"), &[("compression.type", name)]);
        for sent in [Codec::None, Codec::Gzip, Codec::Zstd] {
            let offset = partition.append(&Batch::of_values(&values).compressed(sent));
            let received = &partition.batches(offset)[0];
            assert_eq!(received.codec, stored.unwrap_or(sent), "{name} from {sent:?}");
            assert_eq!(received.record_count, 20);
            assert_eq!(
                received.values(),
                values.iter().map(|v| v.clone().into_bytes()).collect::<Vec<_>>()
            );
        }
    }
}

/// B05: what recompression makes too large is refused; records that are stored keep their codec.
#[test]
fn recompression_minds_the_limit_and_leaves_stored_records_alone() {
    let broker = Broker::start();
    let limit = [
        ("max.message.bytes", "20000"),
        ("compression.type", "uncompressed"),
    ];
    let mut partition = Partition::create(&broker, "grows", &limit);
    let small_when_zipped = Batch::of_values([vec![b'x'; 50_000]]).compressed(Codec::Gzip);
    let answer = partition.produce(&small_when_zipped);
    assert_eq!(answer.error_code, MESSAGE_TOO_LARGE);
    assert!(answer.error_message.is_some());
    assert_eq!(partition.end_offset(), 0);

    let mut partition = Partition::create(&broker, "changes", &[("compression.type", "gzip")]);
    partition.append(&Batch::of_values(["before"]));
    support::topic::set_config(&mut broker.client(), "changes", "compression.type", "lz4");
    partition.append(&Batch::of_values(["after"]));
    let codecs: Vec<Codec> = partition.batches(0).iter().map(|batch| batch.codec).collect();
    assert_eq!(codecs, [Codec::Gzip, Codec::Lz4]);
}

#[test]
fn acks_zero_one_and_all_are_all_stored() {
    let broker = Broker::start();
    let mut partition = Partition::create(&broker, "acks", &[]);
    let unacknowledged = partition.produce_request(0, Batch::of_values(["zero"]).encode());
    partition
        .client
        .send(support::topic::PRODUCE_VERSION, &unacknowledged)
        .unwrap();
    for (acks, value) in [(1, "one"), (-1, "all")] {
        let request = partition.produce_request(acks, Batch::of_values([value]).encode());
        let answer = partition.client.call(support::topic::PRODUCE_VERSION, &request);
        assert_eq!(answer.responses[0].partition_responses[0].error_code, 0);
    }
    let values: Vec<_> = partition
        .read_all(0)
        .into_values()
        .map(|r| r.value.unwrap())
        .collect();
    assert_eq!(values, [b"zero".to_vec(), b"one".to_vec(), b"all".to_vec()]);
}
