//! What the tests of the store share: batches with recognisable records, and a store's options.
#![allow(dead_code, missing_docs, unreachable_pub)]

use std::path::PathBuf;
use std::rc::Rc;

use strandline_runtime::sim::SimRuntime;
use strandline_storage::disk::{Disk, SimDisk, SimDiskOptions};
use strandline_storage::{
    AppendError, Appended, Log, ReadError, ReadRequest, Sequence, Stopped, Store, StoreObserver,
    StoreOptions, TopicPartitionId,
};
use strandline_wire::batch::{
    Batch, BatchBuilder, ValidatedBatch, ValidationRules, batches, records, validate,
};

pub fn id(topic: u128, partition: u32) -> TopicPartitionId {
    TopicPartitionId {
        topic_id: strandline_wire::Uuid::from_u128(topic),
        partition,
    }
}

/// Options with the smallest journal: eight files of 64 KiB, entries of 16 KiB.
pub fn small_options(directory: PathBuf) -> StoreOptions {
    StoreOptions {
        journal_bytes: 512 * 1024,
        direct_bytes: 64 * 1024,
        disk_free_min_bytes: 0,
        ..StoreOptions::new(directory, 0, 32 << 20)
    }
}

/// [`small_options`] on a simulated disk.
pub fn simulated_options() -> StoreOptions {
    small_options(PathBuf::from("/data/shard-0"))
}

/// A simulated disk with an empty store.
pub async fn formatted(runtime: &SimRuntime, disk: SimDiskOptions, options: &StoreOptions) -> SimDisk {
    let disk = SimDisk::new(runtime.clone(), disk);
    disk.make_durable_directories(&options.directory).unwrap();
    Store::format(runtime.clone(), disk.clone(), options)
        .await
        .unwrap();
    disk
}

/// A batch of records with these values, as a producer sends it.
pub fn batch(values: &[Vec<u8>], producer: Option<(i64, i16, i32)>, timestamp: i64) -> Vec<u8> {
    let mut builder = BatchBuilder::new();
    if let Some((id, epoch, sequence)) = producer {
        builder = builder.producer(id, epoch, sequence);
    }
    for (at, value) in values.iter().enumerate() {
        builder.record(timestamp + at as i64, None, Some(value));
    }
    builder.finish().unwrap()
}

pub fn rules() -> ValidationRules {
    ValidationRules {
        max_message_bytes: 16 << 20,
        before_max_ms: i64::MAX,
        after_max_ms: i64::MAX,
        ..ValidationRules::default()
    }
}

pub fn validated(bytes: &[u8]) -> ValidatedBatch<'_> {
    validate(bytes, &rules()).unwrap()
}

pub fn append<D: Disk>(log: &Log<D>, values: &[Vec<u8>]) -> Result<Appended, AppendError> {
    let bytes = batch(values, None, 1000);
    log.append(&validated(&bytes))
}

pub fn append_as<D: Disk>(
    log: &Log<D>,
    value: &[u8],
    producer: (i64, i16, i32),
) -> Result<Appended, AppendError> {
    let bytes = batch(&[value.to_vec()], Some(producer), 1000);
    log.append(&validated(&bytes))
}

/// Appends one record and waits until it counts.
pub async fn put<D: Disk>(log: &Log<D>, value: &[u8]) -> i64 {
    let appended = append(log, &[value.to_vec()]).unwrap();
    log.acknowledged(appended.last_offset + 1).await.unwrap();
    appended.base_offset
}

/// All records from `from` to the log's end, or to its damage: offset and value.
pub async fn read_all<D: Disk>(log: &Log<D>, from: i64) -> Vec<(i64, Vec<u8>)> {
    let mut all = Vec::new();
    let mut next = from;
    loop {
        let request = ReadRequest {
            offset: next,
            max_bytes: 100_000,
            upper_bound: log.end_offset(),
            at_least_one: true,
        };
        let result = match log.read(request).await {
            Err(ReadError::Damaged { from, .. }) if from == next => return all,
            result => result.unwrap(),
        };
        if result.batches.is_empty() {
            return all;
        }
        for slice in &result.batches {
            for Batch { bytes, header, .. } in batches(slice).map(Result::unwrap) {
                for record in records(bytes).unwrap() {
                    let record = record.unwrap();
                    let offset = header.base_offset + i64::from(record.offset_delta);
                    if offset >= from {
                        all.push((offset, record.value.unwrap_or_default().to_vec()));
                    }
                }
                next = header.last_offset() + 1;
            }
        }
    }
}

/// An observer that nobody asks.
pub struct Quiet;

impl<D: Disk> StoreObserver<D> for Quiet {
    fn advanced(&self, _: Sequence, _: &[Log<D>]) {}
    fn stopped(&self, _: &Stopped) {}
}

pub fn quiet<D: Disk>() -> Rc<dyn StoreObserver<D>> {
    Rc::new(Quiet)
}
