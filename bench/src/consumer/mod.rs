//! A consumer: reads partitions by assignment, times every record from its intended time, and checks every byte of it.

mod consumer_protocol;
mod lane;
mod member;
mod membership;

pub(crate) use lane::{Lane, MAX_BYTES, Position, Records, wait_for_answers};
pub use member::{Group, Member};
pub use membership::GroupProtocol;

use crate::client::{Dialer, TopicLayout};
use crate::clock::{Clock, Nanos, SECOND};
use crate::payload::{self, PayloadError};
use crate::sender::{INTERRUPTED_TIMEOUT, Progress};
use crate::series::Recorder;
use crate::verify::{Observed, SequenceId};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use strandline_wire::batch::{Batch, Codec, Record, batches, for_each_record, records};

/// A compressed batch may not expand to more than this.
pub(crate) const DECOMPRESSED_BYTES_MAX: usize = 100 << 20;

/// After the end is known, a consumer that receives nothing for so long gives up.
const STUCK_AFTER: Nanos = 30 * SECOND;

/// How long to wait at most before looking whether the end is known.
const LOOK_EVERY: Nanos = 50_000_000;

/// What all consumers of a run have in common.
#[derive(Debug)]
pub struct ConsumePlan {
    /// How to connect.
    pub dialer: Dialer,
    /// The run's clock.
    pub clock: Clock,
    /// When the schedule starts, by that clock; known before the first record is sent.
    pub start: Arc<OnceLock<Nanos>>,
    /// The topics, and where their partitions are led.
    pub layout: TopicLayout,
    /// Records of other runs are passed over.
    pub run: u32,
    /// The Fetch version to speak.
    pub fetch_version: i16,
    /// Where to stop, by partition, once the senders have finished.
    pub end_offsets: OnceLock<BTreeMap<i32, i64>>,
    /// Where to start, by partition.
    pub start_offsets: BTreeMap<i32, i64>,
    /// When consumers that read along read nothing, from the start of the schedule.
    pub paused: Option<(Nanos, Nanos)>,
    /// How many records a second each of them takes at most.
    pub rate: Option<f64>,
    /// What one fetch may bring at most.
    pub fetch_bytes: i32,
}

impl ConsumePlan {
    /// Until when a consumer that has taken `records` is to read nothing; `None` when it may read.
    fn held_until(&self, now: Nanos, records: u64) -> Option<Nanos> {
        let start = *self.start.get()?;
        let at = now.checked_sub(start)?;
        let paused = self.paused.filter(|(from, to)| (*from..*to).contains(&at));
        // What it took must have been due at its own rate.
        let early = self
            .rate
            .map(|rate| (records as f64 / rate * SECOND as f64) as Nanos);
        let until = paused.map(|(_, to)| to).max(early.filter(|until| *until > at))?;
        Some(start + until)
    }
}

/// What a consumer found.
#[derive(Debug, Default)]
pub struct ConsumerReport {
    /// What it saw.
    pub observed: Observed,
    /// Why it stopped before the end, if so.
    pub gave_up: Option<String>,
}

/// A consumer before its thread starts.
pub struct Consumer {
    plan: Arc<ConsumePlan>,
    lanes: Vec<Lane>,
    sink: Sink,
    last_progress: Nanos,
}

/// Where records go; apart from the lanes, whose buffers they are borrowed from.
struct Sink {
    recorder: Option<Recorder>,
    progress: Arc<Progress>,
    report: ConsumerReport,
    taken: u64,
    run: u32,
    start: Arc<OnceLock<Nanos>>,
}

impl Consumer {
    /// Consumer `index` of `of`, for its share of the partitions; it connects when it runs. `recorder` takes end-to-end latencies.
    pub fn new(
        plan: &Arc<ConsumePlan>,
        (index, of): (usize, usize),
        recorder: Option<Recorder>,
        progress: &Arc<Progress>,
    ) -> Self {
        let mut lanes = Vec::new();
        for (address, partitions) in &plan.layout.leaders {
            let positions: Vec<Position> = partitions
                .iter()
                .filter(|partition| partition.unsigned_abs() as usize % of == index)
                .map(|&partition| Position {
                    partition,
                    offset: plan.start_offsets.get(&partition).copied().unwrap_or(0),
                    end: None,
                })
                .collect();
            if positions.is_empty() {
                continue;
            }
            lanes.push(Lane::new(address, positions));
        }
        Self {
            plan: Arc::clone(plan),
            lanes,
            sink: Sink::new(plan, recorder, progress),
            last_progress: 0,
        }
    }

    /// Reads until the end offsets are known and reached.
    pub fn run(mut self) -> ConsumerReport {
        let plan = Arc::clone(&self.plan);
        let mut ending = false;
        loop {
            let now = plan.clock.now();
            if !ending && let Some(ends) = plan.end_offsets.get() {
                ending = true;
                self.last_progress = now;
                for position in self.lanes.iter_mut().flat_map(|lane| &mut lane.positions) {
                    position.end = ends.get(&position.partition).copied();
                }
            }
            if ending {
                if self.lanes.iter().all(Lane::is_finished) {
                    break;
                }
                if now > self.last_progress + self.sink.patience() {
                    self.sink.report.gave_up = Some(self.describe_stuck());
                    break;
                }
            }
            // Whoever has to come to the end is not held back any more.
            if let (false, Some(until)) = (ending, plan.held_until(now, self.sink.taken)) {
                plan.clock.sleep_until(until.min(now + LOOK_EVERY));
                continue;
            }
            for lane in &mut self.lanes {
                lane.ask(&plan, now);
            }
            self.wait();
        }
        self.sink.report
    }

    fn wait(&mut self) {
        for lane in wait_for_answers(&mut self.lanes, LOOK_EVERY) {
            match lane.receive(&self.plan, &mut self.sink) {
                Ok(true) => self.last_progress = self.plan.clock.now(),
                Ok(false) => {}
                Err(_) => lane.lose_connection(self.plan.clock.now()),
            }
        }
    }

    fn describe_stuck(&self) -> String {
        let behind = self
            .lanes
            .iter()
            .flat_map(|lane| &lane.positions)
            .find(|position| !position.is_finished());
        match behind {
            Some(position) => format!(
                "partition {} gave nothing more at offset {}, its end being {}",
                position.partition,
                position.offset,
                position.end.unwrap_or(-1)
            ),
            None => "nothing came any more".to_owned(),
        }
    }
}

impl Records for Sink {
    fn take(&mut self, position: &mut Position, record_set: &[u8], now: Nanos) -> bool {
        let before = position.offset;
        for batch in batches(record_set) {
            let Ok(batch) = batch else {
                self.report.observed.corrupt += 1;
                break;
            };
            if batch.header.base_offset < position.offset {
                self.report.observed.offsets_not_rising += 1;
            }
            if !batch.header.is_control() {
                self.take_batch(position.partition, &batch, now);
            }
            position.offset = batch.header.last_offset() + 1;
        }
        position.offset > before
    }
}

impl Sink {
    /// How long nothing may come once the end is known.
    fn patience(&self) -> Nanos {
        if self.progress.is_interrupted() {
            INTERRUPTED_TIMEOUT
        } else {
            STUCK_AFTER
        }
    }

    fn new(plan: &ConsumePlan, recorder: Option<Recorder>, progress: &Arc<Progress>) -> Self {
        Self {
            recorder,
            progress: Arc::clone(progress),
            report: ConsumerReport::default(),
            taken: 0,
            run: plan.run,
            start: Arc::clone(&plan.start),
        }
    }

    fn take_batch(&mut self, partition: i32, batch: &Batch<'_>, now: Nanos) {
        if batch.header.codec() == Some(Codec::None) {
            let Ok(records) = records(batch.bytes) else {
                self.report.observed.corrupt += 1;
                return;
            };
            for record in records {
                match record {
                    Ok(record) => self.take_record(partition, &record, now),
                    Err(_) => self.report.observed.corrupt += 1,
                }
            }
        } else {
            let walked = for_each_record(batch.bytes, DECOMPRESSED_BYTES_MAX, |record| {
                self.take_record(partition, &record, now);
                ControlFlow::<()>::Continue(())
            });
            if walked.is_err() {
                self.report.observed.corrupt += 1;
            }
        }
    }

    #[inline]
    fn take_record(&mut self, partition: i32, record: &Record<'_>, now: Nanos) {
        let header = match payload::read(record.value.unwrap_or_default()) {
            Ok(header) => header,
            Err(PayloadError::Foreign) => return,
            Err(PayloadError::Corrupt) => {
                self.report.observed.corrupt += 1;
                return;
            }
        };
        if header.run != self.run {
            return;
        }
        let id = SequenceId {
            producer: header.producer,
            partition,
        };
        self.report
            .observed
            .sequences
            .entry(id)
            .or_default()
            .observe(header.sequence);
        self.taken += 1;
        self.progress.received.fetch_add(1, Ordering::Relaxed);
        if let (Some(recorder), Some(&start)) = (&mut self.recorder, self.start.get()) {
            let interval = recorder.phases().interval(header.intended.saturating_sub(start));
            let then = recorder.phases().interval(now.saturating_sub(start));
            let bytes = record.value.map_or(0, <[u8]>::len) as u64;
            recorder.interval(then).delivered.add(1, bytes);
            let slot = recorder.interval(interval);
            slot.end_to_end.record_between(header.intended, now);
            slot.received += 1;
        }
    }
}
