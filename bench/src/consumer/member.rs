//! A consumer as a member of a group: it reads what the group gives it, commits, and gives it back when the group rebalances.
//!
//! What was seen of a partition goes with the partition from member to member, so that loss and order are judged for the group as one reader.
//! Records that come again after a rebalance are told apart from faults: delivery is at least once.

use super::membership::{GroupProtocol, Membership, Pulse};
use super::{ConsumePlan, Lane, Position, Sink, wait_for_answers};
use crate::client::ClientError;
use crate::clock::{Nanos, SECOND};
use crate::sender::Progress;
use crate::series::Recorder;
use crate::verify::{Observed, SequenceId, SequenceTracker};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use strandline_wire::ErrorCode;

/// How often a member tells that it lives, and how often it commits.
const HEARTBEAT_EVERY: Nanos = SECOND;
const COMMIT_EVERY: Nanos = SECOND;

/// How long to wait before asking again a coordinator that refused.
const RETRY_AFTER: Nanos = 100_000_000;

/// How long to wait for records before looking at the group again.
const LOOK_EVERY: Nanos = 20_000_000;

/// What the members of a group share.
#[derive(Debug)]
pub struct Group {
    /// Its name.
    pub name: String,
    bootstrap: String,
    /// What was seen of partitions that no member holds at the moment.
    resting: Mutex<HashMap<SequenceId, SequenceTracker>>,
    /// How far the group has read.
    positions: Mutex<BTreeMap<i32, Reached>>,
    /// How often members were asked to leave and join again, one after the other.
    turns: AtomicU64,
    protocol: GroupProtocol,
    /// Joins that gave an assignment, of all members together.
    joins: AtomicU64,
    /// What last kept a member from reading.
    last_error: Mutex<Option<String>>,
}

/// How far a partition was read, and how long it stood still.
#[derive(Clone, Copy, Debug)]
struct Reached {
    offset: i64,
    at: Nanos,
    longest_pause: Nanos,
}

impl Group {
    /// A group of that name on the cluster at `bootstrap`.
    pub fn new(name: String, bootstrap: &str, protocol: GroupProtocol) -> Self {
        Self {
            name,
            bootstrap: bootstrap.to_owned(),
            resting: Mutex::default(),
            positions: Mutex::default(),
            turns: AtomicU64::new(0),
            protocol,
            joins: AtomicU64::new(0),
            last_error: Mutex::default(),
        }
    }

    /// Joins that gave an assignment.
    pub fn joins(&self) -> u64 {
        self.joins.load(Ordering::Relaxed)
    }

    /// Lets the next member leave and join again.
    pub fn turn(&self) {
        self.turns.fetch_add(1, Ordering::Relaxed);
    }

    /// The longest time between two receipts of a partition's records: idle time counts, and so does every rebalance.
    pub fn longest_pause(&self) -> Nanos {
        let positions = lock(&self.positions);
        let pauses = positions.values().map(|reached| reached.longest_pause);
        pauses.max().unwrap_or(0)
    }

    fn reached(&self, partition: i32, offset: i64, now: Nanos) {
        let mut positions = lock(&self.positions);
        let reached = positions.entry(partition).or_insert(Reached {
            offset,
            at: now,
            longest_pause: 0,
        });
        if offset > reached.offset {
            let pause = now.saturating_sub(reached.at);
            *reached = Reached {
                offset,
                at: now,
                longest_pause: pause.max(reached.longest_pause),
            };
        }
    }

    /// What last kept a member from reading.
    pub fn last_error(&self) -> Option<String> {
        lock(&self.last_error).clone()
    }

    /// Everything that its members saw, once they have ended.
    pub fn observed(&self) -> HashMap<SequenceId, SequenceTracker> {
        lock(&self.resting).clone()
    }

    /// Whether it has read to `ends`.
    fn has_read(&self, ends: &BTreeMap<i32, i64>) -> bool {
        let positions = lock(&self.positions);
        ends.iter()
            .all(|(partition, end)| positions.get(partition).map_or(0, |reached| reached.offset) >= *end)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A member before its thread starts.
pub struct Member {
    plan: Arc<ConsumePlan>,
    group: Arc<Group>,
    /// Its number in the group, and how many there are.
    place: (u64, u64),
    turns_seen: u64,
    membership: Membership,
    lanes: Vec<Lane>,
    sink: Sink,
    joined: bool,
    next_heartbeat: Nanos,
    next_commit: Nanos,
}

impl Member {
    /// A member of `group`, by its number and how many there are; `recorder` takes end-to-end latencies.
    pub fn new(
        plan: &Arc<ConsumePlan>,
        group: &Arc<Group>,
        place: (u64, u64),
        recorder: Option<Recorder>,
        progress: &Arc<Progress>,
    ) -> Self {
        Self {
            plan: Arc::clone(plan),
            group: Arc::clone(group),
            place,
            turns_seen: 0,
            membership: Membership::new(&plan.dialer, &group.bootstrap, &group.name, group.protocol),
            lanes: Vec::new(),
            sink: Sink::new(plan, recorder, progress),
            joined: false,
            next_heartbeat: 0,
            next_commit: 0,
        }
    }

    /// Reads until the group has read to the end; what it saw of corruption, and why it gave up, if it did.
    pub fn run(mut self) -> super::ConsumerReport {
        let plan = Arc::clone(&self.plan);
        let mut ending_since = None;
        loop {
            let now = plan.clock.now();
            if let Some(ends) = plan.end_offsets.get() {
                if self.group.has_read(ends) {
                    break;
                }
                if now > *ending_since.get_or_insert(now) + self.sink.patience() {
                    let why = self
                        .group
                        .last_error()
                        .map_or_else(String::new, |error| format!(": {error}"));
                    self.sink.report.gave_up =
                        Some(format!("group {} had not read to the end{why}", self.group.name));
                    break;
                }
            }
            if let Err(error) = self.keep_up(now) {
                self.membership.forget(&error);
                self.give_back();
                *lock(&self.group.last_error) = Some(error.to_string());
                plan.clock.sleep_until(plan.clock.now() + RETRY_AFTER);
                continue;
            }
            for lane in &mut self.lanes {
                lane.ask(&plan, now);
            }
            if self.wait() {
                ending_since = plan.end_offsets.get().map(|_| plan.clock.now());
            }
        }
        // The group is done with: what the last commit misses is of no use to anyone.
        let _ = self.commit().and_then(|()| self.membership.leave());
        self.give_back();
        self.sink.report
    }

    /// Joins when it must; heartbeats and commits when they are due.
    fn keep_up(&mut self, now: Nanos) -> Result<(), ClientError> {
        if self.joined {
            self.take_turn()?;
        }
        if !self.joined {
            let partitions = self.membership.join(&self.plan.layout)?;
            let committed = self.membership.committed(&self.plan.layout, &partitions)?;
            self.take_over(&partitions, &committed);
            self.group.joins.fetch_add(1, Ordering::Relaxed);
            self.joined = true;
            let now = self.plan.clock.now();
            (self.next_heartbeat, self.next_commit) = (now + HEARTBEAT_EVERY, now + COMMIT_EVERY);
        }
        if now >= self.next_commit {
            self.next_commit = now + COMMIT_EVERY;
            self.commit()?;
        }
        if now >= self.next_heartbeat {
            self.next_heartbeat = now + HEARTBEAT_EVERY;
            let mut pulse = self.membership.heartbeat(&self.plan.layout)?;
            loop {
                match pulse {
                    Pulse::Same => break,
                    Pulse::Rejoin => {
                        self.commit()?;
                        self.give_back();
                        break;
                    }
                    Pulse::Assigned(partitions) => pulse = self.reassign(&partitions)?,
                }
            }
        }
        Ok(())
    }

    /// Reads other partitions from now on, and says so.
    fn reassign(&mut self, partitions: &[i32]) -> Result<Pulse, ClientError> {
        self.commit()?;
        self.give_back();
        self.joined = true;
        let pulse = self.membership.acknowledge(partitions, &self.plan.layout)?;
        let committed = self.membership.committed(&self.plan.layout, partitions)?;
        self.take_over(partitions, &committed);
        Ok(pulse)
    }

    /// Leaves for a moment when it is this member's turn.
    fn take_turn(&mut self) -> Result<(), ClientError> {
        let turns = self.group.turns.load(Ordering::Relaxed);
        if turns == self.turns_seen {
            return Ok(());
        }
        self.turns_seen = turns;
        let (number, of) = self.place;
        if turns % of == number {
            self.commit()?;
            self.give_back();
            self.membership.leave()?;
        }
        Ok(())
    }

    fn positions(&self) -> Vec<(i32, i64)> {
        let all = self.lanes.iter().flat_map(|lane| &lane.positions);
        all.map(|position| (position.partition, position.offset))
            .collect()
    }

    fn commit(&mut self) -> Result<(), ClientError> {
        let positions = self.positions();
        match self.membership.commit(&self.plan.layout, positions.into_iter()) {
            // The group has moved on, and the next heartbeat tells this member: until then nothing can be committed (KIP-848).
            Err(ClientError::Refused {
                code: ErrorCode::StaleMemberEpoch,
                ..
            }) => Ok(()),
            other => other,
        }
    }

    /// Begins with `partitions`, each where the group left it.
    fn take_over(&mut self, partitions: &[i32], committed: &BTreeMap<i32, i64>) {
        self.lanes = self
            .plan
            .layout
            .leaders
            .iter()
            .filter_map(|(address, led)| {
                let positions: Vec<Position> = led
                    .iter()
                    .filter(|partition| partitions.contains(partition))
                    .map(|&partition| Position {
                        partition,
                        offset: committed
                            .get(&partition)
                            .or_else(|| self.plan.start_offsets.get(&partition))
                            .copied()
                            .unwrap_or(0),
                        end: None,
                    })
                    .collect();
                (!positions.is_empty()).then(|| Lane::new(address, positions))
            })
            .collect();
        let mut resting = lock(&self.group.resting);
        let taken: Vec<SequenceId> = resting
            .keys()
            .filter(|id| partitions.contains(&id.partition))
            .copied()
            .collect();
        for id in taken {
            if let Some(tracker) = resting.remove(&id) {
                self.sink.report.observed.sequences.insert(id, tracker);
            }
        }
    }

    /// Stops reading and leaves what was seen for who reads on.
    fn give_back(&mut self) {
        self.joined = false;
        self.lanes.clear();
        let Observed { sequences, .. } = &mut self.sink.report.observed;
        let mut resting = lock(&self.group.resting);
        for (id, tracker) in sequences.drain() {
            match resting.entry(id) {
                // Two members read it: one of them had been thrown out and did not know yet.
                std::collections::hash_map::Entry::Occupied(mut other) => other.get_mut().absorb(&tracker),
                std::collections::hash_map::Entry::Vacant(free) => drop(free.insert(tracker)),
            }
        }
    }

    /// Waits for answers and takes them; `true` when records were among them.
    fn wait(&mut self) -> bool {
        let mut progress = false;
        for lane in wait_for_answers(&mut self.lanes, LOOK_EVERY) {
            match lane.receive(&self.plan, &mut self.sink) {
                Ok(true) => {
                    progress = true;
                    let now = self.plan.clock.now();
                    for position in &lane.positions {
                        self.group.reached(position.partition, position.offset, now);
                    }
                }
                Ok(false) => {}
                Err(_) => lane.lose_connection(self.plan.clock.now()),
            }
        }
        progress
    }
}
