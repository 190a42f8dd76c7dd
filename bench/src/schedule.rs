//! When each record is intended to be sent.
//!
//! The schedule is a function of time alone: arrival number `n` is intended at the time at which the integrated rate
//! reaches `n`. Completions never feed back, so a broker that stalls finds all records that became due meanwhile waiting, and
//! each of them is measured from the time it should have gone.
//!
//! Every (sender, partition) pair has a stream of its own, so the backlog of a stream is "due minus sent" and needs no queue.

use crate::clock::{Nanos, SECOND};
use crate::units::{Quantity, parse_duration, parse_quantity};
use std::sync::Arc;

/// Multiples of it are spread evenly between whole numbers.
const GOLDEN: f64 = 0.618_033_988_749_895;

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
    /// One after the other; the last one goes on.
    pub stages: Vec<Stage>,
}

/// A part of the schedule in which the rate is constant or changes evenly.
#[derive(Clone, Debug, PartialEq)]
pub struct Stage {
    /// The rate at its start.
    pub from: Quantity,
    /// The rate at its end.
    pub to: Quantity,
    /// How long it takes; what the last one says of its end holds from then on.
    pub duration: Nanos,
}

impl RateSpec {
    /// Parses `1k`, `500MiB/s`, `10k,50MiB/s`, `ramp:0..1M/5m`, `step:1k/10s..2k`, `poisson:1k`, `poisson:ramp:...`, `50%` of a measured peak, or `max`. A rate of zero is refused.
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

    /// The integrated rate for records of `record_bytes` in the mean; `None` for the closed loop, and for a share of a peak that is not known yet.
    pub fn integrated(&self, record_bytes: f64) -> Option<IntegratedRate> {
        match self {
            Self::Constant(profile) | Self::Poisson(profile) => Some(profile.integrated(record_bytes)),
            Self::Max | Self::OfPeak(_) => None,
        }
    }

    /// So many records a second, evenly spaced.
    pub fn constant(records_per_second: f64) -> Self {
        Self::Constant(RateProfile::constant(Quantity::Records(records_per_second)))
    }
}

impl RateProfile {
    fn constant(rate: Quantity) -> Self {
        Self {
            stages: vec![Stage {
                from: rate,
                to: rate,
                duration: 0,
            }],
        }
    }

    fn parse(text: &str) -> Result<Self, String> {
        let profile = if let Some(ramp) = text.strip_prefix("ramp:") {
            let wrong = || format!("`{text}`: a ramp is written ramp:FROM..TO/DURATION");
            let (from, rest) = ramp.split_once("..").ok_or_else(wrong)?;
            let (to, duration) = timed(rest).ok_or_else(wrong)?;
            Self {
                stages: vec![Stage {
                    from: parse_quantity(from)?,
                    to: parse_quantity(to)?,
                    duration: duration?,
                }],
            }
        } else if let Some(steps) = text.strip_prefix("step:") {
            Self::steps(text, steps)?
        } else {
            Self::constant(parse_quantity(text)?)
        };
        let zero = |rate: Quantity| rate.records(1.0) <= 0.0;
        let last = profile.stages.last().map(|stage| stage.to);
        if last.is_none_or(zero)
            || profile
                .stages
                .iter()
                .all(|stage| zero(stage.from) && zero(stage.to))
        {
            return Err("a rate of 0 sends nothing and measures nothing; use `max` for no limit".to_owned());
        }
        Ok(profile)
    }

    /// `RATE/DURATION..RATE/DURATION..RATE`; the last one goes on.
    fn steps(text: &str, steps: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}`: steps are written step:RATE/DURATION..RATE/DURATION..RATE");
        let parts: Vec<&str> = steps.split("..").collect();
        let (last, timed_steps) = parts.split_last().ok_or_else(wrong)?;
        let mut stages = Vec::with_capacity(parts.len());
        for step in timed_steps {
            let (rate, duration) = timed(step).ok_or_else(wrong)?;
            let rate = parse_quantity(rate)?;
            stages.push(Stage {
                from: rate,
                to: rate,
                duration: duration?,
            });
        }
        stages.extend(Self::constant(parse_quantity(last)?).stages);
        if stages.len() < 2 {
            return Err(wrong());
        }
        Ok(Self { stages })
    }

    fn integrated(&self, record_bytes: f64) -> IntegratedRate {
        let mut segments = Vec::with_capacity(self.stages.len() + 1);
        let (mut start_seconds, mut start_count) = (0.0, 0.0);
        let mut push = |from: f64, to: f64, seconds: f64| {
            segments.push(Segment {
                start_seconds,
                start_count,
                from,
                slope: if seconds > 0.0 { (to - from) / seconds } else { 0.0 },
            });
            start_seconds += seconds;
            start_count += (from + to) / 2.0 * seconds;
        };
        for stage in &self.stages {
            let (from, to) = (stage.from.records(record_bytes), stage.to.records(record_bytes));
            if stage.duration > 0 {
                push(from, to, stage.duration as f64 / SECOND as f64);
            }
        }
        let last = self
            .stages
            .last()
            .map_or(0.0, |stage| stage.to.records(record_bytes));
        push(last, last, 0.0);
        IntegratedRate {
            segments: segments.into(),
        }
    }
}

/// A rate and its duration, which follows the last slash, since a byte rate may hold one of its own.
fn timed(text: &str) -> Option<(&str, Result<Nanos, String>)> {
    let (rate, duration) = text.rsplit_once('/')?;
    let duration = parse_duration(duration).and_then(|duration| match duration.as_nanos() as Nanos {
        0 => Err(format!("`{text}`: the duration is 0")),
        nanos => Ok(nanos),
    });
    Some((rate, duration))
}

/// The integral of the offered rate, and its inverse. Rates are records a second, times count from the start of the schedule.
#[derive(Clone, Debug, PartialEq)]
pub struct IntegratedRate {
    /// By their start; the last one has no slope and no end.
    segments: Arc<[Segment]>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Segment {
    start_seconds: f64,
    start_count: f64,
    from: f64,
    slope: f64,
}

impl Segment {
    fn count_after(&self, seconds: f64) -> f64 {
        self.from * seconds + self.slope * seconds * seconds / 2.0
    }
}

impl IntegratedRate {
    /// A constant rate of `records_per_second`.
    pub fn constant(records_per_second: f64) -> Self {
        RateProfile::constant(Quantity::Records(records_per_second)).integrated(1.0)
    }

    fn segment_at(&self, seconds: f64) -> &Segment {
        let after = self
            .segments
            .partition_point(|segment| segment.start_seconds <= seconds);
        &self.segments[after.saturating_sub(1)]
    }

    /// Records due in `[0, at)`, as a real number.
    pub fn count_at(&self, at: Nanos) -> f64 {
        let seconds = at as f64 / SECOND as f64;
        let segment = self.segment_at(seconds);
        segment.start_count + segment.count_after(seconds - segment.start_seconds)
    }

    /// The time at which the integral reaches `count`: when arrival number `count` is intended.
    #[inline]
    pub fn time_of(&self, count: f64) -> Nanos {
        let segment = match &*self.segments {
            [only] => only,
            segments => {
                // A segment without any rate ends with the count that it began with: the one after it is meant.
                let after = segments.partition_point(|segment| segment.start_count <= count);
                &segments[after.saturating_sub(1)]
            }
        };
        let rest = count - segment.start_count;
        let seconds = if segment.slope == 0.0 {
            rest / segment.from
        } else {
            // The positive root of slope/2 * t^2 + from * t = rest, in the form that keeps its digits when from is large.
            let root = (segment.from * segment.from + 2.0 * segment.slope * rest)
                .max(0.0)
                .sqrt();
            if rest == 0.0 {
                0.0
            } else {
                2.0 * rest / (segment.from + root)
            }
        };
        // A count of 2^53 at one nanosecond each is 104 days: f64 holds every nanosecond of any run.
        ((segment.start_seconds + seconds) * SECOND as f64).round() as Nanos
    }

    /// The rate at `at`, in records a second.
    pub fn rate_at(&self, at: Nanos) -> f64 {
        let seconds = at as f64 / SECOND as f64;
        let segment = self.segment_at(seconds);
        segment.from + segment.slope * (seconds - segment.start_seconds)
    }
}

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
            Spacing::Uneven { phase, gap } => (self.sent as f64 + phase) * gap,
            Spacing::Poisson { next, .. } => *next,
        };
        let at = self.rate.time_of(count);
        (at < self.end).then_some(at)
    }

    /// Moves on to the next arrival.
    #[inline]
    pub fn advance(&mut self) {
        self.sent += 1;
        if let Spacing::Poisson { rng, next, gap } = &mut self.spacing {
            *next += exponential(rng, *gap);
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
            Spacing::Uneven { phase, gap } => due / gap - phase - ROUNDING,
            Spacing::Poisson { gap, .. } => due / gap,
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
            .integrated(1.0)
            .unwrap();
        assert_eq!(rate.count_at(10 * SECOND), 5500.0);
        assert_eq!(rate.count_at(12 * SECOND), 7500.0);
        for count in [0.0, 1.0, 99.5, 5499.0, 5500.0, 7500.0] {
            let back = rate.count_at(rate.time_of(count));
            assert!((back - count).abs() < 1e-5, "{count} became {back}");
        }
        let from_zero = RateSpec::parse("ramp:0..1k/10s")
            .unwrap()
            .integrated(1.0)
            .unwrap();
        assert_eq!(from_zero.time_of(0.0), 0);
        assert_eq!(from_zero.time_of(1250.0), 5 * SECOND);
        assert_eq!(from_zero.rate_at(5 * SECOND), 500.0);
    }

    #[test]
    fn steps_follow_each_other() {
        let rate = RateSpec::parse("step:100/2s..1k/1s..10")
            .unwrap()
            .integrated(1.0)
            .unwrap();
        assert_eq!(
            [1, 2, 3, 13].map(|at| rate.count_at(at * SECOND)),
            [100.0, 200.0, 1200.0, 1300.0]
        );
        for count in [0.0, 1.0, 199.5, 200.0, 700.0, 1200.0, 1250.0] {
            assert!(
                (rate.count_at(rate.time_of(count)) - count).abs() < 1e-5,
                "{count}"
            );
        }
        assert_eq!(
            (rate.rate_at(SECOND), rate.rate_at(5 * SECOND / 2)),
            (100.0, 1000.0)
        );
        // A pause of the load: what is due at its end is due then, not before.
        let paused = RateSpec::parse("step:10/1s..0/1s..10")
            .unwrap()
            .integrated(1.0)
            .unwrap();
        assert_eq!(paused.time_of(10.0), 2 * SECOND);
        for wrong in ["step:10", "step:10/0s..5", "step:10..5", "step:10/1s..0", "step:"] {
            assert!(RateSpec::parse(wrong).is_err(), "{wrong}");
        }
        // A rate of both kinds: the lower one holds.
        let both = RateSpec::parse("10k,1MiB/s").unwrap();
        assert_eq!(both.integrated(1024.0).unwrap().count_at(SECOND), 1024.0);
        assert_eq!(both.integrated(10.0).unwrap().count_at(SECOND), 10_000.0);
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
