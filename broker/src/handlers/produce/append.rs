//! One partition of a produce: validation, admission, append, and the wait for its acknowledgement.

use std::borrow::Cow;
use std::rc::Rc;

use strandline_core::fetch_session::TopicKey;
use strandline_core::replica::Acks;
use strandline_runtime::{Monotonic, Runtime};
use strandline_storage::disk::Disk;
use strandline_storage::{AppendError, StoreError};
use strandline_wire::ErrorCode;
use strandline_wire::batch::{
    BatchError, BatchErrorKind, RecordError, ValidatedBatch, Validation, ValidationRules,
};
use strandline_wire::fetch::LeaderIdAndEpoch;
use strandline_wire::produce::{FIRST_ZSTD_VERSION, ProducePartition};

use super::PendingProduce;
use crate::handlers::Request;
use crate::handlers::lookup::NotServed;
use crate::shard::{AckWaiter, Partition, Topic};

/// Unpacked bytes of a batch that are validated between two looks at the clock: well below a millisecond's worth.
const VALIDATION_STEP_BYTES: usize = 64 << 10;

/// Why one partition of a produce is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) code: ErrorCode,
    pub(crate) reason: Cow<'static, str>,
    pub(crate) record_errors: Vec<RecordError>,
    pub(crate) leader: Option<LeaderIdAndEpoch>,
    /// The partition's log start, -1 where no partition was reached.
    pub(crate) log_start_offset: i64,
}

impl Refusal {
    pub(crate) fn new(code: ErrorCode, reason: impl Into<Cow<'static, str>>) -> Self {
        Self {
            code,
            reason: reason.into(),
            record_errors: Vec::new(),
            leader: None,
            log_start_offset: -1,
        }
    }
}

impl From<NotServed> for Refusal {
    fn from(error: NotServed) -> Self {
        Self {
            leader: error.leader,
            ..Self::new(error.code, error.reason())
        }
    }
}

impl From<BatchError> for Refusal {
    fn from(error: BatchError) -> Self {
        let code = error.code();
        Self {
            record_errors: error.record_errors,
            ..Self::new(code, error.message)
        }
    }
}

pub(super) fn no_transactions() -> Refusal {
    Refusal::new(
        ErrorCode::TransactionalIdAuthorizationFailed,
        "transactions are not served by this version",
    )
}

/// Appends the partitions of one request.
pub(super) struct Appender<'a, R: Runtime, D: Disk> {
    pub(super) request: &'a Request<R, D>,
    /// Whose acknowledgement is awaited; `None` for acks=0.
    pub(super) acks: Option<Acks>,
    pub(super) deadline: Monotonic,
}

impl<R: Runtime, D: Disk> Appender<'_, R, D> {
    /// Appends one partition's batch and enters its part of the answer.
    pub(super) async fn append(
        &self,
        topic: Option<&Rc<Topic<D>>>,
        key: &TopicKey,
        asked: &ProducePartition<'_>,
        pending: &Rc<PendingProduce>,
    ) -> Result<(), Refusal> {
        let shard = &self.request.shard;
        let partition = shard.partition_of(topic, key, asked.index)?;
        let rules = topic
            .map(|topic| topic.rules())
            .ok_or(NotServed::from(ErrorCode::UnknownTopicOrPartition))?;
        if topic.is_some_and(|topic| topic.is_internal) && !self.request.may_write_internal_topics() {
            return Err(Refusal::new(
                ErrorCode::InvalidTopicException,
                "the topic is the cluster's own: clients may not write to it",
            ));
        }
        if let Some(acks) = self.acks {
            let refused = |code| {
                Refusal::new(
                    code,
                    "fewer replicas are in sync than min.insync.replicas asks for",
                )
            };
            partition.may_append(acks).map_err(refused)?;
        }
        let mut validation = rules.validation;
        validation.now_ms = shard.runtime.wall_clock_ms();
        validation.zstd_allowed = self.request.version >= FIRST_ZSTD_VERSION;
        let Some(records) = asked.records.filter(|records| !records.is_empty()) else {
            let error = BatchError::new(
                BatchErrorKind::InvalidRecord,
                "a produce carries exactly one batch a partition; this one carries none",
            );
            return Err(error.into());
        };
        let mut batch = self.validate(records, &validation).await?;
        if batch.header.is_transactional() {
            return Err(no_transactions());
        }
        self.admit(batch.bytes.len()).await?;
        if batch.header.is_log_append_time() {
            // Records get the time of their append, which did not come before that of those appended meanwhile.
            batch.set_append_time(shard.runtime.wall_clock_ms());
        }
        let appended = self.store(&partition, &batch);
        let (base_offset, last_offset, log_append_time_ms) = appended.map_err(|refusal| Refusal {
            log_start_offset: partition.log.start_offset(),
            ..refusal
        })?;
        let item = pending.accept(
            asked.index,
            base_offset,
            log_append_time_ms,
            partition.log.start_offset(),
        );
        if let Some(acks) = self.acks {
            let end = last_offset + 1;
            if !partition.is_acknowledged(acks, end) {
                let timeout_code = match acks {
                    Acks::All => partition.timeout_code(),
                    Acks::None | Acks::Leader => None,
                };
                pending.await_ack(item, timeout_code);
                partition.wait_for_ack(
                    acks,
                    end,
                    AckWaiter::Produce {
                        request: pending.clone(),
                        item,
                    },
                    || shard.runtime.now(),
                );
            }
        }
        Ok(())
    }

    /// Validates in steps, so that a batch which unpacks to a thousandfold does not keep the shard from everybody else.
    async fn validate<'b>(
        &self,
        records: &'b [u8],
        rules: &ValidationRules,
    ) -> Result<ValidatedBatch<'b>, BatchError> {
        let mut validation = Validation::new(records, rules)?;
        loop {
            if let Some(batch) = validation.advance(VALIDATION_STEP_BYTES)? {
                return Ok(batch);
            }
            self.request.shard.runtime.yield_if_needed().await;
        }
    }

    /// Back-pressure: waits for memory and journal space, no longer than the client does.
    async fn admit(&self, bytes: usize) -> Result<(), Refusal> {
        match self.request.shard.store.admit(bytes, self.deadline).await {
            Ok(()) => Ok(()),
            Err(StoreError::Busy) => Err(Refusal::new(
                ErrorCode::RequestTimedOut,
                "the shard had no memory or journal space for the batch within the request's timeout",
            )),
            Err(error) => Err(Refusal::new(ErrorCode::KafkaStorageError, error.to_string())),
        }
    }

    /// Appends; base offset, last offset and append time of the batch, or of the one it duplicates.
    fn store(
        &self,
        partition: &Rc<Partition<D>>,
        batch: &ValidatedBatch<'_>,
    ) -> Result<(i64, i64, i64), Refusal> {
        if let Some(code) = partition.lost() {
            // While it waited for admission.
            return Err(NotServed::from(code).into());
        }
        let by_broker = batch.header.is_log_append_time();
        match partition.append(batch, &self.request.shard.runtime) {
            Ok(appended) => {
                let time = if by_broker { batch.header.max_timestamp } else { -1 };
                Ok((appended.base_offset, appended.last_offset, time))
            }
            Err(AppendError::Duplicate {
                base_offset,
                last_offset,
                timestamp,
            }) => Ok((base_offset, last_offset, if by_broker { timestamp } else { -1 })),
            Err(error) => Err(Refusal::new(code_of(&error), error.to_string())),
        }
    }
}

pub(crate) fn code_of(error: &AppendError) -> ErrorCode {
    match error {
        AppendError::OutOfOrderSequence { .. } => ErrorCode::OutOfOrderSequenceNumber,
        AppendError::InvalidProducerEpoch { .. } => ErrorCode::InvalidProducerEpoch,
        AppendError::TooLarge { .. } => ErrorCode::MessageTooLarge,
        AppendError::Deleted => ErrorCode::UnknownTopicOrPartition,
        AppendError::Duplicate { .. }
        | AppendError::Stopped(_)
        | AppendError::StorageFull
        | AppendError::Damaged { .. } => ErrorCode::KafkaStorageError,
    }
}
