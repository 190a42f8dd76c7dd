//! What a produced batch is refused for, what is set right in it, and what is left alone.

use std::borrow::Cow;
use std::ops::ControlFlow;

use strandline_wire::ErrorCode;
use strandline_wire::batch::{
    BatchBuilder, BatchError, BatchErrorKind, BatchHeader, Codec, Compression, HEADER_SIZE, TimestampType,
    TopicCompression, ValidatedBatch, Validation, ValidationRules, check_crc, find_timestamp,
    for_each_record, patch_and_recrc, set_base_offset, set_leader_epoch, validate,
};

const NOW: i64 = 1_700_000_000_000;
const CAP: usize = 1 << 20;

fn rules() -> ValidationRules {
    ValidationRules {
        now_ms: NOW,
        ..ValidationRules::default()
    }
}

fn builder(timestamps: &[i64]) -> BatchBuilder {
    let mut builder = BatchBuilder::new();
    for timestamp in timestamps {
        builder.record(*timestamp, Some(b"key"), Some(b"value"));
    }
    builder
}

fn batch(timestamps: &[i64]) -> Vec<u8> {
    builder(timestamps).finish().expect("a batch")
}

/// The same batch with a changed header and a right CRC.
fn with_header(batch: &[u8], change: impl FnOnce(&mut BatchHeader)) -> Vec<u8> {
    let mut batch = batch.to_vec();
    let mut header = BatchHeader::decode(&batch).expect("a header");
    change(&mut header);
    patch_and_recrc(&mut batch, &header);
    batch
}

fn refused(batch: &[u8], rules: &ValidationRules) -> BatchError {
    validate(batch, rules).expect_err("refused")
}

fn code(batch: &[u8]) -> ErrorCode {
    refused(batch, &rules()).code()
}

/// The bytes as the log stores them.
fn stored(validated: &ValidatedBatch<'_>) -> Vec<u8> {
    let mut bytes = validated.bytes.to_vec();
    if validated.header_changed {
        patch_and_recrc(&mut bytes, &validated.header);
    }
    assert!(check_crc(&bytes));
    bytes
}

fn offsets_and_times(batch: &[u8]) -> Vec<(i32, i64)> {
    let mut found = Vec::new();
    let walked = for_each_record(batch, CAP, |record| {
        assert_eq!(
            (record.key, record.value),
            (Some(&b"key"[..]), Some(&b"value"[..]))
        );
        found.push((record.offset_delta, record.timestamp));
        ControlFlow::<()>::Continue(())
    });
    assert_eq!(walked, Ok(None));
    found
}

#[test]
fn a_good_batch_passes_as_it_is() {
    for codec in Codec::ALL {
        let batch = builder(&[NOW, NOW + 9, NOW + 5])
            .compression(codec)
            .producer(1, 0, 0)
            .finish()
            .unwrap();
        let validated = validate(&batch, &rules()).unwrap();
        assert!(matches!(validated.bytes, Cow::Borrowed(_)));
        assert!(!validated.header_changed);
        assert_eq!(validated.header, BatchHeader::decode(&batch).unwrap());
        assert_eq!(validated.offset_of_max_timestamp, 1);
    }
}

#[test]
fn offsets_and_leader_epoch_stand_outside_the_crc() {
    let mut batch = batch(&[NOW]);
    set_base_offset(&mut batch, 77);
    set_leader_epoch(&mut batch, 5);
    assert!(check_crc(&batch));
    let header = BatchHeader::decode(&batch).unwrap();
    assert_eq!((header.base_offset, header.partition_leader_epoch), (77, 5));
}

#[test]
fn a_damaged_batch_is_corrupt_and_the_client_may_send_it_again() {
    let good = batch(&[NOW]);
    for at in 17..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 0x10;
        assert_eq!(code(&bad), ErrorCode::CorruptMessage, "byte {at}");
    }
    let short_length = with_header(&good, |header| header.batch_length = 48);
    assert_eq!(code(&short_length), ErrorCode::CorruptMessage);
    assert_eq!(
        code(&with_header(&good, |header| header.batch_length = -1)),
        ErrorCode::CorruptMessage
    );
}

#[test]
fn anything_but_one_whole_batch_of_magic_2_is_invalid() {
    let good = batch(&[NOW]);
    assert_eq!(code(&[]), ErrorCode::InvalidRecord);
    assert_eq!(code(&good[..good.len() - 1]), ErrorCode::InvalidRecord);
    assert_eq!(code(&[&good[..], &good].concat()), ErrorCode::InvalidRecord);
    assert_eq!(code(&[&good[..], b"x"].concat()), ErrorCode::InvalidRecord);
    for (magic, expected) in [
        (0, ErrorCode::InvalidRecord),
        (1, ErrorCode::InvalidRecord),
        // No format at all.
        (3, ErrorCode::CorruptMessage),
        (0xff, ErrorCode::CorruptMessage),
    ] {
        let mut old = good.clone();
        old[16] = magic;
        assert_eq!(code(&old), expected);
    }
    for length in 0..HEADER_SIZE {
        assert_eq!(code(&good[..length]), ErrorCode::InvalidRecord);
    }
    // What no format claims is damage, however little there is of it.
    for zeros in [12, 20, 70] {
        assert_eq!(code(&vec![0; zeros]), ErrorCode::CorruptMessage);
    }
    assert_eq!(code(&[0; 11]), ErrorCode::InvalidRecord);
}

#[test]
fn header_fields_that_do_not_fit_together_are_invalid() {
    let good = batch(&[NOW, NOW]);
    let changes: [fn(&mut BatchHeader); 10] = [
        |header| header.base_offset = 1,
        |header| header.record_count = 0,
        |header| header.record_count = -1,
        |header| header.record_count = 3,
        |header| header.last_offset_delta = 2,
        |header| (header.record_count, header.last_offset_delta) = (3, 2),
        |header| (header.record_count, header.last_offset_delta) = (1, 0),
        |header| header.set_control(true),
        |header| header.set_transactional(true),
        |header| header.attributes |= 0x40,
    ];
    for (index, change) in changes.into_iter().enumerate() {
        assert_eq!(
            code(&with_header(&good, change)),
            ErrorCode::InvalidRecord,
            "change {index}"
        );
    }
    let unknown_codec = with_header(&good, |header| header.attributes |= 5);
    assert_eq!(code(&unknown_codec), ErrorCode::UnsupportedCompressionType);
}

#[test]
fn a_producer_id_needs_a_sequence_and_an_epoch() {
    let batch = |epoch, sequence| builder(&[NOW]).producer(9, epoch, sequence).finish().unwrap();
    assert!(validate(&batch(0, 0), &rules()).is_ok());
    assert_eq!(code(&batch(0, -1)), ErrorCode::InvalidRecord);
    assert_eq!(code(&batch(-1, 0)), ErrorCode::InvalidRecord);
}

#[test]
fn zstd_needs_produce_version_7() {
    let batch = builder(&[NOW]).compression(Codec::Zstd).finish().unwrap();
    let error = refused(
        &batch,
        &ValidationRules {
            zstd_allowed: false,
            ..rules()
        },
    );
    assert_eq!(error.code(), ErrorCode::UnsupportedCompressionType);
}

/// Some clients leave the maximum timestamp unset (redpanda #25200): the true one is set, under a new CRC.
#[test]
fn the_maximum_timestamp_as_sent_is_never_trusted() {
    for codec in Codec::ALL {
        let times: Vec<_> = (0..10).map(|at| NOW + 10 * at).collect();
        let good = builder(&times).compression(codec).finish().unwrap();
        for wrong in [-1, 12, i64::MAX] {
            let sent = with_header(&good, |header| header.max_timestamp = wrong);
            let validated = validate(&sent, &rules()).unwrap();
            assert!(validated.header_changed);
            assert_eq!(validated.offset_of_max_timestamp, 9);
            assert_eq!(stored(&validated), good, "{codec:?}");
        }
        let found = find_timestamp(&good, times[7], 0, CAP).unwrap().unwrap();
        assert_eq!((found.offset, found.timestamp), (7, times[7]));
    }
}

#[test]
fn timestamps_outside_the_bounds_are_named() {
    let hour = 3_600_000;
    for codec in [Codec::None, Codec::Gzip] {
        let sent = builder(&[NOW, NOW + hour + 1, NOW, NOW + hour])
            .compression(codec)
            .finish()
            .unwrap();
        let error = refused(&sent, &rules());
        assert_eq!(error.code(), ErrorCode::InvalidTimestamp);
        assert_eq!(
            error
                .record_errors
                .iter()
                .map(|error| error.batch_index)
                .collect::<Vec<_>>(),
            [1]
        );
    }
    let old = batch(&[NOW - 1001]);
    assert!(validate(&old, &rules()).is_ok(), "no lower bound by default");
    let bounded = ValidationRules {
        before_max_ms: 1000,
        ..rules()
    };
    assert_eq!(refused(&old, &bounded).code(), ErrorCode::InvalidTimestamp);
    assert!(validate(&batch(&[NOW - 1000]), &bounded).is_ok());
    assert!(
        validate(&batch(&[-1]), &bounded).is_ok(),
        "a record without a timestamp has no bounds"
    );
    assert!(validate(&batch(&[i64::MAX]), &rules()).is_err());
    assert!(validate(&batch(&[i64::MIN]), &bounded).is_err());
}

#[test]
fn append_time_overwrites_and_is_exempt_from_the_bounds() {
    let rules = ValidationRules {
        timestamp_type: TimestampType::LogAppendTime,
        before_max_ms: 1000,
        ..rules()
    };
    for codec in Codec::ALL {
        let sent = builder(&[0, NOW * 1000]).compression(codec).finish().unwrap();
        let validated = validate(&sent, &rules).unwrap();
        assert!(validated.header_changed && validated.header.is_log_append_time());
        assert_eq!(validated.offset_of_max_timestamp, 0);
        assert_eq!(
            offsets_and_times(&stored(&validated)),
            [(0, NOW), (1, NOW)],
            "{codec:?}"
        );
    }
}

#[test]
fn clients_may_not_claim_append_time() {
    let sent = with_header(&batch(&[NOW]), |header| {
        header.set_timestamp_type(TimestampType::LogAppendTime)
    });
    for timestamp_type in [TimestampType::CreateTime, TimestampType::LogAppendTime] {
        let error = refused(
            &sent,
            &ValidationRules {
                timestamp_type,
                ..rules()
            },
        );
        assert_eq!(error.code(), ErrorCode::InvalidTimestamp);
    }
}

#[test]
fn a_compacted_topic_names_the_records_without_key() {
    let mut builder = BatchBuilder::new();
    for key in [Some(&b"a"[..]), None, Some(b""), None] {
        builder.record(NOW, key, Some(b"value"));
    }
    for codec in Codec::ALL {
        let sent = builder.clone().compression(codec).finish().unwrap();
        assert!(validate(&sent, &rules()).is_ok());
        let error = refused(
            &sent,
            &ValidationRules {
                compacted: true,
                ..rules()
            },
        );
        assert_eq!(error.code(), ErrorCode::InvalidRecord);
        assert_eq!(
            error
                .record_errors
                .iter()
                .map(|error| error.batch_index)
                .collect::<Vec<_>>(),
            [1, 3]
        );
        assert!(error.record_errors[0].message.is_some());
    }
}

#[test]
fn a_batch_of_very_many_bad_records_makes_a_bounded_answer() {
    let mut builder = BatchBuilder::new();
    for _ in 0..20_000 {
        builder.record(NOW, None, None);
    }
    let sent = builder.finish().unwrap();
    let error = refused(
        &sent,
        &ValidationRules {
            compacted: true,
            ..rules()
        },
    );
    assert_eq!(error.record_errors.len(), BatchError::RECORD_ERRORS_MAX);
    assert!(error.message.contains("20000"));
}

#[test]
fn the_size_limit_counts_bytes_as_sent() {
    let mut builder = BatchBuilder::new();
    builder.record(NOW, Some(b"key"), Some(&[7; 5000]));
    let limited = ValidationRules {
        max_message_bytes: 1000,
        ..rules()
    };
    let error = refused(&builder.clone().finish().unwrap(), &limited);
    assert_eq!(
        (error.code(), error.kind),
        (ErrorCode::MessageTooLarge, BatchErrorKind::TooLarge)
    );
    assert!(error.message.contains("1000"), "{error}");
    assert!(validate(&builder.compression(Codec::Gzip).finish().unwrap(), &limited).is_ok());
}

/// Old clients count inner offsets wrongly: rewritten, not refused.
#[test]
fn wrong_offset_deltas_are_rewritten() {
    for codec in Codec::ALL {
        let mut builder = BatchBuilder::new().compression(codec).producer(3, 1, 5);
        for (delta, timestamp) in [(0, NOW), (1, NOW + 2), (3, NOW + 1)] {
            builder.record_with_offset_delta(delta, timestamp, Some(b"key"), Some(b"value"), &[]);
        }
        let sent = with_header(&builder.finish().unwrap(), |header| header.last_offset_delta = 2);
        let validated = validate(&sent, &rules()).unwrap();
        assert!(matches!(validated.bytes, Cow::Owned(_)) && !validated.header_changed);
        let bytes = stored(&validated);
        assert_eq!(BatchHeader::decode(&bytes).unwrap(), validated.header);
        assert_eq!(validated.header.codec(), Some(codec));
        assert_eq!(
            (validated.header.producer_id, validated.header.base_sequence),
            (3, 5)
        );
        assert_eq!(
            offsets_and_times(&bytes),
            [(0, NOW), (1, NOW + 2), (2, NOW + 1)],
            "{codec:?}"
        );
        // What was rewritten is now a good batch.
        assert!(matches!(
            validate(&bytes, &rules()).unwrap().bytes,
            Cow::Borrowed(_)
        ));
    }
}

#[test]
fn the_topics_codec_wins_and_producer_keeps_what_was_sent() {
    for sent_codec in Codec::ALL {
        let sent = builder(&[NOW, NOW + 1]).compression(sent_codec).finish().unwrap();
        for codec in Codec::ALL {
            let compression = TopicCompression::Fixed(Compression { codec, level: None });
            let validated = validate(
                &sent,
                &ValidationRules {
                    compression,
                    ..rules()
                },
            )
            .unwrap();
            let bytes = stored(&validated);
            assert_eq!(BatchHeader::decode(&bytes).unwrap().codec(), Some(codec));
            assert_eq!(
                offsets_and_times(&bytes),
                [(0, NOW), (1, NOW + 1)],
                "{sent_codec:?} to {codec:?}"
            );
            assert_eq!(matches!(validated.bytes, Cow::Borrowed(_)), codec == sent_codec);
        }
    }
}

#[test]
fn a_batch_that_grows_over_the_limit_by_recompression_is_too_large() {
    let mut builder = BatchBuilder::new().compression(Codec::Gzip);
    builder.record(NOW, Some(b"key"), Some(&[7; 5000]));
    let sent = builder.finish().unwrap();
    for codec in [Codec::None, Codec::Snappy] {
        let compression = TopicCompression::Fixed(codec.into());
        let error = refused(
            &sent,
            &ValidationRules {
                compression,
                max_message_bytes: 150,
                ..rules()
            },
        );
        assert_eq!(error.code(), ErrorCode::MessageTooLarge, "{codec:?}");
    }
}

#[test]
fn records_that_do_not_decompress_are_invalid() {
    let plain = batch(&[NOW, NOW]);
    for codec in Codec::ALL.into_iter().filter(|codec| *codec != Codec::None) {
        let garbage = with_header(&plain, |header| header.set_codec(codec));
        let error = refused(&garbage, &rules());
        assert_eq!(error.code(), ErrorCode::InvalidRecord, "{codec:?}: {error}");

        let good = builder(&[NOW; 50]).compression(codec).finish().unwrap();
        for cut in 1..good.len() - HEADER_SIZE {
            let short = with_header(&good[..good.len() - cut], |header| {
                header.batch_length -= cut as i32
            });
            // A decoder may have given all records before it misses its end; Kafka accepts those too.
            if let Ok(validated) = validate(&short, &rules()) {
                assert_eq!(offsets_and_times(&stored(&validated)).len(), 50);
            }
        }
    }
}

#[test]
fn a_bomb_ends_at_the_cap() {
    for codec in Codec::ALL.into_iter().filter(|codec| *codec != Codec::None) {
        let mut builder = BatchBuilder::new().compression(codec);
        builder.record(NOW, None, Some(&vec![0; 4 << 20]));
        let bomb = builder.finish().unwrap();
        let capped = ValidationRules {
            decompressed_max_bytes: 1 << 20,
            ..rules()
        };
        let error = refused(&bomb, &capped);
        assert_eq!(
            (error.code(), error.kind),
            (ErrorCode::MessageTooLarge, BatchErrorKind::DecompressedTooLarge)
        );
        assert!(validate(&bomb, &rules()).is_ok(), "{codec:?}");
    }
}

/// A batch of 9 KB that unpacked to 100 MiB kept its shard from everything else for 6 s, one of 140 KB for 22 s.
#[test]
fn a_batch_that_unpacks_to_much_is_validated_in_many_steps() {
    const STEP: usize = 64 << 10;
    let mut builder = BatchBuilder::new().compression(Compression::from(Codec::Zstd));
    for _ in 0..20_000 {
        builder.record(NOW, None, Some(&[0; 100]));
    }
    let small = builder.finish().expect("a batch");
    assert!(small.len() < STEP);
    let rewritten = TopicCompression::Fixed(Compression::from(Codec::Gzip));
    for (compression, steps_min) in [(TopicCompression::Producer, 20), (rewritten, 40)] {
        let rules = ValidationRules {
            compression,
            ..rules()
        };
        let mut validation = Validation::new(&small, &rules).expect("a good header");
        let mut steps = 1;
        let validated = loop {
            if let Some(validated) = validation.advance(STEP).expect("a good batch") {
                break validated;
            }
            steps += 1;
        };
        assert!(steps > steps_min, "{steps} steps");
        assert_eq!(validated, validate(&small, &rules).expect("a good batch"));
    }
}

#[test]
fn a_later_append_time_stands_in_the_stored_batch() {
    for compression in [
        TopicCompression::Producer,
        TopicCompression::Fixed(Compression::from(Codec::Lz4)),
    ] {
        let rules = ValidationRules {
            compression,
            timestamp_type: TimestampType::LogAppendTime,
            ..rules()
        };
        let sent = batch(&[1, 2]);
        let mut validated = validate(&sent, &rules).expect("a good batch");
        validated.set_append_time(NOW + 5);
        let header = BatchHeader::decode(&stored(&validated)).expect("a header");
        assert_eq!(header.max_timestamp, NOW + 5);
        assert!(header.is_log_append_time());
    }
}
