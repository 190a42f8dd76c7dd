use proptest::prelude::*;
use uuid::Uuid;

use super::*;
use crate::link::Versions;
use crate::metadata::NodeId;

fn identity(node: i32) -> ControllerIdentity {
    ControllerIdentity {
        cluster_id: Uuid::from_u128(1),
        node: NodeId(node),
        directory_id: Uuid::from_u128(node as u128),
    }
}

fn hello(from: i32, to: i32) -> ControllerHello {
    ControllerHello {
        from: identity(from),
        to: NodeId(to),
        to_directory: identity(to).directory_id,
        versions: CONTROLLER_VERSIONS,
    }
}

#[test]
fn the_bytes_of_a_hello_stay() {
    let bytes = hello(2, 3).encode();
    assert_eq!(&bytes[..8], b"SLNQ\x01\x00\x01\x00");
    assert_eq!((bytes[23], bytes[39], bytes[55]), (1, 2, 3));
    assert_eq!(&bytes[56..64], [2, 0, 0, 0, 3, 0, 0, 0]);
    assert_eq!(&bytes[64..72], [0; 8]);
    assert_eq!(ControllerHello::decode(&bytes), Ok(hello(2, 3)));
    for bit in 0..bytes.len() * 8 {
        let mut damaged = bytes;
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert!(ControllerHello::decode(&damaged).is_err(), "bit {bit}");
    }
}

#[test]
fn who_is_not_meant_is_refused_with_the_remedy() {
    let own = identity(3);
    let refused = |hello: ControllerHello| hello.accept(&own, CONTROLLER_VERSIONS).unwrap_err().to_string();
    assert_eq!(hello(2, 3).accept(&own, CONTROLLER_VERSIONS), Ok(1));
    let mut other = hello(2, 3);
    other.from.cluster_id = Uuid::from_u128(9);
    assert!(refused(other).contains("correct 'controller.quorum.voters' or the data directory"));
    other.from.cluster_id = Uuid::nil();
    assert_eq!(
        other.accept(&own, CONTROLLER_VERSIONS),
        Ok(1),
        "it has none yet, and joins"
    );
    assert!(refused(hello(2, 4)).contains("node 3 answers where node 4 was expected"));
    let mut wiped = hello(2, 3);
    wiped.to_directory = Uuid::from_u128(77);
    assert!(refused(wiped).contains("strandctl cluster replace 3"));
    let mut twin = hello(3, 3);
    twin.from.directory_id = Uuid::from_u128(77);
    assert!(refused(twin).contains("two nodes have the id 3"));
    let mut newer = hello(2, 3);
    newer.versions = Versions { min: 2, max: 4 };
    assert!(refused(newer).contains("upgrade the older node"));
}

#[test]
fn an_answer_is_checked_against_whom_was_called() {
    let asked = hello(2, 3);
    let answer = |from: i32| hello(from, 2);
    assert_eq!(answer(3).accept_answer(&asked, CONTROLLER_VERSIONS), Ok(1));
    assert_eq!(
        answer(4).accept_answer(&asked, CONTROLLER_VERSIONS),
        Err(ControllerHelloError::Node {
            expected: NodeId(3),
            found: NodeId(4)
        })
    );
    let mut wiped = answer(3);
    wiped.from.directory_id = Uuid::from_u128(77);
    assert!(matches!(
        wiped.accept_answer(&asked, CONTROLLER_VERSIONS),
        Err(ControllerHelloError::Directory { .. })
    ));
}

#[test]
fn the_bytes_of_a_frame_stay() {
    let envelope = encode_frame(5, b"{}", b"abc").unwrap();
    assert_eq!(&envelope[..16], [2, 0, 0, 0, 3, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0]);
    let read = FrameEnvelope::decode(&envelope, 5).unwrap();
    assert_eq!((read.head_bytes, read.body_bytes), (2, 3));
    assert_eq!(read.check(b"{}", b"abc"), Ok(()));
    assert_eq!(read.check(b"{ ", b"abc"), Err(FrameError::Checksum));
    assert_eq!(
        FrameEnvelope::decode(&envelope, 6),
        Err(FrameError::Sequence {
            expected: 6,
            found: 5
        })
    );
    let mut huge = envelope;
    huge[3] = 0xff;
    assert!(matches!(
        FrameEnvelope::decode(&huge, 5),
        Err(FrameError::HeadTooLarge(_))
    ));
}

proptest! {
    #[test]
    fn no_bytes_are_trusted(bytes in prop::array::uniform32(any::<u8>()), head in prop::collection::vec(any::<u8>(), 0..9)) {
        let envelope: [u8; FRAME_ENVELOPE_BYTES] = bytes[..FRAME_ENVELOPE_BYTES].try_into().unwrap();
        if let Ok(read) = FrameEnvelope::decode(&envelope, 0) {
            prop_assert!(read.head_bytes <= HEAD_BYTES_MAX && read.body_bytes <= BODY_BYTES_MAX);
            let _ = read.check(&head, &[]);
        }
    }
}
