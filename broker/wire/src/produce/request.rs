//! The Produce request.

use bytes::{BufMut, BytesMut};

use super::{FIRST_SERVED_VERSION, FIRST_TOPIC_ID_VERSION, KEY, TopicRef, check_version};
use crate::primitives::{DecodeBudget, Reader, WriteExt};
use crate::{Grouped, WireError, is_flexible};

/// A Produce request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProduceRequest<'a> {
    /// The transactional producer's id.
    pub transactional_id: Option<&'a str>,
    /// 0 no answer, 1 leader, -1 all in-sync replicas; anything else is for the broker to refuse.
    pub acks: i16,
    /// How long to wait for the replicas.
    pub timeout_ms: i32,
    /// The partitions by topic, in request order.
    pub topics: Grouped<TopicRef<'a>, ProducePartition<'a>>,
}

/// One partition's record set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProducePartition<'a> {
    /// The partition's number.
    pub index: i32,
    /// The record set as sent; null is for the broker to refuse.
    pub records: Option<&'a [u8]>,
}

/// The bytes of the smallest partition, of the smallest topic: what an element count is checked against.
const PARTITION_MIN: usize = 5;
const TOPIC_MIN: usize = 2;

/// A decoded partition is smaller than the smallest batch, and a decoded topic is small beside it.
const DECODED_MULTIPLE: usize = 4;

/// Room for partitions before their number is known: most requests carry one a topic.
const PARTITIONS_RESERVED: usize = 64;

type Topics<'a> = Grouped<TopicRef<'a>, ProducePartition<'a>>;

/// Decodes a request's body, versions 0 to 13.
pub fn decode_request(version: i16, body: &[u8]) -> Result<ProduceRequest<'_>, WireError> {
    check_version(version, 0)?;
    let flexible = is_flexible(KEY, version);
    let mut reader = Reader::new(body);
    let transactional_id = match version {
        3.. => reader.nullable_string(flexible, "transactional id")?,
        _ => None,
    };
    let acks = reader.i16("acks")?;
    let timeout_ms = reader.i32("timeout")?;
    let topic_count = reader.array(flexible, TOPIC_MIN, "topics")?;
    let mut budget = DecodeBudget::new(body.len(), DECODED_MULTIPLE);
    budget.spend(topic_count, Topics::GROUP_BYTES)?;
    let mut topics = Topics::with_capacity(topic_count, topic_count.min(PARTITIONS_RESERVED));
    for _ in 0..topic_count {
        topics.begin(TopicRef::read(
            &mut reader,
            version >= FIRST_TOPIC_ID_VERSION,
            flexible,
        )?);
        let partition_count = reader.array(flexible, PARTITION_MIN, "partitions")?;
        budget.spend(partition_count, Topics::ITEM_BYTES)?;
        for _ in 0..partition_count {
            let index = reader.i32("partition index")?;
            let records = reader.nullable_bytes(flexible, "records")?;
            reader.skip_tagged_fields(flexible)?;
            topics.push(ProducePartition { index, records });
        }
        reader.skip_tagged_fields(flexible)?;
    }
    reader.skip_tagged_fields(flexible)?;
    Ok(ProduceRequest {
        transactional_id,
        acks,
        timeout_ms,
        topics,
    })
}

/// Appends a request's body, versions 3 to 13.
pub fn encode_request(
    out: &mut BytesMut,
    version: i16,
    request: &ProduceRequest<'_>,
) -> Result<(), WireError> {
    check_version(version, FIRST_SERVED_VERSION)?;
    let flexible = is_flexible(KEY, version);
    out.put_nullable_string(flexible, request.transactional_id);
    out.put_i16(request.acks);
    out.put_i32(request.timeout_ms);
    out.put_length(flexible, Some(request.topics.group_count()));
    for (topic, partitions) in request.topics.iter() {
        topic.write(out, version >= FIRST_TOPIC_ID_VERSION, flexible)?;
        out.put_length(flexible, Some(partitions.len()));
        for partition in partitions {
            out.put_i32(partition.index);
            out.put_length(flexible, partition.records.map(<[u8]>::len));
            out.put_slice(partition.records.unwrap_or_default());
            out.put_no_tagged_fields(flexible);
        }
        out.put_no_tagged_fields(flexible);
    }
    out.put_no_tagged_fields(flexible);
    Ok(())
}
