//! Taking records out of a stored batch, as compaction does. What stays keeps its offset, timestamp, key, value and
//! headers; the batch keeps its offsets, codec, producer and sequences.
//!
//! A batch in which a tombstone stays gets its delete horizon (KIP-534), once: the time from which the tombstone may go,
//! in the base timestamp, to which the records' timestamps are relative from then on.

use std::io::{self, Write};

use super::compress::Compressor;
use super::decompress::Decompressor;
use super::header::{BatchHeader, HEADER_SIZE, LOG_OVERHEAD, NO_TIMESTAMP, patch_and_recrc};
use super::stream::RecordStream;
use super::varint::{Body, encode_varint, varint_size};
use super::walk::{codec, end_stream, left_over, open_stream, plain_body, scan_error, split};
use super::{BatchError, Codec, Compression, Record};

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

/// A filter that goes a step at a time, so that a batch which unpacks to much holds nobody up.
pub struct Filter<'a> {
    header: BatchHeader,
    data: &'a [u8],
    codec: Codec,
    rules: FilterRules,
    source: Source<'a>,
    next_index: i32,
    kept: Kept,
    out: Option<Out>,
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
    fn note(&mut self, index: i32, record: &Record<'_>, keep: bool) {
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
            self.has_tombstone |= record.value.is_none();
        }
    }

    fn has(&self, index: i32) -> bool {
        self.bits[index as usize / 64] >> (index as usize % 64) & 1 == 1
    }
}

enum Source<'a> {
    Plain(&'a [u8]),
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

    /// The next record's bytes behind its length.
    fn record(&mut self, index: i32) -> Result<&[u8], BatchError> {
        let body = match self {
            Self::Plain(rest) => plain_body(rest),
            Self::Compressed(stream, body) => stream
                .record()
                .and_then(|mut record| record.collect_rest(body))
                .map(|()| &body[..]),
        };
        body.map_err(|error| scan_error(error, index))
    }

    fn end(&mut self, record_count: i32) -> Result<(), BatchError> {
        match self {
            Self::Plain([]) => Ok(()),
            Self::Plain(_) => Err(left_over()),
            Self::Compressed(stream, _) => end_stream(stream, record_count),
        }
    }
}

/// The batch that is written.
struct Out {
    compressor: Compressor<Vec<u8>>,
    header: BatchHeader,
    /// What is added to each record's timestamp delta.
    shift: i64,
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
            kept: Kept::default(),
            out: None,
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
        mut keep: impl FnMut(&Record<'_>) -> bool,
    ) -> Result<Option<Filtered>, BatchError> {
        let mut left = step_bytes;
        while self.next_index < self.header.record_count {
            if left == 0 {
                return Ok(None);
            }
            let index = self.next_index;
            let body = self.source.record(index)?;
            left = left.saturating_sub(body.len().max(1));
            match &mut self.out {
                None => {
                    let record = Record::parse(body, &self.header, index)?;
                    let keep = keep(&record);
                    self.kept.note(index, &record, keep);
                }
                Some(out) if self.kept.has(index) => out.write(body, index)?,
                Some(_) => {}
            }
            self.next_index += 1;
        }
        self.source.end(self.header.record_count)?;
        match self.out.take() {
            None => self.decide(),
            Some(out) => out.finish(self.codec).map(Some),
        }
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
    fn write(&mut self, body: &[u8], index: i32) -> Result<(), BatchError> {
        if self.shift == 0 {
            self.put_varint(body.len() as i64).map_err(write_error)?;
            return self.compressor.write_all(body).map_err(write_error);
        }
        let mut rest = body;
        let delta = (|| {
            rest.skip(1)?;
            rest.varlong()
        })()
        .map_err(|error| scan_error(error, index))?
        .wrapping_add(self.shift);
        let length = 1 + varint_size(delta) + rest.len();
        let written = self
            .put_varint(length as i64)
            .and_then(|()| self.compressor.write_all(&body[..1]))
            .and_then(|()| self.put_varint(delta))
            .and_then(|()| self.compressor.write_all(rest));
        written.map_err(write_error)
    }

    fn put_varint(&mut self, value: i64) -> io::Result<()> {
        let (bytes, size) = encode_varint(value);
        self.compressor.write_all(&bytes[..size])
    }

    fn finish(self, codec: Codec) -> Result<Filtered, BatchError> {
        let mut batch = self.compressor.finish().map_err(write_error)?;
        let mut header = self.header;
        header.batch_length = i32::try_from(batch.len() - LOG_OVERHEAD).map_err(|_| {
            BatchError::invalid("a batch that lost records became larger than a batch can be")
        })?;
        header.set_codec(codec);
        header.crc = patch_and_recrc(&mut batch, &header);
        Ok(Filtered::Changed(batch, header))
    }
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
