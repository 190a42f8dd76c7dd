//! DeleteRecords: raises a partition's start offset; answered once that is durable, on every replica that serves.

use std::cell::RefCell;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{join_all, select};
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
use crate::shard::{Expire, Partition, Signal};

/// The offset that stands for the high watermark.
const HIGH_WATERMARK: i64 = -1;
const INVALID_LOW_WATERMARK: i64 = -1;

pub(super) async fn serve<R: Runtime, D: Disk>(
    request: &Request<R, D>,
    body: Bytes,
) -> Result<Answer<D>, Close> {
    let asked: DeleteRecordsRequest = request.decode(body)?;
    let timeout = Duration::from_millis(u64::try_from(asked.timeout_ms).unwrap_or_default());
    // All are raised first and waited for together: one flush and one deadline for the request.
    let mut raised = Vec::new();
    for topic in &asked.topics {
        let key = TopicKey::Name(topic.name.as_str().into());
        for partition in &topic.partitions {
            raised.push(Raised::begin(request, &key, partition));
            request.shard.runtime.yield_if_needed().await;
        }
    }
    wait(request, &raised, timeout).await;

    let mut raised = raised.into_iter();
    let mut codes = Vec::new();
    let mut topics = Vec::with_capacity(asked.topics.len());
    for topic in &asked.topics {
        let key = TopicKey::Name(topic.name.as_str().into());
        let mut partitions = Vec::with_capacity(topic.partitions.len());
        for partition in &topic.partitions {
            let raised = raised.next().map_or_else(not_durable, Raised::outcome);
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
            request.shard.runtime.yield_if_needed().await;
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

type Refused = (ErrorCode, String);
type Outcome = Result<i64, Refused>;

/// One partition on its way.
enum Raised<D: Disk> {
    /// Refused, or there.
    Done(Outcome),
    /// To be raised to this offset, and how that ended once it has.
    Raising(Rc<Partition<D>>, i64, RefCell<Option<Outcome>>),
}

impl<D: Disk> Raised<D> {
    fn begin<R: Runtime>(request: &Request<R, D>, key: &TopicKey, asked: &DeleteRecordsPartition) -> Self {
        match check(request, key, asked) {
            Ok((partition, offset)) => Self::Raising(partition, offset, RefCell::new(None)),
            Err(refused) => Self::Done(Err(refused)),
        }
    }

    /// The start offset that holds now.
    fn outcome(self) -> Outcome {
        match self {
            Self::Done(outcome) => outcome,
            Self::Raising(_, _, outcome) => outcome.into_inner().unwrap_or_else(not_durable),
        }
    }
}

fn not_durable() -> Outcome {
    let reason = "the start offset is not durable yet".to_owned();
    Err((ErrorCode::RequestTimedOut, reason))
}

/// The partition, and the offset that it shall start at.
fn check<R: Runtime, D: Disk>(
    request: &Request<R, D>,
    key: &TopicKey,
    asked: &DeleteRecordsPartition,
) -> Result<(Rc<Partition<D>>, i64), Refused> {
    let shard = &request.shard;
    let topic = shard.topic(key);
    let partition = shard
        .partition_of(topic.as_ref(), key, asked.partition_index)
        .map_err(|error| (error.code, error.reason().to_owned()))?;
    if topic.as_ref().is_some_and(|topic| topic.is_internal) {
        let reason = "the topic is the cluster's own: its records are not for clients to delete".to_owned();
        return Err((ErrorCode::InvalidTopicException, reason));
    }
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
    Ok((partition, offset))
}

/// The end of the client's patience.
#[derive(Default)]
struct Patience(Signal);

impl Expire for Patience {
    fn expire(&self) {
        self.0.set();
    }
}

/// Raises what is to be raised, and waits until all of it is durable or the time is over.
async fn wait<R: Runtime, D: Disk>(request: &Request<R, D>, raised: &[Raised<D>], timeout: Duration) {
    let shard = &request.shard;
    let raising = raised.iter().filter_map(|raised| match raised {
        Raised::Done(_) => None,
        Raised::Raising(partition, offset, outcome) => Some(async move {
            let ended = raise(request, partition, *offset).await;
            *outcome.borrow_mut() = Some(ended);
        }),
    });
    let patience = Rc::new(Patience::default());
    let _deadline = shard
        .deadlines
        .register(request.arrived + timeout, patience.clone());
    select(pin!(join_all(raising)), pin!(patience.0.wait())).await;
}

async fn raise<R: Runtime, D: Disk>(
    request: &Request<R, D>,
    partition: &Partition<D>,
    offset: i64,
) -> Outcome {
    let durable = async {
        let sequence = partition.log.set_start_offset(offset).await?;
        request
            .shard
            .store
            .durable(sequence)
            .await
            .map_err(StoreError::from)
    };
    match durable.await {
        Ok(()) if !partition.is_replicated() => Ok(partition.log.start_offset()),
        // As Kafka: deleted is what no replica that serves has any more.
        Ok(()) => partition.started_everywhere(offset).await.map_err(|code| {
            let reason = "another broker leads the partition now".to_owned();
            (code, reason)
        }),
        Err(error) => {
            let code = match error {
                StoreError::Unknown(_) => ErrorCode::UnknownTopicOrPartition,
                _ => ErrorCode::KafkaStorageError,
            };
            Err((code, error.to_string()))
        }
    }
}
