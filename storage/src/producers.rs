//! What a log knows of its idempotent producers (KIP-98): each one's epoch and last five batches. Pure.
//!
//! The rules are Kafka's: a batch whose sequences equal one of the last five is a duplicate and gets that
//! one's answer; otherwise its first sequence follows the last one, with the wrap from `i32::MAX` to 0; a
//! new epoch starts at 0; of a producer that is not known, any sequence is accepted.

use std::collections::HashMap;

use strandline_wire::batch::BatchHeader;

use crate::error::AppendError;
use crate::format::piece::ProducerBatch;
use crate::format::snapshot::{BatchSnapshot, ProducerSnapshot};

/// How many batches of a producer are remembered: clients keep at most five in flight.
pub const BATCHES_REMEMBERED: usize = 5;

/// One producer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Producer {
    /// Its epoch.
    pub epoch: i16,
    /// When its last batch was appended here, or replayed: client timestamps say nothing of idleness.
    pub last_append_ms: i64,
    count: u8,
    batches: [BatchSnapshot; BATCHES_REMEMBERED],
}

const NO_BATCH: BatchSnapshot = BatchSnapshot {
    base_offset: -1,
    timestamp: -1,
    base_sequence: -1,
    last_offset_delta: 0,
};

impl Producer {
    fn new(epoch: i16) -> Self {
        Self {
            epoch,
            last_append_ms: -1,
            count: 0,
            batches: [NO_BATCH; BATCHES_REMEMBERED],
        }
    }

    /// Its last batches, oldest first.
    pub fn batches(&self) -> &[BatchSnapshot] {
        &self.batches[..usize::from(self.count)]
    }

    fn push(&mut self, batch: BatchSnapshot) {
        if usize::from(self.count) == BATCHES_REMEMBERED {
            self.batches.rotate_left(1);
            self.count -= 1;
        }
        self.batches[usize::from(self.count)] = batch;
        self.count += 1;
    }
}

fn last_sequence(batch: &BatchSnapshot) -> i32 {
    ((i64::from(batch.base_sequence) + i64::from(batch.last_offset_delta)) & i64::from(i32::MAX)) as i32
}

fn follows(last: i32, next: i32) -> bool {
    next == if last == i32::MAX { 0 } else { last + 1 }
}

/// The producers of one log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Producers(HashMap<i64, Producer>);

impl Producers {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All of them, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (i64, &Producer)> {
        self.0.iter().map(|(id, producer)| (*id, producer))
    }

    /// The last offset of each one's newest batch.
    pub fn last_offsets(&self) -> HashMap<i64, i64> {
        let newest = self
            .iter()
            .filter_map(|(id, producer)| Some((id, producer.batches().last()?)));
        newest
            .map(|(id, batch)| (id, batch.base_offset + i64::from(batch.last_offset_delta)))
            .collect()
    }

    /// Whether a produced batch may be appended at `now_ms`.
    ///
    /// # Errors
    /// [`AppendError`]: a duplicate with its first answer, a gap, or an old epoch.
    pub fn check(&self, batch: &BatchHeader, now_ms: i64, expiration_ms: i64) -> Result<(), AppendError> {
        if !batch.has_producer_id() {
            return Ok(());
        }
        let Some(known) = self.0.get(&batch.producer_id) else {
            return Ok(());
        };
        if is_expired(known, now_ms, expiration_ms) {
            return Ok(());
        }
        if batch.producer_epoch < known.epoch {
            return Err(AppendError::InvalidProducerEpoch {
                producer_id: batch.producer_id,
                epoch: batch.producer_epoch,
                current: known.epoch,
            });
        }
        let out_of_order = |last| AppendError::OutOfOrderSequence {
            producer_id: batch.producer_id,
            sequence: batch.base_sequence,
            last,
        };
        if batch.producer_epoch > known.epoch {
            return if batch.base_sequence == 0 {
                Ok(())
            } else {
                Err(out_of_order(-1))
            };
        }
        let same = |first: &&BatchSnapshot| {
            first.base_sequence == batch.base_sequence && last_sequence(first) == batch.last_sequence()
        };
        if let Some(first) = known.batches().iter().find(same) {
            return Err(AppendError::Duplicate {
                base_offset: first.base_offset,
                last_offset: first.base_offset + i64::from(first.last_offset_delta),
                timestamp: first.timestamp,
            });
        }
        match known.batches().last() {
            Some(last) if !follows(last_sequence(last), batch.base_sequence) => {
                Err(out_of_order(last_sequence(last)))
            }
            _ => Ok(()),
        }
    }

    /// Takes note of a batch appended or replayed at `now_ms`.
    pub fn apply(&mut self, batch: &ProducerBatch, now_ms: i64) {
        let producer = self
            .0
            .entry(batch.producer_id)
            .or_insert_with(|| Producer::new(batch.epoch));
        let last = producer.batches().last().map(last_sequence);
        // After an epoch's start, an expiry or an accepted loss, what came before matches nothing any more.
        if producer.epoch != batch.epoch || last.is_some_and(|last| !follows(last, batch.base_sequence)) {
            *producer = Producer::new(batch.epoch);
        }
        producer.push(BatchSnapshot {
            base_offset: batch.base_offset,
            timestamp: batch.timestamp,
            base_sequence: batch.base_sequence,
            last_offset_delta: batch.last_offset_delta,
        });
        producer.last_append_ms = now_ms;
    }

    /// Forgets producers whose last batch is older than the expiration (`producer.id.expiration.ms`).
    pub fn expire(&mut self, now_ms: i64, expiration_ms: i64) {
        self.0
            .retain(|_, producer| !is_expired(producer, now_ms, expiration_ms));
    }

    /// For a snapshot, by producer id.
    pub fn snapshot(&self) -> Vec<ProducerSnapshot> {
        let mut producers: Vec<_> = self
            .iter()
            .map(|(producer_id, producer)| ProducerSnapshot {
                producer_id,
                epoch: producer.epoch,
                last_append_ms: producer.last_append_ms,
                batches: producer.batches().to_vec(),
            })
            .collect();
        producers.sort_by_key(|producer| producer.producer_id);
        producers
    }

    /// From a snapshot. Batches beyond the remembered number are taken as older ones.
    pub fn restore(snapshot: &[ProducerSnapshot]) -> Self {
        let mut producers = HashMap::with_capacity(snapshot.len());
        for known in snapshot {
            let mut producer = Producer::new(known.epoch);
            known.batches.iter().for_each(|batch| producer.push(*batch));
            producer.last_append_ms = known.last_append_ms;
            producers.insert(known.producer_id, producer);
        }
        Self(producers)
    }
}

fn is_expired(producer: &Producer, now_ms: i64, expiration_ms: i64) -> bool {
    now_ms.saturating_sub(producer.last_append_ms) >= expiration_ms
}

/// What a batch does to the producers; `None` for one without a producer id.
pub fn producer_batch(header: &BatchHeader, base_offset: i64) -> Option<ProducerBatch> {
    // Markers of transactions carry a producer id but no sequence.
    (header.has_producer_id() && !header.is_control()).then_some(ProducerBatch {
        producer_id: header.producer_id,
        base_offset,
        timestamp: header.max_timestamp,
        base_sequence: header.base_sequence,
        last_offset_delta: header.last_offset_delta,
        epoch: header.producer_epoch,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DAY: i64 = 86_400_000;

    fn batch(epoch: i16, base_sequence: i32, count: i32) -> BatchHeader {
        BatchHeader {
            base_offset: 0,
            batch_length: 49,
            partition_leader_epoch: -1,
            magic: 2,
            crc: 0,
            attributes: 0,
            last_offset_delta: count - 1,
            base_timestamp: 1000,
            max_timestamp: 1000,
            producer_id: 9,
            producer_epoch: epoch,
            base_sequence,
            record_count: count,
        }
    }

    fn append(producers: &mut Producers, header: &BatchHeader, offset: i64) -> Result<(), AppendError> {
        producers.check(header, 1000, DAY)?;
        producers.apply(&producer_batch(header, offset).expect("idempotent"), 1000);
        Ok(())
    }

    #[test]
    fn the_last_five_are_duplicates_and_the_sixth_is_out_of_order() {
        let mut producers = Producers::default();
        for at in 0..6 {
            append(&mut producers, &batch(0, at * 2, 2), i64::from(at) * 2).expect("in order");
        }
        for at in 1..6 {
            let base_offset = i64::from(at) * 2;
            let again = Err(AppendError::Duplicate {
                base_offset,
                last_offset: base_offset + 1,
                timestamp: 1000,
            });
            assert_eq!(append(&mut producers, &batch(0, at * 2, 2), 99), again);
        }
        let first = append(&mut producers, &batch(0, 0, 2), 99);
        assert!(matches!(
            first,
            Err(AppendError::OutOfOrderSequence { last: 11, .. })
        ));
        let gap = append(&mut producers, &batch(0, 13, 1), 99);
        assert!(matches!(gap, Err(AppendError::OutOfOrderSequence { .. })));
    }

    #[test]
    fn sequences_wrap_to_zero() {
        let mut producers = Producers::default();
        append(&mut producers, &batch(0, i32::MAX - 1, 2), 0).expect("unknown producer: any sequence");
        append(&mut producers, &batch(0, 0, 3), 2).expect("after the largest comes 0");
        let mut producers = Producers::default();
        append(&mut producers, &batch(0, i32::MAX, 3), 0).expect("a batch may wrap inside");
        append(&mut producers, &batch(0, 2, 1), 3).expect("follows 1");
        let again = append(&mut producers, &batch(0, i32::MAX, 3), 9);
        assert_eq!(
            again,
            Err(AppendError::Duplicate {
                base_offset: 0,
                last_offset: 2,
                timestamp: 1000
            })
        );
    }

    #[test]
    fn epochs_fence_and_start_at_zero() {
        let mut producers = Producers::default();
        append(&mut producers, &batch(3, 7, 1), 0).expect("unknown producer");
        let old = append(&mut producers, &batch(2, 8, 1), 1);
        assert_eq!(
            old,
            Err(AppendError::InvalidProducerEpoch {
                producer_id: 9,
                epoch: 2,
                current: 3
            })
        );
        let gap = append(&mut producers, &batch(4, 1, 1), 1);
        assert!(matches!(gap, Err(AppendError::OutOfOrderSequence { .. })));
        append(&mut producers, &batch(4, 0, 1), 1).expect("a new epoch starts at 0");
        let old = append(&mut producers, &batch(3, 7, 1), 2);
        assert!(
            matches!(old, Err(AppendError::InvalidProducerEpoch { .. })),
            "not a duplicate any more"
        );
    }

    #[test]
    fn an_expired_producer_is_unknown() {
        let mut producers = Producers::default();
        append(&mut producers, &batch(0, 0, 1), 0).expect("unknown");
        producers
            .check(&batch(0, 6, 1), 1000 + DAY, DAY)
            .expect("expired: any sequence");
        producers.expire(1000 + DAY, DAY);
        assert!(producers.is_empty());
    }

    proptest! {
        #[test]
        fn a_snapshot_keeps_every_answer(counts in proptest::collection::vec(1i32..4, 1..12), probe in 0i32..40, count in 1i32..4) {
            let mut producers = Producers::default();
            let mut sequence = 0;
            for count in counts {
                append(&mut producers, &batch(0, sequence, count), i64::from(sequence)).expect("in order");
                sequence += count;
            }
            let restored = Producers::restore(&producers.snapshot());
            prop_assert_eq!(&restored, &producers);
            let probe = batch(0, probe, count);
            prop_assert_eq!(restored.check(&probe, 1000, DAY), producers.check(&probe, 1000, DAY));
        }

        #[test]
        fn five_in_flight_and_retried_are_stored_once(
            start in prop_oneof![Just(0), i32::MAX - 12..=i32::MAX],
            sizes in proptest::collection::vec(1i32..4, 12),
            order in proptest::collection::vec((0usize..5, 0i32..3), 1..60),
        ) {
            // Up to five batches are in flight; any of them is sent again at any time, or one that never was theirs.
            // Sequences wrap from the largest to 0, also inside a batch.
            let sequence = |records: i32| (i64::from(start) + i64::from(records)) as i32 & i32::MAX;
            let base = |at: usize| sizes[..at].iter().sum::<i32>();
            let mut producers = Producers::default();
            let mut stored = 0usize;
            for (behind, shift) in order {
                // From four batches back to the next one and beyond it.
                let at = (stored + 1).saturating_sub(behind).min(sizes.len() - 1);
                let header = batch(0, sequence(base(at) + shift), sizes[at]);
                match append(&mut producers, &header, i64::from(base(at))) {
                    Ok(()) => {
                        // Of a producer that is not known, any sequence is the first.
                        prop_assert!(stored == 0 || base(at) + shift == base(stored), "{at} after {stored}");
                        if at != stored || shift != 0 {
                            return Ok(());
                        }
                        stored += 1;
                    }
                    Err(AppendError::Duplicate { base_offset, last_offset, .. }) => {
                        let first = (0..stored).find(|first| i64::from(base(*first)) == base_offset).expect("stored");
                        prop_assert!(stored - first <= BATCHES_REMEMBERED);
                        prop_assert_eq!(sequence(base(first)), header.base_sequence);
                        prop_assert_eq!(last_offset - base_offset, i64::from(sizes[at] - 1));
                    }
                    Err(AppendError::OutOfOrderSequence { last, .. }) => {
                        prop_assert_eq!(last, sequence(base(stored) - 1));
                        prop_assert_ne!(base(at) + shift, base(stored));
                    }
                    Err(other) => prop_assert!(false, "{other}"),
                }
            }
        }
    }
}
