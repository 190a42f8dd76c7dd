//! Reading: the batches of a record set, and the records of a batch.

use std::ops::ControlFlow;

use super::header::{HEADER_SIZE, LOG_OVERHEAD};
use super::varint::Body;
use super::walk::{codec, end_stream, open_stream, plain_body, scan_error, shape, split};
use super::{BatchError, BatchHeader, Codec};

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

impl<'a> Batches<'a> {
    fn cut(&mut self) -> Result<Option<Batch<'a>>, BatchError> {
        let Some(length) = self
            .rest
            .get(8..LOG_OVERHEAD)
            .and_then(|field| field.first_chunk())
        else {
            return Ok(None);
        };
        let length = i32::from_be_bytes(*length);
        let size = usize::try_from(length).map_or(0, |length| length.saturating_add(LOG_OVERHEAD));
        if size < HEADER_SIZE {
            return Err(BatchError::corrupt(format!(
                "a batch claims a length of {length}"
            )));
        }
        let Some(bytes) = self.rest.get(..size) else {
            return Ok(None);
        };
        self.rest = &self.rest[size..];
        Ok(Some(Batch {
            bytes,
            header: BatchHeader::decode(bytes)?,
        }))
    }
}

impl<'a> Iterator for Batches<'a> {
    type Item = Result<Batch<'a>, BatchError>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.cut().transpose();
        if !matches!(batch, Some(Ok(_))) {
            self.rest = &[];
        }
        batch
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

    /// The offset, given the batch it stands in.
    pub fn offset(&self, batch: &BatchHeader) -> i64 {
        batch.base_offset.wrapping_add(i64::from(self.offset_delta))
    }

    pub(crate) fn parse(body: &'a [u8], header: &BatchHeader, index: i32) -> Result<Self, BatchError> {
        let shape = shape(&mut &body[..]).map_err(|error| scan_error(error, index))?;
        let mut rest = body;
        let fields = (|| {
            rest.skip(1)?;
            rest.varlong()?;
            rest.varint()?;
            let key = take_nullable(&mut rest)?;
            let value = take_nullable(&mut rest)?;
            let headers = RecordHeaders {
                count: rest.varint()?.max(0) as u32,
                bytes: rest,
            };
            Ok((key, value, headers))
        })();
        let (key, value, headers) = fields.map_err(|error| scan_error(error, index))?;
        let timestamp = header.timestamp_of(shape.timestamp_delta);
        Ok(Record {
            offset_delta: shape.offset_delta,
            timestamp,
            key,
            value,
            headers,
        })
    }
}

/// The headers of a record: name and value. Names are bytes, since nothing in the protocol makes a client write UTF-8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordHeaders<'a> {
    bytes: &'a [u8],
    count: u32,
}

impl<'a> Iterator for RecordHeaders<'a> {
    type Item = (&'a [u8], Option<&'a [u8]>);

    fn next(&mut self) -> Option<Self::Item> {
        // The record's shape was checked before this was made, so nothing here fails.
        self.count = self.count.checked_sub(1)?;
        let name = take_nullable(&mut self.bytes).ok()??;
        let value = take_nullable(&mut self.bytes).ok()?;
        Some((name, value))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.count as usize, Some(self.count as usize))
    }
}

impl ExactSizeIterator for RecordHeaders<'_> {}

fn take_nullable<'a>(bytes: &mut &'a [u8]) -> Result<Option<&'a [u8]>, super::varint::ScanError> {
    let Ok(length) = usize::try_from(bytes.varint()?) else {
        return Ok(None);
    };
    let start = *bytes;
    bytes.skip(length)?;
    Ok(Some(&start[..length]))
}

/// The records of an uncompressed batch, see [`records`].
#[derive(Clone, Debug)]
pub struct Records<'a> {
    header: BatchHeader,
    rest: &'a [u8],
    next_index: i32,
}

/// The records of an uncompressed batch, borrowed. A compressed batch is an error: see [`for_each_record`].
pub fn records(batch: &[u8]) -> Result<Records<'_>, BatchError> {
    let (header, data) = split(batch)?;
    match codec(&header)? {
        Codec::None => Ok(Records {
            header,
            rest: data,
            next_index: 0,
        }),
        codec => Err(BatchError::invalid(format!(
            "the batch is compressed with {}",
            codec.name()
        ))),
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, BatchError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.next_index >= self.header.record_count {
            return None;
        }
        let index = self.next_index;
        self.next_index += 1;
        let body = plain_body(&mut self.rest).map_err(|error| scan_error(error, index));
        let record = body.and_then(|body| Record::parse(body, &self.header, index));
        if record.is_err() {
            self.next_index = self.header.record_count;
        }
        Some(record)
    }
}

/// Calls `visit` with every record of a batch, compressed or not, until it breaks. A compressed batch is streamed: at most
/// one record stands in memory, and no more than `decompressed_max_bytes` are decompressed.
pub fn for_each_record<B>(
    batch: &[u8],
    decompressed_max_bytes: usize,
    mut visit: impl FnMut(Record<'_>) -> ControlFlow<B>,
) -> Result<Option<B>, BatchError> {
    let (header, data) = split(batch)?;
    let codec = codec(&header)?;
    if codec == Codec::None {
        for record in records(batch)? {
            if let ControlFlow::Break(value) = visit(record?) {
                return Ok(Some(value));
            }
        }
        return Ok(None);
    }
    let mut stream = open_stream(codec, data, decompressed_max_bytes)?;
    let mut body = Vec::new();
    for index in 0..header.record_count {
        let read = stream
            .record()
            .and_then(|mut record| record.collect_rest(&mut body));
        read.map_err(|error| scan_error(error, index))?;
        if let ControlFlow::Break(value) = visit(Record::parse(&body, &header, index)?) {
            return Ok(Some(value));
        }
    }
    end_stream(&mut stream, header.record_count)?;
    Ok(None)
}
