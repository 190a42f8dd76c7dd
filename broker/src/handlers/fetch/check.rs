//! What can be said of a partition without reading it.

use std::rc::Rc;

use strandline_core::fetch_session::{PartitionFetch, PartitionKey};
use strandline_runtime::Runtime;
use strandline_storage::disk::Disk;
use strandline_wire::ErrorCode;
use strandline_wire::fetch::{EpochEndOffset, FetchPartitionHeader, LeaderIdAndEpoch};

use super::Fetch;
use crate::handlers::Request;
use crate::handlers::lookup::{Named, NotServed};
use crate::shard::Partition;

/// A partition that may be read, and its part of the answer but for the records.
pub(super) struct Readable<D: Disk> {
    pub(super) partition: Rc<Partition<D>>,
    pub(super) header: FetchPartitionHeader,
}

/// Looks a partition up and checks epoch and offset.
pub(super) fn check<R: Runtime, D: Disk>(
    request: &Request<R, D>,
    fetch: &Fetch<R, D>,
    key: &PartitionKey,
    asked: &PartitionFetch,
) -> Result<Readable<D>, FetchPartitionHeader> {
    if fetch.from_follower {
        return Err(FetchPartitionHeader::error(
            key.partition,
            ErrorCode::NotLeaderOrFollower,
        ));
    }
    let partition = request
        .shard
        .partition_in_epoch(&key.topic, key.partition, asked.current_leader_epoch)
        .map_err(|error| not_served(request, key, error))?;
    let mut header = position(&partition, fetch.read_committed);
    let (start, end) = (partition.log.start_offset(), partition.log.end_offset());
    if asked.last_fetched_epoch >= 0 && asked.fetch_offset >= start {
        match diverging(&partition, asked) {
            // The client's offset is of a history that is not this log's: whether it is out of range says nothing.
            Ok(Some(diverging)) => {
                header.diverging_epoch = Some(diverging);
                return Ok(Readable { partition, header });
            }
            Ok(None) => {}
            Err(code) => {
                return Err(FetchPartitionHeader {
                    error_code: code,
                    ..header
                });
            }
        }
    }
    // A damaged log says so at its end too: a client that waited there would wait for ever.
    if asked.fetch_offset >= start
        && let Some(from) = partition.log.damaged_from()
        && asked.fetch_offset >= from
    {
        return Err(FetchPartitionHeader {
            error_code: ErrorCode::KafkaStorageError,
            ..header
        });
    }
    if asked.fetch_offset < start || asked.fetch_offset > end {
        let header = FetchPartitionHeader {
            error_code: ErrorCode::OffsetOutOfRange,
            ..header
        };
        return Err(header);
    }
    Ok(Readable { partition, header })
}

/// High watermark, last stable offset and log start, as an answer carries them.
fn position<D: Disk>(partition: &Partition<D>, read_committed: bool) -> FetchPartitionHeader {
    FetchPartitionHeader {
        high_watermark: partition.high_watermark(),
        last_stable_offset: partition.last_stable_offset(),
        log_start_offset: partition.log.start_offset(),
        // Without transactions nothing is ever aborted; null for readers that do not ask.
        aborted_transactions: read_committed.then(Vec::new),
        ..FetchPartitionHeader::error(partition.number, ErrorCode::None)
    }
}

/// Where the client's history leaves this log's, if it does (KIP-595).
fn diverging<D: Disk>(
    partition: &Partition<D>,
    asked: &PartitionFetch,
) -> Result<Option<EpochEndOffset>, ErrorCode> {
    let Some((epoch, end_offset)) = partition.end_offset_for_epoch(asked.last_fetched_epoch) else {
        return Err(ErrorCode::OffsetOutOfRange);
    };
    let diverges = epoch < asked.last_fetched_epoch || end_offset < asked.fetch_offset;
    Ok(diverges.then_some(EpochEndOffset { epoch, end_offset }))
}

fn not_served<R: Runtime, D: Disk>(
    request: &Request<R, D>,
    key: &PartitionKey,
    error: NotServed,
) -> FetchPartitionHeader {
    request.refused(error.code, &Named(&key.topic), key.partition, error.reason());
    let current_leader: Option<LeaderIdAndEpoch> = error.leader;
    FetchPartitionHeader {
        current_leader,
        ..FetchPartitionHeader::error(key.partition, error.code)
    }
}
