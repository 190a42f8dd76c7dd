//! The keys of the checksums: bytes in the wrong place, or of something else, never validate.

use xxhash_rust::xxh3::{Xxh3, xxh3_64, xxh3_64_with_seed};

use crate::types::{LogId, TopicPartitionId};

/// The key of a log's frames: XXH3-64 of topic id and partition.
pub fn log_key(id: TopicPartitionId) -> u64 {
    let mut bytes = [0; 20];
    bytes[..16].copy_from_slice(id.topic_id.as_bytes());
    bytes[16..].copy_from_slice(&id.partition.to_le_bytes());
    xxh3_64(&bytes)
}

/// The key of an entry: its journal, the incarnation that wrote it, and where it stands.
pub fn entry_key(journal_id: u64, incarnation: u64, file: u32, position: u64) -> u64 {
    let mut bytes = [0; 28];
    bytes[..8].copy_from_slice(&journal_id.to_le_bytes());
    bytes[8..16].copy_from_slice(&incarnation.to_le_bytes());
    bytes[16..20].copy_from_slice(&file.to_le_bytes());
    bytes[20..].copy_from_slice(&position.to_le_bytes());
    xxh3_64(&bytes)
}

/// The key of a log's own files that are not segments.
pub fn file_key(log: LogId, number: u64) -> u64 {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&log.0.to_le_bytes());
    bytes[8..].copy_from_slice(&number.to_le_bytes());
    xxh3_64(&bytes)
}

/// The checksum of bytes that start with their own checksum field, taken as zero.
pub fn checksum(bytes: &[u8], key: u64) -> u64 {
    let mut parts = ChecksumInParts::begin(&bytes[..8], key);
    parts.add(&bytes[8..]);
    parts.end()
}

/// [`checksum`] a part at a time: of many bytes it takes long.
pub struct ChecksumInParts(Xxh3);

impl ChecksumInParts {
    /// Begins with the first part, which holds the field at its start.
    pub fn begin(part: &[u8], key: u64) -> Self {
        let mut hasher = Xxh3::with_seed(key);
        hasher.update(&[0; 8]);
        hasher.update(&part[8..]);
        Self(hasher)
    }

    /// Adds what follows.
    pub fn add(&mut self, part: &[u8]) {
        self.0.update(part);
    }

    /// The checksum of all parts.
    pub fn end(self) -> u64 {
        self.0.digest()
    }
}

/// [`checksum`] of bytes whose own field is zero: in one pass.
pub fn checksum_of_zeroed(bytes: &[u8], key: u64) -> u64 {
    debug_assert_eq!(bytes[..8], [0; 8]);
    xxh3_64_with_seed(bytes, key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_agree_at_every_length_class() {
        for length in [8, 64, 130, 240, 241, 1024, 5000] {
            let mut bytes: Vec<u8> = (0..length).map(|at| (at * 7) as u8).collect();
            bytes[..8].fill(0);
            assert_eq!(checksum_of_zeroed(&bytes, 9), checksum(&bytes, 9));
        }
    }
}
