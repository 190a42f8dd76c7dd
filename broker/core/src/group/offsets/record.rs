//! The records of `__consumer_offsets`, byte for byte as Kafka writes them, so that Kafka's own tools read them.
//!
//! A key starts with two bytes that say what it is: 0 and 1 an offset, 2 a classic group; 3 to 8 and 16 a group of the
//! consumer protocol ([`record`](super::super::consumer::record)); others belong to kinds of groups that are not served. A value starts with the version of its layout. A key without a value takes what stands under it away.

use std::rc::Rc;

use bytes::{BufMut, Bytes, BytesMut};
use strandline_wire::primitives::{Reader, WriteExt};
use strandline_wire::{Uuid, WireError};
use thiserror::Error;

use super::super::classic::{GroupRecord, MemberRecord};
use super::super::consumer::record::{self as consumer, ConsumerRecord, DecodeError};
use super::store::CommittedOffset;

const OFFSET_KEY: i16 = 1;
const OFFSET_KEY_LAST: i16 = 1;
const GROUP_KEY: i16 = 2;
/// The layout of an offset that has a time of expiry of its own (requests of versions 2 to 4), and of every other.
const OFFSET_VALUE_WITH_EXPIRY: i16 = 1;
const OFFSET_VALUE: i16 = 4;
/// Values from this version on are compact and have tagged fields.
const FIRST_FLEXIBLE_VALUE: i16 = 4;
/// Of the values of both kinds.
const LAST_VALUE: i16 = 4;
const GROUP_VALUE: i16 = 3;
const TOPIC_ID_TAG: u32 = 0;
const NO_EXPIRY: i64 = -1;

/// A record of `__consumer_offsets`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OffsetsRecord {
    /// A committed offset, or its removal.
    Offset {
        /// Whose.
        group: String,
        /// Of which topic.
        topic: String,
        /// Of which partition.
        partition: i32,
        /// `None` takes it away.
        value: Option<CommittedOffset>,
    },
    /// A classic group's members and generation, or its removal.
    Group {
        /// Which.
        group: String,
        /// `None` takes it away.
        value: Option<GroupRecord>,
    },
    /// One of the records that make a group of the consumer protocol.
    Consumer {
        /// Which.
        group: Rc<str>,
        /// The record, or its removal.
        record: ConsumerRecord,
    },
    /// A kind of record that this version does not know, by the number its key starts with.
    Unknown(i16),
}

/// Why the bytes of a record are not one.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RecordError {
    /// It has no key.
    #[error("a record without a key")]
    NoKey,
    /// A layout of a value that is newer than what is known.
    #[error("a value of version {0} under a key of version {1}")]
    ValueVersion(i16, i16),
    /// Bytes that end too early, or are no text.
    #[error(transparent)]
    Malformed(#[from] WireError),
    /// A record of a group of the consumer protocol that is none.
    #[error(transparent)]
    Consumer(#[from] DecodeError),
}

impl OffsetsRecord {
    /// Reads a record.
    ///
    /// # Errors
    /// [`RecordError`] if the bytes are none.
    pub fn decode(key: Option<&[u8]>, value: Option<&[u8]>) -> Result<Self, RecordError> {
        let key = key.ok_or(RecordError::NoKey)?;
        let mut reader = Reader::new(key);
        let kind = reader.i16("key version")?;
        match kind {
            0..=OFFSET_KEY_LAST => Ok(Self::Offset {
                group: reader.string(false, "group")?.to_owned(),
                topic: reader.string(false, "topic")?.to_owned(),
                partition: reader.i32("partition")?,
                value: value.map(|value| decode_offset(value, kind)).transpose()?,
            }),
            GROUP_KEY => Ok(Self::Group {
                group: reader.string(false, "group")?.to_owned(),
                value: value.map(|value| decode_group(value, kind)).transpose()?,
            }),
            other => Ok(match consumer::decode(key, value)? {
                Some((group, record)) => Self::Consumer { group, record },
                None => Self::Unknown(other),
            }),
        }
    }

    /// Appends the bytes of the key and of the value; `false` for a record without a value.
    pub fn encode(&self, key: &mut BytesMut, value: &mut BytesMut) -> bool {
        match self {
            Self::Offset {
                group,
                topic,
                partition,
                value: offset,
            } => {
                key.put_i16(OFFSET_KEY);
                key.put_string(false, group);
                key.put_string(false, topic);
                key.put_i32(*partition);
                offset
                    .as_ref()
                    .map(|offset| encode_offset(offset, value))
                    .is_some()
            }
            Self::Group { group, value: kept } => {
                key.put_i16(GROUP_KEY);
                key.put_string(false, group);
                kept.as_ref().map(|kept| encode_group(kept, value)).is_some()
            }
            Self::Consumer { group, record } => {
                let (own_key, own_value) = consumer::encode(group, record);
                key.extend_from_slice(&own_key);
                own_value
                    .map(|own_value| value.extend_from_slice(&own_value))
                    .is_some()
            }
            Self::Unknown(kind) => {
                key.put_i16(*kind);
                false
            }
        }
    }
}

fn value_version(reader: &mut Reader<'_>, kind: i16) -> Result<(i16, bool), RecordError> {
    let version = reader.i16("value version")?;
    match version {
        0..=LAST_VALUE => Ok((version, version >= FIRST_FLEXIBLE_VALUE)),
        _ => Err(RecordError::ValueVersion(version, kind)),
    }
}

fn decode_offset(value: &[u8], kind: i16) -> Result<CommittedOffset, RecordError> {
    let mut reader = Reader::new(value);
    let (version, flexible) = value_version(&mut reader, kind)?;
    let offset = reader.i64("offset")?;
    let leader_epoch = match version {
        3.. => reader.i32("leader epoch")?,
        _ => -1,
    };
    let metadata = reader.string(flexible, "metadata")?.into();
    let commit_timestamp_ms = reader.i64("commit timestamp")?;
    let expire_timestamp_ms = match version {
        OFFSET_VALUE_WITH_EXPIRY => {
            Some(reader.i64("expire timestamp")?).filter(|timestamp| *timestamp != NO_EXPIRY)
        }
        _ => None,
    };
    let mut topic_id = Uuid::nil();
    reader.tagged_fields(flexible, |tag, mut value| {
        if tag == TOPIC_ID_TAG {
            topic_id = value.uuid("topic id")?;
        }
        Ok(())
    })?;
    Ok(CommittedOffset {
        offset,
        leader_epoch,
        metadata,
        commit_timestamp_ms,
        expire_timestamp_ms,
        topic_id,
    })
}

fn encode_offset(offset: &CommittedOffset, out: &mut BytesMut) {
    if let Some(expire_timestamp_ms) = offset.expire_timestamp_ms {
        out.put_i16(OFFSET_VALUE_WITH_EXPIRY);
        out.put_i64(offset.offset);
        out.put_string(false, &offset.metadata);
        out.put_i64(offset.commit_timestamp_ms);
        out.put_i64(expire_timestamp_ms);
        return;
    }
    out.put_i16(OFFSET_VALUE);
    out.put_i64(offset.offset);
    out.put_i32(offset.leader_epoch);
    out.put_string(true, &offset.metadata);
    out.put_i64(offset.commit_timestamp_ms);
    if offset.topic_id.is_nil() {
        out.put_no_tagged_fields(true);
        return;
    }
    out.put_unsigned_varint(1);
    out.put_unsigned_varint(TOPIC_ID_TAG);
    out.put_unsigned_varint(16);
    out.put_uuid(offset.topic_id);
}

fn decode_group(value: &[u8], kind: i16) -> Result<GroupRecord, RecordError> {
    let mut reader = Reader::new(value);
    let (version, flexible) = value_version(&mut reader, kind)?;
    let mut group = GroupRecord {
        protocol_type: Some(reader.string(flexible, "protocol type")?)
            .filter(|kind| !kind.is_empty())
            .map(Rc::from),
        generation: reader.i32("generation")?,
        protocol_name: reader.nullable_string(flexible, "protocol")?.map(Rc::from),
        leader: reader.nullable_string(flexible, "leader")?.map(Rc::from),
        state_since_ms: match version {
            2.. => Some(reader.i64("current state timestamp")?).filter(|timestamp| *timestamp != -1),
            _ => None,
        },
        members: Vec::new(),
    };
    for _ in 0..reader.array(flexible, 8, "members")? {
        group.members.push(decode_member(&mut reader, version, flexible)?);
    }
    reader.skip_tagged_fields(flexible)?;
    Ok(group)
}

fn decode_member(reader: &mut Reader<'_>, version: i16, flexible: bool) -> Result<MemberRecord, RecordError> {
    let member = MemberRecord {
        member_id: reader.string(flexible, "member id")?.into(),
        instance_id: match version {
            3.. => reader
                .nullable_string(flexible, "group instance id")?
                .map(Rc::from),
            _ => None,
        },
        client_id: reader.string(flexible, "client id")?.into(),
        client_host: reader.string(flexible, "client host")?.into(),
        rebalance_timeout_ms: match version {
            1.. => reader.i32("rebalance timeout")?,
            _ => -1,
        },
        session_timeout_ms: reader.i32("session timeout")?,
        subscription: bytes_of(reader.nullable_bytes(flexible, "subscription")?),
        assignment: bytes_of(reader.nullable_bytes(flexible, "assignment")?),
    };
    reader.skip_tagged_fields(flexible)?;
    Ok(member)
}

fn bytes_of(bytes: Option<&[u8]>) -> Bytes {
    Bytes::copy_from_slice(bytes.unwrap_or_default())
}

fn encode_group(group: &GroupRecord, out: &mut BytesMut) {
    out.put_i16(GROUP_VALUE);
    out.put_string(false, group.protocol_type.as_deref().unwrap_or_default());
    out.put_i32(group.generation);
    out.put_nullable_string(false, group.protocol_name.as_deref());
    out.put_nullable_string(false, group.leader.as_deref());
    out.put_i64(group.state_since_ms.unwrap_or(-1));
    out.put_length(false, Some(group.members.len()));
    for member in &group.members {
        out.put_string(false, &member.member_id);
        out.put_nullable_string(false, member.instance_id.as_deref());
        out.put_string(false, &member.client_id);
        out.put_string(false, &member.client_host);
        out.put_i32(member.rebalance_timeout_ms);
        out.put_i32(member.session_timeout_ms);
        for bytes in [&member.subscription, &member.assignment] {
            out.put_length(false, Some(bytes.len()));
            out.put_slice(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(record: &OffsetsRecord) -> (Vec<u8>, Option<Vec<u8>>) {
        let (mut key, mut value) = (BytesMut::new(), BytesMut::new());
        let has_value = record.encode(&mut key, &mut value);
        (key.to_vec(), has_value.then(|| value.to_vec()))
    }

    fn offset(value: Option<CommittedOffset>) -> OffsetsRecord {
        OffsetsRecord::Offset {
            group: "g".to_owned(),
            topic: "tp".to_owned(),
            partition: 7,
            value,
        }
    }

    fn committed() -> CommittedOffset {
        CommittedOffset {
            offset: 42,
            leader_epoch: 5,
            metadata: "m".into(),
            commit_timestamp_ms: 0x0102,
            expire_timestamp_ms: None,
            topic_id: Uuid::from_u128(0xff),
        }
    }

    fn group() -> GroupRecord {
        GroupRecord {
            protocol_type: Some("consumer".into()),
            generation: 3,
            protocol_name: Some("range".into()),
            leader: Some("a".into()),
            state_since_ms: Some(9),
            members: vec![MemberRecord {
                member_id: "a".into(),
                instance_id: None,
                client_id: "c".into(),
                client_host: "/h".into(),
                rebalance_timeout_ms: 300_000,
                session_timeout_ms: 45_000,
                subscription: Bytes::from_static(b"s"),
                assignment: Bytes::from_static(b"xy"),
            }],
        }
    }

    /// The bytes that Apache Kafka 4.2 writes for the same commit: key 1, value 4 with the topic's id under tag 0.
    #[test]
    fn golden_offset() {
        let record = offset(Some(committed()));
        let (key, value) = encoded(&record);
        assert_eq!(key, b"\x00\x01\x00\x01g\x00\x02tp\x00\x00\x00\x07");
        let expected = [
            &b"\x00\x04\x00\x00\x00\x00\x00\x00\x00\x2a\x00\x00\x00\x05\x02m\x00\x00\x00\x00\x00\x00\x01\x02\x01\x00\x10"[..],
            &[0; 15],
            b"\xff",
        ]
        .concat();
        assert_eq!(value.as_deref(), Some(&expected[..]));
        assert_eq!(OffsetsRecord::decode(Some(&key), value.as_deref()), Ok(record));
    }

    /// An offset with a time of expiry is written in the one layout that has it, which lacks epoch and topic id.
    #[test]
    fn golden_offset_with_expiry() {
        let (key, value) = encoded(&offset(Some(CommittedOffset {
            expire_timestamp_ms: Some(0x0304),
            ..committed()
        })));
        let expected =
            b"\x00\x01\x00\x00\x00\x00\x00\x00\x00\x2a\x00\x01m\x00\x00\x00\x00\x00\x00\x01\x02\x00\x00\x00\x00\x00\x00\x03\x04";
        assert_eq!(value.as_deref(), Some(&expected[..]));
        let back = offset(Some(CommittedOffset {
            leader_epoch: -1,
            topic_id: Uuid::nil(),
            expire_timestamp_ms: Some(0x0304),
            ..committed()
        }));
        assert_eq!(OffsetsRecord::decode(Some(&key), value.as_deref()), Ok(back));
    }

    #[test]
    fn golden_group() {
        let record = OffsetsRecord::Group {
            group: "g".to_owned(),
            value: Some(group()),
        };
        let (key, value) = encoded(&record);
        assert_eq!(key, b"\x00\x02\x00\x01g");
        let expected = b"\x00\x03\x00\x08consumer\x00\x00\x00\x03\x00\x05range\x00\x01a\
            \x00\x00\x00\x00\x00\x00\x00\x09\x00\x00\x00\x01\
            \x00\x01a\xff\xff\x00\x01c\x00\x02/h\x00\x04\x93\xe0\x00\x00\xaf\xc8\
            \x00\x00\x00\x01s\x00\x00\x00\x02xy";
        assert_eq!(value.as_deref(), Some(&expected[..]));
        assert_eq!(OffsetsRecord::decode(Some(&key), value.as_deref()), Ok(record));
    }

    #[test]
    fn tombstones_have_a_key_alone() {
        for record in [
            offset(None),
            OffsetsRecord::Group {
                group: "g".to_owned(),
                value: None,
            },
        ] {
            let (key, value) = encoded(&record);
            assert_eq!(value, None);
            assert_eq!(OffsetsRecord::decode(Some(&key), None), Ok(record));
        }
    }

    /// Layouts that Kafka wrote in earlier versions, and the compact one of a group, are read.
    #[test]
    fn every_layout_of_kafka_is_read() {
        let key = b"\x00\x00\x00\x01g\x00\x02tp\x00\x00\x00\x07";
        for (value, epoch, expiry) in [
            (
                &b"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x2a\x00\x01m\x00\x00\x00\x00\x00\x00\x01\x02"[..],
                -1,
                None,
            ),
            (
                b"\x00\x01\x00\x00\x00\x00\x00\x00\x00\x2a\x00\x01m\x00\x00\x00\x00\x00\x00\x01\x02\xff\xff\xff\xff\xff\xff\xff\xff",
                -1,
                None,
            ),
            (
                b"\x00\x02\x00\x00\x00\x00\x00\x00\x00\x2a\x00\x01m\x00\x00\x00\x00\x00\x00\x01\x02",
                -1,
                None,
            ),
            (
                b"\x00\x03\x00\x00\x00\x00\x00\x00\x00\x2a\x00\x00\x00\x05\x00\x01m\x00\x00\x00\x00\x00\x00\x01\x02",
                5,
                None,
            ),
            (
                // An unknown tag behind it is skipped.
                b"\x00\x04\x00\x00\x00\x00\x00\x00\x00\x2a\x00\x00\x00\x05\x02m\x00\x00\x00\x00\x00\x00\x01\x02\x01\x09\x01z",
                5,
                None,
            ),
        ] {
            let expected = offset(Some(CommittedOffset {
                leader_epoch: epoch,
                topic_id: Uuid::nil(),
                expire_timestamp_ms: expiry,
                ..committed()
            }));
            assert_eq!(OffsetsRecord::decode(Some(key), Some(value)), Ok(expected), "{value:?}");
        }
        let key = b"\x00\x02\x00\x01g";
        let expected = |state_since_ms, rebalance_timeout_ms| {
            let mut value = group();
            value.state_since_ms = state_since_ms;
            value.members[0].rebalance_timeout_ms = rebalance_timeout_ms;
            Ok(OffsetsRecord::Group {
                group: "g".to_owned(),
                value: Some(value),
            })
        };
        let head = b"\x00\x08consumer\x00\x00\x00\x03\x00\x05range\x00\x01a";
        let tail = b"\x00\x00\xaf\xc8\x00\x00\x00\x01s\x00\x00\x00\x02xy";
        let member = b"\x00\x00\x00\x01\x00\x01a\x00\x01c\x00\x02/h";
        let v0 = [&b"\x00\x00"[..], head, member, tail].concat();
        assert_eq!(OffsetsRecord::decode(Some(key), Some(&v0)), expected(None, -1));
        let v1 = [&b"\x00\x01"[..], head, member, b"\x00\x04\x93\xe0", tail].concat();
        assert_eq!(
            OffsetsRecord::decode(Some(key), Some(&v1)),
            expected(None, 300_000)
        );
        let time = b"\x00\x00\x00\x00\x00\x00\x00\x09";
        let v2 = [&b"\x00\x02"[..], head, time, member, b"\x00\x04\x93\xe0", tail].concat();
        assert_eq!(
            OffsetsRecord::decode(Some(key), Some(&v2)),
            expected(Some(9), 300_000)
        );
        let v4 = b"\x00\x04\x09consumer\x00\x00\x00\x03\x06range\x02a\x00\x00\x00\x00\x00\x00\x00\x09\
            \x02\x02a\x00\x02c\x03/h\x00\x04\x93\xe0\x00\x00\xaf\xc8\x02s\x03xy\x00\x00";
        assert_eq!(
            OffsetsRecord::decode(Some(key), Some(v4)),
            expected(Some(9), 300_000)
        );
    }

    #[test]
    fn what_is_no_record_is_an_error_and_what_is_newer_is_told_apart() {
        assert_eq!(OffsetsRecord::decode(None, None), Err(RecordError::NoKey));
        assert_eq!(
            OffsetsRecord::decode(Some(b"\x00\x09\x00\x01g"), Some(b"\x00\x00")),
            Ok(OffsetsRecord::Unknown(9))
        );
        assert_eq!(
            OffsetsRecord::decode(Some(b"\x00\x02\x00\x01g"), Some(b"\x00\x05")),
            Err(RecordError::ValueVersion(5, 2))
        );
        for length in 0..11 {
            let key = &b"\x00\x01\x00\x01g\x00\x02tp\x00\x00\x00\x07"[..length];
            assert!(OffsetsRecord::decode(Some(key), None).is_err());
        }
    }
}
