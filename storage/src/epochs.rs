//! The leader epochs of a log and where each starts (KIP-101, KIP-279).

use crate::format::checkpoint::EpochStart;
use crate::types::Offset;

/// The leader epochs of one log, oldest first; epochs and start offsets rise together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Epochs(Vec<EpochStart>);

impl Epochs {
    /// From a checkpoint.
    pub fn new(starts: Vec<EpochStart>) -> Self {
        let mut epochs = Self::default();
        for start in starts {
            epochs.begin(start.epoch, start.start_offset);
        }
        epochs
    }

    /// All of them.
    pub fn starts(&self) -> &[EpochStart] {
        &self.0
    }

    /// The newest epoch; -1 when there is none.
    pub fn latest(&self) -> i32 {
        self.0.last().map_or(-1, |start| start.epoch)
    }

    /// An epoch starts; older ones that had no record are forgotten, as is an epoch below the newest.
    pub fn begin(&mut self, epoch: i32, start_offset: Offset) {
        if epoch <= self.latest() {
            return;
        }
        while self
            .0
            .last()
            .is_some_and(|last| last.start_offset >= start_offset)
        {
            self.0.pop();
        }
        self.0.push(EpochStart { epoch, start_offset });
    }

    /// Whether the newest epoch starts at `end`, and so has no record yet.
    pub fn has_start_at(&self, end: Offset) -> bool {
        self.0.last().is_some_and(|last| last.start_offset >= end)
    }

    /// The log was cut: epochs that start at or above `end` are gone.
    pub fn truncate(&mut self, end: Offset) {
        self.0.retain(|start| start.start_offset < end);
    }

    /// The log starts at `start` now: the epoch that holds it begins there, older ones are gone.
    pub fn raise_start(&mut self, start: Offset) {
        let first_after = self.0.partition_point(|epoch| epoch.start_offset <= start);
        if first_after > 0 {
            self.0.drain(..first_after - 1);
            self.0[0].start_offset = self.0[0].start_offset.max(start);
        }
    }

    /// The largest known epoch at or below `epoch`, and where the next one starts, or the log's `end`.
    pub fn end_offset(&self, epoch: i32, end: Offset) -> Option<(i32, Offset)> {
        let after = self.0.partition_point(|start| start.epoch <= epoch);
        let found = self.0.get(after.checked_sub(1)?)?;
        Some((
            found.epoch,
            self.0.get(after).map_or(end, |next| next.start_offset),
        ))
    }

    /// The epoch of the record at `offset`.
    pub fn epoch_at(&self, offset: Offset) -> Option<i32> {
        let after = self.0.partition_point(|start| start.start_offset <= offset);
        Some(self.0.get(after.checked_sub(1)?)?.epoch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Epochs {
        let mut epochs = Epochs::default();
        epochs.begin(1, 0);
        epochs.begin(3, 10);
        epochs.begin(4, 25);
        epochs
    }

    #[test]
    fn the_end_of_an_epoch_is_the_start_of_the_next() {
        let epochs = sample();
        assert_eq!(epochs.end_offset(0, 40), None);
        assert_eq!(epochs.end_offset(1, 40), Some((1, 10)));
        assert_eq!(epochs.end_offset(2, 40), Some((1, 10)));
        assert_eq!(epochs.end_offset(3, 40), Some((3, 25)));
        assert_eq!(epochs.end_offset(9, 40), Some((4, 40)));
        assert_eq!(epochs.epoch_at(24), Some(3));
    }

    #[test]
    fn an_epoch_without_records_gives_way() {
        let mut epochs = sample();
        epochs.begin(6, 25);
        assert_eq!(epochs.end_offset(4, 40), Some((3, 25)));
        epochs.begin(5, 30);
        assert_eq!(epochs.latest(), 6);
    }

    #[test]
    fn truncation_and_start_cut_both_ends() {
        let mut epochs = sample();
        epochs.truncate(25);
        assert_eq!(epochs.latest(), 3);
        epochs.raise_start(15);
        assert_eq!(
            epochs.starts(),
            [EpochStart {
                epoch: 3,
                start_offset: 15
            }]
        );
        epochs.raise_start(15);
        epochs.truncate(15);
        assert_eq!(epochs.latest(), -1);
    }
}
