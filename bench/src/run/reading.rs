//! The reading side of a run: consumers that read along or afterwards, and groups.

use super::{Run, RunError};
use crate::clock::{Nanos, SECOND};
use crate::consumer::{ConsumePlan, Consumer, ConsumerReport, Group, MAX_BYTES, Member};
use crate::report::{GroupFacts, ReadBack};
use crate::sender::{INTERRUPTED_TIMEOUT, LoadPlan};
use crate::series::{IntervalPart, Phases, Recorder};
use crate::verify::{Ledger, Observed, SequenceId, Verification};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock, mpsc};
use std::thread::JoinHandle;

/// How long groups may take until all their members have joined.
const JOIN_TIMEOUT: Nanos = 60 * SECOND;

/// What a consumer that is held back takes at a time: so much of what it may take in a second.
const HELD_BACK_FETCH_SECONDS: f64 = 0.05;

/// How often to look whether they have.
const JOIN_POLL: Nanos = 10_000_000;

impl Run<'_> {
    /// `None` when nothing shall or can be read.
    pub(super) fn consume_plan(&self) -> Option<Arc<ConsumePlan>> {
        let fetch_version = self.fetch_version.filter(|_| !self.args.no_verify)?;
        Some(Arc::new(ConsumePlan {
            dialer: self.dialer.clone(),
            clock: self.clock,
            start: Arc::default(),
            layout: self.layout.clone(),
            run: self.run_id,
            fetch_version,
            end_offsets: OnceLock::new(),
            start_offsets: self.start_offsets.clone(),
            paused: self
                .args
                .pause_consumers
                .map(|(from, to)| (from.as_nanos() as Nanos, to.as_nanos() as Nanos)),
            rate: self.args.consumer_rate,
            // One that is held back takes little at a time: else it would have taken all there is, and then wait.
            fetch_bytes: self.args.consumer_rate.map_or(MAX_BYTES, |rate| {
                (rate * self.args.record_size.mean() * HELD_BACK_FETCH_SECONDS) as i32
            }),
        }))
    }

    pub(super) fn start_consumers(
        &self,
        consume_plan: &Arc<ConsumePlan>,
        count: usize,
        parts: Option<&mpsc::Sender<IntervalPart>>,
        plan: &LoadPlan,
    ) -> Result<Vec<JoinHandle<ConsumerReport>>, RunError> {
        let mut threads = Vec::new();
        for index in 0..count {
            let recorder = parts.map(|parts| Recorder::new(plan.phases, parts.clone()));
            let consumer = Consumer::new(consume_plan, (index, count), recorder, &self.progress);
            let thread = std::thread::Builder::new().name(format!("consumer-{index}"));
            threads.push(
                thread
                    .spawn(move || consumer.run())
                    .map_err(RunError::io("starting a consumer"))?,
            );
        }
        Ok(threads)
    }

    /// The members of all groups.
    pub(super) fn start_groups(
        &self,
        consume_plan: &Arc<ConsumePlan>,
        parts: &mpsc::Sender<IntervalPart>,
        phases: Phases,
    ) -> Result<Vec<RunningGroup>, RunError> {
        let mut groups = Vec::new();
        for number in 0..self.args.groups {
            let name = format!("strandline-bench-{:08x}-{number}", self.run_id);
            let group = Arc::new(Group::new(name, &self.bootstrap, self.args.group_protocol));
            let mut members = Vec::new();
            for index in 0..self.args.group_members {
                let recorder = Recorder::new(phases, parts.clone());
                let member = Member::new(
                    consume_plan,
                    &group,
                    (u64::from(index), u64::from(self.args.group_members)),
                    Some(recorder),
                    &self.progress,
                );
                members.push(
                    std::thread::Builder::new()
                        .name(format!("member-{number}-{index}"))
                        .spawn(move || member.run())
                        .map_err(RunError::io("starting a member of a group"))?,
                );
            }
            groups.push((group, members));
        }
        self.wait_for_groups(consume_plan, &groups)?;
        Ok(groups)
    }

    /// Waits until every member has joined: setting up is never timed.
    fn wait_for_groups(
        &self,
        consume_plan: &Arc<ConsumePlan>,
        groups: &[RunningGroup],
    ) -> Result<(), RunError> {
        let deadline = self.clock.now() + JOIN_TIMEOUT;
        for (group, members) in groups {
            while group.joins() < members.len() as u64 && !self.progress.is_interrupted() {
                if self.clock.now() > deadline {
                    // Nothing to read: the members end.
                    let _ = consume_plan.end_offsets.set(BTreeMap::new());
                    return Err(RunError::Target(format!(
                        "group {}: {} of {} members have joined after 60 s{}",
                        group.name,
                        group.joins(),
                        members.len(),
                        group
                            .last_error()
                            .map_or_else(String::new, |error| format!(": {error}"))
                    )));
                }
                self.clock.sleep_until(self.clock.now() + JOIN_POLL);
            }
        }
        Ok(())
    }

    /// Tells the consumers where the log ends, or reads everything back now, and returns what was seen.
    pub(super) fn finish_consumers(
        &mut self,
        consume_plan: Option<Arc<ConsumePlan>>,
        mut consumers: Vec<JoinHandle<ConsumerReport>>,
        plan: &LoadPlan,
    ) -> (Option<Observed>, Option<String>, Option<ReadBack>) {
        let Some(consume_plan) = consume_plan else {
            let why = if self.args.no_verify {
                "not asked for"
            } else {
                "not possible: the target does not serve Fetch"
            };
            return (None, Some(why.to_owned()), None);
        };
        let ends = if self.progress.is_interrupted() {
            let timeout = std::time::Duration::from_nanos(INTERRUPTED_TIMEOUT);
            self.cluster.end_offsets_within(&self.layout, timeout)
        } else {
            self.cluster.end_offsets(&self.layout)
        };
        let (ends, mut note) = match ends {
            Ok(ends) => (ends, None),
            Err(error) => (
                BTreeMap::new(),
                Some(format!("not complete: where the logs end is unknown: {error}")),
            ),
        };
        let known = note.is_none();
        // Set once, here. Without ends the consumers stop when nothing comes any more.
        let _ = consume_plan.end_offsets.set(ends);
        let reads_back = known && consumers.is_empty();
        let began = self.clock.now();
        if reads_back {
            let readers = usize::from(self.args.readers);
            match self.start_consumers(&consume_plan, readers, None, plan) {
                Ok(started) => consumers = started,
                Err(error) => note = Some(format!("not complete: {error}")),
            }
        }
        let mut observed = Observed::default();
        let readers = consumers.len();
        for consumer in consumers {
            match consumer.join() {
                Ok(report) => {
                    observed.merge(report.observed);
                    note = note.or(report.gave_up.map(|why| format!("not complete: {why}")));
                }
                Err(_) => note = Some("not complete: a consumer panicked".to_owned()),
            }
        }
        let seconds = self.clock.now().saturating_sub(began) as f64 / SECOND as f64;
        let records = self.progress.received.load(Ordering::Relaxed);
        let read_back = reads_back.then(|| ReadBack {
            consumers: readers,
            records,
            seconds,
            bytes_per_second: records as f64 * self.args.record_size.mean() / seconds,
        });
        (Some(observed), note, read_back)
    }
}

pub(super) type RunningGroup = (Arc<Group>, Vec<JoinHandle<ConsumerReport>>);

/// Waits for the members, whose end offsets are known, and judges what each group saw.
pub(super) fn finish_groups(
    groups: Vec<RunningGroup>,
    mut note: Option<String>,
    ledgers: &HashMap<SequenceId, Ledger>,
) -> (Vec<GroupFacts>, Option<String>) {
    let mut facts = Vec::new();
    for (group, members) in groups {
        let mut observed = Observed::default();
        let count = members.len();
        for member in members {
            match member.join() {
                Ok(report) => {
                    observed.corrupt += report.observed.corrupt;
                    note = note.or(report.gave_up.map(|why| format!("not complete: {why}")));
                }
                Err(_) => note = Some("not complete: a member of a group panicked".to_owned()),
            }
        }
        observed.sequences = group.observed();
        facts.push(GroupFacts {
            name: group.name.clone(),
            members: count,
            joins: group.joins(),
            longest_pause_ns: group.longest_pause(),
            verification: Verification::of(ledgers, &observed),
        });
    }
    (facts, note)
}
