//! The newest offset of each key, in memory of a fixed size: of a key only a hash of 128 bits is kept.
//!
//! A slot has 24 bytes, as in Kafka. The hash is seeded anew for each map, so that nobody can prepare keys that collide
//! and make a record vanish.

use xxhash_rust::xxh3::xxh3_128_with_seed;

use crate::types::Offset;

/// Bytes of a slot: the hash in two halves, and the offset + 1, so that zeroes are an empty slot.
pub(super) const SLOT_BYTES: u64 = 24;

type Slot = [u64; 3];

/// Open addressing: a key is looked for from the slot that its hash says, up to an empty one.
pub(super) struct OffsetMap {
    slots: Vec<Slot>,
    seed: u64,
    used: usize,
    used_max: usize,
}

impl OffsetMap {
    /// A map of at most `bytes` that never needs more than `keys_max` keys, filled up to the share `load`. It holds one key at
    /// least, since a cleaning that gets nowhere would be tried for ever.
    pub(super) fn new(bytes: u64, load: f64, keys_max: u64, seed: u64) -> Self {
        let load = load.clamp(0.1, 0.9);
        let wanted = (keys_max as f64 / load) as u64 + 2;
        let slots = (bytes / SLOT_BYTES).min(wanted).max(2) as usize;
        Self {
            // Memory that nobody touches takes none: the system gives zeroes.
            slots: vec![[0; 3]; slots],
            seed,
            used: 0,
            used_max: ((slots as f64 * load) as usize).clamp(1, slots - 1),
        }
    }

    /// Bytes of its memory.
    pub(super) fn bytes(&self) -> u64 {
        self.slots.len() as u64 * SLOT_BYTES
    }

    /// Keys in it.
    pub(super) fn len(&self) -> usize {
        self.used
    }

    fn hash(&self, key: &[u8]) -> (u64, u64) {
        let hash = xxh3_128_with_seed(key, self.seed);
        (hash as u64, (hash >> 64) as u64)
    }

    /// The slot where the key is, or would be.
    fn slot(&self, (low, high): (u64, u64)) -> usize {
        let slots = self.slots.len();
        // The product's high half: a remainder without a division.
        let mut at = ((u128::from(low) * slots as u128) >> 64) as usize;
        loop {
            let slot = &self.slots[at];
            if slot[2] == 0 || (slot[0] == low && slot[1] == high) {
                return at;
            }
            at = if at + 1 == slots { 0 } else { at + 1 };
        }
    }

    /// Takes note of a key's newest offset; `false` when the map is full and does not know the key.
    pub(super) fn put(&mut self, key: &[u8], offset: Offset) -> bool {
        let hash = self.hash(key);
        let at = self.slot(hash);
        if self.slots[at][2] == 0 {
            if self.used == self.used_max {
                return false;
            }
            self.used += 1;
        }
        self.slots[at] = [hash.0, hash.1, offset as u64 + 1];
        true
    }

    /// The newest offset of a key.
    pub(super) fn get(&self, key: &[u8]) -> Option<Offset> {
        let slot = &self.slots[self.slot(self.hash(key))];
        (slot[2] != 0).then(|| slot[2] as i64 - 1)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_knows_what_a_table_knows_until_it_is_full(
            keys in proptest::collection::vec(0u16..300, 0..600),
            slots in 2u64..400,
            seed: u64,
        ) {
            let mut map = OffsetMap::new(slots * SLOT_BYTES, 0.9, u64::MAX / 4, seed);
            prop_assert_eq!(map.bytes(), slots * SLOT_BYTES);
            let room = ((slots as f64 * 0.9) as usize).clamp(1, slots as usize - 1);
            let mut table = HashMap::new();
            for (offset, key) in keys.iter().enumerate() {
                let bytes = key.to_le_bytes();
                let fits = table.contains_key(key) || table.len() < room;
                prop_assert_eq!(map.put(&bytes, offset as i64), fits);
                if fits {
                    table.insert(*key, offset as i64);
                }
            }
            prop_assert_eq!(map.len(), table.len());
            for key in 0u16..300 {
                prop_assert_eq!(map.get(&key.to_le_bytes()), table.get(&key).copied());
            }
        }
    }

    #[test]
    fn it_takes_no_more_memory_than_its_keys_need() {
        let map = OffsetMap::new(1 << 30, 0.9, 90, 7);
        assert!(map.bytes() <= 102 * SLOT_BYTES);
        let mut smallest = OffsetMap::new(0, 0.9, 90, 7);
        assert!(smallest.put(b"one", 0), "one key always fits");
        assert!(!smallest.put(b"two", 1));
        assert!(smallest.put(b"one", 2), "a known key is no news");
        assert_eq!((smallest.get(b"one"), smallest.get(b"two")), (Some(2), None));
    }

    #[test]
    fn empty_keys_are_keys() {
        let mut map = OffsetMap::new(1 << 10, 0.9, 10, 7);
        assert_eq!(map.get(b""), None);
        assert!(map.put(b"", 0));
        assert_eq!(map.get(b""), Some(0));
    }
}
