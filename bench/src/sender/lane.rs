//! One sender's connection to one broker: the partitions led there, and the requests in flight.

use super::measure::Meter;
use super::plan::LoadPlan;
use super::stream::{Filler, Sealed, Stream};
use crate::client::{CLIENT_ID, Pipe, ProducerIdentity};
use crate::clock::Nanos;
use crate::histogram::Latencies;
use bytes::BytesMut;
use std::collections::VecDeque;
use std::io;
use std::time::Duration;
use strandline_wire::frame::{
    RequestHeader, begin_frame, decode_response_header, encode_request_header, end_frame,
};
use strandline_wire::produce::{self, ProducePartition, ProduceRequest, TopicRef};
use strandline_wire::{ApiKey, ErrorCode, Grouped, WireError};

/// The most that one request carries, as `max.request.size` of Kafka's producer; one batch may be larger.
const REQUEST_BYTES_MAX: usize = 1 << 20;

/// Requests sent before answers are looked at again: with a large window a busy sender would otherwise see them late.
const REQUESTS_A_TURN: usize = 4;

/// How long the broker may wait for its replicas.
const REQUEST_TIMEOUT_MS: i32 = 30_000;

/// How long to wait before a broken connection is opened again.
const RECONNECT_AFTER: Nanos = 100_000_000;

/// How long opening it may hold up the other connections of the sender.
const RECONNECT_TIMEOUT: Duration = Duration::from_millis(100);

/// Records that become due within this of each other may share a wake-up while a batch lingers.
const COALESCE: Nanos = 50_000;

/// A connection and what goes over it.
pub(super) struct Lane {
    address: String,
    pipe: Option<Pipe>,
    requests: Requests,
    reconnect_at: Nanos,
}

/// The requests of a lane; apart from the pipe, whose answers are read while these change.
struct Requests {
    /// In the order of their partition numbers.
    streams: Vec<Stream>,
    /// Which stream fills the next request first, so that none starves when a request is full.
    first_stream: usize,
    in_flight: VecDeque<InFlight>,
    next_correlation_id: i32,
    /// Since when the window has had room without interruption.
    room_since: Nanos,
    /// Of the measured requests: answer minus submission.
    service: Latencies,
    /// Under which id batches are sent; `None` for batches without sequences.
    identity: Option<ProducerIdentity>,
}

struct InFlight {
    correlation_id: i32,
    submitted: Nanos,
    /// Stream and batch, in the order of the streams.
    batches: Vec<(usize, Sealed)>,
}

impl Lane {
    /// A lane over `pipe`, which leads to `address`; `streams` are in the order of their partitions.
    pub(super) fn new(
        address: &str,
        pipe: Pipe,
        identity: Option<ProducerIdentity>,
        streams: Vec<Stream>,
    ) -> Self {
        let requests = Requests {
            streams,
            first_stream: 0,
            in_flight: VecDeque::new(),
            next_correlation_id: 0,
            room_since: 0,
            service: Latencies::default(),
            identity,
        };
        Self {
            address: address.to_owned(),
            pipe: Some(pipe),
            requests,
            reconnect_at: 0,
        }
    }

    pub(super) fn pipe(&self) -> Option<&Pipe> {
        self.pipe.as_ref()
    }

    pub(super) fn streams(&self) -> &[Stream] {
        &self.requests.streams
    }

    /// The broker that it leads to.
    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// How long the broker took for a request.
    pub(super) fn service(&self) -> &Latencies {
        &self.requests.service
    }

    /// Whether no request waits for its answer.
    pub(super) fn is_idle(&self) -> bool {
        self.requests.in_flight.is_empty() && self.pipe.as_ref().is_none_or(|pipe| !pipe.is_sending())
    }

    fn has_room(&self, plan: &LoadPlan) -> bool {
        self.requests.in_flight.len() < plan.window
            && self.pipe.as_ref().is_some_and(|pipe| !pipe.is_sending())
    }

    /// Submits what is due and fits the window, but only a few requests in one turn.
    pub(super) fn submit(&mut self, filler: &mut Filler<'_>, meter: &mut Meter) {
        let plan = filler.plan;
        self.reconnect(plan.clock.now(), plan);
        let closed_loop = plan.integrated.is_none();
        for _ in 0..REQUESTS_A_TURN {
            let now = plan.clock.now();
            if !closed_loop {
                for stream in &mut self.requests.streams {
                    stream.pull(now, filler);
                }
            }
            if !self.has_room(plan) {
                return;
            }
            let batches = if closed_loop {
                self.requests.fill_closed_loop(now, filler)
            } else {
                self.requests.gather(now, plan)
            };
            if batches.is_empty() {
                return;
            }
            self.send_request(batches, plan, meter);
        }
    }

    fn send_request(&mut self, batches: Vec<(usize, Sealed)>, plan: &LoadPlan, meter: &mut Meter) {
        let Some(pipe) = &mut self.pipe else { return };
        let requests = &mut self.requests;
        let correlation_id = requests.next_correlation_id;
        requests.next_correlation_id = correlation_id.wrapping_add(1);
        requests
            .encode(pipe.outgoing(), correlation_id, &batches, plan)
            .expect("the command line bounds what a request holds, and set-up chose the version");
        let submitted = plan.clock.now();
        let sent = pipe.send();
        meter.report.requests += 1;
        for (_, batch) in &batches {
            meter.submitted(batch, submitted, requests.room_since, plan);
        }
        if plan.acks == 0 {
            // No answer will come: handing the bytes to the kernel is all that can be timed, and nothing is promised.
            let now = plan.clock.now();
            for (stream, batch) in &batches {
                let stream = &mut requests.streams[*stream];
                stream.acknowledged(batch, now, plan.start + plan.phases.warm_up);
                stream.ledger.not_acknowledged(batch.sequences.clone());
                meter.acknowledged(batch, submitted, now, plan);
            }
        } else {
            requests.in_flight.push_back(InFlight {
                correlation_id,
                submitted,
                batches,
            });
        }
        if let Err(error) = sent {
            self.lose_connection(&error, plan, meter);
        }
    }

    /// Sends what the kernel did not take before.
    pub(super) fn flush(&mut self, plan: &LoadPlan, meter: &mut Meter) {
        let Some(pipe) = &mut self.pipe else { return };
        match pipe.send() {
            Ok(()) if !pipe.is_sending() => self.requests.room_since = plan.clock.now(),
            Ok(()) => {}
            Err(error) => self.lose_connection(&error, plan, meter),
        }
    }

    /// Takes the answers that have come.
    pub(super) fn receive(&mut self, plan: &LoadPlan, meter: &mut Meter) {
        if let Err(error) = self.try_receive(plan, meter) {
            self.lose_connection(&error, plan, meter);
        }
    }

    fn try_receive(&mut self, plan: &LoadPlan, meter: &mut Meter) -> io::Result<()> {
        let Some(pipe) = &mut self.pipe else { return Ok(()) };
        pipe.receive()?;
        // One time for everything that one read brought: it was there when the read returned.
        let now = plan.clock.now();
        while let Some(frame) = pipe.next_frame()? {
            self.requests
                .answered(frame, now, plan, meter)
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        }
        Ok(())
    }

    fn lose_connection(&mut self, error: &io::Error, plan: &LoadPlan, meter: &mut Meter) {
        self.pipe = None;
        self.reconnect_at = plan.clock.now() + RECONNECT_AFTER;
        meter.report.connections_lost += 1;
        self.abandon(&format!("connection lost: {error}"), plan, meter);
    }

    /// Gives up on every request in flight.
    pub(super) fn abandon(&mut self, why: &str, plan: &LoadPlan, meter: &mut Meter) {
        let requests = &mut self.requests;
        for (stream, batch) in requests.in_flight.drain(..).flat_map(|request| request.batches) {
            requests.streams[stream]
                .ledger
                .not_acknowledged(batch.sequences.clone());
            meter.failed(&batch, why, plan);
        }
    }

    fn reconnect(&mut self, now: Nanos, plan: &LoadPlan) {
        if self.pipe.is_some() || now < self.reconnect_at {
            return;
        }
        if plan.idempotent {
            // What was in flight is lost to its sequence: a new id starts another one, as a restarted producer does.
            match ProducerIdentity::ask(&plan.dialer, &self.address, RECONNECT_TIMEOUT) {
                Ok(identity) => {
                    self.requests.identity = Some(identity);
                    self.requests
                        .streams
                        .iter_mut()
                        .for_each(Stream::restart_producer_sequence);
                }
                Err(_) => {
                    self.reconnect_at = plan.clock.now() + RECONNECT_AFTER;
                    return;
                }
            }
        }
        match Pipe::open(&plan.dialer, &self.address, RECONNECT_TIMEOUT) {
            Ok(pipe) => {
                self.pipe = Some(pipe);
                self.requests.room_since = now;
            }
            Err(_) => self.reconnect_at = now + RECONNECT_AFTER,
        }
    }

    /// When this lane wants attention if nothing arrives before.
    pub(super) fn deadline(&self, now: Nanos, plan: &LoadPlan) -> Nanos {
        if self.pipe.is_none() {
            return self.reconnect_at;
        }
        if !self.has_room(plan) {
            return Nanos::MAX;
        }
        if plan.integrated.is_none() {
            return now.max(plan.start);
        }
        self.requests
            .streams
            .iter()
            .map(|stream| stream.deadline(now, plan, COALESCE))
            .min()
            .unwrap_or(Nanos::MAX)
    }
}

impl Requests {
    /// Takes the ready batches for one request, one a partition.
    fn gather(&mut self, now: Nanos, plan: &LoadPlan) -> Vec<(usize, Sealed)> {
        self.take(plan, |stream| {
            if stream.is_ready(now, plan) {
                Some(stream.open_bytes())
            } else {
                None
            }
        })
    }

    /// Fills a batch for each partition until the request is full.
    fn fill_closed_loop(&mut self, now: Nanos, filler: &mut Filler<'_>) -> Vec<(usize, Sealed)> {
        if now < filler.plan.start || now >= filler.plan.start + filler.plan.phases.end {
            return Vec::new();
        }
        self.take(filler.plan, |stream| {
            stream.fill(now, filler);
            Some(stream.open_bytes()).filter(|_| !stream.is_empty())
        })
    }

    /// Seals the batches whose size `ready` tells, going round, until a request is full.
    fn take(
        &mut self,
        plan: &LoadPlan,
        mut ready: impl FnMut(&mut Stream) -> Option<usize>,
    ) -> Vec<(usize, Sealed)> {
        let count = self.streams.len();
        let mut taken = Vec::new();
        let mut bytes = 0;
        for step in 0..count {
            let at = (self.first_stream + step) % count;
            let Some(size) = ready(&mut self.streams[at]) else {
                continue;
            };
            if bytes > 0 && bytes + size > REQUEST_BYTES_MAX {
                self.first_stream = at;
                break;
            }
            bytes += size;
            taken.push((at, self.streams[at].seal(plan.codec, self.identity)));
        }
        taken.sort_unstable_by_key(|(stream, _)| *stream);
        taken
    }

    fn encode(
        &self,
        out: &mut BytesMut,
        correlation_id: i32,
        batches: &[(usize, Sealed)],
        plan: &LoadPlan,
    ) -> Result<(), WireError> {
        let mut topics = Grouped::with_capacity(plan.topics.len(), batches.len());
        let mut current = None;
        for (stream, batch) in batches {
            // Streams are in the order of their partitions, and so by topic.
            let (topic, index) = plan.place(self.streams[*stream].partition);
            if current != Some(topic) {
                current = Some(topic);
                topics.begin(TopicRef::Name(&plan.topics[topic]));
            }
            topics.push(ProducePartition {
                index,
                records: Some(&batch.bytes),
            });
        }
        let request = ProduceRequest {
            transactional_id: None,
            acks: plan.acks,
            timeout_ms: REQUEST_TIMEOUT_MS,
            topics,
        };
        let frame = begin_frame(out);
        let header = RequestHeader {
            api_key: ApiKey::Produce.key(),
            api_version: plan.produce_version,
            correlation_id,
            client_id: Some(CLIENT_ID),
        };
        encode_request_header(out, &header);
        produce::encode_request(out, plan.produce_version, &request)?;
        end_frame(out, frame, 0)
    }

    fn answered(
        &mut self,
        frame: &[u8],
        now: Nanos,
        plan: &LoadPlan,
        meter: &mut Meter,
    ) -> Result<(), String> {
        let text = |error: WireError| error.to_string();
        let (correlation_id, body) =
            decode_response_header(frame, ApiKey::Produce.key(), plan.produce_version).map_err(text)?;
        let response = produce::decode_response(plan.produce_version, &frame[body..]).map_err(text)?;
        let was_full = self.in_flight.len() >= plan.window;
        let request = match self.in_flight.front() {
            Some(oldest) if oldest.correlation_id == correlation_id => self.in_flight.pop_front(),
            _ => None,
        };
        let Some(request) = request else {
            return Err(format!(
                "an answer with correlation id {correlation_id}, which is not the oldest in flight"
            ));
        };
        if was_full {
            self.room_since = now;
        }
        let mut answered = vec![None; request.batches.len()];
        for (topic, partitions) in response.topics.iter() {
            let topic = match topic {
                TopicRef::Name(name) => plan.topics.iter().position(|asked| asked == name),
                TopicRef::Id(_) => None,
            };
            for partition in partitions {
                let at = topic.and_then(|topic| {
                    let number = topic as i32 * plan.partitions + partition.index;
                    request
                        .batches
                        .binary_search_by_key(&number, |(stream, _)| self.streams[*stream].partition)
                        .ok()
                });
                let Some(at) = at else {
                    return Err(format!(
                        "an answer for partition {}, which was not asked",
                        partition.index
                    ));
                };
                answered[at] = Some(partition.error_code);
            }
        }
        let mut refusal = None;
        if plan
            .phases
            .is_measured(request.submitted.saturating_sub(plan.start))
        {
            self.service.record_between(request.submitted, now);
        }
        for ((stream, batch), code) in request.batches.iter().zip(answered) {
            let stream = &mut self.streams[*stream];
            match code {
                Some(ErrorCode::None) => {
                    stream.acknowledged(batch, now, plan.start + plan.phases.warm_up);
                    meter.acknowledged(batch, request.submitted, now, plan);
                }
                refused => {
                    stream.ledger.not_acknowledged(batch.sequences.clone());
                    let why = refused.map_or("not in the answer", ErrorCode::name);
                    meter.failed(batch, why, plan);
                    refusal = Some(why);
                }
            }
        }
        match refusal {
            // The sequence of that partition is broken; the lane starts another one.
            Some(why) if self.identity.is_some() => Err(format!("refused: {why}")),
            _ => Ok(()),
        }
    }
}
