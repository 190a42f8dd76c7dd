//! Building a batch: clients, tests, the load generator.

use super::{BatchError, Compression};

/// Builds one batch. Records are added, then [`BatchBuilder::finish`] gives the bytes.
#[derive(Clone, Debug)]
pub struct BatchBuilder {
    compression: Compression,
}

impl BatchBuilder {
    /// An empty batch, not compressed, without a producer.
    pub fn new() -> Self {
        BatchBuilder {
            compression: Compression::default(),
        }
    }

    /// Sets the codec.
    pub fn compression(mut self, compression: impl Into<Compression>) -> Self {
        self.compression = compression.into();
        self
    }

    /// Sets an idempotent producer's id, epoch and the sequence of the first record.
    pub fn producer(self, producer_id: i64, producer_epoch: i16, base_sequence: i32) -> Self {
        let _ = (producer_id, producer_epoch, base_sequence);
        self
    }

    /// Marks the batch as part of a transaction.
    pub fn transactional(self, transactional: bool) -> Self {
        let _ = transactional;
        self
    }

    /// Sets the base offset; 0 unless told.
    pub fn base_offset(self, base_offset: i64) -> Self {
        let _ = base_offset;
        self
    }

    /// Sets the leader epoch; -1 unless told.
    pub fn leader_epoch(self, leader_epoch: i32) -> Self {
        let _ = leader_epoch;
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
        headers: &[(&str, Option<&[u8]>)],
    ) -> &mut Self {
        let _ = (timestamp, key, value, headers);
        self
    }

    /// The number of records so far.
    pub fn record_count(&self) -> usize {
        0
    }

    /// The bytes of the batch so far, before compression.
    pub fn size(&self) -> usize {
        0
    }

    /// The batch. An error when it is empty or larger than a batch can be.
    pub fn finish(self) -> Result<Vec<u8>, BatchError> {
        todo!()
    }
}

impl Default for BatchBuilder {
    fn default() -> Self {
        BatchBuilder::new()
    }
}
