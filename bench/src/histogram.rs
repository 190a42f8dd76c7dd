//! Latencies as they were: three significant digits at every magnitude, nothing clamped, nothing dropped.

use crate::clock::Nanos;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};
use serde::{Deserialize, Serialize};

/// Digits kept at every magnitude.
const SIGNIFICANT_DIGITS: u8 = 3;

/// A range that spares the hot path most resizes, 1 ns to 10 ms. It grows by itself beyond, to days if need be.
const EXPECTED_MAX: Nanos = 10_000_000;

/// Points of a curve for every halving of what is above it, as the reference tools print them.
const TICKS_A_HALVING: u32 = 5;

/// One point of a percentile curve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CurvePoint {
    /// The share of samples up to the value, 0 to 1.
    pub quantile: f64,
    /// The value.
    pub value_ns: Nanos,
    /// Samples up to the value.
    pub count: u64,
}

/// A latency distribution in nanoseconds.
#[derive(Clone, Debug)]
pub struct Latencies {
    histogram: Histogram<u64>,
    negatives: u64,
}

impl Default for Latencies {
    fn default() -> Self {
        let mut histogram = Histogram::new_with_bounds(1, EXPECTED_MAX, SIGNIFICANT_DIGITS)
            .expect("bounds and digits are constants within the crate's limits");
        histogram.auto(true);
        Self {
            histogram,
            negatives: 0,
        }
    }
}

impl Latencies {
    /// Records `end - start`. A negative difference is counted apart: it says that a clock is broken, and hiding it as 0 would
    /// flatter the result.
    #[inline]
    pub fn record_between(&mut self, start: Nanos, end: Nanos) {
        self.record_many_between(start, end, 1);
    }

    /// Records `end - start` for each of `count` records.
    #[inline]
    pub fn record_many_between(&mut self, start: Nanos, end: Nanos, count: u64) {
        match end.checked_sub(start) {
            Some(latency) => self
                .histogram
                .record_n(latency, count)
                .expect("an auto-resizing histogram holds every u64"),
            None => self.negatives += count,
        }
    }

    /// Adds all samples of `other`.
    pub fn merge(&mut self, other: &Self) {
        self.histogram
            .add(&other.histogram)
            .expect("an auto-resizing histogram holds every other");
        self.negatives += other.negatives;
    }

    /// How many samples there are, the negative ones aside.
    pub fn len(&self) -> u64 {
        self.histogram.len()
    }

    /// Whether there is no sample, the negative ones aside.
    pub fn is_empty(&self) -> bool {
        self.histogram.is_empty()
    }

    /// How many differences were negative.
    pub fn negatives(&self) -> u64 {
        self.negatives
    }

    /// The value at `quantile` in 0..=1; `None` when there is no sample to answer with.
    pub fn at(&self, quantile: f64) -> Option<Nanos> {
        (!self.is_empty()).then(|| self.histogram.value_at_quantile(quantile))
    }

    /// The largest value, as recorded to three digits.
    pub fn max(&self) -> Option<Nanos> {
        (!self.is_empty()).then(|| self.histogram.max())
    }

    /// The percentiles that reports print; `None` when there are no samples.
    pub fn summary(&self) -> Option<Summary> {
        Some(Summary {
            count: self.len(),
            negatives: self.negatives,
            // Asked first: an empty histogram has no percentile, and no minimum or mean either.
            p50_ns: self.at(0.5)?,
            p90_ns: self.at(0.9)?,
            p99_ns: self.at(0.99)?,
            p999_ns: self.at(0.999)?,
            p9999_ns: self.at(0.9999)?,
            max_ns: self.max()?,
            min_ns: self.histogram.min(),
            mean_ns: self.histogram.mean(),
        })
    }

    /// All samples in a few kilobytes.
    pub(crate) fn pack(&self) -> PackedLatencies {
        let mut bytes = Vec::new();
        V2DeflateSerializer::new()
            .serialize(&self.histogram, &mut bytes)
            .expect("a vector takes all bytes, and the counts of one interval fit the format");
        PackedLatencies {
            bytes,
            negatives: self.negatives,
        }
    }

    /// The curve of all percentiles: the finer, the rarer what it stands for.
    pub fn curve(&self) -> Vec<CurvePoint> {
        let mut points: Vec<CurvePoint> = Vec::new();
        if self.is_empty() {
            return points;
        }
        for step in self.histogram.iter_quantiles(TICKS_A_HALVING) {
            let point = CurvePoint {
                quantile: step.quantile(),
                value_ns: step.value_iterated_to(),
                count: self.histogram.count_between(0, step.value_iterated_to()),
            };
            match points.last_mut() {
                // Steps without a sample between them are one step.
                Some(last) if last.value_ns == point.value_ns => *last = point,
                _ => points.push(point),
            }
        }
        points
    }

    /// A distribution that was read from a log.
    pub fn from_histogram(mut histogram: Histogram<u64>) -> Self {
        histogram.auto(true);
        Self {
            histogram,
            negatives: 0,
        }
    }

    /// The histogram itself, for the log writer.
    pub fn histogram(&self) -> &Histogram<u64> {
        &self.histogram
    }
}

/// A distribution as it is kept when nothing is recorded into it any more.
#[derive(Clone, Debug)]
pub(crate) struct PackedLatencies {
    bytes: Vec<u8>,
    negatives: u64,
}

impl PackedLatencies {
    pub(crate) fn unpack(&self) -> Latencies {
        let mut histogram: Histogram<u64> = Deserializer::new()
            .deserialize(&mut &self.bytes[..])
            .expect("these bytes were written by `pack`");
        histogram.auto(true);
        Latencies {
            histogram,
            negatives: self.negatives,
        }
    }
}

/// The percentiles of one distribution, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Samples.
    pub count: u64,
    /// Samples with a negative difference, in none of the figures below.
    pub negatives: u64,
    /// Smallest.
    pub min_ns: Nanos,
    /// Arithmetic mean.
    pub mean_ns: f64,
    /// Median.
    pub p50_ns: Nanos,
    /// 90th percentile.
    pub p90_ns: Nanos,
    /// 99th percentile.
    pub p99_ns: Nanos,
    /// 99.9th percentile.
    pub p999_ns: Nanos,
    /// 99.99th percentile.
    pub p9999_ns: Nanos,
    /// Largest.
    pub max_ns: Nanos,
}

/// The three distributions of a record's way to its acknowledgement.
#[derive(Clone, Debug, Default)]
pub struct AckLatencies {
    /// Acknowledgement minus intended time: what a user of an open system waits. The headline.
    pub response: Latencies,
    /// Acknowledgement minus submission.
    pub service: Latencies,
    /// Submission minus intended time: linger, a full window, or a tool that came late.
    pub lag: Latencies,
}

impl AckLatencies {
    /// Adds all samples of `other`.
    pub fn merge(&mut self, other: &Self) {
        self.response.merge(&other.response);
        self.service.merge(&other.service);
        self.lag.merge(&other.lag);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_clamped() {
        let mut latencies = Latencies::default();
        let two_days = 2 * 86_400 * 1_000_000_000_u64;
        latencies.record_between(0, two_days);
        latencies.record_between(0, 1);
        latencies.record_between(5, 5);
        assert_eq!(latencies.len(), 3);
        let max = latencies.max().unwrap() as f64;
        assert!((max / two_days as f64 - 1.0).abs() < 0.001);
        assert_eq!(latencies.at(0.0), Some(0));
    }

    #[test]
    fn negatives_are_counted_and_never_mixed_in() {
        let mut latencies = Latencies::default();
        latencies.record_between(10, 9);
        assert_eq!((latencies.negatives(), latencies.len()), (1, 0));
        assert!(latencies.is_empty());
        assert_eq!(latencies.summary(), None);
    }

    #[test]
    fn no_samples_have_no_percentiles() {
        assert_eq!(Latencies::default().summary(), None);
        assert_eq!(Latencies::default().at(0.5), None);
    }

    #[test]
    fn percentiles_equal_hand_computed_ones() {
        let mut latencies = Latencies::default();
        for value in 1..=1000_u64 {
            latencies.record_between(0, value);
        }
        let summary = latencies.summary().unwrap();
        assert_eq!(
            (summary.p50_ns, summary.p90_ns, summary.p99_ns, summary.p999_ns),
            (500, 900, 990, 999)
        );
        assert_eq!(
            (summary.min_ns, summary.max_ns, summary.mean_ns),
            (1, 1000, 500.5)
        );
    }

    #[test]
    fn packing_loses_nothing_and_goes_on_growing() {
        let mut latencies = Latencies::default();
        latencies.record_between(2, 1);
        for value in [0, 1, 999, 1_000_000, 60_000_000_000] {
            latencies.record_between(0, value);
        }
        let packed = latencies.pack();
        assert!(packed.bytes.len() < 1000);
        let mut unpacked = packed.unpack();
        assert_eq!(unpacked.summary(), latencies.summary());
        unpacked.record_between(0, 1_000_000_000_000);
        assert_eq!((unpacked.len(), unpacked.negatives()), (6, 1));
        assert_eq!(Latencies::default().pack().unpack().summary(), None);
    }

    #[test]
    fn merged_parts_equal_the_whole() {
        let (mut whole, mut left, mut right) =
            (Latencies::default(), Latencies::default(), Latencies::default());
        let mut rng = fastrand::Rng::with_seed(1);
        for index in 0..10_000 {
            let value = rng.u64(0..50_000_000_000);
            whole.record_between(0, value);
            if index % 3 == 0 { &mut left } else { &mut right }.record_between(0, value);
        }
        left.merge(&right);
        assert_eq!(left.summary(), whole.summary());
    }
}
