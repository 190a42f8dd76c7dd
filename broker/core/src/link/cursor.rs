//! Reading and writing fixed fields.

use uuid::Uuid;

use super::message::LinkError;
use crate::metadata::PartitionReference;

/// Reads fields off the front of what came.
pub(super) struct Cursor<'a>(pub(super) &'a [u8]);

impl<'a> Cursor<'a> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], LinkError> {
        let (front, rest) = self.0.split_first_chunk::<N>().ok_or(LinkError::Short)?;
        self.0 = rest;
        Ok(*front)
    }

    pub(super) fn u8(&mut self) -> Result<u8, LinkError> {
        self.take::<1>().map(|[byte]| byte)
    }

    pub(super) fn u16(&mut self) -> Result<u16, LinkError> {
        self.take().map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32, LinkError> {
        self.take().map(u32::from_le_bytes)
    }

    pub(super) fn i32(&mut self) -> Result<i32, LinkError> {
        self.take().map(i32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, LinkError> {
        self.take().map(u64::from_le_bytes)
    }

    pub(super) fn i64(&mut self) -> Result<i64, LinkError> {
        self.take().map(i64::from_le_bytes)
    }

    pub(super) fn uuid(&mut self) -> Result<Uuid, LinkError> {
        self.take().map(Uuid::from_bytes)
    }

    pub(super) fn partition(&mut self) -> Result<PartitionReference, LinkError> {
        Ok(PartitionReference {
            topic: self.uuid()?,
            partition: self.u32()?,
        })
    }

    /// An offset, which is never negative.
    pub(super) fn offset(&mut self) -> Result<i64, LinkError> {
        match self.i64()? {
            negative @ ..0 => Err(LinkError::Offset(negative)),
            offset => Ok(offset),
        }
    }

    /// A counted list; the count is believed only as far as there are bytes for it.
    pub(super) fn list<T>(
        &mut self,
        entry_bytes: usize,
        mut entry: impl FnMut(&mut Self) -> Result<T, LinkError>,
    ) -> Result<Vec<T>, LinkError> {
        let count = self.u32()? as usize;
        if self.0.len() != count.saturating_mul(entry_bytes) {
            return Err(LinkError::Count(count));
        }
        (0..count).map(|_| entry(self)).collect()
    }
}

pub(super) fn put_partition(out: &mut Vec<u8>, partition: &PartitionReference) {
    out.extend_from_slice(partition.topic.as_bytes());
    out.extend_from_slice(&partition.partition.to_le_bytes());
}
