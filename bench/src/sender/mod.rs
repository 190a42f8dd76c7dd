//! A sender: one pinned thread that owns its connections and keeps to the schedule.
//!
//! Its loop: read what came, move what is due into batches, send as far as the windows allow, sleep until the next record is due or
//! something comes. A full window stops the sending, never the schedule: what is due meanwhile is sent as soon as there is room,
//! and counts from when it was due.

mod lane;
mod measure;
mod plan;
mod stream;

pub use measure::{SAMPLE_EVERY, Sample, SenderReport};
pub use plan::{LoadPlan, Progress};

use crate::client::{Pipe, ProducerIdentity, TopicLayout};
use crate::clock::{Nanos, SECOND};
use crate::payload::BodyPool;
use crate::pin;
use crate::schedule::{Portion, StreamPosition};
use crate::series::Recorder;
use crate::verify::SequenceId;
use lane::Lane;
use measure::Meter;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::sync::Arc;
use stream::{Filler, Stream};

/// The part of a wait that is spun where cores are to spare: a sleeping thread wakes tens of microseconds late.
const SPIN: Nanos = 30_000;

/// How long the answers of an interrupted run are waited for: somebody waits at the terminal.
pub(crate) const INTERRUPTED_TIMEOUT: Nanos = 2 * SECOND;

/// A sender before its thread starts: connected, nothing sent.
pub struct Sender {
    plan: Arc<LoadPlan>,
    index: u32,
    lanes: Vec<Lane>,
    meter: Meter,
    pool: BodyPool,
    progress: Arc<Progress>,
    spin: Nanos,
    readiness: Vec<PollFlags>,
}

impl Sender {
    /// Sender number `index`, with a pipe for every broker of `layout`, in its order.
    pub fn new(
        plan: &Arc<LoadPlan>,
        index: u32,
        layout: &TopicLayout,
        pipes: Vec<(Pipe, Option<ProducerIdentity>)>,
        recorder: Recorder,
        progress: &Arc<Progress>,
    ) -> Self {
        let of = u64::from(plan.producers) * layout.partitions() as u64;
        let mut lanes = Vec::with_capacity(layout.leaders.len());
        for ((address, partitions), (pipe, identity)) in layout.leaders.iter().zip(pipes) {
            let mut partitions = partitions.clone();
            partitions.sort_unstable();
            let streams = partitions
                .into_iter()
                .map(|partition| Stream::new(plan, partition, index, position(plan, partition, index, of)))
                .collect();
            lanes.push(Lane::new(address, pipe, identity, streams));
        }
        Self {
            plan: Arc::clone(plan),
            index,
            lanes,
            meter: Meter::new(recorder, Arc::clone(progress)),
            pool: BodyPool::new(plan.sizes.max(), plan.compressibility, plan.seed),
            progress: Arc::clone(progress),
            spin: if pin::may_spin() { SPIN } else { 0 },
            readiness: Vec::new(),
        }
    }

    /// Keeps to the schedule until it ends, then waits for the last answers.
    pub fn run(mut self) -> SenderReport {
        self.meter.report.core = pin::to_core(self.index as usize);
        pin::precise_timers();
        let plan = Arc::clone(&self.plan);
        let end = plan.start + plan.phases.end;
        let mut scratch = vec![0; plan.sizes.max()];
        let mut ending_since = None;
        loop {
            let now = plan.clock.now();
            let submitting =
                now < end + plan.drain && !self.is_exhausted(now, end) && !self.progress.is_interrupted();
            if submitting {
                let mut filler = Filler {
                    plan: &plan,
                    producer: self.index,
                    pool: &self.pool,
                    scratch: &mut scratch,
                };
                for lane in &mut self.lanes {
                    lane.submit(&mut filler, &mut self.meter);
                }
            } else {
                let patience = if self.progress.is_interrupted() {
                    plan.answer_timeout.min(INTERRUPTED_TIMEOUT)
                } else {
                    plan.answer_timeout
                };
                let began = *ending_since.get_or_insert(now);
                let give_up = began + patience;
                if now >= give_up || self.lanes.iter().all(Lane::is_idle) {
                    break;
                }
            }
            let now = plan.clock.now();
            if now < end {
                let lanes = &self.lanes;
                self.meter.sample(now, &plan, || {
                    lanes
                        .iter()
                        .flat_map(Lane::streams)
                        .map(|stream| stream.backlog(now, &plan))
                        .sum()
                });
            }
            self.wait(now, self.deadline(now, submitting, end));
            self.move_bytes();
        }
        self.finish()
    }

    /// Whether every record of the schedule was submitted.
    fn is_exhausted(&self, now: Nanos, end: Nanos) -> bool {
        (self.plan.integrated.is_none() && now >= end)
            || self
                .lanes
                .iter()
                .flat_map(Lane::streams)
                .all(Stream::is_exhausted)
    }

    fn deadline(&self, now: Nanos, submitting: bool, end: Nanos) -> Nanos {
        // Signals and the end of the run are looked at no later than this.
        let mut deadline = now + measure::SAMPLE_EVERY;
        if submitting {
            deadline = self
                .lanes
                .iter()
                .map(|lane| lane.deadline(now, &self.plan))
                .fold(deadline, Nanos::min);
        }
        if now < end {
            deadline = deadline.min(self.meter.next_sample(&self.plan).max(now)).min(end);
        }
        deadline
    }

    /// Sleeps until `deadline` or until a connection is ready.
    fn wait(&mut self, now: Nanos, deadline: Nanos) {
        let wait = deadline.saturating_sub(now).saturating_sub(self.spin);
        let timeout = Timespec {
            tv_sec: (wait / SECOND) as i64,
            tv_nsec: (wait % SECOND) as i64,
        };
        let mut polled: Vec<PollFd<'_>> = Vec::with_capacity(self.lanes.len());
        for pipe in self.lanes.iter().filter_map(Lane::pipe) {
            let interest = if pipe.is_sending() {
                PollFlags::IN | PollFlags::OUT
            } else {
                PollFlags::IN
            };
            polled.push(PollFd::new(pipe, interest));
        }
        // An interrupted or refused poll is a wake-up like any other: the loop looks at everything anyway.
        let ready = poll(&mut polled, Some(&timeout)).unwrap_or(0);
        self.readiness.clear();
        if ready > 0 {
            self.readiness.extend(polled.iter().map(PollFd::revents));
        }
    }

    /// Sends and receives on the connections that are ready.
    fn move_bytes(&mut self) {
        if self.readiness.is_empty() {
            return;
        }
        let connected = self.lanes.iter_mut().filter(|lane| lane.pipe().is_some());
        for (lane, readiness) in connected.zip(&self.readiness) {
            if readiness.contains(PollFlags::OUT) {
                lane.flush(&self.plan, &mut self.meter);
            }
            if readiness.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) {
                lane.receive(&self.plan, &mut self.meter);
            }
        }
    }

    fn finish(mut self) -> SenderReport {
        let plan = Arc::clone(&self.plan);
        // An interrupted run owes only what was due by now.
        let until = plan.clock.now().saturating_sub(plan.start).min(plan.phases.end);
        for lane in &mut self.lanes {
            lane.abandon("no answer in time", &plan, &mut self.meter);
            let report = &mut self.meter.report;
            report
                .by_leader
                .insert(lane.address().to_owned(), lane.service().clone());
            for stream in lane.streams() {
                let id = SequenceId {
                    producer: self.index,
                    partition: stream.partition,
                };
                report.ledgers.insert(id, stream.ledger.clone());
                report
                    .by_partition
                    .insert(stream.partition, stream.measured_acknowledged());
                report.never_submitted += stream.measured_left(&plan, until);
                report.longest_ack_gap = report.longest_ack_gap.max(stream.longest_gap());
            }
        }
        self.meter.report.cpu_ns = thread_cpu_ns();
        self.meter.report
    }
}

/// Which of all streams the one of `sender` to `partition` is.
fn position(plan: &LoadPlan, partition: i32, sender: u32, of: u64) -> StreamPosition {
    let index = u64::from(partition.unsigned_abs()) * u64::from(plan.producers) + u64::from(sender);
    let portion = plan.keys.as_ref().map(|keys| {
        let whole = keys
            .partition((partition % plan.partitions).unsigned_abs() as usize)
            .portion();
        // Topics and senders share evenly: each topic has its stretch, in it each partition, in that each sender.
        let topics = plan.topics.len() as f64;
        let topic = f64::from(partition / plan.partitions);
        let each = (whole.to - whole.from) / f64::from(plan.producers);
        let from = whole.from + each * f64::from(sender);
        Portion {
            from: (topic + from) / topics,
            to: (topic + from + each) / topics,
        }
    });
    StreamPosition { index, of, portion }
}

/// CPU time that the calling thread has used.
fn thread_cpu_ns() -> u64 {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    used.tv_sec as u64 * SECOND + used.tv_nsec as u64
}
