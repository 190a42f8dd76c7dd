//! How large the values of records are.

use crate::payload::HEADER_BYTES;
use crate::units::parse_bytes;
use std::fmt;

/// No record is larger: it would fit no request.
pub(crate) const RECORD_BYTES_MAX: usize = 64 << 20;

/// The sizes of values, in bytes.
#[derive(Clone, Debug, PartialEq)]
pub enum Sizes {
    /// All the same.
    Fixed(usize),
    /// Any size of a range, its ends included.
    Uniform {
        /// The smallest.
        min: usize,
        /// The largest.
        max: usize,
    },
    /// Some sizes, each with its weight.
    Weighted(Vec<(usize, f64)>),
    /// Each record has the size that was captured.
    Captured {
        /// The mean of all.
        mean: f64,
        /// The largest.
        max: usize,
    },
}

impl Sizes {
    /// Parses `1KiB`, `100..10KiB` or `100:50,1KiB:40,64KiB:10`.
    pub fn parse(text: &str) -> Result<Self, String> {
        if let Some((min, max)) = text.split_once("..") {
            let (min, max) = (one(min)?, one(max)?);
            if min > max {
                return Err(format!("`{text}`: the smallest size is larger than the largest"));
            }
            return Ok(Self::Uniform { min, max });
        }
        if !text.contains(':') {
            return one(text).map(Self::Fixed);
        }
        let mut weighted = Vec::new();
        for part in text.split(',') {
            let (size, weight) = part
                .split_once(':')
                .ok_or_else(|| format!("`{part}` in `{text}` is no SIZE:WEIGHT"))?;
            let weight: f64 = weight
                .parse()
                .map_err(|_| format!("`{weight}` in `{text}` is no weight"))?;
            if !weight.is_finite() || weight <= 0.0 {
                return Err(format!("`{weight}` in `{text}`: a weight is above 0"));
            }
            weighted.push((one(size)?, weight));
        }
        Ok(Self::Weighted(weighted))
    }

    /// The mean size.
    pub fn mean(&self) -> f64 {
        match self {
            Self::Fixed(size) => *size as f64,
            Self::Uniform { min, max } => (min + max) as f64 / 2.0,
            Self::Weighted(sizes) => {
                let weights: f64 = sizes.iter().map(|(_, weight)| weight).sum();
                sizes
                    .iter()
                    .map(|(size, weight)| *size as f64 * weight)
                    .sum::<f64>()
                    / weights
            }
            Self::Captured { mean, .. } => *mean,
        }
    }

    /// The largest size.
    pub fn max(&self) -> usize {
        match self {
            Self::Fixed(size) => *size,
            Self::Uniform { max, .. } | Self::Captured { max, .. } => *max,
            Self::Weighted(sizes) => sizes.iter().map(|(size, _)| *size).max().unwrap_or(HEADER_BYTES),
        }
    }

    /// The next size.
    #[inline]
    pub fn draw(&self, random: &mut fastrand::Rng) -> usize {
        match self {
            Self::Fixed(size) => *size,
            Self::Uniform { min, max } => random.usize(*min..=*max),
            Self::Weighted(sizes) => {
                let weights: f64 = sizes.iter().map(|(_, weight)| weight).sum();
                let mut at = random.f64() * weights;
                for (size, weight) in sizes {
                    at -= weight;
                    if at < 0.0 {
                        return *size;
                    }
                }
                sizes.last().map_or(HEADER_BYTES, |(size, _)| *size)
            }
            // For what is not replayed: the same bytes in all.
            Self::Captured { mean, .. } => mean.round() as usize,
        }
    }
}

impl fmt::Display for Sizes {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(size) => write!(out, "{size} B"),
            Self::Uniform { min, max } => write!(out, "{min} to {max} B"),
            Self::Weighted(sizes) => {
                let parts: Vec<String> = sizes
                    .iter()
                    .map(|(size, weight)| format!("{size} B ({weight})"))
                    .collect();
                out.write_str(&parts.join(", "))
            }
            Self::Captured { mean, max } => {
                write!(out, "{mean:.0} B in the mean, {max} B at most, as captured")
            }
        }
    }
}

fn one(text: &str) -> Result<usize, String> {
    let bytes = parse_bytes(text)?;
    if bytes < HEADER_BYTES {
        return Err(format!(
            "a record needs {HEADER_BYTES} bytes for what verifies and times it"
        ));
    }
    if bytes > RECORD_BYTES_MAX {
        return Err("a record of more than 64 MiB fits no request".to_owned());
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_the_mean_of_their_draws() {
        for (text, mean, max) in [
            ("1KiB", 1024.0, 1024),
            ("100..300", 200.0, 300),
            ("100:50,1KiB:40,64KiB:10", 50.0 + 409.6 + 6553.6, 65536),
        ] {
            let sizes = Sizes::parse(text).unwrap();
            assert!((sizes.mean() - mean).abs() < 1e-6, "{text}: {}", sizes.mean());
            assert_eq!(sizes.max(), max, "{text}");
            let mut random = fastrand::Rng::with_seed(1);
            let draws = 100_000;
            let sum: usize = (0..draws).map(|_| sizes.draw(&mut random)).sum();
            let drawn = sum as f64 / f64::from(draws);
            assert!((drawn / mean - 1.0).abs() < 0.02, "{text}: {drawn}");
        }
    }

    #[test]
    fn impossible_sizes_are_refused() {
        for (text, says) in [
            ("8", "32 bytes"),
            ("100GiB", "64 MiB"),
            ("300..100", "smallest"),
            ("100:0", "above 0"),
            ("100:x", "no weight"),
            ("100:1,200", "SIZE:WEIGHT"),
        ] {
            assert!(Sizes::parse(text).unwrap_err().contains(says), "{text}");
        }
    }
}
