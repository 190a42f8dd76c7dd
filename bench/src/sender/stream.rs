//! One sender's records to one partition: what is due, the batch being filled, and the ledger.

use super::plan::LoadPlan;
use crate::client::ProducerIdentity;
use crate::clock::Nanos;
use crate::keys::PartitionKeys;
use crate::payload::{BodyPool, HEADER_BYTES, PayloadHeader};
use crate::schedule::{Arrivals, StreamPosition, share};
use crate::verify::Ledger;
use crate::workload::Cursor;
use std::ops::Range;
use std::sync::Arc;
use strandline_wire::batch::{BatchBuilder, Codec, HEADER_SIZE};

/// The most that a record adds to its value and a captured key: length, attributes, deltas, key length, a key of eight bytes, value
/// length, header count.
const RECORD_OVERHEAD_MAX: usize = 29;

/// A stream without anything due.
const NEVER: Nanos = Nanos::MAX;

/// The records of one sender in one partition.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) partition: i32,
    pub(super) ledger: Ledger,
    arrivals: Option<Arrivals>,
    /// The intended time of the next record, by the run's clock; [`NEVER`] after the last.
    next_due: Nanos,
    /// How many records the closed loop may still make.
    closed_loop_left: u64,
    next_sequence: u64,
    builder: BatchBuilder,
    /// Of the batch before: about the size of this one.
    last_size: usize,
    intended: Vec<Nanos>,
    last_ack: Nanos,
    longest_gap: Nanos,
    keys: Option<Arc<PartitionKeys>>,
    random: fastrand::Rng,
    /// The size of the next value.
    next_size: usize,
    /// The key of the next record, where records are replayed.
    captured_key: Vec<u8>,
    has_captured_key: bool,
    /// Bytes of the values in the batch.
    value_bytes: u64,
    /// Records sent under the producer id that is in use.
    producer_sequence: i32,
    /// Records acknowledged in the measured part.
    acknowledged: u64,
}

/// A batch on its way.
#[derive(Debug)]
pub(super) struct Sealed {
    pub(super) bytes: Vec<u8>,
    pub(super) sequences: Range<u64>,
    /// The intended time of each record, by the run's clock.
    pub(super) intended: Vec<Nanos>,
    /// Bytes of all values.
    pub(super) value_bytes: u64,
}

/// What filling a batch needs besides the stream.
pub(super) struct Filler<'a> {
    pub(super) plan: &'a LoadPlan,
    pub(super) producer: u32,
    pub(super) pool: &'a BodyPool,
    pub(super) scratch: &'a mut [u8],
}

impl Stream {
    pub(super) fn new(plan: &LoadPlan, partition: i32, sender: u32, position: StreamPosition) -> Self {
        let keys = plan
            .keys
            .as_ref()
            .map(|space| space.partition((partition % plan.partitions).unsigned_abs() as usize));
        let mut random = fastrand::Rng::with_seed(plan.seed ^ (position.index << 20 | 0x5eed));
        let arrivals = plan.integrated.clone().map(|rate| {
            if let Some((workload, scale)) = &plan.workload {
                let cursor = Cursor::new(workload, partition, (sender, plan.producers), *scale);
                return Arrivals::captured(cursor, rate, position, plan.phases.end);
            }
            Arrivals::new(
                &plan.rate,
                rate,
                position,
                plan.phases.end,
                plan.records,
                plan.seed,
            )
        });
        let mut stream = Self {
            partition,
            ledger: Ledger::default(),
            arrivals,
            next_due: NEVER,
            closed_loop_left: share(plan.records, position),
            next_sequence: 0,
            builder: BatchBuilder::new().compression(plan.codec),
            last_size: 0,
            intended: Vec::new(),
            last_ack: plan.start,
            longest_gap: 0,
            keys,
            next_size: plan.sizes.draw(&mut random),
            random,
            captured_key: Vec::new(),
            has_captured_key: false,
            value_bytes: 0,
            producer_sequence: 0,
            acknowledged: 0,
        };
        stream.find_next(plan.start);
        stream
    }

    fn find_next(&mut self, start: Nanos) {
        self.next_due = self
            .arrivals
            .as_ref()
            .and_then(Arrivals::peek)
            .map_or(NEVER, |at| start + at);
        if let Some(record) = self.arrivals.as_ref().and_then(Arrivals::record) {
            self.next_size = record.value_bytes.max(HEADER_BYTES);
            self.has_captured_key = record.key.is_some();
            if let Some(key) = record.key {
                key.fill(&mut self.captured_key);
            }
        }
    }

    /// Moves what is due by `now` into the batch, as far as it holds.
    pub(super) fn pull(&mut self, now: Nanos, filler: &mut Filler<'_>) {
        if self.next_due > now {
            return;
        }
        let timestamp = filler.plan.clock.wall_ms(now);
        while self.next_due <= now && !self.is_full(filler.plan) {
            self.add(self.next_due, timestamp, filler);
            if let Some(arrivals) = &mut self.arrivals {
                arrivals.advance();
            }
            self.find_next(filler.plan.start);
        }
    }

    /// Fills the batch with records intended for `now`: the closed loop.
    pub(super) fn fill(&mut self, now: Nanos, filler: &mut Filler<'_>) {
        let timestamp = filler.plan.clock.wall_ms(now);
        while self.closed_loop_left > 0 && !self.is_full(filler.plan) {
            self.closed_loop_left -= 1;
            self.add(now, timestamp, filler);
        }
    }

    fn add(&mut self, intended: Nanos, timestamp: i64, filler: &mut Filler<'_>) {
        let header = PayloadHeader {
            run: filler.plan.run,
            producer: filler.producer,
            sequence: self.next_sequence,
            intended,
        };
        if self.builder.record_count() == 0 {
            self.builder.reserve(self.last_size);
        }
        let value = &mut filler.scratch[..self.next_size];
        filler.pool.fill(&header, value);
        let key = self
            .keys
            .as_ref()
            .map(|keys| keys.key(self.next_sequence, &mut self.random));
        let key = key
            .as_ref()
            .map(<[u8; 8]>::as_slice)
            .or(self.has_captured_key.then_some(&self.captured_key[..]));
        self.builder.record(timestamp, key, Some(value));
        self.value_bytes += self.next_size as u64;
        self.next_size = filler.plan.sizes.draw(&mut self.random);
        self.intended.push(intended);
        self.next_sequence += 1;
    }

    /// Whether one more record would make the batch larger than it may be. A batch holds at least one.
    fn is_full(&self, plan: &LoadPlan) -> bool {
        !self.intended.is_empty()
            && self.builder.size().max(HEADER_SIZE)
                + self.next_size
                + self.captured_key.len()
                + RECORD_OVERHEAD_MAX
                > plan.batch_bytes
    }

    /// Whether the batch is to be sent: it is full, or its first record has lingered, or no other will come.
    pub(super) fn is_ready(&self, now: Nanos, plan: &LoadPlan) -> bool {
        self.intended.first().is_some_and(|first| {
            first + plan.linger <= now
                || self.is_full(plan)
                || (self.next_due == NEVER && plan.integrated.is_some())
        })
    }

    /// Whether no record waits in the batch.
    pub(super) fn is_empty(&self) -> bool {
        self.intended.is_empty()
    }

    /// The batch's size on the wire, about.
    pub(super) fn open_bytes(&self) -> usize {
        self.builder.size()
    }

    /// A new producer id counts its records from 0.
    pub(super) fn restart_producer_sequence(&mut self) {
        self.producer_sequence = 0;
    }

    /// Takes the batch, under `identity` if it is to have sequences; the ledger counts its records as submitted.
    pub(super) fn seal(&mut self, codec: Codec, identity: Option<ProducerIdentity>) -> Sealed {
        // The next batch will hold about as many.
        let next = Vec::with_capacity(self.intended.len());
        let intended = std::mem::replace(&mut self.intended, next);
        self.last_size = self.builder.size();
        let next = BatchBuilder::new().compression(codec);
        let mut builder = std::mem::replace(&mut self.builder, next);
        if let Some(identity) = identity {
            builder = builder.producer(identity.id, identity.epoch, self.producer_sequence);
            // Sequences start again after the largest, as Kafka's do.
            let count = intended.len() as i64;
            self.producer_sequence = (i64::from(self.producer_sequence) + count).rem_euclid(1 << 31) as i32;
        }
        let bytes = builder
            .finish()
            .expect("a ready batch has a record, and the command line bounds its size");
        let count = intended.len() as u64;
        self.ledger.submitted(count);
        Sealed {
            bytes,
            sequences: self.next_sequence - count..self.next_sequence,
            value_bytes: std::mem::take(&mut self.value_bytes),
            intended,
        }
    }

    /// When this stream wants attention next, if it has room to send; [`NEVER`] for nothing to do.
    pub(super) fn deadline(&self, now: Nanos, plan: &LoadPlan, coalesce: Nanos) -> Nanos {
        match self.intended.first() {
            // Look in between for records that fill the batch before its linger is over, but not for each of them.
            Some(first) => (first + plan.linger).min(self.next_due.max(now + coalesce)),
            None => self.next_due,
        }
    }

    /// Notes that `batch` was acknowledged at `now`, for the longest time in which records were due and none was acknowledged.
    pub(super) fn acknowledged(&mut self, batch: &Sealed, now: Nanos, measured_from: Nanos) {
        // Intended times never fall.
        self.acknowledged +=
            (batch.intended.len() - batch.intended.partition_point(|&at| at < measured_from)) as u64;
        let waiting_since = batch
            .intended
            .first()
            .map_or(now, |&first| first.max(self.last_ack));
        self.longest_gap = self.longest_gap.max(now.saturating_sub(waiting_since));
        self.last_ack = now;
    }

    /// Measured records that were acknowledged.
    pub(super) fn measured_acknowledged(&self) -> u64 {
        self.acknowledged
    }

    pub(super) fn longest_gap(&self) -> Nanos {
        self.longest_gap
    }

    /// Whether nothing is left to submit.
    pub(super) fn is_exhausted(&self) -> bool {
        self.next_due == NEVER
            && self.intended.is_empty()
            && (self.arrivals.is_some() || self.closed_loop_left == 0)
    }

    /// Records due by `now` (by the run's clock) and not submitted.
    pub(super) fn backlog(&self, now: Nanos, plan: &LoadPlan) -> u64 {
        let waiting = self
            .arrivals
            .as_ref()
            .map_or(0, |arrivals| arrivals.backlog(now.saturating_sub(plan.start)));
        self.intended.len() as u64 + waiting
    }

    /// Of the records never submitted, those of the measured part.
    pub(super) fn measured_left(&self, plan: &LoadPlan, until: Nanos) -> u64 {
        let warm = self
            .arrivals
            .as_ref()
            .map_or(0, |arrivals| arrivals.backlog(plan.phases.warm_up));
        let waiting = self
            .arrivals
            .as_ref()
            .map_or(0, |arrivals| arrivals.backlog(until.min(plan.phases.end)));
        let open = self
            .intended
            .iter()
            .filter(|&&at| plan.phases.is_measured(at.saturating_sub(plan.start)))
            .count();
        open as u64 + waiting.saturating_sub(warm)
    }
}
