//! What a record's value holds, so that a consumer can verify and time it without asking anybody.
//!
//! | bytes | field |
//! |---|---|
//! | 0..4 | magic `SLB1` |
//! | 4..8 | run: records of earlier runs on the same topic are not of this one |
//! | 8..12 | producer |
//! | 12..16 | CRC32C of everything else |
//! | 16..24 | sequence in its partition, from 0 |
//! | 24..32 | intended time, ns since the run's epoch |
//! | 32.. | a slice of the run's pool of random bytes |
//!
//! All integers are little-endian.

use crate::clock::Nanos;

/// Bytes of the header; the smallest record that can be verified.
pub const HEADER_BYTES: usize = 32;

const MAGIC: [u8; 4] = *b"SLB1";

/// The bytes from which bodies are cut. Larger than a compressor's window for small records, small enough for the L2 cache.
const POOL_BYTES: usize = 64 * 1024;

/// How finely compressible and random bytes alternate: below the window of every codec, above the length of its matches.
const BLOCK_BYTES: usize = 256;

/// The identity and the intended time of one record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PayloadHeader {
    /// The run that wrote it.
    pub run: u32,
    /// The sender that wrote it.
    pub producer: u32,
    /// Its number among the records of that sender in that partition.
    pub sequence: u64,
    /// When it was intended to be sent.
    pub intended: Nanos,
}

/// Why a value is not one of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PayloadError {
    /// Another program's record.
    #[error("not a record of strandline-bench")]
    Foreign,
    /// One of ours, but changed on its way.
    #[error("checksum mismatch")]
    Corrupt,
}

/// The bytes that fill records; the same for the same seed.
#[derive(Clone, Debug)]
pub struct BodyPool {
    bytes: Vec<u8>,
    record_bytes_max: usize,
}

impl BodyPool {
    /// A pool for records of up to `record_bytes_max`, of which about the share `compressibility` (0 to 1) is nothing new to a
    /// compressor, and the rest random.
    pub fn new(record_bytes_max: usize, compressibility: f64, seed: u64) -> Self {
        assert!(
            record_bytes_max >= HEADER_BYTES,
            "the command line refuses smaller records"
        );
        let mut bytes = vec![0; POOL_BYTES + record_bytes_max];
        fastrand::Rng::with_seed(seed).fill(&mut bytes);
        // A part of each block says the same as that of every other.
        let same = (BLOCK_BYTES as f64 * compressibility.clamp(0.0, 1.0)) as usize;
        for block in bytes.chunks_mut(BLOCK_BYTES) {
            let same = same.min(block.len());
            block[..same].fill(b'-');
        }
        Self {
            bytes,
            record_bytes_max,
        }
    }

    /// Writes header and body into `value`, which is no larger than the pool was made for.
    #[inline]
    pub fn fill(&self, header: &PayloadHeader, value: &mut [u8]) {
        debug_assert!(value.len() <= self.record_bytes_max);
        // An odd stride walks through the whole pool before it repeats.
        let start = (header.sequence as usize).wrapping_mul(6_151) % POOL_BYTES;
        let body = value.len() - HEADER_BYTES;
        value[HEADER_BYTES..].copy_from_slice(&self.bytes[start..start + body]);
        value[0..4].copy_from_slice(&MAGIC);
        value[4..8].copy_from_slice(&header.run.to_le_bytes());
        value[8..12].copy_from_slice(&header.producer.to_le_bytes());
        value[16..24].copy_from_slice(&header.sequence.to_le_bytes());
        value[24..32].copy_from_slice(&header.intended.to_le_bytes());
        let checksum = checksum(value);
        value[12..16].copy_from_slice(&checksum.to_le_bytes());
    }
}

/// CRC32C of the value without its checksum field.
#[inline]
fn checksum(value: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&value[..12]), &value[16..])
}

fn u32_at(value: &[u8], at: usize) -> u32 {
    let mut bytes = [0; 4];
    bytes.copy_from_slice(&value[at..at + 4]);
    u32::from_le_bytes(bytes)
}

fn u64_at(value: &[u8], at: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&value[at..at + 8]);
    u64::from_le_bytes(bytes)
}

/// Reads a value back and checks every byte of it.
pub fn read(value: &[u8]) -> Result<PayloadHeader, PayloadError> {
    if value.len() < HEADER_BYTES || value[..4] != MAGIC {
        return Err(PayloadError::Foreign);
    }
    if checksum(value) != u32_at(value, 12) {
        return Err(PayloadError::Corrupt);
    }
    Ok(PayloadHeader {
        run: u32_at(value, 4),
        producer: u32_at(value, 8),
        sequence: u64_at(value, 16),
        intended: u64_at(value, 24),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_was_written_is_read(run: u32, producer: u32, sequence: u64, intended: u64, size in 32_usize..5000) {
            let header = PayloadHeader { run, producer, sequence, intended };
            let mut value = vec![0; size];
            BodyPool::new(size, 0.0, 1).fill(&header, &mut value);
            prop_assert_eq!(read(&value), Ok(header));
        }

        #[test]
        fn one_flipped_bit_is_found(size in 32_usize..300, bit in 32_usize..2400) {
            let mut value = vec![0; size];
            let header = PayloadHeader { run: 1, producer: 2, sequence: 3, intended: 4 };
            BodyPool::new(size, 0.0, 1).fill(&header, &mut value);
            let bit = 32 + (bit - 32) % (size * 8 - 32);
            value[bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(read(&value), Err(PayloadError::Corrupt));
        }
    }

    #[test]
    fn the_pool_compresses_as_asked() {
        use std::io::Write;
        for (share, low, high) in [(0.0, 0.98, 1.02), (0.5, 0.4, 0.65), (0.9, 0.05, 0.25)] {
            let pool = BodyPool::new(64, share, 1);
            let mut deflate = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::default());
            deflate.write_all(&pool.bytes).unwrap();
            let ratio = deflate.finish().unwrap().len() as f64 / pool.bytes.len() as f64;
            assert!((low..high).contains(&ratio), "{share}: {ratio}");
        }
    }

    #[test]
    fn foreign_values_are_told_apart() {
        assert_eq!(read(b""), Err(PayloadError::Foreign));
        assert_eq!(read(&[0; 100]), Err(PayloadError::Foreign));
    }
}
