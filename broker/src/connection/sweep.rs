//! The coarse sweep: idle connections, half-sent frames, stuck writers, overdue produces, unused buffers.

use std::rc::Rc;
use std::time::Duration;

use strandline_runtime::{Monotonic, Runtime};
use strandline_storage::disk::Disk;

use super::Connection;
use crate::shard::Shard;

/// One pass a second: no timer belongs to a request or a connection.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);
/// A frame that is not complete by then ends its connection.
const INCOMPLETE_MAX: Duration = Duration::from_secs(30);
/// A client that does not take one write (at most [`super::writer::WRITE_BYTES`]) in this time, while others wait for the
/// memory that answers of the shard hold.
const STUCK_WRITE_MAX: Duration = Duration::from_secs(30);
/// Connections looked at between two looks at what else is ready.
const SLICE: usize = 512;

/// Sweeps until the executor ends.
pub(crate) async fn sweep<R: Runtime, D: Disk>(shard: Rc<Shard<R, D>>) {
    loop {
        shard.runtime.sleep(SWEEP_INTERVAL).await;
        let mut from = 0;
        loop {
            let slice: Vec<Rc<Connection<D>>> = shard
                .connections
                .borrow()
                .range(from..)
                .take(SLICE)
                .map(|(_, c)| c.clone())
                .collect();
            let Some(last) = slice.last() else { break };
            from = last.id + 1;
            let now = shard.runtime.now();
            for connection in &slice {
                look(&shard, connection, now);
            }
            shard.runtime.yield_if_needed().await;
        }
    }
}

fn look<R: Runtime, D: Disk>(shard: &Shard<R, D>, connection: &Connection<D>, now: Monotonic) {
    if connection.is_aborted() {
        return;
    }
    connection.outbox.expire(now);
    if let Some(since) = connection.incomplete_since.get()
        && now.since(since) >= INCOMPLETE_MAX
    {
        return connection.abort_because("a request was not complete within 30 s");
    }
    let idle = now.since(connection.last_active.get());
    if let Some(since) = connection.writing_since.get() {
        let stuck = now.since(since);
        if stuck >= STUCK_WRITE_MAX && (shard.outgoing.room() == 0 || shard.answers.is_awaited()) {
            return connection
                .abort_because("the client does not read, and answers hold all the memory they may");
        }
        if shard.config.connections_max_idle.is_some_and(|max| stuck >= max) {
            return connection.abort_because("the client has not read for connections.max.idle.ms");
        }
        return;
    }
    if connection.busy.get() || !connection.outbox.is_idle() {
        return;
    }
    if shard.config.connections_max_idle.is_some_and(|max| idle >= max) {
        // Usual, and no fault of the client: no line for it.
        return connection.abort();
    }
    if connection.holds_buffer.get() && idle >= SWEEP_INTERVAL {
        connection.release_buffer.set(true);
        connection.wake.set();
    }
}
