//! The target of a group: who asks for what, the assignor that answers, and what of that is new; and one member's step
//! towards it.

use std::collections::BTreeSet;
use std::rc::Rc;

use strandline_wire::Uuid;

use super::assignment::Assignment;
use super::assignor::{Assignor, AssignorMember, PartitionCounts};
use super::reconcile::Reconciliation;
use super::record::{ConsumerRecord, MemberId, MemberMetadata};
use super::request::ConsumerGroupConfig;
use super::state::ConsumerGroup;
use super::topics::TopicImage;

impl ConsumerGroup {
    /// Computes the target for the group epoch.
    pub(super) fn update_target(
        &mut self,
        config: &ConsumerGroupConfig,
        image: &dyn TopicImage,
        records: &mut Vec<ConsumerRecord>,
    ) {
        let mut partitions = PartitionCounts::new();
        // Members in a row mostly have the same subscription.
        let mut last: Option<(&MemberMetadata, Rc<[Uuid]>)> = None;
        let none = Assignment::default();
        let before = self.targets_of_members();
        let members: Vec<AssignorMember<'_>> = self
            .members
            .iter()
            .zip(&before)
            .map(|((id, member), target)| {
                let metadata = &*member.metadata;
                let topics = match &last {
                    Some((other, topics))
                        if other.topic_names == metadata.topic_names
                            && other.topic_regex == metadata.topic_regex =>
                    {
                        topics.clone()
                    }
                    _ => self.topics_of(metadata, image, &mut partitions),
                };
                last = Some((metadata, topics.clone()));
                AssignorMember {
                    id,
                    instance_id: metadata.instance_id.as_deref(),
                    topics,
                    target: target.unwrap_or(&none),
                }
            })
            .collect();
        let targets = self.assignor(config).assign(&members, &partitions);
        let changed: Vec<(MemberId, Assignment)> = self
            .members
            .keys()
            .zip(before.into_iter().zip(targets))
            .filter(|(_, (before, target))| *before != Some(target))
            .map(|(id, (_, target))| (id.clone(), target))
            .collect();
        for (id, target) in changed {
            self.emit(records, ConsumerRecord::Target(id, Some(target)));
        }
        self.emit(records, ConsumerRecord::TargetEpoch(Some(self.epoch.epoch)));
    }

    /// The target of each member, in their order. A look-up for each would be most of the work in a large group.
    fn targets_of_members(&self) -> Vec<Option<&Assignment>> {
        let mut targets = self.targets.iter().peekable();
        self.members
            .keys()
            .map(|id| {
                while targets.next_if(|(other, _)| *other < id).is_some() {}
                targets
                    .next_if(|(other, _)| *other == id)
                    .map(|(_, target)| target)
            })
            .collect()
    }

    /// The topics of a subscription that exist, in order; their partitions are noted.
    fn topics_of(
        &self,
        metadata: &MemberMetadata,
        image: &dyn TopicImage,
        partitions: &mut PartitionCounts,
    ) -> Rc<[Uuid]> {
        let by_regex = self.regexes.get(&metadata.topic_regex);
        let names = metadata
            .topic_names
            .iter()
            .chain(by_regex.into_iter().flat_map(|resolved| &resolved.topics));
        let mut topics: BTreeSet<Uuid> = BTreeSet::new();
        for topic in names.filter_map(|name| image.topic(name)) {
            topics.insert(topic.id);
            partitions.insert(topic.id, topic.partitions);
        }
        topics.into_iter().collect()
    }

    /// The assignor that most members ask for; of several the first that is configured.
    pub(super) fn assignor(&self, config: &ConsumerGroupConfig) -> Assignor {
        let votes = |assignor: &Assignor| {
            let asked = self
                .members
                .values()
                .filter_map(|m| m.metadata.server_assignor.as_deref());
            asked.filter(|name| *name == assignor.name()).count()
        };
        let mut best = (0, config.assignors.first().copied().unwrap_or(Assignor::Uniform));
        for assignor in &config.assignors {
            let votes = votes(assignor);
            if votes > best.0 {
                best = (votes, *assignor);
            }
        }
        best.1
    }

    /// Moves a member a step towards its target.
    pub(super) fn reconcile(
        &mut self,
        id: &MemberId,
        owned: Option<&Assignment>,
        subscription_changed: bool,
        image: &dyn TopicImage,
        records: &mut Vec<ConsumerRecord>,
    ) {
        let member = &self.members[id];
        if !subscription_changed && member.is_reconciled_to(self.target_epoch) {
            return;
        }
        let none = Assignment::default();
        let by_regex = self.regexes.get(&member.metadata.topic_regex);
        let next = Reconciliation {
            current: &member.current,
            target_epoch: self.target_epoch,
            target: self.targets.get(id).unwrap_or(&none),
            subscription_changed,
            owned,
            subscribes: &|topic| {
                image.topic_name(topic).is_some_and(|name| {
                    member.metadata.topic_names.contains(name)
                        || by_regex.is_some_and(|resolved| resolved.topics.contains(name))
                })
            },
            is_taken: &|topic, partition| self.is_taken(id, topic, partition),
        }
        .step();
        if next != member.current {
            self.emit(records, ConsumerRecord::Current(id.clone(), Some(next)));
        }
    }
}
