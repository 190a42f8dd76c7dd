//! The Fetch request.

use bytes::{BufMut, BytesMut};
use uuid::Uuid;

use super::{
    CONSUMER_REPLICA_ID, FIRST_SESSION_VERSION, FIRST_TOPIC_ID_VERSION, KEY, TopicRef, check_version,
};
use crate::primitives::{DecodeBudget, Reader, WriteExt, unsigned_varint_size};
use crate::{Grouped, WireError, is_flexible};

/// A Fetch request. Fields that a version lacks decode to the value they have by default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchRequest<'a> {
    /// The cluster the sender believes in (v12+).
    pub cluster_id: Option<&'a str>,
    /// The follower's broker id, -1 for a consumer.
    pub replica_id: i32,
    /// The follower's broker epoch, -1 for a consumer (v15+).
    pub replica_epoch: i64,
    /// How long to wait for `min_bytes`.
    pub max_wait_ms: i32,
    /// Answer when this many bytes are there.
    pub min_bytes: i32,
    /// The limit over all partitions; the first non-empty one may pass it.
    pub max_bytes: i32,
    /// 0 read uncommitted, 1 read committed.
    pub isolation_level: i8,
    /// The fetch session (v7+), 0 for none.
    pub session_id: i32,
    /// The session epoch (v7+).
    pub session_epoch: i32,
    /// The partitions by topic, in request order.
    pub topics: Grouped<TopicRef<'a>, FetchPartition>,
    /// The partitions to leave the session (v7+).
    pub forgotten_topics: Grouped<TopicRef<'a>, i32>,
    /// The consumer's rack (v11+), empty for none.
    pub rack_id: &'a str,
}

impl Default for FetchRequest<'_> {
    fn default() -> Self {
        FetchRequest {
            cluster_id: None,
            replica_id: -1,
            replica_epoch: -1,
            max_wait_ms: 0,
            min_bytes: 0,
            max_bytes: i32::MAX,
            isolation_level: 0,
            session_id: 0,
            session_epoch: -1,
            topics: Grouped::new(),
            forgotten_topics: Grouped::new(),
            rack_id: "",
        }
    }
}

/// One partition to fetch from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FetchPartition {
    /// The partition's number.
    pub index: i32,
    /// The leader epoch the sender believes in (v9+), -1 for none.
    pub current_leader_epoch: i32,
    /// The offset to read from.
    pub fetch_offset: i64,
    /// The epoch of the last record fetched (v12+), -1 for none.
    pub last_fetched_epoch: i32,
    /// The follower's log start (v5+), -1 for a consumer.
    pub log_start_offset: i64,
    /// The limit for this partition.
    pub max_bytes: i32,
    /// The follower's directory (v17+), nil for none.
    pub replica_directory_id: Uuid,
    /// The high watermark the follower knows (v18+, KIP-1166), `i64::MAX` for none.
    pub high_watermark: i64,
}

impl Default for FetchPartition {
    fn default() -> Self {
        FetchPartition {
            index: 0,
            current_leader_epoch: -1,
            fetch_offset: 0,
            last_fetched_epoch: -1,
            log_start_offset: -1,
            max_bytes: 0,
            replica_directory_id: Uuid::nil(),
            high_watermark: i64::MAX,
        }
    }
}

/// The bytes of the smallest of each element: what an element count is checked against.
const TOPIC_MIN: usize = 3;
const PARTITION_MIN: usize = 16;
const FORGOTTEN_PARTITION_MIN: usize = 4;

/// A decoded partition is about twice its encoding, a decoded topic too.
const DECODED_MULTIPLE: usize = 4;
/// Room for partitions before their number is known.
const PARTITIONS_RESERVED: usize = 64;

const CLUSTER_ID_TAG: u32 = 0;
const REPLICA_STATE_TAG: u32 = 1;
const REPLICA_DIRECTORY_ID_TAG: u32 = 0;
const HIGH_WATERMARK_TAG: u32 = 1;

const REPLICA_STATE_VERSION: i16 = 15;
const REPLICA_DIRECTORY_ID_VERSION: i16 = 17;
const HIGH_WATERMARK_VERSION: i16 = 18;

type Topics<'a> = Grouped<TopicRef<'a>, FetchPartition>;
type ForgottenTopics<'a> = Grouped<TopicRef<'a>, i32>;

/// Decodes a request's body, versions 4 to 18.
pub fn decode_request(version: i16, body: &[u8]) -> Result<FetchRequest<'_>, WireError> {
    check_version(version)?;
    let flexible = is_flexible(KEY, version);
    let mut reader = Reader::new(body);
    let mut budget = DecodeBudget::new(body.len(), DECODED_MULTIPLE);
    let mut request = FetchRequest::default();
    if version < REPLICA_STATE_VERSION {
        request.replica_id = reader.i32("replica id")?;
    }
    request.max_wait_ms = reader.i32("max wait")?;
    request.min_bytes = reader.i32("min bytes")?;
    request.max_bytes = reader.i32("max bytes")?;
    request.isolation_level = reader.i8("isolation level")?;
    if version >= FIRST_SESSION_VERSION {
        request.session_id = reader.i32("session id")?;
        request.session_epoch = reader.i32("session epoch")?;
    }
    request.topics = decode_topics(&mut reader, version, flexible, &mut budget)?;
    if version >= FIRST_SESSION_VERSION {
        request.forgotten_topics = decode_forgotten(&mut reader, version, flexible, &mut budget)?;
    }
    if version >= 11 {
        request.rack_id = reader.string(flexible, "rack id")?;
    }
    reader.tagged_fields(flexible, |tag, mut field| {
        match tag {
            CLUSTER_ID_TAG => request.cluster_id = field.nullable_string(true, "cluster id")?,
            REPLICA_STATE_TAG if version >= REPLICA_STATE_VERSION => {
                request.replica_id = field.i32("replica id")?;
                request.replica_epoch = field.i64("replica epoch")?;
                field.skip_tagged_fields(true)?;
            }
            _ => {}
        }
        Ok(())
    })?;
    Ok(request)
}

fn decode_topics<'a>(
    reader: &mut Reader<'a>,
    version: i16,
    flexible: bool,
    budget: &mut DecodeBudget,
) -> Result<Topics<'a>, WireError> {
    let topic_count = reader.array(flexible, TOPIC_MIN, "topics")?;
    budget.spend(topic_count, Topics::GROUP_BYTES)?;
    let mut topics = Topics::with_capacity(topic_count, topic_count.min(PARTITIONS_RESERVED));
    for _ in 0..topic_count {
        topics.begin(TopicRef::read(
            reader,
            version >= FIRST_TOPIC_ID_VERSION,
            flexible,
        )?);
        let partition_count = reader.array(flexible, PARTITION_MIN, "partitions")?;
        budget.spend(partition_count, Topics::ITEM_BYTES)?;
        for _ in 0..partition_count {
            topics.push(decode_partition(reader, version, flexible)?);
        }
        reader.skip_tagged_fields(flexible)?;
    }
    Ok(topics)
}

fn decode_partition(
    reader: &mut Reader<'_>,
    version: i16,
    flexible: bool,
) -> Result<FetchPartition, WireError> {
    let mut partition = FetchPartition {
        index: reader.i32("partition index")?,
        ..FetchPartition::default()
    };
    if version >= 9 {
        partition.current_leader_epoch = reader.i32("current leader epoch")?;
    }
    partition.fetch_offset = reader.i64("fetch offset")?;
    if version >= 12 {
        partition.last_fetched_epoch = reader.i32("last fetched epoch")?;
    }
    if version >= 5 {
        partition.log_start_offset = reader.i64("log start offset")?;
    }
    partition.max_bytes = reader.i32("partition max bytes")?;
    reader.tagged_fields(flexible, |tag, mut field| {
        match tag {
            REPLICA_DIRECTORY_ID_TAG if version >= REPLICA_DIRECTORY_ID_VERSION => {
                partition.replica_directory_id = field.uuid("replica directory id")?;
            }
            HIGH_WATERMARK_TAG if version >= HIGH_WATERMARK_VERSION => {
                partition.high_watermark = field.i64("high watermark")?;
            }
            _ => {}
        }
        Ok(())
    })?;
    Ok(partition)
}

fn decode_forgotten<'a>(
    reader: &mut Reader<'a>,
    version: i16,
    flexible: bool,
    budget: &mut DecodeBudget,
) -> Result<ForgottenTopics<'a>, WireError> {
    let topic_count = reader.array(flexible, TOPIC_MIN, "forgotten topics")?;
    budget.spend(topic_count, ForgottenTopics::GROUP_BYTES)?;
    let mut topics = ForgottenTopics::with_capacity(topic_count, 0);
    for _ in 0..topic_count {
        topics.begin(TopicRef::read(
            reader,
            version >= FIRST_TOPIC_ID_VERSION,
            flexible,
        )?);
        for _ in 0..reader.array(flexible, FORGOTTEN_PARTITION_MIN, "forgotten partitions")? {
            topics.push(reader.i32("forgotten partition")?);
        }
        reader.skip_tagged_fields(flexible)?;
    }
    Ok(topics)
}

/// Appends a request's body, versions 4 to 18.
pub fn encode_request(out: &mut BytesMut, version: i16, request: &FetchRequest<'_>) -> Result<(), WireError> {
    check_version(version)?;
    let flexible = is_flexible(KEY, version);
    if version < REPLICA_STATE_VERSION {
        out.put_i32(request.replica_id);
    }
    out.put_i32(request.max_wait_ms);
    out.put_i32(request.min_bytes);
    out.put_i32(request.max_bytes);
    out.put_i8(request.isolation_level);
    if version >= FIRST_SESSION_VERSION {
        out.put_i32(request.session_id);
        out.put_i32(request.session_epoch);
    }
    out.put_length(flexible, Some(request.topics.group_count()));
    for (topic, partitions) in request.topics.iter() {
        topic.write(out, version >= FIRST_TOPIC_ID_VERSION, flexible)?;
        out.put_length(flexible, Some(partitions.len()));
        for partition in partitions {
            encode_partition(out, version, flexible, partition);
        }
        out.put_no_tagged_fields(flexible);
    }
    if version >= FIRST_SESSION_VERSION {
        out.put_length(flexible, Some(request.forgotten_topics.group_count()));
        for (topic, partitions) in request.forgotten_topics.iter() {
            topic.write(out, version >= FIRST_TOPIC_ID_VERSION, flexible)?;
            out.put_length(flexible, Some(partitions.len()));
            partitions.iter().for_each(|partition| out.put_i32(*partition));
            out.put_no_tagged_fields(flexible);
        }
    }
    if version >= 11 {
        out.put_string(flexible, request.rack_id);
    }
    if flexible {
        encode_request_tags(out, version, request);
    }
    Ok(())
}

fn encode_partition(out: &mut BytesMut, version: i16, flexible: bool, partition: &FetchPartition) {
    out.put_i32(partition.index);
    if version >= 9 {
        out.put_i32(partition.current_leader_epoch);
    }
    out.put_i64(partition.fetch_offset);
    if version >= 12 {
        out.put_i32(partition.last_fetched_epoch);
    }
    if version >= 5 {
        out.put_i64(partition.log_start_offset);
    }
    out.put_i32(partition.max_bytes);
    if !flexible {
        return;
    }
    let directory = version >= REPLICA_DIRECTORY_ID_VERSION && !partition.replica_directory_id.is_nil();
    let high_watermark = version >= HIGH_WATERMARK_VERSION && partition.high_watermark != i64::MAX;
    out.put_unsigned_varint(u32::from(directory) + u32::from(high_watermark));
    if directory {
        out.put_unsigned_varint(REPLICA_DIRECTORY_ID_TAG);
        out.put_unsigned_varint(16);
        out.put_uuid(partition.replica_directory_id);
    }
    if high_watermark {
        out.put_unsigned_varint(HIGH_WATERMARK_TAG);
        out.put_unsigned_varint(8);
        out.put_i64(partition.high_watermark);
    }
}

fn encode_request_tags(out: &mut BytesMut, version: i16, request: &FetchRequest<'_>) {
    let is_replica = (request.replica_id, request.replica_epoch) != (CONSUMER_REPLICA_ID, -1);
    let replica_state = version >= REPLICA_STATE_VERSION && is_replica;
    out.put_unsigned_varint(u32::from(request.cluster_id.is_some()) + u32::from(replica_state));
    if let Some(cluster_id) = request.cluster_id {
        let length = unsigned_varint_size(cluster_id.len() as u32 + 1) + cluster_id.len();
        out.put_unsigned_varint(CLUSTER_ID_TAG);
        out.put_unsigned_varint(length as u32);
        out.put_string(true, cluster_id);
    }
    if replica_state {
        out.put_unsigned_varint(REPLICA_STATE_TAG);
        out.put_unsigned_varint(4 + 8 + 1);
        out.put_i32(request.replica_id);
        out.put_i64(request.replica_epoch);
        out.put_no_tagged_fields(true);
    }
}
