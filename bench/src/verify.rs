//! Whether what was acknowledged can be read back: every record once, in order, unchanged.
//!
//! The sender keeps a [`Ledger`] of what it sent and what was acknowledged, the consumer a [`SequenceTracker`] of what it saw, both for
//! each (producer, partition). [`Verification`] holds one against the other at the end of the run.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

/// Identifies a sequence: one sender's records in one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SequenceId {
    /// The sender.
    pub producer: u32,
    /// The partition.
    pub partition: i32,
}

/// What one sender sent to one partition. Sequences count from 0 without holes.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    sent: u64,
    unacknowledged: Vec<Range<u64>>,
}

impl Ledger {
    /// Notes that the `count` records after the last were submitted.
    pub fn submitted(&mut self, count: u64) {
        self.sent += count;
    }

    /// Notes that `sequences` were refused, or that their answer never came: they may or may not be in the log.
    pub fn not_acknowledged(&mut self, sequences: Range<u64>) {
        match self.unacknowledged.last_mut() {
            Some(last) if last.end == sequences.start => last.end = sequences.end,
            _ => self.unacknowledged.push(sequences),
        }
    }

    /// Records submitted.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Records submitted and acknowledged.
    pub fn acknowledged(&self) -> u64 {
        self.sent
            - self
                .unacknowledged
                .iter()
                .map(|range| range.end - range.start)
                .sum::<u64>()
    }

    /// How many of `sequences` were acknowledged.
    fn acknowledged_among(&self, sequences: &Range<u64>) -> u64 {
        let refused: u64 = self
            .unacknowledged
            .iter()
            .map(|range| {
                range
                    .end
                    .min(sequences.end)
                    .saturating_sub(range.start.max(sequences.start))
            })
            .sum();
        sequences.end - sequences.start - refused
    }
}

/// What a consumer saw of one sequence.
#[derive(Clone, Debug, Default)]
pub struct SequenceTracker {
    next: u64,
    gaps: BTreeMap<u64, u64>,
    received: u64,
    duplicates: u64,
    reordered: u64,
}

impl SequenceTracker {
    /// Takes note of one record, in the order of delivery.
    #[inline]
    pub fn observe(&mut self, sequence: u64) {
        self.received += 1;
        if sequence == self.next {
            self.next += 1;
        } else if sequence > self.next {
            self.gaps.insert(self.next, sequence);
            self.next = sequence + 1;
        } else {
            self.late(sequence);
        }
    }

    /// A record below the highest seen: it fills a gap out of order, or it was there before.
    fn late(&mut self, sequence: u64) {
        let gap = self
            .gaps
            .range(..=sequence)
            .next_back()
            .map(|(&start, &end)| (start, end));
        match gap {
            Some((start, end)) if sequence < end => {
                self.reordered += 1;
                self.gaps.remove(&start);
                if start < sequence {
                    self.gaps.insert(start, sequence);
                }
                if sequence + 1 < end {
                    self.gaps.insert(sequence + 1, end);
                }
            }
            _ => self.duplicates += 1,
        }
    }

    /// Distinct records seen.
    pub fn distinct(&self) -> u64 {
        self.received - self.duplicates
    }

    /// Adds what another reader of the same sequence saw. What both saw counts as seen twice.
    pub fn absorb(&mut self, other: &Self) {
        let distinct = self.distinct() + other.distinct();
        let next = self.next.max(other.next);
        let mut gaps = BTreeMap::new();
        // Missing is what neither saw.
        for mine in self.missing(next) {
            for theirs in other.missing(next) {
                let (start, end) = (mine.start.max(theirs.start), mine.end.min(theirs.end));
                if start < end {
                    gaps.insert(start, end);
                }
            }
        }
        let missing: u64 = gaps.iter().map(|(start, end)| end - start).sum();
        self.received += other.received;
        self.duplicates += other.duplicates + (distinct - (next - missing));
        self.reordered += other.reordered;
        (self.next, self.gaps) = (next, gaps);
    }

    /// The sequences below `sent` that never came.
    fn missing(&self, sent: u64) -> impl Iterator<Item = Range<u64>> + '_ {
        let tail = (self.next < sent).then_some(self.next..sent);
        self.gaps.iter().map(|(&start, &end)| start..end).chain(tail)
    }
}

/// What all consumers saw.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// By sequence.
    pub sequences: HashMap<SequenceId, SequenceTracker>,
    /// Records whose checksum is wrong.
    pub corrupt: u64,
    /// Records whose offset was not above the one before it in its partition.
    pub offsets_not_rising: u64,
}

impl Observed {
    /// Adds what another consumer saw. Consumers share no partition.
    pub fn merge(&mut self, other: Self) {
        self.sequences.extend(other.sequences);
        self.corrupt += other.corrupt;
        self.offsets_not_rising += other.offsets_not_rising;
    }

    /// Distinct records seen.
    pub fn distinct(&self) -> u64 {
        self.sequences.values().map(SequenceTracker::distinct).sum()
    }
}

/// The result of holding what was read against what was acknowledged.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Verification {
    /// Records submitted.
    pub sent: u64,
    /// Records acknowledged.
    pub acknowledged: u64,
    /// Records read back, duplicates included.
    pub received: u64,
    /// Acknowledged and not there: lost.
    pub acknowledged_missing: u64,
    /// Read more than once.
    pub duplicates: u64,
    /// Read after a record that was sent later.
    pub reordered: u64,
    /// Read with a wrong checksum.
    pub corrupt: u64,
    /// Read at an offset not above the one before.
    pub offsets_not_rising: u64,
    /// Read and never sent by this run: sequences beyond the last, or of an unknown producer.
    pub invented: u64,
    /// Not acknowledged, and read all the same: allowed, since an answer may be lost after the append.
    pub unacknowledged_present: u64,
}

impl Verification {
    /// Holds `observed` against the ledgers of all senders.
    pub fn of(ledgers: &HashMap<SequenceId, Ledger>, observed: &Observed) -> Self {
        let mut result = Self {
            corrupt: observed.corrupt,
            offsets_not_rising: observed.offsets_not_rising,
            ..Self::default()
        };
        let nothing_seen = SequenceTracker::default();
        for (id, ledger) in ledgers {
            let seen = observed.sequences.get(id).unwrap_or(&nothing_seen);
            result.sent += ledger.sent();
            result.acknowledged += ledger.acknowledged();
            let (mut missing, mut lost) = (0, 0);
            for range in seen.missing(ledger.sent()) {
                let range = range.start..range.end.min(ledger.sent());
                if range.start < range.end {
                    missing += range.end - range.start;
                    lost += ledger.acknowledged_among(&range);
                }
            }
            result.acknowledged_missing += lost;
            result.unacknowledged_present += ledger.sent() - ledger.acknowledged() - (missing - lost);
        }
        for (id, seen) in &observed.sequences {
            result.received += seen.received;
            result.duplicates += seen.duplicates;
            result.reordered += seen.reordered;
            let sent = ledgers.get(id).map_or(0, Ledger::sent);
            result.invented += seen.next.saturating_sub(sent);
        }
        result
    }

    /// What a group is held to: delivery at least once. Records that came again after a rebalance are no fault.
    pub fn passed_at_least_once(&self) -> bool {
        Self {
            duplicates: 0,
            offsets_not_rising: 0,
            ..self.clone()
        }
        .passed()
    }

    /// Adds what another run found of its own records.
    pub fn add(&mut self, other: &Self) {
        self.sent += other.sent;
        self.acknowledged += other.acknowledged;
        self.received += other.received;
        self.acknowledged_missing += other.acknowledged_missing;
        self.duplicates += other.duplicates;
        self.reordered += other.reordered;
        self.corrupt += other.corrupt;
        self.offsets_not_rising += other.offsets_not_rising;
        self.invented += other.invented;
        self.unacknowledged_present += other.unacknowledged_present;
    }

    /// Whether every promise was kept.
    pub fn passed(&self) -> bool {
        self.acknowledged_missing == 0
            && self.duplicates == 0
            && self.reordered == 0
            && self.corrupt == 0
            && self.offsets_not_rising == 0
            && self.invented == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ID: SequenceId = SequenceId {
        producer: 0,
        partition: 0,
    };

    fn verify(ledger: &Ledger, delivered: impl IntoIterator<Item = u64>) -> Verification {
        let mut tracker = SequenceTracker::default();
        delivered
            .into_iter()
            .for_each(|sequence| tracker.observe(sequence));
        let observed = Observed {
            sequences: HashMap::from([(ID, tracker)]),
            ..Observed::default()
        };
        Verification::of(&HashMap::from([(ID, ledger.clone())]), &observed)
    }

    fn ledger(sent: u64) -> Ledger {
        let mut ledger = Ledger::default();
        ledger.submitted(sent);
        ledger
    }

    #[test]
    fn all_in_order_passes() {
        let result = verify(&ledger(1000), 0..1000);
        assert!(result.passed());
        assert_eq!(
            (result.sent, result.acknowledged, result.received),
            (1000, 1000, 1000)
        );
    }

    #[test]
    fn loss_is_found_at_the_start_in_the_middle_and_at_the_end() {
        assert_eq!(verify(&ledger(10), 1..10).acknowledged_missing, 1);
        assert_eq!(verify(&ledger(10), (0..4).chain(6..10)).acknowledged_missing, 2);
        assert_eq!(verify(&ledger(10), 0..7).acknowledged_missing, 3);
        assert_eq!(verify(&ledger(10), []).acknowledged_missing, 10);
        assert!(!verify(&ledger(10), 0..9).passed());
    }

    #[test]
    fn a_refused_record_may_be_missing_or_present() {
        let mut ledger = ledger(10);
        ledger.not_acknowledged(3..6);
        assert!(verify(&ledger, (0..3).chain(6..10)).passed());
        let present = verify(&ledger, 0..10);
        assert!(present.passed());
        assert_eq!((present.unacknowledged_present, present.acknowledged), (3, 7));
        // One of the refused and one of the acknowledged missing: only the latter is a loss.
        assert_eq!(verify(&ledger, (0..5).chain(7..10)).acknowledged_missing, 1);
    }

    #[test]
    fn duplicates_and_reordering_are_told_apart() {
        let duplicated = verify(&ledger(5), [0, 1, 1, 2, 3, 4, 0]);
        assert_eq!(
            (
                duplicated.duplicates,
                duplicated.reordered,
                duplicated.acknowledged_missing
            ),
            (2, 0, 0)
        );
        let swapped = verify(&ledger(5), [0, 2, 1, 3, 4]);
        assert_eq!(
            (
                swapped.duplicates,
                swapped.reordered,
                swapped.acknowledged_missing
            ),
            (0, 1, 0)
        );
        assert!(!duplicated.passed() && !swapped.passed());
    }

    #[test]
    fn two_readers_of_one_sequence_are_one() {
        let seen = |sequences: &[u64]| {
            let mut tracker = SequenceTracker::default();
            sequences.iter().for_each(|&sequence| tracker.observe(sequence));
            tracker
        };
        let mut both = seen(&[0, 1, 2, 5]);
        both.absorb(&seen(&[2, 3, 5, 7]));
        assert_eq!((both.next, both.received, both.duplicates), (8, 8, 2));
        assert_eq!(both.missing(9).collect::<Vec<_>>(), [4..5, 6..7, 8..9]);
        both.absorb(&SequenceTracker::default());
        assert_eq!((both.next, both.duplicates), (8, 2));
    }

    #[test]
    fn records_never_sent_are_found() {
        assert_eq!(verify(&ledger(3), 0..5).invented, 2);
    }

    proptest! {
        /// Whatever faults are injected, the counts are those of the naive definition.
        #[test]
        fn counts_match_the_definition(delivered in proptest::collection::vec(0_u64..40, 0..80)) {
            let result = verify(&ledger(40), delivered.iter().copied());
            let mut seen = std::collections::HashSet::new();
            let (mut duplicates, mut reordered, mut highest) = (0, 0, None);
            for &sequence in &delivered {
                if !seen.insert(sequence) {
                    duplicates += 1;
                } else if Some(sequence) < highest {
                    reordered += 1;
                }
                highest = highest.max(Some(sequence));
            }
            prop_assert_eq!(result.duplicates, duplicates);
            prop_assert_eq!(result.reordered, reordered);
            prop_assert_eq!(result.acknowledged_missing, 40 - seen.len() as u64);
        }
    }
}
