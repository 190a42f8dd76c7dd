//! The shard's counters, copied for the control thread.

use std::rc::Rc;

use strandline_core::metadata::PartitionReference;
use strandline_runtime::Runtime;
use strandline_storage::disk::Disk;
use tokio::sync::oneshot;

use super::Shard;
use crate::group;
use crate::node::report::{Detail, PartitionReport, ShardReport};
use crate::replica;

/// Partitions copied between two looks at what else is ready.
const SLICE: usize = 256;

/// Answers a request for a copy; with many partitions in slices, so that no request waits behind it.
pub(super) async fn answer<R: Runtime, D: Disk>(
    shard: Rc<Shard<R, D>>,
    detail: Detail,
    reply: oneshot::Sender<ShardReport>,
) {
    let (groups, partitions) = match detail {
        Detail::Shard => Default::default(),
        // First what is committed: a partition's end is then no older than what was committed of it.
        Detail::Everything => (group::report(&shard).await, partitions(&shard).await),
    };
    let store = shard.store.stats();
    let report = ShardReport {
        requests: shard.metrics.requests(),
        phases: shard.metrics.phases(),
        received_bytes: shard.metrics.received_bytes.get(),
        sent_bytes: shard.metrics.sent_bytes.get(),
        connections: shard.connections.borrow().len() as u64,
        connections_refused: shard.metrics.connections_refused.get(),
        isr_expands: shard.metrics.isr_expands.get(),
        isr_shrinks: shard.metrics.isr_shrinks.get(),
        storage_stopped: shard.store.stopped().is_some(),
        disk_full: store.disk_full,
        disk_free_bytes: store.disk_free_bytes,
        disk_reserve_bytes: store.disk_reserve_bytes,
        appends_refused: store.appends_refused,
        damaged_partitions: store.damaged_logs,
        damaged: damaged(&shard, store.damaged_logs > 0),
        flushes: store.flushes,
        entries: store.entries,
        journal_used_bytes: store.journal_used_bytes,
        dirty_bytes: store.dirty_bytes,
        cached_bytes: store.cached_bytes,
        cleaner: store.cleaner,
        longest_turns: store.longest_turns,
        memory_used_bytes: store.memory_used_bytes,
        retention_rounds: store.retention_rounds,
        retention_segments_by_size: store.retention_segments_by_size,
        retention_segments_by_time: store.retention_segments_by_time,
        retention_bytes: store.retention_bytes,
        memory_budget_bytes: shard.store.budget().limit(),
        partitions,
        groups,
    };
    // Whoever asked may have given up.
    let _ = reply.send(report);
}

fn damaged<R: Runtime, D: Disk>(shard: &Shard<R, D>, some_unreadable: bool) -> Vec<PartitionReference> {
    let unreadable = match some_unreadable {
        true => shard.store.damaged_logs(),
        false => Vec::new(),
    };
    let mut damaged = shard.replicas.damaged();
    damaged.extend(unreadable.into_iter().map(replica::reference));
    damaged.sort_unstable();
    damaged.dedup();
    damaged
}

async fn partitions<R: Runtime, D: Disk>(shard: &Shard<R, D>) -> Vec<PartitionReport> {
    let mut partitions = Vec::new();
    for topic in shard.topics.all() {
        for partition in topic.led() {
            let segments = partition.log.segments();
            partitions.push(PartitionReport {
                topic_id: topic.id,
                partition: partition.number as u32,
                log_start_offset: partition.log.start_offset(),
                log_end_offset: partition.log.end_offset(),
                high_watermark: partition.high_watermark(),
                size_bytes: segments.iter().map(|segment| segment.payload_bytes).sum(),
                segments: segments.len() as u64,
                followers: partition.lags(),
            });
            if partitions.len() % SLICE == 0 {
                shard.runtime.yield_now().await;
            }
        }
    }
    partitions
}
