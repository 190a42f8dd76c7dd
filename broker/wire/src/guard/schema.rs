//! How a schema is written down: just enough of Kafka's message definitions to find every length in a body.

/// The shape of an array element or of a whole body, and what it takes in memory once decoded.
pub(super) struct Schema {
    pub(super) shape: Shape,
    pub(super) decoded_bytes: usize,
}

pub(super) enum Shape {
    /// So many bytes.
    Fixed(usize),
    String,
    Structure(&'static [Field]),
}

/// A field of a structure.
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    since: i16,
    until: i16,
    tag: Option<u32>,
}

pub(super) enum Kind {
    /// So many bytes.
    Fixed(usize),
    /// STRING, nullable or not.
    String,
    /// BYTES or RECORDS, nullable or not.
    Bytes,
    /// An array, nullable or not.
    Array(&'static Schema),
    Structure(&'static Schema),
    /// A byte says whether the structure follows.
    NullableStructure(&'static Schema),
}

pub(super) static INT8: Schema = Schema {
    shape: Shape::Fixed(1),
    decoded_bytes: 1,
};
pub(super) static INT32: Schema = Schema {
    shape: Shape::Fixed(4),
    decoded_bytes: 4,
};
pub(super) static STRING: Schema = Schema {
    shape: Shape::String,
    decoded_bytes: size_of::<kafka_protocol::protocol::StrBytes>(),
};

impl Schema {
    /// A structure that the generated codec decodes to a `T`.
    pub(super) const fn of<T>(fields: &'static [Field]) -> Schema {
        Schema {
            shape: Shape::Structure(fields),
            decoded_bytes: size_of::<T>(),
        }
    }

    /// The bytes of the smallest encoding.
    pub(super) fn smallest(&self, version: i16, flexible: bool) -> usize {
        match self.shape {
            Shape::Fixed(size) => size,
            Shape::String => string_length_bytes(flexible),
            Shape::Structure(fields) => {
                let fields = fields.iter().filter(|field| field.is_in_order(version));
                let sizes = fields.map(|field| match &field.kind {
                    Kind::Fixed(size) => *size,
                    Kind::String => string_length_bytes(flexible),
                    Kind::Bytes | Kind::Array(_) => array_length_bytes(flexible),
                    Kind::Structure(schema) => schema.smallest(version, flexible),
                    Kind::NullableStructure(_) => 1,
                });
                sizes.sum::<usize>() + usize::from(flexible)
            }
        }
    }
}

const fn string_length_bytes(flexible: bool) -> usize {
    if flexible { 1 } else { 2 }
}

const fn array_length_bytes(flexible: bool) -> usize {
    if flexible { 1 } else { 4 }
}

impl Field {
    const fn new(name: &'static str, kind: Kind) -> Field {
        Field {
            name,
            kind,
            since: 0,
            until: i16::MAX,
            tag: None,
        }
    }

    /// The first version that has the field.
    pub(super) const fn since(self, version: i16) -> Field {
        Field {
            since: version,
            ..self
        }
    }

    /// The last version that has the field.
    pub(super) const fn until(self, version: i16) -> Field {
        Field {
            until: version,
            ..self
        }
    }

    /// The field's tag; it stands among the tagged fields.
    pub(super) const fn tagged(self, tag: u32) -> Field {
        Field {
            tag: Some(tag),
            ..self
        }
    }

    const fn is_in(&self, version: i16) -> bool {
        self.since <= version && version <= self.until
    }

    /// True when this version has the field among those without a tag.
    pub(super) const fn is_in_order(&self, version: i16) -> bool {
        self.tag.is_none() && self.is_in(version)
    }

    /// True when this version has the field under this tag.
    pub(super) fn is_tagged(&self, tag: u32, version: i16) -> bool {
        self.tag == Some(tag) && self.is_in(version)
    }

    /// The tag under which this version has the field.
    #[cfg(test)]
    pub(super) fn tag_in(&self, version: i16) -> Option<u32> {
        self.tag.filter(|_| self.is_in(version))
    }
}

pub(super) const fn int8(name: &'static str) -> Field {
    Field::new(name, Kind::Fixed(1))
}

pub(super) const fn int16(name: &'static str) -> Field {
    Field::new(name, Kind::Fixed(2))
}

pub(super) const fn int32(name: &'static str) -> Field {
    Field::new(name, Kind::Fixed(4))
}

pub(super) const fn int64(name: &'static str) -> Field {
    Field::new(name, Kind::Fixed(8))
}

pub(super) const fn uuid(name: &'static str) -> Field {
    Field::new(name, Kind::Fixed(16))
}

pub(super) const fn string(name: &'static str) -> Field {
    Field::new(name, Kind::String)
}

pub(super) const fn bytes(name: &'static str) -> Field {
    Field::new(name, Kind::Bytes)
}

pub(super) const fn array_of(name: &'static str, element: &'static Schema) -> Field {
    Field::new(name, Kind::Array(element))
}

pub(super) const fn structure(name: &'static str, schema: &'static Schema) -> Field {
    Field::new(name, Kind::Structure(schema))
}

pub(super) const fn nullable_structure(name: &'static str, schema: &'static Schema) -> Field {
    Field::new(name, Kind::NullableStructure(schema))
}
