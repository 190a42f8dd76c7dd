//! The records byte for byte: written out from Kafka's schemas, and compared with what Kafka 4.2's own classes write.

use proptest::prelude::*;

use super::*;
use crate::group::consumer::testing::assignment;
use strandline_wire::Uuid;

const TOPIC: Uuid = Uuid::from_u128(0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10);

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Checks both directions, and that the tombstone has the same key.
fn check(record: ConsumerRecord, tombstone: ConsumerRecord, key: &str, value: &[&str]) {
    let (key_bytes, value_bytes) = encode("g", &record);
    assert_eq!(hex(&key_bytes), key);
    assert_eq!(value_bytes.as_deref().map(hex), Some(value.concat()));
    assert_eq!(
        decode(&key_bytes, value_bytes.as_deref()),
        Ok(Some(("g".into(), record)))
    );
    let (key_bytes, value_bytes) = encode("g", &tombstone);
    assert_eq!((hex(&key_bytes).as_str(), &value_bytes), (key, &None));
    assert_eq!(decode(&key_bytes, None), Ok(Some(("g".into(), tombstone))));
}

#[test]
fn group_epoch() {
    let epoch = |epoch, metadata_hash| ConsumerRecord::GroupEpoch(Some(GroupEpoch { epoch, metadata_hash }));
    // Version; epoch; one tagged field: tag 0, eight bytes, the hash.
    check(
        epoch(7, -2),
        ConsumerRecord::GroupEpoch(None),
        "0003000167",
        &["0000", "00000007", "01", "00", "08", "fffffffffffffffe"],
    );
    // The default is not written.
    check(
        epoch(7, 0),
        ConsumerRecord::GroupEpoch(None),
        "0003000167",
        &["0000", "00000007", "00"],
    );
}

#[test]
fn topic_metadata() {
    check(
        ConsumerRecord::TopicMetadata(true),
        ConsumerRecord::TopicMetadata(false),
        "0004000167",
        &["0000", "01", "00"],
    );
    // As Kafka 4.0 wrote it: nothing of it is needed.
    assert_eq!(
        decode(b"\x00\x04\x00\x01g", Some(b"\x00\x00\x02garbage")),
        Ok(Some(("g".into(), ConsumerRecord::TopicMetadata(true))))
    );
}

#[test]
fn member_metadata() {
    let tombstone = ConsumerRecord::Member("m1".into(), None);
    let metadata = MemberMetadata {
        instance_id: Some("i".into()),
        client_id: "c".into(),
        client_host: "/h".into(),
        topic_names: Rc::new(["a".into(), "b".into()].into()),
        rebalance_timeout_ms: 300_000,
        server_assignor: Some("range".into()),
        ..MemberMetadata::default()
    };
    check(
        ConsumerRecord::Member("m1".into(), Some(Rc::new(metadata))),
        tombstone.clone(),
        "000500016700026d31",
        // Instance; no rack; client id and host; two names; an empty regular expression; timeout; assignor; no tags.
        &[
            "0000",
            "0269",
            "00",
            "0263",
            "032f68",
            "0302610262",
            "01",
            "000493e0",
            "0672616e6765",
            "00",
        ],
    );

    let metadata = MemberMetadata {
        rack_id: Some("r".into()),
        topic_regex: "a.*".into(),
        rebalance_timeout_ms: 1,
        classic: Some(ClassicMemberMetadata {
            session_timeout_ms: 6000,
            supported_protocols: vec![("range".into(), [1, 2].into())],
        }),
        ..MemberMetadata::default()
    };
    check(
        ConsumerRecord::Member("m1".into(), Some(Rc::new(metadata))),
        tombstone,
        "000500016700026d31",
        &[
            "0000",
            "00",
            "0272",
            "01",
            "01",
            "01",
            "04612e2a",
            "00000001",
            "00",
            // One tagged field: tag 0, 17 bytes: there, the timeout, one protocol (name, bytes, no tags), no tags.
            "01",
            "00",
            "11",
            "01",
            "00001770",
            "02",
            "0672616e6765",
            "030102",
            "00",
            "00",
        ],
    );
}

#[test]
fn target_assignment() {
    check(
        ConsumerRecord::TargetEpoch(Some(9)),
        ConsumerRecord::TargetEpoch(None),
        "0006000167",
        &["0000", "00000009", "00"],
    );
    check(
        ConsumerRecord::Target("m1".into(), Some(assignment(&[(TOPIC, &[0, 300])]))),
        ConsumerRecord::Target("m1".into(), None),
        "000700016700026d31",
        &[
            "0000",
            "02",
            "0102030405060708090a0b0c0d0e0f10",
            "03",
            "00000000",
            "0000012c",
            "00",
            "00",
        ],
    );
}

#[test]
fn current_assignment() {
    let current = CurrentAssignment {
        epoch: 10,
        previous_epoch: 9,
        state: MemberState::UnrevokedPartitions,
        assigned: assignment(&[(TOPIC, &[1])]),
        pending_revocation: assignment(&[(TOPIC, &[2, 3])]),
    };
    let topic = "0102030405060708090a0b0c0d0e0f10";
    check(
        ConsumerRecord::Current("m1".into(), Some(current)),
        ConsumerRecord::Current("m1".into(), None),
        "000800016700026d31",
        &[
            "0000", "0000000a", "00000009", "01", "02", topic, "02", "00000001", "00", "02", topic, "03",
            "00000002", "00000003", "00", "00",
        ],
    );
}

#[test]
fn resolved_regex() {
    let resolved = ResolvedRegex {
        topics: ["ab".into(), "ac".into()].into(),
        version: 12,
        timestamp_ms: 1_700_000_000_000,
    };
    check(
        ConsumerRecord::Regex("a.*".into(), Some(Rc::new(resolved))),
        ConsumerRecord::Regex("a.*".into(), None),
        "00100001670003612e2a",
        &[
            "0000",
            "03",
            "036162",
            "036163",
            "000000000000000c",
            "0000018bcfe56800",
            "00",
        ],
    );
}

#[test]
fn fields_of_later_versions_are_skipped_and_later_values_named() {
    // A tagged field 5 of two bytes behind the epoch.
    let record = decode(
        b"\x00\x03\x00\x01g",
        Some(b"\x00\x00\x00\x00\x00\x07\x01\x05\x02ab"),
    );
    let epoch = GroupEpoch {
        epoch: 7,
        metadata_hash: 0,
    };
    assert_eq!(
        record,
        Ok(Some(("g".into(), ConsumerRecord::GroupEpoch(Some(epoch)))))
    );
    let error = decode(b"\x00\x03\x00\x01g", Some(b"\x00\x01"));
    assert_eq!(
        error,
        Err(DecodeError::Version {
            key_type: 3,
            version: 1
        })
    );
    // A state of a later version survives.
    let current = CurrentAssignment {
        state: MemberState::Unknown(9),
        ..CurrentAssignment::default()
    };
    let record = ConsumerRecord::Current("m".into(), Some(current));
    let (key, value) = encode("g", &record);
    assert_eq!(decode(&key, value.as_deref()), Ok(Some(("g".into(), record))));
}

#[test]
fn other_types_are_left_to_others() {
    for key in [
        &b"\x00\x01\x00\x01g"[..],
        b"\x00\x02\x00\x01g",
        b"\x00\x11\x00\x01g",
        b"\x00",
        b"",
    ] {
        assert_eq!(decode(key, None), Ok(None));
    }
}

proptest! {
    #[test]
    fn any_bytes_give_a_record_or_an_error(key_type in 3i16..17, key in any::<Vec<u8>>(), value in any::<Vec<u8>>()) {
        let key = [&key_type.to_be_bytes()[..], &key].concat();
        let _ = decode(&key, Some(&[&[0, 0][..], &value].concat()));
        let _ = decode(&key, Some(&value));
        let _ = decode(&key, None);
    }

    #[test]
    fn cut_values_are_errors(cut in 0usize..60) {
        let current = CurrentAssignment { assigned: assignment(&[(TOPIC, &[1, 2, 3])]), ..CurrentAssignment::default() };
        let (key, value) = encode("g", &ConsumerRecord::Current("m".into(), Some(current)));
        let value = value.unwrap();
        // The last byte is the count of tagged fields, which is not looked at.
        prop_assume!(cut < value.len() - 1);
        prop_assert!(decode(&key, Some(&value[..cut])).is_err());
    }
}
