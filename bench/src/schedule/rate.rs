//! The offered rate: as it is typed, and as the integral over time that the schedule inverts.

use crate::clock::{Nanos, SECOND};
use crate::units::{Quantity, parse_duration, parse_quantity};
use std::sync::Arc;

/// How records are offered.
#[derive(Clone, Debug, PartialEq)]
pub enum RateSpec {
    /// Evenly spaced arrivals.
    Constant(RateProfile),
    /// Independent arrivals (a Poisson process) at the same mean rate.
    Poisson(RateProfile),
    /// As fast as the window allows: a closed loop, whose response time is its service time.
    Max,
    /// As it was captured: every record has its own time.
    Captured,
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
        if text == "captured" {
            return Ok(Self::Captured);
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
            Self::Max | Self::OfPeak(_) | Self::Captured => None,
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

    /// So many records in each step of `seconds`; after the last the mean goes on.
    pub fn from_counts(seconds: f64, counts: &[u64]) -> Self {
        let mut segments = Vec::with_capacity(counts.len() + 1);
        let mut before = 0_u64;
        for (step, &count) in counts.iter().enumerate() {
            segments.push(Segment {
                start_seconds: step as f64 * seconds,
                start_count: before as f64,
                from: count as f64 / seconds,
                slope: 0.0,
            });
            before += count;
        }
        let all = counts.len().max(1) as f64 * seconds;
        segments.push(Segment {
            start_seconds: counts.len() as f64 * seconds,
            start_count: before as f64,
            from: (before as f64 / all).max(f64::MIN_POSITIVE),
            slope: 0.0,
        });
        Self {
            segments: segments.into(),
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_zero_is_refused() {
        for text in ["0", "0k", "0MiB/s", "poisson:0", "ramp:10..0/1s"] {
            assert!(RateSpec::parse(text).unwrap_err().contains("rate of 0"), "{text}");
        }
        assert!(RateSpec::parse("ramp:0..10").is_err());
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
}
