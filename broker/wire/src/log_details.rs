//! What a broker of this kind says of a log besides what Kafka's DescribeLogDirs says: a tagged field of each partition, which every
//! other client passes over.

use std::collections::BTreeMap;

use bytes::{Buf, BufMut, Bytes, BytesMut};

/// The number of the tagged field; far above what Kafka gives out.
pub const LOG_DETAILS_TAG: i32 = 10_000;

/// The details: 4 bytes, big-endian. A later version may add to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogDetails {
    /// Segments of the log, those in memory alone included.
    pub segments: u32,
}

impl LogDetails {
    /// As a map of tagged fields.
    pub fn encode(self) -> BTreeMap<i32, Bytes> {
        let mut bytes = BytesMut::with_capacity(size_of::<u32>());
        bytes.put_u32(self.segments);
        BTreeMap::from([(LOG_DETAILS_TAG, bytes.freeze())])
    }

    /// Out of a partition's tagged fields; `None` from another broker.
    pub fn decode(tagged: &BTreeMap<i32, Bytes>) -> Option<Self> {
        let mut bytes: &[u8] = tagged.get(&LOG_DETAILS_TAG)?;
        let segments = (bytes.len() >= size_of::<u32>()).then(|| bytes.get_u32())?;
        Some(Self { segments })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn details_are_read_back_longer_ones_too_and_nothing_else_is() {
        let details = LogDetails { segments: 7 };
        let mut tagged = details.encode();
        assert_eq!(LogDetails::decode(&tagged), Some(details));
        tagged.insert(LOG_DETAILS_TAG, Bytes::from_static(&[0, 0, 0, 7, 1, 2]));
        assert_eq!(LogDetails::decode(&tagged), Some(details));
        tagged.insert(LOG_DETAILS_TAG, Bytes::from_static(&[0, 0]));
        assert_eq!(LogDetails::decode(&tagged), None);
        assert_eq!(LogDetails::decode(&BTreeMap::new()), None);
    }
}
