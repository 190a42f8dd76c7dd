//! The committed offsets of the groups of one partition of `__consumer_offsets`.

use std::collections::HashMap;
use std::ops::Bound;
use std::rc::Rc;

use strandline_wire::Uuid;

use super::few::Few;

/// What an allocation takes beside what was asked for, about.
const ALLOCATION_BYTES: usize = 16;
/// A group's place in the table, of which up to half is free, and the allocations of its name and its topics.
const GROUP_BYTES: usize = 2 * size_of::<(Box<str>, Topics)>() + 2 * ALLOCATION_BYTES;

/// A committed offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommittedOffset {
    /// The next record to read.
    pub offset: i64,
    /// The leader epoch of the last record that was read, -1 if unknown.
    pub leader_epoch: i32,
    /// What the client keeps with it.
    pub metadata: Box<str>,
    /// When it was committed, in milliseconds since 1970.
    pub commit_timestamp_ms: i64,
    /// When it expires, if the commit said so (requests of versions 2 to 4).
    pub expire_timestamp_ms: Option<i64>,
    /// The topic's id; nil if the record has none.
    pub topic_id: Uuid,
}

/// Since when an offset counts as unused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpiryBase {
    /// Since it was committed.
    Commit,
    /// Since this moment, in milliseconds since 1970: when the group became empty.
    Moment(i64),
    /// It does not expire.
    Never,
}

type Partitions = Few<i32, CommittedOffset>;
type Topics = Few<Rc<str>, Partitions>;

/// The committed offsets of many groups.
#[derive(Debug, Default)]
pub struct OffsetStore {
    groups: HashMap<Box<str>, Topics>,
    /// Most groups read the same topics: their names are kept once.
    names: HashMap<Rc<str>, usize>,
    count: usize,
    bytes: usize,
}

impl CommittedOffset {
    /// Whether it is of another topic that had the same name before.
    pub fn is_of_other_topic(&self, topic_id: Uuid) -> bool {
        !self.topic_id.is_nil() && !topic_id.is_nil() && self.topic_id != topic_id
    }

    fn is_expired(&self, base: ExpiryBase, now_ms: i64, retention_ms: i64) -> bool {
        if base == ExpiryBase::Never {
            return false;
        }
        if let Some(at) = self.expire_timestamp_ms {
            return now_ms >= at;
        }
        let since = match base {
            ExpiryBase::Moment(moment) => moment,
            _ => self.commit_timestamp_ms,
        };
        now_ms.saturating_sub(since) >= retention_ms
    }

    /// What it takes beside its place.
    fn bytes(&self) -> usize {
        match self.metadata.len() {
            0 => 0,
            length => length + ALLOCATION_BYTES,
        }
    }
}

impl OffsetStore {
    /// Keeps an offset.
    pub fn put(&mut self, group: &str, topic: &str, partition: i32, value: CommittedOffset) {
        if !self.groups.contains_key(group) {
            self.bytes += group.len() + GROUP_BYTES;
            self.groups.insert(group.into(), Topics::default());
        }
        let Some(topics) = self.groups.get_mut(group) else {
            return;
        };
        if topics.get(topic).is_none() {
            let name: Rc<str> = match self.names.get_key_value(topic) {
                Some((name, _)) => name.clone(),
                None => Rc::from(topic),
            };
            *self.names.entry(name.clone()).or_default() += 1;
            let before = topics.bytes();
            topics.insert(name, Partitions::default());
            self.bytes = self.bytes + topics.bytes() + ALLOCATION_BYTES - before;
        }
        let Some(partitions) = topics.get_mut(topic) else {
            return;
        };
        let before = partitions.bytes();
        self.bytes += value.bytes();
        self.count += 1;
        if let Some(before) = partitions.insert(partition, value) {
            self.bytes -= before.bytes();
            self.count -= 1;
        }
        self.bytes = self.bytes + partitions.bytes() - before;
    }

    /// Forgets an offset.
    pub fn remove(&mut self, group: &str, topic: &str, partition: i32) -> Option<CommittedOffset> {
        let topics = self.groups.get_mut(group)?;
        let partitions = topics.get_mut(topic)?;
        let before = partitions.bytes();
        let removed = partitions.remove(&partition)?;
        self.count -= 1;
        if !partitions.is_empty() {
            self.bytes = self.bytes + partitions.bytes() - before - removed.bytes();
            return Some(removed);
        }
        let before = before + topics.bytes();
        topics.remove(topic);
        self.bytes = self.bytes + topics.bytes() - before - removed.bytes() - ALLOCATION_BYTES;
        if let Some(uses) = self.names.get_mut(topic) {
            *uses -= 1;
            if *uses == 0 {
                self.names.remove(topic);
            }
        }
        if topics.is_empty() {
            self.bytes -= topics.bytes() + group.len() + GROUP_BYTES;
            self.groups.remove(group);
        }
        Some(removed)
    }

    /// An offset.
    pub fn get(&self, group: &str, topic: &str, partition: i32) -> Option<&CommittedOffset> {
        self.groups.get(group)?.get(topic)?.get(&partition)
    }

    /// Every offset of a group, by topic.
    pub fn of_group(&self, group: &str) -> impl Iterator<Item = (&str, i32, &CommittedOffset)> {
        let topics = self.groups.get(group).into_iter().flat_map(Few::iter);
        topics.flat_map(|(topic, partitions)| {
            partitions
                .iter()
                .map(move |(partition, offset)| (&**topic, *partition, offset))
        })
    }

    /// The offsets of a group behind a topic's partition, or all: for a walk that is interrupted, whatever comes and goes
    /// meanwhile.
    pub fn of_group_behind(
        &self,
        group: &str,
        at: Option<(&str, i32)>,
    ) -> impl Iterator<Item = (&Rc<str>, i32, &CommittedOffset)> {
        let from = at.map_or(Bound::Unbounded, |(topic, _)| Bound::Included(topic));
        let topics = self.groups.get(group).into_iter();
        let topics = topics.flat_map(move |topics| topics.from::<str>(from));
        topics.flat_map(move |(topic, partitions)| {
            let behind = match at {
                Some((name, ref partition)) if name == &**topic => Bound::Excluded(partition),
                _ => Bound::Unbounded,
            };
            let partitions = partitions.from(behind);
            partitions.map(move |(partition, offset)| (topic, *partition, offset))
        })
    }

    /// Whether a group has offsets.
    pub fn has_group(&self, group: &str) -> bool {
        self.groups.contains_key(group)
    }

    /// The groups that have offsets, in no order.
    pub fn groups(&self) -> impl Iterator<Item = &str> {
        self.groups.keys().map(|group| &**group)
    }

    /// Whether some group has offsets of a topic of this name.
    pub fn knows_topic(&self, topic: &str) -> bool {
        self.names.contains_key(topic)
    }

    /// The offsets of a group that have expired, and whether these are all it has. `subscribed` says of a topic whether
    /// members read it: its offsets stay.
    pub fn expired(
        &self,
        group: &str,
        base: ExpiryBase,
        subscribed: impl Fn(&str) -> bool,
        now_ms: i64,
        retention_ms: i64,
    ) -> (Vec<(String, i32)>, bool) {
        let mut expired = Vec::new();
        let mut all = true;
        for (topic, partition, offset) in self.of_group(group) {
            if !subscribed(topic) && offset.is_expired(base, now_ms, retention_ms) {
                expired.push((topic.to_owned(), partition));
            } else {
                all = false;
            }
        }
        (expired, all)
    }

    /// How many offsets there are.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// About what they take in memory.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}
