//! A checkpoint for one swap of the cleaner: the last one, with the segments of one log changed. It says nothing of what the journal
//! holds since, so it waits for no write-back and frees nothing.

use strandline_runtime::local::Turns;

use super::slot;
use crate::cleaner::swap::Swap;
use crate::disk::Disk;
use crate::format::checkpoint::Checkpoint;
use crate::log::state::LogInner;
use crate::shard::Shard;

/// Writes and flushes it; `false`, with nothing done, when the last checkpoint does not have the swap's inputs. Whoever calls holds
/// `shard.committing`.
pub(crate) async fn write<D: Disk>(shard: &Shard<D>, log: &LogInner<D>, swap: &Swap) -> Result<bool, String> {
    let mut turns = Turns::default();
    let count = shard.committed.borrow().logs.len();
    let mut logs = Vec::with_capacity(count);
    for at in 0..count {
        logs.push(shard.committed.borrow().logs[at].clone());
        turns.item().await;
    }
    let Ok(at) = logs.binary_search_by_key(&log.log_id.0, |known| known.log_id) else {
        return Ok(false);
    };
    let known = &mut logs[at];
    if !swap.apply_to(&mut known.segments) {
        return Ok(false);
    }
    // Its number is taken: a replay must not draw it again.
    known.next_file_number = log.state.borrow().next_file_number;
    known.cleaned_to = swap.cleaned_to().unwrap_or(known.cleaned_to);
    let checkpoint = {
        let committed = shard.committed.borrow();
        Checkpoint {
            generation: committed.generation + 1,
            incarnations: committed.incarnations.clone(),
            logs,
            ..*committed
        }
    };
    slot::write(&shard.disk, &shard.options.directory, &checkpoint).await?;
    *shard.committed.borrow_mut() = checkpoint;
    Ok(true)
}
