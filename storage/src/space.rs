//! The free space of the disk: what is below the reserve refuses appends; what a round needs must be there before it.

use crate::disk::{Disk, PAGE};
use crate::shard::Shard;

/// Small files that a round may write for one log: a snapshot, its run's last page, an index.
const PAGES_PER_LOG: u64 = 4;

/// Looks at the free space: appends stop while it is below the reserve, and go on when there is more. Returns the free
/// bytes, where the system tells.
pub(crate) async fn look<D: Disk>(shard: &Shard<D>) -> Option<u64> {
    shard.since_space_check.set(0);
    let space = match shard.disk.space(&shard.options.directory).await {
        Ok(space) => space,
        Err(error) => {
            tracing::warn!(%error, "free space is unknown");
            return None;
        }
    };
    let (free, reserve) = (space.free_bytes, shard.options.disk_free_min_bytes);
    shard.free_bytes.set(Some(free));
    let full = free < reserve;
    if full != shard.full.replace(full) {
        match full {
            true => {
                // What waits to be unlinked waits no longer.
                shard.unlink_wake.notify_all();
                tracing::error!(free, reserve, "the disk is full: appends are refused");
            }
            false => tracing::info!(free, reserve, "the disk has space again"),
        }
    }
    Some(free)
}

/// Whether a round of write-back has a home for what it writes. Begun without, its first refused write would stop the shard
/// for good; what is dirty is safe in the journal as long as that holds it.
pub(crate) async fn holds_a_round<D: Disk>(shard: &Shard<D>) -> bool {
    let touched = shard
        .logs
        .borrow()
        .values()
        .filter(|log| log.state.borrow().touched)
        .count() as u64;
    let needed = shard.counters.dirty_bytes.get() + touched * PAGES_PER_LOG * PAGE as u64;
    look(shard).await.is_none_or(|free| free >= needed)
}
