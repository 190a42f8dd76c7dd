use proptest::prelude::*;
use uuid::Uuid;

use super::*;
use crate::metadata::{BrokerEpoch, BrokerId, LeaderEpoch, PartitionReference};

const PARTITION: PartitionReference = PartitionReference {
    topic: Uuid::from_u128(0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10),
    partition: 7,
};

fn samples() -> [(LinkMessage, u32, &'static str); 8] {
    let opened = |answer| LinkOpened {
        partition: PARTITION,
        leader_epoch: LeaderEpoch(3),
        open: 2,
        answer,
    };
    [
        (
            LinkMessage::Open(vec![LinkOpen {
                partition: PARTITION,
                leader_epoch: LeaderEpoch(3),
                open: 2,
                last_epoch: -1,
                end: 500,
                start: 100,
            }]),
            0,
            OPEN,
        ),
        (LinkMessage::Opened(vec![opened(Answer::Stream)]), 0, STREAM),
        (
            LinkMessage::Opened(vec![opened(Answer::Diverging { epoch: 2, end: 400 })]),
            0,
            DIVERGING,
        ),
        (
            LinkMessage::Opened(vec![opened(Answer::StartsAt { log_start: 900 })]),
            0,
            STARTS_AT,
        ),
        (
            LinkMessage::Frames(LinkFrames {
                partition: PARTITION,
                leader_epoch: LeaderEpoch(3),
                open: 2,
                window: Window::CatchUp,
                high_watermark: 450,
                log_start: 100,
            }),
            4_096,
            FRAMES,
        ),
        (
            LinkMessage::Ack(vec![LinkAck {
                partition: PARTITION,
                leader_epoch: LeaderEpoch(3),
                open: 2,
                end: 480,
                log_start: 100,
            }]),
            0,
            ACK,
        ),
        (
            LinkMessage::Credit {
                window: Window::Tail,
                bytes: 1 << 20,
            },
            0,
            CREDIT,
        ),
        (LinkMessage::Alive, 0, ALIVE),
    ]
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn decode(bytes: &[u8], sequence: u64) -> Result<LinkMessage, LinkError> {
    let (envelope, head) = bytes.split_first_chunk().ok_or(LinkError::Short)?;
    let envelope = Envelope::decode(envelope, sequence, 1 << 20)?;
    decode_head(&envelope, head)
}

#[test]
fn the_bytes_of_every_message_stay() {
    for (message, body_bytes, golden) in samples() {
        let bytes = encode(&message, BrokerEpoch(42), 9, body_bytes);
        assert_eq!(hex(&bytes), golden.replace([' ', '\n'], ""), "{message:?}");
        assert_eq!(decode(&bytes, 9), Ok(message));
        let envelope: &[u8; ENVELOPE_BYTES] = bytes.first_chunk().unwrap();
        let envelope = Envelope::decode(envelope, 9, 1 << 20).unwrap();
        assert_eq!(
            (envelope.broker_epoch, envelope.body_bytes),
            (BrokerEpoch(42), body_bytes)
        );
        assert_eq!(envelope.sequence(), 9);
    }
}

#[test]
fn frames_lie_aligned_behind_their_head() {
    let (message, body_bytes, _) = samples()[4].clone();
    assert_eq!(encode(&message, BrokerEpoch(1), 0, body_bytes).len() % 8, 0);
}

#[test]
fn a_flipped_bit_or_a_lost_message_closes_the_link() {
    for (message, body_bytes, _) in samples() {
        let good = encode(&message, BrokerEpoch(42), 9, body_bytes);
        assert_eq!(
            decode(&good, 8),
            Err(LinkError::Sequence {
                expected: 8,
                found: 9
            })
        );
        for bit in 0..good.len() * 8 {
            let mut bytes = good.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(&bytes, 9).is_err(), "bit {bit} of {message:?}");
        }
        for short in 0..good.len() {
            assert!(decode(&good[..short], 9).is_err());
        }
    }
}

#[test]
fn lengths_are_refused_before_anything_is_reserved() {
    let mut bytes = encode(&LinkMessage::Alive, BrokerEpoch(1), 0, 0);
    let envelope = |bytes: &[u8]| Envelope::decode(bytes.first_chunk().unwrap(), 0, 4_096).unwrap_err();
    bytes[..4].copy_from_slice(&u32::MAX.to_le_bytes());
    assert_eq!(envelope(&bytes), LinkError::HeadTooLarge(u32::MAX));
    bytes[..8].copy_from_slice(&[0, 0, 0, 0, 1, 16, 0, 0]);
    assert_eq!(envelope(&bytes), LinkError::BodyTooLarge(4_097));
    bytes[4..8].copy_from_slice(&[1, 0, 0, 0]);
    assert_eq!(envelope(&bytes), LinkError::Body(6));
}

fn hello() -> Hello {
    Hello {
        from: LinkIdentity {
            cluster_id: Uuid::from_u128(1),
            directory_id: Uuid::from_u128(2),
            broker: BrokerId(2000),
            broker_epoch: BrokerEpoch(42),
        },
        to: BrokerId(1000),
        versions: Versions { min: 1, max: 3 },
    }
}

fn receiver() -> LinkIdentity {
    LinkIdentity {
        directory_id: Uuid::from_u128(3),
        broker: BrokerId(1000),
        ..hello().from
    }
}

#[test]
fn the_hello_stays_and_every_bit_of_it_counts() {
    let bytes = hello().encode();
    assert_eq!(hex(&bytes), HELLO.replace([' ', '\n'], ""));
    assert_eq!(Hello::decode(&bytes), Ok(hello()));
    for bit in 0..HELLO_BYTES * 8 {
        let mut bytes = bytes;
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(Hello::decode(&bytes).is_err(), "bit {bit}");
    }
}

#[test]
fn both_sides_agree_on_the_highest_common_version() {
    let accept = |min, max| hello().accept(&receiver(), Versions { min, max }, None);
    assert_eq!(accept(1, 1), Ok(1));
    assert_eq!(accept(2, 5), Ok(3));
    assert_eq!(accept(3, 3), Ok(3));
    let ours = Versions { min: 4, max: 5 };
    let theirs = hello().versions;
    assert_eq!(accept(4, 5), Err(HelloError::Versions { ours, theirs }));
    let old = hello().accept(&receiver(), Versions { min: 0, max: 0 }, None);
    assert!(matches!(old, Err(HelloError::Versions { .. })));
}

#[test]
fn strangers_are_refused_with_a_remedy() {
    let other_cluster = LinkIdentity {
        cluster_id: Uuid::from_u128(9),
        ..receiver()
    };
    let refused = hello().accept(&other_cluster, VERSIONS, None).unwrap_err();
    assert!(matches!(refused, HelloError::Cluster { .. }));
    let other_shard = LinkIdentity {
        broker: BrokerId(1001),
        ..receiver()
    };
    let wrong = |expected, found| HelloError::Broker {
        expected: BrokerId(expected),
        found: BrokerId(found),
    };
    assert_eq!(
        hello().accept(&other_shard, VERSIONS, None),
        Err(wrong(1000, 1001))
    );
    assert_eq!(
        hello().accept(&receiver(), VERSIONS, Some(BrokerId(2001))),
        Err(wrong(2001, 2000))
    );
    assert_eq!(hello().accept(&receiver(), VERSIONS, Some(BrokerId(2000))), Ok(1));
    let mut http = [0; HELLO_BYTES];
    http[..5].copy_from_slice(b"GET /");
    assert_eq!(Hello::decode(&http), Err(HelloError::Magic));
}

proptest! {
    #[test]
    fn any_bytes_decode_or_fail(bytes in prop::collection::vec(any::<u8>(), 0..400), sequence in 0_u64..3) {
        let _ = decode(&bytes, sequence);
        if let Some(hello) = bytes.first_chunk() {
            let _ = Hello::decode(hello);
        }
    }

    /// Behind a right checksum, as a peer with a fault of its own would send it.
    #[test]
    fn any_head_decodes_or_fails(kind in 0_u8..8, head in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut bytes = encode(&LinkMessage::Alive, BrokerEpoch(1), 0, 0);
        bytes[..4].copy_from_slice(&(head.len() as u32).to_le_bytes());
        bytes[8] = kind;
        let mut sum = xxhash_rust::xxh3::Xxh3Default::new();
        sum.update(&bytes[..ENVELOPE_BYTES - 8]);
        sum.update(&[0; 8]);
        sum.update(&head);
        bytes[ENVELOPE_BYTES - 8..].copy_from_slice(&sum.digest().to_le_bytes());
        bytes.extend_from_slice(&head);
        if let Ok(message) = decode(&bytes, 0) {
            prop_assert_eq!(encode(&message, BrokerEpoch(1), 0, 0), bytes, "what is read is what was written");
        }
    }

    #[test]
    fn any_ack_round_trips(
        acks in prop::collection::vec((any::<u128>(), any::<u32>(), any::<i32>(), any::<u32>(), 0..i64::MAX), 0..50),
    ) {
        let ack = |(topic, partition, epoch, open, end)| LinkAck {
            partition: PartitionReference { topic: Uuid::from_u128(topic), partition },
            leader_epoch: LeaderEpoch(epoch),
            open,
            end,
            log_start: end / 2,
        };
        let message = LinkMessage::Ack(acks.into_iter().map(ack).collect());
        let bytes = encode(&message, BrokerEpoch(7), 1, 0);
        prop_assert_eq!(decode(&bytes, 1), Ok(message));
    }
}

const OPEN: &str = "\
    3400000000000000 0100000000000000 0900000000000000 2a00000000000000 1cd7b6877ab21c7d \
    0100000001020304 05060708090a0b0c 0d0e0f1007000000 0300000002000000 fffffffff4010000 \
    0000000064000000 00000000";
const STREAM: &str = "\
    3000000000000000 0200000000000000 0900000000000000 2a00000000000000 1d6354bc8869a030 \
    0100000001020304 05060708090a0b0c 0d0e0f1007000000 0300000002000000 0000000000000000 \
    0000000000000000";
const DIVERGING: &str = "\
    3000000000000000 0200000000000000 0900000000000000 2a00000000000000 8c20bc8c74285fdb \
    0100000001020304 05060708090a0b0c 0d0e0f1007000000 0300000002000000 0100000002000000 \
    9001000000000000";
const STARTS_AT: &str = "\
    3000000000000000 0200000000000000 0900000000000000 2a00000000000000 42a2e92ec924e47b \
    0100000001020304 05060708090a0b0c 0d0e0f1007000000 0300000002000000 0200000000000000 \
    8403000000000000";
const FRAMES: &str = "\
    3000000000100000 0300000000000000 0900000000000000 2a00000000000000 e820b5f91a9fc7c3 \
    0102030405060708 090a0b0c0d0e0f10 0700000003000000 0200000001000000 c201000000000000 \
    6400000000000000";
const ACK: &str = "\
    3000000000000000 0400000000000000 0900000000000000 2a00000000000000 ce8a3178d863f3d3 \
    0100000001020304 05060708090a0b0c 0d0e0f1007000000 0300000002000000 e001000000000000 \
    6400000000000000";
const CREDIT: &str = "\
    1000000000000000 0500000000000000 0900000000000000 2a00000000000000 e49dede5c81f3e4d \
    0000000000000000 0000100000000000";
const ALIVE: &str = "\
    0000000000000000 0600000000000000 0900000000000000 2a00000000000000 f3d95f7f0aa3dc66";
const HELLO: &str = "\
    534c4e4b01000300 0000000000000000 0000000000000001 0000000000000000 0000000000000002 \
    d0070000e8030000 2a00000000000000 0000000000000000 8c46831a1aaad272";
