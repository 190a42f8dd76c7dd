//! Walking the records of a batch without keeping them: their shape is checked, their key is known to be there or null,
//! their values are passed over. Validation and the search by timestamp are built on this.

use std::io;
use std::ops::ControlFlow;

use super::decompress::Decompressor;
use super::header::{BatchHeader, HEADER_SIZE};
use super::stream::RecordStream;
use super::varint::{Body, ScanError};
use super::{BatchError, BatchErrorKind, Codec};

/// What a walk tells of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordShape {
    pub(crate) offset_delta: i32,
    pub(crate) timestamp_delta: i64,
    pub(crate) has_key: bool,
}

/// Checks one record's body from end to end.
#[inline]
pub(crate) fn shape(body: &mut impl Body) -> Result<RecordShape, ScanError> {
    body.byte()?; // attributes: none is in use
    let timestamp_delta = body.varlong()?;
    let offset_delta = body.varint()?;
    let has_key = skip_nullable(body)?;
    skip_nullable(body)?; // value
    let Ok(header_count) = usize::try_from(body.varint()?) else {
        return Err(ScanError::Malformed("a record has a negative number of headers"));
    };
    if header_count > body.remaining() / 2 {
        return Err(ScanError::Malformed(
            "a record has more headers than bytes for them",
        ));
    }
    for _ in 0..header_count {
        if !skip_nullable(body)? {
            return Err(ScanError::Malformed("a record header has no name"));
        }
        skip_nullable(body)?;
    }
    if body.remaining() > 0 {
        return Err(ScanError::Malformed("a record is longer than its fields"));
    }
    Ok(RecordShape {
        offset_delta,
        timestamp_delta,
        has_key,
    })
}

/// Passes over a field with a length before it. False when it is null, which any negative length means.
#[inline]
fn skip_nullable(body: &mut impl Body) -> Result<bool, ScanError> {
    match usize::try_from(body.varint()?) {
        Ok(length) => body.skip(length).map(|()| true),
        Err(_) => Ok(false),
    }
}

/// The codec of a batch, or why there is none.
pub(crate) fn codec(header: &BatchHeader) -> Result<Codec, BatchError> {
    header.codec().ok_or_else(|| {
        BatchError::new(
            BatchErrorKind::UnsupportedCompression,
            "the batch names a codec that does not exist",
        )
    })
}

/// The bytes of exactly one batch: header and records.
pub(crate) fn split(batch: &[u8]) -> Result<(BatchHeader, &[u8]), BatchError> {
    let header = BatchHeader::decode(batch)?;
    match header.size() {
        Some(size) if size <= batch.len() => Ok((header, &batch[HEADER_SIZE..size])),
        _ => Err(BatchError::corrupt(format!(
            "a batch that claims a length of {} stands in {} bytes",
            header.batch_length,
            batch.len()
        ))),
    }
}

/// Walks as many records as the header says, and checks that nothing follows them. `visit` gets each record's index and
/// shape, and may break off.
pub(crate) fn walk<B>(
    header: &BatchHeader,
    data: &[u8],
    decompressed_max_bytes: usize,
    visit: impl FnMut(i32, RecordShape) -> ControlFlow<B>,
) -> Result<Option<B>, BatchError> {
    match codec(header)? {
        Codec::None => walk_plain(header.record_count, data, visit),
        codec => walk_compressed(codec, header.record_count, data, decompressed_max_bytes, visit),
    }
}

/// The fast path: no allocation, no copy.
fn walk_plain<B>(
    record_count: i32,
    mut data: &[u8],
    mut visit: impl FnMut(i32, RecordShape) -> ControlFlow<B>,
) -> Result<Option<B>, BatchError> {
    for index in 0..record_count {
        let shape = plain_body(&mut data).and_then(|mut body| shape(&mut body));
        let shape = shape.map_err(|error| scan_error(error, index))?;
        if let ControlFlow::Break(value) = visit(index, shape) {
            return Ok(Some(value));
        }
    }
    if !data.is_empty() {
        return Err(left_over());
    }
    Ok(None)
}

/// Cuts the next record's body off an uncompressed batch.
#[inline]
pub(crate) fn plain_body<'a>(data: &mut &'a [u8]) -> Result<&'a [u8], ScanError> {
    let Ok(length) = usize::try_from(data.varint()?) else {
        return Err(ScanError::Malformed("a record has a negative length"));
    };
    let body = data
        .get(..length)
        .ok_or(ScanError::Malformed("the batch ends inside a record"))?;
    *data = &data[length..];
    Ok(body)
}

fn walk_compressed<B>(
    codec: Codec,
    record_count: i32,
    data: &[u8],
    decompressed_max_bytes: usize,
    mut visit: impl FnMut(i32, RecordShape) -> ControlFlow<B>,
) -> Result<Option<B>, BatchError> {
    let mut stream = open_stream(codec, data, decompressed_max_bytes)?;
    for index in 0..record_count {
        let shape = stream.shape().map_err(|error| scan_error(error, index))?;
        if let ControlFlow::Break(value) = visit(index, shape) {
            return Ok(Some(value));
        }
    }
    end_stream(&mut stream, record_count)?;
    Ok(None)
}

/// A walk over a batch's records that goes a step at a time: what a client sends may unpack to a thousandfold, and nothing
/// else on the thread goes on meanwhile.
pub(crate) struct Walk<'a> {
    record_count: i32,
    source: Source<'a>,
}

enum Source<'a> {
    Plain(&'a [u8]),
    Compressed(Box<RecordStream<Decompressor<'a>>>, i32),
}

impl<'a> Walk<'a> {
    pub(crate) fn new(
        header: &BatchHeader,
        data: &'a [u8],
        decompressed_max_bytes: usize,
    ) -> Result<Self, BatchError> {
        let source = match codec(header)? {
            Codec::None => Source::Plain(data),
            codec => Source::Compressed(Box::new(open_stream(codec, data, decompressed_max_bytes)?), 0),
        };
        Ok(Self {
            record_count: header.record_count,
            source,
        })
    }

    /// Walks records until about `step_bytes` were unpacked; whether that was all. A plain batch, as large as a request at
    /// most, takes one step.
    pub(crate) fn advance(
        &mut self,
        step_bytes: usize,
        mut visit: impl FnMut(i32, RecordShape),
    ) -> Result<bool, BatchError> {
        let (stream, index) = match &mut self.source {
            Source::Plain(data) => {
                walk_plain(self.record_count, data, |index, shape| {
                    visit(index, shape);
                    ControlFlow::<()>::Continue(())
                })?;
                return Ok(true);
            }
            Source::Compressed(stream, index) => (stream, index),
        };
        let until = stream.read_bytes.saturating_add(step_bytes);
        while *index < self.record_count {
            if stream.read_bytes >= until {
                return Ok(false);
            }
            let shape = stream.shape().map_err(|error| scan_error(error, *index))?;
            visit(*index, shape);
            *index += 1;
        }
        end_stream(stream, self.record_count)?;
        Ok(true)
    }
}

/// Opens the records of a batch as a stream, whatever the codec.
pub(crate) fn open_stream(
    codec: Codec,
    data: &[u8],
    decompressed_max_bytes: usize,
) -> Result<RecordStream<Decompressor<'_>>, BatchError> {
    let input = Decompressor::new(codec, data, decompressed_max_bytes);
    input
        .map(RecordStream::new)
        .map_err(|error| scan_error(ScanError::Read(error), 0))
}

/// Checks that a stream ends after its last record.
pub(crate) fn end_stream(
    stream: &mut RecordStream<Decompressor<'_>>,
    record_count: i32,
) -> Result<(), BatchError> {
    match stream.at_end() {
        Ok(true) => Ok(()),
        Ok(false) => Err(left_over()),
        Err(error) => Err(scan_error(error, record_count)),
    }
}

pub(crate) fn left_over() -> BatchError {
    BatchError::invalid("bytes are left after the last record that the batch's header counts")
}

/// Says what was wrong at a record. The CRC was right when this is found, so sending the batch again cannot help: it is
/// an invalid record, not a corrupt message, which clients would retry.
pub(crate) fn scan_error(error: ScanError, index: i32) -> BatchError {
    match error {
        ScanError::Malformed(what) => BatchError::invalid(format!("record {index} cannot be read: {what}")),
        ScanError::Read(error) if error.kind() == io::ErrorKind::FileTooLarge => {
            let message = format!("the batch decompresses to more bytes than allowed: {error}");
            BatchError::new(BatchErrorKind::DecompressedTooLarge, message)
        }
        ScanError::Read(error) => BatchError::invalid(format!(
            "the batch does not decompress (at record {index}): {error}"
        )),
    }
}
