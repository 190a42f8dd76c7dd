//! DeleteRecords: raises a partition's start offset; answered once that is durable.

use std::time::Duration;

use bytes::Bytes;
use strandline_core::fetch_session::TopicKey;
use strandline_runtime::Runtime;
use strandline_storage::StoreError;
use strandline_storage::disk::Disk;
use strandline_wire::ErrorCode;
use strandline_wire::messages::DeleteRecordsRequest;
use strandline_wire::messages::delete_records_request::DeleteRecordsPartition;
use strandline_wire::messages::delete_records_response::{
    DeleteRecordsPartitionResult, DeleteRecordsResponse, DeleteRecordsTopicResult,
};

use super::Request;
use super::lookup::Named;
use crate::connection::{Answer, Close};

/// The offset that stands for the high watermark.
const HIGH_WATERMARK: i64 = -1;
const INVALID_LOW_WATERMARK: i64 = -1;

pub(super) async fn serve<R: Runtime, D: Disk>(
    request: &Request<R, D>,
    body: Bytes,
) -> Result<Answer<D>, Close> {
    let asked: DeleteRecordsRequest = request.decode(body)?;
    let timeout = Duration::from_millis(u64::try_from(asked.timeout_ms).unwrap_or_default());
    let mut codes = Vec::new();
    let mut topics = Vec::with_capacity(asked.topics.len());
    for topic in &asked.topics {
        let key = TopicKey::Name(topic.name.as_str().into());
        let mut partitions = Vec::with_capacity(topic.partitions.len());
        for partition in &topic.partitions {
            let raised = raise(request, &key, partition, timeout).await;
            let answer =
                DeleteRecordsPartitionResult::default().with_partition_index(partition.partition_index);
            let (code, answer) = match raised {
                Ok(low_watermark) => (ErrorCode::None, answer.with_low_watermark(low_watermark)),
                Err((code, reason)) => {
                    request.refused(code, &Named(&key), partition.partition_index, &reason);
                    (
                        code,
                        answer
                            .with_low_watermark(INVALID_LOW_WATERMARK)
                            .with_error_code(code.code()),
                    )
                }
            };
            codes.push(code);
            partitions.push(answer);
        }
        topics.push(
            DeleteRecordsTopicResult::default()
                .with_name(topic.name.clone())
                .with_partitions(partitions),
        );
    }
    request.encode(
        &DeleteRecordsResponse::default().with_topics(topics),
        codes.into_iter(),
    )
}

/// Raises the start offset; the start offset that then holds.
async fn raise<R: Runtime, D: Disk>(
    request: &Request<R, D>,
    key: &TopicKey,
    asked: &DeleteRecordsPartition,
    timeout: Duration,
) -> Result<i64, (ErrorCode, String)> {
    let shard = &request.shard;
    let topic = shard.topic(key);
    let partition = shard
        .partition_of(topic.as_ref(), key, asked.partition_index)
        .map_err(|error| (error.code, error.reason().to_owned()))?;
    if topic.is_some_and(|topic| !topic.rules().deletes_records) {
        let reason = "cleanup.policy of the topic does not contain delete".to_owned();
        return Err((ErrorCode::PolicyViolation, reason));
    }
    let high_watermark = partition.high_watermark();
    let offset = if asked.offset == HIGH_WATERMARK {
        high_watermark
    } else {
        asked.offset
    };
    if offset < 0 || offset > high_watermark {
        let reason = format!("offset {offset} is outside 0..={high_watermark}, the high watermark");
        return Err((ErrorCode::OffsetOutOfRange, reason));
    }
    let durable = async {
        let sequence = partition.log.set_start_offset(offset).await?;
        shard.store.durable(sequence).await.map_err(StoreError::from)
    };
    let sleep = std::pin::pin!(shard.runtime.sleep(timeout));
    match futures_util::future::select(std::pin::pin!(durable), sleep).await {
        futures_util::future::Either::Left((Ok(()), _)) => {
            partition.start_moved();
            Ok(partition.log.start_offset())
        }
        futures_util::future::Either::Left((Err(error), _)) => {
            let code = match error {
                StoreError::Unknown(_) => ErrorCode::UnknownTopicOrPartition,
                _ => ErrorCode::KafkaStorageError,
            };
            Err((code, error.to_string()))
        }
        futures_util::future::Either::Right(_) => Err((
            ErrorCode::RequestTimedOut,
            "the start offset is not durable yet".to_owned(),
        )),
    }
}
