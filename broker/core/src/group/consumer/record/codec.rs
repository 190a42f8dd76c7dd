//! The bytes of a group's records: Kafka's schemas `ConsumerGroup*Key` and `ConsumerGroup*Value` of version 0.
//!
//! A key is the record's number and the old encoding of its fields; a value is its version and the flexible encoding.
//! Tagged fields that are not known are skipped, as Kafka's readers do.

use std::collections::BTreeSet;
use std::rc::Rc;

use bytes::{BufMut, Bytes, BytesMut};
use strandline_wire::primitives::{Reader, WriteExt};
use strandline_wire::{Uuid, WireError};

use super::{
    Assignment, ClassicMemberMetadata, ConsumerRecord, CurrentAssignment, GroupEpoch, MemberMetadata,
    MemberState, ResolvedRegex,
};

const GROUP_EPOCH: i16 = 3;
const TOPIC_METADATA: i16 = 4;
const MEMBER: i16 = 5;
const TARGET_EPOCH: i16 = 6;
const TARGET: i16 = 7;
const CURRENT: i16 = 8;
const REGEX: i16 = 16;

const VALUE_VERSION: i16 = 0;
/// Keys are not flexible, values are.
const KEY: bool = false;
const VALUE: bool = true;
/// The tag of `metadata_hash` in its record, and of `classic` in the member's.
const FIRST_TAG: u32 = 0;

/// Why a record cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The bytes do not follow the schema.
    #[error("record of type {key_type}: {error}")]
    Malformed {
        /// The key's number.
        key_type: i16,
        /// What is wrong.
        error: WireError,
    },
    /// A value of a version that this broker does not know.
    #[error("record of type {key_type} has version {version}")]
    Version {
        /// The key's number.
        key_type: i16,
        /// The value's version.
        version: i16,
    },
}

/// The key and the value of a record; a tombstone has no value.
pub fn encode(group: &str, record: &ConsumerRecord) -> (Bytes, Option<Bytes>) {
    let (key_type, second, value) = match record {
        ConsumerRecord::GroupEpoch(value) => (GROUP_EPOCH, None, value.as_ref().map(group_epoch)),
        ConsumerRecord::TopicMetadata(kept) => (TOPIC_METADATA, None, kept.then(topic_metadata)),
        ConsumerRecord::Member(id, value) => (MEMBER, Some(id), value.as_deref().map(member)),
        ConsumerRecord::TargetEpoch(value) => (TARGET_EPOCH, None, value.map(target_epoch)),
        ConsumerRecord::Target(id, value) => (TARGET, Some(id), value.as_ref().map(target)),
        ConsumerRecord::Current(id, value) => (CURRENT, Some(id), value.as_ref().map(current)),
        ConsumerRecord::Regex(regex, value) => (REGEX, Some(regex), value.as_deref().map(resolved_regex)),
    };
    let mut key = BytesMut::new();
    key.put_i16(key_type);
    key.put_string(KEY, group);
    if let Some(second) = second {
        key.put_string(KEY, second);
    }
    (key.freeze(), value.map(BytesMut::freeze))
}

/// The group and the record that a key and a value stand for; `None` when the key's type is not one of these records.
pub fn decode(key: &[u8], value: Option<&[u8]>) -> Result<Option<(Rc<str>, ConsumerRecord)>, DecodeError> {
    let mut key = Reader::new(key);
    let Ok(key_type) = key.i16("key type") else {
        return Ok(None);
    };
    if !matches!(
        key_type,
        GROUP_EPOCH | TOPIC_METADATA | MEMBER | TARGET_EPOCH | TARGET | CURRENT | REGEX
    ) {
        return Ok(None);
    }
    let malformed = |error| DecodeError::Malformed { key_type, error };
    let group = key.string(KEY, "group_id").map_err(malformed)?.into();
    let value = value.map(Reader::new).map(|mut value| {
        let version = value.i16("version").map_err(malformed)?;
        if version == VALUE_VERSION {
            Ok(value)
        } else {
            Err(DecodeError::Version { key_type, version })
        }
    });
    let record = read_record(key_type, key, value.transpose()?).map_err(malformed)?;
    Ok(Some((group, record)))
}

fn read_record(
    key_type: i16,
    mut key: Reader<'_>,
    value: Option<Reader<'_>>,
) -> Result<ConsumerRecord, WireError> {
    let mut second = || key.string(KEY, "member_id").map(Rc::from);
    Ok(match key_type {
        GROUP_EPOCH => ConsumerRecord::GroupEpoch(value.map(read_group_epoch).transpose()?),
        TOPIC_METADATA => ConsumerRecord::TopicMetadata(value.is_some()),
        MEMBER => ConsumerRecord::Member(second()?, value.map(read_member).transpose()?.map(Rc::new)),
        TARGET_EPOCH => ConsumerRecord::TargetEpoch(value.map(|mut value| value.i32("epoch")).transpose()?),
        TARGET => ConsumerRecord::Target(
            second()?,
            value.map(|mut value| read_partitions(&mut value)).transpose()?,
        ),
        CURRENT => ConsumerRecord::Current(second()?, value.map(read_current).transpose()?),
        _ => ConsumerRecord::Regex(second()?, value.map(read_regex).transpose()?.map(Rc::new)),
    })
}

fn versioned() -> BytesMut {
    let mut bytes = BytesMut::new();
    bytes.put_i16(VALUE_VERSION);
    bytes
}

fn group_epoch(value: &GroupEpoch) -> BytesMut {
    let mut bytes = versioned();
    bytes.put_i32(value.epoch);
    if value.metadata_hash == 0 {
        bytes.put_no_tagged_fields(VALUE);
    } else {
        let mut field = BytesMut::new();
        field.put_i64(value.metadata_hash);
        put_tagged(&mut bytes, &field);
    }
    bytes
}

fn read_group_epoch(mut value: Reader<'_>) -> Result<GroupEpoch, WireError> {
    let epoch = value.i32("epoch")?;
    let mut metadata_hash = 0;
    value.tagged_fields(VALUE, |tag, mut field| {
        if tag == FIRST_TAG {
            metadata_hash = field.i64("metadata_hash")?;
        }
        Ok(())
    })?;
    Ok(GroupEpoch { epoch, metadata_hash })
}

fn topic_metadata() -> BytesMut {
    let mut bytes = versioned();
    bytes.put_length(VALUE, Some(0));
    bytes.put_no_tagged_fields(VALUE);
    bytes
}

fn member(value: &MemberMetadata) -> BytesMut {
    let mut bytes = versioned();
    bytes.put_nullable_string(VALUE, value.instance_id.as_deref());
    bytes.put_nullable_string(VALUE, value.rack_id.as_deref());
    bytes.put_string(VALUE, &value.client_id);
    bytes.put_string(VALUE, &value.client_host);
    put_strings(&mut bytes, value.topic_names.iter());
    bytes.put_string(VALUE, &value.topic_regex);
    bytes.put_i32(value.rebalance_timeout_ms);
    bytes.put_nullable_string(VALUE, value.server_assignor.as_deref());
    match &value.classic {
        None => bytes.put_no_tagged_fields(VALUE),
        Some(classic) => put_tagged(&mut bytes, &classic_member(classic)),
    }
    bytes
}

/// A nullable structure: a byte says whether it is there.
fn classic_member(value: &ClassicMemberMetadata) -> BytesMut {
    let mut bytes = BytesMut::new();
    bytes.put_i8(1);
    bytes.put_i32(value.session_timeout_ms);
    bytes.put_length(VALUE, Some(value.supported_protocols.len()));
    for (name, metadata) in &value.supported_protocols {
        bytes.put_string(VALUE, name);
        bytes.put_length(VALUE, Some(metadata.len()));
        bytes.put_slice(metadata);
        bytes.put_no_tagged_fields(VALUE);
    }
    bytes.put_no_tagged_fields(VALUE);
    bytes
}

fn read_member(mut value: Reader<'_>) -> Result<MemberMetadata, WireError> {
    let value = &mut value;
    let mut member = MemberMetadata {
        instance_id: value.nullable_string(VALUE, "instance_id")?.map(Rc::from),
        rack_id: value.nullable_string(VALUE, "rack_id")?.map(Rc::from),
        client_id: value.string(VALUE, "client_id")?.into(),
        client_host: value.string(VALUE, "client_host")?.into(),
        topic_names: Rc::new(read_strings(value, "subscribed_topic_names")?),
        topic_regex: value
            .nullable_string(VALUE, "subscribed_topic_regex")?
            .unwrap_or_default()
            .into(),
        rebalance_timeout_ms: value.i32("rebalance_timeout_ms")?,
        server_assignor: value.nullable_string(VALUE, "server_assignor")?.map(Rc::from),
        classic: None,
    };
    value.tagged_fields(VALUE, |tag, field| {
        if tag == FIRST_TAG {
            member.classic = read_classic_member(field)?;
        }
        Ok(())
    })?;
    Ok(member)
}

fn read_classic_member(mut value: Reader<'_>) -> Result<Option<ClassicMemberMetadata>, WireError> {
    if value.i8("classic_member_metadata")? < 0 {
        return Ok(None);
    }
    let session_timeout_ms = value.i32("session_timeout_ms")?;
    let count = value.array(VALUE, 3, "supported_protocols")?;
    let mut supported_protocols = Vec::with_capacity(count);
    for _ in 0..count {
        let name = value.string(VALUE, "name")?.into();
        let metadata = value.nullable_bytes(VALUE, "metadata")?;
        let metadata = metadata.ok_or(WireError::NotNullable { field: "metadata" })?;
        value.skip_tagged_fields(VALUE)?;
        supported_protocols.push((name, metadata.into()));
    }
    value.skip_tagged_fields(VALUE)?;
    Ok(Some(ClassicMemberMetadata {
        session_timeout_ms,
        supported_protocols,
    }))
}

fn target_epoch(epoch: i32) -> BytesMut {
    let mut bytes = versioned();
    bytes.put_i32(epoch);
    bytes.put_no_tagged_fields(VALUE);
    bytes
}

fn target(value: &Assignment) -> BytesMut {
    let mut bytes = versioned();
    put_partitions(&mut bytes, value);
    bytes.put_no_tagged_fields(VALUE);
    bytes
}

fn current(value: &CurrentAssignment) -> BytesMut {
    let mut bytes = versioned();
    bytes.put_i32(value.epoch);
    bytes.put_i32(value.previous_epoch);
    bytes.put_i8(value.state.code());
    put_partitions(&mut bytes, &value.assigned);
    put_partitions(&mut bytes, &value.pending_revocation);
    bytes.put_no_tagged_fields(VALUE);
    bytes
}

fn read_current(mut value: Reader<'_>) -> Result<CurrentAssignment, WireError> {
    Ok(CurrentAssignment {
        epoch: value.i32("member_epoch")?,
        previous_epoch: value.i32("previous_member_epoch")?,
        state: MemberState::from_code(value.i8("state")?),
        assigned: read_partitions(&mut value)?,
        pending_revocation: read_partitions(&mut value)?,
    })
}

fn resolved_regex(value: &ResolvedRegex) -> BytesMut {
    let mut bytes = versioned();
    put_strings(&mut bytes, value.topics.iter());
    bytes.put_i64(value.version);
    bytes.put_i64(value.timestamp_ms);
    bytes.put_no_tagged_fields(VALUE);
    bytes
}

fn read_regex(mut value: Reader<'_>) -> Result<ResolvedRegex, WireError> {
    Ok(ResolvedRegex {
        topics: read_strings(&mut value, "topics")?,
        version: value.i64("version")?,
        timestamp_ms: value.i64("timestamp")?,
    })
}

/// One tagged field, number [`FIRST_TAG`].
fn put_tagged(bytes: &mut BytesMut, field: &[u8]) {
    bytes.put_unsigned_varint(1);
    bytes.put_unsigned_varint(FIRST_TAG);
    bytes.put_unsigned_varint(field.len() as u32);
    bytes.put_slice(field);
}

fn put_strings<'a>(bytes: &mut BytesMut, strings: impl ExactSizeIterator<Item = &'a Rc<str>>) {
    bytes.put_length(VALUE, Some(strings.len()));
    for string in strings {
        bytes.put_string(VALUE, string);
    }
}

fn read_strings(value: &mut Reader<'_>, field: &'static str) -> Result<BTreeSet<Rc<str>>, WireError> {
    (0..value.array(VALUE, 1, field)?)
        .map(|_| value.string(VALUE, field).map(Rc::from))
        .collect()
}

fn put_partitions(bytes: &mut BytesMut, assignment: &Assignment) {
    bytes.put_length(VALUE, Some(assignment.topics().len()));
    for (topic, partitions) in assignment.topics() {
        bytes.put_uuid(topic);
        bytes.put_length(VALUE, Some(partitions.len()));
        for partition in partitions {
            bytes.put_i32(*partition);
        }
        bytes.put_no_tagged_fields(VALUE);
    }
}

fn read_partitions(value: &mut Reader<'_>) -> Result<Assignment, WireError> {
    let mut partitions: Vec<(Uuid, i32)> = Vec::new();
    for _ in 0..value.array(VALUE, 18, "topic_partitions")? {
        let topic = value.uuid("topic_id")?;
        for _ in 0..value.array(VALUE, 4, "partitions")? {
            partitions.push((topic, value.i32("partition")?));
        }
        value.skip_tagged_fields(VALUE)?;
    }
    Ok(partitions.into_iter().collect())
}
