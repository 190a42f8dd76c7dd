//! Where entries go in the ring of files, and which files a checkpoint has freed. Pure.

use std::collections::VecDeque;

use crate::format::checkpoint::ReplayStart;
use crate::format::entry::RingPosition;
use crate::types::Sequence;

/// An entry that a replay would still read.
#[derive(Clone, Copy, Debug)]
struct Mark {
    sequence: Sequence,
    at: RingPosition,
    length: u32,
    /// The checksum of the entry before it.
    previous: u64,
}

/// The ring.
#[derive(Debug)]
pub(crate) struct Ring {
    files: u32,
    file_bytes: u64,
    /// How many bytes of each file are zero-filled; a file is used once all are.
    filled: Vec<u64>,
    /// Where the next entry goes if it fits.
    head: RingPosition,
    /// The last entry placed.
    last_sequence: Sequence,
    last_checksum: u64,
    marks: VecDeque<Mark>,
    used_bytes: u64,
}

impl Ring {
    /// The ring after a replay that ended with entry `last_sequence` before `head`.
    pub(crate) fn new(file_bytes: u64, filled: Vec<u64>, head: RingPosition, last: (Sequence, u64)) -> Self {
        let files = filled.len() as u32;
        let (last_sequence, last_checksum) = last;
        Self {
            files,
            file_bytes,
            filled,
            head,
            last_sequence,
            last_checksum,
            marks: VecDeque::new(),
            used_bytes: 0,
        }
    }

    /// Takes note of a replayed entry.
    pub(crate) fn replayed(&mut self, sequence: Sequence, at: RingPosition, length: u32, previous: u64) {
        self.marks.push_back(Mark {
            sequence,
            at,
            length,
            previous,
        });
        self.used_bytes += u64::from(length);
    }

    /// The checksum that the next entry names as its previous one.
    pub(crate) fn last_checksum(&self) -> u64 {
        self.last_checksum
    }

    /// One file, in bytes.
    pub(crate) fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// All files, in bytes.
    pub(crate) fn total_bytes(&self) -> u64 {
        self.file_bytes * u64::from(self.files)
    }

    /// Entries that a replay would read, in bytes.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.used_bytes
    }

    /// The first file, from the head on, that is not filled yet.
    pub(crate) fn next_to_fill(&self) -> Option<(u32, u64)> {
        (0..self.files)
            .map(|step| (self.head.file + step) % self.files)
            .find(|file| self.filled[*file as usize] < self.file_bytes)
            .map(|file| (file, self.filled[file as usize]))
    }

    /// Whether a file is the one that entries go to now or next.
    pub(crate) fn is_next(&self, file: u32) -> bool {
        file == self.head.file || file == (self.head.file + 1) % self.files
    }

    /// A file is filled up to `bytes`.
    pub(crate) fn filled(&mut self, file: u32, bytes: u64) {
        self.filled[file as usize] = bytes;
    }

    /// Where an entry of `length` bytes goes; `None` while the ring has no free file for it.
    pub(crate) fn place(&self, length: u32) -> Option<RingPosition> {
        assert!(
            u64::from(length) <= self.file_bytes,
            "an entry never crosses a file"
        );
        if self.head.position + u64::from(length) <= self.file_bytes {
            let usable = self.filled[self.head.file as usize] == self.file_bytes;
            return usable.then_some(self.head);
        }
        let next = (self.head.file + 1) % self.files;
        let free = self.marks.front().is_none_or(|oldest| oldest.at.file != next);
        let filled = self.filled[next as usize] == self.file_bytes;
        (free && filled).then_some(RingPosition {
            file: next,
            position: 0,
        })
    }

    /// How many files stay free behind entries of these lengths that wait to be placed; `None` when not all of them
    /// can be before a checkpoint frees a file. A file that is not filled is not free.
    pub(crate) fn files_left(&self, waiting: impl Iterator<Item = u64>) -> Option<u32> {
        let oldest = self.marks.front().map(|mark| mark.at.file);
        let is_filled = |file: u32| self.filled[file as usize] == self.file_bytes;
        if !is_filled(self.head.file) {
            return None;
        }
        let behind = (1..self.files).map(|step| (self.head.file + step) % self.files);
        let free = behind.take_while(|file| is_filled(*file) && oldest != Some(*file));
        let free = free.count() as u32;
        let (mut taken, mut position) = (0, self.head.position);
        for length in waiting {
            if position + length > self.file_bytes {
                (taken, position) = (taken + 1, 0);
            }
            position += length;
        }
        free.checked_sub(taken)
    }

    /// An entry goes to where [`Ring::place`] said.
    pub(crate) fn placed(&mut self, sequence: Sequence, at: RingPosition, length: u32, checksum: u64) {
        assert!(sequence > self.last_sequence, "sequences rise");
        let previous = std::mem::replace(&mut self.last_checksum, checksum);
        self.marks.push_back(Mark {
            sequence,
            at,
            length,
            previous,
        });
        self.used_bytes += u64::from(length);
        self.last_sequence = sequence;
        self.head = RingPosition {
            file: at.file,
            position: at.position + u64::from(length),
        };
    }

    /// Where a replay starts that needs nothing up to `included`.
    pub(crate) fn replay_start(&self, included: Sequence) -> ReplayStart {
        let first = self.marks.iter().position(|mark| mark.sequence > included);
        match first {
            Some(index) => {
                let mark = &self.marks[index];
                // The entry before may have left the list already; its sequence is then `included` or less.
                let before = index
                    .checked_sub(1)
                    .map_or(included, |at| self.marks[at].sequence);
                ReplayStart {
                    file: mark.at.file,
                    position: mark.at.position,
                    sequence: before.min(included).0,
                    previous: mark.previous,
                }
            }
            None => ReplayStart {
                file: self.head.file,
                position: self.head.position,
                sequence: self.last_sequence.0,
                previous: self.last_checksum,
            },
        }
    }

    /// A flushed checkpoint needs nothing up to `included`.
    pub(crate) fn free(&mut self, included: Sequence) {
        while let Some(mark) = self.marks.front()
            && mark.sequence <= included
        {
            self.used_bytes -= u64::from(mark.length);
            self.marks.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTH: u32 = 4096;

    fn ring() -> Ring {
        let head = RingPosition { file: 0, position: 0 };
        Ring::new(
            2 * u64::from(LENGTH),
            vec![2 * u64::from(LENGTH); 3],
            head,
            (Sequence(0), 0),
        )
    }

    fn put(ring: &mut Ring, sequence: u64) -> Option<RingPosition> {
        let at = ring.place(LENGTH)?;
        ring.placed(Sequence(sequence), at, LENGTH, sequence * 10);
        Some(at)
    }

    #[test]
    fn a_file_is_used_again_only_once_a_checkpoint_has_freed_it() {
        let mut ring = ring();
        for sequence in 1..=6 {
            assert!(put(&mut ring, sequence).is_some());
        }
        assert_eq!(put(&mut ring, 7), None);
        ring.free(Sequence(1));
        assert_eq!(put(&mut ring, 7), None, "entry 2 is in the first file");
        ring.free(Sequence(2));
        assert_eq!(put(&mut ring, 7), Some(RingPosition { file: 0, position: 0 }));
    }

    #[test]
    fn the_replay_starts_behind_what_is_included() {
        let mut ring = ring();
        for sequence in 1..=3 {
            put(&mut ring, sequence);
        }
        let start = ring.replay_start(Sequence(1));
        assert_eq!(
            start,
            ReplayStart {
                file: 0,
                position: 4096,
                sequence: 1,
                previous: 10
            }
        );
        ring.free(Sequence(1));
        assert_eq!(ring.replay_start(Sequence(1)), start);
        let start = ring.replay_start(Sequence(3));
        assert_eq!(
            start,
            ReplayStart {
                file: 1,
                position: 4096,
                sequence: 3,
                previous: 30
            }
        );
    }

    #[test]
    fn what_waits_takes_files_as_it_will_when_placed() {
        let length = u64::from(LENGTH);
        let waiting = |count: usize| std::iter::repeat_n(length, count);
        let mut ring = ring();
        assert_eq!(ring.files_left(waiting(0)), Some(2));
        assert_eq!(ring.files_left(waiting(2)), Some(2));
        assert_eq!(ring.files_left(waiting(3)), Some(1));
        // An entry that does not fit the rest of a file leaves that rest.
        assert_eq!(ring.files_left([length, 2 * length, length].into_iter()), Some(0));
        assert_eq!(ring.files_left(waiting(7)), None);
        for sequence in 1..=5 {
            put(&mut ring, sequence);
        }
        assert_eq!(ring.files_left(waiting(1)), Some(0));
        assert_eq!(ring.files_left(waiting(2)), None, "the first file is in use");
        ring.free(Sequence(2));
        assert_eq!(ring.files_left(waiting(2)), Some(0));
        assert_eq!(ring.files_left(waiting(4)), None, "the second file is in use");
    }

    #[test]
    fn an_unfilled_file_is_not_used() {
        let mut ring = Ring::new(8192, vec![8192, 4096], RingPosition::default(), (Sequence(0), 0));
        put(&mut ring, 1);
        put(&mut ring, 2);
        assert_eq!(ring.files_left([4096].into_iter()), None);
        assert_eq!(put(&mut ring, 3), None);
        assert_eq!(ring.next_to_fill(), Some((1, 4096)));
        ring.filled(1, 8192);
        assert!(put(&mut ring, 3).is_some());
    }
}
