//! What a run shows while it lasts: a view that fills the terminal, or plain lines where there is none.

mod recent;
mod screen;
mod view;

pub use recent::Recent;
pub use screen::{leave, say};

use crate::cli::RunArgs;
use crate::clock::{Clock, Nanos, SECOND};
use crate::schedule::IntegratedRate;
use crate::sender::Progress;
use crate::series::Phases;
use crate::units::{format_count, format_nanos};
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often the view is drawn.
const FRAME_EVERY: Duration = Duration::from_millis(250);

/// How often a plain line is printed.
const LINE_EVERY: Duration = Duration::from_secs(1);

/// Seconds of the past that the view shows.
const HISTORY: usize = 240;

/// Where progress goes.
#[derive(Clone, Debug)]
pub struct Live {
    mode: Mode,
    /// Of a run within a run, which is one step of the other.
    within: bool,
    shared: Arc<Mutex<State>>,
    /// The last owner gives the terminal back.
    _screen: Option<Arc<Screen>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Screen,
    Lines,
    Quiet,
}

/// What there is to show.
#[derive(Debug, Default)]
struct State {
    title: String,
    steps: Vec<Step>,
    watched: Option<Watched>,
    /// Of the run that is watched, a second each, the newest last.
    history: VecDeque<Second>,
}

/// A part of the whole.
#[derive(Clone, Debug)]
struct Step {
    what: String,
    began: Option<Instant>,
    took: Option<Duration>,
}

/// The run that is going on, as far as it is shown.
#[derive(Clone, Debug)]
pub struct Watched {
    /// The broker.
    pub target: String,
    /// What an acknowledgement promises there.
    pub durability: String,
    /// The load, in words.
    pub load: String,
    /// The run's clock.
    pub clock: Clock,
    /// When its schedule starts.
    pub start: Nanos,
    /// Its parts.
    pub phases: Phases,
    /// What is offered; `None` for the closed loop.
    pub offered: Option<IntegratedRate>,
    /// Bytes of a value, in the mean.
    pub record_bytes: f64,
    /// What its threads count.
    pub progress: Arc<Progress>,
}

/// One second as it was shown.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Second {
    acknowledged: u64,
    received: u64,
    p50: Option<Nanos>,
    p99: Option<Nanos>,
    max: Option<Nanos>,
}

impl Watched {
    /// Which part of the run it is now.
    fn phase(&self, now: Nanos) -> &'static str {
        let at = now.saturating_sub(self.start);
        if now < self.start {
            "waiting"
        } else if at < self.phases.warm_up {
            "warm-up"
        } else if at < self.phases.end {
            "measuring"
        } else {
            "draining"
        }
    }

    /// Records that were due and are not acknowledged yet.
    fn waiting(&self, now: Nanos) -> Option<u64> {
        let at = now.saturating_sub(self.start).min(self.phases.end);
        let due = self.offered.as_ref()?.count_at(at) as u64;
        Some(due.saturating_sub(self.progress.acknowledged.load(Ordering::Relaxed)))
    }
}

impl Live {
    /// For a run with these options, whose parts are `steps`.
    pub fn start(args: &RunArgs, steps: &[&str]) -> Self {
        let wanted = !args.quiet && !args.json;
        let shared = Arc::new(Mutex::new(State {
            title: args.name.clone(),
            steps: steps
                .iter()
                .map(|what| Step {
                    what: (*what).to_owned(),
                    began: None,
                    took: None,
                })
                .collect(),
            ..State::default()
        }));
        let mut live = Self {
            mode: if wanted { Mode::Lines } else { Mode::Quiet },
            within: false,
            shared,
            _screen: None,
        };
        if wanted && !args.no_tui && screen::is_possible() {
            match Screen::start(&live.shared) {
                Ok(screen) => {
                    live._screen = Some(Arc::new(screen));
                    live.mode = Mode::Screen;
                }
                Err(error) => say(format!("no live view: {error}")),
            }
        }
        live
    }

    /// For a run within a run: it is seen in the view, and prints no lines.
    pub fn within(&self) -> Self {
        Self {
            mode: if self.mode == Mode::Screen {
                Mode::Screen
            } else {
                Mode::Quiet
            },
            within: true,
            ..self.clone()
        }
    }

    /// Begins the next step, `what` being its name.
    pub fn step(&self, what: &str) {
        if self.within {
            return;
        }
        let mut state = lock(&self.shared);
        let now = Instant::now();
        for step in &mut state.steps {
            if let (Some(began), None) = (step.began, step.took) {
                step.took = Some(now - began);
            }
        }
        state.watched = None;
        state.history.clear();
        let of = state.steps.len();
        let Some(at) = state.steps.iter().position(|step| step.what == what) else {
            return;
        };
        state.steps[at].began = Some(now);
        drop(state);
        if self.mode == Mode::Lines && of > 1 {
            say(format!("[{}/{of}] {what}", at + 1));
        }
    }

    /// Shows this run from now on; until the result is dropped it prints lines where there is no view.
    pub fn watch(&self, watched: Watched) -> io::Result<Watching> {
        lock(&self.shared).watched = Some(watched);
        let stop = Arc::new(AtomicBool::new(false));
        let thread = if self.mode == Mode::Quiet {
            None
        } else {
            let (shared, stopped) = (Arc::clone(&self.shared), Arc::clone(&stop));
            let prints = self.mode == Mode::Lines;
            Some(
                std::thread::Builder::new()
                    .name("progress".to_owned())
                    .spawn(move || count_seconds(&shared, &stopped, prints))?,
            )
        };
        Ok(Watching { stop, thread })
    }
}

/// A run that is being shown.
#[derive(Debug)]
pub struct Watching {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // What it showed is shown.
            let _ = thread.join();
        }
    }
}

/// Closes a second of the history every second, and prints it if asked to.
fn count_seconds(shared: &Mutex<State>, stop: &AtomicBool, prints: bool) {
    let (mut acknowledged, mut received) = (0, 0);
    let mut next = Instant::now() + LINE_EVERY;
    loop {
        while let Some(rest) = next.checked_duration_since(Instant::now()) {
            if stop.load(Ordering::Relaxed) {
                return;
            }
            std::thread::park_timeout(rest);
        }
        next += LINE_EVERY;
        let mut state = lock(shared);
        let Some(watched) = state.watched.clone() else {
            return;
        };
        let progress = &watched.progress;
        let latencies = progress.take_recent();
        let total = (
            progress.acknowledged.load(Ordering::Relaxed),
            progress.received.load(Ordering::Relaxed),
        );
        let second = Second {
            acknowledged: total.0 - acknowledged,
            received: total.1 - received,
            p50: latencies.at(0.5),
            p99: latencies.at(0.99),
            max: latencies.at(1.0),
        };
        (acknowledged, received) = total;
        if state.history.len() == HISTORY {
            state.history.pop_front();
        }
        state.history.push_back(second);
        drop(state);
        if prints {
            say(line(&watched, &second));
        }
    }
}

fn line(watched: &Watched, second: &Second) -> String {
    let now = watched.clock.now();
    let time = |value: Option<Nanos>| value.map_or_else(|| "-".to_owned(), format_nanos);
    format!(
        "{:>4} s  {:<9}  {:>11} records/s acknowledged, p50 {:>8}, p99 {:>8}, {:>11} read",
        now.saturating_sub(watched.start) / SECOND,
        watched.phase(now),
        format_count(second.acknowledged),
        time(second.p50),
        time(second.p99),
        format_count(second.received)
    )
}

/// The thread that draws.
#[derive(Debug)]
struct Screen {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Screen {
    fn start(shared: &Arc<Mutex<State>>) -> io::Result<Self> {
        let mut terminal = screen::enter()?;
        let stop = Arc::new(AtomicBool::new(false));
        let (shared, stopped) = (Arc::clone(shared), Arc::clone(&stop));
        let thread = std::thread::Builder::new()
            .name("view".to_owned())
            .spawn(move || {
                while !stopped.load(Ordering::Relaxed) {
                    let said = screen::said(view::LINES_SAID);
                    let drawn = screen::draw(&mut terminal, |frame| view::draw(frame, &lock(&shared), &said));
                    // A terminal that takes nothing any more is gone; the run goes on.
                    if drawn.is_err() {
                        break;
                    }
                    std::thread::park_timeout(FRAME_EVERY);
                }
            });
        match thread {
            Ok(thread) => Ok(Self {
                stop,
                thread: Some(thread),
            }),
            Err(error) => {
                screen::leave();
                Err(error)
            }
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
        screen::leave();
    }
}

fn lock(shared: &Mutex<State>) -> MutexGuard<'_, State> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{self, Command};

    #[test]
    fn steps_follow_each_other_and_runs_within_them_are_none() {
        let Command::Run(args) = cli::parse(["strandline-bench", "run", "--quiet"])
            .unwrap()
            .command
        else {
            unreachable!("the command is run")
        };
        let live = Live::start(&args, &["peak", "run", "floor"]);
        let states = || -> Vec<(bool, bool)> {
            let state = lock(&live.shared);
            let steps = state.steps.iter();
            steps
                .map(|step| (step.began.is_some(), step.took.is_some()))
                .collect()
        };
        live.step("peak");
        live.within().step("run");
        assert_eq!(states(), [(true, false), (false, false), (false, false)]);
        live.step("run");
        assert_eq!(states(), [(true, true), (true, false), (false, false)]);
    }
}
