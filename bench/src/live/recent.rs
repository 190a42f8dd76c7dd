//! Latencies of the last moment, coarse and cheap: for looking at while a run lasts. No result is made from them.

use crate::clock::Nanos;

/// Steps between two powers of two: a value is known to 6%.
const STEPS: usize = 16;

/// The power of two that [`STEPS`] is.
const STEP_BITS: u32 = STEPS.trailing_zeros();

/// Values below [`STEPS`] have a place each, every power of two from there on has [`STEPS`].
const PLACES: usize = (64 - STEP_BITS as usize + 1) * STEPS;

/// Counts by magnitude.
#[derive(Clone, Debug)]
pub struct Recent {
    counts: Box<[u64; PLACES]>,
    samples: u64,
}

impl Default for Recent {
    fn default() -> Self {
        Self {
            counts: Box::new([0; PLACES]),
            samples: 0,
        }
    }
}

impl Recent {
    /// Counts one latency; what is negative counts as 0 here, and as negative in the results.
    #[inline]
    pub fn record_between(&mut self, start: Nanos, end: Nanos) {
        self.counts[place(end.saturating_sub(start))] += 1;
        self.samples += 1;
    }

    /// Whether nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.samples == 0
    }

    /// Moves all counts of `other` here.
    pub fn take_from(&mut self, other: &mut Self) {
        for (count, more) in self.counts.iter_mut().zip(other.counts.iter_mut()) {
            *count += std::mem::take(more);
        }
        self.samples += std::mem::take(&mut other.samples);
    }

    /// The value that so large a share of the samples does not exceed; `None` without samples.
    pub fn at(&self, quantile: f64) -> Option<Nanos> {
        if self.samples == 0 {
            return None;
        }
        let wanted = ((quantile * self.samples as f64).ceil() as u64).clamp(1, self.samples);
        let mut seen = 0;
        let place = self.counts.iter().position(|count| {
            seen += count;
            seen >= wanted
        })?;
        Some(largest_of(place))
    }
}

fn place(value: Nanos) -> usize {
    if value < STEPS as u64 {
        return value as usize;
    }
    let power = value.ilog2();
    let step = (value >> (power - STEP_BITS)) as usize & (STEPS - 1);
    (power - STEP_BITS + 1) as usize * STEPS + step
}

/// The largest value that has this place.
fn largest_of(place: usize) -> Nanos {
    if place < STEPS {
        return place as u64;
    }
    let shift = (place / STEPS - 1) as u32;
    let first = ((STEPS + place % STEPS) as u64) << shift;
    first + ((1 << shift) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_has_a_place_that_is_6_percent_wide() {
        for value in (0..200)
            .chain((4..64).flat_map(|power| {
                let at = 1_u64 << power;
                [at - 1, at, at + at / 3]
            }))
            .chain([u64::MAX])
        {
            let largest = largest_of(place(value));
            assert!(largest >= value, "{value}");
            assert!(
                (largest - value) as f64 <= value as f64 / STEPS as f64,
                "{value} is shown as {largest}"
            );
        }
        assert_eq!(place(u64::MAX), PLACES - 1);
    }

    #[test]
    fn percentiles_of_what_was_moved_together() {
        let (mut all, mut part) = (Recent::default(), Recent::default());
        assert_eq!(all.at(0.5), None);
        for latency in 1..=10 {
            part.record_between(100, 100 + latency);
        }
        all.take_from(&mut part);
        assert!(part.is_empty());
        assert_eq!(
            (all.at(0.5), all.at(1.0), all.at(0.0)),
            (Some(5), Some(10), Some(1))
        );
    }
}
