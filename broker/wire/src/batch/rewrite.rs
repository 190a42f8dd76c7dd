//! Rewriting a batch's records: another codec, or offset deltas that count 0, 1, 2.

use std::io::{self, Write};

use super::compress::{CappedVec, Compressor};
use super::decompress::Decompressor;
use super::header::{BatchHeader, HEADER_SIZE, LOG_OVERHEAD, patch_and_recrc};
use super::stream::RecordStream;
use super::varint::{Body, ScanError, encode_varint, varint_size};
use super::walk::{codec, open_stream, scan_error};
use super::{BatchError, BatchErrorKind, Compression};

/// A batch that is written anew with `target`'s codec, `header` (its length, codec bits and CRC set) and offset deltas that
/// count from 0. Key, value, headers and timestamp deltas stay. The batch was walked before, so its records are well formed.
///
/// Streams from codec to codec. The output is refused where it passes `size_max`, not after.
pub(crate) struct Rewrite<'a> {
    header: BatchHeader,
    target: Compression,
    size_max: usize,
    source: RecordStream<Decompressor<'a>>,
    out: Compressor<CappedVec>,
    index: i32,
}

impl<'a> Rewrite<'a> {
    pub(crate) fn new(
        header: BatchHeader,
        data: &'a [u8],
        target: Compression,
        decompressed_max_bytes: usize,
        size_max: usize,
    ) -> Result<Self, BatchError> {
        let size_max = size_max.min(i32::MAX as usize);
        let output_error = |error: io::Error| output_error(error, target, size_max);
        let mut out = CappedVec {
            bytes: Vec::with_capacity(HEADER_SIZE + data.len()),
            size_max,
        };
        out.write_all(&[0; HEADER_SIZE]).map_err(output_error)?;
        Ok(Self {
            header,
            target,
            size_max,
            source: open_stream(codec(&header)?, data, decompressed_max_bytes)?,
            out: Compressor::new(target, out).map_err(output_error)?,
            index: 0,
        })
    }

    /// Writes records until about `step_bytes` were read; whether all are written.
    pub(crate) fn advance(&mut self, step_bytes: usize) -> Result<bool, BatchError> {
        let until = self.source.read_bytes.saturating_add(step_bytes);
        while self.index < self.header.record_count {
            if self.source.read_bytes >= until {
                return Ok(false);
            }
            self.record()?;
            self.index += 1;
        }
        Ok(true)
    }

    fn record(&mut self) -> Result<(), BatchError> {
        let index = self.index;
        let (target, size_max) = (self.target, self.size_max);
        let output_error = |error: io::Error| output_error(error, target, size_max);
        let input_error = |error| scan_error(error, index);
        let out = &mut self.out;
        let mut body = self.source.record().map_err(input_error)?;
        let attributes = body.byte().map_err(input_error)?;
        let timestamp_delta = body.varlong().map_err(input_error)?;
        body.varint().map_err(input_error)?; // the offset delta as sent
        let rest = body.remaining();
        let new_length = 1 + varint_size(timestamp_delta) + varint_size(i64::from(index)) + rest;
        write_varint(out, new_length as i64).map_err(output_error)?;
        out.write_all(&[attributes]).map_err(output_error)?;
        write_varint(out, timestamp_delta).map_err(output_error)?;
        write_varint(out, i64::from(index)).map_err(output_error)?;
        match body.copy_rest(out) {
            Ok(()) => Ok(()),
            // Input and output fail in one place here; only the output can pass the size limit of a batch that was
            // walked under the same cap.
            Err(ScanError::Read(error)) => Err(output_error(error)),
            Err(error) => Err(scan_error(error, index)),
        }
    }

    /// The batch and its header, once all records are written.
    pub(crate) fn finish(self) -> Result<(Vec<u8>, BatchHeader), BatchError> {
        let (target, size_max, mut header) = (self.target, self.size_max, self.header);
        let mut batch = self
            .out
            .finish()
            .map_err(|error| output_error(error, target, size_max))?
            .bytes;
        header.batch_length = (batch.len() - LOG_OVERHEAD) as i32;
        header.set_codec(target.codec);
        header.crc = patch_and_recrc(&mut batch, &header);
        Ok((batch, header))
    }
}

fn write_varint(out: &mut impl Write, value: i64) -> io::Result<()> {
    let (bytes, size) = encode_varint(value);
    out.write_all(&bytes[..size])
}

fn output_error(error: io::Error, target: Compression, size_max: usize) -> BatchError {
    if error.kind() == io::ErrorKind::FileTooLarge {
        let name = target.codec.name();
        let message =
            format!("the batch written with codec {name} is larger than max.message.bytes, {size_max}");
        return BatchError::new(BatchErrorKind::TooLarge, message);
    }
    BatchError::invalid(format!(
        "the batch cannot be written with codec {}: {error}",
        target.codec.name()
    ))
}
