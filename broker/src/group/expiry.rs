//! What goes by itself: offsets that nobody used for long, groups that nothing is left of, offsets of deleted topics.

use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::{Either, select};
use strandline_core::group::classic::OffsetExpiry;
use strandline_core::group::offsets::{CommittedOffset, ExpiryBase, OffsetsRecord};
use strandline_core::metadata::ClusterImage;
use strandline_runtime::{Queue, Runtime};
use strandline_storage::disk::Disk;

use super::Coordinator;
use super::coordinator::State;
use super::write::{GROUP_END_BYTES, bytes_of};
use crate::shard::Shard;

/// Looks for what has expired, again and again.
pub(crate) async fn run<R: Runtime, D: Disk>(shard: Rc<Shard<R, D>>) {
    let interval = Duration::from_millis(shard.groups.settings.retention_check_interval_ms);
    loop {
        let sleep = pin!(shard.runtime.sleep(interval));
        let stop = pin!(shard.stop_requested());
        if let Either::Right(_) = select(sleep, stop).await {
            return;
        }
        for coordinator in shard.groups.all() {
            expire(&shard, &coordinator).await;
        }
    }
}

async fn expire<R: Runtime, D: Disk>(shard: &Rc<Shard<R, D>>, coordinator: &Rc<Coordinator<D>>) {
    let names: Vec<Rc<str>> = coordinator.groups.borrow().keys().cloned().collect();
    for name in names {
        if coordinator.state() != State::Active {
            return;
        }
        expire_group(shard, coordinator, &name).await;
        shard.runtime.yield_if_needed().await;
    }
}

async fn expire_group<R: Runtime, D: Disk>(
    shard: &Rc<Shard<R, D>>,
    coordinator: &Rc<Coordinator<D>>,
    name: &Rc<str>,
) {
    let look = || expired(shard, coordinator, name);
    let bytes = |(records, _): &(Vec<_>, bool)| bytes_of(records) + GROUP_END_BYTES;
    let Some((records, all)) = with_room(shard, coordinator, look, bytes).await else {
        return;
    };
    if !records.is_empty() {
        tracing::info!(
            shard = shard.number,
            group = &**name,
            offsets = records.len(),
            "offsets of the group have expired"
        );
    }
    // What was not appended is looked for again at the next round.
    if !all {
        let _ = coordinator.append_all(shard, &records);
    } else if coordinator.end_group(shard, name, records).is_ok() {
        coordinator.remove(name);
    }
}

/// What `look` finds, once there is room for the `bytes` that it takes; `None` if nothing, or if there is no room in time.
/// After a wait it looks again: what it found may be gone, and no more than was asked for is taken.
async fn with_room<R: Runtime, D: Disk, T>(
    shard: &Rc<Shard<R, D>>,
    coordinator: &Rc<Coordinator<D>>,
    look: impl Fn() -> Option<T>,
    bytes: impl Fn(&T) -> usize,
) -> Option<T> {
    let wanted = bytes(&look()?);
    coordinator.admit(shard, wanted).await.ok()?;
    let found = look().filter(|found| bytes(found) <= wanted)?;
    (coordinator.state() == State::Active).then_some(found)
}

/// The records that take a group's expired offsets away, and whether nothing else is left of it; `None` if nothing is to be done.
fn expired<R: Runtime, D: Disk>(
    shard: &Rc<Shard<R, D>>,
    coordinator: &Rc<Coordinator<D>>,
    name: &Rc<str>,
) -> Option<(Vec<OffsetsRecord>, bool)> {
    let groups = coordinator.groups.borrow();
    let group = groups.get(name)?;
    let base = match group.machine.offset_expiry() {
        OffsetExpiry::Since(moment) => ExpiryBase::Moment(shard.groups.to_wall_ms(&shard.runtime, moment)),
        OffsetExpiry::SinceCommit => ExpiryBase::Commit,
        OffsetExpiry::Never => ExpiryBase::Never,
    };
    let offsets = coordinator.offsets.borrow();
    let (expired, all) = offsets.expired(
        name,
        base,
        |topic| group.machine.is_subscribed_to(topic),
        shard.runtime.wall_clock_ms(),
        shard.groups.settings.retention_ms,
    );
    let gone = all && group.machine.is_idle();
    let records: Vec<_> = expired
        .into_iter()
        .map(|(topic, partition)| tombstone(name, &topic, partition))
        .collect();
    (gone || !records.is_empty()).then_some((records, gone))
}

/// Forgets the offsets of topics that were deleted.
pub(super) fn forget_topics<R: Runtime, D: Disk>(
    shard: &Rc<Shard<R, D>>,
    coordinator: &Rc<Coordinator<D>>,
    deleted: &[String],
) {
    let is_known = {
        let offsets = coordinator.offsets.borrow();
        deleted.iter().any(|topic| offsets.knows_topic(topic))
    };
    if is_known && coordinator.state() == State::Active {
        forget_gone(shard, coordinator);
    }
}

/// Forgets every offset whose topic or partition is gone, in a task of its own.
pub(super) fn forget_gone<R: Runtime, D: Disk>(shard: &Rc<Shard<R, D>>, coordinator: &Rc<Coordinator<D>>) {
    if coordinator.offsets.borrow().is_empty() {
        return;
    }
    let (shard, coordinator) = (shard.clone(), coordinator.clone());
    let runtime = shard.runtime.clone();
    runtime.spawn(Queue::Background, async move {
        let names: Vec<String> = {
            let offsets = coordinator.offsets.borrow();
            let mut names: Vec<String> = offsets.groups().map(str::to_owned).collect();
            // Records are written in the same order on every run.
            names.sort();
            names
        };
        for name in names {
            if coordinator.state() != State::Active {
                return;
            }
            let look = || gone_of(&shard, &coordinator, &name);
            if let Some(records) = with_room(&shard, &coordinator, look, |records| bytes_of(records)).await {
                // Those that fail stay until the partition is replayed the next time; nobody is told of them meanwhile.
                let _ = coordinator.append_all(&shard, &records);
            }
            shard.runtime.yield_if_needed().await;
        }
    });
}

/// The records that take away a group's offsets whose topic or partition is gone; `None` if there is none.
fn gone_of<R: Runtime, D: Disk>(
    shard: &Rc<Shard<R, D>>,
    coordinator: &Rc<Coordinator<D>>,
    name: &str,
) -> Option<Vec<OffsetsRecord>> {
    let image = shard.image();
    let offsets = coordinator.offsets.borrow();
    let gone = offsets
        .of_group(name)
        .filter(|(topic, partition, offset)| is_gone(&image, topic, *partition, offset));
    let records: Vec<_> = gone
        .map(|(topic, partition, _)| tombstone(name, topic, partition))
        .collect();
    (!records.is_empty()).then_some(records)
}

fn is_gone(image: &ClusterImage, topic: &str, partition: i32, offset: &CommittedOffset) -> bool {
    match image.topic_by_name(topic) {
        None => true,
        Some(topic) => {
            offset.is_of_other_topic(topic.id)
                || usize::try_from(partition).map_or(true, |number| number >= topic.partitions.len())
        }
    }
}

/// The record that takes an offset away.
pub(super) fn tombstone(group: &str, topic: &str, partition: i32) -> OffsetsRecord {
    OffsetsRecord::Offset {
        group: group.to_owned(),
        topic: topic.to_owned(),
        partition,
        value: None,
    }
}
