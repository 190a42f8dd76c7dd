//! Kafka's partitioner hash, and the partition of a key as the Java producer chooses it.

const SEED: u32 = 0x9747_b28c;
const MULTIPLIER: u32 = 0x5bd1_e995;
const SHIFT: u32 = 24;

/// murmur2 with Kafka's seed.
pub fn murmur2(data: &[u8]) -> u32 {
    let mut hash = SEED ^ (data.len() as u32);
    let (chunks, tail) = data.as_chunks::<4>();
    for chunk in chunks {
        let mut word = u32::from_le_bytes(*chunk).wrapping_mul(MULTIPLIER);
        word ^= word >> SHIFT;
        hash = hash.wrapping_mul(MULTIPLIER) ^ word.wrapping_mul(MULTIPLIER);
    }
    if !tail.is_empty() {
        for (position, byte) in tail.iter().enumerate() {
            hash ^= u32::from(*byte) << (position * 8);
        }
        hash = hash.wrapping_mul(MULTIPLIER);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(MULTIPLIER);
    hash ^ (hash >> 15)
}

/// The partition of a key among `partition_count`, as the Java producer's: the sign bit is masked, not the value made
/// positive. `None` when there are no partitions.
pub fn partition_for_key(key: &[u8], partition_count: u32) -> Option<u32> {
    (murmur2(key) & 0x7fff_ffff).checked_rem(partition_count)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values that Kafka's own `UtilsTest` states.
    #[test]
    fn kafkas_own_vectors() {
        for (text, hash) in [
            ("21", -973_932_308_i32),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("a-little-bit-longer-string", -1_486_304_829),
            ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
            ("abc", 479_470_107),
        ] {
            assert_eq!(murmur2(text.as_bytes()), hash as u32, "{text}");
        }
    }

    #[test]
    fn a_negative_hash_is_masked() {
        assert_eq!(
            partition_for_key(b"21", 7),
            Some(((-973_932_308_i32 as u32) & 0x7fff_ffff) % 7)
        );
        assert_eq!(partition_for_key(b"21", 0), None);
    }
}
