//! What decoding and validating may allocate: nothing for a batch that needs no change, little for honest requests, and a
//! small multiple of the bytes for hostile ones.

use std::fs;
use std::path::Path;

use bytes::BytesMut;
use strandline_wire::Grouped;
use strandline_wire::batch::{
    BatchBuilder, Codec, Filter, FilterRules, Filtered, TimestampType, ValidationRules, find_timestamp,
    max_timestamp_record, validate,
};
use strandline_wire::fuzz_entries;
use strandline_wire::produce::{self, ProducePartition, ProduceRequest, TopicRef};

/// The number of allocations, and the most bytes held at once beyond those held before.
fn measure(run: impl FnOnce()) -> (u64, u64) {
    let info = allocation_counter::measure(run);
    (info.count_total, info.bytes_max)
}

const NOW: i64 = 1_700_000_000_000;

fn rules() -> ValidationRules {
    ValidationRules {
        now_ms: NOW,
        ..ValidationRules::default()
    }
}

#[test]
fn an_uncompressed_batch_is_validated_without_an_allocation() {
    let mut builder = BatchBuilder::new().producer(1, 0, 0);
    for _ in 0..1000 {
        builder.record_with_headers(NOW, Some(b"key"), Some(&[1; 100]), &[(b"name", Some(b"value"))]);
    }
    let batch = builder.finish().expect("a batch");
    for timestamp_type in [TimestampType::CreateTime, TimestampType::LogAppendTime] {
        let rules = ValidationRules {
            timestamp_type,
            compacted: true,
            ..rules()
        };
        let (allocations, _) = measure(|| assert!(validate(&batch, &rules).is_ok()));
        assert_eq!(allocations, 0, "{timestamp_type:?}");
    }
    let (allocations, _) = measure(|| {
        assert!(find_timestamp(&batch, NOW + 1, 0, 0).is_ok());
        assert!(max_timestamp_record(&batch, 0, 0).is_ok());
    });
    assert_eq!(allocations, 0);
}

/// The cleaner unpacked each record whole, and in one turn: 100 MB and seconds for one that came in as 450 KB.
#[test]
fn a_record_that_unpacks_to_much_is_filtered_in_steps_and_never_whole() {
    const VALUE: usize = 16 << 20;
    const STEP: usize = 64 << 10;
    let rules = FilterRules {
        delete_horizon_ms: 0,
        is_marker: false,
        decompressed_max_bytes: usize::MAX,
    };
    for codec in [Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
        let mut builder = BatchBuilder::new().compression(codec);
        builder.record(NOW, Some(b"large"), Some(&vec![0; VALUE]));
        builder.record(NOW, Some(b"small"), Some(b"v"));
        let batch = builder.finish().expect("a batch");
        for (dropped, parts) in [("none", 1), ("small", 2), ("large", 1)] {
            let mut steps = 0;
            let mut result = None;
            let (_, bytes) = measure(|| {
                let mut filter = Filter::new(&batch, rules).expect("a batch");
                while result.is_none() {
                    steps += 1;
                    result = filter
                        .advance(STEP, |record| record.key != Some(dropped.as_bytes()))
                        .expect("a whole batch");
                }
            });
            assert!(steps >= parts * VALUE / STEP, "{codec:?}: {steps} steps");
            // What is written, which grows by doubling, and the codecs' own buffers.
            let bound = 3 * batch.len() as u64 + (6 << 20);
            assert!(bytes < bound, "{codec:?} {dropped}: {bytes} of {bound}");
            match result.expect("it ended") {
                Filtered::Changed(_, header) => {
                    assert_eq!((header.record_count, dropped == "none"), (1, false))
                }
                other => assert_eq!((other, dropped), (Filtered::Unchanged, "none")),
            }
        }
    }
}

#[test]
fn a_compressed_batch_is_validated_with_buffers_that_do_not_grow_with_it() {
    for codec in [Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
        let mut allocated = Vec::new();
        for records in [100, 10_000] {
            let mut builder = BatchBuilder::new().compression(codec);
            for at in 0..records {
                builder.record(NOW, Some(format!("key {at}").as_bytes()), Some(&[1; 100]));
            }
            let batch = builder.finish().expect("a batch");
            allocated.push(measure(|| assert!(validate(&batch, &rules()).is_ok())));
        }
        let [(few, _), (many, peak)] = allocated[..] else {
            unreachable!("two sizes")
        };
        assert!(many <= few + 2, "{codec:?}: {few} allocations became {many}");
        assert!(peak < 512 << 10, "{codec:?}: {peak} bytes");
    }
}

#[test]
fn a_bomb_is_never_held_in_memory() {
    for codec in [Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
        let mut builder = BatchBuilder::new().compression(codec);
        builder.record(NOW, None, Some(&vec![0; 16 << 20]));
        let bomb = builder.finish().expect("a batch");
        let rules = ValidationRules {
            max_message_bytes: usize::MAX,
            ..rules()
        };
        let (_, peak) = measure(|| assert!(validate(&bomb, &rules).is_ok()));
        assert!(peak < 1 << 20, "{codec:?}: {peak} bytes");
    }
}

#[test]
fn a_produce_request_takes_two_allocations() {
    let batch = [1; 100];
    let mut topics = Grouped::new();
    for _ in 0..50 {
        topics.begin(TopicRef::Name("orders"));
        topics.push(ProducePartition {
            index: 0,
            records: Some(&batch[..]),
        });
    }
    let request = ProduceRequest {
        transactional_id: None,
        acks: -1,
        timeout_ms: 1000,
        topics,
    };
    for version in [3, 9, 12] {
        let mut body = BytesMut::new();
        assert!(produce::encode_request(&mut body, version, &request).is_ok());
        let (allocations, _) = measure(|| assert!(produce::decode_request(version, &body).is_ok()));
        assert_eq!(allocations, 2, "version {version}");
    }
}

/// Everything in the corpora, hostile lengths included, with every byte pair set to what a length likes least.
#[test]
fn hostile_frames_take_a_small_multiple_of_their_bytes() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    for (name, run) in fuzz_entries::ENTRIES
        .iter()
        .filter(|(name, _)| name.ends_with("request") || name.ends_with("frame"))
    {
        for file in fs::read_dir(corpus.join(name)).expect("a corpus") {
            let bytes = fs::read(file.expect("a file").path()).expect("a readable file");
            for at in 0..bytes.len().saturating_sub(1) {
                let mut damaged = bytes.clone();
                damaged[at..at + 2].copy_from_slice(&[0xff, 0x7f]);
                let (_, peak) = measure(|| run(&damaged));
                let limit = 64 * damaged.len() as u64 + (64 << 10);
                assert!(
                    peak <= limit,
                    "{name}: {peak} bytes for a frame of {}",
                    damaged.len()
                );
            }
        }
    }
}
