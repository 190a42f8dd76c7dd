//! Building a batch: clients, tests, the load generator.

use std::io::Write;

use super::compress::Compressor;
use super::header::{
    BatchHeader, HEADER_SIZE, LOG_OVERHEAD, MAGIC, NO_LEADER_EPOCH, NO_PRODUCER_EPOCH, NO_PRODUCER_ID,
    NO_SEQUENCE, NO_TIMESTAMP, patch_and_recrc,
};
use super::varint::{put_varint, varint_size};
use super::{BatchError, BatchErrorKind, Codec, Compression};

/// Builds one batch. Records are added, then [`BatchBuilder::finish`] gives the bytes.
///
/// ```
/// use strandline_wire::batch::{BatchBuilder, Codec, records};
///
/// let mut builder = BatchBuilder::new().producer(7, 0, 0);
/// builder.record(1_000, Some(b"key"), Some(b"value"));
/// let batch = builder.finish()?;
/// let first = records(&batch)?.next().expect("one record")?;
/// assert_eq!(first.value, Some(&b"value"[..]));
/// # Ok::<(), strandline_wire::batch::BatchError>(())
/// ```
#[derive(Clone, Debug)]
pub struct BatchBuilder {
    header: BatchHeader,
    compression: Compression,
    /// Room for the header, then the records; empty before the first one.
    bytes: Vec<u8>,
}

impl BatchBuilder {
    /// An empty batch, not compressed, without a producer.
    pub fn new() -> Self {
        let header = BatchHeader {
            base_offset: 0,
            batch_length: 0,
            partition_leader_epoch: NO_LEADER_EPOCH,
            magic: MAGIC,
            crc: 0,
            attributes: 0,
            last_offset_delta: -1,
            base_timestamp: NO_TIMESTAMP,
            max_timestamp: NO_TIMESTAMP,
            producer_id: NO_PRODUCER_ID,
            producer_epoch: NO_PRODUCER_EPOCH,
            base_sequence: NO_SEQUENCE,
            record_count: 0,
        };
        BatchBuilder {
            header,
            compression: Compression::default(),
            bytes: Vec::new(),
        }
    }

    /// Sets the codec.
    #[must_use]
    pub fn compression(mut self, compression: impl Into<Compression>) -> Self {
        self.compression = compression.into();
        self
    }

    /// Sets an idempotent producer's id, epoch and the sequence of the first record.
    #[must_use]
    pub fn producer(mut self, producer_id: i64, producer_epoch: i16, base_sequence: i32) -> Self {
        self.header.producer_id = producer_id;
        self.header.producer_epoch = producer_epoch;
        self.header.base_sequence = base_sequence;
        self
    }

    /// Marks the batch as part of a transaction.
    #[must_use]
    pub fn transactional(mut self, transactional: bool) -> Self {
        self.header.set_transactional(transactional);
        self
    }

    /// Marks the batch as the broker's own (transaction markers).
    #[must_use]
    pub fn control(mut self, control: bool) -> Self {
        self.header.set_control(control);
        self
    }

    /// Sets the base offset; 0 unless told.
    #[must_use]
    pub fn base_offset(mut self, base_offset: i64) -> Self {
        self.header.base_offset = base_offset;
        self
    }

    /// Sets the leader epoch; -1 unless told.
    #[must_use]
    pub fn leader_epoch(mut self, leader_epoch: i32) -> Self {
        self.header.partition_leader_epoch = leader_epoch;
        self
    }

    /// Adds a record with the next offset.
    pub fn record(&mut self, timestamp: i64, key: Option<&[u8]>, value: Option<&[u8]>) -> &mut Self {
        self.record_with_headers(timestamp, key, value, &[])
    }

    /// Adds a record with headers.
    pub fn record_with_headers(
        &mut self,
        timestamp: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &[(&[u8], Option<&[u8]>)],
    ) -> &mut Self {
        let offset_delta = self.header.last_offset_delta + 1;
        self.record_with_offset_delta(offset_delta, timestamp, key, value, headers)
    }

    /// Adds a record with an offset delta of its own, as compaction leaves them. The batch's last offset becomes this one's.
    pub fn record_with_offset_delta(
        &mut self,
        offset_delta: i32,
        timestamp: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &[(&[u8], Option<&[u8]>)],
    ) -> &mut Self {
        if self.header.record_count == 0 {
            self.header.base_timestamp = timestamp;
        }
        let timestamp_delta = timestamp.wrapping_sub(self.header.base_timestamp);
        let mut length = 1 + varint_size(timestamp_delta) + varint_size(i64::from(offset_delta));
        length += nullable_size(key) + nullable_size(value) + varint_size(headers.len() as i64);
        length += headers
            .iter()
            .map(|(name, value)| nullable_size(Some(name)) + nullable_size(*value))
            .sum::<usize>();

        self.bytes.resize(self.bytes.len().max(HEADER_SIZE), 0);
        let out = &mut self.bytes;
        put_varint(out, length as i64);
        out.push(0); // attributes: none is in use
        put_varint(out, timestamp_delta);
        put_varint(out, i64::from(offset_delta));
        put_nullable(out, key);
        put_nullable(out, value);
        put_varint(out, headers.len() as i64);
        for (name, value) in headers {
            put_nullable(out, Some(name));
            put_nullable(out, *value);
        }
        self.header.record_count += 1;
        self.header.last_offset_delta = offset_delta;
        self.header.max_timestamp = self.header.max_timestamp.max(timestamp);
        self
    }

    /// The number of records so far.
    pub fn record_count(&self) -> usize {
        self.header.record_count as usize
    }

    /// The bytes of the batch so far, before compression.
    pub fn size(&self) -> usize {
        self.bytes.len().max(HEADER_SIZE)
    }

    /// Makes room for a batch of `size` bytes, header included, so that it need not be moved as it grows.
    pub fn reserve(&mut self, size: usize) {
        self.bytes.reserve(size.saturating_sub(self.bytes.len()));
    }

    /// The batch. An error when it is empty or larger than a batch can be.
    pub fn finish(self) -> Result<Vec<u8>, BatchError> {
        let mut header = self.header;
        if header.record_count == 0 {
            return Err(BatchError::invalid("a batch needs a record"));
        }
        let mut batch = self.bytes;
        if self.compression.codec != Codec::None {
            let mut compressed = Vec::with_capacity(batch.len());
            compressed.resize(HEADER_SIZE, 0);
            let compressed = Compressor::new(self.compression, compressed).and_then(|mut compressor| {
                compressor.write_all(&batch[HEADER_SIZE..])?;
                compressor.finish()
            });
            batch = compressed
                .map_err(|error| BatchError::invalid(format!("the batch does not compress: {error}")))?;
        }
        header.batch_length = i32::try_from(batch.len() - LOG_OVERHEAD).map_err(|_| {
            BatchError::new(
                BatchErrorKind::TooLarge,
                format!("{} bytes are more than a batch can have", batch.len()),
            )
        })?;
        header.set_codec(self.compression.codec);
        patch_and_recrc(&mut batch, &header);
        Ok(batch)
    }
}

impl Default for BatchBuilder {
    fn default() -> Self {
        BatchBuilder::new()
    }
}

fn nullable_size(bytes: Option<&[u8]>) -> usize {
    match bytes {
        Some(bytes) => varint_size(bytes.len() as i64) + bytes.len(),
        None => varint_size(-1),
    }
}

fn put_nullable(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    match bytes {
        Some(bytes) => {
            put_varint(out, bytes.len() as i64);
            out.extend_from_slice(bytes);
        }
        None => put_varint(out, -1),
    }
}
