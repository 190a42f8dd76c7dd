//! The records of one fetched partition, as a consumer sees them: from the offset asked for, without control records and,
//! under `read_committed`, without those of aborted transactions.

use std::collections::HashSet;
use std::ops::ControlFlow;

use strandline_wire::batch::{Batch, batches, check_crc, for_each_record};

use super::ClientError;
use super::fetch::FetchedRecords;
use crate::record::Record;

/// A bound on what one batch may decompress to. It is streamed, so that this bounds time rather than memory.
const DECOMPRESSED_MAX_BYTES: usize = 1024 * 1024 * 1024;

/// The type of the control record that ends an aborted transaction (the other, 1, commits).
const CONTROL_TYPE_ABORT: i16 = 0;

/// Fetched records and which of them were asked for.
#[derive(Debug)]
pub struct Chunk {
    /// The partition.
    pub partition: i32,
    /// The first offset wanted: batches come whole, so that the first may begin before it.
    pub from: i64,
    /// The offset to stop before.
    pub until: Option<i64>,
    /// What the broker gave.
    pub fetched: FetchedRecords,
}

impl Chunk {
    /// The offset after the last batch; `from` when there is none.
    pub fn next_offset(&self, topic: &str) -> Result<i64, ClientError> {
        let mut next = self.from;
        for batch in batches(&self.fetched.records) {
            let batch = batch.map_err(|error| self.unreadable(topic, next, error.to_string()))?;
            next = next.max(batch.header.last_offset().saturating_add(1));
        }
        if next == self.from && !self.fetched.records.is_empty() {
            // Going on would fetch the same bytes for ever.
            return Err(self.unreadable(
                topic,
                next,
                "the broker's answer holds no whole batch from here on".to_owned(),
            ));
        }
        Ok(next)
    }

    /// Calls `visit` with each record until it breaks.
    pub fn for_each<B>(
        &self,
        topic: &str,
        mut visit: impl FnMut(&Record<'_>) -> ControlFlow<B>,
    ) -> Result<Option<B>, ClientError> {
        let mut aborted = AbortedTransactions::new(&self.fetched.aborted);
        for batch in batches(&self.fetched.records) {
            let batch = batch.map_err(|error| self.unreadable(topic, self.from, error.to_string()))?;
            let base_offset = batch.header.base_offset;
            if !check_crc(batch.bytes) {
                return Err(self.unreadable(topic, base_offset, "the CRC does not match".to_owned()));
            }
            let hidden = aborted
                .hides(&batch)
                .map_err(|reason| self.unreadable(topic, base_offset, reason))?;
            if hidden || batch.header.last_offset() < self.from {
                continue;
            }
            let stopped = for_each_record(batch.bytes, DECOMPRESSED_MAX_BYTES, |record| {
                let offset = base_offset.saturating_add(record.offset_delta.into());
                if offset < self.from || self.until.is_some_and(|until| offset >= until) {
                    return ControlFlow::Continue(());
                }
                visit(&Record {
                    topic,
                    partition: self.partition,
                    offset,
                    timestamp_ms: record.timestamp,
                    log_append_time: batch.header.is_log_append_time(),
                    key: record.key,
                    value: record.value,
                    headers: record.headers().collect(),
                })
            });
            match stopped {
                Ok(None) => {}
                Ok(stopped) => return Ok(stopped),
                Err(error) => return Err(self.unreadable(topic, base_offset, error.to_string())),
            }
        }
        Ok(None)
    }

    fn unreadable(&self, topic: &str, offset: i64, reason: String) -> ClientError {
        ClientError::Records {
            topic: topic.to_owned(),
            partition: self.partition,
            offset,
            reason,
        }
    }
}

/// Follows which producers are inside an aborted transaction, batch after batch (KIP-98).
struct AbortedTransactions<'a> {
    /// Producer id and first offset, by first offset.
    to_come: std::iter::Peekable<std::slice::Iter<'a, (i64, i64)>>,
    open: HashSet<i64>,
}

impl<'a> AbortedTransactions<'a> {
    fn new(aborted: &'a [(i64, i64)]) -> Self {
        Self {
            to_come: aborted.iter().peekable(),
            open: HashSet::new(),
        }
    }

    /// True when a consumer does not see the batch: a control batch, or one of an aborted transaction.
    fn hides(&mut self, batch: &Batch<'_>) -> Result<bool, String> {
        let header = &batch.header;
        while let Some(&(producer_id, _)) = self.to_come.next_if(|(_, first)| *first <= header.last_offset())
        {
            self.open.insert(producer_id);
        }
        if header.is_control() {
            if self.open.contains(&header.producer_id) && control_type(batch)? == Some(CONTROL_TYPE_ABORT) {
                self.open.remove(&header.producer_id);
            }
            return Ok(true);
        }
        Ok(header.is_transactional() && self.open.contains(&header.producer_id))
    }
}

/// The type of a control batch's record: the second i16 of its key.
fn control_type(batch: &Batch<'_>) -> Result<Option<i16>, String> {
    for_each_record(batch.bytes, DECOMPRESSED_MAX_BYTES, |record| match record.key {
        Some([_, _, high, low, ..]) => ControlFlow::Break(i16::from_be_bytes([*high, *low])),
        _ => ControlFlow::Continue(()),
    })
    .map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use strandline_wire::batch::{BatchBuilder, BatchHeader, patch_and_recrc};

    use super::*;

    fn batch(base_offset: i64, values: &[&str]) -> Vec<u8> {
        let mut builder = BatchBuilder::new().base_offset(base_offset);
        for value in values {
            builder.record(0, None, Some(value.as_bytes()));
        }
        builder.finish().unwrap()
    }

    fn transactional(base_offset: i64, producer_id: i64, value: &str) -> Vec<u8> {
        let mut builder = BatchBuilder::new()
            .base_offset(base_offset)
            .producer(producer_id, 0, 0)
            .transactional(true);
        builder.record(0, None, Some(value.as_bytes()));
        builder.finish().unwrap()
    }

    fn marker(base_offset: i64, producer_id: i64, control_type: i16) -> Vec<u8> {
        let mut builder = BatchBuilder::new()
            .base_offset(base_offset)
            .producer(producer_id, 0, -1)
            .transactional(true);
        let key = [0i16.to_be_bytes(), control_type.to_be_bytes()].concat();
        builder.record(0, Some(&key), Some(&[0; 6]));
        let mut bytes = builder.finish().unwrap();
        let mut header = BatchHeader::decode(&bytes).unwrap();
        header.set_control(true);
        patch_and_recrc(&mut bytes, &header);
        bytes
    }

    fn chunk(from: i64, until: Option<i64>, batches: &[Vec<u8>], aborted: &[(i64, i64)]) -> Chunk {
        let fetched = FetchedRecords {
            records: batches.concat().into(),
            aborted: aborted.to_vec(),
        };
        Chunk {
            partition: 0,
            from,
            until,
            fetched,
        }
    }

    fn read(chunk: &Chunk) -> Vec<(i64, String)> {
        let mut seen = Vec::new();
        chunk
            .for_each("t", |record| {
                seen.push((
                    record.offset,
                    String::from_utf8(record.value.unwrap().to_vec()).unwrap(),
                ));
                ControlFlow::<()>::Continue(())
            })
            .unwrap();
        seen
    }

    fn values(chunk: &Chunk) -> String {
        read(chunk).into_iter().map(|(_, value)| value).collect()
    }

    #[test]
    fn a_batch_is_entered_in_its_middle_and_left_before_its_end() {
        let batches = [batch(10, &["a", "b", "c"]), batch(13, &["d", "e"])];
        let chunk = chunk(11, Some(14), &batches, &[]);
        assert_eq!(
            read(&chunk),
            [(11, "b".to_owned()), (12, "c".to_owned()), (13, "d".to_owned())]
        );
        assert_eq!(chunk.next_offset("t").unwrap(), 15);
    }

    #[test]
    fn aborted_records_and_markers_are_not_seen() {
        let batches = [
            transactional(0, 1, "a"),
            transactional(1, 2, "b"),
            marker(2, 1, 0),
            transactional(3, 1, "c"),
            marker(4, 2, 1),
            marker(5, 1, 1),
            batch(6, &["d"]),
        ];
        assert_eq!(values(&chunk(0, None, &batches, &[(1, 0)])), "bcd");
        assert_eq!(values(&chunk(0, None, &batches, &[])), "abcd");
    }

    #[test]
    fn damage_is_told_and_no_whole_batch_is_no_endless_loop() {
        let mut broken = batch(0, &["a"]);
        *broken.last_mut().unwrap() ^= 1;
        let chunk_of_broken = chunk(0, None, &[broken], &[]);
        assert!(
            chunk_of_broken
                .for_each("t", |_| ControlFlow::<()>::Continue(()))
                .is_err()
        );
        let mut cut = batch(0, &["a"]);
        cut.pop();
        assert!(chunk(0, None, &[cut], &[]).next_offset("t").is_err());
        assert_eq!(chunk(7, None, &[], &[]).next_offset("t").unwrap(), 7);
    }
}
