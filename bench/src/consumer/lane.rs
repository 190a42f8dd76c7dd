//! A consumer's connection to one broker: the partitions led there, one fetch in flight, and where what comes goes.

use super::ConsumePlan;
use crate::client::{CLIENT_ID, Pipe};
use crate::clock::{Nanos, SECOND};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::time::Duration;
use strandline_wire::fetch::{self, FetchPartition, FetchRequest, TopicRef};
use strandline_wire::frame::{
    RequestHeader, begin_frame, decode_response_header, encode_request_header, end_frame,
};
use strandline_wire::{ApiKey, ErrorCode, Grouped, WireError};

/// How long a fetch may wait for records.
const MAX_WAIT_MS: i32 = 100;

/// What one fetch may bring, of all partitions and of one: Kafka's consumer takes 50 MiB and 1 MiB.
pub(crate) const MAX_BYTES: i32 = 16 << 20;
const PARTITION_MAX_BYTES: i32 = 1 << 20;

/// How long opening a connection may hold up the others.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// How long to wait before asking again a broker that refused or went away.
const RETRY_AFTER: Nanos = 100_000_000;

/// Takes what a lane receives.
pub(crate) trait Records {
    /// Takes a record set that came at `now`; `true` when it moved the position.
    fn take(&mut self, position: &mut Position, record_set: &[u8], now: Nanos) -> bool;
}

/// The partitions that one broker leads, and the connection to it.
pub(crate) struct Lane {
    address: String,
    pub(crate) pipe: Option<Pipe>,
    pub(crate) positions: Vec<Position>,
    waiting: bool,
    correlation_id: i32,
    not_before: Nanos,
}

/// How far a partition was read, and how far it is to be read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Position {
    pub(crate) partition: i32,
    pub(crate) offset: i64,
    pub(crate) end: Option<i64>,
}

impl Position {
    pub(crate) fn is_finished(&self) -> bool {
        self.end.is_some_and(|end| self.offset >= end)
    }
}

/// Waits until a connection has something, or `timeout` is over: those that have.
pub(crate) fn wait_for_answers(lanes: &mut [Lane], timeout: Nanos) -> impl Iterator<Item = &mut Lane> {
    let timeout = Timespec {
        tv_sec: (timeout / SECOND) as i64,
        tv_nsec: (timeout % SECOND) as i64,
    };
    let mut polled: Vec<PollFd<'_>> = Vec::with_capacity(lanes.len());
    for pipe in lanes.iter().filter_map(|lane| lane.pipe.as_ref()) {
        polled.push(PollFd::new(pipe, interest(pipe)));
    }
    // As for senders: an interrupted poll is a wake-up like any other.
    let _ = poll(&mut polled, Some(&timeout));
    let readiness: Vec<PollFlags> = polled.iter().map(PollFd::revents).collect();
    let connected = lanes.iter_mut().filter(|lane| lane.pipe.is_some());
    connected
        .zip(readiness)
        .filter_map(|(lane, readiness)| (!readiness.is_empty()).then_some(lane))
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
    pub(crate) fn new(address: &str, positions: Vec<Position>) -> Self {
        Self {
            address: address.to_owned(),
            pipe: None,
            positions,
            waiting: false,
            correlation_id: 0,
            not_before: 0,
        }
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.positions.iter().all(Position::is_finished)
    }

    /// Sends a fetch for the partitions that are not finished, unless one is in flight.
    pub(crate) fn ask(&mut self, plan: &ConsumePlan, now: Nanos) {
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

    pub(crate) fn lose_connection(&mut self, now: Nanos) {
        self.pipe = None;
        self.waiting = false;
        self.not_before = now + RETRY_AFTER;
    }

    /// Takes what has come; `true` when records were among it.
    pub(crate) fn receive(&mut self, plan: &ConsumePlan, sink: &mut impl Records) -> io::Result<bool> {
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
            max_bytes: PARTITION_MAX_BYTES.min(plan.fetch_bytes),
            ..FetchPartition::default()
        });
    }
    let request = FetchRequest {
        max_wait_ms: MAX_WAIT_MS,
        min_bytes: 1,
        max_bytes: MAX_BYTES.min(plan.fetch_bytes),
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
