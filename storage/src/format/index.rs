//! The sparse index of a segment: offset and timestamp to position. A cache: a missing or bad one is built
//! again from the segment.

use rkyv::{Archive, Deserialize, Serialize};

use super::envelope::{EnvelopeKind, unwrap, wrap};
use super::{FormatError, archive, unarchive};

/// The least distance of two entries in a segment, in bytes: an entry takes 24, so that indexes stay below
/// a thousandth of the data; a read takes more than this anyway.
pub const INDEX_INTERVAL_BYTES_MIN: u64 = 32 * 1024;

/// One entry: a frame, and what lies before it.
#[derive(Archive, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexEntry {
    /// The frame's base offset.
    pub offset: i64,
    /// The frame's position in the segment.
    pub position: u64,
    /// The largest timestamp of all frames before it in the segment; -1 when there is none.
    pub timestamp_before: i64,
}

/// The index of one segment.
#[derive(Archive, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
pub struct Index {
    /// The entries, by position.
    pub entries: Vec<IndexEntry>,
    /// Bytes of the segment that it covers.
    pub covered: u64,
    /// The largest timestamp of what it covers; -1 when there is none.
    pub max_timestamp: i64,
}

impl Index {
    /// An empty index.
    pub fn new() -> Self {
        Self {
            entries: Vec::new(),
            covered: 0,
            max_timestamp: -1,
        }
    }

    /// Takes note of the next frame of the segment.
    pub fn add(&mut self, offset: i64, position: u64, max_timestamp: i64, interval_bytes: u64) {
        let far = match self.entries.last() {
            Some(last) => position - last.position >= interval_bytes.max(INDEX_INTERVAL_BYTES_MIN),
            None => true,
        };
        if far {
            self.entries.push(IndexEntry {
                offset,
                position,
                timestamp_before: self.max_timestamp,
            });
        }
        self.max_timestamp = self.max_timestamp.max(max_timestamp);
    }

    /// Takes over the index of what stands behind all that this one covers.
    pub fn extend(&mut self, behind: Self, interval_bytes: u64) {
        let last = self.entries.last().map(|last| last.position);
        let distance = interval_bytes.max(INDEX_INTERVAL_BYTES_MIN);
        for (at, mut entry) in behind.entries.into_iter().enumerate() {
            let near = last.is_some_and(|last| entry.position - last < distance);
            if at > 0 || !near {
                entry.timestamp_before = entry.timestamp_before.max(self.max_timestamp);
                self.entries.push(entry);
            }
        }
        self.covered = behind.covered;
        self.max_timestamp = self.max_timestamp.max(behind.max_timestamp);
    }

    /// Where to begin a search for `offset`: at or before the frame that holds it.
    pub fn position_for_offset(&self, offset: i64) -> u64 {
        let after = self.entries.partition_point(|entry| entry.offset <= offset);
        after.checked_sub(1).map_or(0, |at| self.entries[at].position)
    }

    /// Where to begin a search for the first frame whose largest timestamp is at least `timestamp`: the
    /// offset of a frame at or before it; `None` for the segment's start.
    pub fn offset_for_timestamp(&self, timestamp: i64) -> Option<i64> {
        let after = self
            .entries
            .partition_point(|entry| entry.timestamp_before < timestamp);
        Some(self.entries.get(after.checked_sub(1)?)?.offset)
    }

    /// Forgets everything at and above `position`, where a truncation cut. The timestamp becomes an upper
    /// bound, which costs a longer search at most.
    pub fn cut(&mut self, position: u64) {
        self.entries.retain(|entry| entry.position < position);
        self.covered = self.covered.min(position);
    }
}

/// The bytes of an index file.
pub fn encode(key: u64, index: &Index) -> Vec<u8> {
    wrap(EnvelopeKind::Index, key, 0, &archive(index))
}

/// Reads an index file.
///
/// # Errors
/// [`FormatError`] when the file is not whole or contradicts itself.
pub fn decode(key: u64, bytes: &[u8]) -> Result<Index, FormatError> {
    let body = unwrap(EnvelopeKind::Index, key, bytes)?.body;
    let index: Index = unarchive("index", body)?;
    if !index
        .entries
        .is_sorted_by(|left, right| left.position < right.position && left.offset < right.offset)
    {
        return Err(FormatError::Field {
            what: "index",
            field: "order",
        });
    }
    Ok(index)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_format_is_pinned_and_round_trips() {
        let mut index = Index::new();
        index.add(0, 0, 10, 4096);
        index.add(1, 4096, 50, 4096);
        index.add(5, 40_000, 20, 4096);
        index.covered = 45_056;
        let bytes = encode(3, &index);
        crate::golden::check("index-1.bin", &bytes);
        assert_eq!(decode(3, &bytes), Ok(index));
    }

    proptest! {
        #[test]
        fn searches_begin_at_or_before_the_frame(
            frames in proptest::collection::vec((1i64..50, 64u64..90_000, 0i64..100), 1..60), pick: prop::sample::Index, time in 0i64..100,
        ) {
            let mut index = Index::new();
            let (mut offset, mut position) = (0, 0);
            let mut all = Vec::new();
            for (count, bytes, timestamp) in frames {
                index.add(offset, position, timestamp, 4096);
                all.push((offset, position, timestamp, count));
                offset += count;
                position += bytes;
            }
            let (wanted, at, _, count) = all[pick.index(all.len())];
            let start = index.position_for_offset(wanted + count - 1);
            prop_assert!(start <= at);
            prop_assert!(all.iter().any(|frame| frame.1 == start));
            if let Some(first) = all.iter().find(|frame| frame.2 >= time) {
                prop_assert!(index.offset_for_timestamp(time).unwrap_or(0) <= first.0);
            }
        }
    }

    #[test]
    fn an_index_goes_on_where_another_ends() {
        let step = INDEX_INTERVAL_BYTES_MIN / 4;
        let timestamp = |at: u64| ((at * 7) % 50) as i64;
        let mut whole = Index::new();
        let mut pieces = Index::new();
        for piece in 0..20u64 {
            let mut behind = Index::new();
            for at in piece * 5..(piece + 1) * 5 {
                whole.add(at as i64, at * step, timestamp(at), 0);
                behind.add(at as i64, at * step, timestamp(at), 0);
                behind.covered = (at + 1) * step;
            }
            pieces.extend(behind, 0);
        }
        assert_eq!(
            (pieces.covered, pieces.max_timestamp),
            (100 * step, whole.max_timestamp)
        );
        for pair in pieces.entries.windows(2) {
            let distance = pair[1].position - pair[0].position;
            assert!((4 * step..12 * step).contains(&distance), "{distance}");
        }
        for entry in &pieces.entries {
            let before = (0..entry.position / step).map(timestamp).max();
            assert_eq!(entry.timestamp_before, before.unwrap_or(-1));
            assert_eq!(entry.offset as u64 * step, entry.position);
        }
    }
}
