//! What a scrape shows of the groups: copies, in slices, so that no request waits behind it.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::rc::Rc;
use std::sync::Arc;

use strandline_core::group::offsets::OffsetStore;
use strandline_core::metadata::{ClusterImage, Topic};
use strandline_runtime::Runtime;
use strandline_storage::disk::Disk;

use super::coordinator::Group;
use crate::node::report::{GroupReport, GroupsReport, OffsetReport};
use crate::shard::Shard;

/// Groups and offsets looked at between two looks at what else is ready.
const SLICE: usize = 256;
/// What the names in a report take at most. Each may have 32 kB.
const NAMES_BYTES_MAX: usize = 8 << 20;

/// A group's type and state, as ListGroups names them.
type Kind = (&'static str, &'static str);

/// Copies the groups that are served here.
pub(crate) async fn report<R: Runtime, D: Disk>(shard: &Shard<R, D>) -> GroupsReport {
    let mut found = Found::new(shard.groups.settings.metrics_partitions_max);
    for coordinator in shard.groups.all() {
        let mut walk = Walk::default();
        // One that is being replayed, or that ended meanwhile, tells nothing.
        while coordinator.check().is_ok() {
            let is_done = {
                let (groups, offsets) = (coordinator.groups.borrow(), coordinator.offsets.borrow());
                let kind = |group: &Group| (group.machine.type_name(), group.machine.state_name());
                walk.slice(&groups, kind, &offsets, &shard.image(), &mut found)
            };
            if is_done {
                break;
            }
            shard.runtime.yield_now().await;
        }
    }
    found.report
}

/// A report being made, and what it still has room for.
struct Found {
    report: GroupsReport,
    offsets_left: usize,
    name_bytes_left: usize,
    /// Whose offsets come last in the report.
    last: Option<Rc<str>>,
}

impl Found {
    fn new(offsets_max: usize) -> Self {
        Self {
            report: GroupsReport::default(),
            offsets_left: offsets_max,
            name_bytes_left: NAMES_BYTES_MAX,
            last: None,
        }
    }

    fn offset(&mut self, group: &Rc<str>, offset: OffsetReport) {
        let is_last = self.last.as_ref().is_some_and(|last| Rc::ptr_eq(last, group));
        let name_bytes = if is_last { 0 } else { group.len() };
        if self.offsets_left == 0 || self.name_bytes_left < name_bytes {
            self.report.left_out += 1;
            return;
        }
        self.offsets_left -= 1;
        self.name_bytes_left -= name_bytes;
        match self.report.groups.last_mut() {
            Some(group) if is_last => group.offsets.push(offset),
            _ => {
                self.last = Some(group.clone());
                self.report.groups.push(GroupReport {
                    group: group.to_string(),
                    offsets: vec![offset],
                });
            }
        }
    }
}

/// How far the groups of one partition are copied. They may change between slices: what comes next is looked for by name.
#[derive(Default)]
struct Walk {
    /// The last group begun.
    group: Option<Rc<str>>,
    /// The last offset of it that was looked at, while there may be more.
    inside: Option<(Rc<str>, i32)>,
}

impl Walk {
    /// Copies some more; true when nothing is left.
    fn slice<G>(
        &mut self,
        groups: &BTreeMap<Rc<str>, G>,
        kind: impl Fn(&G) -> Kind,
        offsets: &OffsetStore,
        image: &ClusterImage,
        found: &mut Found,
    ) -> bool {
        let mut left = SLICE;
        if let (Some(group), Some(at)) = (self.group.clone(), self.inside.take())
            && !self.offsets_of(&group, Some(at), offsets, image, found, &mut left)
        {
            return false;
        }
        let behind = self.group.clone();
        let behind = behind.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        for (name, group) in groups.range::<str, _>((behind, Bound::Unbounded)) {
            if left == 0 {
                return false;
            }
            left -= 1;
            self.group = Some(name.clone());
            *found.report.states.entry(kind(group)).or_default() += 1;
            if !self.offsets_of(name, None, offsets, image, found, &mut left) {
                return false;
            }
        }
        true
    }

    /// Copies the offsets of a group that are behind `at`; false if the slice ended meanwhile.
    fn offsets_of(
        &mut self,
        group: &Rc<str>,
        at: Option<(Rc<str>, i32)>,
        offsets: &OffsetStore,
        image: &ClusterImage,
        found: &mut Found,
        left: &mut usize,
    ) -> bool {
        let at = at.as_ref().map(|(topic, partition)| (&**topic, *partition));
        let mut known: Option<(&Rc<str>, Option<&Arc<Topic>>)> = None;
        for (name, number, offset) in offsets.of_group_behind(group, at) {
            let topic = match known {
                Some((last, topic)) if Rc::ptr_eq(last, name) => topic,
                _ => image.topic_by_name(name),
            };
            known = Some((name, topic));
            // One of a topic that is gone goes soon.
            if let (Some(topic), Ok(partition)) = (topic, u32::try_from(number))
                && !offset.is_of_other_topic(topic.id)
            {
                let copied = OffsetReport {
                    topic_id: topic.id,
                    partition,
                    committed: offset.offset,
                };
                found.offset(group, copied);
            }
            *left = left.saturating_sub(1);
            if *left == 0 {
                self.inside = Some((name.clone(), number));
                return false;
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use strandline_core::group::offsets::CommittedOffset;
    use strandline_core::metadata::{Command, NewTopic, PartitionLayout};
    use strandline_wire::Uuid;

    use super::*;
    use crate::admin::tests::serving;

    const TOPICS: u128 = 3;

    /// Topics t1 to t3, whose ids are their numbers.
    fn image() -> ClusterImage {
        let mut image = serving(1);
        let topics = (1..=TOPICS).map(|number| NewTopic {
            name: format!("t{number}"),
            id: Uuid::from_u128(number),
            layout: PartitionLayout::Automatic {
                partitions: 1,
                replication_factor: 1,
            },
            configs: BTreeMap::new(),
        });
        image.apply(&Command::CreateTopics {
            topics: topics.collect(),
        });
        image
    }

    fn committed(offset: i64, topic: u128) -> CommittedOffset {
        CommittedOffset {
            offset,
            leader_epoch: -1,
            metadata: "".into(),
            commit_timestamp_ms: 0,
            expire_timestamp_ms: None,
            topic_id: Uuid::from_u128(topic),
        }
    }

    const EMPTY: Kind = ("classic", "Empty");
    const STABLE: Kind = ("consumer", "Stable");

    fn groups(count: usize) -> BTreeMap<Rc<str>, Kind> {
        let kind = |number| if number % 2 == 0 { STABLE } else { EMPTY };
        (0..count)
            .map(|number| (format!("g{number:05}").into(), kind(number)))
            .collect()
    }

    /// Walks to the end; how many slices that took.
    fn walk(groups: &BTreeMap<Rc<str>, Kind>, offsets: &OffsetStore, found: &mut Found) -> usize {
        let (image, mut walk) = (image(), Walk::default());
        (1..)
            .find(|_| walk.slice(groups, |kind| *kind, offsets, &image, found))
            .unwrap()
    }

    #[test]
    fn every_offset_is_copied_once_in_short_slices() {
        let mut offsets = OffsetStore::default();
        let groups = groups(600);
        // One group of many offsets, many groups of one, and some of none.
        for topic in 1..=TOPICS {
            for partition in 0..500 {
                offsets.put(
                    "g00100",
                    &format!("t{topic}"),
                    partition,
                    committed(i64::from(partition), topic),
                );
            }
        }
        for name in groups.keys().skip(200) {
            offsets.put(name, "t1", 7, committed(9, 1));
        }
        let mut found = Found::new(usize::MAX);
        let slices = walk(&groups, &offsets, &mut found);
        let work = groups.len() + offsets.len();
        assert!(slices >= work / SLICE && slices <= work / SLICE + 2, "{slices}");
        let report = found.report;
        assert_eq!(report.states, BTreeMap::from([(EMPTY, 300), (STABLE, 300)]));
        assert_eq!((report.groups.len(), report.left_out), (401, 0));
        let large = &report.groups[0];
        assert_eq!(large.group, "g00100");
        let places: BTreeSet<_> = large
            .offsets
            .iter()
            .map(|at| (at.topic_id, at.partition))
            .collect();
        assert_eq!((large.offsets.len(), places.len()), (1500, 1500));
        assert!(
            large
                .offsets
                .iter()
                .all(|at| at.committed == i64::from(at.partition))
        );
        assert!(report.groups[1..].iter().all(|group| group.offsets.len() == 1));
    }

    #[test]
    fn offsets_of_topics_that_are_gone_are_not_told() {
        let mut offsets = OffsetStore::default();
        offsets.put("g00000", "gone", 0, committed(1, 9));
        // Of an earlier topic of the name.
        offsets.put("g00000", "t1", 0, committed(1, 8));
        offsets.put("g00000", "t2", 0, committed(1, 0));
        let mut found = Found::new(usize::MAX);
        walk(&groups(1), &offsets, &mut found);
        let told: Vec<_> = found.report.groups[0]
            .offsets
            .iter()
            .map(|at| at.topic_id.as_u128())
            .collect();
        assert_eq!(told, [2]);
    }

    #[test]
    fn what_is_too_much_is_counted() {
        let mut offsets = OffsetStore::default();
        let long: Rc<str> = "x".repeat(30_000).into();
        for partition in 0..1_000 {
            offsets.put("g00000", "t1", partition, committed(1, 1));
            offsets.put(&long, "t1", partition, committed(1, 1));
        }
        let mut all = groups(1);
        all.insert(long, EMPTY);
        let mut found = Found::new(1_200);
        walk(&all, &offsets, &mut found);
        assert_eq!(
            (found.report.groups[1].offsets.len(), found.report.left_out),
            (200, 800)
        );
        let mut found = Found::new(usize::MAX);
        found.name_bytes_left = 20_000;
        walk(&all, &offsets, &mut found);
        assert_eq!((found.report.groups.len(), found.report.left_out), (1, 1_000));
        let mut found = Found::new(0);
        walk(&all, &offsets, &mut found);
        assert_eq!((found.report.groups.len(), found.report.left_out), (0, 2_000));
    }

    #[test]
    fn groups_and_offsets_may_come_and_go_between_slices() {
        let mut offsets = OffsetStore::default();
        let mut all = groups(2);
        for partition in 0..300 {
            offsets.put("g00000", "t1", partition, committed(1, 1));
            offsets.put("g00001", "t1", partition, committed(1, 1));
        }
        let (image, mut walk, mut found) = (image(), Walk::default(), Found::new(usize::MAX));
        assert!(!walk.slice(&all, |kind| *kind, &offsets, &image, &mut found));
        assert_eq!(found.report.groups[0].offsets.len(), SLICE - 1);
        // The group in the middle of the walk goes, with the offset that the walk is at; another one comes.
        all.remove("g00000");
        for partition in 0..300 {
            offsets.remove("g00000", "t1", partition);
        }
        all.insert("g00000a".into(), EMPTY);
        offsets.put("g00000a", "t2", 5, committed(4, 2));
        while !walk.slice(&all, |kind| *kind, &offsets, &image, &mut found) {}
        let told: Vec<_> = found
            .report
            .groups
            .iter()
            .map(|group| (group.group.as_str(), group.offsets.len()))
            .collect();
        assert_eq!(told, [("g00000", SLICE - 1), ("g00000a", 1), ("g00001", 300)]);
    }
}
