//! Appending records to `__consumer_offsets`, by the path of a produce with `acks=all`.

use std::rc::Rc;
use std::time::Duration;

use bytes::BytesMut;
use strandline_core::group::code_of_failed_append;
use strandline_core::group::offsets::{OFFSETS_TOPIC, OffsetsRecord};
use strandline_core::replica::Acks;
use strandline_runtime::Runtime;
use strandline_storage::disk::Disk;
use strandline_wire::ErrorCode;
use strandline_wire::batch::{BatchBuilder, Codec, TopicCompression, ValidationRules, validate};

use super::Coordinator;
use crate::handlers::produce::code_of;
use crate::shard::{AckWaiter, RecordsAck, RecordsOf, Shard};

/// Records that go into one batch, and about what they may take: well below any limit on a batch. A record that takes more
/// goes alone.
const RECORDS_PER_BATCH: usize = 1_000;
const BATCH_BYTES: usize = 256 << 10;
/// About what a record takes in a batch beside the strings in it.
const RECORD_BYTES: usize = 64;
/// About what the record that takes an offset away takes beside its names.
pub(super) const TOMBSTONE_BYTES: usize = RECORD_BYTES;

/// And what takes away a group itself, of either protocol.
pub(super) const GROUP_END_BYTES: usize = 8 * RECORD_BYTES;

/// What records are, by the first of them, and whose. Not which request they come from: a timer may have asked for them.
fn told(records: &[OffsetsRecord]) -> (RecordsOf, &str) {
    match records.first() {
        Some(OffsetsRecord::Offset { group, .. }) => (RecordsOf::Offsets, group),
        Some(OffsetsRecord::Group { group, .. }) => (RecordsOf::Members, group),
        Some(OffsetsRecord::Consumer { group, .. }) => (RecordsOf::Members, group),
        Some(OffsetsRecord::Unknown(_)) | None => (RecordsOf::Members, ""),
    }
}

impl<D: Disk> Coordinator<D> {
    /// Waits until the shard takes records of about `bytes`, no longer than a commit may.
    ///
    /// # Errors
    /// The code for the client.
    pub(super) async fn admit<R: Runtime>(&self, shard: &Shard<R, D>, bytes: usize) -> Result<(), ErrorCode> {
        let deadline = shard.runtime.now() + commit_timeout(shard);
        let admitted = shard.store.admit(bytes, deadline).await;
        admitted.map_err(|error| match error {
            strandline_storage::StoreError::Busy => ErrorCode::CoordinatorNotAvailable,
            _ => ErrorCode::NotCoordinator,
        })
    }

    /// Appends records as one batch, and enters the offsets among them; the offset behind it.
    ///
    /// # Errors
    /// The code for the client: nothing was appended.
    pub(super) fn append<R: Runtime>(
        &self,
        shard: &Shard<R, D>,
        records: &[OffsetsRecord],
    ) -> Result<i64, ErrorCode> {
        let appended = self.append_batch(shard, records);
        let end = appended.map_err(|code| {
            let (now, number) = (shard.runtime.now(), self.partition.number);
            let (kind, group) = told(records);
            shard.refusals.log_records(now, kind, code, group, number);
            code_of_failed_append(code)
        })?;
        self.apply(records);
        self.appended_end.set(end);
        Ok(end)
    }

    /// Appends records that may be too many for one batch, and enters them as they are appended; the offset behind the last.
    ///
    /// # Errors
    /// The code for the client: some were not appended.
    pub(super) fn append_all<R: Runtime>(
        &self,
        shard: &Shard<R, D>,
        records: &[OffsetsRecord],
    ) -> Result<i64, ErrorCode> {
        let (_, appended) = self.append_some(shard, records);
        appended.map(|()| self.appended_end.get())
    }

    /// The same: how many records were appended, and why not the others.
    pub(super) fn append_some<R: Runtime>(
        &self,
        shard: &Shard<R, D>,
        records: &[OffsetsRecord],
    ) -> (usize, Result<(), ErrorCode>) {
        let mut appended = 0;
        while appended < records.len() {
            let left = &records[appended..];
            let count = count_of_batch(left);
            if let Err(code) = self.append(shard, &left[..count]) {
                return (appended, Err(code));
            }
            appended += count;
        }
        (appended, Ok(()))
    }

    fn append_batch<R: Runtime>(
        &self,
        shard: &Shard<R, D>,
        records: &[OffsetsRecord],
    ) -> Result<i64, ErrorCode> {
        if let Some(code) = self.partition.lost() {
            return Err(code);
        }
        let now_ms = shard.runtime.wall_clock_ms();
        let codec = u8::try_from(shard.groups.settings.topic_compression)
            .ok()
            .and_then(Codec::from_id)
            .unwrap_or(Codec::None);
        let mut builder = BatchBuilder::new().compression(codec);
        let (mut key, mut value) = (BytesMut::new(), BytesMut::new());
        for record in records {
            key.clear();
            value.clear();
            let has_value = record.encode(&mut key, &mut value);
            builder.record(now_ms, Some(&key), has_value.then_some(&value[..]));
        }
        let batch = builder.finish().map_err(|error| error.code())?;
        let mut rules = self.topic.rules().validation;
        rules.now_ms = now_ms;
        rules.compression = TopicCompression::Producer;
        let batch = validate(&batch, &rules).map_err(|error| error.code())?;
        self.partition.may_append(Acks::All)?;
        let appended = self.partition.append(&batch, &shard.runtime);
        let appended = appended.map_err(|error| code_of(&error))?;
        Ok(appended.last_offset + 1)
    }

    /// Whether one of the records is of an offset that is not there yet.
    pub(super) fn lacks_one_of(&self, records: &[OffsetsRecord]) -> bool {
        let offsets = self.offsets.borrow();
        records.iter().any(|record| match record {
            OffsetsRecord::Offset {
                group,
                topic,
                partition,
                ..
            } => offsets.get(group, topic, *partition).is_none(),
            _ => false,
        })
    }

    /// Enters the offsets that records carry.
    pub(super) fn apply(&self, records: &[OffsetsRecord]) {
        let mut offsets = self.offsets.borrow_mut();
        let before = offsets.bytes();
        for record in records {
            if let OffsetsRecord::Offset {
                group,
                topic,
                partition,
                value,
            } = record
            {
                match value {
                    Some(offset) => offsets.put(group, topic, *partition, offset.clone()),
                    None => drop(offsets.remove(group, topic, *partition)),
                }
            }
        }
        self.memory.change(before, offsets.bytes());
    }

    /// Completes once everything below `end` is acknowledged as with `acks=all`, however long that takes.
    ///
    /// # Errors
    /// The code for the client: it will not be, as far as this shard knows.
    pub(super) async fn durable<R: Runtime>(&self, shard: &Shard<R, D>, end: i64) -> Result<(), ErrorCode> {
        self.wait(shard, end).wait().await.map_err(code_of_failed_append)
    }

    /// The same, no longer than a commit may take.
    ///
    /// # Errors
    /// The code for the client.
    pub(super) async fn durable_in_time<R: Runtime>(
        &self,
        shard: &Shard<R, D>,
        end: i64,
    ) -> Result<(), ErrorCode> {
        let ack = self.wait(shard, end);
        let at = shard.runtime.now() + commit_timeout(shard);
        let _deadline = shard.deadlines.register(at, ack.clone());
        ack.wait().await.map_err(code_of_failed_append)
    }

    fn wait<R: Runtime>(&self, shard: &Shard<R, D>, end: i64) -> Rc<RecordsAck> {
        let ack = Rc::new(RecordsAck::default());
        match self.partition.lost() {
            Some(code) => ack.end(Err(code)),
            None if self.partition.is_acknowledged(Acks::All, end) => ack.end(Ok(())),
            None => self
                .partition
                .wait_for_ack(Acks::All, end, AckWaiter::Records(ack.clone()), || {
                    shard.runtime.now()
                }),
        }
        ack
    }
}

/// About what records take in a batch.
pub(super) fn bytes_of(records: &[OffsetsRecord]) -> usize {
    records.iter().map(bytes_of_record).sum()
}

fn bytes_of_record(record: &OffsetsRecord) -> usize {
    let strings = match record {
        OffsetsRecord::Offset {
            group, topic, value, ..
        } => group.len() + topic.len() + value.as_ref().map_or(0, |value| value.metadata.len()),
        OffsetsRecord::Group { group, .. } => group.len(),
        OffsetsRecord::Consumer { group, record } => group.len() + record.bytes(),
        OffsetsRecord::Unknown(_) => 0,
    };
    RECORD_BYTES + strings
}

/// How many of the first records go into one batch: at least one.
fn count_of_batch(records: &[OffsetsRecord]) -> usize {
    let mut bytes = 0;
    let fits = records.iter().take(RECORDS_PER_BATCH).take_while(|record| {
        bytes += bytes_of_record(record);
        bytes <= BATCH_BYTES
    });
    fits.count().max(1)
}

/// What the records of one batch may take, before compression.
pub(super) fn batch_bytes_max<R: Runtime, D: Disk>(shard: &Shard<R, D>) -> usize {
    let rules = shard.topics.by_name(OFFSETS_TOPIC).map(|topic| topic.rules());
    let rules = rules.map_or_else(ValidationRules::default, |rules| rules.validation);
    match shard.groups.settings.topic_compression {
        0 => rules.max_message_bytes,
        _ => rules.decompressed_max_bytes,
    }
}

fn commit_timeout<R: Runtime, D: Disk>(shard: &Shard<R, D>) -> Duration {
    Duration::from_millis(shard.groups.settings.commit_timeout_ms)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::expiry::tombstone;

    #[test]
    fn a_batch_ends_by_count_and_by_bytes() {
        let records = |count: usize, name: usize| vec![tombstone(&"g".repeat(name), "t", 0); count];
        assert_eq!(count_of_batch(&records(10, 5)), 10);
        assert_eq!(count_of_batch(&records(5_000, 5)), RECORDS_PER_BATCH);
        // A group's name may have 32,767 bytes.
        assert_eq!(count_of_batch(&records(1_000, 32_000)), 8);
        assert_eq!(count_of_batch(&records(2, 2 * BATCH_BYTES)), 1);
    }
}
