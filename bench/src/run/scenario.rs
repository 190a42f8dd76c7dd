//! What happens in the course of a run besides the load: consumers that stop, groups that rebalance, a broker that is killed; and what came of it.

use super::RunError;
use crate::cli::RunArgs;
use crate::clock::{Clock, Nanos, SECOND};
use crate::consumer::Group;
use crate::histogram::Latencies;
use crate::live::say;
use crate::report::{Backlog, Event, Recovery, ScenarioFacts, Stretch};
use crate::sender::Progress;
use crate::series::Series;
use crate::target::ChildBroker;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// How often the director looks.
const LOOK_EVERY: Nanos = 5_000_000;

/// A backlog is drained when it is no larger than this many times what it was before.
const DRAINED_FACTOR: f64 = 2.0;

/// Records that are always on their way.
const DRAINED_FLOOR: u64 = 100;

/// The broker that was started for the run.
pub(super) type Child = Arc<Mutex<ChildBroker>>;

/// What is to happen.
#[derive(Clone, Copy, Debug)]
struct Script {
    pause: Option<(Nanos, Nanos)>,
    rebalance_every: Option<Nanos>,
    kill_at: Option<Nanos>,
    restart_after: Nanos,
    end: Nanos,
    /// Whether what consumers read is what was acknowledged, once.
    has_backlog: bool,
}

/// The thread that makes it happen.
pub(super) struct Director {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<Story, String>>,
}

/// What happened. Times count from the start of the schedule.
#[derive(Debug, Default)]
pub(super) struct Story {
    events: Vec<(Nanos, String)>,
    backlog_before: u64,
    backlog_most: u64,
    backlog_at_resume: u64,
    received_at_resume: u64,
    /// When the backlog was gone, and what had been received by then.
    drained: Option<(Nanos, u64)>,
    killed_at: Option<Nanos>,
    ready_at: Option<Nanos>,
}

impl Director {
    /// Starts it, if `args` ask for anything; the schedule begins at `start`.
    pub(super) fn start(
        args: &RunArgs,
        (clock, start): (Clock, Nanos),
        progress: &Arc<Progress>,
        groups: Vec<Arc<Group>>,
        child: Option<Child>,
    ) -> Result<Option<Self>, RunError> {
        let nanos = |duration: std::time::Duration| duration.as_nanos() as Nanos;
        let script = Script {
            pause: args.pause_consumers.map(|(from, to)| (nanos(from), nanos(to))),
            rebalance_every: args.rebalance_every.map(nanos),
            kill_at: args.kill_at.map(nanos),
            restart_after: nanos(args.restart_after),
            end: args.phases().end,
            has_backlog: args.consumers() > 0 && args.groups == 0,
        };
        if script.pause.is_none()
            && script.rebalance_every.is_none()
            && script.kill_at.is_none()
            && args.consumer_rate.is_none()
        {
            return Ok(None);
        }
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, progress) = (Arc::clone(&stop), Arc::clone(progress));
        let thread = std::thread::Builder::new()
            .name("director".to_owned())
            .spawn(move || {
                let mut direction = Direction {
                    script,
                    clock,
                    start,
                    progress,
                    groups,
                    child,
                    story: Story::default(),
                };
                direction.run(&stopped).map(|()| direction.story)
            })
            .map_err(RunError::io("starting the director of the scenario"))?;
        Ok(Some(Self { stop, thread }))
    }

    /// Waits until everything was read, and tells what happened.
    pub(super) fn finish(self) -> Result<Story, RunError> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread
            .join()
            .map_err(|_| RunError::Target("the director of the scenario panicked".to_owned()))?
            .map_err(RunError::Target)
    }
}

struct Direction {
    script: Script,
    clock: Clock,
    start: Nanos,
    progress: Arc<Progress>,
    groups: Vec<Arc<Group>>,
    child: Option<Child>,
    story: Story,
}

impl Direction {
    fn run(&mut self, stop: &AtomicBool) -> Result<(), String> {
        let mut next_turn = self.script.rebalance_every;
        let mut resumed = false;
        while !stop.load(Ordering::Relaxed) {
            self.clock.sleep_until(self.clock.now() + LOOK_EVERY);
            let Some(at) = self.clock.now().checked_sub(self.start) else {
                continue;
            };
            if self.script.has_backlog {
                resumed = self.look_at_backlog(at, resumed);
            }
            if let (Some(turn), Some(every)) = (next_turn, self.script.rebalance_every)
                && at >= turn
                && at < self.script.end
            {
                next_turn = Some(turn + every);
                self.groups.iter().for_each(|group| group.turn());
                self.tell(at, "a member of each group leaves and joins again");
            }
            if let Some(kill_at) = self.script.kill_at
                && at >= kill_at
                && self.story.killed_at.is_none()
                && !self.progress.is_interrupted()
            {
                self.kill_and_restart()?;
            }
        }
        Ok(())
    }

    fn tell(&mut self, at: Nanos, what: &str) {
        say(format!("{:>4.1} s  {what}", at as f64 / SECOND as f64));
        self.story.events.push((at, what.to_owned()));
    }

    /// Follows what was acknowledged and is not yet read; whether consumers have been let go again.
    fn look_at_backlog(&mut self, at: Nanos, mut resumed: bool) -> bool {
        let received = self.progress.received.load(Ordering::Relaxed);
        let acknowledged = self.progress.acknowledged.load(Ordering::Relaxed);
        let backlog = acknowledged.saturating_sub(received);
        let story = &mut self.story;
        story.backlog_most = story.backlog_most.max(backlog);
        let Some((from, to)) = self.script.pause else {
            return resumed;
        };
        if at < from {
            story.backlog_before = story.backlog_before.max(backlog);
        } else if story.events.is_empty() {
            self.tell(from, "consumers stop reading");
        } else if at >= to && !resumed {
            resumed = true;
            (story.backlog_at_resume, story.received_at_resume) = (backlog, received);
            self.tell(to, "consumers read again");
        } else if resumed && story.drained.is_none() && backlog <= drained_below(story.backlog_before) {
            story.drained = Some((at, received));
            self.tell(at, "the backlog is drained");
        }
        resumed
    }

    fn kill_and_restart(&mut self) -> Result<(), String> {
        let Some(child) = self.child.clone() else {
            return Ok(());
        };
        let mut child = child.lock().unwrap_or_else(PoisonError::into_inner);
        let at = |direction: &Self| direction.clock.now().saturating_sub(direction.start);
        let killed_at = at(self);
        child
            .kill()
            .map_err(|error| format!("killing the broker: {error}"))?;
        self.story.killed_at = Some(killed_at);
        self.tell(killed_at, "the broker is killed");
        self.clock
            .sleep_until(self.start + killed_at + self.script.restart_after);
        child.start_again()?;
        let ready_at = at(self);
        self.story.ready_at = Some(ready_at);
        self.tell(ready_at, "the broker is ready again");
        Ok(())
    }
}

fn drained_below(before: u64) -> u64 {
    ((before as f64 * DRAINED_FACTOR) as u64).max(DRAINED_FLOOR)
}

impl Story {
    /// The facts of the report. `longest_gap` is that of acknowledgements, `failed` the records that were not acknowledged.
    pub(super) fn facts(&self, series: &Series, longest_gap: Nanos, failed: u64) -> ScenarioFacts {
        let seconds = |at: Nanos| at as f64 / SECOND as f64;
        let backlog = (self.backlog_most > 0).then(|| {
            let resumed = self
                .events
                .iter()
                .find(|(_, what)| what == "consumers read again")
                .map(|(at, _)| *at);
            let drained = self.drained.zip(resumed);
            let drain = drained.map(|((at, received), resumed)| {
                let took = seconds(at.saturating_sub(resumed));
                (took, received.saturating_sub(self.received_at_resume))
            });
            Backlog {
                most_records: self.backlog_most,
                records_at_resume: self.backlog_at_resume,
                drain_seconds: drain.map(|(took, _)| took),
                drain_records_per_second: drain
                    .filter(|(took, _)| *took > 0.0)
                    .map(|(took, records)| records as f64 / took),
            }
        });
        let recovery = self.killed_at.zip(self.ready_at).map(|(killed, ready)| Recovery {
            killed_at_seconds: seconds(killed),
            ready_after_seconds: seconds(ready - killed),
            unavailable_ns: longest_gap,
            not_acknowledged: failed,
        });
        ScenarioFacts {
            events: self
                .events
                .iter()
                .map(|(at, what)| Event {
                    at_seconds: seconds(*at),
                    what: what.clone(),
                })
                .collect(),
            stretches: self.stretches(series),
            backlog,
            recovery,
        }
    }

    /// The run cut at its events: latencies before, between and after.
    fn stretches(&self, series: &Series) -> Vec<Stretch> {
        let phases = series.phases();
        let mut cuts: Vec<(Nanos, &str)> = vec![(phases.warm_up, "from the start")];
        cuts.extend(self.events.iter().map(|(at, what)| (*at, what.as_str())));
        let ends = cuts.iter().skip(1).map(|(at, _)| *at).chain([phases.end]);
        let mut stretches = Vec::new();
        for ((from, what), to) in cuts.iter().zip(ends) {
            let (mut response, mut end_to_end) = (Latencies::default(), Latencies::default());
            for (index, interval) in series.intervals() {
                // A second belongs to the stretch in which it begins.
                let begins = phases.bounds(index).0;
                if begins >= phases.warm_up && (*from..to).contains(&begins) {
                    response.merge(&interval.acks.response);
                    end_to_end.merge(&interval.end_to_end);
                }
            }
            if !response.is_empty() {
                stretches.push(Stretch {
                    after: (*what).to_owned(),
                    from_seconds: *from as f64 / SECOND as f64,
                    to_seconds: to as f64 / SECOND as f64,
                    response: response.summary(),
                    end_to_end: end_to_end.summary(),
                });
            }
        }
        stretches
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backlog_is_drained_when_it_is_what_it_was() {
        assert_eq!((drained_below(0), drained_below(500)), (100, 1000));
        let story = Story {
            events: vec![
                (5 * SECOND, "consumers stop reading".to_owned()),
                (7 * SECOND, "consumers read again".to_owned()),
            ],
            backlog_most: 2_000,
            backlog_at_resume: 2_000,
            received_at_resume: 5_000,
            drained: Some((7 * SECOND + SECOND / 2, 7_500)),
            ..Story::default()
        };
        let (sender, parts) = std::sync::mpsc::channel();
        drop(sender);
        let phases = crate::series::Phases {
            warm_up: 0,
            end: 10 * SECOND,
        };
        let facts = story.facts(&Series::collect(phases, &parts), 0, 0);
        let backlog = facts.backlog.unwrap();
        assert_eq!(backlog.drain_seconds, Some(0.5));
        assert_eq!(backlog.drain_records_per_second, Some(5_000.0));
        assert!(facts.recovery.is_none() && facts.stretches.is_empty());
    }
}
