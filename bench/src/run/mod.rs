//! One run, from the target to the verdict.

mod extras;
mod facts;
mod reading;
mod scenario;

use crate::cli::RunArgs;
use crate::client::blocking;
use crate::client::{ClientError, Cluster, Dialer, Pipe, ProducerIdentity, Security, TopicLayout};
use crate::clock::{Clock, Nanos, SECOND};
use crate::exit::Exit;
use crate::hiccup::HiccupMeter;
use crate::keys::KeySpace;
use crate::live::{self, Live, Watched, Watching};
use crate::machine::Machine;
use crate::report::{Folder, RateText, RunReport, write_report, write_results};
use crate::schedule::RateSpec;
use crate::sender::{LoadPlan, Progress, Sender, SenderReport};
use crate::series::{IntervalPart, Recorder, Series};
use crate::target::{self, ChildBroker, ChildKind, ChildOptions};
use crate::verify::Verification;
pub(crate) use extras::find_peak;
use facts::all_ledgers;
use reading::finish_groups;
use scenario::{Child, Director};
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError, mpsc};

/// From the start of the threads to the first record.
const LEAD: Nanos = 100_000_000;

/// How long answers are waited for after the end.
const ANSWER_TIMEOUT: Nanos = 30 * SECOND;

/// How long what is due at the end may still be submitted, at least; a tenth of the measured part if that is more.
const DRAIN_MIN: Nanos = 2 * SECOND;

/// How long after the end an acknowledgement counts as in time, at least; a hundredth of the measured part if that is more.
const GRACE_MIN: Nanos = 50_000_000;

/// Clock ticks of `/proc/PID/stat`: 100 a second on every Linux.
const TICKS_A_SECOND: u64 = 100;

/// Why a run could not be done. The text is for the user.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The options contradict each other or reality.
    #[error("{0}")]
    Usage(String),
    /// The broker could not be started.
    #[error("{0}")]
    Target(String),
    /// The broker refused or went away before the run.
    #[error("{0}")]
    Client(#[from] ClientError),
    /// The results could not be written.
    #[error("{what}: {source}")]
    Io {
        /// What was being done.
        what: String,
        /// What the system said.
        source: std::io::Error,
    },
}

impl RunError {
    /// How the process exits with it.
    pub fn exit(&self) -> Exit {
        match self {
            Self::Usage(_) => Exit::Usage,
            _ => Exit::Failed,
        }
    }

    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        |source| Self::Io {
            what: what.into(),
            source,
        }
    }
}

/// A finished run.
#[derive(Debug)]
pub struct Finished {
    /// All of it.
    pub report: RunReport,
    /// Where its files are.
    pub folder: Folder,
    /// Why some of them are missing or cut, if they are: the figures stand all the same.
    pub unwritten: Option<String>,
    /// How the process exits.
    pub exit: Exit,
}

/// Does one run; `interrupted` ends it early.
pub fn run(args: &RunArgs, interrupted: &Arc<AtomicBool>) -> Result<Finished, RunError> {
    args.check().map_err(RunError::Usage)?;
    build_broker(args)?;
    let args = &args.resolved().map_err(RunError::Usage)?;
    let live = Live::start(args, &extras::steps(args));
    run_in(args, interrupted, &live)
}

/// Builds the broker that is to be started, if this program was started from its tree: before anything is measured or shown.
pub(crate) fn build_broker(args: &RunArgs) -> Result<(), RunError> {
    if args.bootstrap_server.is_some() || args.broker != ChildKind::Strandline || args.broker_binary.is_some()
    {
        return Ok(());
    }
    target::build_beside(args.quiet).map_err(RunError::Target)
}

/// Starts a broker when none is named.
pub(crate) fn start_broker(args: &RunArgs, folder: &Folder) -> Result<Option<ChildBroker>, RunError> {
    if args.bootstrap_server.is_some() {
        return Ok(None);
    }
    ChildBroker::start(&ChildOptions {
        kind: args.broker,
        binary: args.broker_binary.clone(),
        arguments: args.broker_arg.clone(),
        directory: folder.path().to_owned(),
        comes_again: args.kill_at.is_some(),
    })
    .map(Some)
    .map_err(RunError::Target)
}

/// The same, for runs within runs.
fn run_in(args: &RunArgs, interrupted: &Arc<AtomicBool>, live: &Live) -> Result<Finished, RunError> {
    let folder =
        Folder::create(args.output.as_deref(), &args.name).map_err(RunError::io("the results' folder"))?;
    let mut args = args.clone();
    let limits = if args.limits {
        live.step(extras::LIMITS);
        Some(extras::measure_limits(&folder)?)
    } else {
        None
    };
    let child = start_broker(&args, &folder)?.map(|child| Arc::new(Mutex::new(child)));
    let bootstrap = match (&args.bootstrap_server, &child) {
        (Some(named), _) => named.clone(),
        (None, Some(child)) => lock(child).bootstrap(),
        (None, None) => unreachable!("a broker was started when none was named"),
    };
    if let RateSpec::OfPeak(percent) = args.rate {
        live.step(extras::PEAK);
        let peak = extras::find_peak(&args, &bootstrap, &folder, interrupted, live)?;
        args.rate = RateSpec::constant((peak * percent / 100.0).round().max(1.0));
    }
    live.step(extras::RUN);
    let measured =
        Run::prepare(&args, bootstrap, child.clone(), interrupted).and_then(|run| run.measure(&folder, live));
    if let Some(child) = child {
        // The figures stand whether or not the broker's data could be removed.
        if let Err(error) = lock(&child).stop() {
            live::say(format!("removing the broker's data: {error}"));
        }
    }
    let (mut report, mut unwritten) = measured?;
    report.limits = limits.map(|limits| extras::against(limits, &report));
    if args.calibrate {
        report.calibration = Some(extras::calibrate(&args, &report, &folder, interrupted, live));
    }
    if (report.limits.is_some() || report.calibration.is_some())
        && let Err(error) = write_report(&folder, &report)
    {
        unwritten = Some(error.to_string());
    }
    let exit = if unwritten.is_some() {
        Exit::Failed
    } else {
        exit_of(&report)
    };
    Ok(Finished {
        report,
        folder,
        unwritten,
        exit,
    })
}

fn lock(child: &Child) -> std::sync::MutexGuard<'_, ChildBroker> {
    child.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A run that is set up: nothing of this is timed.
struct Run<'a> {
    args: &'a RunArgs,
    bootstrap: String,
    /// The broker that was started for this run.
    child: Option<Child>,
    dialer: Dialer,
    cluster: Cluster,
    /// Those of them that were created are deleted at the end.
    created: Vec<String>,
    layout: TopicLayout,
    start_offsets: BTreeMap<i32, i64>,
    fetch_version: Option<i16>,
    durability: String,
    clock: Clock,
    run_id: u32,
    progress: Arc<Progress>,
}

impl<'a> Run<'a> {
    fn prepare(
        args: &'a RunArgs,
        bootstrap: String,
        child: Option<Child>,
        interrupted: &Arc<AtomicBool>,
    ) -> Result<Self, RunError> {
        let clock = Clock::start();
        let dialer = match &args.command_config {
            Some(path) => Dialer::new(Security::from_file(path).map_err(RunError::Usage)?),
            None => Dialer::default(),
        };
        let mut cluster = Cluster::connect(&dialer, &bootstrap)?;
        let run_id = fastrand::u32(..);
        let topic = args
            .topic
            .clone()
            .unwrap_or_else(|| format!("strandline-bench-{run_id:08x}"));
        let topics: Vec<String> = match args.topics {
            1 => vec![topic],
            several => (0..several).map(|index| format!("{topic}-{index}")).collect(),
        };
        let mut created = Vec::new();
        for topic in &topics {
            if cluster.create_topic(topic, args.partitions, &args.topic_config)? {
                created.push(topic.clone());
            }
        }
        let layout = cluster.wait_for_leaders(&topics)?;
        let start_offsets = cluster.end_offsets(&layout)?;
        let durability = durability(args, cluster.flush_messages(&topics[0]));
        let fetch_version = cluster.fetch_version();
        let progress = Arc::new(Progress {
            interrupted: Arc::clone(interrupted),
            ..Progress::default()
        });
        Ok(Self {
            args,
            bootstrap,
            child,
            dialer,
            cluster,
            created,
            layout,
            start_offsets,
            fetch_version,
            durability,
            clock,
            run_id,
            progress,
        })
    }

    fn measure(mut self, folder: &Folder, live: &Live) -> Result<(RunReport, Option<String>), RunError> {
        let machine = Machine::look(folder.path());
        let mut pipes = Vec::new();
        for _ in 0..self.args.producers {
            let opened: Result<Vec<_>, ClientError> = self
                .layout
                .leaders
                .keys()
                .map(|address| {
                    let identity = if self.args.idempotent {
                        Some(ProducerIdentity::ask(
                            &self.dialer,
                            address,
                            blocking::ANSWER_TIMEOUT,
                        )?)
                    } else {
                        None
                    };
                    Ok((
                        Pipe::open(&self.dialer, address, blocking::ANSWER_TIMEOUT)?,
                        identity,
                    ))
                })
                .collect();
            pipes.push(opened?);
        }
        let (parts, collected) = mpsc::channel();
        let phases = self.args.phases();
        let collector = std::thread::spawn(move || Series::collect(phases, &collected));
        let consume_plan = self.consume_plan();
        let groups = match &consume_plan {
            Some(consume_plan) => self.start_groups(consume_plan, &parts, phases)?,
            None => Vec::new(),
        };
        let hiccups = HiccupMeter::start(self.clock).map_err(RunError::io("starting a thread"))?;
        let plan = Arc::new(self.load_plan()?);
        if let Some(consume_plan) = &consume_plan {
            // Set once, here, and before anything is sent.
            let _ = consume_plan.start.set(plan.start);
        }
        let reading_along = if consume_plan.is_some() {
            self.args.consumers()
        } else {
            0
        };
        let consumers = match &consume_plan {
            Some(consume_plan) if reading_along > 0 => {
                self.start_consumers(consume_plan, reading_along, Some(&parts), &plan)?
            }
            _ => Vec::new(),
        };
        let watching = self.show(&plan, live)?;
        let director = Director::start(
            self.args,
            (self.clock, plan.start),
            &self.progress,
            groups.iter().map(|(group, _)| Arc::clone(group)).collect(),
            self.child.clone(),
        )?;
        let pid = self.child.as_ref().map(|child| lock(child).pid());
        let cpu_before = pid.and_then(cpu_ns_of);
        let senders = self.run_senders(&plan, pipes, &parts)?;
        // A broker that was killed took its count with it.
        let cpu_after = pid.and_then(cpu_ns_of);
        let hiccups = hiccups.stop();
        let (observed, note, read_back) = self.finish_consumers(consume_plan, consumers, &plan);
        drop(watching);
        let story = director.map(Director::finish).transpose()?;
        let (groups, note) = finish_groups(groups, note, &all_ledgers(&senders));
        drop(parts);
        let series = collector.join().expect("the collector only merges");

        let mut report = self.report(&plan, machine, &senders, &series, &hiccups, reading_along);
        report.verification = observed.map(|observed| Verification::of(&all_ledgers(&senders), &observed));
        report.verification_note = note;
        report.read_back = read_back;
        report.groups = groups;
        report.scenario = story.map(|story| {
            story.facts(
                &series,
                report.longest_ack_gap_ns,
                report.records.not_acknowledged,
            )
        });
        report.failed_conditions = self.failed_conditions(&series);
        report.target.cpu_ns = cpu_after
            .zip(cpu_before)
            .map(|(after, before)| after.saturating_sub(before));
        let unwritten = write_results(folder, &report, &series)
            .err()
            .map(|error| error.to_string());
        if !self.args.keep_topic {
            for topic in &self.created {
                // The figures stand; the topic is named so that it can be deleted by hand.
                if let Err(error) = self.cluster.delete_topic(topic) {
                    live::say(format!("topic {topic} was not deleted: {error}"));
                }
            }
        }
        Ok((report, unwritten))
    }

    fn load_plan(&self) -> Result<LoadPlan, RunError> {
        let args = self.args;
        let phases = args.phases();
        Ok(LoadPlan {
            dialer: self.dialer.clone(),
            clock: self.clock,
            start: self.start()?,
            phases,
            rate: args.rate.clone(),
            integrated: match &args.captured {
                Some(workload) if args.rate == RateSpec::Captured => Some(workload.rate(args.scale())),
                _ => args.rate.integrated(args.record_size.mean()),
            },
            workload: match &args.captured {
                Some(workload) if args.rate == RateSpec::Captured => {
                    Some((Arc::clone(workload), args.scale()))
                }
                _ => None,
            },
            records: args.num_records,
            sizes: args.record_size.clone(),
            compressibility: args.compressibility,
            codec: args.compression_type,
            idempotent: args.idempotent,
            keys: KeySpace::new(args.keys, self.layout.each.unsigned_abs()),
            batch_bytes: args.batch,
            linger: args.linger(),
            window: usize::from(args.window),
            acks: args.acks,
            topics: self.layout.topics.clone(),
            partitions: self.layout.each,
            run: self.run_id,
            seed: args.seed,
            producers: args.producers,
            produce_version: self.cluster.produce_version()?,
            drain: DRAIN_MIN.max(phases.measured() / 10),
            answer_timeout: ANSWER_TIMEOUT,
            grace: GRACE_MIN.max(phases.measured() / 100),
        })
    }

    /// When the schedule begins: soon, or when it was asked to.
    fn start(&self) -> Result<Nanos, RunError> {
        let soon = self.clock.now() + LEAD;
        let Some(start) = self.args.start_at else {
            return Ok(soon);
        };
        match self.clock.at_wall_time(start) {
            Some(at) if at >= soon => Ok(at),
            _ => Err(RunError::Usage(
                "--start-at has passed, or passed while the run was being set up".to_owned(),
            )),
        }
    }

    /// Lets the run be seen while it lasts.
    fn show(&self, plan: &LoadPlan, live: &Live) -> Result<Watching, RunError> {
        live.watch(Watched {
            target: self.bootstrap.clone(),
            durability: self.durability.clone(),
            load: format!(
                "{}; values of {}; {} partitions, {} sender(s), acks {}",
                RateText(&plan.rate),
                plan.sizes,
                self.layout.partitions(),
                plan.producers,
                if plan.acks == -1 {
                    "all".to_owned()
                } else {
                    plan.acks.to_string()
                }
            ),
            clock: self.clock,
            start: plan.start,
            phases: plan.phases,
            offered: plan.integrated.clone(),
            record_bytes: plan.sizes.mean(),
            progress: Arc::clone(&self.progress),
        })
        .map_err(RunError::io("starting the progress display"))
    }

    /// Starts the senders and waits for their end.
    fn run_senders(
        &self,
        plan: &Arc<LoadPlan>,
        pipes: Vec<Vec<(Pipe, Option<ProducerIdentity>)>>,
        parts: &mpsc::Sender<IntervalPart>,
    ) -> Result<Vec<SenderReport>, RunError> {
        let (done, finished) = mpsc::channel();
        for (index, pipes) in (0..).zip(pipes) {
            let recorder = Recorder::new(plan.phases, parts.clone());
            let sender = Sender::new(plan, index, &self.layout, pipes, recorder, &self.progress);
            let done = done.clone();
            std::thread::Builder::new()
                .name(format!("sender-{index}"))
                // The receiver lives until every sender has reported or is gone.
                .spawn(move || drop(done.send(sender.run())))
                .map_err(RunError::io("starting a sender"))?;
        }
        drop(done);
        let reports: Vec<SenderReport> = finished.into_iter().collect();
        if reports.len() < self.args.producers as usize {
            return Err(RunError::Target(
                "a sender ended without its report; its panic is printed above".to_owned(),
            ));
        }
        Ok(reports)
    }
}

/// CPU time that a process has used, all its threads together; `None` when it is gone.
fn cpu_ns_of(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name may hold anything; what follows its parenthesis does not.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
    Some(ticks * (SECOND / TICKS_A_SECOND))
}

/// How a process with this result exits: the worst of what holds.
pub fn exit_of(report: &RunReport) -> Exit {
    let incomplete = report
        .verification_note
        .as_ref()
        .is_some_and(|note| note.starts_with("not complete"));
    let group_failed = report
        .groups
        .iter()
        .any(|group| !group.verification.passed_at_least_once());
    if report.verification.as_ref().is_some_and(|found| !found.passed()) || group_failed || incomplete {
        Exit::VerificationFailed
    } else if !report.verdict.valid {
        Exit::Invalid
    } else if !report.failed_conditions.is_empty() {
        Exit::FailIf
    } else {
        Exit::Ok
    }
}

/// What an acknowledgement promises on the target, as far as it can be told.
fn durability(args: &RunArgs, flush_messages: Option<String>) -> String {
    match (&args.bootstrap_server, args.broker, flush_messages) {
        (None, ChildKind::Null, _) => "no: acknowledged at once, nothing kept".to_owned(),
        (None, ChildKind::NullDurable, _) => {
            "yes: journal written and flushed before the acknowledgement".to_owned()
        }
        (_, _, Some(messages)) if messages == "1" => {
            "yes: flush.messages=1, flushed before the acknowledgement (with acks=all)".to_owned()
        }
        (_, _, Some(messages)) => {
            format!("no: flush.messages={messages}, an acknowledgement waits for no flush")
        }
        (_, _, None) => "unknown: the target does not tell its flush.messages".to_owned(),
    }
}
