//! The consumers' own protocol inside the classic one: the subscription that a JoinGroup carries, and the assignment that a
//! SyncGroup answers (`ConsumerProtocolSubscription`, `ConsumerProtocolAssignment`; versions 0 to 3, later ones read as 3).

use std::collections::BTreeSet;
use std::rc::Rc;

use bytes::{BufMut, Bytes, BytesMut};
use strandline_wire::WireError;
use strandline_wire::primitives::{Reader, WriteExt};

use super::assignment::Assignment;
use super::topics::TopicImage;

/// These schemas have no flexible versions.
const FLEXIBLE: bool = false;
const OWNED_PARTITIONS_VERSION: i16 = 1;
const GENERATION_VERSION: i16 = 2;
const RACK_VERSION: i16 = 3;
const VERSION_MAX: i16 = 3;

/// A topic's name with partitions of it.
pub(super) type NamedPartitions = (Rc<str>, Vec<i32>);

/// What a consumer subscribes to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Subscription {
    pub(super) version: i16,
    pub(super) topics: BTreeSet<Rc<str>>,
    /// Empty for members that give up everything before they join.
    pub(super) owned: Vec<NamedPartitions>,
    pub(super) rack_id: Option<Rc<str>>,
}

/// What a leader assigned to a consumer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Assigned {
    pub(super) partitions: Vec<NamedPartitions>,
    /// Whether the leader's assignor added something of its own, which would be lost.
    pub(super) has_user_data: bool,
}

fn version(bytes: &mut Reader<'_>) -> Result<i16, WireError> {
    let version = bytes.i16("version")?;
    if version < 0 {
        return Err(WireError::NotNullable { field: "version" });
    }
    Ok(version.min(VERSION_MAX))
}

impl Subscription {
    pub(super) fn read(bytes: &[u8]) -> Result<Self, WireError> {
        let bytes = &mut Reader::new(bytes);
        let version = version(bytes)?;
        let topics = (0..bytes.array(FLEXIBLE, 2, "topics")?)
            .map(|_| bytes.string(FLEXIBLE, "topic").map(Rc::from))
            .collect::<Result<_, _>>()?;
        bytes.nullable_bytes(FLEXIBLE, "user_data")?;
        let mut subscription = Self {
            version,
            topics,
            ..Self::default()
        };
        if version >= OWNED_PARTITIONS_VERSION {
            subscription.owned = read_partitions(bytes)?;
        }
        if version >= GENERATION_VERSION {
            bytes.i32("generation_id")?;
        }
        if version >= RACK_VERSION {
            subscription.rack_id = bytes.nullable_string(FLEXIBLE, "rack_id")?.map(Rc::from);
        }
        Ok(subscription)
    }
}

impl Assigned {
    /// A member that never got an assignment has no bytes.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, WireError> {
        if bytes.is_empty() {
            return Ok(Self::default());
        }
        let bytes = &mut Reader::new(bytes);
        version(bytes)?;
        let partitions = read_partitions(bytes)?;
        let user_data = bytes.nullable_bytes(FLEXIBLE, "user_data")?;
        Ok(Self {
            partitions,
            has_user_data: user_data.is_some_and(|data| !data.is_empty()),
        })
    }
}

/// The assignment as a consumer of this version reads it; topics that are gone are left out.
pub(super) fn write_assignment(version: i16, assignment: &Assignment, image: &dyn TopicImage) -> Bytes {
    let topics = assignment.topics();
    let named: Vec<_> = topics
        .filter_map(|(topic, partitions)| Some((image.topic_name(topic)?, partitions)))
        .collect();
    let mut bytes = BytesMut::new();
    bytes.put_i16(version);
    bytes.put_length(FLEXIBLE, Some(named.len()));
    for (name, partitions) in named {
        bytes.put_string(FLEXIBLE, name);
        bytes.put_length(FLEXIBLE, Some(partitions.len()));
        for partition in partitions {
            bytes.put_i32(*partition);
        }
    }
    bytes.put_length(FLEXIBLE, None);
    bytes.freeze()
}

/// Partitions by topic name as partitions by topic id; topics that do not exist are left out.
pub(super) fn by_id(partitions: &[NamedPartitions], image: &dyn TopicImage) -> Assignment {
    partitions
        .iter()
        .filter_map(|(name, partitions)| Some((image.topic(name)?.id, partitions)))
        .flat_map(|(topic, partitions)| partitions.iter().map(move |partition| (topic, *partition)))
        .collect()
}

fn read_partitions(bytes: &mut Reader<'_>) -> Result<Vec<NamedPartitions>, WireError> {
    let mut topics = Vec::new();
    for _ in 0..bytes.array(FLEXIBLE, 6, "partitions")? {
        let name = bytes.string(FLEXIBLE, "topic")?.into();
        let partitions = (0..bytes.array(FLEXIBLE, 4, "partitions")?)
            .map(|_| bytes.i32("partition"))
            .collect::<Result<_, _>>()?;
        topics.push((name, partitions));
    }
    Ok(topics)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Topics, assignment};
    use super::*;

    #[test]
    fn subscriptions_of_every_version() {
        // Version; one topic; user data of one byte; owned partitions; generation; rack.
        let all = b"\x00\x03\0\0\0\x01\0\x01t\0\0\0\x01x\0\0\0\x01\0\x01t\0\0\0\x02\0\0\0\0\0\0\0\x01\0\0\0\x09\0\x01r";
        let read = |version: u8, length: usize| {
            let mut bytes = all[..length].to_vec();
            bytes[1] = version;
            Subscription::read(&bytes)
        };
        let topics: BTreeSet<Rc<str>> = ["t".into()].into();
        let owned = vec![("t".into(), vec![0, 1])];
        let zero = read(0, 14).unwrap();
        assert_eq!((&zero.topics, zero.owned.len()), (&topics, 0));
        let one = read(1, 33).unwrap();
        assert_eq!((one.version, &one.owned, &one.rack_id), (1, &owned, &None));
        assert_eq!(read(2, 37).unwrap().owned, owned);
        let later = read(9, all.len()).unwrap();
        assert_eq!((later.version, later.rack_id.as_deref()), (3, Some("r")));
        assert!(read(3, all.len() - 1).is_err());
        assert!(Subscription::read(b"\xff\xff").is_err() && Subscription::read(b"").is_err());
    }

    #[test]
    fn assignments_go_both_ways_by_name() {
        let topics = Topics::new(&[("t", 2)]);
        let gone = strandline_wire::Uuid::from_u128(99);
        let owned = assignment(&[(topics.id("t"), &[0, 1]), (gone, &[5])]);
        let bytes = write_assignment(1, &owned, &topics);
        assert_eq!(
            &bytes[..],
            b"\0\x01\0\0\0\x01\0\x01t\0\0\0\x02\0\0\0\0\0\0\0\x01\xff\xff\xff\xff"
        );
        let assigned = Assigned::read(&bytes).unwrap();
        assert!(!assigned.has_user_data);
        assert_eq!(
            by_id(&assigned.partitions, &topics),
            assignment(&[(topics.id("t"), &[0, 1])])
        );
        assert_eq!(Assigned::read(b""), Ok(Assigned::default()));
        let with_data = [&bytes[..bytes.len() - 4], b"\0\0\0\x01x"].concat();
        assert!(Assigned::read(&with_data).unwrap().has_user_data);
    }
}
