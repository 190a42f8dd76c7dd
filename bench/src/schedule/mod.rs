//! When each record is intended to be sent.
//!
//! The schedule is a function of time alone: arrival number `n` is intended at the time at which the integrated rate
//! reaches `n`. Completions never feed back, so a broker that stalls finds all records that became due meanwhile waiting, and
//! each of them is measured from the time it should have gone.
//!
//! Every (sender, partition) pair has a stream of its own, so the backlog of a stream is "due minus sent" and needs no queue.

mod rate;

pub use rate::{IntegratedRate, RateProfile, RateSpec, Stage};

use crate::clock::Nanos;
use crate::workload::{Captured, Cursor};

/// Multiples of it are spread evenly between whole numbers.
const GOLDEN: f64 = 0.618_033_988_749_895;

/// Counts closer than this to a whole number are that number.
const ROUNDING: f64 = 1e-6;

/// Which of the streams of a run this one is.
#[derive(Clone, Copy, Debug)]
pub struct StreamPosition {
    /// This stream's number, below `of`.
    pub index: u64,
    /// How many streams share the schedule.
    pub of: u64,
    /// Its part of all records when they are not even.
    pub portion: Option<Portion>,
}

/// A part of all records, as a stretch between 0 and 1; the portions of all streams lie side by side.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Portion {
    /// Where it starts.
    pub from: f64,
    /// Where it ends.
    pub to: f64,
}

impl StreamPosition {
    /// One of `of` even streams.
    pub fn even(index: u64, of: u64) -> Self {
        Self {
            index,
            of,
            portion: None,
        }
    }

    /// How many arrivals of the run there are for one of this stream.
    fn mean_gap(&self) -> f64 {
        match self.portion {
            None => self.of as f64,
            Some(portion) => 1.0 / (portion.to - portion.from),
        }
    }

    /// Where the first arrival of an uneven stream lies in its gap: somewhere else for each.
    fn phase(&self) -> f64 {
        (self.index as f64 * GOLDEN).fract()
    }
}

/// The intended times of one stream, from first to last, never falling.
#[derive(Clone, Debug)]
pub struct Arrivals {
    rate: IntegratedRate,
    position: StreamPosition,
    spacing: Spacing,
    sent: u64,
    end: Nanos,
    limit: u64,
}

#[derive(Clone, Debug)]
enum Spacing {
    /// Arrival `k` of the stream is arrival `k * of + index` of the run.
    Even,
    /// Arrival `k` of the stream lies at `(k + phase) * gap` of the integrated rate.
    Uneven { phase: f64, gap: f64 },
    /// The next arrival in units of the integrated rate: a sum of exponential gaps. The superposition of the
    /// streams is the Poisson process of the whole rate.
    Poisson { rng: fastrand::Rng, next: f64, gap: f64 },
    /// Each at the time at which it was captured.
    Captured(Box<Cursor>),
}

impl Arrivals {
    /// The stream at `position` of a schedule that ends before `end` and offers at most `records` in all streams together.
    pub fn new(
        spec: &RateSpec,
        rate: IntegratedRate,
        position: StreamPosition,
        end: Nanos,
        records: Option<u64>,
        seed: u64,
    ) -> Self {
        let spacing = match spec {
            RateSpec::Poisson(_) => {
                // Streams of one seed must differ, and neighbours must not be correlated: spread the index over all bits.
                let mut rng =
                    fastrand::Rng::with_seed(seed ^ (position.index + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
                let gap = position.mean_gap();
                let next = exponential(&mut rng, gap);
                Spacing::Poisson { rng, next, gap }
            }
            _ if position.portion.is_some() => Spacing::Uneven {
                phase: position.phase(),
                gap: position.mean_gap(),
            },
            RateSpec::Constant(_) | RateSpec::Max | RateSpec::OfPeak(_) | RateSpec::Captured => Spacing::Even,
        };
        let limit = share(records, position);
        Self {
            rate,
            position,
            spacing,
            sent: 0,
            end,
            limit,
        }
    }

    /// The records of `cursor`, until the schedule ends.
    pub fn captured(cursor: Cursor, rate: IntegratedRate, position: StreamPosition, end: Nanos) -> Self {
        Self {
            rate,
            position,
            spacing: Spacing::Captured(Box::new(cursor)),
            sent: 0,
            end,
            limit: u64::MAX,
        }
    }

    /// What the next arrival is, where that was captured.
    #[inline]
    pub fn record(&self) -> Option<Captured> {
        match &self.spacing {
            Spacing::Captured(cursor) => cursor.peek(),
            _ => None,
        }
    }

    /// The intended time of the next arrival, or `None` after the last.
    #[inline]
    pub fn peek(&self) -> Option<Nanos> {
        if self.sent >= self.limit {
            return None;
        }
        let count = match &self.spacing {
            Spacing::Even => (self.sent * self.position.of + self.position.index) as f64,
            Spacing::Uneven { phase, gap } => (self.sent as f64 + phase) * gap,
            Spacing::Poisson { next, .. } => *next,
            Spacing::Captured(cursor) => return cursor.due().filter(|at| *at < self.end),
        };
        let at = self.rate.time_of(count);
        (at < self.end).then_some(at)
    }

    /// Moves on to the next arrival.
    #[inline]
    pub fn advance(&mut self) {
        self.sent += 1;
        match &mut self.spacing {
            Spacing::Poisson { rng, next, gap } => *next += exponential(rng, *gap),
            Spacing::Captured(cursor) => cursor.advance(),
            Spacing::Even | Spacing::Uneven { .. } => {}
        }
    }

    /// About how many arrivals of this stream are intended before `now` and not yet taken; the expectation for Poisson.
    pub fn backlog(&self, now: Nanos) -> u64 {
        if self.peek().is_none_or(|next| next > now) {
            return 0;
        }
        let due = self.rate.count_at(now.min(self.end));
        let due = match &self.spacing {
            // How many k have k * of + index below the integral; the margin is far above the rounding of f64 and far below 1.
            Spacing::Even => (due - self.position.index as f64 - ROUNDING) / self.position.of as f64,
            Spacing::Uneven { phase, gap } => due / gap - phase - ROUNDING,
            Spacing::Poisson { gap, .. } => due / gap,
            Spacing::Captured(cursor) => {
                return cursor.due_before(now.min(self.end)).saturating_sub(self.sent);
            }
        };
        (due.ceil().max(0.0) as u64)
            .min(self.limit)
            .saturating_sub(self.sent)
    }
}

/// How many of `records` fall to the stream at `position`; no limit without one.
pub fn share(records: Option<u64>, position: StreamPosition) -> u64 {
    match (records, position.portion) {
        // The ends of portions meet, so that their rounding adds up to the whole.
        (Some(records), Some(portion)) => {
            let until = |at: f64| (at * records as f64).round() as u64;
            until(portion.to) - until(portion.from)
        }
        (None, Some(portion)) if portion.to <= portion.from => 0,
        (None, _) => u64::MAX,
        (Some(records), None) => (records + position.of - 1 - position.index) / position.of,
    }
}

/// An exponential gap with the given mean.
fn exponential(rng: &mut fastrand::Rng, mean: f64) -> f64 {
    // 1 - u is in (0, 1], so the logarithm is finite.
    -(1.0 - rng.f64()).ln() * mean
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SECOND;

    fn arrivals(text: &str, of: u64, end: Nanos, records: Option<u64>, seed: u64) -> Vec<Nanos> {
        let spec = RateSpec::parse(text).unwrap();
        let rate = spec.integrated(1024.0).unwrap();
        let mut all = Vec::new();
        for index in 0..of {
            let mut stream = Arrivals::new(
                &spec,
                rate.clone(),
                StreamPosition::even(index, of),
                end,
                records,
                seed,
            );
            let mut last = 0;
            while let Some(at) = stream.peek() {
                assert!(at >= last && at < end);
                last = at;
                all.push(at);
                stream.advance();
            }
        }
        all.sort_unstable();
        all
    }

    #[test]
    fn interleaved_streams_are_the_whole_schedule() {
        let all = arrivals("1k", 6, SECOND, None, 0);
        let expected: Vec<Nanos> = (0..1000).map(|n| n * 1_000_000).collect();
        assert_eq!(all, expected);
    }

    #[test]
    fn a_byte_rate_counts_records_of_the_record_size() {
        assert_eq!(arrivals("1MiB/s", 1, SECOND, None, 0).len(), 1024);
    }

    #[test]
    fn record_limits_hold_over_all_streams() {
        for limit in [0, 1, 7, 100] {
            assert_eq!(arrivals("1k", 6, SECOND, Some(limit), 0).len() as u64, limit);
            assert_eq!(
                arrivals("poisson:1k", 6, 10 * SECOND, Some(limit), 3).len() as u64,
                limit
            );
        }
    }

    #[test]
    fn uneven_streams_add_up_to_the_whole() {
        let portions = [(0.0, 0.5), (0.5, 0.5), (0.5, 0.8), (0.8, 1.0)];
        for text in ["1k", "poisson:1k"] {
            let spec = RateSpec::parse(text).unwrap();
            let rate = spec.integrated(1.0).unwrap();
            let mut counts = Vec::new();
            for (index, (from, to)) in (0..).zip(portions) {
                let position = StreamPosition {
                    index,
                    of: 4,
                    portion: Some(Portion { from, to }),
                };
                let of_limit = share(Some(10), position);
                let mut stream = Arrivals::new(&spec, rate.clone(), position, 10 * SECOND, None, 1);
                let due = stream.backlog(10 * SECOND);
                let mut count = 0_u64;
                while stream.peek().is_some() {
                    stream.advance();
                    count += 1;
                }
                if text == "1k" {
                    assert_eq!(due, count, "stream {index}");
                }
                counts.push((of_limit, count));
            }
            assert_eq!(counts.iter().map(|(limit, _)| limit).sum::<u64>(), 10);
            let all: u64 = counts.iter().map(|(_, count)| count).sum();
            // Poisson: 10,000 with a standard deviation of 100.
            assert!(
                all.abs_diff(10_000) <= if text == "1k" { 2 } else { 400 },
                "{all}"
            );
            assert_eq!(counts[1], (0, 0));
            assert!(counts[0].1.abs_diff(5_000) <= 300, "{counts:?}");
        }
    }

    #[test]
    fn poisson_is_seeded_and_has_the_mean_and_variance_of_its_name() {
        let first = arrivals("poisson:10k", 4, 10 * SECOND, None, 7);
        assert_eq!(first, arrivals("poisson:10k", 4, 10 * SECOND, None, 7));
        assert_ne!(first, arrivals("poisson:10k", 4, 10 * SECOND, None, 8));
        // 100,000 expected with a standard deviation of 316: four of them.
        assert!((98_735..101_265).contains(&first.len()), "{}", first.len());
        // Counts per 10 ms have variance = mean = 100.
        let mut counts = vec![0_f64; 1000];
        for at in first {
            counts[(at / 10_000_000) as usize] += 1.0;
        }
        let mean = counts.iter().sum::<f64>() / 1000.0;
        let variance = counts.iter().map(|c| (c - mean).powi(2)).sum::<f64>() / 1000.0;
        assert!((0.8..1.25).contains(&(variance / mean)), "{variance} / {mean}");
    }

    #[test]
    fn backlog_is_due_minus_taken() {
        let spec = RateSpec::parse("1k").unwrap();
        let rate = spec.integrated(1.0).unwrap();
        let mut stream = Arrivals::new(&spec, rate, StreamPosition::even(0, 2), SECOND, None, 0);
        assert_eq!(stream.backlog(100_000_000), 50);
        for _ in 0..50 {
            stream.advance();
        }
        assert_eq!(stream.backlog(99_000_000), 0);
        assert_eq!(stream.backlog(5 * SECOND), 450, "the schedule has an end");
        // Over all streams it is exactly what the schedule offers, whatever the numbers.
        for (text, of, end) in [
            ("20M", 12, 4 * SECOND),
            ("333.3", 7, 1_234_567_891),
            ("1MiB/s", 5, 3 * SECOND),
        ] {
            let spec = RateSpec::parse(text).unwrap();
            let rate = spec.integrated(1000.0).unwrap();
            let streams = (0..of).map(|index| {
                Arrivals::new(&spec, rate.clone(), StreamPosition::even(index, of), end, None, 0)
            });
            let backlog: u64 = streams.map(|stream| stream.backlog(end)).sum();
            assert_eq!(backlog, rate.count_at(end).ceil() as u64, "{text}");
        }
    }
}
