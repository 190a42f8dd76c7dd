//! Taking records out of a stored batch, as compaction does. What stays keeps its offset, timestamp, key, value and
//! headers; the batch keeps its offsets, codec, producer and sequences.
//!
//! A batch in which a tombstone stays gets its delete horizon (KIP-534), once: the time from which the tombstone may go,
//! in the base timestamp, to which the records' timestamps are relative from then on.

use std::io::{self, Write};

use super::compress::Compressor;
use super::decompress::Decompressor;
use super::header::{BatchHeader, HEADER_SIZE, LOG_OVERHEAD, NO_TIMESTAMP, Recrc, patch_and_recrc};
use super::stream::{RecordStream, StreamBody};
use super::varint::{Body, ScanError, encode_varint, varint_size};
use super::walk::{codec, end_stream, left_over, open_stream, plain_body, scan_error, split};
use super::{BatchError, Codec, Compression, Record};

/// A CRC of so many bytes takes no longer than a record of one byte.
const CRC_BYTES_A_RECORD_BYTE: usize = 16;

/// What is left of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Filtered {
    /// The batch as it stands.
    Unchanged,
    /// No record.
    Nothing,
    /// The batch without the records that went.
    Changed(Vec<u8>, BatchHeader),
}

/// What a filter shall do besides dropping records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilterRules {
    /// The delete horizon of a batch that has none yet and keeps a tombstone.
    pub delete_horizon_ms: i64,
    /// Sets the horizon without a tombstone too: a transaction's marker waits for it in the same way.
    pub is_marker: bool,
    /// What the batch may decompress to.
    pub decompressed_max_bytes: usize,
}

/// What a filter asks about: a record as far as it is kept in memory. The key is whole; of the rest only what it says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordHead<'a> {
    /// The offset less the batch's base offset.
    pub offset_delta: i32,
    /// The timestamp: the record's own, or the batch's append time.
    pub timestamp: i64,
    /// The key; null and empty are different.
    pub key: Option<&'a [u8]>,
    /// Whether the value is null.
    pub is_tombstone: bool,
}

impl<'a> RecordHead<'a> {
    /// The offset, given the batch it stands in.
    pub fn offset(&self, batch: &BatchHeader) -> i64 {
        batch.base_offset.wrapping_add(i64::from(self.offset_delta))
    }

    fn of(record: &Record<'a>) -> Self {
        Self {
            offset_delta: record.offset_delta,
            timestamp: record.timestamp,
            key: record.key,
            is_tombstone: record.value.is_none(),
        }
    }
}

/// A filter that goes a step at a time, so that neither a batch nor a record which unpacks to much holds anybody up, or takes memory
/// for more than its key.
pub struct Filter<'a> {
    header: BatchHeader,
    data: &'a [u8],
    codec: Codec,
    rules: FilterRules,
    source: Source<'a>,
    next_index: i32,
    /// What of the record at `next_index` is to be passed over, or written, still.
    rest: usize,
    kept: Kept,
    out: Option<Out>,
    written: Option<Written>,
}

/// Which records stay, and what is known of them together.
#[derive(Default)]
struct Kept {
    bits: Vec<u64>,
    count: i32,
    has_tombstone: bool,
    max_timestamp: i64,
}

impl Kept {
    fn note(&mut self, index: i32, record: &RecordHead<'_>, keep: bool) {
        let (word, bit) = (index as usize / 64, index as usize % 64);
        if word == self.bits.len() {
            self.bits.push(0);
        }
        if keep {
            self.bits[word] |= 1 << bit;
            self.max_timestamp = match self.count {
                0 => record.timestamp,
                _ => self.max_timestamp.max(record.timestamp),
            };
            self.count += 1;
            self.has_tombstone |= record.is_tombstone;
        }
    }

    fn has(&self, index: i32) -> bool {
        self.bits[index as usize / 64] >> (index as usize % 64) & 1 == 1
    }
}

enum Source<'a> {
    Plain(&'a [u8]),
    /// With room for a record, or for the key of a large one.
    Compressed(Box<RecordStream<Decompressor<'a>>>, Vec<u8>),
}

impl<'a> Source<'a> {
    fn open(codec: Codec, data: &'a [u8], decompressed_max_bytes: usize) -> Result<Self, BatchError> {
        Ok(match codec {
            Codec::None => Self::Plain(data),
            codec => Self::Compressed(
                Box::new(open_stream(codec, data, decompressed_max_bytes)?),
                Vec::new(),
            ),
        })
    }

    fn end(&mut self, record_count: i32) -> Result<(), BatchError> {
        match self {
            Self::Plain([]) => Ok(()),
            Self::Plain(_) => Err(left_over()),
            Self::Compressed(stream, _) => end_stream(stream, record_count),
        }
    }
}

/// The batch that is being written.
struct Out {
    compressor: Compressor<Vec<u8>>,
    header: BatchHeader,
    /// What is added to each record's timestamp delta.
    shift: i64,
}

/// The batch that lacks its CRC alone.
struct Written {
    batch: Vec<u8>,
    header: BatchHeader,
    recrc: Recrc,
}

impl<'a> Filter<'a> {
    /// Begins with exactly one batch.
    ///
    /// # Errors
    /// [`BatchError`] when it is none.
    pub fn new(batch: &'a [u8], rules: FilterRules) -> Result<Self, BatchError> {
        let (header, data) = split(batch)?;
        let codec = codec(&header)?;
        Ok(Self {
            header,
            data,
            codec,
            rules,
            source: Source::open(codec, data, rules.decompressed_max_bytes)?,
            next_index: 0,
            rest: 0,
            kept: Kept::default(),
            out: None,
            written: None,
        })
    }

    /// Goes on for about `step_bytes` of unpacked records, each of which `keep` is asked about once; the result, once there
    /// is one. Not to be called again after that.
    ///
    /// # Errors
    /// [`BatchError`] when the batch cannot be read to its end.
    pub fn advance(
        &mut self,
        step_bytes: usize,
        mut keep: impl FnMut(&RecordHead<'_>) -> bool,
    ) -> Result<Option<Filtered>, BatchError> {
        if let Some(written) = &mut self.written {
            return Ok(written.advance(step_bytes));
        }
        let mut left = step_bytes;
        while self.next_index < self.header.record_count {
            if left == 0 {
                return Ok(None);
            }
            let took = match (self.rest, &self.out) {
                (0, None) => self.look(step_bytes, &mut keep)?,
                (0, Some(_)) => self.begin_record()?,
                _ => self.pass_rest(left)?,
            };
            left = left.saturating_sub(took.max(1));
            self.next_index += i32::from(self.rest == 0);
        }
        self.source.end(self.header.record_count)?;
        match self.out.take() {
            None => self.decide(),
            Some(out) => {
                self.written = Some(out.finish(self.codec)?);
                Ok(None)
            }
        }
    }

    /// Asks about the next record. One of more than `large` bytes is not unpacked into memory; that its fields fill it was seen when
    /// it was let in. Gives the bytes that this took.
    fn look(
        &mut self,
        large: usize,
        keep: &mut impl FnMut(&RecordHead<'_>) -> bool,
    ) -> Result<usize, BatchError> {
        let index = self.next_index;
        let at = |error| scan_error(error, index);
        let (head, took) = match &mut self.source {
            Source::Plain(data) => {
                let body = plain_body(data).map_err(at)?;
                (
                    RecordHead::of(&Record::parse(body, &self.header, index)?),
                    body.len(),
                )
            }
            Source::Compressed(stream, buffer) => {
                let mut body = stream.record().map_err(at)?;
                let length = body.remaining();
                if length <= large {
                    body.collect_rest(buffer).map_err(at)?;
                    (
                        RecordHead::of(&Record::parse(buffer, &self.header, index)?),
                        length,
                    )
                } else {
                    let head = head_of(&mut body, buffer, &self.header).map_err(at)?;
                    self.rest = body.remaining();
                    (head, length - self.rest)
                }
            }
        };
        let keep = keep(&head);
        self.kept.note(index, &head, keep);
        Ok(took)
    }

    /// Writes the beginning of the next record if it stays; all else of it is its rest.
    fn begin_record(&mut self) -> Result<usize, BatchError> {
        let index = self.next_index;
        let at = |error| scan_error(error, index);
        let out = self.out.as_mut().filter(|_| self.kept.has(index));
        match &mut self.source {
            Source::Plain(data) => {
                let from = *data;
                let mut body = plain_body(data).map_err(at)?;
                if let Some(out) = out {
                    out.begin(&mut body).map_err(at)?;
                    self.rest = body.len();
                    *data = &from[from.len() - data.len() - body.len()..];
                }
            }
            Source::Compressed(stream, _) => {
                let mut body = stream.record().map_err(at)?;
                if let Some(out) = out {
                    out.begin(&mut body).map_err(at)?;
                }
                self.rest = body.remaining();
            }
        }
        Ok(0)
    }

    /// Passes over at most `bytes` of the rest of a record, or writes them.
    fn pass_rest(&mut self, bytes: usize) -> Result<usize, BatchError> {
        let (index, count) = (self.next_index, self.rest.min(bytes));
        let mut out = self.out.as_mut().filter(|_| self.kept.has(index));
        let mut write = |piece: &[u8]| match &mut out {
            Some(out) => out.compressor.write_all(piece),
            None => Ok(()),
        };
        match &mut self.source {
            Source::Plain(data) => {
                let (piece, left) = data.split_at(count);
                write(piece).map_err(write_error)?;
                *data = left;
            }
            Source::Compressed(stream, _) => {
                let passed = stream.body(self.rest).pass(count, write);
                passed.map_err(|error| scan_error(error, index))?;
            }
        }
        self.rest -= count;
        Ok(count)
    }

    /// All records were looked at: says what is left, or begins to write it.
    fn decide(&mut self) -> Result<Option<Filtered>, BatchError> {
        if self.kept.count == 0 {
            return Ok(Some(Filtered::Nothing));
        }
        let waits = self.kept.has_tombstone || self.rules.is_marker;
        let needs_horizon = waits && !self.header.has_delete_horizon();
        if self.kept.count == self.header.record_count && !needs_horizon {
            return Ok(Some(Filtered::Unchanged));
        }
        let mut header = self.header;
        header.record_count = self.kept.count;
        if !header.is_log_append_time() {
            header.max_timestamp = self.kept.max_timestamp;
        }
        let mut shift = 0;
        if needs_horizon {
            header.set_delete_horizon(self.rules.delete_horizon_ms);
            // With append time nobody reads the deltas.
            if !header.is_log_append_time() {
                shift = self.header.base_timestamp.wrapping_sub(header.base_timestamp);
            }
        }
        let mut bytes = Vec::with_capacity(HEADER_SIZE + self.data.len());
        bytes.resize(HEADER_SIZE, 0);
        self.out = Some(Out {
            compressor: Compressor::new(Compression::from(self.codec), bytes).map_err(write_error)?,
            header,
            shift,
        });
        self.source = Source::open(self.codec, self.data, self.rules.decompressed_max_bytes)?;
        self.next_index = 0;
        Ok(None)
    }
}

impl Out {
    /// Writes the length of a record, its attributes, and when it is from.
    fn begin(&mut self, body: &mut impl Body) -> Result<(), ScanError> {
        let attributes = body.byte()?;
        let delta = body.varlong()?.wrapping_add(self.shift);
        let length = 1 + varint_size(delta) + body.remaining();
        let written = self
            .put_varint(length as i64)
            .and_then(|()| self.compressor.write_all(&[attributes]))
            .and_then(|()| self.put_varint(delta));
        written.map_err(ScanError::Read)
    }

    fn put_varint(&mut self, value: i64) -> io::Result<()> {
        let (bytes, size) = encode_varint(value);
        self.compressor.write_all(&bytes[..size])
    }

    fn finish(self, codec: Codec) -> Result<Written, BatchError> {
        let mut batch = self.compressor.finish().map_err(write_error)?;
        let mut header = self.header;
        header.batch_length = i32::try_from(batch.len() - LOG_OVERHEAD).map_err(|_| {
            BatchError::invalid("a batch that lost records became larger than a batch can be")
        })?;
        header.set_codec(codec);
        let recrc = Recrc::begin(&mut batch, &header);
        Ok(Written { batch, header, recrc })
    }
}

impl Written {
    fn advance(&mut self, step_bytes: usize) -> Option<Filtered> {
        let bytes = step_bytes.saturating_mul(CRC_BYTES_A_RECORD_BYTE);
        self.header.crc = self.recrc.advance(&mut self.batch, bytes)?;
        Some(Filtered::Changed(std::mem::take(&mut self.batch), self.header))
    }
}

/// The head of a record that is not unpacked into memory; the body is behind the length of its value then.
fn head_of<'k>(
    body: &mut StreamBody<'_, Decompressor<'_>>,
    key: &'k mut Vec<u8>,
    header: &BatchHeader,
) -> Result<RecordHead<'k>, ScanError> {
    body.byte()?;
    let timestamp_delta = body.varlong()?;
    let offset_delta = body.varint()?;
    let key = match usize::try_from(body.varint()?) {
        Ok(length) => {
            body.collect(length, key)?;
            Some(&key[..])
        }
        Err(_) => None,
    };
    let is_tombstone = body.varint()? < 0;
    Ok(RecordHead {
        offset_delta,
        timestamp: header.timestamp_of(timestamp_delta),
        key,
        is_tombstone,
    })
}

fn write_error(error: io::Error) -> BatchError {
    BatchError::invalid(format!(
        "the batch cannot be written without some records: {error}"
    ))
}

/// A batch as Kafka leaves it when every record went, but its offsets or its producer's sequence are still wanted.
#[must_use]
pub fn emptied(header: &BatchHeader) -> (Vec<u8>, BatchHeader) {
    let mut empty = BatchHeader {
        batch_length: (HEADER_SIZE - LOG_OVERHEAD) as i32,
        base_timestamp: NO_TIMESTAMP,
        record_count: 0,
        ..*header
    };
    empty.set_codec(Codec::None);
    empty.clear_delete_horizon();
    let mut batch = vec![0; HEADER_SIZE];
    empty.crc = patch_and_recrc(&mut batch, &empty);
    (batch, empty)
}
