//! Proposals that are committed, and whose proposers wait until the shards serve by them.

use std::collections::VecDeque;
use std::time::Duration;

use strandline_core::metadata::{Answer, MetadataOffset};
use strandline_runtime::Monotonic;
use tokio::sync::oneshot;

use super::client::ControlError;

struct Entry {
    offset: MetadataOffset,
    deadline: Monotonic,
    answer: Answer,
    reply: oneshot::Sender<Result<Answer, ControlError>>,
}

/// Committed proposals, by offset.
#[derive(Default)]
pub(super) struct Waiting(VecDeque<Entry>);

impl Waiting {
    /// A proposal committed at `offset`, answered once every shard has applied that, or at the deadline.
    pub(super) fn add(
        &mut self,
        offset: MetadataOffset,
        deadline: Monotonic,
        answer: Answer,
        reply: oneshot::Sender<Result<Answer, ControlError>>,
    ) {
        self.0.push_back(Entry {
            offset,
            deadline,
            answer,
            reply,
        });
    }

    /// Answers those that every shard has applied.
    pub(super) fn applied(&mut self, by_all: MetadataOffset) {
        while let Some(entry) = self.0.pop_front_if(|entry| entry.offset <= by_all) {
            entry.answer();
        }
    }

    /// Answers those whose time is up: they are committed, even if a shard lags.
    pub(super) fn expire(&mut self, now: Monotonic) {
        let (due, waiting): (VecDeque<_>, VecDeque<_>) = std::mem::take(&mut self.0)
            .into_iter()
            .partition(|entry| entry.deadline <= now);
        self.0 = waiting;
        due.into_iter().for_each(Entry::answer);
    }

    /// How long until the next deadline; `None` if nobody waits.
    pub(super) fn next_deadline(&self, now: Monotonic) -> Option<Duration> {
        self.0
            .iter()
            .map(|entry| entry.deadline)
            .min()
            .map(|deadline| deadline.since(now))
    }
}

impl Entry {
    fn answer(self) {
        // A proposer that is gone (its connection closed) needs no answer.
        let _ = self.reply.send(Ok(self.answer));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(
        waiting: &mut Waiting,
        offset: u64,
        deadline: u64,
    ) -> oneshot::Receiver<Result<Answer, ControlError>> {
        let (reply, answer) = oneshot::channel();
        waiting.add(
            MetadataOffset(offset),
            Monotonic(deadline),
            Answer::Whole(Ok(())),
            reply,
        );
        answer
    }

    #[test]
    fn answers_go_out_when_applied_or_due() {
        let mut waiting = Waiting::default();
        let mut first = wait(&mut waiting, 1, 100);
        let mut second = wait(&mut waiting, 2, 50);
        let mut third = wait(&mut waiting, 3, 200);
        waiting.applied(MetadataOffset(1));
        assert!(first.try_recv().is_ok() && second.try_recv().is_err());
        assert_eq!(
            waiting.next_deadline(Monotonic(20)),
            Some(Duration::from_nanos(30))
        );
        waiting.expire(Monotonic(50));
        assert!(second.try_recv().is_ok() && third.try_recv().is_err());
    }
}
