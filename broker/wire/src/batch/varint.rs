//! The zigzag varints of records (VARINT and VARLONG), and the cursor over one record's body.

use std::io;

/// Why a record could not be walked.
#[derive(Debug)]
pub(crate) enum ScanError {
    /// The bytes are no record.
    Malformed(&'static str),
    /// The decompressor failed, or the cap was passed.
    Read(io::Error),
}

const BAD_VARINT: ScanError = ScanError::Malformed("a varint has too many bits");

/// The bytes of one record's body: a slice of an uncompressed batch, or the part of a stream that the record claims.
pub(crate) trait Body {
    /// The bytes left in the body.
    fn remaining(&self) -> usize;

    /// The next byte.
    fn byte(&mut self) -> Result<u8, ScanError>;

    /// Passes over bytes. Fails when fewer remain.
    fn skip(&mut self, count: usize) -> Result<(), ScanError>;

    /// VARINT: at most five bytes, 32 bits.
    #[inline]
    fn varint(&mut self) -> Result<i32, ScanError> {
        // Nearly every varint of a record has one byte or two.
        let first = self.byte()?;
        if first < 0x80 {
            return Ok(unzigzag_32(u32::from(first)));
        }
        let second = self.byte()?;
        let value = u32::from(first & 0x7f) | u32::from(second & 0x7f) << 7;
        if second < 0x80 {
            Ok(unzigzag_32(value))
        } else {
            self.long_varint(value)
        }
    }

    /// The rest of a VARINT of which two bytes are read.
    fn long_varint(&mut self, mut value: u32) -> Result<i32, ScanError> {
        for position in 2..5 {
            let byte = self.byte()?;
            if position == 4 && byte > 0x0f {
                break;
            }
            value |= u32::from(byte & 0x7f) << (7 * position);
            if byte < 0x80 {
                return Ok(unzigzag_32(value));
            }
        }
        Err(BAD_VARINT)
    }

    /// VARLONG: at most ten bytes, 64 bits.
    #[inline]
    fn varlong(&mut self) -> Result<i64, ScanError> {
        let first = self.byte()?;
        if first < 0x80 {
            return Ok(unzigzag_64(u64::from(first)));
        }
        let second = self.byte()?;
        let value = u64::from(first & 0x7f) | u64::from(second & 0x7f) << 7;
        if second < 0x80 {
            Ok(unzigzag_64(value))
        } else {
            self.long_varlong(value)
        }
    }

    /// The rest of a VARLONG of which two bytes are read.
    fn long_varlong(&mut self, mut value: u64) -> Result<i64, ScanError> {
        for position in 2..10 {
            let byte = self.byte()?;
            if position == 9 && byte > 1 {
                break;
            }
            value |= u64::from(byte & 0x7f) << (7 * position);
            if byte < 0x80 {
                return Ok(unzigzag_64(value));
            }
        }
        Err(BAD_VARINT)
    }
}

impl Body for &[u8] {
    fn remaining(&self) -> usize {
        self.len()
    }

    #[inline]
    fn byte(&mut self) -> Result<u8, ScanError> {
        match self.split_first() {
            Some((byte, rest)) => {
                *self = rest;
                Ok(*byte)
            }
            None => Err(ScanError::Malformed("a record is shorter than its fields")),
        }
    }

    #[inline]
    fn skip(&mut self, count: usize) -> Result<(), ScanError> {
        match self.get(count..) {
            Some(rest) => {
                *self = rest;
                Ok(())
            }
            None => Err(ScanError::Malformed("a field is longer than its record")),
        }
    }
}

fn unzigzag_32(value: u32) -> i32 {
    (value >> 1) as i32 ^ -((value & 1) as i32)
}

fn unzigzag_64(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// The longest VARLONG.
pub(crate) const VARINT_SIZE_MAX: usize = 10;

/// A value as VARINT or VARLONG (they do not differ for a value that fits both): the bytes and how many count.
pub(crate) fn encode_varint(value: i64) -> ([u8; VARINT_SIZE_MAX], usize) {
    let mut bytes = [0; VARINT_SIZE_MAX];
    let mut size = 0;
    let mut rest = zigzag(value);
    while rest >= 0x80 {
        bytes[size] = rest as u8 | 0x80;
        rest >>= 7;
        size += 1;
    }
    bytes[size] = rest as u8;
    (bytes, size + 1)
}

/// Appends a VARINT or VARLONG.
pub(crate) fn put_varint(out: &mut Vec<u8>, value: i64) {
    let (bytes, size) = encode_varint(value);
    out.extend_from_slice(&bytes[..size]);
}

/// The bytes of a VARINT or VARLONG.
pub(crate) fn varint_size(value: i64) -> usize {
    (64 - (zigzag(value) | 1).leading_zeros() as usize).div_ceil(7)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn varints_round_trip(value: i64, small: i32) {
            for value in [value, i64::from(small)] {
                let mut out = Vec::new();
                put_varint(&mut out, value);
                prop_assert_eq!(out.len(), varint_size(value));
                let mut body = &out[..];
                prop_assert_eq!(body.varlong().unwrap(), value);
                prop_assert!(body.is_empty());
            }
            let mut out = Vec::new();
            put_varint(&mut out, i64::from(small));
            prop_assert_eq!((&mut &out[..]).varint().unwrap(), small);
        }
    }

    #[test]
    fn golden_varints() {
        for (value, bytes) in [
            (0, &[0][..]),
            (-1, &[1]),
            (1, &[2]),
            (63, &[0x7e]),
            (64, &[0x80, 1]),
            (-65, &[0x81, 1]),
        ] {
            let mut out = Vec::new();
            put_varint(&mut out, value);
            assert_eq!(out, bytes);
        }
    }

    #[test]
    fn too_many_bits_are_refused() {
        assert!((&mut &[0xff, 0xff, 0xff, 0xff, 0x10][..]).varint().is_err());
        assert!((&mut &[0xff, 0xff, 0xff, 0xff, 0x0f][..]).varint().is_ok());
        assert!(
            (&mut &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2][..])
                .varlong()
                .is_err()
        );
        assert!(
            (&mut &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1][..])
                .varlong()
                .is_ok()
        );
    }
}
