//! Record batches under random content and random damage.

use std::ops::ControlFlow;

use bytes::Bytes;
use kafka_protocol::records::RecordBatchDecoder;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use strandline_wire::batch::{
    BatchBuilder, BatchHeader, Codec, Compression, HEADER_SIZE, TimestampType, TopicCompression,
    ValidationRules, batches, check_crc, find_timestamp, for_each_record, max_timestamp_record,
    patch_and_recrc, records, validate,
};

const CAP: usize = 1 << 20;

type Headers = Vec<(Vec<u8>, Option<Vec<u8>>)>;
type Sample = (i64, Option<Vec<u8>>, Option<Vec<u8>>, Headers);

fn sample() -> impl Strategy<Value = Sample> {
    let bytes = || option::of(vec(any::<u8>(), 0..60));
    let name = "[a-c]{0,3}".prop_map(String::into_bytes);
    (-1..1_000_000_i64, bytes(), bytes(), vec((name, bytes()), 0..4))
}

fn build(samples: &[Sample], codec: Codec) -> Vec<u8> {
    let mut builder = BatchBuilder::new()
        .compression(codec)
        .producer(5, 1, i32::MAX - 1);
    for (timestamp, key, value, headers) in samples {
        let headers: Vec<_> = headers
            .iter()
            .map(|(name, value)| (&name[..], value.as_deref()))
            .collect();
        builder.record_with_headers(*timestamp, key.as_deref(), value.as_deref(), &headers);
    }
    builder.finish().expect("a batch")
}

fn read(batch: &[u8]) -> Vec<Sample> {
    let mut found = Vec::new();
    let walked = for_each_record(batch, CAP, |record| {
        assert_eq!(record.offset_delta as usize, found.len());
        let headers = record
            .headers()
            .map(|(name, value)| (name.to_vec(), value.map(<[u8]>::to_vec)));
        let (key, value) = (record.key.map(<[u8]>::to_vec), record.value.map(<[u8]>::to_vec));
        found.push((record.timestamp, key, value, headers.collect()));
        ControlFlow::<()>::Continue(())
    });
    assert_eq!(walked, Ok(None));
    found
}

fn codec() -> impl Strategy<Value = Codec> {
    proptest::sample::select(&Codec::ALL[..])
}

fn rules() -> impl Strategy<Value = ValidationRules> {
    let compression = prop_oneof![
        Just(TopicCompression::Producer),
        codec().prop_map(|codec| TopicCompression::Fixed(Compression { codec, level: None })),
    ];
    (compression, any::<bool>(), any::<bool>(), 0..2_000_000_i64).prop_map(
        |(compression, append_time, compacted, now_ms)| {
            let timestamp_type = if append_time {
                TimestampType::LogAppendTime
            } else {
                TimestampType::CreateTime
            };
            let decompressed_max_bytes = CAP;
            ValidationRules {
                compression,
                timestamp_type,
                compacted,
                now_ms,
                decompressed_max_bytes,
                ..Default::default()
            }
        },
    )
}

proptest! {
    #[test]
    fn what_was_built_is_read(samples in vec(sample(), 1..30), codec in codec()) {
        let batch = build(&samples, codec);
        prop_assert!(check_crc(&batch));
        prop_assert_eq!(read(&batch), samples.clone());
        let header = BatchHeader::decode(&batch).unwrap();
        prop_assert_eq!(header.record_count as usize, samples.len());
        prop_assert_eq!(header.size(), Some(batch.len()));
        if codec == Codec::None {
            let times: Vec<_> = records(&batch).unwrap().map(|record| record.unwrap().timestamp).collect();
            prop_assert_eq!(times, samples.iter().map(|sample| sample.0).collect::<Vec<_>>());
        }
    }

    /// The generated crate's own reader sees the same records (it keeps no duplicate header names).
    #[test]
    fn an_independent_reader_agrees(samples in vec(sample(), 1..30)) {
        let mut batch = Bytes::from(build(&samples, Codec::None));
        let theirs = RecordBatchDecoder::decode(&mut batch).unwrap();
        prop_assert_eq!(theirs.records.len(), samples.len());
        for (their, (timestamp, key, value, _)) in theirs.records.iter().zip(&samples) {
            prop_assert_eq!(their.timestamp, *timestamp);
            prop_assert_eq!(their.key.as_deref(), key.as_deref());
            prop_assert_eq!(their.value.as_deref(), value.as_deref());
            prop_assert_eq!(their.producer_id, 5);
        }
    }

    #[test]
    fn headers_round_trip(bytes: [u8; HEADER_SIZE]) {
        let mut bytes = bytes;
        bytes[16] = 2;
        let header = BatchHeader::decode(&bytes).unwrap();
        let mut again = [0; HEADER_SIZE];
        header.encode_into(&mut again);
        prop_assert_eq!(bytes, again);
    }

    #[test]
    fn times_are_found_as_by_looking_at_every_record(
        samples in vec(sample(), 1..30),
        codec in codec(),
        target in -2..1_000_001_i64,
    ) {
        let batch = build(&samples, codec);
        let times: Vec<_> = samples.iter().map(|sample| sample.0).collect();
        let first = times.iter().position(|time| *time >= target);
        let found = find_timestamp(&batch, target, 0, CAP).unwrap();
        prop_assert_eq!(found.map(|found| found.offset as usize), first);
        let largest = *times.iter().max().unwrap();
        let found = max_timestamp_record(&batch, 0, CAP).unwrap().unwrap();
        prop_assert_eq!(found.timestamp, largest);
        prop_assert_eq!(Some(found.offset as usize), times.iter().position(|time| *time == largest));
    }

    /// What validation lets through holds the same records, whatever was rewritten, and passes again.
    #[test]
    fn validation_keeps_the_records(samples in vec(sample(), 1..30), codec in codec(), rules in rules()) {
        let sent = build(&samples, codec);
        let Ok(validated) = validate(&sent, &rules) else {
            let keyless = rules.compacted && samples.iter().any(|sample| sample.1.is_none());
            prop_assert!(keyless, "only a keyless record may be refused here");
            return Ok(());
        };
        let mut stored = validated.bytes.to_vec();
        if validated.header_changed {
            patch_and_recrc(&mut stored, &validated.header);
        }
        prop_assert!(check_crc(&stored));
        let mut expected = samples.clone();
        if rules.timestamp_type == TimestampType::LogAppendTime {
            expected.iter_mut().for_each(|sample| sample.0 = rules.now_ms);
        }
        prop_assert_eq!(read(&stored), expected);
        let largest = max_timestamp_record(&stored, 0, CAP).unwrap().unwrap();
        prop_assert_eq!(validated.header.max_timestamp, largest.timestamp);
        prop_assert_eq!(i64::from(validated.offset_of_max_timestamp), largest.offset);
        if rules.timestamp_type == TimestampType::CreateTime {
            let again = validate(&stored, &rules).unwrap();
            prop_assert!(!again.header_changed);
            prop_assert_eq!(&*again.bytes, &stored[..]);
        }
    }

    /// Damage under a right CRC, as a hostile client would send it: refused, or still a batch that every reader can read.
    #[test]
    fn damage_is_refused_or_harmless(
        samples in vec(sample(), 1..10),
        codec in codec(),
        rules in rules(),
        damage in vec((any::<u16>(), any::<u8>()), 1..4),
    ) {
        let mut sent = build(&samples, codec);
        let body = sent.len() - 21;
        for (at, byte) in damage {
            sent[21 + usize::from(at) % body] = byte;
        }
        let crc = crc32c::crc32c(&sent[21..]).to_be_bytes();
        sent[17..21].copy_from_slice(&crc);
        if let Ok(validated) = validate(&sent, &rules) {
            let mut stored = validated.bytes.to_vec();
            if validated.header_changed {
                patch_and_recrc(&mut stored, &validated.header);
            }
            prop_assert!(check_crc(&stored));
            let mut count = 0;
            let walked = for_each_record(&stored, CAP, |record| {
                record.headers().for_each(drop);
                assert_eq!(record.offset_delta, count);
                count += 1;
                ControlFlow::<()>::Continue(())
            });
            prop_assert_eq!(walked, Ok(None));
            prop_assert_eq!(count, validated.header.record_count);
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in vec(any::<u8>(), 0..300)) {
        let _ = validate(&bytes, &ValidationRules::default());
        for batch in batches(&bytes) {
            let Ok(batch) = batch else { break };
            let _ = find_timestamp(batch.bytes, 0, 0, CAP);
            let _ = for_each_record(batch.bytes, CAP, |_| ControlFlow::<()>::Continue(()));
        }
    }
}

#[test]
fn a_record_set_ends_at_a_batch_that_is_cut_short() {
    let one = build(&[(1, None, None, vec![])], Codec::None);
    let two = [&one[..], &one].concat();
    for cut in 1..one.len() {
        let found: Vec<_> = batches(&two[..two.len() - cut]).collect();
        assert_eq!(found.len(), 1);
        assert!(found[0].is_ok());
    }
    let mut damaged = two;
    damaged[one.len() + 8..one.len() + 12].copy_from_slice(&7_i32.to_be_bytes());
    let found: Vec<_> = batches(&damaged).collect();
    assert_eq!(
        (found.len(), found[0].is_ok(), found[1].is_ok()),
        (2, true, false)
    );
}
