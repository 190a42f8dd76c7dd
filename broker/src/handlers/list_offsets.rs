//! ListOffsets: the ends of a partition, and the first record at or after a time.

use std::collections::BTreeSet;

use bytes::Bytes;
use strandline_core::fetch_session::TopicKey;
use strandline_runtime::Runtime;
use strandline_storage::disk::Disk;
use strandline_storage::{ReadError, TimestampOffset};
use strandline_wire::ErrorCode;
use strandline_wire::messages::ListOffsetsRequest;
use strandline_wire::messages::list_offsets_request::ListOffsetsPartition;
use strandline_wire::messages::list_offsets_response::{
    ListOffsetsPartitionResponse, ListOffsetsResponse, ListOffsetsTopicResponse,
};

use super::Request;
use super::lookup::NotServed;
use crate::connection::{Answer, Close};
use crate::shard::Partition;

/// Timestamps with a meaning of their own, and the first version that may carry each.
const LATEST: i64 = -1;
const EARLIEST: i64 = -2;
const MAX_TIMESTAMP: i64 = -3;
const EARLIEST_LOCAL: i64 = -4;
const LATEST_TIERED: i64 = -5;
const EARLIEST_PENDING_UPLOAD: i64 = -6;

const READ_COMMITTED: i8 = 1;
/// Older clients do not know OFFSET_NOT_AVAILABLE.
const FIRST_NOT_AVAILABLE_VERSION: i16 = 5;
const UNKNOWN: i64 = -1;

pub(super) async fn serve<R: Runtime, D: Disk>(
    request: &Request<R, D>,
    body: Bytes,
) -> Result<Answer<D>, Close> {
    let asked: ListOffsetsRequest = request.decode(body)?;
    let mut seen = BTreeSet::new();
    let mut duplicated = BTreeSet::new();
    for topic in &asked.topics {
        for partition in &topic.partitions {
            let key = (topic.name.as_str(), partition.partition_index);
            if !seen.insert(key) {
                duplicated.insert(key);
            }
            request.shard.runtime.yield_if_needed().await;
        }
    }
    let mut codes = Vec::new();
    let mut topics = Vec::with_capacity(asked.topics.len());
    for topic in &asked.topics {
        let key = TopicKey::Name(topic.name.as_str().into());
        let mut partitions = Vec::with_capacity(topic.partitions.len());
        for partition in &topic.partitions {
            let found = if duplicated.contains(&(topic.name.as_str(), partition.partition_index)) {
                Err(ErrorCode::InvalidRequest.into())
            } else {
                find(request, &key, partition, asked.isolation_level == READ_COMMITTED).await
            };
            let answer = ListOffsetsPartitionResponse::default()
                .with_partition_index(partition.partition_index)
                .with_timestamp(UNKNOWN)
                .with_offset(UNKNOWN)
                .with_leader_epoch(-1);
            let (code, answer) = match found {
                Ok(found) => (
                    ErrorCode::None,
                    answer
                        .with_timestamp(found.timestamp)
                        .with_offset(found.offset)
                        .with_leader_epoch(if request.version >= 4 {
                            found.leader_epoch
                        } else {
                            -1
                        }),
                ),
                Err(error) => (error.code, answer.with_error_code(error.code.code())),
            };
            codes.push(code);
            partitions.push(answer);
            request.shard.runtime.yield_if_needed().await;
        }
        topics.push(
            ListOffsetsTopicResponse::default()
                .with_name(topic.name.clone())
                .with_partitions(partitions),
        );
    }
    request.encode(
        &ListOffsetsResponse::default().with_topics(topics),
        codes.into_iter(),
    )
}

/// The answer for one partition; offset and timestamp -1 where there is no such record.
async fn find<R: Runtime, D: Disk>(
    request: &Request<R, D>,
    key: &TopicKey,
    asked: &ListOffsetsPartition,
    read_committed: bool,
) -> Result<TimestampOffset, NotServed> {
    if !is_supported(asked.timestamp, request.version) {
        return Err(ErrorCode::UnsupportedVersion.into());
    }
    let epoch = asked.current_leader_epoch;
    let partition = request
        .shard
        .partition_in_epoch(key, asked.partition_index, epoch)?;
    let end = if read_committed {
        partition.last_stable_offset()
    } else {
        partition.high_watermark()
    };
    let log = &partition.log;
    let at = |offset, leader_epoch| TimestampOffset {
        offset,
        timestamp: UNKNOWN,
        leader_epoch,
    };
    match asked.timestamp {
        LATEST if !partition.latest_is_known() => Err(not_available(request.version)),
        LATEST => Ok(at(end, partition.leader_epoch())),
        // Without tiered storage everything is local, and everything is still to be uploaded.
        EARLIEST | EARLIEST_LOCAL => {
            let start = log.start_offset();
            // Nothing is written there yet: the current leader will.
            let epoch = log.epoch_at(start).unwrap_or(partition.leader_epoch());
            Ok(at(start, epoch))
        }
        LATEST_TIERED | EARLIEST_PENDING_UPLOAD => Ok(at(UNKNOWN, -1)),
        MAX_TIMESTAMP => or_none(log.max_timestamp(end).await, &partition, request.version),
        timestamp => or_none(
            log.offset_for_timestamp(timestamp, end).await,
            &partition,
            request.version,
        ),
    }
}

fn or_none<D: Disk>(
    found: Result<Option<TimestampOffset>, ReadError>,
    partition: &Partition<D>,
    version: i16,
) -> Result<TimestampOffset, NotServed> {
    match found {
        Ok(Some(found)) => Ok(found),
        // It may lie between the high watermark and what an earlier leader acknowledged.
        Ok(None) if !partition.latest_is_known() => Err(not_available(version)),
        Ok(None) => Ok(TimestampOffset {
            offset: UNKNOWN,
            timestamp: UNKNOWN,
            leader_epoch: -1,
        }),
        Err(ReadError::Deleted) => Err(partition
            .lost()
            .unwrap_or(ErrorCode::UnknownTopicOrPartition)
            .into()),
        Err(ReadError::OutOfRange { .. }) => Err(ErrorCode::OffsetOutOfRange.into()),
        Err(error) => {
            tracing::error!(partition = %partition.log.id(), %error, "offset lookup failed");
            Err(ErrorCode::KafkaStorageError.into())
        }
    }
}

fn not_available(version: i16) -> NotServed {
    if version >= FIRST_NOT_AVAILABLE_VERSION {
        ErrorCode::OffsetNotAvailable.into()
    } else {
        ErrorCode::LeaderNotAvailable.into()
    }
}

fn is_supported(timestamp: i64, version: i16) -> bool {
    match timestamp {
        0.. | LATEST | EARLIEST => true,
        MAX_TIMESTAMP => version >= 7,
        EARLIEST_LOCAL => version >= 8,
        LATEST_TIERED => version >= 9,
        EARLIEST_PENDING_UPLOAD => version >= 11,
        _ => false,
    }
}
