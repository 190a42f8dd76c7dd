//! Who waits for an end of a partition.

use std::collections::VecDeque;

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
