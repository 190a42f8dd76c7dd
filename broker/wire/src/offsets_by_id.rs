//! Requests of OffsetCommit and OffsetFetch in version 10, which name topics by id (KIP-848).
//!
//! `kafka-protocol` 0.18 knows these requests up to version 9, and their responses up to 10. Here a request is written and
//! read with its topics' names left empty, and their ids beside it, in the order of the topics.

use bytes::{BufMut, Bytes, BytesMut};
use kafka_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafka_protocol::messages::offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics};
use kafka_protocol::messages::{GroupId, OffsetCommitRequest, OffsetFetchRequest};
use kafka_protocol::protocol::StrBytes;
use uuid::Uuid;

use crate::primitives::{Reader, WriteExt};
use crate::{ApiKey, WireError, guard};

/// The first version of both APIs in which topics are named by id.
pub const FIRST_VERSION_BY_ID: i16 = 10;

/// Decodes the body of an OffsetCommit request of version 10: the request, and the id of each of its topics.
pub fn decode_commit(body: &Bytes) -> Result<(OffsetCommitRequest, Vec<Uuid>), WireError> {
    guard::check_request(ApiKey::OffsetCommit.key(), FIRST_VERSION_BY_ID, body)?;
    let mut reader = Reader::new(body);
    let mut request = OffsetCommitRequest::default()
        .with_group_id(GroupId(text(reader.string(true, "group id")?)))
        .with_generation_id_or_member_epoch(reader.i32("generation id or member epoch")?)
        .with_member_id(text(reader.string(true, "member id")?))
        .with_group_instance_id(reader.nullable_string(true, "group instance id")?.map(text));
    let mut ids = Vec::new();
    for _ in 0..reader.array(true, 18, "topics")? {
        ids.push(reader.uuid("topic id")?);
        let mut topic = OffsetCommitRequestTopic::default();
        for _ in 0..reader.array(true, 18, "partitions")? {
            let partition = OffsetCommitRequestPartition::default()
                .with_partition_index(reader.i32("partition index")?)
                .with_committed_offset(reader.i64("committed offset")?)
                .with_committed_leader_epoch(reader.i32("committed leader epoch")?)
                .with_committed_metadata(reader.nullable_string(true, "committed metadata")?.map(text));
            reader.skip_tagged_fields(true)?;
            topic.partitions.push(partition);
        }
        reader.skip_tagged_fields(true)?;
        request.topics.push(topic);
    }
    reader.skip_tagged_fields(true)?;
    Ok((request, ids))
}

/// Writes the body of an OffsetCommit request of version 10.
pub fn encode_commit(out: &mut BytesMut, request: &OffsetCommitRequest, ids: &[Uuid]) {
    out.put_string(true, &request.group_id);
    out.put_i32(request.generation_id_or_member_epoch);
    out.put_string(true, &request.member_id);
    out.put_nullable_string(true, request.group_instance_id.as_deref());
    out.put_length(true, Some(request.topics.len()));
    for (topic, id) in request.topics.iter().zip(ids) {
        out.put_uuid(*id);
        out.put_length(true, Some(topic.partitions.len()));
        for partition in &topic.partitions {
            out.put_i32(partition.partition_index);
            out.put_i64(partition.committed_offset);
            out.put_i32(partition.committed_leader_epoch);
            out.put_nullable_string(true, partition.committed_metadata.as_deref());
            out.put_no_tagged_fields(true);
        }
        out.put_no_tagged_fields(true);
    }
    out.put_no_tagged_fields(true);
}

/// Decodes the body of an OffsetFetch request of version 10: the request, and for each of its groups the ids of its topics.
pub fn decode_fetch(body: &Bytes) -> Result<(OffsetFetchRequest, Vec<Vec<Uuid>>), WireError> {
    guard::check_request(ApiKey::OffsetFetch.key(), FIRST_VERSION_BY_ID, body)?;
    let mut reader = Reader::new(body);
    let mut request = OffsetFetchRequest::default();
    let mut ids = Vec::new();
    for _ in 0..reader.array(true, 8, "groups")? {
        let mut group = OffsetFetchRequestGroup::default()
            .with_group_id(GroupId(text(reader.string(true, "group id")?)))
            .with_member_id(reader.nullable_string(true, "member id")?.map(text))
            .with_member_epoch(reader.i32("member epoch")?);
        let mut group_ids = Vec::new();
        group.topics = match reader.nullable_array(true, 18, "topics")? {
            None => None,
            Some(count) => {
                let mut topics = Vec::with_capacity(count);
                for _ in 0..count {
                    group_ids.push(reader.uuid("topic id")?);
                    let count = reader.array(true, 4, "partition indexes")?;
                    let partitions = (0..count).map(|_| reader.i32("partition index"));
                    let partitions = partitions.collect::<Result<Vec<_>, _>>()?;
                    reader.skip_tagged_fields(true)?;
                    topics.push(OffsetFetchRequestTopics::default().with_partition_indexes(partitions));
                }
                Some(topics)
            }
        };
        reader.skip_tagged_fields(true)?;
        request.groups.push(group);
        ids.push(group_ids);
    }
    request.require_stable = reader.bool("require stable")?;
    reader.skip_tagged_fields(true)?;
    Ok((request, ids))
}

/// Writes the body of an OffsetFetch request of version 10.
pub fn encode_fetch(out: &mut BytesMut, request: &OffsetFetchRequest, ids: &[Vec<Uuid>]) {
    out.put_length(true, Some(request.groups.len()));
    for (group, ids) in request.groups.iter().zip(ids) {
        out.put_string(true, &group.group_id);
        out.put_nullable_string(true, group.member_id.as_deref());
        out.put_i32(group.member_epoch);
        out.put_length(true, group.topics.as_ref().map(Vec::len));
        for (topic, id) in group.topics.iter().flatten().zip(ids) {
            out.put_uuid(*id);
            out.put_length(true, Some(topic.partition_indexes.len()));
            for partition in &topic.partition_indexes {
                out.put_i32(*partition);
            }
            out.put_no_tagged_fields(true);
        }
        out.put_no_tagged_fields(true);
    }
    out.put_u8(u8::from(request.require_stable));
    out.put_no_tagged_fields(true);
}

fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_by_id_comes_back() {
        let partition = OffsetCommitRequestPartition::default()
            .with_partition_index(3)
            .with_committed_offset(42)
            .with_committed_leader_epoch(7)
            .with_committed_metadata(Some(text("m")));
        let topic = OffsetCommitRequestTopic::default().with_partitions(vec![partition]);
        let request = OffsetCommitRequest::default()
            .with_group_id(GroupId(text("g")))
            .with_member_id(text("a"))
            .with_topics(vec![topic.clone(), topic]);
        let ids = vec![Uuid::from_u128(1), Uuid::from_u128(2)];
        let mut out = BytesMut::new();
        encode_commit(&mut out, &request, &ids);
        assert_eq!(decode_commit(&out.clone().freeze()), Ok((request, ids)));
        out.truncate(out.len() - 5);
        assert!(decode_commit(&out.freeze()).is_err());
    }

    #[test]
    fn a_fetch_by_id_comes_back() {
        let topic = OffsetFetchRequestTopics::default().with_partition_indexes(vec![0, 5]);
        let some = OffsetFetchRequestGroup::default()
            .with_group_id(GroupId(text("g")))
            .with_topics(Some(vec![topic]));
        let all = OffsetFetchRequestGroup::default().with_topics(None);
        let request = OffsetFetchRequest::default()
            .with_groups(vec![some, all])
            .with_require_stable(true);
        let ids = vec![vec![Uuid::from_u128(9)], Vec::new()];
        let mut out = BytesMut::new();
        encode_fetch(&mut out, &request, &ids);
        assert_eq!(decode_fetch(&out.clone().freeze()), Ok((request, ids)));
        out.truncate(out.len() - 3);
        assert!(decode_fetch(&out.freeze()).is_err());
    }

    /// The bytes of a commit as Kafka's message generator writes version 10.
    #[test]
    fn the_bytes_of_a_commit() {
        let mut out = BytesMut::new();
        let topic = OffsetCommitRequestTopic::default().with_partitions(vec![
            OffsetCommitRequestPartition::default().with_committed_offset(1),
        ]);
        let request = OffsetCommitRequest::default()
            .with_group_id(GroupId(text("g")))
            .with_topics(vec![topic]);
        encode_commit(&mut out, &request, &[Uuid::from_u128(0xff)]);
        let expected = [
            &b"\x02g\xff\xff\xff\xff\x01\x00\x02"[..],
            &[0; 15],
            b"\xff\x02\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\xff\xff\xff\xff\x01\x00\x00\x00",
        ]
        .concat();
        assert_eq!(out, expected);
    }
}
