//! Batches that kafka-clients wrote are accepted, unchanged, and read as they were written.

use std::ops::ControlFlow;

use strandline_wire::batch::{
    BatchBuilder, Codec, RecordPosition, ValidationRules, batches, find_timestamp, for_each_record,
    max_timestamp_record, validate,
};

type OwnedHeader = (Vec<u8>, Option<Vec<u8>>);
type OwnedRecord = (i32, i64, Option<Vec<u8>>, Option<Vec<u8>>, Vec<OwnedHeader>);

const CAP: usize = 1 << 20;

fn golden() -> [(Codec, &'static [u8]); 5] {
    [
        (Codec::None, include_bytes!("golden/none.bin")),
        (Codec::Gzip, include_bytes!("golden/gzip.bin")),
        (Codec::Snappy, include_bytes!("golden/snappy.bin")),
        (Codec::Lz4, include_bytes!("golden/lz4.bin")),
        (Codec::Zstd, include_bytes!("golden/zstd.bin")),
    ]
}

fn big_value() -> Vec<u8> {
    (0..40_000_u32).map(|at| b'a' + (at * 7 % 26) as u8).collect()
}

fn expected() -> Vec<OwnedRecord> {
    let some = |text: &str| Some(text.as_bytes().to_vec());
    let headers = vec![
        (b"a".to_vec(), some("1")),
        (b"a".to_vec(), None),
        (b"b".to_vec(), some("")),
    ];
    vec![
        (0, 1000, some("key"), some("value"), vec![]),
        (1, 1009, None, some(""), vec![]),
        (2, 1007, some(""), None, vec![]),
        (3, 1009, some("h"), some("v"), headers),
        (4, 995, some("big"), Some(big_value()), vec![]),
    ]
}

fn read(batch: &[u8]) -> Vec<OwnedRecord> {
    let mut found = Vec::new();
    let walked = for_each_record(batch, CAP, |record| {
        let headers = record
            .headers()
            .map(|(name, value)| (name.to_vec(), value.map(<[u8]>::to_vec)));
        found.push((
            record.offset_delta,
            record.timestamp,
            record.key.map(<[u8]>::to_vec),
            record.value.map(<[u8]>::to_vec),
            headers.collect(),
        ));
        ControlFlow::<()>::Continue(())
    });
    assert_eq!(walked, Ok(None));
    found
}

#[test]
fn every_codec_is_read() {
    for (codec, bytes) in golden() {
        let batch = batches(bytes).next().unwrap().unwrap();
        assert_eq!(batch.bytes.len(), bytes.len());
        assert_eq!(batch.header.codec(), Some(codec));
        assert_eq!(
            (
                batch.header.producer_id,
                batch.header.producer_epoch,
                batch.header.base_sequence
            ),
            (4242, 7, 99)
        );
        assert!(read(bytes) == expected(), "{codec:?}");
    }
}

#[test]
fn every_codec_is_accepted_unchanged() {
    let rules = ValidationRules {
        now_ms: 2000,
        ..ValidationRules::default()
    };
    for (codec, bytes) in golden() {
        let validated = validate(bytes, &rules).unwrap();
        assert_eq!(
            (&*validated.bytes, validated.header_changed),
            (bytes, false),
            "{codec:?}"
        );
        assert_eq!(
            (validated.header.max_timestamp, validated.offset_of_max_timestamp),
            (1009, 1)
        );
    }
}

#[test]
fn records_are_found_by_their_time() {
    let at = |offset, timestamp| Some(RecordPosition { offset, timestamp });
    for (codec, bytes) in golden() {
        assert_eq!(max_timestamp_record(bytes, 0, CAP), Ok(at(1, 1009)), "{codec:?}");
        for (target, found) in [
            (i64::MIN, at(0, 1000)),
            (1000, at(0, 1000)),
            (1001, at(1, 1009)),
            (1009, at(1, 1009)),
            (1010, None),
        ] {
            assert_eq!(
                find_timestamp(bytes, target, 0, CAP),
                Ok(found),
                "{codec:?} {target}"
            );
        }
    }
}

#[test]
fn the_builder_writes_the_bytes_of_kafka_clients() {
    let mut builder = BatchBuilder::new().producer(4242, 7, 99);
    let records = expected();
    for (_, timestamp, key, value, headers) in &records {
        let headers: Vec<_> = headers
            .iter()
            .map(|(name, value)| (&name[..], value.as_deref()))
            .collect();
        builder.record_with_headers(*timestamp, key.as_deref(), value.as_deref(), &headers);
    }
    let (_, uncompressed) = golden()[0];
    assert_eq!((builder.size(), builder.record_count()), (uncompressed.len(), 5));
    assert!(builder.clone().finish().unwrap() == uncompressed);
    // Compressors differ in their choices; what they wrote must still be read.
    for codec in Codec::ALL {
        let batch = builder.clone().compression(codec).finish().unwrap();
        assert!(read(&batch) == records, "{codec:?}");
    }
}
