//! The topics as a group sees them.

use std::collections::BTreeSet;
use std::rc::Rc;

use strandline_wire::Uuid;
use xxhash_rust::xxh3::Xxh3;

use crate::metadata::ClusterImage;

/// A topic as far as a group cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopicInfo {
    /// Its id; a topic that was deleted and made again has another.
    pub id: Uuid,
    /// How many partitions it has.
    pub partitions: i32,
}

/// The topics that a heartbeat may see, at one moment.
pub trait TopicImage {
    /// Another number for every other content, and never a lower one.
    fn version(&self) -> i64;
    /// A topic by name.
    fn topic(&self, name: &str) -> Option<TopicInfo>;
    /// The name of a topic.
    fn topic_name(&self, id: Uuid) -> Option<&str>;
    /// Visits the name of every topic that a regular expression may match: those that the member who sent it may
    /// describe.
    fn for_each_name(&self, visit: &mut dyn FnMut(&str));
}

impl TopicImage for ClusterImage {
    fn version(&self) -> i64 {
        self.offset().0 as i64
    }

    fn topic(&self, name: &str) -> Option<TopicInfo> {
        self.topic_by_name(name).map(|topic| TopicInfo {
            id: topic.id,
            partitions: topic.partitions.len() as i32,
        })
    }

    fn topic_name(&self, id: Uuid) -> Option<&str> {
        ClusterImage::topic(self, id).map(|topic| topic.name.as_str())
    }

    fn for_each_name(&self, visit: &mut dyn FnMut(&str)) {
        for topic in self.topics_by_name() {
            visit(&topic.name);
        }
    }
}

/// A hash of the named topics that exist: another one means that the assignment must be computed again. 0 for none.
///
/// Racks are left out, unlike in Kafka: no assignor looks at them, and a replica that moves between the shards of a
/// cluster would start a rebalance that changes nothing.
pub(super) fn metadata_hash(names: &BTreeSet<Rc<str>>, image: &dyn TopicImage) -> i64 {
    let mut hash = Xxh3::new();
    let mut any = false;
    for name in names {
        let Some(topic) = image.topic(name) else {
            continue;
        };
        any = true;
        hash.update(&(name.len() as u32).to_be_bytes());
        hash.update(name.as_bytes());
        hash.update(topic.id.as_bytes());
        hash.update(&topic.partitions.to_be_bytes());
    }
    if any { hash.digest() as i64 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Topics;
    use super::*;

    #[test]
    fn the_hash_sees_ids_and_partition_counts_of_the_named_topics_alone() {
        let names: BTreeSet<Rc<str>> = ["a".into(), "b".into(), "missing".into()].into();
        let hash = |topics: &Topics| metadata_hash(&names, topics);
        let mut topics = Topics::default();
        assert_eq!(hash(&topics), 0);
        topics.create("a", 3);
        let one = hash(&topics);
        topics.create("other", 1);
        assert_eq!(hash(&topics), one);
        topics.create("b", 2);
        let two = hash(&topics);
        topics.grow("b", 3);
        let grown = hash(&topics);
        topics.delete("a");
        topics.create("a", 3);
        let again = hash(&topics);
        let all: BTreeSet<i64> = [0, one, two, grown, again].into();
        assert_eq!(all.len(), 5);
    }
}
