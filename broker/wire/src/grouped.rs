//! Items grouped by a key, in two flat vectors: how Produce and Fetch nest partitions in topics.
//!
//! The wire nests an array in an array. A vector for each topic would cost an allocation for each topic, so the
//! partitions of all topics stand in one vector, and each topic knows where its own end.

/// Groups of items, flat: two allocations whatever the number of groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grouped<K, T> {
    groups: Vec<(K, usize)>,
    items: Vec<T>,
}

impl<K, T> Default for Grouped<K, T> {
    fn default() -> Self {
        Grouped {
            groups: Vec::new(),
            items: Vec::new(),
        }
    }
}

impl<K, T> Grouped<K, T> {
    /// No groups.
    pub fn new() -> Self {
        Self::default()
    }

    /// No groups, with room.
    pub fn with_capacity(groups: usize, items: usize) -> Self {
        Grouped {
            groups: Vec::with_capacity(groups),
            items: Vec::with_capacity(items),
        }
    }

    /// The bytes of one group in memory, without its items.
    pub const GROUP_BYTES: usize = size_of::<(K, usize)>();
    /// The bytes of one item in memory.
    pub const ITEM_BYTES: usize = size_of::<T>();

    /// Starts the next group; [`Grouped::push`] fills it. A group may stay empty.
    pub fn begin(&mut self, key: K) {
        self.groups.push((key, self.items.len()));
    }

    /// Adds an item to the last group. Without a group before it the item belongs to none and is dropped.
    pub fn push(&mut self, item: T) {
        if let Some((_, end)) = self.groups.last_mut() {
            self.items.push(item);
            *end = self.items.len();
        }
    }

    /// The groups in order, each with its items.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&K, &[T])> {
        let mut start = 0;
        self.groups.iter().map(move |(key, end)| {
            let items = &self.items[start..*end];
            start = *end;
            (key, items)
        })
    }

    /// Every item with the key of its group, in order.
    pub fn flat(&self) -> impl Iterator<Item = (&K, &T)> {
        self.iter()
            .flat_map(|(key, items)| items.iter().map(move |item| (key, item)))
    }

    /// All items in order, without their keys.
    pub fn items(&self) -> &[T] {
        &self.items
    }

    /// All items in order, to be changed in place.
    pub fn items_mut(&mut self) -> &mut [T] {
        &mut self.items
    }

    /// The number of groups.
    pub fn group_count(&self) -> usize {
        self.groups.len()
    }

    /// The number of items in all groups.
    pub fn item_count(&self) -> usize {
        self.items.len()
    }

    /// True when there is no group.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Forgets everything but keeps the memory.
    pub fn clear(&mut self) {
        self.groups.clear();
        self.items.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_keep_their_own_items_and_may_be_empty() {
        let mut grouped = Grouped::new();
        grouped.push(9); // belongs to no group
        grouped.begin("a");
        grouped.push(1);
        grouped.push(2);
        grouped.begin("b");
        grouped.begin("c");
        grouped.push(3);
        let seen: Vec<_> = grouped
            .iter()
            .map(|(key, items)| (*key, items.to_vec()))
            .collect();
        assert_eq!(seen, [("a", vec![1, 2]), ("b", vec![]), ("c", vec![3])]);
        let flat: Vec<_> = grouped.flat().map(|(key, item)| (*key, *item)).collect();
        assert_eq!(flat, [("a", 1), ("a", 2), ("c", 3)]);
    }
}
