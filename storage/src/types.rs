//! The numbers that name things. A mix-up of any two of them would lose data, hence one type each.

use std::fmt;

use uuid::Uuid;

/// The position of a record in its partition. Plain, because every Kafka message carries it so.
pub type Offset = i64;

/// A partition, by its topic's id: a topic that is created again under an old name is another topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicPartitionId {
    /// The topic's id.
    pub topic_id: Uuid,
    /// The partition's index.
    pub partition: u32,
}

impl fmt::Display for TopicPartitionId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}-{}", self.topic_id, self.partition)
    }
}

/// One life of a replica on this shard: drawn at its creation, never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogId(pub u64);

/// The place of an entry in the shard's journal; entries of one shard never share one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sequence(pub u64);

impl Sequence {
    /// The entry after this one.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for LogId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl fmt::Display for Sequence {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}
