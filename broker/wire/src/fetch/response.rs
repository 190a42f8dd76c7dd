//! The Fetch response: its parts, and the client's decoder.

use super::{
    CURRENT_LEADER_TAG, DIVERGING_EPOCH_TAG, FIRST_NODE_ENDPOINTS_VERSION, FIRST_SESSION_VERSION,
    FIRST_TOPIC_ID_VERSION, KEY, LeaderIdAndEpoch, NODE_ENDPOINTS_TAG, NodeEndpoint, SNAPSHOT_ID_TAG,
    TopicRef, check_version,
};
use crate::leader::read_node_endpoints;
use crate::primitives::{DecodeBudget, Reader};
use crate::{ErrorCode, Grouped, WireError, is_flexible};

/// What stands once in a response, before the topics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct FetchResponseHeader {
    /// How long the client is muted.
    pub throttle_time_ms: i32,
    /// The error of the whole request (v7+).
    pub error_code: ErrorCode,
    /// The fetch session (v7+), 0 for none.
    pub session_id: i32,
}

/// Where a follower's log diverges (KIP-595).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpochEndOffset {
    /// The largest epoch at or below the follower's last.
    pub epoch: i32,
    /// Its end offset.
    pub end_offset: i64,
}

/// The snapshot to fetch instead (KIP-630).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotId {
    /// Its end offset.
    pub end_offset: i64,
    /// Its epoch.
    pub epoch: i32,
}

/// A transaction that a read-committed consumer must skip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AbortedTransaction {
    /// The transaction's producer.
    pub producer_id: i64,
    /// Its first offset.
    pub first_offset: i64,
}

/// One partition's answer, but for its records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchPartitionHeader {
    /// The partition's number.
    pub index: i32,
    /// The error, or none.
    pub error_code: ErrorCode,
    /// The high watermark, -1 on an error.
    pub high_watermark: i64,
    /// The last stable offset, -1 on an error.
    pub last_stable_offset: i64,
    /// The log's first offset (v5+), -1 when unknown.
    pub log_start_offset: i64,
    /// Where the follower's log diverges (v12+).
    pub diverging_epoch: Option<EpochEndOffset>,
    /// The new leader (v12+).
    pub current_leader: Option<LeaderIdAndEpoch>,
    /// The snapshot to fetch instead (v12+).
    pub snapshot_id: Option<SnapshotId>,
    /// The aborted transactions within the records; null unless the reader reads committed.
    pub aborted_transactions: Option<Vec<AbortedTransaction>>,
    /// The replica to read from instead (v11+), -1 for none.
    pub preferred_read_replica: i32,
}

impl FetchPartitionHeader {
    /// An answer with an error code and nothing else.
    pub fn error(index: i32, error_code: ErrorCode) -> Self {
        FetchPartitionHeader {
            index,
            error_code,
            high_watermark: -1,
            last_stable_offset: -1,
            log_start_offset: -1,
            diverging_epoch: None,
            current_leader: None,
            snapshot_id: None,
            aborted_transactions: None,
            preferred_read_replica: -1,
        }
    }
}

/// A response as a client sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchResponse<'a> {
    /// What stands once.
    pub header: FetchResponseHeader,
    /// The partitions by topic.
    pub topics: Grouped<TopicRef<'a>, FetchedPartition<'a>>,
    /// Where the leaders named in the partitions listen (v16+).
    pub node_endpoints: Vec<NodeEndpoint<'a>>,
}

/// One partition's answer with its records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchedPartition<'a> {
    /// Everything but the records.
    pub header: FetchPartitionHeader,
    /// The record set, for [`crate::batch::batches`].
    pub records: Option<&'a [u8]>,
}

/// The bytes of the smallest of each element: what an element count is checked against.
const TOPIC_MIN: usize = 2;
const PARTITION_MIN: usize = 23;
const ABORTED_MIN: usize = 16;

/// A client trusts its broker more than a broker its clients: the bound is only against damage.
const DECODED_MULTIPLE: usize = 16;

type Topics<'a> = Grouped<TopicRef<'a>, FetchedPartition<'a>>;

/// Decodes a response's body, versions 4 to 18.
pub fn decode_response(version: i16, body: &[u8]) -> Result<FetchResponse<'_>, WireError> {
    check_version(version)?;
    let flexible = is_flexible(KEY, version);
    let mut reader = Reader::new(body);
    let mut budget = DecodeBudget::new(body.len(), DECODED_MULTIPLE);
    let mut header = FetchResponseHeader {
        throttle_time_ms: reader.i32("throttle time")?,
        ..FetchResponseHeader::default()
    };
    if version >= FIRST_SESSION_VERSION {
        header.error_code = ErrorCode::from_code(reader.i16("error code")?);
        header.session_id = reader.i32("session id")?;
    }
    let mut topics = Topics::new();
    let topic_count = reader.array(flexible, TOPIC_MIN, "topics")?;
    budget.spend(topic_count, Topics::GROUP_BYTES)?;
    for _ in 0..topic_count {
        topics.begin(TopicRef::read(
            &mut reader,
            version >= FIRST_TOPIC_ID_VERSION,
            flexible,
        )?);
        let partition_count = reader.array(flexible, PARTITION_MIN, "partitions")?;
        budget.spend(partition_count, Topics::ITEM_BYTES)?;
        for _ in 0..partition_count {
            topics.push(decode_partition(&mut reader, version, flexible)?);
        }
        reader.skip_tagged_fields(flexible)?;
    }
    let mut node_endpoints = Vec::new();
    reader.tagged_fields(flexible, |tag, mut field| {
        if tag == NODE_ENDPOINTS_TAG && version >= FIRST_NODE_ENDPOINTS_VERSION {
            node_endpoints = read_node_endpoints(&mut field)?;
        }
        Ok(())
    })?;
    Ok(FetchResponse {
        header,
        topics,
        node_endpoints,
    })
}

fn decode_partition<'a>(
    reader: &mut Reader<'a>,
    version: i16,
    flexible: bool,
) -> Result<FetchedPartition<'a>, WireError> {
    let index = reader.i32("partition index")?;
    let error_code = ErrorCode::from_code(reader.i16("error code")?);
    let mut header = FetchPartitionHeader::error(index, error_code);
    header.high_watermark = reader.i64("high watermark")?;
    header.last_stable_offset = reader.i64("last stable offset")?;
    if version >= 5 {
        header.log_start_offset = reader.i64("log start offset")?;
    }
    if let Some(count) = reader.nullable_array(flexible, ABORTED_MIN, "aborted transactions")? {
        let mut aborted = Vec::with_capacity(count);
        for _ in 0..count {
            let producer_id = reader.i64("producer id")?;
            let first_offset = reader.i64("first offset")?;
            reader.skip_tagged_fields(flexible)?;
            aborted.push(AbortedTransaction {
                producer_id,
                first_offset,
            });
        }
        header.aborted_transactions = Some(aborted);
    }
    if version >= 11 {
        header.preferred_read_replica = reader.i32("preferred read replica")?;
    }
    let records = reader.nullable_bytes(flexible, "records")?;
    reader.tagged_fields(flexible, |tag, mut field| {
        match tag {
            DIVERGING_EPOCH_TAG => {
                let (epoch, end_offset) = (field.i32("diverging epoch")?, field.i64("diverging end offset")?);
                header.diverging_epoch = Some(EpochEndOffset { epoch, end_offset });
            }
            CURRENT_LEADER_TAG => header.current_leader = Some(LeaderIdAndEpoch::read(&mut field)?),
            SNAPSHOT_ID_TAG => {
                let (end_offset, epoch) = (field.i64("snapshot end offset")?, field.i32("snapshot epoch")?);
                header.snapshot_id = Some(SnapshotId { end_offset, epoch });
            }
            _ => {}
        }
        Ok(())
    })?;
    Ok(FetchedPartition { header, records })
}
