//! The counts of a run.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::channel;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::client::Check;

/// Suites that run beside each other at most. Each has several clients in processes of their own: more of them at once
/// would make a small machine so slow that sessions end for want of a processor.
const AT_ONCE: usize = 14;

/// What a suite does, and what comes of it.
type Judge<'a> = Box<dyn FnOnce() -> Vec<Check> + Send + 'a>;

/// A suite that may run beside others.
pub(crate) struct Job<'a> {
    suite: String,
    judge: Judge<'a>,
}

impl<'a> Job<'a> {
    /// A suite of this name.
    pub(crate) fn new(suite: String, judge: impl FnOnce() -> Vec<Check> + Send + 'a) -> Self {
        Self {
            suite,
            judge: Box::new(judge),
        }
    }
}

/// Prints each check that fails, the counts of each suite and those of the run.
pub(crate) struct Report {
    verbose: bool,
    suite: String,
    began: Instant,
    here: Counts,
    all: Counts,
}

#[derive(Clone, Copy, Default)]
struct Counts {
    passed: usize,
    failed: usize,
}

impl Report {
    /// An empty report; `verbose` names passed checks too.
    pub(crate) fn new(verbose: bool) -> Self {
        let (here, all) = (Counts::default(), Counts::default());
        Self {
            verbose,
            suite: String::new(),
            began: Instant::now(),
            here,
            all,
        }
    }

    /// Begins a suite.
    pub(crate) fn begin(&mut self, suite: &str) {
        (self.suite, self.began, self.here) = (suite.to_owned(), Instant::now(), Counts::default());
    }

    /// Counts one check; returns whether it passed.
    pub(crate) fn check(&mut self, name: &str, outcome: Result<(), String>) -> bool {
        match &outcome {
            Ok(()) => {
                self.here.passed += 1;
                if self.verbose {
                    println!("pass {}: {name}", self.suite);
                }
            }
            Err(why) => {
                self.here.failed += 1;
                println!("FAIL {}: {name}: {why}", self.suite);
            }
        }
        outcome.is_ok()
    }

    /// Says something that is recorded and not judged.
    pub(crate) fn note(&self, text: &str) {
        println!("note {}: {text}", self.suite);
    }

    /// Ends a suite. One without a check has failed: it tested nothing.
    pub(crate) fn end(&mut self) {
        self.close_suite(self.began.elapsed());
    }

    fn close_suite(&mut self, took: Duration) {
        if self.here.passed + self.here.failed == 0 {
            self.check("at least one check", Err("none ran".to_owned()));
        }
        let Counts { passed, failed } = self.here;
        println!(
            "suite {}: {passed} passed, {failed} failed in {:.1} s",
            self.suite,
            took.as_secs_f64()
        );
        (self.all.passed, self.all.failed) = (self.all.passed + passed, self.all.failed + failed);
    }

    /// Runs the suites beside each other, for what is mostly waiting; they are reported in their order. One that panics has
    /// failed.
    pub(crate) fn side_by_side(&mut self, jobs: Vec<Job<'_>>) {
        let (names, judges): (Vec<String>, Vec<Judge<'_>>) =
            jobs.into_iter().map(|job| (job.suite, job.judge)).unzip();
        let waiting = Mutex::new(judges.into_iter().enumerate());
        let (sender, outcomes) = channel();
        std::thread::scope(|scope| {
            for _ in 0..AT_ONCE.min(names.len()) {
                let (sender, waiting) = (sender.clone(), &waiting);
                scope.spawn(move || {
                    // A lock that a panic left is of no harm: none happens while it is held.
                    let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).next();
                    while let Some((at, judge)) = next() {
                        let began = Instant::now();
                        let checks = catch_unwind(AssertUnwindSafe(judge))
                            .unwrap_or_else(|_| vec![("runs".to_owned(), Err("it panicked".to_owned()))]);
                        // The receiver lives for longer than the threads.
                        let _ = sender.send((at, checks, began.elapsed()));
                    }
                });
            }
        });
        drop(sender);
        let mut outcomes: Vec<_> = outcomes.iter().collect();
        outcomes.sort_by_key(|(at, ..)| *at);
        for (at, checks, took) in outcomes {
            self.begin(&names[at]);
            for (what, outcome) in checks {
                self.check(&what, outcome);
            }
            self.close_suite(took);
        }
    }

    /// Prints the closing line; returns whether all is well.
    pub(crate) fn close(&self) -> bool {
        println!("clients: {} passed, {} failed", self.all.passed, self.all.failed);
        self.all.failed == 0
    }
}
