//! Whether two sides differ, from runs in pairs: A B A B.
//!
//! A run is one number (a percentile, a rate), so that what its seconds have in common does not count as evidence. The two runs of a pair
//! share the mood of the machine, so what is looked at is the logarithm of their quotient, pair by pair. Successive pairs may still resemble
//! each other; the number of them that counts is corrected by their autocorrelation. The interval is that of Student's t.

use serde::Serialize;

/// Fewer pairs than this decide nothing.
pub const PAIRS_MIN: usize = 3;

/// Sides whose quotient lies within this of 1 for certain are the same for all that matters.
const SAME_WITHIN: f64 = 0.05;

/// Among fewer pairs their correlation cannot be told from chance: they count as they are.
const CORRECTED_MIN: usize = 8;

/// No correction leaves fewer pairs than this.
const EFFECTIVE_MIN: f64 = 3.0;

/// 97.5% quantiles of Student's t for 1, 2, … degrees of freedom; beyond the table it is nearly the normal distribution's.
const STUDENT: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
];

/// What pairs of runs say about B ÷ A.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// The geometric mean of the quotients.
    pub ratio: f64,
    /// The 95% interval.
    pub low: f64,
    /// Its other end.
    pub high: f64,
    /// Pairs.
    pub pairs: usize,
    /// What follows from it.
    pub answer: Answer,
}

/// The answer to "do they differ?".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Answer {
    /// The interval leaves out 1.
    Different,
    /// The interval lies within 5% of 1.
    Same,
    /// Neither: more or quieter runs are needed.
    Inconclusive,
}

impl Comparison {
    /// Of the figures of both sides, pair by pair. `None` when there is no pair of two positive figures.
    pub fn of(a: &[f64], b: &[f64]) -> Option<Self> {
        let logs: Vec<f64> = a
            .iter()
            .zip(b)
            .filter(|(a, b)| **a > 0.0 && **b > 0.0)
            .map(|(a, b)| (b / a).ln())
            .collect();
        let count = logs.len();
        if count == 0 {
            return None;
        }
        let mean = logs.iter().sum::<f64>() / count as f64;
        let half = half_width(&logs, mean);
        let (ratio, low, high) = (mean.exp(), (mean - half).exp(), (mean + half).exp());
        let answer = if low > 1.0 || high < 1.0 {
            Answer::Different
        } else if low > 1.0 - SAME_WITHIN && high < 1.0 + SAME_WITHIN {
            Answer::Same
        } else {
            Answer::Inconclusive
        };
        Some(Self {
            ratio,
            low,
            high,
            pairs: count,
            answer,
        })
    }
}

/// Half of the interval around the mean; without end when there are too few.
fn half_width(values: &[f64], mean: f64) -> f64 {
    if values.len() < PAIRS_MIN {
        return f64::INFINITY;
    }
    let count = values.len() as f64;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let variance = squares / (count - 1.0);
    let effective = effective_count(values, mean);
    student(effective - 1.0) * (variance / effective).sqrt()
}

/// How many independent values the values are worth, by their correlation with the one before. Its estimate from few values is too low, by
/// about `(1 + 4 r) / n`, which is made up for; values that alternate are not worth more than they are.
fn effective_count(values: &[f64], mean: f64) -> f64 {
    let count = values.len() as f64;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    if squares == 0.0 || values.len() < CORRECTED_MIN {
        return count;
    }
    let products: f64 = values
        .windows(2)
        .map(|pair| (pair[0] - mean) * (pair[1] - mean))
        .sum();
    let correlation = ((count * products / squares + 1.0) / (count - 4.0)).clamp(0.0, 0.95);
    (count * (1.0 - correlation) / (1.0 + correlation)).max(EFFECTIVE_MIN)
}

/// The 97.5% quantile for `freedom` degrees, between those of the table in proportion.
fn student(freedom: f64) -> f64 {
    let below = (freedom.floor() as usize).clamp(1, STUDENT.len());
    let above = (below + 1).min(STUDENT.len());
    let share = (freedom - below as f64).clamp(0.0, 1.0);
    STUDENT[below - 1] * (1.0 - share) + STUDENT[above - 1] * share
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A standard normal value (Box and Muller).
    fn normal(random: &mut fastrand::Rng) -> f64 {
        let (u, v) = (1.0 - random.f64(), random.f64());
        (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
    }

    /// How often each answer comes of `trials` comparisons of `pairs`, B being `ratio` times A, each run with `noise` of its own, and both
    /// with a drift of the machine.
    fn answers(pairs: usize, ratio: f64, noise: f64, trials: u32) -> [f64; 3] {
        let mut random = fastrand::Rng::with_seed(7);
        let mut counts = [0_u32; 3];
        for _ in 0..trials {
            let mut drift = 0.0;
            let (mut a, mut b) = (Vec::new(), Vec::new());
            for _ in 0..pairs {
                // Half as much again from one pair to the next is nothing unusual on a shared machine.
                drift = 0.9 * drift + 0.3 * normal(&mut random);
                a.push(1000.0 * (drift + noise * normal(&mut random)).exp());
                b.push(1000.0 * ratio * (drift + noise * normal(&mut random)).exp());
            }
            let answer = Comparison::of(&a, &b).unwrap().answer;
            counts[answer as usize] += 1;
        }
        counts.map(|count| f64::from(count) / f64::from(trials))
    }

    #[test]
    fn the_same_is_seldom_called_different() {
        for pairs in [3, 5, 10] {
            let [different, ..] = answers(pairs, 1.0, 0.1, 4000);
            assert!(different < 0.065, "{pairs} pairs: {different}");
        }
        // With little noise it is not only not different: it is the same.
        let [_, same, _] = answers(10, 1.0, 0.01, 1000);
        assert!(same > 0.8, "{same}");
    }

    #[test]
    fn a_difference_is_found_where_the_noise_allows() {
        let [different, ..] = answers(5, 1.2, 0.03, 1000);
        assert!(different > 0.95, "20% among noise of 3%: {different}");
        let [different, ..] = answers(10, 0.9, 0.05, 1000);
        assert!(different > 0.75, "10% among noise of 5%, ten pairs: {different}");
    }

    #[test]
    fn too_few_or_too_noisy_runs_are_inconclusive() {
        let [.., inconclusive] = answers(3, 1.1, 0.2, 1000);
        assert!(inconclusive > 0.85, "{inconclusive}");
        let two = Comparison::of(&[1.0, 1.0], &[9.0, 9.0]).unwrap();
        assert_eq!((two.answer, two.pairs), (Answer::Inconclusive, 2));
        assert_eq!((two.low, two.high), (0.0, f64::INFINITY));
        assert!((two.ratio - 9.0).abs() < 1e-9);
        assert_eq!(Comparison::of(&[], &[1.0]), None);
        assert_eq!(Comparison::of(&[0.0], &[1.0]), None);
    }

    /// Pairs that resemble the one before are worth less than they are many: taken for independent, they call
    /// one in three of the same different.
    #[test]
    fn autocorrelation_does_not_pass_for_evidence() {
        let mut random = fastrand::Rng::with_seed(3);
        let (mut found, mut naive) = (0, 0);
        let trials = 2000;
        for _ in 0..trials {
            let mut value = normal(&mut random);
            let mut logs = Vec::new();
            for _ in 0..15 {
                value = 0.6 * value + 0.8 * normal(&mut random);
                logs.push(0.1 * value);
            }
            let b: Vec<f64> = logs.iter().map(|log| log.exp()).collect();
            let comparison = Comparison::of(&[1.0; 15], &b).unwrap();
            found += u32::from(comparison.answer == Answer::Different);
            let mean = logs.iter().sum::<f64>() / 15.0;
            let variance = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / 14.0;
            naive += u32::from(mean.abs() > student(14.0) * (variance / 15.0).sqrt());
        }
        assert!(naive > trials / 5, "{naive} of {trials}");
        assert!(found < trials / 8, "{found} of {trials}");
    }

    #[test]
    fn the_interval_is_that_of_the_book() {
        // Logarithms of 0.1, 0.2 and 0.3: mean 0.2, standard deviation 0.1.
        let b: Vec<f64> = [0.2_f64, 0.1, 0.3].iter().map(|log| log.exp()).collect();
        let found = Comparison::of(&[1.0; 3], &b).unwrap();
        assert!((found.ratio - 0.2_f64.exp()).abs() < 1e-12);
        assert_eq!(student(2.0), 4.303);
        assert!((student(2.5) - (4.303 + 3.182) / 2.0).abs() < 1e-12);
        assert_eq!(student(1000.0), 2.042);
        assert_eq!(student(0.5), 12.706);
        let half = (found.high / found.ratio).ln();
        assert!((half - 4.303 * 0.1 / 3.0_f64.sqrt()).abs() < 1e-9, "{half}");
    }
}
