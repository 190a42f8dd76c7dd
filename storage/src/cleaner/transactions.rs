//! What a cleaning may do to transactions: it goes through the log from its start and remembers whose data it met.
//!
//! Data of an aborted transaction goes at once. A marker stays as long as data of its transaction stands before it, and then
//! for the time of a tombstone. The bound of a cleaning keeps it below every transaction that is still open.

use std::collections::{HashMap, HashSet};

use strandline_wire::batch::{Batch, records};

use crate::types::Offset;

/// An aborted transaction, as a log's index of them has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AbortedTransaction {
    pub(crate) producer_id: i64,
    /// The first offset of its data.
    pub(crate) first_offset: Offset,
}

/// The transactions of a log while it is gone through.
#[derive(Debug, Default)]
pub(crate) struct Transactions {
    /// Not met yet, the last one first.
    aborted: Vec<AbortedTransaction>,
    /// By producer: whether data of it stands in the log still.
    open_aborted: HashMap<i64, bool>,
    open_committed: HashSet<i64>,
}

/// What a marker says.
const ABORT: i16 = 0;
const COMMIT: i16 = 1;

impl Transactions {
    pub(crate) fn new(mut aborted: Vec<AbortedTransaction>) -> Self {
        aborted.sort_unstable_by_key(|aborted| std::cmp::Reverse(aborted.first_offset));
        Self {
            aborted,
            ..Self::default()
        }
    }

    /// Takes note of the next batch: whether nobody needs its records, which for a marker means once its time is over.
    pub(crate) fn is_spent(&mut self, batch: &Batch<'_>) -> bool {
        let header = &batch.header;
        while let Some(next) = self
            .aborted
            .pop_if(|next| next.first_offset <= header.last_offset())
        {
            self.open_aborted.entry(next.producer_id).or_insert(false);
        }
        match (header.is_control(), header.is_transactional()) {
            (false, false) => false,
            (false, true) => match self.open_aborted.get_mut(&header.producer_id) {
                Some(has_data) => {
                    *has_data = true;
                    true
                }
                None => {
                    self.open_committed.insert(header.producer_id);
                    false
                }
            },
            (true, _) => match marker(batch) {
                // Emptied: it stays for its producer alone.
                Marker::None => true,
                Marker::Kind(ABORT) => self.open_aborted.remove(&header.producer_id) != Some(true),
                Marker::Kind(COMMIT) => !self.open_committed.remove(&header.producer_id),
                Marker::Kind(_) => false,
            },
        }
    }
}

enum Marker {
    None,
    Kind(i16),
}

/// The kind of a control record: behind a version, in its key.
fn marker(batch: &Batch<'_>) -> Marker {
    let first = records(batch.bytes).ok().and_then(|mut records| records.next());
    let Some(first) = first else { return Marker::None };
    let kind = first
        .ok()
        .and_then(|record| record.key?.get(2..4)?.first_chunk().copied());
    Marker::Kind(kind.map_or(-1, i16::from_be_bytes))
}

#[cfg(test)]
mod tests {
    use strandline_wire::batch::{BatchBuilder, BatchHeader, batches, emptied};

    use super::*;

    fn data(producer_id: i64, base_offset: Offset) -> Vec<u8> {
        let mut builder = BatchBuilder::new()
            .producer(producer_id, 0, 0)
            .transactional(true);
        builder = builder.base_offset(base_offset);
        builder.record(1, Some(b"key"), Some(b"value"));
        builder.finish().expect("a batch")
    }

    fn end(producer_id: i64, base_offset: Offset, kind: i16) -> Vec<u8> {
        let mut builder = BatchBuilder::new()
            .producer(producer_id, 0, -1)
            .transactional(true)
            .control(true);
        builder = builder.base_offset(base_offset);
        let mut key = vec![0, 0];
        key.extend_from_slice(&kind.to_be_bytes());
        builder.record(1, Some(&key), Some(&[0; 6]));
        builder.finish().expect("a batch")
    }

    fn spent(transactions: &mut Transactions, bytes: &[u8]) -> bool {
        transactions.is_spent(&batches(bytes).next().expect("one").expect("whole"))
    }

    #[test]
    fn a_commit_marker_stays_as_long_as_its_data() {
        let mut all = Transactions::default();
        assert!(!spent(&mut all, &data(1, 0)));
        assert!(!spent(&mut all, &data(2, 1)));
        assert!(!spent(&mut all, &end(1, 2, COMMIT)));
        assert!(
            spent(&mut all, &end(1, 3, COMMIT)),
            "of a transaction without data left"
        );
        assert!(!spent(&mut all, &end(2, 4, COMMIT)));
    }

    #[test]
    fn aborted_data_goes_and_its_marker_one_cleaning_later() {
        let aborted = vec![AbortedTransaction {
            producer_id: 1,
            first_offset: 1,
        }];
        let mut first = Transactions::new(aborted.clone());
        assert!(spent(&mut first, &data(1, 1)));
        assert!(spent(&mut first, &data(1, 2)));
        assert!(!spent(&mut first, &end(1, 3, ABORT)), "its data stood before it");
        assert!(!spent(&mut first, &data(1, 4)), "the next one commits");
        let mut second = Transactions::new(aborted);
        assert!(spent(&mut second, &end(1, 3, ABORT)));
    }

    #[test]
    fn an_emptied_marker_and_a_plain_batch() {
        let mut all = Transactions::default();
        let marker = end(1, 0, COMMIT);
        let (empty, _) = emptied(&BatchHeader::decode(&marker).expect("a batch"));
        assert!(spent(&mut all, &empty));
        let mut plain = BatchBuilder::new();
        plain.record(1, Some(b"key"), None);
        assert!(!spent(&mut all, &plain.finish().expect("a batch")));
        assert!(!spent(&mut all, &end(1, 1, 5)), "a kind that is not known stays");
    }
}
