//! Walking a body along its schema.

use super::schema::{Field, Kind, Schema, Shape};
use crate::WireError;
use crate::primitives::{DecodeBudget, Reader, STRING_BYTES_MAX};

/// What a tagged field that the codec does not know costs it: an entry of a tree map, whose first entry takes a node.
const UNKNOWN_TAG_BYTES: usize = 64;
const FIRST_UNKNOWN_TAG_BYTES: usize = 512;

/// Stands in a body of one version.
pub(super) struct Walk<'a> {
    pub(super) reader: Reader<'a>,
    pub(super) version: i16,
    pub(super) flexible: bool,
    pub(super) budget: DecodeBudget,
}

impl Walk<'_> {
    /// Passes over one element or a whole body.
    pub(super) fn element(&mut self, schema: &Schema, name: &'static str) -> Result<(), WireError> {
        match schema.shape {
            Shape::Fixed(size) => self.reader.take(size, name).map(drop),
            Shape::String => self.string(name),
            Shape::Structure(fields) => self.structure(fields),
        }
    }

    fn structure(&mut self, fields: &[Field]) -> Result<(), WireError> {
        let version = self.version;
        for field in fields.iter().filter(|field| field.is_in_order(version)) {
            self.field(field)?;
        }
        if self.flexible {
            self.tagged_fields(fields)?;
        }
        Ok(())
    }

    fn field(&mut self, field: &Field) -> Result<(), WireError> {
        let name = field.name;
        match &field.kind {
            Kind::Fixed(size) => self.reader.take(*size, name).map(drop),
            Kind::String => self.string(name),
            Kind::Bytes => {
                let length = self.length(name)?;
                self.reader.take(length, name).map(drop)
            }
            Kind::Array(element) => self.array(element, name),
            Kind::Structure(schema) => self.element(schema, name),
            Kind::NullableStructure(schema) => match self.reader.i8(name)? {
                1 => self.element(schema, name),
                _ => Ok(()),
            },
        }
    }

    fn array(&mut self, element: &Schema, name: &'static str) -> Result<(), WireError> {
        let count = self.length(name)?;
        let remaining = self.reader.remaining();
        if count > remaining / element.smallest(self.version, self.flexible) {
            return Err(WireError::TooLong {
                field: name,
                claimed: count as i64,
                remaining,
            });
        }
        self.budget.spend(count, element.decoded_bytes)?;
        for _ in 0..count {
            self.element(element, name)?;
        }
        Ok(())
    }

    /// The generated codec reads a tagged field that it knows without regard to the size before it, so that size must be
    /// right.
    fn tagged_fields(&mut self, fields: &[Field]) -> Result<(), WireError> {
        let name = "tagged fields";
        let mut cost = FIRST_UNKNOWN_TAG_BYTES;
        for _ in 0..self.reader.unsigned_varint(name)? {
            let tag = self.reader.unsigned_varint(name)?;
            let size = self.reader.unsigned_varint(name)? as usize;
            match fields.iter().find(|field| field.is_tagged(tag, self.version)) {
                Some(field) => {
                    let start = self.reader.position();
                    self.field(field)?;
                    let taken = self.reader.position() - start;
                    if taken != size {
                        let remaining = self.reader.remaining();
                        return Err(WireError::TooLong {
                            field: field.name,
                            claimed: size as i64,
                            remaining,
                        });
                    }
                }
                None => {
                    self.reader.take(size, name)?;
                    self.budget.spend(1, cost)?;
                    cost = UNKNOWN_TAG_BYTES;
                }
            }
        }
        Ok(())
    }

    fn string(&mut self, name: &'static str) -> Result<(), WireError> {
        let length = if self.flexible {
            self.compact_length(name)?
        } else {
            non_negative(self.reader.i16(name)?.into(), name)?
        };
        if length > STRING_BYTES_MAX {
            return Err(WireError::TooLong {
                field: name,
                claimed: length as i64,
                remaining: self.reader.remaining(),
            });
        }
        self.reader.take(length, name).map(drop)
    }

    /// The length of bytes or of an array; null is none.
    fn length(&mut self, name: &'static str) -> Result<usize, WireError> {
        if self.flexible {
            self.compact_length(name)
        } else {
            non_negative(self.reader.i32(name)?, name)
        }
    }

    fn compact_length(&mut self, name: &'static str) -> Result<usize, WireError> {
        Ok(self.reader.unsigned_varint(name)?.saturating_sub(1) as usize)
    }
}

/// A length that may be -1 for null. Whether the field may be null is for the codec to say.
fn non_negative(length: i32, name: &'static str) -> Result<usize, WireError> {
    match length {
        -1 => Ok(0),
        length => usize::try_from(length).map_err(|_| WireError::NotNullable { field: name }),
    }
}
