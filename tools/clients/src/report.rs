//! The counts of a run.

use std::time::Instant;

use crate::client::Check;

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
        if self.here.passed + self.here.failed == 0 {
            self.check("at least one check", Err("none ran".to_owned()));
        }
        let Counts { passed, failed } = self.here;
        println!(
            "suite {}: {passed} passed, {failed} failed in {:.1} s",
            self.suite,
            self.began.elapsed().as_secs_f64()
        );
        (self.all.passed, self.all.failed) = (self.all.passed + passed, self.all.failed + failed);
    }

    /// A suite for each of `subjects`, all of them at once: for what is mostly waiting. One that panics has failed.
    pub(crate) fn side_by_side<T: Sync>(
        &mut self,
        subjects: &[T],
        suite: impl Fn(&T) -> String,
        judge: impl Fn(&T) -> Vec<Check> + Sync,
    ) {
        let judge = &judge;
        let outcomes: Vec<Vec<Check>> = std::thread::scope(|scope| {
            let running: Vec<_> = subjects
                .iter()
                .map(|subject| scope.spawn(move || judge(subject)))
                .collect();
            running
                .into_iter()
                .map(|run| {
                    run.join()
                        .unwrap_or_else(|_| vec![("runs".to_owned(), Err("it panicked".to_owned()))])
                })
                .collect()
        });
        for (subject, checks) in subjects.iter().zip(outcomes) {
            self.begin(&suite(subject));
            for (what, outcome) in checks {
                self.check(&what, outcome);
            }
            self.end();
        }
    }

    /// Prints the closing line; returns whether all is well.
    pub(crate) fn close(&self) -> bool {
        println!("clients: {} passed, {} failed", self.all.passed, self.all.failed);
        self.all.failed == 0
    }
}
