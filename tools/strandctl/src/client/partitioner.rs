//! Which partition a record goes to, as the Java producer decides.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

use strandline_wire::murmur2::partition_for_key;

use crate::cli::NullKeys;

/// Chooses partitions.
#[derive(Debug)]
pub struct Partitioner {
    /// All partitions: a key's choice counts those without a leader too, so that it never moves.
    partition_count: u32,
    /// The partitions with a leader, among which records without a key are spread.
    available: Vec<i32>,
    null_keys: NullKeys,
    position: usize,
}

impl Partitioner {
    /// A partitioner over `partition_count` partitions. `available` are those with a leader; when none has one, all are
    /// used, and the sending waits for a leader.
    pub fn new(partition_count: u32, available: Vec<i32>, null_keys: NullKeys) -> Self {
        // So that many short runs do not all start with partition 0.
        let seed = RandomState::new().build_hasher().finish();
        Self::starting_at(seed as usize, partition_count, available, null_keys)
    }

    fn starting_at(start: usize, partition_count: u32, mut available: Vec<i32>, null_keys: NullKeys) -> Self {
        if available.is_empty() {
            available = (0..partition_count as i32).collect();
        }
        let position = start % available.len().max(1);
        Self {
            partition_count,
            available,
            null_keys,
            position,
        }
    }

    /// The partition of a record; `None` when there are no partitions.
    pub fn partition(&mut self, key: Option<&[u8]>) -> Option<i32> {
        if let Some(key) = key {
            return partition_for_key(key, self.partition_count).map(|partition| partition as i32);
        }
        let partition = self.available.get(self.position).copied();
        if self.null_keys == NullKeys::RoundRobin {
            self.advance();
        }
        partition
    }

    /// A batch was sent: records without a key stick to another partition now.
    pub fn batch_sent(&mut self) {
        if self.null_keys == NullKeys::Sticky {
            self.advance();
        }
    }

    fn advance(&mut self) {
        self.position = (self.position + 1) % self.available.len().max(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_go_where_java_sends_them() {
        let mut partitioner = Partitioner::starting_at(0, 10, vec![0], NullKeys::Sticky);
        // Utils.toPositive(Utils.murmur2(key)) % 10, as kafka-clients 4.2 computes it.
        let keys_of_java: [(&[u8], i32); 12] = [
            (b"", 1),
            (b"a", 4),
            (b"ab", 4),
            (b"abc", 7),
            (b"abcd", 0),
            (b"abcde", 1),
            (b"key-0", 1),
            (b"key-1", 0),
            (b"order:4711", 5),
            ("\u{43a}\u{43b}\u{44e}\u{447}".as_bytes(), 4),
            (&[0, 1], 9),
            (b"The quick brown fox jumps over the lazy dog", 8),
        ];
        for (key, partition) in keys_of_java {
            assert_eq!(partitioner.partition(Some(key)), Some(partition), "{key:?}");
        }
    }

    #[test]
    fn sticky_moves_with_the_batch_and_round_robin_with_the_record() {
        let mut sticky = Partitioner::starting_at(1, 3, vec![0, 1, 2], NullKeys::Sticky);
        assert_eq!(
            [sticky.partition(None), sticky.partition(None)],
            [Some(1), Some(1)]
        );
        sticky.batch_sent();
        assert_eq!(sticky.partition(None), Some(2));
        sticky.batch_sent();
        assert_eq!(sticky.partition(None), Some(0));

        let mut round_robin = Partitioner::starting_at(2, 3, vec![0, 1, 2], NullKeys::RoundRobin);
        let partitions: Vec<_> = (0..4).map(|_| round_robin.partition(None)).collect();
        assert_eq!(partitions, [Some(2), Some(0), Some(1), Some(2)]);
    }

    #[test]
    fn records_without_a_key_avoid_partitions_without_a_leader() {
        let mut partitioner = Partitioner::starting_at(0, 3, vec![2], NullKeys::RoundRobin);
        assert_eq!(
            [partitioner.partition(None), partitioner.partition(None)],
            [Some(2), Some(2)]
        );
        let mut none = Partitioner::starting_at(5, 3, vec![], NullKeys::Sticky);
        assert_eq!(none.partition(None), Some(2));
    }

    #[test]
    fn a_topic_without_partitions_has_no_answer() {
        let mut partitioner = Partitioner::starting_at(7, 0, vec![], NullKeys::Sticky);
        assert_eq!(partitioner.partition(None), None);
        assert_eq!(partitioner.partition(Some(b"k")), None);
    }
}
