//! Kafka's primitive types: reading them from a slice and writing them to a buffer.
//!
//! [`Reader`] checks every length against the bytes that remain, so that nothing built on it can read or allocate
//! past its input.

use bytes::{BufMut, BytesMut};
use uuid::Uuid;

use crate::WireError;

/// The longest STRING, and as Kafka has it the longest COMPACT_STRING too.
pub const STRING_BYTES_MAX: usize = i16::MAX as usize;

/// A cursor over borrowed bytes. Every read names its field, for the error text.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// A cursor at the start.
    pub fn new(bytes: &'a [u8]) -> Self {
        Reader { bytes, at: 0 }
    }

    /// How many bytes were read.
    pub fn position(&self) -> usize {
        self.at
    }

    /// How many bytes remain.
    pub fn remaining(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// The next `length` bytes.
    pub fn take(&mut self, length: usize, field: &'static str) -> Result<&'a [u8], WireError> {
        let remaining = self.remaining();
        if length > remaining {
            return Err(WireError::TooLong {
                field,
                claimed: length as i64,
                remaining,
            });
        }
        let start = self.at;
        self.at += length;
        Ok(&self.bytes[start..self.at])
    }

    fn fixed<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], WireError> {
        match self.bytes[self.at..].first_chunk::<N>() {
            Some(chunk) => {
                self.at += N;
                Ok(*chunk)
            }
            None => Err(WireError::Truncated { field }),
        }
    }

    /// One byte.
    pub fn u8(&mut self, field: &'static str) -> Result<u8, WireError> {
        self.fixed::<1>(field).map(|bytes| bytes[0])
    }

    /// INT8.
    pub fn i8(&mut self, field: &'static str) -> Result<i8, WireError> {
        self.fixed(field).map(i8::from_be_bytes)
    }

    /// BOOLEAN: anything but zero is true, as in Kafka.
    pub fn bool(&mut self, field: &'static str) -> Result<bool, WireError> {
        self.u8(field).map(|byte| byte != 0)
    }

    /// INT16.
    pub fn i16(&mut self, field: &'static str) -> Result<i16, WireError> {
        self.fixed(field).map(i16::from_be_bytes)
    }

    /// INT32.
    pub fn i32(&mut self, field: &'static str) -> Result<i32, WireError> {
        self.fixed(field).map(i32::from_be_bytes)
    }

    /// INT64.
    pub fn i64(&mut self, field: &'static str) -> Result<i64, WireError> {
        self.fixed(field).map(i64::from_be_bytes)
    }

    /// UUID.
    pub fn uuid(&mut self, field: &'static str) -> Result<Uuid, WireError> {
        self.fixed(field).map(Uuid::from_bytes)
    }

    /// UNSIGNED_VARINT, at most five bytes and 32 bits.
    pub fn unsigned_varint(&mut self, field: &'static str) -> Result<u32, WireError> {
        let mut value = 0u32;
        for position in 0..5 {
            let byte = self.u8(field)?;
            if position == 4 && byte > 0x0f {
                break;
            }
            value |= u32::from(byte & 0x7f) << (position * 7);
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(WireError::BadVarint { field })
    }

    /// The length of a compact field: 0 is null, n + 1 is n.
    fn compact_length(&mut self, field: &'static str) -> Result<Option<usize>, WireError> {
        Ok(self
            .unsigned_varint(field)?
            .checked_sub(1)
            .map(|length| length as usize))
    }

    /// STRING or COMPACT_STRING length, nullable.
    fn string_length(&mut self, flexible: bool, field: &'static str) -> Result<Option<usize>, WireError> {
        if flexible {
            return self.compact_length(field);
        }
        Ok(usize::try_from(self.i16(field)?).ok())
    }

    /// (COMPACT_)NULLABLE_STRING. Any negative length is null, as in Kafka.
    pub fn nullable_string(
        &mut self,
        flexible: bool,
        field: &'static str,
    ) -> Result<Option<&'a str>, WireError> {
        let Some(length) = self.string_length(flexible, field)? else {
            return Ok(None);
        };
        let bytes = self.take(length, field)?;
        std::str::from_utf8(bytes)
            .map(Some)
            .map_err(|_| WireError::NotUtf8 { field })
    }

    /// (COMPACT_)STRING.
    pub fn string(&mut self, flexible: bool, field: &'static str) -> Result<&'a str, WireError> {
        self.nullable_string(flexible, field)?
            .ok_or(WireError::NotNullable { field })
    }

    /// (COMPACT_)NULLABLE_BYTES, and RECORDS.
    pub fn nullable_bytes(
        &mut self,
        flexible: bool,
        field: &'static str,
    ) -> Result<Option<&'a [u8]>, WireError> {
        let length = if flexible {
            self.compact_length(field)?
        } else {
            usize::try_from(self.i32(field)?).ok()
        };
        length.map(|length| self.take(length, field)).transpose()
    }

    /// The element count of a nullable array, refused when the remaining bytes cannot hold that many elements of
    /// `smallest` bytes. So a vector with this capacity is never larger than a small multiple of the input.
    pub fn nullable_array(
        &mut self,
        flexible: bool,
        smallest: usize,
        field: &'static str,
    ) -> Result<Option<usize>, WireError> {
        let count = if flexible {
            self.compact_length(field)?
        } else {
            usize::try_from(self.i32(field)?).ok()
        };
        let remaining = self.remaining();
        match count {
            Some(count) if count > remaining / smallest.max(1) => Err(WireError::TooLong {
                field,
                claimed: count as i64,
                remaining,
            }),
            count => Ok(count),
        }
    }

    /// The element count of an array that may not be null. See [`Reader::nullable_array`].
    pub fn array(
        &mut self,
        flexible: bool,
        smallest: usize,
        field: &'static str,
    ) -> Result<usize, WireError> {
        self.nullable_array(flexible, smallest, field)?
            .ok_or(WireError::NotNullable { field })
    }

    /// The tagged fields of a flexible structure: calls `known` with each tag and the bytes of its value. Tags that
    /// `known` does not know are skipped by ignoring them.
    pub fn tagged_fields(
        &mut self,
        flexible: bool,
        mut known: impl FnMut(u32, Reader<'a>) -> Result<(), WireError>,
    ) -> Result<(), WireError> {
        if !flexible {
            return Ok(());
        }
        let field = "tagged fields";
        for _ in 0..self.unsigned_varint(field)? {
            let tag = self.unsigned_varint(field)?;
            let size = self.unsigned_varint(field)?;
            known(tag, Reader::new(self.take(size as usize, field)?))?;
        }
        Ok(())
    }

    /// Tagged fields of which none is known.
    pub fn skip_tagged_fields(&mut self, flexible: bool) -> Result<(), WireError> {
        self.tagged_fields(flexible, |_, _| Ok(()))
    }
}

/// How many bytes a decoded message may take, so that a frame full of empty elements cannot grow into many times its
/// size.
#[derive(Clone, Copy, Debug)]
pub struct DecodeBudget {
    left: usize,
    limit: usize,
}

impl DecodeBudget {
    /// For messages that are few or small whatever their shape.
    const FLOOR_BYTES: usize = 64 << 10;

    /// Allows `multiple` bytes for each byte of the message, and 64 KiB.
    pub fn new(message_bytes: usize, multiple: usize) -> Self {
        let limit = message_bytes
            .saturating_mul(multiple)
            .saturating_add(Self::FLOOR_BYTES);
        DecodeBudget { left: limit, limit }
    }

    /// Never allows more than `limit_max` bytes.
    #[must_use]
    pub fn at_most(self, limit_max: usize) -> Self {
        let limit = self.limit.min(limit_max);
        DecodeBudget { left: limit, limit }
    }

    /// Takes `count` elements of `size` bytes.
    pub fn spend(&mut self, count: usize, size: usize) -> Result<(), WireError> {
        match self.left.checked_sub(count.saturating_mul(size)) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => Err(WireError::TooLarge { limit: self.limit }),
        }
    }
}

/// The bytes an UNSIGNED_VARINT takes.
pub fn unsigned_varint_size(value: u32) -> usize {
    (32 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

/// Writing Kafka's types that `BufMut` lacks.
pub trait WriteExt {
    /// UNSIGNED_VARINT.
    fn put_unsigned_varint(&mut self, value: u32);
    /// (COMPACT_)NULLABLE_STRING. A text longer than a string can be, as only an error text might become, is cut
    /// there, at a character's border.
    fn put_nullable_string(&mut self, flexible: bool, text: Option<&str>);
    /// (COMPACT_)STRING.
    fn put_string(&mut self, flexible: bool, text: &str) {
        self.put_nullable_string(flexible, Some(text));
    }
    /// The length of (COMPACT_)NULLABLE_BYTES, RECORDS or of an array.
    fn put_length(&mut self, flexible: bool, length: Option<usize>);
    /// An empty set of tagged fields, where the version has them.
    fn put_no_tagged_fields(&mut self, flexible: bool);
    /// UUID.
    fn put_uuid(&mut self, uuid: Uuid);
}

impl WriteExt for BytesMut {
    fn put_unsigned_varint(&mut self, mut value: u32) {
        while value >= 0x80 {
            self.put_u8((value as u8) | 0x80);
            value >>= 7;
        }
        self.put_u8(value as u8);
    }

    fn put_nullable_string(&mut self, flexible: bool, text: Option<&str>) {
        let text = text.map(|text| &text[..text.floor_char_boundary(STRING_BYTES_MAX)]);
        match (flexible, text) {
            (true, None) => self.put_u8(0),
            (true, Some(text)) => self.put_unsigned_varint(text.len() as u32 + 1),
            (false, None) => self.put_i16(-1),
            (false, Some(text)) => self.put_i16(text.len() as i16),
        }
        self.put_slice(text.unwrap_or_default().as_bytes());
    }

    fn put_length(&mut self, flexible: bool, length: Option<usize>) {
        match (flexible, length) {
            (true, None) => self.put_u8(0),
            (true, Some(length)) => self.put_unsigned_varint(length as u32 + 1),
            (false, None) => self.put_i32(-1),
            (false, Some(length)) => self.put_i32(length as i32),
        }
    }

    fn put_no_tagged_fields(&mut self, flexible: bool) {
        if flexible {
            self.put_u8(0);
        }
    }

    fn put_uuid(&mut self, uuid: Uuid) {
        self.put_slice(uuid.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn unsigned_varints_round_trip_with_their_size(value: u32) {
            let mut out = BytesMut::new();
            out.put_unsigned_varint(value);
            prop_assert_eq!(out.len(), unsigned_varint_size(value));
            let mut reader = Reader::new(&out);
            prop_assert_eq!(reader.unsigned_varint("value"), Ok(value));
            prop_assert_eq!(reader.remaining(), 0);
        }

        #[test]
        fn strings_round_trip(flexible: bool, text in proptest::option::of(".{0,40}")) {
            let mut out = BytesMut::new();
            out.put_nullable_string(flexible, text.as_deref());
            prop_assert_eq!(Reader::new(&out).nullable_string(flexible, "text"), Ok(text.as_deref()));
        }
    }

    #[test]
    fn a_varint_of_more_than_32_bits_is_refused() {
        let field = "value";
        for bytes in [
            &[0xff, 0xff, 0xff, 0xff, 0x10][..],
            &[0x80, 0x80, 0x80, 0x80, 0x80, 0x01],
        ] {
            assert_eq!(
                Reader::new(bytes).unsigned_varint(field),
                Err(WireError::BadVarint { field })
            );
        }
        assert_eq!(
            Reader::new(&[0xff, 0xff, 0xff, 0xff, 0x0f]).unsigned_varint(field),
            Ok(u32::MAX)
        );
        assert_eq!(
            Reader::new(&[0x80]).unsigned_varint(field),
            Err(WireError::Truncated { field })
        );
    }

    #[test]
    fn counts_are_checked_against_the_bytes_that_remain() {
        let bytes = [0, 0, 0, 3, 1, 2, 3, 4, 5, 6];
        assert_eq!(Reader::new(&bytes).array(false, 2, "items"), Ok(3));
        let refused = Reader::new(&bytes).array(false, 3, "items");
        assert_eq!(
            refused,
            Err(WireError::TooLong {
                field: "items",
                claimed: 3,
                remaining: 6
            })
        );
        assert_eq!(
            Reader::new(&[0xff; 4]).nullable_array(false, 1, "items"),
            Ok(None)
        );
        assert_eq!(
            Reader::new(&[0xff; 4]).array(false, 1, "items"),
            Err(WireError::NotNullable { field: "items" })
        );
    }

    #[test]
    fn an_overlong_text_is_cut_at_a_character() {
        let mut out = BytesMut::new();
        out.put_string(false, &"é".repeat(20_000));
        assert_eq!(Reader::new(&out).string(false, "text").map(str::len), Ok(32_766));
    }
}
