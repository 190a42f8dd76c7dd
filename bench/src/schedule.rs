//! When each record is intended to be sent.
//!
//! The schedule is a function of time alone: arrival number `n` is intended at the time at which the integrated rate
//! reaches `n`. Completions never feed back, so a broker that stalls finds all records that became due meanwhile waiting, and
//! each of them is measured from the time it should have gone.
//!
//! Every (sender, partition) pair has a stream of its own, so the backlog of a stream is "due minus sent" and needs no queue.

use crate::clock::{Nanos, SECOND};
use crate::units::{Quantity, parse_duration, parse_quantity};

/// Counts closer than this to a whole number are that number.
const ROUNDING: f64 = 1e-6;

/// How records are offered.
#[derive(Clone, Debug, PartialEq)]
pub enum RateSpec {
    /// Evenly spaced arrivals.
    Constant(RateProfile),
    /// Independent arrivals (a Poisson process) at the same mean rate.
    Poisson(RateProfile),
    /// As fast as the window allows: a closed loop, whose response time is its service time.
    Max,
    /// So many percent of a peak that is measured first; evenly spaced.
    OfPeak(f64),
}

/// The offered rate over time, in the unit it was typed in.
#[derive(Clone, Debug, PartialEq)]
pub struct RateProfile {
    /// The rate at the start.
    pub from: Quantity,
    /// The rate from the end of the ramp on.
    pub to: Quantity,
    /// How long the linear ramp takes; zero for a constant rate.
    pub ramp: Nanos,
}

impl RateSpec {
    /// Parses `1k`, `500MiB/s`, `ramp:0..1M/5m`, `poisson:1k`, `poisson:ramp:...`, `50%` of a measured peak, or `max`. A rate of zero is refused.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text == "max" {
            return Ok(Self::Max);
        }
        if let Some(percent) = text.strip_suffix('%') {
            return match percent.parse::<f64>() {
                Ok(percent) if percent > 0.0 && percent <= 100.0 => Ok(Self::OfPeak(percent)),
                _ => Err(format!(
                    "`{text}`: a share of the measured peak is more than 0% and at most 100%"
                )),
            };
        }
        match text.strip_prefix("poisson:") {
            Some(rest) => RateProfile::parse(rest).map(Self::Poisson),
            None => RateProfile::parse(text).map(Self::Constant),
        }
    }

    /// The integrated rate for records of `record_bytes`; `None` for the closed loop, and for a share of a peak that is not known yet.
    pub fn integrated(&self, record_bytes: usize) -> Option<IntegratedRate> {
        match self {
            Self::Constant(profile) | Self::Poisson(profile) => Some(profile.integrated(record_bytes)),
            Self::Max | Self::OfPeak(_) => None,
        }
    }

    /// So many records a second, evenly spaced.
    pub fn constant(records_per_second: f64) -> Self {
        let rate = Quantity::Records(records_per_second);
        Self::Constant(RateProfile {
            from: rate,
            to: rate,
            ramp: 0,
        })
    }
}

impl RateProfile {
    fn parse(text: &str) -> Result<Self, String> {
        let zero = |q: Quantity| matches!(q, Quantity::Records(n) | Quantity::Bytes(n) if n <= 0.0);
        let profile = if let Some(ramp) = text.strip_prefix("ramp:") {
            let wrong = || format!("`{text}`: a ramp is written ramp:FROM..TO/DURATION");
            let (from, rest) = ramp.split_once("..").ok_or_else(wrong)?;
            // The duration follows the last slash, since a byte rate may hold one of its own.
            let (to, over) = rest.rsplit_once('/').ok_or_else(wrong)?;
            let ramp = parse_duration(over)?.as_nanos() as Nanos;
            if ramp == 0 {
                return Err(wrong());
            }
            Self {
                from: parse_quantity(from)?,
                to: parse_quantity(to)?,
                ramp,
            }
        } else {
            let rate = parse_quantity(text)?;
            Self {
                from: rate,
                to: rate,
                ramp: 0,
            }
        };
        if zero(profile.to) {
            return Err("a rate of 0 sends nothing and measures nothing; use `max` for no limit".to_owned());
        }
        Ok(profile)
    }

    fn integrated(&self, record_bytes: usize) -> IntegratedRate {
        IntegratedRate {
            from: self.from.records(record_bytes),
            to: self.to.records(record_bytes),
            ramp_seconds: self.ramp as f64 / SECOND as f64,
        }
    }
}

/// The integral of the offered rate, and its inverse. Rates are records a second, times count from the start of the schedule.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct IntegratedRate {
    from: f64,
    to: f64,
    ramp_seconds: f64,
}

impl IntegratedRate {
    /// A constant rate of `records_per_second`.
    pub fn constant(records_per_second: f64) -> Self {
        Self {
            from: records_per_second,
            to: records_per_second,
            ramp_seconds: 0.0,
        }
    }

    /// Records due in `[0, at)`, as a real number.
    pub fn count_at(&self, at: Nanos) -> f64 {
        let seconds = at as f64 / SECOND as f64;
        let in_ramp = seconds.min(self.ramp_seconds);
        let ramped = if self.ramp_seconds > 0.0 {
            self.from * in_ramp + (self.to - self.from) * in_ramp * in_ramp / (2.0 * self.ramp_seconds)
        } else {
            0.0
        };
        ramped + self.to * (seconds - in_ramp)
    }

    /// The time at which the integral reaches `count`: when arrival number `count` is intended.
    #[inline]
    pub fn time_of(&self, count: f64) -> Nanos {
        let ramp_count = (self.from + self.to) / 2.0 * self.ramp_seconds;
        let seconds = if count >= ramp_count {
            self.ramp_seconds + (count - ramp_count) / self.to
        } else {
            // The positive root of slope/2 * t^2 + from * t = count, in the form that keeps its digits when from is large.
            let slope = (self.to - self.from) / self.ramp_seconds;
            2.0 * count / (self.from + (self.from * self.from + 2.0 * slope * count).max(0.0).sqrt())
        };
        // A count of 2^53 at one nanosecond each is 104 days: f64 holds every nanosecond of any run.
        (seconds * SECOND as f64).round() as Nanos
    }

    /// The rate at `at`, in records a second.
    pub fn rate_at(&self, at: Nanos) -> f64 {
        let seconds = at as f64 / SECOND as f64;
        if seconds < self.ramp_seconds {
            self.from + (self.to - self.from) * seconds / self.ramp_seconds
        } else {
            self.to
        }
    }
}

/// Which of the interleaved streams of a run this one is.
#[derive(Clone, Copy, Debug)]
pub struct StreamPosition {
    /// This stream's number, below `of`.
    pub index: u64,
    /// How many streams share the schedule.
    pub of: u64,
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
    /// The next arrival in units of the integrated rate: a sum of exponential gaps with mean `of`. The superposition of the
    /// streams is the Poisson process of the whole rate.
    Poisson { rng: fastrand::Rng, next: f64 },
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
                let next = exponential(&mut rng, position.of);
                Spacing::Poisson { rng, next }
            }
            RateSpec::Constant(_) | RateSpec::Max | RateSpec::OfPeak(_) => Spacing::Even,
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

    /// The intended time of the next arrival, or `None` after the last.
    #[inline]
    pub fn peek(&self) -> Option<Nanos> {
        if self.sent >= self.limit {
            return None;
        }
        let count = match &self.spacing {
            Spacing::Even => (self.sent * self.position.of + self.position.index) as f64,
            Spacing::Poisson { next, .. } => *next,
        };
        let at = self.rate.time_of(count);
        (at < self.end).then_some(at)
    }

    /// Moves on to the next arrival.
    #[inline]
    pub fn advance(&mut self) {
        self.sent += 1;
        if let Spacing::Poisson { rng, next } = &mut self.spacing {
            *next += exponential(rng, self.position.of);
        }
    }

    /// About how many arrivals of this stream are intended before `now` and not yet taken; the expectation for Poisson.
    pub fn backlog(&self, now: Nanos) -> u64 {
        if self.peek().is_none_or(|next| next > now) {
            return 0;
        }
        let due = self.rate.count_at(now.min(self.end));
        let due = match self.spacing {
            // How many k have k * of + index below the integral; the margin is far above the rounding of f64 and far below 1.
            Spacing::Even => (due - self.position.index as f64 - ROUNDING) / self.position.of as f64,
            Spacing::Poisson { .. } => due / self.position.of as f64,
        };
        (due.ceil().max(0.0) as u64)
            .min(self.limit)
            .saturating_sub(self.sent)
    }
}

/// How many of `records` fall to the stream at `position`; no limit without one.
pub fn share(records: Option<u64>, position: StreamPosition) -> u64 {
    records.map_or(u64::MAX, |records| {
        (records + position.of - 1 - position.index) / position.of
    })
}

/// An exponential gap with the given mean.
fn exponential(rng: &mut fastrand::Rng, mean: u64) -> f64 {
    // 1 - u is in (0, 1], so the logarithm is finite.
    -(1.0 - rng.f64()).ln() * mean as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrivals(text: &str, of: u64, end: Nanos, records: Option<u64>, seed: u64) -> Vec<Nanos> {
        let spec = RateSpec::parse(text).unwrap();
        let rate = spec.integrated(1024).unwrap();
        let mut all = Vec::new();
        for index in 0..of {
            let mut stream = Arrivals::new(&spec, rate, StreamPosition { index, of }, end, records, seed);
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
    fn rate_zero_is_refused() {
        for text in ["0", "0k", "0MiB/s", "poisson:0", "ramp:10..0/1s"] {
            assert!(RateSpec::parse(text).unwrap_err().contains("rate of 0"), "{text}");
        }
        assert!(RateSpec::parse("ramp:0..10").is_err());
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
    fn the_inverse_of_the_integral_is_its_inverse() {
        let rate = RateSpec::parse("ramp:100..1k/10s")
            .unwrap()
            .integrated(1)
            .unwrap();
        assert_eq!(rate.count_at(10 * SECOND), 5500.0);
        assert_eq!(rate.count_at(12 * SECOND), 7500.0);
        for count in [0.0, 1.0, 99.5, 5499.0, 5500.0, 7500.0] {
            let back = rate.count_at(rate.time_of(count));
            assert!((back - count).abs() < 1e-5, "{count} became {back}");
        }
        let from_zero = RateSpec::parse("ramp:0..1k/10s").unwrap().integrated(1).unwrap();
        assert_eq!(from_zero.time_of(0.0), 0);
        assert_eq!(from_zero.time_of(1250.0), 5 * SECOND);
        assert_eq!(from_zero.rate_at(5 * SECOND), 500.0);
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
        let rate = spec.integrated(1).unwrap();
        let mut stream = Arrivals::new(&spec, rate, StreamPosition { index: 0, of: 2 }, SECOND, None, 0);
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
            let rate = spec.integrated(1000).unwrap();
            let streams =
                (0..of).map(|index| Arrivals::new(&spec, rate, StreamPosition { index, of }, end, None, 0));
            let backlog: u64 = streams.map(|stream| stream.backlog(end)).sum();
            assert_eq!(backlog, rate.count_at(end).ceil() as u64, "{text}");
        }
    }
}
