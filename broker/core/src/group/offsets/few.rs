//! A map that takes no more than its entries while it is small.
//!
//! Most groups have offsets of one topic, many of one partition. A node of a `BTreeMap` has room for eleven entries: for one
//! offset it would take a kilobyte.

use std::borrow::Borrow;
use std::collections::{BTreeMap, btree_map};
use std::ops::Bound;
use std::slice;

/// From so many entries on, what a sorted list moves at an insertion is more than a tree costs.
const LIST_MAX: usize = 1_024;

/// A sorted list that becomes a tree when it grows.
#[derive(Clone, Debug)]
pub(super) enum Few<K, V> {
    List(Vec<(K, V)>),
    Tree(BTreeMap<K, V>),
}

impl<K, V> Default for Few<K, V> {
    fn default() -> Self {
        Self::List(Vec::new())
    }
}

impl<K: Ord, V> Few<K, V> {
    fn place<Q: Ord + ?Sized>(list: &[(K, V)], key: &Q) -> Result<usize, usize>
    where
        K: Borrow<Q>,
    {
        list.binary_search_by(|(other, _)| other.borrow().cmp(key))
    }

    pub(super) fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        match self {
            Self::List(list) => Self::place(list, key).ok().map(|place| &list[place].1),
            Self::Tree(tree) => tree.get(key),
        }
    }

    pub(super) fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        match self {
            Self::List(list) => match Self::place(list, key) {
                Ok(place) => Some(&mut list[place].1),
                Err(_) => None,
            },
            Self::Tree(tree) => tree.get_mut(key),
        }
    }

    /// Enters a value; the one that was there.
    pub(super) fn insert(&mut self, key: K, value: V) -> Option<V> {
        match self {
            Self::Tree(tree) => return tree.insert(key, value),
            Self::List(list) => match Self::place(list, &key) {
                Ok(place) => return Some(std::mem::replace(&mut list[place].1, value)),
                Err(place) if list.len() < LIST_MAX => {
                    if list.len() == list.capacity() {
                        list.reserve_exact(1 + list.len() / 4);
                    }
                    list.insert(place, (key, value));
                    return None;
                }
                Err(_) => {}
            },
        }
        let Self::List(list) = std::mem::take(self) else {
            return None;
        };
        let mut tree: BTreeMap<K, V> = list.into_iter().collect();
        tree.insert(key, value);
        *self = Self::Tree(tree);
        None
    }

    pub(super) fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        match self {
            Self::List(list) => Self::place(list, key).ok().map(|place| list.remove(place).1),
            Self::Tree(tree) => tree.remove(key),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        match self {
            Self::List(list) => list.is_empty(),
            Self::Tree(tree) => tree.is_empty(),
        }
    }

    /// The entries in order.
    pub(super) fn iter(&self) -> Iter<'_, K, V> {
        match self {
            Self::List(list) => Iter::List(list.iter()),
            Self::Tree(tree) => Iter::Tree(tree.range::<K, _>(..)),
        }
    }

    /// The entries from a key on, in order.
    pub(super) fn from<Q: Ord + ?Sized>(&self, start: Bound<&Q>) -> Iter<'_, K, V>
    where
        K: Borrow<Q>,
    {
        match self {
            Self::List(list) => {
                let first = match start {
                    Bound::Included(key) => list.partition_point(|(other, _)| other.borrow() < key),
                    Bound::Excluded(key) => list.partition_point(|(other, _)| other.borrow() <= key),
                    Bound::Unbounded => 0,
                };
                Iter::List(list[first..].iter())
            }
            Self::Tree(tree) => Iter::Tree(tree.range::<Q, _>((start, Bound::Unbounded))),
        }
    }

    /// What it has allocated for its entries, in bytes; a tree about, as its nodes are half empty after insertions in order.
    pub(super) fn bytes(&self) -> usize {
        let entries = match self {
            Self::List(list) => list.capacity(),
            Self::Tree(tree) => 2 * tree.len(),
        };
        entries * size_of::<(K, V)>()
    }
}

/// The entries of a [`Few`].
pub(super) enum Iter<'a, K, V> {
    List(slice::Iter<'a, (K, V)>),
    Tree(btree_map::Range<'a, K, V>),
}

impl<'a, K, V> Iterator for Iter<'a, K, V> {
    type Item = (&'a K, &'a V);

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Self::List(list) => list.next().map(|(key, value)| (key, value)),
            Self::Tree(tree) => tree.next(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same answers on both sides of the growth, whatever the order of insertions.
    #[test]
    fn a_list_that_becomes_a_tree_is_the_same_map() {
        let count = LIST_MAX as i32 + 100;
        let mut few = Few::default();
        for number in 0..count {
            // Every number once, in an order of its own: 7 divides no such count.
            let key = number * 7 % count;
            assert_eq!(few.insert(key, -key), None);
            assert_eq!((few.get(&key), few.get(&count)), (Some(&-key), None));
            assert_eq!(matches!(few, Few::Tree(_)), number as usize >= LIST_MAX);
        }
        assert_ne!(count % 7, 0);
        assert!(few.iter().map(|(key, _)| *key).eq(0..count));
        assert!(
            few.from(Bound::Included(&1_000))
                .map(|(key, _)| *key)
                .eq(1_000..count)
        );
        assert_eq!(few.insert(5, 5), Some(-5));
        for key in 0..count {
            assert!(few.remove(&key).is_some());
            assert!(
                few.from(Bound::Excluded(&key))
                    .map(|(key, _)| *key)
                    .eq(key + 1..count)
            );
        }
        assert!(few.is_empty());
    }

    #[test]
    fn a_small_one_takes_little_more_than_its_entries() {
        let mut few = Few::default();
        for (count, most) in [(1, 1), (2, 2), (10, 12), (1_000, 1_250)] {
            while few.iter().count() < count {
                few.insert(few.iter().count() as u64, 0_u64);
            }
            assert!(few.bytes() <= most * 16, "{count}: {}", few.bytes());
        }
        let from_2: Vec<_> = few.from(Bound::Included(&997)).map(|(key, _)| *key).collect();
        assert_eq!(from_2, [997, 998, 999]);
        assert_eq!(few.from(Bound::Excluded(&997)).count(), 2);
    }
}
