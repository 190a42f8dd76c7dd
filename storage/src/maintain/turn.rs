//! How long a task of a shard has it to itself: between two points where it gives way, nothing else runs.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use strandline_runtime::Runtime;

use crate::disk::Disk;
use crate::shard::Shard;
use crate::stats::Counters;

/// The longest turn of a task so far.
#[derive(Default)]
pub(crate) struct LongestTurn(Cell<Duration>);

impl LongestTurn {
    pub(crate) fn get(&self) -> Duration {
        self.0.get()
    }

    fn note(&self, turn: Duration) {
        self.0.set(self.0.get().max(turn));
    }
}

/// Runs a task, and notes its longest turn.
pub(crate) async fn timed<R: Runtime, D: Disk>(
    runtime: R,
    shard: Rc<Shard<D>>,
    longest: fn(&Counters) -> &LongestTurn,
    task: impl Future<Output = ()>,
) {
    let mut task = pin!(task);
    poll_fn(|context| {
        let began = runtime.now();
        let polled = task.as_mut().poll(context);
        longest(&shard.counters).note(runtime.now().since(began));
        polled
    })
    .await;
}
