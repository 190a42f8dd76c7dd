//! The group: what its records say, and the indexes over them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;

use strandline_wire::Uuid;

use super::assignment::Assignment;
use super::pattern::Pattern;
use super::record::{
    ConsumerRecord, CurrentAssignment, GroupEpoch, MemberId, MemberMetadata, MemberState, ResolvedRegex,
};
use super::request::{ConsumerGroupConfig, Effects};

/// The state of a group, as DescribeGroups and ListGroups name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ConsumerGroupState {
    /// No members.
    Empty,
    /// The target assignment is older than the group epoch.
    Assigning,
    /// Some member is on its way to the target.
    Reconciling,
    /// Every member owns its target.
    Stable,
    /// There is no such group.
    Dead,
}

impl ConsumerGroupState {
    /// Kafka's name for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Empty => "Empty",
            Self::Assigning => "Assigning",
            Self::Reconciling => "Reconciling",
            Self::Stable => "Stable",
            Self::Dead => "Dead",
        }
    }
}

/// A member.
#[derive(Clone, Debug, Default)]
pub(super) struct Member {
    pub(super) metadata: Rc<MemberMetadata>,
    pub(super) current: CurrentAssignment,
    pub(super) session_deadline_ms: i64,
    pub(super) rebalance_deadline_ms: Option<i64>,
}

impl Member {
    pub(super) fn is_reconciled_to(&self, target_epoch: i32) -> bool {
        self.current.state == MemberState::Stable && self.current.epoch == target_epoch
    }

    fn deadline_ms(&self) -> i64 {
        self.rebalance_deadline_ms
            .map_or(self.session_deadline_ms, |deadline_ms| {
                deadline_ms.min(self.session_deadline_ms)
            })
    }
}

/// When a regular expression was last matched against the topics, whether or not that changed anything.
#[derive(Clone, Copy, Debug)]
pub(super) struct RegexCheck {
    pub(super) version: i64,
    pub(super) at_ms: i64,
}

/// A group of the consumer protocol.
#[derive(Debug, Default)]
pub struct ConsumerGroup {
    pub(super) id: Rc<str>,
    pub(super) epoch: GroupEpoch,
    pub(super) target_epoch: i32,
    pub(super) members: BTreeMap<MemberId, Member>,
    pub(super) targets: BTreeMap<MemberId, Assignment>,
    pub(super) regexes: BTreeMap<Rc<str>, Rc<ResolvedRegex>>,
    /// Whether a record of topic metadata from before Kafka 4.1 is still to be removed.
    pub(super) has_topic_metadata: bool,

    // Indexes over the above.
    pub(super) static_members: BTreeMap<Rc<str>, MemberId>,
    /// How many members subscribe to a topic by name, and by a regular expression.
    pub(super) topic_names: BTreeMap<Rc<str>, usize>,
    pub(super) topic_regexes: BTreeMap<Rc<str>, usize>,
    /// Who owns a partition, revocation pending or not. Only looked up, never walked.
    owners: HashMap<(Uuid, i32), MemberId>,

    /// What all this takes.
    pub(super) bytes: usize,

    // What is not kept.
    deadlines: BTreeSet<(i64, MemberId)>,
    pub(super) patterns: BTreeMap<Rc<str>, Option<Pattern>>,
    pub(super) regex_checks: BTreeMap<Rc<str>, RegexCheck>,
    /// The version of the topics that the metadata hash was last computed for.
    pub(super) seen_version: Option<i64>,
    /// What stood under the keys of the last step's records before, in their order.
    before: Vec<ConsumerRecord>,
}

impl ConsumerGroup {
    /// A group without members or records. It exists for clients once a heartbeat made its first record.
    pub fn new(id: impl Into<Rc<str>>) -> Self {
        Self {
            id: id.into(),
            ..Self::default()
        }
    }

    /// Its id.
    pub fn id(&self) -> &Rc<str> {
        &self.id
    }

    /// Whether it has records: a group without any is not there, and its machine may be dropped.
    pub fn exists(&self) -> bool {
        self.epoch.epoch > 0 || !self.members.is_empty() || !self.targets.is_empty()
    }

    /// How many members there are.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether there are no members.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// The group epoch.
    pub fn epoch(&self) -> i32 {
        self.epoch.epoch
    }

    /// The epoch of the target assignment.
    pub fn target_epoch(&self) -> i32 {
        self.target_epoch
    }

    /// Its state.
    pub fn state(&self) -> ConsumerGroupState {
        if self.members.is_empty() {
            ConsumerGroupState::Empty
        } else if self.epoch.epoch > self.target_epoch {
            ConsumerGroupState::Assigning
        } else if self
            .members
            .values()
            .any(|member| !member.is_reconciled_to(self.target_epoch))
        {
            ConsumerGroupState::Reconciling
        } else {
            ConsumerGroupState::Stable
        }
    }

    /// Whether a member subscribes to a topic: its offsets neither expire nor may be deleted.
    pub fn is_subscribed_to(&self, topic: &str) -> bool {
        self.topic_names.contains_key(topic)
            || self.regexes.iter().any(|(regex, resolved)| {
                self.topic_regexes.contains_key(regex) && resolved.topics.contains(topic)
            })
    }

    /// Applies a record that was stored. After the last one call [`Self::loaded`].
    ///
    /// A compacted log may hold the records in another order than they were written in, so anything goes.
    pub fn replay(&mut self, record: &ConsumerRecord) {
        self.apply(record, true);
    }

    /// The records are all there: sessions start anew, since nobody heard the members meanwhile.
    pub fn loaded(&mut self, now_ms: i64, config: &ConsumerGroupConfig) -> Option<i64> {
        let ids: Vec<MemberId> = self.members.keys().cloned().collect();
        for id in ids {
            self.start_session(&id, now_ms, config);
        }
        self.deadline_ms()
    }

    fn start_session(&mut self, id: &MemberId, now_ms: i64, config: &ConsumerGroupConfig) {
        let member = &self.members[id];
        let session_ms = session_timeout_ms(&member.metadata, config);
        let unrevoked = member.current.state == MemberState::UnrevokedPartitions;
        let rebalance_ms = unrevoked.then_some(i64::from(member.metadata.rebalance_timeout_ms));
        self.set_deadlines(
            id,
            now_ms + session_ms,
            rebalance_ms.map(|timeout_ms| now_ms + timeout_ms),
        );
    }

    /// When [`Self::tick`] has something to do.
    pub fn deadline_ms(&self) -> Option<i64> {
        self.deadlines.first().map(|(deadline_ms, _)| *deadline_ms)
    }

    pub(super) fn due(&self, now_ms: i64) -> Vec<MemberId> {
        let due = self.deadlines.iter();
        due.take_while(|(deadline_ms, _)| *deadline_ms <= now_ms)
            .map(|(_, id)| id.clone())
            .collect()
    }

    pub(super) fn set_deadlines(&mut self, id: &MemberId, session_ms: i64, rebalance_ms: Option<i64>) {
        let Some(member) = self.members.get_mut(id) else {
            return;
        };
        self.deadlines.remove(&(member.deadline_ms(), id.clone()));
        member.session_deadline_ms = session_ms;
        member.rebalance_deadline_ms = rebalance_ms;
        self.deadlines.insert((member.deadline_ms(), id.clone()));
    }

    /// A step begins: the records of the one before are stored.
    pub(super) fn begin(&mut self) {
        self.before.clear();
    }

    /// Changes the group by a record that is handed out to be stored.
    pub(super) fn emit(&mut self, records: &mut Vec<ConsumerRecord>, record: ConsumerRecord) {
        let before = self.standing(&record);
        self.before.push(before);
        self.apply(&record, false);
        records.push(record);
    }

    /// Of the last step's records only the first `stored` could be stored: the group is what they and the ones of earlier
    /// steps make it.
    pub fn take_back(&mut self, stored: usize, now_ms: i64, config: &ConsumerGroupConfig) {
        let mut before = std::mem::take(&mut self.before);
        for record in before.drain(stored.min(before.len())..).rev() {
            self.apply(&record, true);
        }
        // What was learned on the way is learned again.
        self.regex_checks.clear();
        self.seen_version = None;
        let is_timed = |(id, member): &(&MemberId, &Member)| {
            self.deadlines
                .contains(&(member.deadline_ms(), MemberId::clone(id)))
        };
        let members = self.members.iter().filter(|member| !is_timed(member));
        let untimed: Vec<MemberId> = members.map(|(id, _)| id.clone()).collect();
        for id in &untimed {
            self.start_session(id, now_ms, config);
        }
    }

    /// The record that makes what stands under a record's key.
    fn standing(&self, record: &ConsumerRecord) -> ConsumerRecord {
        match record {
            ConsumerRecord::GroupEpoch(_) => ConsumerRecord::GroupEpoch(Some(self.epoch)),
            ConsumerRecord::TopicMetadata(_) => ConsumerRecord::TopicMetadata(self.has_topic_metadata),
            ConsumerRecord::TargetEpoch(_) => ConsumerRecord::TargetEpoch(Some(self.target_epoch)),
            ConsumerRecord::Target(id, _) => {
                ConsumerRecord::Target(id.clone(), self.targets.get(id).cloned())
            }
            ConsumerRecord::Regex(regex, _) => {
                ConsumerRecord::Regex(regex.clone(), self.regexes.get(regex).cloned())
            }
            ConsumerRecord::Member(id, _) => {
                let member = self.members.get(id);
                ConsumerRecord::Member(id.clone(), member.map(|member| member.metadata.clone()))
            }
            ConsumerRecord::Current(id, _) => {
                let member = self.members.get(id);
                ConsumerRecord::Current(id.clone(), member.map(|member| member.current.clone()))
            }
        }
    }

    pub(super) fn effects<A>(&self, records: Vec<ConsumerRecord>, answer: A) -> Effects<A> {
        Effects {
            records,
            answer,
            deadline_ms: self.deadline_ms(),
        }
    }

    fn apply(&mut self, record: &ConsumerRecord, is_replay: bool) {
        let before = self.bytes_under(record);
        self.change(record, is_replay);
        self.bytes = self.bytes + self.bytes_under(record) - before;
    }

    fn change(&mut self, record: &ConsumerRecord, is_replay: bool) {
        match record {
            ConsumerRecord::GroupEpoch(value) => self.epoch = value.unwrap_or_default(),
            ConsumerRecord::TopicMetadata(kept) => self.has_topic_metadata = *kept,
            ConsumerRecord::TargetEpoch(value) => self.target_epoch = value.unwrap_or_default(),
            ConsumerRecord::Target(id, Some(target)) => {
                self.targets.insert(id.clone(), target.clone());
            }
            ConsumerRecord::Target(id, None) => drop(self.targets.remove(id)),
            ConsumerRecord::Regex(regex, Some(resolved)) => {
                self.regexes.insert(regex.clone(), resolved.clone());
            }
            ConsumerRecord::Regex(regex, None) => {
                self.regexes.remove(regex);
                self.regex_checks.remove(regex);
                self.patterns.remove(regex);
            }
            ConsumerRecord::Member(id, Some(metadata)) => self.set_metadata(id, metadata),
            ConsumerRecord::Member(id, None) => self.remove_member(id),
            ConsumerRecord::Current(id, Some(current)) => self.set_current(id, current.clone(), is_replay),
            ConsumerRecord::Current(id, None) if self.members.contains_key(id) => {
                self.set_current(id, CurrentAssignment::default(), is_replay);
            }
            ConsumerRecord::Current(_, None) => {}
        }
    }

    fn set_metadata(&mut self, id: &MemberId, metadata: &Rc<MemberMetadata>) {
        let member = self.members.entry(id.clone()).or_default();
        let old = std::mem::replace(&mut member.metadata, metadata.clone());
        self.forget_metadata(id, &old);
        if let Some(instance_id) = &metadata.instance_id {
            self.static_members.insert(instance_id.clone(), id.clone());
        }
        for name in metadata.topic_names.iter() {
            *self.topic_names.entry(name.clone()).or_default() += 1;
        }
        if !metadata.topic_regex.is_empty() {
            *self
                .topic_regexes
                .entry(metadata.topic_regex.clone())
                .or_default() += 1;
        }
    }

    fn forget_metadata(&mut self, id: &MemberId, metadata: &MemberMetadata) {
        if let Some(instance_id) = &metadata.instance_id
            && self.static_members.get(instance_id) == Some(id)
        {
            self.static_members.remove(instance_id);
        }
        for name in metadata.topic_names.iter() {
            release(&mut self.topic_names, name);
        }
        release(&mut self.topic_regexes, &metadata.topic_regex);
    }

    fn remove_member(&mut self, id: &MemberId) {
        let Some(member) = self.members.remove(id) else {
            return;
        };
        self.deadlines.remove(&(member.deadline_ms(), id.clone()));
        self.forget_metadata(id, &member.metadata);
        self.disown(id, &member.current);
    }

    fn set_current(&mut self, id: &MemberId, current: CurrentAssignment, is_replay: bool) {
        let member = self.members.entry(id.clone()).or_default();
        let old = std::mem::replace(&mut member.current, current.clone());
        self.disown(id, &old);
        for partition in current.assigned.iter().chain(current.pending_revocation.iter()) {
            let other = self.owners.insert(partition, id.clone());
            assert!(
                is_replay || other.is_none(),
                "group {}: {partition:?} of {other:?} given to {id}",
                self.id
            );
        }
    }

    fn disown(&mut self, id: &MemberId, current: &CurrentAssignment) {
        for partition in current.assigned.iter().chain(current.pending_revocation.iter()) {
            if self.owners.get(&partition) == Some(id) {
                self.owners.remove(&partition);
            }
        }
    }

    /// Compares everything that the records say, and the indexes over it.
    #[cfg(test)]
    pub(super) fn assert_same(&self, other: &Self) {
        let header = |group: &Self| (group.epoch, group.target_epoch, group.has_topic_metadata);
        assert_eq!(header(self), header(other));
        let members = |group: &Self| {
            let members = group.members.iter();
            let parts = members.map(|(id, m)| (id.clone(), m.metadata.clone(), m.current.clone()));
            parts.collect::<Vec<_>>()
        };
        assert_eq!(members(self), members(other));
        assert_eq!(self.targets, other.targets);
        assert_eq!(self.regexes, other.regexes);
        assert_eq!(self.static_members, other.static_members);
        assert_eq!(self.topic_names, other.topic_names);
        assert_eq!(self.topic_regexes, other.topic_regexes);
        assert_eq!(self.owners, other.owners);
        assert_eq!(self.bytes, other.bytes);
    }

    /// Whether a member other than `id` owns a partition.
    pub(super) fn is_taken(&self, id: &MemberId, topic: Uuid, partition: i32) -> bool {
        self.owners
            .get(&(topic, partition))
            .is_some_and(|owner| owner != id)
    }
}

/// A member of the classic protocol brings its own timeout.
pub(super) fn session_timeout_ms(metadata: &MemberMetadata, config: &ConsumerGroupConfig) -> i64 {
    let classic = metadata.classic.as_ref();
    classic.map_or(config.session_timeout_ms, |classic| {
        i64::from(classic.session_timeout_ms)
    })
}

/// One fewer.
fn release(counts: &mut BTreeMap<Rc<str>, usize>, key: &Rc<str>) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}
