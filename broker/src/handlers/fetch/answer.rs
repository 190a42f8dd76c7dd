//! The answer of a fetch: what the session leaves in, in pieces that stay where they lie.

use bytes::BytesMut;
use strandline_core::fetch_session::{PartitionOutcome, SessionError, TopicKey};
use strandline_runtime::Runtime;
use strandline_storage::BatchSlice;
use strandline_storage::disk::Disk;
use strandline_wire::ErrorCode;
use strandline_wire::fetch::{FetchResponseEncoder, FetchResponseHeader, TopicRef};

use super::read::{PartitionRead, Round};
use super::{Fetch, session_code};
use crate::connection::{Answer, Close};
use crate::handlers::Request;
use crate::shard::node_endpoints;

/// The answer to a request that its session refuses as a whole.
pub(super) fn session_error<R: Runtime, D: Disk>(
    request: &Request<R, D>,
    error: SessionError,
) -> Result<Answer<D>, Close> {
    let code = session_code(error);
    request.shard.metrics.answered(request.api.key(), code);
    let header = FetchResponseHeader {
        throttle_time_ms: 0,
        error_code: code,
        session_id: 0,
    };
    let encoder = FetchResponseEncoder::<BatchSlice<D>>::new(
        BytesMut::new(),
        request.version,
        request.correlation_id,
        &header,
        0,
    );
    Ok(Answer::Fetch(
        encoder.finish(&[])?,
        request.shard.outgoing.lend(0),
    ))
}

/// Ends the session's round and encodes what it leaves in.
pub(super) fn encode<R: Runtime, D: Disk>(
    request: &Request<R, D>,
    fetch: Fetch<R, D>,
    round: Round<D>,
) -> Result<Answer<D>, Close> {
    let shard = &request.shard;
    let context = match fetch.session {
        Ok(open) => open.take(),
        Err(error) => return session_error(request, error),
    };
    let (reads, mut loan) = round.into_parts();
    let mut answered: Vec<_> = reads
        .iter()
        .map(|read| (read.slot, outcome(read), true))
        .collect();
    let keys: Vec<_> = reads
        .iter()
        .map(|read| context.partitions.get(read.slot).0.clone())
        .collect();
    let session_id =
        shard
            .sessions
            .borrow_mut()
            .finish(context, &mut answered, shard.runtime.wall_clock_ms(), || {
                shard.runtime.random_u64() as i32
            });
    shard
        .metrics
        .answered_with(request.api.key(), reads.iter().map(|read| read.header.error_code));

    let mut included: Vec<(TopicKey, PartitionRead<D>)> = Vec::with_capacity(answered.len());
    for (((_, _, include), key), read) in answered.iter().zip(keys).zip(reads) {
        if *include {
            included.push((key.topic, read));
        }
    }
    let leaders: Vec<i32> = included
        .iter()
        .filter_map(|(_, read)| Some(read.header.current_leader?.leader_id))
        .collect();
    // Partitions stand in the order of the session; neighbours of one topic share its entry.
    let groups: Vec<usize> = included
        .chunk_by(|left, right| left.0 == right.0)
        .map(<[_]>::len)
        .collect();
    let header = FetchResponseHeader {
        throttle_time_ms: 0,
        error_code: ErrorCode::None,
        session_id,
    };
    let mut encoder = FetchResponseEncoder::new(
        BytesMut::new(),
        request.version,
        request.correlation_id,
        &header,
        groups.len(),
    );
    let mut included = included.into_iter();
    for count in groups {
        for position in 0..count {
            let Some((topic, read)) = included.next() else {
                break;
            };
            if position == 0 {
                encoder.begin_topic(topic_ref(&topic), count);
            }
            encoder.partition(&read.header, read.batches);
        }
    }
    let image = if leaders.is_empty() {
        None
    } else {
        Some(shard.image())
    };
    let endpoints = match &image {
        Some(image) => node_endpoints(image, &request.connection.listener, leaders.into_iter()),
        None => Vec::new(),
    };
    let frame = encoder.finish(&endpoints)?;
    loan.set(loan.bytes() + frame.size() - frame.records_bytes());
    Ok(Answer::Fetch(frame, loan))
}

fn outcome<D: Disk>(read: &PartitionRead<D>) -> PartitionOutcome {
    let is_error = !read.header.error_code.is_none();
    PartitionOutcome {
        high_watermark: read.header.high_watermark,
        log_start_offset: read.header.log_start_offset,
        has_records: !read.batches.is_empty(),
        must_respond: is_error || read.header.diverging_epoch.is_some(),
        is_error,
    }
}

fn topic_ref(key: &TopicKey) -> TopicRef<'_> {
    match key {
        TopicKey::Name(name) => TopicRef::Name(name),
        TopicKey::Id(id) => TopicRef::Id(*id),
    }
}
