//! Keys of records, and with them how records spread over partitions.
//!
//! A keyed record goes where Kafka's partitioner puts its key (murmur2). The keys of each partition, and the part of all records that they
//! take, are known before the run: so each partition keeps a schedule of its own, and a slow one delays no other.

use crate::schedule::Portion;
use std::fmt;
use std::sync::Arc;
use strandline_wire::murmur2::partition_for_key;

/// More keys than this are not told apart by any broker, and take memory here.
const KEYS_MAX: u64 = 10_000_000;

/// Which keys records have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Keys {
    /// None: partitions are filled evenly.
    None,
    /// So many, one after the other.
    RoundRobin(u64),
    /// So many, each as likely as any other.
    Random(u64),
    /// So many, key number n (from 1) as likely as n to the power of minus the exponent.
    Zipf(u64, f64),
}

impl Keys {
    /// Parses `none`, `round-robin:N`, `random:N`, `zipf:N` or `zipf:N:EXPONENT`.
    pub fn parse(text: &str) -> Result<Self, String> {
        const SYNTAX: &str = "keys are none, round-robin:N, random:N, zipf:N or zipf:N:EXPONENT";
        let wrong = || format!("`{text}`: {SYNTAX}");
        let Some((kind, rest)) = text.split_once(':') else {
            return if text == "none" {
                Ok(Self::None)
            } else {
                Err(wrong())
            };
        };
        let (count, exponent) = match rest.split_once(':') {
            Some((count, exponent)) if kind == "zipf" => (count, exponent),
            Some(_) => return Err(wrong()),
            None => (rest, "1"),
        };
        let count: u64 = count.replace('_', "").parse().map_err(|_| wrong())?;
        let exponent: f64 = exponent.parse().map_err(|_| wrong())?;
        if count == 0 || count > KEYS_MAX {
            return Err(format!("`{text}`: between 1 and {KEYS_MAX} keys"));
        }
        if !exponent.is_finite() || exponent < 0.0 {
            return Err(format!("`{text}`: the exponent is 0 or more"));
        }
        match kind {
            "round-robin" => Ok(Self::RoundRobin(count)),
            "random" => Ok(Self::Random(count)),
            "zipf" => Ok(Self::Zipf(count, exponent)),
            _ => Err(wrong()),
        }
    }

    fn count(self) -> u64 {
        match self {
            Self::None => 0,
            Self::RoundRobin(count) | Self::Random(count) | Self::Zipf(count, _) => count,
        }
    }

    fn weight(self, key: u64) -> f64 {
        match self {
            Self::Zipf(_, exponent) => ((key + 1) as f64).powf(-exponent),
            _ => 1.0,
        }
    }
}

impl fmt::Display for Keys {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => out.write_str("none"),
            Self::RoundRobin(count) => write!(out, "{count} in turn"),
            Self::Random(count) => write!(out, "{count} at random"),
            Self::Zipf(count, exponent) => write!(out, "{count}, Zipf with exponent {exponent}"),
        }
    }
}

/// The keys of all partitions of a topic.
#[derive(Clone, Debug)]
pub struct KeySpace {
    keys: Keys,
    partitions: Vec<Arc<PartitionKeys>>,
}

/// The keys that go to one partition.
#[derive(Debug)]
pub struct PartitionKeys {
    in_turn: bool,
    keys: Vec<u64>,
    /// The sum of weights up to each key.
    cumulated: Vec<f64>,
    portion: Portion,
}

impl KeySpace {
    /// The keys of a topic with so many partitions; `None` when records have none.
    pub fn new(keys: Keys, partitions: u32) -> Option<Self> {
        if keys == Keys::None {
            return None;
        }
        let mut lists: Vec<(Vec<u64>, Vec<f64>)> = vec![Default::default(); partitions as usize];
        let mut whole = 0.0;
        for key in 0..keys.count() {
            let weight = keys.weight(key);
            whole += weight;
            let partition = partition_for_key(&bytes_of(key), partitions).unwrap_or(0);
            let (list, cumulated) = &mut lists[partition as usize];
            list.push(key);
            let before = cumulated.last().copied().unwrap_or(0.0);
            cumulated.push(before + weight);
        }
        let mut from = 0.0;
        let partitions = lists
            .into_iter()
            .map(|(list, cumulated)| {
                let to = from + cumulated.last().copied().unwrap_or(0.0) / whole;
                let portion = Portion { from, to };
                from = to;
                Arc::new(PartitionKeys {
                    in_turn: matches!(keys, Keys::RoundRobin(_)),
                    keys: list,
                    cumulated,
                    portion,
                })
            })
            .collect();
        Some(Self { keys, partitions })
    }

    /// The keys of one partition.
    pub fn partition(&self, index: usize) -> Arc<PartitionKeys> {
        Arc::clone(&self.partitions[index])
    }

    /// What they were made from.
    pub fn keys(&self) -> Keys {
        self.keys
    }
}

impl PartitionKeys {
    /// The part of all records that goes here.
    pub fn portion(&self) -> Portion {
        self.portion
    }

    /// The key of the record with that number in this partition.
    #[inline]
    pub fn key(&self, sequence: u64, random: &mut fastrand::Rng) -> [u8; 8] {
        let at = if self.in_turn {
            sequence as usize % self.keys.len().max(1)
        } else {
            let whole = self.cumulated.last().copied().unwrap_or(0.0);
            let point = random.f64() * whole;
            self.cumulated.partition_point(|&until| until <= point)
        };
        // A partition without keys has no records either.
        bytes_of(self.keys.get(at).or(self.keys.last()).copied().unwrap_or(0))
    }
}

/// A key on the wire: its number, eight bytes.
fn bytes_of(key: u64) -> [u8; 8] {
    key.to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn keys_go_to_their_partitions_as_often_as_they_should() {
        for keys in [Keys::RoundRobin(1000), Keys::Random(1000), Keys::Zipf(1000, 1.0)] {
            let space = KeySpace::new(keys, 5).unwrap();
            let mut random = fastrand::Rng::with_seed(1);
            let mut seen: HashMap<u64, u64> = HashMap::new();
            let mut ends = 0.0;
            for index in 0..5 {
                let partition = space.partition(index);
                let portion = partition.portion();
                assert!((portion.from - ends).abs() < 1e-12);
                ends = portion.to;
                let records = ((portion.to - portion.from) * 200_000.0).round() as u64;
                for sequence in 0..records {
                    let key = partition.key(sequence, &mut random);
                    assert_eq!(partition_for_key(&key, 5), Some(index as u32));
                    *seen.entry(u64::from_be_bytes(key)).or_default() += 1;
                }
            }
            assert!((ends - 1.0).abs() < 1e-9);
            let most = seen.values().copied().max().unwrap();
            if let Keys::Zipf(..) = keys {
                // The harmonic number of 1000 is 7.49: the first key takes 13.4%.
                assert!(
                    seen[&0] == most && (seen[&0] as f64 / 26_718.0 - 1.0).abs() < 0.05,
                    "{most}"
                );
            } else {
                assert!(seen.len() == 1000 && most < 300, "{keys:?}: {most}");
            }
        }
        assert!(KeySpace::new(Keys::None, 5).is_none());
    }

    #[test]
    fn keys_are_parsed() {
        assert_eq!(Keys::parse("zipf:1_000"), Ok(Keys::Zipf(1000, 1.0)));
        assert_eq!(Keys::parse("zipf:10:0.8"), Ok(Keys::Zipf(10, 0.8)));
        assert_eq!(Keys::parse("none"), Ok(Keys::None));
        for wrong in [
            "",
            "random",
            "random:0",
            "random:x",
            "random:5:1",
            "zipf:5:-1",
            "what:5",
            "random:99999999",
        ] {
            assert!(Keys::parse(wrong).is_err(), "{wrong}");
        }
    }
}
