//! A consumer: reads partitions by assignment, times every record from its intended time, and checks every byte of it.

mod member;
mod membership;

pub use member::{Group, Member};

use crate::client::{CLIENT_ID, Dialer, Pipe, TopicLayout};
use crate::clock::{Clock, Nanos, SECOND};
use crate::payload::{self, PayloadError};
use crate::sender::Progress;
use crate::series::Recorder;
use crate::verify::{Observed, SequenceId};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::BTreeMap;
use std::io;
use std::ops::ControlFlow;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use strandline_wire::batch::{Batch, Codec, Record, batches, for_each_record, records};
use strandline_wire::fetch::{self, FetchPartition, FetchRequest, TopicRef};
use strandline_wire::frame::{
    RequestHeader, begin_frame, decode_response_header, encode_request_header, end_frame,
};
use strandline_wire::{ApiKey, ErrorCode, Grouped, WireError};

/// How long a fetch may wait for records.
const MAX_WAIT_MS: i32 = 100;

/// What one fetch may bring, of all partitions and of one: Kafka's consumer takes 50 MiB and 1 MiB.
const MAX_BYTES: i32 = 16 << 20;
const PARTITION_MAX_BYTES: i32 = 1 << 20;

/// A compressed batch may not expand to more than this.
const DECOMPRESSED_BYTES_MAX: usize = 100 << 20;

/// After the end is known, a consumer that receives nothing for so long gives up.
const STUCK_AFTER: Nanos = 30 * SECOND;

/// How long to wait at most before looking whether the end is known.
const LOOK_EVERY: Nanos = 50_000_000;

/// How long opening a connection may hold up the others.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// How long to wait before asking again a broker that refused or went away.
const RETRY_AFTER: Nanos = 100_000_000;

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

struct Lane {
    address: String,
    pipe: Option<Pipe>,
    positions: Vec<Position>,
    waiting: bool,
    correlation_id: i32,
    not_before: Nanos,
}

#[derive(Clone, Copy, Debug)]
struct Position {
    partition: i32,
    offset: i64,
    end: Option<i64>,
}

/// Where records go; apart from the lanes, whose buffers they are borrowed from.
struct Sink {
    recorder: Option<Recorder>,
    progress: Arc<Progress>,
    report: ConsumerReport,
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
                if now > self.last_progress + STUCK_AFTER {
                    self.sink.report.gave_up = Some(self.describe_stuck());
                    break;
                }
            }
            for lane in &mut self.lanes {
                lane.ask(&plan, now);
            }
            self.wait();
        }
        self.sink.report
    }

    fn wait(&mut self) {
        let timeout = Timespec {
            tv_sec: 0,
            tv_nsec: LOOK_EVERY as i64,
        };
        let mut polled: Vec<PollFd<'_>> = Vec::with_capacity(self.lanes.len());
        for pipe in self.lanes.iter().filter_map(|lane| lane.pipe.as_ref()) {
            polled.push(PollFd::new(pipe, interest(pipe)));
        }
        // As for senders: an interrupted poll is a wake-up like any other.
        if poll(&mut polled, Some(&timeout)).unwrap_or(0) == 0 {
            return;
        }
        let readiness: Vec<PollFlags> = polled.iter().map(PollFd::revents).collect();
        let connected = self.lanes.iter_mut().filter(|lane| lane.pipe.is_some());
        for (lane, readiness) in connected.zip(readiness) {
            if readiness.is_empty() {
                continue;
            }
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
                "partition {} gave nothing for 30 s at offset {}, its end being {}",
                position.partition,
                position.offset,
                position.end.unwrap_or(-1)
            ),
            None => "nothing came for 30 s".to_owned(),
        }
    }
}

impl Position {
    fn is_finished(&self) -> bool {
        self.end.is_some_and(|end| self.offset >= end)
    }
}

/// What a connection waits for.
fn interest(pipe: &Pipe) -> PollFlags {
    if pipe.is_sending() {
        PollFlags::IN | PollFlags::OUT
    } else {
        PollFlags::IN
    }
}

impl Lane {
    /// The partitions of the broker at `address`, not connected yet.
    fn new(address: &str, positions: Vec<Position>) -> Self {
        Self {
            address: address.to_owned(),
            pipe: None,
            positions,
            waiting: false,
            correlation_id: 0,
            not_before: 0,
        }
    }

    fn is_finished(&self) -> bool {
        self.positions.iter().all(Position::is_finished)
    }

    /// Sends a fetch for the partitions that are not finished, unless one is in flight.
    fn ask(&mut self, plan: &ConsumePlan, now: Nanos) {
        if now < self.not_before || self.is_finished() {
            return;
        }
        if self.pipe.is_none() {
            match Pipe::open(&plan.dialer, &self.address, CONNECT_TIMEOUT) {
                Ok(pipe) => self.pipe = Some(pipe),
                Err(_) => {
                    self.not_before = now + RETRY_AFTER;
                    return;
                }
            }
        }
        let Some(pipe) = &mut self.pipe else { return };
        if !self.waiting {
            self.waiting = true;
            self.correlation_id = self.correlation_id.wrapping_add(1);
            encode_fetch(pipe.outgoing(), self.correlation_id, &self.positions, plan)
                .expect("set-up chose the version, and a fetch of a known topic is small");
        }
        if pipe.send().is_err() {
            self.lose_connection(now);
        }
    }

    fn lose_connection(&mut self, now: Nanos) {
        self.pipe = None;
        self.waiting = false;
        self.not_before = now + RETRY_AFTER;
    }

    /// Takes what has come; `true` when records were among it.
    fn receive(&mut self, plan: &ConsumePlan, sink: &mut Sink) -> io::Result<bool> {
        let Some(pipe) = &mut self.pipe else {
            return Ok(false);
        };
        pipe.send()?;
        pipe.receive()?;
        let now = plan.clock.now();
        let mut progress = false;
        while let Some(frame) = pipe.next_frame()? {
            let invalid = |error: WireError| io::Error::new(io::ErrorKind::InvalidData, error);
            let (correlation_id, body) =
                decode_response_header(frame, ApiKey::Fetch.key(), plan.fetch_version).map_err(invalid)?;
            if correlation_id != self.correlation_id {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    "an answer to another request",
                ));
            }
            self.waiting = false;
            let response = fetch::decode_response(plan.fetch_version, &frame[body..]).map_err(invalid)?;
            for (topic, answer) in response.topics.flat() {
                let place = match topic {
                    TopicRef::Name(name) => plan.layout.topics.iter().position(|asked| asked == name),
                    TopicRef::Id(_) => None,
                };
                let number = place.map(|topic| topic as i32 * plan.layout.each + answer.header.index);
                let position = self
                    .positions
                    .iter_mut()
                    .find(|position| Some(position.partition) == number);
                let Some(position) = position else { continue };
                if answer.header.error_code == ErrorCode::OffsetOutOfRange
                    && answer.header.log_start_offset > position.offset
                {
                    // Deleted before it was read: the verification will count it as lost.
                    position.offset = answer.header.log_start_offset;
                    continue;
                }
                if answer.header.error_code != ErrorCode::None {
                    self.not_before = now + RETRY_AFTER;
                    continue;
                }
                progress |= sink.take(position, answer.records.unwrap_or_default(), now);
            }
        }
        Ok(progress)
    }
}

fn encode_fetch(
    out: &mut bytes::BytesMut,
    correlation_id: i32,
    positions: &[Position],
    plan: &ConsumePlan,
) -> Result<(), WireError> {
    let mut topics = Grouped::with_capacity(plan.layout.topics.len(), positions.len());
    let mut current = None;
    for position in positions.iter().filter(|position| !position.is_finished()) {
        // Leaders list their partitions in order, and so by topic.
        let (topic, index) = plan.layout.place(position.partition);
        if current != Some(topic) {
            current = Some(topic);
            topics.begin(TopicRef::Name(&plan.layout.topics[topic]));
        }
        topics.push(FetchPartition {
            index,
            fetch_offset: position.offset,
            max_bytes: PARTITION_MAX_BYTES,
            ..FetchPartition::default()
        });
    }
    let request = FetchRequest {
        max_wait_ms: MAX_WAIT_MS,
        min_bytes: 1,
        max_bytes: MAX_BYTES,
        topics,
        ..FetchRequest::default()
    };
    let frame = begin_frame(out);
    let header = RequestHeader {
        api_key: ApiKey::Fetch.key(),
        api_version: plan.fetch_version,
        correlation_id,
        client_id: Some(CLIENT_ID),
    };
    encode_request_header(out, &header);
    fetch::encode_request(out, plan.fetch_version, &request)?;
    end_frame(out, frame, 0)
}

impl Sink {
    fn new(plan: &ConsumePlan, recorder: Option<Recorder>, progress: &Arc<Progress>) -> Self {
        Self {
            recorder,
            progress: Arc::clone(progress),
            report: ConsumerReport::default(),
            run: plan.run,
            start: Arc::clone(&plan.start),
        }
    }

    /// Takes a record set; `true` when it moved the position.
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
