//! VALID or INVALID: whether the figures of a run mean what they seem to mean.

use crate::clock::{Nanos, SECOND};
use crate::units::{format_count, format_nanos};
use serde::{Deserialize, Serialize};

/// A run that achieved less of the offered rate than this measured something else than what was asked.
const ACHIEVED_MIN: f64 = 0.99;

/// Falling behind by more than this (seconds a second) over the second half of the run is growth, not jitter.
const GROWTH_MAX: f64 = 0.005;

/// Growth that has not yet come to this much is jitter.
const GROWTH_FLOOR_SECONDS: f64 = 0.05;

/// Fewer samples than this have no trend.
const TREND_SAMPLES_MIN: usize = 5;

/// A level sampled in the measured part of the run, in seconds of the schedule.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LevelSample {
    /// Since the start of the schedule.
    pub at: Nanos,
    /// Seconds behind the schedule.
    pub behind_seconds: f64,
}

/// What the verdict is made from. Counts are of the measured part, the warm-up cut off.
#[derive(Clone, Debug, Default)]
pub struct RunFacts {
    /// The sender waited for answers before it offered more.
    pub closed_loop: bool,
    /// Records that the schedule offered.
    pub offered: u64,
    /// Of these, acknowledged by the end of the run and a short grace for what was in flight.
    pub acknowledged_in_time: u64,
    /// Of these, ever acknowledged: the samples.
    pub acknowledged: u64,
    /// Of these, refused, or their answer was lost.
    pub not_acknowledged: u64,
    /// Of these, never submitted, since the broker did not take them in time.
    pub never_submitted: u64,
    /// Due and not submitted, over time.
    pub backlog: Vec<LevelSample>,
    /// Due and not submitted although the window had room: the tool's own lateness, over time.
    pub tool_lag: Vec<LevelSample>,
    /// The tool's own lateness at the 99th percentile, and the response time there.
    pub tool_lag_p99: Option<Nanos>,
    /// The response time at the 99th percentile.
    pub response_p99: Option<Nanos>,
    /// Latencies that came out negative.
    pub negative_latencies: u64,
    /// The run was cut short.
    pub interrupted: bool,
}

/// The judgement and its reasons.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// Whether the figures may be quoted.
    pub valid: bool,
    /// Why not.
    pub reasons: Vec<String>,
    /// What to know when quoting them.
    pub warnings: Vec<String>,
}

impl Verdict {
    /// Judges a run.
    pub fn of(facts: &RunFacts) -> Self {
        let mut reasons = Vec::new();
        let mut warnings = Vec::new();
        if facts.interrupted {
            reasons.push("the run was interrupted before its end".to_owned());
        }
        if facts.acknowledged == 0 {
            reasons.push("there are no samples: no record of the measured part was acknowledged".to_owned());
        }
        if facts.negative_latencies > 0 {
            reasons.push(format!(
                "{} latencies are negative: the clock is broken",
                facts.negative_latencies
            ));
        }
        if facts.closed_loop {
            warnings.push(
                "closed loop (--rate max): the broker sets the pace, so these latencies hide queueing; quote the throughput only"
                    .to_owned(),
            );
        } else {
            Self::judge_open_loop(facts, &mut reasons, &mut warnings);
        }
        if facts.not_acknowledged > 0 {
            warnings.push(format!(
                "{} records were refused or not answered",
                format_count(facts.not_acknowledged)
            ));
        }
        Self {
            valid: reasons.is_empty(),
            reasons,
            warnings,
        }
    }

    fn judge_open_loop(facts: &RunFacts, reasons: &mut Vec<String>, warnings: &mut Vec<String>) {
        if facts.offered > 0 {
            let share = facts.acknowledged_in_time as f64 / facts.offered as f64;
            if share < ACHIEVED_MIN {
                reasons.push(format!(
                    "achieved {:.1}% of the offered rate: {} of {} records were acknowledged in time",
                    share * 100.0,
                    format_count(facts.acknowledged_in_time),
                    format_count(facts.offered)
                ));
            }
        }
        // What an interruption kept from being sent says nothing about the broker.
        if facts.never_submitted > 0 && !facts.interrupted {
            reasons.push(format!(
                "{} records were due and not submitted when the run gave up",
                format_count(facts.never_submitted)
            ));
        }
        let tool = growth(&facts.tool_lag);
        if let Some(growth) = tool {
            reasons.push(format!(
                "the TOOL was the bottleneck: with room in its window it fell behind by {:.1} ms a second",
                growth * 1e3
            ));
        }
        if let Some(growth) = growth(&facts.backlog) {
            let who = if tool.is_some() {
                ""
            } else {
                ": the BROKER was the bottleneck, its windows were full"
            };
            reasons.push(format!(
                "the backlog grew at the end, by {:.1} ms a second{who}",
                growth * 1e3
            ));
        }
        if let (Some(tool), Some(response)) = (facts.tool_lag_p99, facts.response_p99)
            && tool > response / 2
            && tool > SECOND / 1000
        {
            warnings.push(format!(
                "the tool itself was up to {} late at its 99th percentile: more than half of the response time there",
                format_nanos(tool)
            ));
        }
    }
}

/// By how much the level grew (seconds a second) over the second half of the samples, when that is more than jitter: the slope of the
/// least-squares line, which one stall in mid-run does not bend as much as it bends a difference of two samples.
fn growth(samples: &[LevelSample]) -> Option<f64> {
    let half = &samples[samples.len() / 2..];
    if half.len() < TREND_SAMPLES_MIN {
        return None;
    }
    let count = half.len() as f64;
    let seconds = |sample: &LevelSample| sample.at as f64 / SECOND as f64;
    let mean_at = half.iter().map(seconds).sum::<f64>() / count;
    let mean_level = half.iter().map(|sample| sample.behind_seconds).sum::<f64>() / count;
    let (mut covariance, mut variance) = (0.0, 0.0);
    for sample in half {
        let at = seconds(sample) - mean_at;
        covariance += at * (sample.behind_seconds - mean_level);
        variance += at * at;
    }
    let slope = if variance > 0.0 {
        covariance / variance
    } else {
        0.0
    };
    let last = half.last().map_or(0.0, |sample| sample.behind_seconds);
    (slope > GROWTH_MAX && last > GROWTH_FLOOR_SECONDS).then_some(slope)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> RunFacts {
        RunFacts {
            offered: 10_000,
            acknowledged_in_time: 9_999,
            acknowledged: 10_000,
            backlog: level(|_| 0.0004),
            tool_lag: level(|_| 0.0001),
            ..RunFacts::default()
        }
    }

    fn level(behind: impl Fn(f64) -> f64) -> Vec<LevelSample> {
        (0..100)
            .map(|n| LevelSample {
                at: n * SECOND / 10,
                behind_seconds: behind(n as f64 / 10.0),
            })
            .collect()
    }

    fn reasons(facts: &RunFacts) -> String {
        let verdict = Verdict::of(facts);
        assert_eq!(verdict.valid, verdict.reasons.is_empty());
        verdict.reasons.join("\n")
    }

    #[test]
    fn a_run_that_kept_up_is_valid() {
        assert_eq!(reasons(&good()), "");
    }

    #[test]
    fn less_than_99_percent_is_invalid() {
        assert!(
            reasons(&RunFacts {
                acknowledged_in_time: 9_899,
                ..good()
            })
            .contains("achieved 99.0%")
        );
        assert_eq!(
            reasons(&RunFacts {
                acknowledged_in_time: 9_900,
                ..good()
            }),
            ""
        );
    }

    #[test]
    fn a_growing_backlog_is_invalid_and_names_the_broker() {
        let text = reasons(&RunFacts {
            backlog: level(|at| at * 0.02),
            ..good()
        });
        assert!(text.contains("BROKER was the bottleneck"), "{text}");
    }

    #[test]
    fn lag_that_grew_with_room_in_the_window_names_the_tool() {
        let growing = level(|at| at * 0.02);
        let text = reasons(&RunFacts {
            backlog: growing.clone(),
            tool_lag: growing,
            ..good()
        });
        assert!(
            text.contains("TOOL was the bottleneck") && !text.contains("BROKER"),
            "{text}"
        );
    }

    #[test]
    fn a_stall_that_was_worked_off_is_valid() {
        let stalled = level(|at| if (6.0..6.5).contains(&at) { 0.5 } else { 0.0 });
        assert_eq!(
            reasons(&RunFacts {
                backlog: stalled,
                ..good()
            }),
            ""
        );
    }

    #[test]
    fn no_samples_are_invalid() {
        assert!(reasons(&RunFacts::default()).contains("no samples"));
        let all_refused = RunFacts {
            acknowledged: 0,
            acknowledged_in_time: 0,
            not_acknowledged: 10_000,
            ..good()
        };
        assert!(reasons(&all_refused).contains("no samples"));
    }

    #[test]
    fn a_closed_loop_is_valid_and_says_what_it_is() {
        let verdict = Verdict::of(&RunFacts {
            closed_loop: true,
            acknowledged: 5,
            ..RunFacts::default()
        });
        assert!(verdict.valid);
        assert!(verdict.warnings[0].contains("closed loop"));
    }
}
