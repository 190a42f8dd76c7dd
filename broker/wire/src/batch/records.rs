//! Reading records.

use std::ops::ControlFlow;

use super::{BatchError, BatchHeader};

/// One batch of a record set, as it stands in a fetch answer or a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch<'a> {
    /// Exactly the batch's bytes, header included.
    pub bytes: &'a [u8],
    /// Its decoded header.
    pub header: BatchHeader,
}

/// The batches of a record set, see [`batches`].
#[derive(Clone, Debug)]
pub struct Batches<'a> {
    rest: &'a [u8],
}

/// The batches of a record set. A last batch that is cut short ends the iteration, as a fetch answer may cut it; other
/// damage is an error, after which the iteration ends. The CRC is not checked here: see [`super::check_crc`].
pub fn batches(records: &[u8]) -> Batches<'_> {
    Batches { rest: records }
}

impl<'a> Iterator for Batches<'a> {
    type Item = Result<Batch<'a>, BatchError>;

    fn next(&mut self) -> Option<Self::Item> {
        let _ = self.rest;
        todo!()
    }
}

/// One record of a batch, borrowed from its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// The offset less the batch's base offset.
    pub offset_delta: i32,
    /// The timestamp: the record's own, or the batch's append time.
    pub timestamp: i64,
    /// The key; null and empty are different.
    pub key: Option<&'a [u8]>,
    /// The value; null (a tombstone) and empty are different.
    pub value: Option<&'a [u8]>,
    headers: RecordHeaders<'a>,
}

impl<'a> Record<'a> {
    /// The headers in order, duplicate names included.
    pub fn headers(&self) -> RecordHeaders<'a> {
        self.headers
    }
}

/// The headers of a record: name and value. Copyable, no allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordHeaders<'a> {
    bytes: &'a [u8],
    count: u32,
}

impl<'a> Iterator for RecordHeaders<'a> {
    type Item = (&'a str, Option<&'a [u8]>);

    fn next(&mut self) -> Option<Self::Item> {
        let _ = (self.bytes, self.count);
        todo!()
    }
}

/// The records of an uncompressed batch, see [`records`].
#[derive(Clone, Debug)]
pub struct Records<'a> {
    rest: &'a [u8],
}

/// The records of an uncompressed batch, borrowed. A compressed batch is an error: see [`for_each_record`].
pub fn records(batch: &[u8]) -> Result<Records<'_>, BatchError> {
    Ok(Records { rest: batch })
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, BatchError>;

    fn next(&mut self) -> Option<Self::Item> {
        let _ = self.rest;
        todo!()
    }
}

/// Calls `visit` with every record of a batch, compressed or not, until it breaks. A compressed batch is streamed: at most
/// one record stands in memory, and no more than `decompressed_max_bytes` are decompressed.
pub fn for_each_record<B>(
    batch: &[u8],
    decompressed_max_bytes: usize,
    visit: impl FnMut(Record<'_>) -> ControlFlow<B>,
) -> Result<Option<B>, BatchError> {
    let _ = (batch, decompressed_max_bytes, visit);
    todo!()
}
