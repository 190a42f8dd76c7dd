//! Replaying a partition of `__consumer_offsets`.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::rc::Rc;

use strandline_core::group::classic::{ClassicGroup, Effects, GroupRecord};
use strandline_core::group::consumer::ConsumerGroup;
use strandline_core::group::offsets::{OffsetsRecord, RecordError};
use strandline_runtime::Runtime;
use strandline_runtime::local::Event;
use strandline_storage::disk::Disk;
use strandline_storage::{ReadError, ReadRequest};
use strandline_wire::batch::{BatchError, BatchHeader, for_each_record};
use thiserror::Error;

use super::coordinator::State;
use super::{Coordinator, expiry};
use crate::shard::Shard;

/// Partitions of one shard that are replayed at a time: each takes `offsets.load.buffer.size` and the disk's time.
const LOADS_MAX: usize = 2;

/// What the records say of groups.
#[derive(Default)]
struct Records {
    /// The last record of each classic group.
    classic: BTreeMap<Rc<str>, GroupRecord>,
    /// The groups of the consumer protocol, which are the sum of their records.
    consumer: BTreeMap<Rc<str>, ConsumerGroup>,
}

/// Why a partition cannot be replayed.
#[derive(Debug, Error)]
enum LoadError {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("the batch at offset {offset}: {}", .error.message)]
    Batch { offset: i64, error: BatchError },
    #[error("the record at offset {offset}: {error}")]
    Record { offset: i64, error: RecordError },
    #[error("no batch at offset {0} although the log ends later")]
    Gap(i64),
}

/// Replays up to the end that the log has now, then lets the groups be served.
pub(super) async fn run<R: Runtime, D: Disk>(shard: Rc<Shard<R, D>>, coordinator: Rc<Coordinator<D>>) {
    let _turn = shard.groups.loads.turn().await;
    let started = shard.runtime.now();
    let mut records = Records::default();
    if let Err(error) = replay(&shard, &coordinator, &mut records).await {
        if coordinator.state() == State::Loading {
            coordinator.set_state(State::Ended);
            tracing::error!(
                shard = shard.number,
                partition = coordinator.partition.number,
                %error,
                "groups cannot be served: their partition of __consumer_offsets cannot be replayed"
            );
        }
        return;
    }
    // What is above the high watermark may not be committed yet: nobody is told of it.
    coordinator.partition.until_latest_is_known().await;
    enter_groups(&shard, &coordinator, records).await;
    if coordinator.state() != State::Loading {
        return;
    }
    coordinator.set_state(State::Active);
    tracing::info!(
        shard = shard.number,
        partition = coordinator.partition.number,
        groups = coordinator.groups.borrow().len(),
        offsets = coordinator.offsets.borrow().len(),
        milliseconds = shard.runtime.now().since(started).as_millis() as u64,
        "groups loaded"
    );
    expiry::forget_gone(&shard, &coordinator);
}

/// The replays that run at a time.
#[derive(Default)]
pub(super) struct Loads {
    running: Cell<usize>,
    ended: Event,
}

/// One of them; its place is free again when it is dropped.
struct Turn<'a>(&'a Loads);

impl Loads {
    async fn turn(&self) -> Turn<'_> {
        loop {
            let ended = self.ended.wait();
            if self.running.get() < LOADS_MAX {
                self.running.set(self.running.get() + 1);
                return Turn(self);
            }
            ended.await;
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.running.set(self.0.running.get() - 1);
        self.0.ended.notify_all();
    }
}

async fn replay<R: Runtime, D: Disk>(
    shard: &Shard<R, D>,
    coordinator: &Coordinator<D>,
    groups: &mut Records,
) -> Result<(), LoadError> {
    let log = coordinator.partition.log.clone();
    let end = log.end_offset();
    coordinator.appended_end.set(end);
    let mut next = log.start_offset();
    while next < end && coordinator.state() == State::Loading {
        let read = log
            .read(ReadRequest {
                offset: next,
                max_bytes: shard.groups.settings.load_buffer_bytes,
                upper_bound: end,
                at_least_one: true,
            })
            .await?;
        let before = next;
        for batch in &read.batches {
            let header =
                BatchHeader::decode(batch).map_err(|error| LoadError::Batch { offset: next, error })?;
            if !header.is_control() {
                replay_batch(shard, coordinator, batch, &header, groups)?;
            }
            next = header.last_offset() + 1;
            shard.runtime.yield_if_needed().await;
        }
        if next == before {
            return Err(LoadError::Gap(next));
        }
    }
    Ok(())
}

fn replay_batch<R: Runtime, D: Disk>(
    shard: &Shard<R, D>,
    coordinator: &Coordinator<D>,
    batch: &[u8],
    header: &BatchHeader,
    groups: &mut Records,
) -> Result<(), LoadError> {
    let replayed = for_each_record(batch, shard.config.decompressed_batch_max_bytes, |record| {
        let offset = record.offset(header);
        match OffsetsRecord::decode(record.key, record.value) {
            Err(error) => ControlFlow::Break(LoadError::Record { offset, error }),
            Ok(OffsetsRecord::Group { group, value }) => {
                match value {
                    Some(value) => drop(groups.classic.insert(group.into(), value)),
                    None => drop(groups.classic.remove(&*group)),
                }
                ControlFlow::Continue(())
            }
            Ok(OffsetsRecord::Consumer { group, record }) => {
                let name = group.clone();
                let machine = groups.consumer.entry(group);
                machine
                    .or_insert_with(|| ConsumerGroup::new(name))
                    .replay(&record);
                ControlFlow::Continue(())
            }
            Ok(OffsetsRecord::Unknown(kind)) => {
                tracing::warn!(
                    shard = shard.number,
                    partition = coordinator.partition.number,
                    offset,
                    kind,
                    "a record of a kind that is not known was left out"
                );
                ControlFlow::Continue(())
            }
            Ok(offset) => {
                coordinator.apply(&[offset]);
                ControlFlow::Continue(())
            }
        }
    });
    match replayed {
        Ok(None) => Ok(()),
        Ok(Some(error)) => Err(error),
        Err(error) => Err(LoadError::Batch {
            offset: header.base_offset,
            error,
        }),
    }
}

async fn enter_groups<R: Runtime, D: Disk>(
    shard: &Rc<Shard<R, D>>,
    coordinator: &Rc<Coordinator<D>>,
    records: Records,
) {
    let Records {
        mut classic,
        mut consumer,
    } = records;
    // What only tombstones are left of is no group.
    consumer.retain(|_, machine| machine.exists());
    // A group goes over with the tombstone of what it was in one batch, so that none is both; if one is, the newer kind counts.
    classic.retain(|name, _| !consumer.contains_key(name));
    let simple: Vec<Rc<str>> = {
        let offsets = coordinator.offsets.borrow();
        let names = offsets
            .groups()
            .filter(|name| !classic.contains_key(*name) && !consumer.contains_key(*name));
        names.map(Rc::from).collect()
    };
    for (name, machine) in consumer {
        if coordinator.state() != State::Loading {
            return;
        }
        coordinator.enter_consumer(shard, name, machine);
        shard.runtime.yield_if_needed().await;
    }
    for (name, mut record) in classic {
        if coordinator.state() != State::Loading {
            return;
        }
        // Below zero it is not known.
        let known = record.state_since_ms.filter(|since_ms| *since_ms >= 0);
        record.state_since_ms = known.map(|since_ms| shard.groups.of_wall_ms(&shard.runtime, since_ms));
        let now_ms = shard.groups.now_ms(shard.runtime.now());
        let mut effects = Effects::default();
        let machine = ClassicGroup::load(shard.groups.classic.clone(), &record, now_ms, &mut effects);
        coordinator.enter(shard, name, machine, effects, now_ms);
        shard.runtime.yield_if_needed().await;
    }
    for name in simple {
        if coordinator.state() != State::Loading {
            return;
        }
        coordinator.make(shard, &name);
        shard.runtime.yield_if_needed().await;
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn few_partitions_are_replayed_at_a_time() {
        let loads = Loads::default();
        let mut turns: Vec<_> = (0..LOADS_MAX)
            .filter_map(|_| loads.turn().now_or_never())
            .collect();
        assert_eq!(turns.len(), LOADS_MAX);
        let mut next = Box::pin(loads.turn());
        assert!(next.as_mut().now_or_never().is_none());
        turns.pop();
        assert!(next.now_or_never().is_some());
    }
}
