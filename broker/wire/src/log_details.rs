//! What a broker of this kind says of a log besides what Kafka's DescribeLogDirs says: a tagged field of each partition, which every
//! other client passes over.

use std::collections::BTreeMap;

use bytes::{Buf, BufMut, Bytes, BytesMut};

/// The number of the tagged field; far above what Kafka gives out.
pub const LOG_DETAILS_TAG: i32 = 10_000;

/// Stands for no time.
const NEVER: i64 = -1;

/// The details: 4 bytes, big-endian, and [`CompactionDetails`] behind them where the log is compacted. A later version may add to
/// them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogDetails {
    /// Segments of the log, those in memory alone included.
    pub segments: u32,
    /// Of a log that is compacted, and not damaged.
    pub compaction: Option<CompactionDetails>,
}

/// What the cleaner knows of a log: 33 bytes, in this order, big-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompactionDetails {
    /// Everything below this offset was cleaned.
    pub cleaned_to: i64,
    /// Payload bytes of the segments that are clean.
    pub clean_bytes: u64,
    /// Payload bytes of the segments that may be cleaned and have something dirty: not the one that appends go to, and none with
    /// a record that is younger than `min.compaction.lag.ms`.
    pub dirty_bytes: u64,
    /// When a cleaning last ended, in milliseconds since the Unix epoch; none since the broker started is -1 on the wire.
    pub last_cleaned_ms: Option<i64>,
    /// Whether the cleaner leaves the log alone, since it cannot read it.
    pub is_uncleanable: bool,
}

impl CompactionDetails {
    const BYTES: usize = 4 * size_of::<u64>() + 1;

    /// The dirty share of what may be cleaned, which `min.cleanable.dirty.ratio` is compared with.
    pub fn dirty_ratio(&self) -> f64 {
        let total = self.clean_bytes as f64 + self.dirty_bytes as f64;
        if total > 0.0 {
            self.dirty_bytes as f64 / total
        } else {
            0.0
        }
    }

    fn put(&self, bytes: &mut BytesMut) {
        bytes.put_i64(self.cleaned_to);
        bytes.put_u64(self.clean_bytes);
        bytes.put_u64(self.dirty_bytes);
        bytes.put_i64(self.last_cleaned_ms.unwrap_or(NEVER));
        bytes.put_u8(u8::from(self.is_uncleanable));
    }

    fn get(bytes: &mut &[u8]) -> Option<Self> {
        (bytes.len() >= Self::BYTES).then(|| Self {
            cleaned_to: bytes.get_i64(),
            clean_bytes: bytes.get_u64(),
            dirty_bytes: bytes.get_u64(),
            last_cleaned_ms: Some(bytes.get_i64()).filter(|time| *time != NEVER),
            is_uncleanable: bytes.get_u8() != 0,
        })
    }
}

impl LogDetails {
    /// As a map of tagged fields.
    pub fn encode(self) -> BTreeMap<i32, Bytes> {
        let mut bytes = BytesMut::with_capacity(size_of::<u32>() + CompactionDetails::BYTES);
        bytes.put_u32(self.segments);
        if let Some(compaction) = &self.compaction {
            compaction.put(&mut bytes);
        }
        BTreeMap::from([(LOG_DETAILS_TAG, bytes.freeze())])
    }

    /// Out of a partition's tagged fields; `None` from another broker.
    pub fn decode(tagged: &BTreeMap<i32, Bytes>) -> Option<Self> {
        let mut bytes: &[u8] = tagged.get(&LOG_DETAILS_TAG)?;
        let segments = (bytes.len() >= size_of::<u32>()).then(|| bytes.get_u32())?;
        let compaction = CompactionDetails::get(&mut bytes);
        Some(Self { segments, compaction })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn details_are_read_back_longer_ones_too_and_nothing_else_is() {
        let compaction = CompactionDetails {
            cleaned_to: 12,
            clean_bytes: 100,
            dirty_bytes: 300,
            last_cleaned_ms: Some(1_700_000_000_000),
            is_uncleanable: true,
        };
        let never = CompactionDetails {
            last_cleaned_ms: None,
            ..compaction
        };
        for compaction in [None, Some(compaction), Some(never)] {
            let details = LogDetails {
                segments: 7,
                compaction,
            };
            let mut tagged = details.encode();
            assert_eq!(LogDetails::decode(&tagged), Some(details));
            let mut longer = tagged[&LOG_DETAILS_TAG].to_vec();
            longer.extend([1, 2]);
            tagged.insert(LOG_DETAILS_TAG, longer.into());
            assert_eq!(LogDetails::decode(&tagged), Some(details));
        }
        let mut tagged = BTreeMap::from([(LOG_DETAILS_TAG, Bytes::from_static(&[0, 0]))]);
        assert_eq!(LogDetails::decode(&tagged), None);
        tagged.clear();
        assert_eq!(LogDetails::decode(&tagged), None);
    }

    #[test]
    fn the_ratio_is_the_dirty_share() {
        let ratio = |clean_bytes, dirty_bytes| {
            CompactionDetails {
                cleaned_to: 0,
                clean_bytes,
                dirty_bytes,
                last_cleaned_ms: None,
                is_uncleanable: false,
            }
            .dirty_ratio()
        };
        assert_eq!((ratio(100, 300), ratio(0, 0), ratio(7, 0)), (0.75, 0.0, 0.0));
        assert_eq!(ratio(u64::MAX, u64::MAX), 0.5);
    }
}
