//! What the tests of this module share.

use std::collections::{BTreeMap, BTreeSet};

use strandline_wire::Uuid;

use super::assignment::Assignment;
use super::record::{ConsumerRecord, decode, encode};
use super::request::{
    ConsumerGroupConfig, Effects, FencedMember, GroupError, HeartbeatAnswer, HeartbeatRequest, JOIN_EPOCH,
    LEAVE_EPOCH,
};
use super::state::ConsumerGroup;
use super::topics::{TopicImage, TopicInfo};

pub(crate) fn assignment(topics: &[(Uuid, &[i32])]) -> Assignment {
    topics
        .iter()
        .flat_map(|(topic, partitions)| partitions.iter().map(move |partition| (*topic, *partition)))
        .collect()
}

/// Topics made up by a test.
#[derive(Clone, Debug, Default)]
pub(crate) struct Topics {
    topics: BTreeMap<String, TopicInfo>,
    version: i64,
}

impl Topics {
    pub(crate) fn new(topics: &[(&str, i32)]) -> Self {
        let mut image = Self::default();
        for (name, partitions) in topics {
            image.create(name, *partitions);
        }
        image
    }

    /// Makes a topic; its id is new.
    pub(crate) fn create(&mut self, name: &str, partitions: i32) -> Uuid {
        self.version += 1;
        let id = Uuid::from_u128(self.version as u128);
        let info = TopicInfo { id, partitions };
        assert!(self.topics.insert(name.to_owned(), info).is_none());
        id
    }

    pub(crate) fn grow(&mut self, name: &str, partitions: i32) {
        self.version += 1;
        self.topics.get_mut(name).unwrap().partitions = partitions;
    }

    pub(crate) fn delete(&mut self, name: &str) {
        self.version += 1;
        self.topics.remove(name).unwrap();
    }

    pub(crate) fn id(&self, name: &str) -> Uuid {
        self.topics[name].id
    }
}

impl TopicImage for Topics {
    fn version(&self) -> i64 {
        self.version
    }

    fn topic(&self, name: &str) -> Option<TopicInfo> {
        self.topics.get(name).copied()
    }

    fn topic_name(&self, id: Uuid) -> Option<&str> {
        let found = self.topics.iter().find(|(_, info)| info.id == id);
        found.map(|(name, _)| name.as_str())
    }

    fn for_each_name(&self, visit: &mut dyn FnMut(&str)) {
        self.topics.keys().for_each(|name| visit(name));
    }
}

/// A group with its topics, its clock, and the log of what it stored.
pub(crate) struct Rig {
    pub(crate) group: ConsumerGroup,
    pub(crate) config: ConsumerGroupConfig,
    pub(crate) topics: Topics,
    pub(crate) now_ms: i64,
    pub(crate) log: Vec<ConsumerRecord>,
    /// The records of the last step.
    pub(crate) last: Vec<ConsumerRecord>,
    /// What reads the log from the start along with the group.
    reader: (usize, ConsumerGroup),
}

/// How long a log may be to be compacted after every step.
const LOG_SHORT: usize = 100;

impl Rig {
    pub(crate) fn new(topics: &[(&str, i32)]) -> Self {
        Self {
            group: ConsumerGroup::new("g"),
            config: ConsumerGroupConfig::default(),
            topics: Topics::new(topics),
            now_ms: 1_000_000,
            log: Vec::new(),
            last: Vec::new(),
            reader: (0, ConsumerGroup::new("g")),
        }
    }

    pub(crate) fn send(&mut self, request: &HeartbeatRequest<'_>) -> Result<HeartbeatAnswer, GroupError> {
        let effects = self
            .group
            .heartbeat(self.now_ms, &self.config, request, &self.topics);
        if effects.answer.is_err() {
            assert_eq!(effects.records, [], "a refusal changes nothing");
        }
        self.store(effects)
    }

    /// Time passes.
    pub(crate) fn pass(&mut self, ms: i64) -> Vec<FencedMember> {
        self.now_ms += ms;
        let effects = self.group.tick(self.now_ms, &self.topics);
        self.store(effects)
    }

    pub(crate) fn store<A>(&mut self, effects: Effects<A>) -> A {
        assert_eq!(effects.deadline_ms, self.group.deadline_ms());
        self.last = effects.records;
        self.log.extend(self.last.iter().cloned());
        self.check();
        effects.answer
    }

    /// The group from its bytes, whole or compacted, is this group.
    pub(crate) fn check(&mut self) {
        let (read, reader) = &mut self.reader;
        replay(reader, &self.log[*read..]);
        *read = self.log.len();
        self.group.assert_same(reader);
        if self.log.len() <= LOG_SHORT {
            self.group.assert_same(&replayed(&compacted(&self.log)));
        }
    }

    /// The broker stops and starts again, with the log as it is now.
    pub(crate) fn restart(&mut self) {
        self.group = replayed(&self.log);
        self.group.assert_same(&replayed(&compacted(&self.log)));
        self.reader = (self.log.len(), replayed(&self.log));
        self.group.loaded(self.now_ms, &self.config);
    }

    /// Of the records behind `before` only the first `stored` were stored.
    pub(crate) fn refuse(&mut self, stored: usize, before: usize) {
        self.log.truncate(before + stored);
        self.group.take_back(stored, self.now_ms, &self.config);
        self.reader = (self.log.len(), replayed(&self.log));
        self.check();
        let mut whole = replayed(&self.log);
        whole.loaded(self.now_ms, &self.config);
        let timed = |group: &ConsumerGroup| group.due(i64::MAX).into_iter().collect::<BTreeSet<_>>();
        assert_eq!(timed(&self.group), timed(&whole), "every member has a session");
    }

    pub(crate) fn join(&mut self, id: &str, topics: &[&str]) -> HeartbeatAnswer {
        self.send(&join(id, topics)).unwrap()
    }

    /// A heartbeat that says nothing new.
    pub(crate) fn beat(&mut self, id: &str, epoch: i32) -> HeartbeatAnswer {
        self.send(&beat(id, epoch)).unwrap()
    }

    /// A heartbeat that says what the member owns.
    pub(crate) fn own(&mut self, id: &str, epoch: i32, owned: &[(Uuid, &[i32])]) -> HeartbeatAnswer {
        self.send(&HeartbeatRequest {
            owned: Some(assignment(owned)),
            ..beat(id, epoch)
        })
        .unwrap()
    }

    pub(crate) fn leave(&mut self, id: &str) -> HeartbeatAnswer {
        self.beat(id, LEAVE_EPOCH)
    }
}

pub(crate) fn replayed(log: &[ConsumerRecord]) -> ConsumerGroup {
    let mut group = ConsumerGroup::new("g");
    replay(&mut group, log);
    group
}

/// Through the bytes.
fn replay(group: &mut ConsumerGroup, log: &[ConsumerRecord]) {
    for record in log {
        let (key, value) = encode("g", record);
        let (id, decoded) = decode(&key, value.as_deref()).unwrap().unwrap();
        assert_eq!((&*id, &decoded), ("g", record));
        group.replay(&decoded);
    }
}

/// What compaction leaves: the last record of each key, tombstones gone.
pub(crate) fn compacted(log: &[ConsumerRecord]) -> Vec<ConsumerRecord> {
    let mut last = BTreeMap::new();
    for (place, record) in log.iter().enumerate() {
        let (key, value) = encode("g", record);
        last.insert(key, (place, value.is_some()));
    }
    let mut places: Vec<usize> = last
        .values()
        .filter(|(_, kept)| *kept)
        .map(|(place, _)| *place)
        .collect();
    places.sort_unstable();
    places.into_iter().map(|place| log[place].clone()).collect()
}

pub(crate) fn beat(id: &str, epoch: i32) -> HeartbeatRequest<'_> {
    HeartbeatRequest {
        version: 1,
        member_id: id,
        member_epoch: epoch,
        rebalance_timeout_ms: -1,
        client_id: "client",
        client_host: "/127.0.0.1",
        ..HeartbeatRequest::default()
    }
}

pub(crate) fn join<'a>(id: &'a str, topics: &[&'a str]) -> HeartbeatRequest<'a> {
    HeartbeatRequest {
        rebalance_timeout_ms: 60_000,
        topic_names: Some(topics.to_vec()),
        owned: Some(Assignment::default()),
        ..beat(id, JOIN_EPOCH)
    }
}
