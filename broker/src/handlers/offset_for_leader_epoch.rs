//! OffsetForLeaderEpoch: where a leader epoch ends, by which clients notice a log that was cut behind them (KIP-320).

use bytes::Bytes;
use strandline_core::fetch_session::TopicKey;
use strandline_runtime::Runtime;
use strandline_storage::disk::Disk;
use strandline_wire::ErrorCode;
use strandline_wire::messages::OffsetForLeaderEpochRequest;
use strandline_wire::messages::offset_for_leader_epoch_response::{
    EpochEndOffset, OffsetForLeaderEpochResponse, OffsetForLeaderTopicResult,
};

use super::Request;
use crate::connection::{Answer, Close};

pub(super) async fn serve<R: Runtime, D: Disk>(
    request: &Request<R, D>,
    body: Bytes,
) -> Result<Answer<D>, Close> {
    let asked: OffsetForLeaderEpochRequest = request.decode(body)?;
    let mut codes = Vec::new();
    let mut topics = Vec::with_capacity(asked.topics.len());
    for topic in &asked.topics {
        let key = TopicKey::Name(topic.topic.as_str().into());
        let mut partitions = Vec::with_capacity(topic.partitions.len());
        for partition in &topic.partitions {
            let answer = EpochEndOffset::default()
                .with_partition(partition.partition)
                .with_leader_epoch(-1)
                .with_end_offset(-1);
            let epoch = partition.current_leader_epoch;
            let (code, answer) = match request.shard.partition_in_epoch(&key, partition.partition, epoch) {
                Ok(led) => match led.end_offset_for_epoch(partition.leader_epoch) {
                    Some((epoch, end)) => (
                        ErrorCode::None,
                        answer.with_leader_epoch(epoch).with_end_offset(end),
                    ),
                    None => (ErrorCode::None, answer),
                },
                Err(error) => (error.code, answer.with_error_code(error.code.code())),
            };
            codes.push(code);
            partitions.push(answer);
            request.shard.runtime.yield_if_needed().await;
        }
        topics.push(
            OffsetForLeaderTopicResult::default()
                .with_topic(topic.topic.clone())
                .with_partitions(partitions),
        );
    }
    request.encode(
        &OffsetForLeaderEpochResponse::default().with_topics(topics),
        codes.into_iter(),
    )
}
