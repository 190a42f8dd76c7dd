//! Batches out of which records were taken: what stays is as it was, for our reader and for another codec.

use std::ops::ControlFlow;

use bytes::Bytes;
use kafka_protocol::records::RecordBatchDecoder;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use strandline_wire::batch::{
    BatchBuilder, BatchHeader, Codec, Filter, FilterRules, Filtered, TimestampType, check_crc, emptied,
    for_each_record, patch_and_recrc,
};

const CAP: usize = 1 << 20;

/// The name and the value of each, in order: names come twice, values may be null or empty.
type Headers = Vec<(Vec<u8>, Option<Vec<u8>>)>;

/// Offset, timestamp, key, value, headers.
type Found = (i64, i64, Option<Vec<u8>>, Option<Vec<u8>>, Headers);

#[derive(Clone, Debug)]
struct Sample {
    timestamp: i64,
    key: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
    headers: Headers,
    keep: bool,
}

fn sample() -> impl Strategy<Value = Sample> {
    let bytes = || option::of(vec(any::<u8>(), 0..40));
    let name = proptest::sample::select(vec![&b""[..], b"name", b"other"]).prop_map(<[u8]>::to_vec);
    let headers = vec((name, option::of(vec(any::<u8>(), 0..9))), 0..4);
    (-1..1_000_000_i64, bytes(), bytes(), headers, any::<bool>()).prop_map(
        |(timestamp, key, value, headers, keep)| Sample {
            timestamp,
            key,
            value,
            headers,
            keep,
        },
    )
}

fn build(samples: &[Sample], codec: Codec, append_time: bool) -> Vec<u8> {
    let mut builder = BatchBuilder::new()
        .compression(codec)
        .producer(5, 1, 7)
        .base_offset(100)
        .leader_epoch(3);
    for sample in samples {
        let headers = sample.headers.iter();
        let headers: Vec<_> = headers
            .map(|(name, value)| (&name[..], value.as_deref()))
            .collect();
        builder.record_with_headers(
            sample.timestamp,
            sample.key.as_deref(),
            sample.value.as_deref(),
            &headers,
        );
    }
    let mut batch = builder.finish().expect("a batch");
    if append_time {
        let mut header = BatchHeader::decode(&batch).expect("a batch");
        header.set_timestamp_type(TimestampType::LogAppendTime);
        header.max_timestamp = 2_000_000;
        patch_and_recrc(&mut batch, &header);
    }
    batch
}

fn read(batch: &[u8]) -> Vec<Found> {
    let header = BatchHeader::decode(batch).expect("a batch");
    let mut found = Vec::new();
    let walked = for_each_record(batch, CAP, |record| {
        found.push((
            record.offset(&header),
            record.timestamp,
            record.key.map(<[u8]>::to_vec),
            record.value.map(<[u8]>::to_vec),
            record
                .headers()
                .map(|(name, value)| (name.to_vec(), value.map(<[u8]>::to_vec)))
                .collect(),
        ));
        ControlFlow::<()>::Continue(())
    });
    assert_eq!(walked, Ok(None));
    found
}

fn run(batch: &[u8], step: usize, horizon: i64, keep: impl Fn(i32) -> bool) -> Filtered {
    let rules = FilterRules {
        delete_horizon_ms: horizon,
        is_marker: false,
        decompressed_max_bytes: CAP,
    };
    let mut filter = Filter::new(batch, rules).expect("a batch");
    let mut asked = -1;
    for _ in 0..100_000 {
        let result = filter
            .advance(step, |record| {
                assert!(record.offset_delta > asked, "each record is asked about once");
                asked = record.offset_delta;
                keep(record.offset_delta)
            })
            .expect("a whole batch");
        if let Some(result) = result {
            return result;
        }
    }
    panic!("the filter does not come to an end");
}

proptest! {
    #[test]
    fn what_stays_is_as_it_was(
        samples in vec(sample(), 1..30),
        codec in proptest::sample::select(&Codec::ALL[..]),
        append_time: bool,
        step in 1..4000_usize,
        horizon in 0..3_000_000_i64,
    ) {
        let batch = build(&samples, codec, append_time);
        let before = BatchHeader::decode(&batch).expect("a batch");
        let kept: Vec<Found> = read(&batch)
            .into_iter()
            .zip(&samples)
            .filter(|(_, sample)| sample.keep)
            .map(|(found, _)| found)
            .collect();
        let has_tombstone = kept.iter().any(|(_, _, _, value, _)| value.is_none());
        match run(&batch, step, horizon, |at| samples[at as usize].keep) {
            Filtered::Unchanged => {
                prop_assert_eq!(kept.len(), samples.len());
                prop_assert!(!has_tombstone, "a tombstone needs its horizon");
            }
            Filtered::Nothing => prop_assert!(kept.is_empty()),
            Filtered::Changed(bytes, header) => {
                prop_assert!(kept.len() < samples.len() || has_tombstone);
                prop_assert!(check_crc(&bytes));
                prop_assert_eq!(BatchHeader::decode(&bytes), Ok(header));
                prop_assert_eq!(header.size(), Some(bytes.len()));
                prop_assert_eq!(&read(&bytes), &kept);
                prop_assert_eq!(header.delete_horizon_ms(), has_tombstone.then_some(horizon));
                prop_assert_eq!(header.record_count as usize, kept.len());
                let largest = kept.iter().map(|found| found.1).max();
                prop_assert_eq!(Some(header.max_timestamp), largest);
                prop_assert_eq!(header.codec(), Some(codec));
                prop_assert_eq!(
                    (header.base_offset, header.last_offset(), header.last_sequence(), header.producer_id),
                    (before.base_offset, before.last_offset(), before.last_sequence(), before.producer_id)
                );
                prop_assert_eq!(header.partition_leader_epoch, 3);
                if codec == Codec::None {
                    let mut other = Bytes::from(bytes.clone());
                    let records = RecordBatchDecoder::decode(&mut other).expect("another codec reads it").records;
                    let offsets: Vec<i64> = records.iter().map(|record| record.offset).collect();
                    prop_assert_eq!(offsets, kept.iter().map(|found| found.0).collect::<Vec<_>>());
                }
                // A second time, nothing changes any more: the horizon stays the first one.
                let again = run(&bytes, step, horizon + 1, |_| true);
                prop_assert_eq!(again, Filtered::Unchanged);
            }
        }
    }

    #[test]
    fn what_is_no_batch_is_refused(bytes in vec(any::<u8>(), 0..200), at in 0..61_usize, with: u8) {
        let rules = FilterRules { delete_horizon_ms: 0, is_marker: false, decompressed_max_bytes: CAP };
        let mut batch = build(&[Sample { timestamp: 1, key: None, value: None, headers: Headers::new(), keep: true }], Codec::None, false);
        batch[at] = with;
        for bytes in [bytes, batch] {
            if let Ok(mut filter) = Filter::new(&bytes, rules) {
                while let Ok(None) = filter.advance(10, |_| false) {}
            }
        }
    }
}

#[test]
fn a_marker_gets_its_horizon_without_a_tombstone() {
    let rules = FilterRules {
        delete_horizon_ms: 77,
        is_marker: true,
        decompressed_max_bytes: CAP,
    };
    let mut builder = BatchBuilder::new()
        .producer(9, 0, -1)
        .control(true)
        .transactional(true);
    builder.record(50, Some(&[0, 0, 0, 1]), Some(&[0; 6]));
    let batch = builder.finish().expect("a batch");
    let mut filter = Filter::new(&batch, rules).expect("a batch");
    let changed = loop {
        if let Some(Filtered::Changed(bytes, _)) = filter.advance(100, |_| true).expect("whole") {
            break bytes;
        }
    };
    let header = BatchHeader::decode(&changed).expect("a batch");
    assert_eq!(header.delete_horizon_ms(), Some(77));
    assert!(header.is_control() && header.is_transactional());
    assert_eq!(read(&changed), read(&batch));
}

#[test]
fn an_emptied_batch_keeps_offsets_and_sequences() {
    let samples = vec![
        Sample {
            timestamp: 60,
            key: Some(vec![1]),
            value: Some(vec![2]),
            headers: Headers::new(),
            keep: false,
        };
        4
    ];
    let batch = build(&samples, Codec::Gzip, false);
    let before = BatchHeader::decode(&batch).expect("a batch");
    let (empty, header) = emptied(&before);
    assert_eq!(BatchHeader::decode(&empty), Ok(header));
    assert!(check_crc(&empty));
    assert_eq!(read(&empty), []);
    assert_eq!((header.base_offset, header.last_offset()), (100, 103));
    assert_eq!((header.base_sequence, header.last_sequence()), (7, 10));
    assert_eq!(header.max_timestamp, 60);
    assert_eq!(header.codec(), Some(Codec::None));
    let mut other = Bytes::from(empty);
    let records = RecordBatchDecoder::decode(&mut other).expect("another codec reads it");
    assert_eq!(records.records.len(), 0);
}
