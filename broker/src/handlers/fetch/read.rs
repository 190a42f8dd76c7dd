//! One round of reading: every partition of a fetch, within its limits.

use strandline_core::fetch_session::{FetchContext, PartitionFetch};
use strandline_runtime::Runtime;
use strandline_storage::disk::Disk;
use strandline_storage::{BatchSlice, ReadError, ReadRequest};
use strandline_wire::ErrorCode;
use strandline_wire::fetch::FetchPartitionHeader;

use super::check::{Readable, check};
use super::{Fetch, Seen};
use crate::handlers::Request;
use crate::handlers::lookup::Named;
use crate::shard::Loan;

/// What one partition answers.
pub(super) struct PartitionRead<D: Disk> {
    /// Its slot in the session.
    pub(super) slot: u32,
    pub(super) header: FetchPartitionHeader,
    pub(super) batches: Vec<BatchSlice<D>>,
}

/// What one round of reading gave.
pub(super) struct Round<D: Disk> {
    pub(super) reads: Vec<PartitionRead<D>>,
    seen: Vec<Seen<D>>,
    bytes: usize,
    must_answer: bool,
    blocked: bool,
    loan: Option<Loan>,
}

impl<D: Disk> Round<D> {
    /// Reads every partition of `context`, in order.
    pub(super) async fn read<R: Runtime>(
        request: &Request<R, D>,
        fetch: &Fetch<R, D>,
        context: &FetchContext,
    ) -> Self {
        let count = context.partitions.len();
        let mut round = Self {
            reads: Vec::with_capacity(count),
            seen: Vec::with_capacity(count),
            bytes: 0,
            must_answer: false,
            blocked: request.shard.outgoing.room() == 0,
            loan: None,
        };
        // Slow readers pin what they were sent: while they hold all they may, nobody gets more.
        let outgoing = &request.shard.outgoing;
        let mut room = fetch.max_bytes.min(outgoing.room());
        for (slot, key, asked) in context.partitions.iter() {
            let read = match check(request, fetch, key, asked) {
                Ok(readable) => {
                    round
                        .seen
                        .push((readable.partition.clone(), readable.partition.readable_bytes()));
                    if readable.header.diverging_epoch.is_some() {
                        round.must_answer = true;
                        PartitionRead {
                            slot,
                            header: readable.header,
                            batches: Vec::new(),
                        }
                    } else if round.blocked {
                        PartitionRead {
                            slot,
                            header: readable.header,
                            batches: Vec::new(),
                        }
                    } else {
                        round.read_partition(request, slot, readable, asked, room).await
                    }
                }
                Err(header) => PartitionRead {
                    slot,
                    header,
                    batches: Vec::new(),
                },
            };
            if !read.header.error_code.is_none() {
                round.must_answer = true;
                if read.header.error_code == ErrorCode::KafkaStorageError {
                    let reason = "the partition cannot be read";
                    request.refused(read.header.error_code, &Named(&key.topic), key.partition, reason);
                }
            }
            let bytes: usize = read.batches.iter().map(|batch| batch.len()).sum();
            room = room.saturating_sub(bytes);
            round.bytes += bytes;
            round.reads.push(read);
        }
        if round.bytes > 0 {
            round.loan = Some(outgoing.lend(round.bytes));
        }
        round
    }

    async fn read_partition<R: Runtime>(
        &self,
        request: &Request<R, D>,
        slot: u32,
        readable: Readable<D>,
        asked: &PartitionFetch,
        room: usize,
    ) -> PartitionRead<D> {
        let Readable {
            partition,
            mut header,
        } = readable;
        // The first partition with data gives one batch whatever the limits, or a large one would never be read.
        let is_first = self.bytes == 0;
        let wanted = usize::try_from(asked.max_bytes).unwrap_or_default().min(room);
        let upper_bound = header.last_stable_offset.min(header.high_watermark);
        if asked.fetch_offset >= upper_bound || (wanted == 0 && !is_first) {
            return PartitionRead {
                slot,
                header,
                batches: Vec::new(),
            };
        }
        let read = ReadRequest {
            offset: asked.fetch_offset,
            max_bytes: wanted,
            upper_bound,
            at_least_one: is_first,
        };
        let batches = match partition.log.read(read).await {
            Ok(result) => result.batches,
            Err(error) => {
                header.error_code = code_of(&error, partition.lost());
                if header.error_code == ErrorCode::KafkaStorageError {
                    tracing::error!(partition = %partition.log.id(), %error, "fetch failed");
                }
                Vec::new()
            }
        };
        request.shard.runtime.yield_if_needed().await;
        PartitionRead {
            slot,
            header,
            batches,
        }
    }

    /// The bytes of records read.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes as u64
    }

    /// Whether the client must hear of it now: an error, or a diverging epoch.
    pub(super) fn must_answer(&self) -> bool {
        self.must_answer
    }

    /// Whether other answers held all the memory that answers may pin: nothing was read.
    pub(super) fn is_blocked(&self) -> bool {
        self.blocked
    }

    /// The partitions that were looked at.
    pub(super) fn partitions(&self) -> Vec<Seen<D>> {
        self.seen.clone()
    }

    /// The memory that the records pin.
    pub(super) fn take_loan(&mut self) -> Option<Loan> {
        self.loan.take()
    }
}

fn code_of(error: &ReadError, lost: Option<ErrorCode>) -> ErrorCode {
    match error {
        ReadError::OutOfRange { .. } => ErrorCode::OffsetOutOfRange,
        ReadError::Deleted => lost.unwrap_or(ErrorCode::UnknownTopicOrPartition),
        ReadError::Stopped(_) | ReadError::Damaged { .. } | ReadError::Io(_) => ErrorCode::KafkaStorageError,
    }
}
