//! The leader's view of one partition: how far its replicas are, and so what may be acknowledged and read.
//!
//! Pure. Ends are *own* ends in the sense of the topic: flushed ends of a durable topic, written ends of a relaxed
//! one. With one replica the in-sync set is the leader, and the high watermark is the leader's own end; followers
//! join the same minimum when links come.

use std::collections::VecDeque;

/// The leader's state of one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaderReplica {
    leader_epoch: i32,
    epoch_start: i64,
    own_end: i64,
    high_watermark: i64,
}

impl LeaderReplica {
    /// A replica that starts to lead in `leader_epoch`, whose first own offset is `epoch_start` (the log end at
    /// that moment). `own_end` is what had been flushed; `high_watermark` the last one known, a lower bound.
    pub fn lead(leader_epoch: i32, epoch_start: i64, own_end: i64, high_watermark: i64) -> Self {
        assert!(own_end <= epoch_start, "flushed beyond the log end");
        let high_watermark = high_watermark.max(own_end).min(epoch_start);
        Self {
            leader_epoch,
            epoch_start,
            own_end,
            high_watermark,
        }
    }

    /// The epoch it leads in.
    pub fn leader_epoch(&self) -> i32 {
        self.leader_epoch
    }

    /// What may be read, and what `acks=all` waits for.
    pub fn high_watermark(&self) -> i64 {
        self.high_watermark
    }

    /// What the leader alone has, for `acks=1`.
    pub fn own_end(&self) -> i64 {
        self.own_end
    }

    /// Whether the latest offset may be told: only once all that earlier leaders may have acknowledged is
    /// readable again (KIP-207).
    pub fn latest_is_known(&self) -> bool {
        self.high_watermark >= self.epoch_start
    }

    /// The leader's own end moved; the new high watermark if that moved too. Ends never fall here.
    pub fn advance_own_end(&mut self, end: i64) -> Option<i64> {
        self.own_end = self.own_end.max(end);
        let high_watermark = self.own_end;
        if high_watermark <= self.high_watermark {
            return None;
        }
        self.high_watermark = high_watermark;
        Some(high_watermark)
    }

    /// A truncation or an emptied log moved the end to `end`: nothing beyond it is readable.
    pub fn reset_to(&mut self, end: i64) {
        self.own_end = end;
        self.high_watermark = end;
        self.epoch_start = self.epoch_start.min(end);
    }
}

/// Requests that wait until an end passes the offset each of them named.
///
/// Offsets come nearly in order (a duplicate names an older one), so a sorted queue is pushed at its back.
#[derive(Debug)]
pub struct AckQueue<T> {
    waiting: VecDeque<(i64, T)>,
}

impl<T> Default for AckQueue<T> {
    fn default() -> Self {
        Self {
            waiting: VecDeque::new(),
        }
    }
}

impl<T> AckQueue<T> {
    /// `waiter` waits until everything below `end` is covered.
    pub fn push(&mut self, end: i64, waiter: T) {
        let at = match self.waiting.back() {
            Some((last, _)) if *last > end => self.waiting.partition_point(|(other, _)| *other <= end),
            _ => self.waiting.len(),
        };
        self.waiting.insert(at, (end, waiter));
    }

    /// The next waiter that `end` covers; call until `None`.
    pub fn pop_covered(&mut self, end: i64) -> Option<T> {
        if self.waiting.front()?.0 > end {
            return None;
        }
        self.waiting.pop_front().map(|(_, waiter)| waiter)
    }

    /// Takes every waiter, when the replica stops to lead or its shard to write.
    pub fn drain(&mut self) -> impl Iterator<Item = T> + '_ {
        self.waiting.drain(..).map(|(_, waiter)| waiter)
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_replica_reads_up_to_what_it_flushed() {
        let mut replica = LeaderReplica::lead(3, 10, 10, 4);
        assert_eq!(replica.high_watermark(), 10);
        assert!(replica.latest_is_known());
        assert_eq!(replica.advance_own_end(12), Some(12));
        assert_eq!(replica.advance_own_end(12), None);
        assert_eq!(replica.advance_own_end(11), None);
        assert_eq!(replica.own_end(), 12);
        assert_eq!(replica.leader_epoch(), 3);
    }

    #[test]
    fn latest_waits_for_the_epoch_start() {
        let mut replica = LeaderReplica::lead(1, 10, 7, 0);
        assert!(!replica.latest_is_known());
        assert_eq!(replica.advance_own_end(10), Some(10));
        assert!(replica.latest_is_known());
    }

    #[test]
    fn a_truncation_takes_the_high_watermark_back() {
        let mut replica = LeaderReplica::lead(1, 10, 10, 10);
        replica.reset_to(6);
        assert_eq!((replica.high_watermark(), replica.own_end()), (6, 6));
        assert_eq!(replica.advance_own_end(8), Some(8));
    }

    #[test]
    fn waiters_leave_in_order_of_their_offsets() {
        let mut queue = AckQueue::default();
        queue.push(5, "a");
        queue.push(9, "c");
        queue.push(5, "b");
        assert_eq!(queue.pop_covered(4), None);
        assert_eq!(queue.pop_covered(8), Some("a"));
        assert_eq!(queue.pop_covered(8), Some("b"));
        assert_eq!(queue.pop_covered(8), None);
        assert_eq!(queue.drain().collect::<Vec<_>>(), ["c"]);
        assert!(queue.is_empty());
    }
}
