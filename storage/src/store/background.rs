//! What nobody waits for: zero-filling journal files ahead of use, and looking at the free space.

use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::select;
use strandline_runtime::Runtime;

use crate::disk::{Buffer, Disk, DiskFile};
use crate::shard::Shard;
use crate::space;

/// Bytes of one write of zeroes.
const FILL_BYTES: usize = 256 * 1024;
/// How often a full disk is looked at for space.
const FULL_CHECK: Duration = Duration::from_secs(1);
/// How often another is: this process may not be the only one that fills it.
const SPACE_CHECK: Duration = Duration::from_secs(10);

/// Runs until the shard stops or closes.
pub(super) async fn run<R: Runtime, D: Disk>(runtime: R, shard: Rc<Shard<D>>) {
    loop {
        let wake = shard.background_wake.wait();
        if shard.is_stopped() || shard.closing.get() {
            return;
        }
        let free = space::look(&shard).await;
        let next = shard.journal.borrow().ring.next_to_fill();
        if let Some((file, from)) = next
            && may_fill(&shard, file, from, free)
        {
            if let Err(error) = fill(&runtime, &shard, file, from).await {
                return shard.stop(&format!("zero-filling journal file {file} failed: {error}"));
            }
            shard.journal_wake.notify_all();
            // Appends may wait for a filled file.
            shard.progress.notify_all();
            shard.background_wake.notify_all();
            continue;
        }
        let sleep = pin!(runtime.sleep(if shard.full.get() { FULL_CHECK } else { SPACE_CHECK }));
        select(wake, sleep).await;
    }
}

/// Whether a journal file may be filled now: on a full disk only the one that the journal goes to next, since deletions
/// need a place in it, and only if it fits.
fn may_fill<D: Disk>(shard: &Shard<D>, file: u32, from: u64, free: Option<u64>) -> bool {
    let journal = shard.journal.borrow();
    let missing = journal.ring.file_bytes() - from;
    !shard.full.get() || (journal.ring.is_next(file) && free.is_some_and(|free| free > missing))
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
