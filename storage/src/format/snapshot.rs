//! The producers' snapshot: what a log knows of its idempotent producers as of one offset.

use rkyv::{Archive, Deserialize, Serialize};

use super::envelope::{EnvelopeKind, unwrap, wrap};
use super::{FormatError, archive, unarchive};

/// One producer.
#[derive(Archive, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct ProducerSnapshot {
    /// The producer.
    pub producer_id: i64,
    /// Its epoch.
    pub epoch: i16,
    /// When its last batch was appended, milliseconds since the Unix epoch: what expiry goes by.
    pub last_append_ms: i64,
    /// Its last batches, oldest first.
    pub batches: Vec<BatchSnapshot>,
}

/// One batch of a producer.
#[derive(Archive, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchSnapshot {
    /// Its base offset.
    pub base_offset: i64,
    /// Its largest timestamp.
    pub timestamp: i64,
    /// Its first sequence.
    pub base_sequence: i32,
    /// Its last offset less the base offset.
    pub last_offset_delta: i32,
}

/// The bytes of a snapshot file; `offset` is the end offset that it is as of.
pub fn encode(key: u64, offset: i64, producers: &Vec<ProducerSnapshot>) -> Vec<u8> {
    wrap(EnvelopeKind::Snapshot, key, offset as u64, &archive(producers))
}

/// Reads a snapshot file: the offset it is as of, and the producers.
///
/// # Errors
/// [`FormatError`] when the file is not whole.
pub fn decode(key: u64, bytes: &[u8]) -> Result<(i64, Vec<ProducerSnapshot>), FormatError> {
    let envelope = unwrap(EnvelopeKind::Snapshot, key, bytes)?;
    Ok((envelope.generation as i64, unarchive("snapshot", envelope.body)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_is_pinned_and_round_trips() {
        let producers = vec![ProducerSnapshot {
            producer_id: 1,
            epoch: 2,
            last_append_ms: 3,
            batches: vec![BatchSnapshot {
                base_offset: 4,
                timestamp: 3,
                base_sequence: 5,
                last_offset_delta: 6,
            }],
        }];
        let bytes = encode(9, 77, &producers);
        crate::golden::check("snapshot-1.bin", &bytes);
        assert_eq!(decode(9, &bytes), Ok((77, producers)));
        assert!(decode(8, &bytes).is_err());
    }
}
