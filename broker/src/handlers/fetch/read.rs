//! One round of reading: every partition of a fetch, within its limits.

use strandline_core::fetch_session::{FetchContext, PartitionFetch};
use strandline_runtime::{Queue, Runtime};
use strandline_storage::disk::Disk;
use strandline_storage::{BatchSlice, ReadError, ReadRequest};
use strandline_wire::ErrorCode;
use strandline_wire::batch::BatchHeader;
use strandline_wire::fetch::FetchPartitionHeader;

use super::check::{Readable, check};
use super::{Fetch, Seen};
use crate::handlers::Request;
use crate::handlers::lookup::Named;
use crate::shard::Loan;

/// What is lent for the first partition with data at least: its first batch is read whatever the limits.
const FIRST_BATCH_BYTES: usize = 1 << 20;

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
    /// What limits left unused because the next batch did not fit.
    unfilled: usize,
    must_answer: bool,
    /// Whether a partition was left out because answers held all the memory they may.
    blocked: bool,
    /// The memory that the records pin, and what of it was read from disk.
    loan: Loan,
    read_from_disk: usize,
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
            unfilled: 0,
            must_answer: false,
            blocked: false,
            loan: request.shard.outgoing.lend(0),
            read_from_disk: 0,
        };
        let mut room = fetch.max_bytes;
        for (slot, key, asked) in context.partitions.iter() {
            request.shard.runtime.yield_if_needed().await;
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
        round
    }

    async fn read_partition<R: Runtime>(
        &mut self,
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
        let outgoing = &request.shard.outgoing;
        let upper_bound = header.last_stable_offset.min(header.high_watermark);
        if asked.fetch_offset >= upper_bound || (wanted == 0 && !is_first) {
            return PartitionRead {
                slot,
                header,
                batches: Vec::new(),
            };
        }
        // Slow readers pin what they were sent: while they hold all they may, nobody gets more.
        if outgoing.room() == 0 {
            self.blocked = true;
            return PartitionRead {
                slot,
                header,
                batches: Vec::new(),
            };
        }
        // Lent before the read, which may wait for the disk while others read too.
        let limit = wanted;
        let wanted = wanted.min(outgoing.room());
        let held = self.loan.bytes();
        let least = if is_first { FIRST_BATCH_BYTES } else { 0 };
        self.loan.set(held + wanted.max(least));
        let read = ReadRequest {
            offset: asked.fetch_offset,
            max_bytes: wanted,
            upper_bound,
            at_least_one: is_first,
        };
        let batches = match partition.log.read(read).await {
            Ok(result) => {
                if let Some(next) = result.behind {
                    // The client will ask for it next: the disk brings it while this answer is written and read.
                    let (log, bytes) = (partition.log.clone(), limit);
                    let ahead = async move { log.read_ahead(next, bytes).await };
                    request.shard.runtime.spawn(Queue::Latency, ahead);
                }
                result.batches
            }
            Err(error) => {
                header.error_code = code_of(&error, partition.lost());
                if header.error_code == ErrorCode::KafkaStorageError {
                    tracing::error!(partition = %partition.log.id(), %error, "fetch failed");
                }
                Vec::new()
            }
        };
        if header.error_code.is_none() && end_of(&batches).unwrap_or(asked.fetch_offset) < upper_bound {
            let bytes: usize = batches.iter().map(|batch| batch.len()).sum();
            self.unfilled += limit.saturating_sub(bytes);
        }
        let (pinned, read_from_disk) = memory_of(&batches);
        self.loan.set(held + pinned);
        if read_from_disk > 0 {
            self.read_from_disk += read_from_disk;
            self.loan.count(self.read_from_disk);
        }
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

    /// The same as a broker counts that sends the part of a batch that fits, as Kafka's does: what a minimum is held against.
    pub(super) fn bytes_to_limits(&self) -> u64 {
        (self.bytes + self.unfilled) as u64
    }

    /// Whether the client must hear of it now: an error, or a diverging epoch.
    pub(super) fn must_answer(&self) -> bool {
        self.must_answer
    }

    /// Whether answers hold all the memory that they may pin, so that not all could be read.
    pub(super) fn is_blocked(&self) -> bool {
        self.blocked
    }

    /// The partitions that were looked at.
    pub(super) fn partitions(&self) -> Vec<Seen<D>> {
        self.seen.clone()
    }

    /// The partitions' parts, and the memory that their records pin.
    pub(super) fn into_parts(self) -> (Vec<PartitionRead<D>>, Loan) {
        (self.reads, self.loan)
    }
}

/// The offset after the last batch; `None` where there is none.
fn end_of<D: Disk>(batches: &[BatchSlice<D>]) -> Option<i64> {
    let last = BatchHeader::decode(batches.last()?).ok()?;
    Some(last.last_offset() + 1)
}

/// What batches pin, and what of it was read from disk: the whole memory of each read, however little of it they are.
fn memory_of<D: Disk>(batches: &[BatchSlice<D>]) -> (usize, usize) {
    let (mut pinned, mut read) = (0, 0);
    let mut last = std::ptr::null();
    for batch in batches {
        match batch.read_memory() {
            None => pinned += batch.len(),
            Some(memory) if memory.as_ptr() != last => {
                last = memory.as_ptr();
                read += memory.len();
            }
            Some(_) => {}
        }
    }
    (pinned + read, read)
}

fn code_of(error: &ReadError, lost: Option<ErrorCode>) -> ErrorCode {
    match error {
        ReadError::OutOfRange { .. } => ErrorCode::OffsetOutOfRange,
        ReadError::Deleted => lost.unwrap_or(ErrorCode::UnknownTopicOrPartition),
        ReadError::Stopped(_) | ReadError::Damaged { .. } | ReadError::Io(_) => ErrorCode::KafkaStorageError,
    }
}
