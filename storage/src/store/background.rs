//! What nobody waits for: zero-filling journal files ahead of use, and looking at the free space.

use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::select;
use strandline_runtime::Runtime;

use crate::disk::{Buffer, Disk, DiskFile};
use crate::shard::Shard;

/// Bytes of one write of zeroes.
const FILL_BYTES: usize = 256 * 1024;
/// How often a full disk is looked at for space.
const FULL_CHECK: Duration = Duration::from_secs(1);

/// Runs until the shard stops or closes.
pub(super) async fn run<R: Runtime, D: Disk>(runtime: R, shard: Rc<Shard<D>>) {
    loop {
        let wake = shard.background_wake.wait();
        if shard.is_stopped() || shard.closing.get() {
            return;
        }
        shard.since_space_check.set(0);
        look_at_space(&shard).await;
        let next = shard.journal.borrow().ring.next_to_fill();
        if let Some((file, from)) = next {
            if let Err(error) = fill(&runtime, &shard, file, from).await {
                return shard.stop(&format!("zero-filling journal file {file} failed: {error}"));
            }
            shard.journal_wake.notify_all();
            // Appends may wait for a filled file.
            shard.progress.notify_all();
            shard.background_wake.notify_all();
            continue;
        }
        if shard.full.get() {
            let sleep = pin!(runtime.sleep(FULL_CHECK));
            select(wake, sleep).await;
        } else {
            wake.await;
        }
    }
}

/// Appends stop while there is less free space than the reserve, and go on when there is more.
async fn look_at_space<D: Disk>(shard: &Shard<D>) {
    let space = match shard.disk.space(&shard.options.directory).await {
        Ok(space) => space,
        Err(error) => return tracing::warn!(%error, "free space is unknown"),
    };
    let full = space.free_bytes < shard.options.disk_free_min_bytes;
    if full != shard.full.replace(full) {
        let (free, reserve) = (space.free_bytes, shard.options.disk_free_min_bytes);
        match full {
            true => tracing::error!(free, reserve, "the disk is full: appends are refused"),
            false => tracing::info!(free, reserve, "the disk has space again"),
        }
    }
}

async fn fill<R: Runtime, D: Disk>(
    runtime: &R,
    shard: &Shard<D>,
    number: u32,
    from: u64,
) -> std::io::Result<()> {
    let (file, total) = {
        let journal = shard.journal.borrow();
        (journal.files[number as usize].clone(), journal.ring.file_bytes())
    };
    let zeroes = zeroes(&shard.disk);
    let mut position = from;
    while position < total && !shard.closing.get() && !shard.is_stopped() {
        let length = (total - position).min(zeroes.len() as u64);
        file.write_at(zeroes.clone(), length as usize, position).await?;
        position += length;
        runtime.yield_if_needed().await;
    }
    if position == total {
        file.flush().await?;
        shard.journal.borrow_mut().ring.filled(number, total);
    }
    Ok(())
}

/// A buffer of zeroes.
pub(super) fn zeroes<D: Disk>(disk: &D) -> Rc<D::Buffer> {
    let mut buffer = disk.allocate(FILL_BYTES);
    buffer.as_mut_slice().fill(0);
    Rc::new(buffer)
}
