//! A topic by name or by id.

use bytes::BytesMut;
use uuid::Uuid;

use crate::WireError;
use crate::primitives::{Reader, WriteExt};

/// How Produce and Fetch name a topic: by name up to version 12, by id from 13 on (KIP-516).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TopicRef<'a> {
    /// By name.
    Name(&'a str),
    /// By id.
    Id(Uuid),
}

impl<'a> TopicRef<'a> {
    pub(crate) fn read(reader: &mut Reader<'a>, by_id: bool, flexible: bool) -> Result<Self, WireError> {
        if by_id {
            return reader.uuid("topic id").map(TopicRef::Id);
        }
        reader.string(flexible, "topic name").map(TopicRef::Name)
    }

    pub(crate) fn write(&self, out: &mut BytesMut, by_id: bool, flexible: bool) -> Result<(), WireError> {
        match self {
            TopicRef::Id(id) if by_id => out.put_uuid(*id),
            TopicRef::Name(name) if !by_id => out.put_string(flexible, name),
            TopicRef::Id(_) => {
                return Err(WireError::Codec(
                    "this version names topics by name, not by id".into(),
                ));
            }
            TopicRef::Name(_) => {
                return Err(WireError::Codec(
                    "this version names topics by id, not by name".into(),
                ));
            }
        }
        Ok(())
    }
}
