//! Reading partitions of a topic from their leaders, without a group.
//!
//! One thread decides everything here; the lanes only wait for answers. A partition is in one of a few states, and every
//! error moves it to waiting, from which fresh metadata brings it back.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use strandline_wire::ErrorCode;

use super::chunk::Chunk;
use super::fetch::{FetchPlan, FetchedRecords, Lane, LaneResult};
use super::{BrokerId, Client, ClientError, Retry};

/// What a consumer has to tell.
#[derive(Debug)]
pub enum Event {
    /// Records.
    Records(Chunk),
    /// The offset that was next does not exist (any more); reading goes on elsewhere.
    Moved {
        /// The partition.
        partition: i32,
        /// The offset that was next.
        from: i64,
        /// Where reading goes on.
        to: i64,
    },
}

/// Where reading starts, and ends.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// The first offset.
    pub from: i64,
    /// The offset to stop before; none to follow the partition.
    pub until: Option<i64>,
}

/// Reads partitions of one topic.
#[derive(Debug)]
pub struct Consumer {
    client: Client,
    topic: String,
    leaders: BTreeMap<i32, BrokerId>,
    partitions: BTreeMap<i32, Reading>,
    lanes: BTreeMap<BrokerId, Lane>,
    busy: BTreeSet<BrokerId>,
    results_in: Sender<LaneResult>,
    results: Receiver<LaneResult>,
    ready: VecDeque<Event>,
    dispatches: usize,
}

#[derive(Debug)]
struct Reading {
    next: i64,
    until: Option<i64>,
    state: State,
    /// Set at the first of a row of errors.
    retry: Option<Retry>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// To be fetched.
    Idle,
    /// Part of a plan that a lane works on.
    Fetching,
    /// After an error, until then.
    Waiting(Instant),
    /// At its end.
    Done,
}

impl Consumer {
    /// A consumer of the partitions in `spans`. `leaders` need not be up to date.
    pub fn new(
        client: Client,
        topic: &str,
        leaders: BTreeMap<i32, BrokerId>,
        spans: &BTreeMap<i32, Span>,
    ) -> Self {
        let partitions = spans.iter().map(|(&partition, span)| {
            let mut reading = Reading {
                next: span.from,
                until: span.until,
                state: State::Idle,
                retry: None,
            };
            reading.settle();
            (partition, reading)
        });
        let (results_in, results) = channel();
        Self {
            client,
            topic: topic.to_owned(),
            leaders,
            partitions: partitions.collect(),
            lanes: BTreeMap::new(),
            busy: BTreeSet::new(),
            results_in,
            results,
            ready: VecDeque::new(),
            dispatches: 0,
        }
    }

    /// Waits for the next event; `None` when every partition is at its end.
    pub fn next_event(&mut self) -> Result<Option<Event>, ClientError> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(Some(event));
            }
            if self
                .partitions
                .values()
                .all(|reading| reading.state == State::Done)
            {
                return Ok(None);
            }
            self.resume_waiting()?;
            self.dispatch()?;
            self.wait()?;
        }
    }

    /// Brings partitions whose pause is over back, with fresh metadata.
    fn resume_waiting(&mut self) -> Result<(), ClientError> {
        let now = Instant::now();
        let due = |reading: &Reading| matches!(reading.state, State::Waiting(until) if until <= now);
        let due: Vec<i32> = self
            .partitions
            .iter()
            .filter(|(_, reading)| due(reading))
            .map(|(&partition, _)| partition)
            .collect();
        if due.is_empty() {
            return Ok(());
        }
        let refreshed = self
            .client
            .topic(&self.topic, false)
            .map(|topic| self.leaders = topic.leaders());
        match refreshed {
            Ok(()) => {
                for partition in due {
                    self.set_state(partition, State::Idle);
                }
            }
            Err(error) => {
                for partition in due {
                    self.fail(partition, error.clone())?;
                }
            }
        }
        Ok(())
    }

    /// Gives every free lane the partitions that its broker leads.
    fn dispatch(&mut self) -> Result<(), ClientError> {
        let mut plans: BTreeMap<BrokerId, Vec<(i32, i64)>> = BTreeMap::new();
        let mut leaderless = Vec::new();
        for (&partition, reading) in &self.partitions {
            if reading.state != State::Idle {
                continue;
            }
            match self.leaders.get(&partition) {
                Some(leader) if self.busy.contains(leader) => {}
                Some(&leader) => plans.entry(leader).or_default().push((partition, reading.next)),
                None => leaderless.push(partition),
            }
        }
        for partition in leaderless {
            self.fail(
                partition,
                ClientError::NoLeader {
                    topic: self.topic.clone(),
                    partition,
                },
            )?;
        }
        self.dispatches = self.dispatches.wrapping_add(1);
        for (leader, mut positions) in plans {
            // A broker fills its answer in the order asked: each partition gets its turn to be first.
            let turn = self.dispatches % positions.len();
            positions.rotate_left(turn);
            self.start_fetch(leader, positions)?;
        }
        Ok(())
    }

    fn start_fetch(&mut self, leader: BrokerId, positions: Vec<(i32, i64)>) -> Result<(), ClientError> {
        let partitions: Vec<i32> = positions.iter().map(|&(partition, _)| partition).collect();
        if !self.lanes.contains_key(&leader) {
            let Some(address) = self.client.address(leader) else {
                // Named as leader but not listed: its registration is on the way.
                for partition in partitions {
                    self.fail(
                        partition,
                        ClientError::NoLeader {
                            topic: self.topic.clone(),
                            partition,
                        },
                    )?;
                }
                return Ok(());
            };
            let lane = Lane::start(
                leader,
                address.clone(),
                self.client.config().clone(),
                self.results_in.clone(),
            );
            self.lanes.insert(leader, lane);
        }
        let plan = FetchPlan {
            topic: self.topic.clone(),
            positions,
        };
        if self.lanes.get(&leader).is_some_and(|lane| lane.fetch(plan)) {
            self.busy.insert(leader);
            for partition in partitions {
                self.set_state(partition, State::Fetching);
            }
        } else {
            // The lane ended after its last answer; the next round starts a new one.
            self.lanes.remove(&leader);
        }
        Ok(())
    }

    /// Waits for an answer, or until a pause is over.
    fn wait(&mut self) -> Result<(), ClientError> {
        let pauses = self
            .partitions
            .values()
            .filter_map(|reading| match reading.state {
                State::Waiting(until) => Some(until),
                _ => None,
            });
        let pause = pauses
            .min()
            .map(|until| until.saturating_duration_since(Instant::now()));
        if self.busy.is_empty() {
            thread::sleep(pause.unwrap_or(Duration::ZERO));
            return Ok(());
        }
        let result = match pause {
            Some(pause) => self.results.recv_timeout(pause),
            None => self.results.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match result {
            Ok(result) => self.take(result),
            // Disconnected cannot be: a sender is kept here.
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => Ok(()),
        }
    }

    fn take(&mut self, result: LaneResult) -> Result<(), ClientError> {
        self.busy.remove(&result.broker);
        match result.outcome {
            Ok(answers) => {
                let mut unanswered: BTreeSet<i32> = result.partitions.into_iter().collect();
                for answer in answers {
                    if !unanswered.remove(&answer.partition) {
                        continue;
                    }
                    match answer.result {
                        Ok(fetched) => self.take_records(answer.partition, fetched)?,
                        Err(error) if error.code() == Some(ErrorCode::OffsetOutOfRange) => {
                            self.relocate(answer.partition, error)?;
                        }
                        Err(error) => self.fail(answer.partition, error)?,
                    }
                }
                for partition in unanswered {
                    self.set_state(partition, State::Idle);
                }
            }
            Err(error) => {
                self.lanes.remove(&result.broker);
                for partition in result.partitions {
                    self.fail(partition, error.clone())?;
                }
            }
        }
        Ok(())
    }

    fn take_records(&mut self, partition: i32, fetched: FetchedRecords) -> Result<(), ClientError> {
        let Some(reading) = self.partitions.get_mut(&partition) else {
            return Ok(());
        };
        let chunk = Chunk {
            partition,
            from: reading.next,
            until: reading.until,
            fetched,
        };
        reading.next = chunk.next_offset(&self.topic)?;
        reading.retry = None;
        reading.state = State::Idle;
        reading.settle();
        if !chunk.fetched.records.is_empty() {
            self.ready.push_back(Event::Records(chunk));
        }
        Ok(())
    }

    /// Moves a partition whose next offset does not exist to the nearest that does.
    fn relocate(&mut self, partition: i32, error: ClientError) -> Result<(), ClientError> {
        let bounds = self
            .client
            .offset_bounds(&self.topic, std::iter::once(partition))?;
        let Some(&(start, end)) = bounds.get(&partition) else {
            return Err(error);
        };
        let Some(reading) = self.partitions.get_mut(&partition) else {
            return Ok(());
        };
        let from = reading.next;
        let to = from.clamp(start, end.max(start));
        if to == from {
            // In range by now: the leader was behind. That may pass, and is bounded as everything that may.
            let text = Some(error.to_string());
            return self.fail(
                partition,
                ClientError::broker(&self.topic, ErrorCode::OffsetNotAvailable, text),
            );
        }
        reading.next = to;
        reading.state = State::Idle;
        reading.settle();
        self.ready.push_back(Event::Moved { partition, from, to });
        Ok(())
    }

    /// After an error of one partition: it waits, or the command fails.
    fn fail(&mut self, partition: i32, error: ClientError) -> Result<(), ClientError> {
        let Some(reading) = self.partitions.get_mut(&partition) else {
            return Err(error);
        };
        let config = self.client.config();
        let pause = reading
            .retry
            .get_or_insert_with(|| Retry::of_reader(config))
            .next_pause(error)?;
        reading.state = State::Waiting(Instant::now() + pause);
        Ok(())
    }

    fn set_state(&mut self, partition: i32, state: State) {
        if let Some(reading) = self.partitions.get_mut(&partition) {
            reading.state = state;
        }
    }
}

impl Reading {
    fn settle(&mut self) {
        if self.until.is_some_and(|until| self.next >= until) {
            self.state = State::Done;
        }
    }
}
