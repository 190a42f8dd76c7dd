//! ConsumerGroupHeartbeat: the member is created or brought up to date, the target computed again if the group changed,
//! and the member moved a step towards it.

use std::collections::BTreeSet;
use std::rc::Rc;

use strandline_wire::ErrorCode;

use super::assignment::Assignment;
use super::record::{ConsumerRecord, CurrentAssignment, GroupEpoch, MemberId, MemberMetadata, MemberState};
use super::request::{
    ConsumerGroupConfig, Effects, GroupError, HeartbeatAnswer, HeartbeatRequest, JOIN_EPOCH, LEAVE_EPOCH,
    LEAVE_STATIC_EPOCH,
};
use super::state::{ConsumerGroup, Member, session_timeout_ms};
use super::topics::{TopicImage, metadata_hash};

/// How far the first part of a heartbeat comes.
#[derive(Clone, Debug)]
pub enum Heartbeat {
    /// To its answer.
    Answered(HeartbeatAnswer),
    /// To the group's next target.
    Awaits(PendingHeartbeat),
}

/// A heartbeat that waits for a target of its group.
#[derive(Clone, Debug)]
pub struct PendingHeartbeat {
    id: MemberId,
    /// The member before it, and where it stood behind the first part.
    old: Member,
    current: CurrentAssignment,
    owned: Option<Assignment>,
    subscription_changed: bool,
    says_everything: bool,
}

/// Whom a heartbeat is about.
pub(super) enum Subject {
    /// A member.
    Known,
    /// Nobody yet.
    New,
    /// The next life of a static member that left for a while.
    Replaces(MemberId),
}

impl ConsumerGroup {
    /// A ConsumerGroupHeartbeat from its beginning to its answer: [`Self::begin_heartbeat`], [`Self::assign`] and
    /// [`Self::finish_heartbeat`] in one step.
    ///
    /// `image` has the topics that the sender may describe. After a refusal of a group's first heartbeat the group does
    /// not [`exist`](Self::exists), and its machine is to be dropped.
    pub fn heartbeat(
        &mut self,
        now_ms: i64,
        config: &ConsumerGroupConfig,
        request: &HeartbeatRequest<'_>,
        image: &dyn TopicImage,
    ) -> Effects<Result<HeartbeatAnswer, GroupError>> {
        self.begin();
        let mut records = Vec::new();
        let answer = match self.started(now_ms, config, request, image, &mut records) {
            Err(error) => Err(error),
            Ok(Heartbeat::Answered(answer)) => Ok(answer),
            Ok(Heartbeat::Awaits(pending)) => self.finished(now_ms, config, &pending, image, &mut records),
        };
        self.effects(records, answer)
    }

    /// The first part of a ConsumerGroupHeartbeat, joining and leaving included: all of it, unless there is no target
    /// for the group as it is now. Then a target is computed, once for all who wait, and each of them
    /// [finishes](Self::finish_heartbeat).
    pub fn begin_heartbeat(
        &mut self,
        now_ms: i64,
        config: &ConsumerGroupConfig,
        request: &HeartbeatRequest<'_>,
        image: &dyn TopicImage,
    ) -> Effects<Result<Heartbeat, GroupError>> {
        self.begin();
        let mut records = Vec::new();
        let answer = self.started(now_ms, config, request, image, &mut records);
        self.effects(records, answer)
    }

    /// Computes the target, if there is none for the group as it is now; whether it did.
    pub fn assign(&mut self, config: &ConsumerGroupConfig, image: &dyn TopicImage) -> Effects<bool> {
        self.begin();
        let mut records = Vec::new();
        let is_behind = !self.is_empty() && self.epoch.epoch > self.target_epoch;
        if is_behind {
            self.update_target(config, image, &mut records);
        }
        self.effects(records, is_behind)
    }

    /// The rest of a heartbeat that waited: UNKNOWN_MEMBER_ID if its member was removed meanwhile.
    pub fn finish_heartbeat(
        &mut self,
        now_ms: i64,
        config: &ConsumerGroupConfig,
        pending: &PendingHeartbeat,
        image: &dyn TopicImage,
    ) -> Effects<Result<HeartbeatAnswer, GroupError>> {
        self.begin();
        let mut records = Vec::new();
        let answer = self.finished(now_ms, config, pending, image, &mut records);
        self.effects(records, answer)
    }

    fn started(
        &mut self,
        now_ms: i64,
        config: &ConsumerGroupConfig,
        request: &HeartbeatRequest<'_>,
        image: &dyn TopicImage,
        records: &mut Vec<ConsumerRecord>,
    ) -> Result<Heartbeat, GroupError> {
        request.validate(&self.id, config)?;
        if matches!(request.member_epoch, LEAVE_EPOCH | LEAVE_STATIC_EPOCH) {
            return self.leave(request, image, records).map(Heartbeat::Answered);
        }
        let pending = self.advance(now_ms, config, request, image, records)?;
        if self.epoch.epoch > self.target_epoch {
            return Ok(Heartbeat::Awaits(pending));
        }
        let answer = self.finished(now_ms, config, &pending, image, records)?;
        Ok(Heartbeat::Answered(answer))
    }

    /// Everything that can refuse the request comes first: once a record is out, the group has changed.
    fn advance(
        &mut self,
        now_ms: i64,
        config: &ConsumerGroupConfig,
        request: &HeartbeatRequest<'_>,
        image: &dyn TopicImage,
        records: &mut Vec<ConsumerRecord>,
    ) -> Result<PendingHeartbeat, GroupError> {
        let id: MemberId = match request.member_id {
            "" => request.new_member_id.into(),
            id => match self.members.get_key_value(id) {
                Some((known, _)) => known.clone(),
                None => id.into(),
            },
        };
        let subject = self.subject(&id, config, request)?;
        let old = self.member_of(&subject, &id);
        let regex = request.topic_regex.unwrap_or_default();
        if !regex.is_empty() && *regex != *old.metadata.topic_regex {
            self.compile(regex)?;
        }
        let metadata = self.updated_metadata(&old.metadata, request);
        let subscription_changed =
            self.bring_in(now_ms, config, &id, &subject, &old, &metadata, image, records);
        let session_ms = now_ms + session_timeout_ms(&metadata, config);
        self.set_deadlines(&id, session_ms, old.rebalance_deadline_ms);
        Ok(PendingHeartbeat {
            current: self.members[&id].current.clone(),
            id,
            old,
            owned: request.owned.clone(),
            subscription_changed,
            says_everything: request.member_epoch == JOIN_EPOCH || request.is_full(),
        })
    }

    fn finished(
        &mut self,
        now_ms: i64,
        config: &ConsumerGroupConfig,
        pending: &PendingHeartbeat,
        image: &dyn TopicImage,
        records: &mut Vec<ConsumerRecord>,
    ) -> Result<HeartbeatAnswer, GroupError> {
        let PendingHeartbeat { id, old, .. } = pending;
        let member = self.members.get(id).ok_or_else(|| self.unknown_member(id))?;
        // Another heartbeat of it may have come in between: one that left for a while stays away, and what this one said it
        // owns is old.
        let is_as_before = member.current == pending.current;
        if member.current.epoch == LEAVE_STATIC_EPOCH && !is_as_before {
            return Err(self.unknown_member(id));
        }
        let owned = pending.owned.as_ref().filter(|_| is_as_before);
        self.follow(config, id, owned, pending.subscription_changed, image, records);

        let member = &self.members[id];
        let metadata = &member.metadata;
        let rebalance_ms = match member.current.state {
            MemberState::UnrevokedPartitions if member.current == old.current => old.rebalance_deadline_ms,
            MemberState::UnrevokedPartitions => Some(now_ms + i64::from(metadata.rebalance_timeout_ms)),
            _ => None,
        };
        let is_told = pending.says_everything || member.current.assigned != old.current.assigned;
        let answer = HeartbeatAnswer {
            member_id: id.clone(),
            member_epoch: member.current.epoch,
            heartbeat_interval_ms: config.heartbeat_interval_ms,
            assignment: is_told.then(|| member.current.assigned.clone()),
        };
        let session_ms = now_ms + session_timeout_ms(metadata, config);
        self.set_deadlines(id, session_ms, rebalance_ms);
        Ok(answer)
    }

    pub(super) fn member_of(&self, subject: &Subject, id: &MemberId) -> Member {
        match subject {
            Subject::Known => self.members[id].clone(),
            Subject::New => Member::default(),
            Subject::Replaces(other) => self.members[other].clone(),
        }
    }

    /// Makes the member what it says it is, and what the group changes for that; whether its subscription is another one.
    #[expect(
        clippy::too_many_arguments,
        reason = "one step, and every part of it is one of these"
    )]
    pub(super) fn bring_in(
        &mut self,
        now_ms: i64,
        config: &ConsumerGroupConfig,
        id: &MemberId,
        subject: &Subject,
        old: &Member,
        metadata: &Rc<MemberMetadata>,
        image: &dyn TopicImage,
        records: &mut Vec<ConsumerRecord>,
    ) -> bool {
        if let Subject::Replaces(other) = subject {
            self.replace(other, id, old, records);
        }
        if matches!(subject, Subject::New) || **metadata != *old.metadata {
            self.emit(
                records,
                ConsumerRecord::Member(id.clone(), Some(metadata.clone())),
            );
        }
        let subscription_changed = metadata.topic_names != old.metadata.topic_names
            || metadata.topic_regex != old.metadata.topic_regex;
        self.maybe_bump_epoch(now_ms, config, image, subscription_changed, records);
        subscription_changed
    }

    /// Moves the member towards its target, which is computed first if there is none for the group as it is.
    pub(super) fn follow(
        &mut self,
        config: &ConsumerGroupConfig,
        id: &MemberId,
        owned: Option<&Assignment>,
        subscription_changed: bool,
        image: &dyn TopicImage,
        records: &mut Vec<ConsumerRecord>,
    ) {
        if self.epoch.epoch > self.target_epoch {
            self.update_target(config, image, records);
        }
        self.reconcile(id, owned, subscription_changed, image, records);
    }

    fn subject(
        &self,
        id: &MemberId,
        config: &ConsumerGroupConfig,
        request: &HeartbeatRequest<'_>,
    ) -> Result<Subject, GroupError> {
        let joins = request.member_epoch == JOIN_EPOCH;
        if !joins {
            self.must_exist()?;
        }
        let holder = request
            .instance_id
            .and_then(|instance_id| self.static_members.get(instance_id));
        let known = self.members.get(id);
        // The next life of a static member takes the place of the one before.
        if self.members.len() >= config.size_max && known.is_none() && !(joins && holder.is_some()) {
            let message = format!(
                "The consumer group has reached its maximum capacity of {} members.",
                config.size_max
            );
            return Err(GroupError::new(ErrorCode::GroupMaxSizeReached, message));
        }
        match (request.instance_id, holder) {
            (Some(instance_id), Some(holder)) if holder != id => {
                if !joins {
                    return Err(fenced_instance(id, instance_id, holder));
                }
                // A member that was heard with the same id retries; another id must wait until the instance left.
                let away = self.members[holder].current.epoch == LEAVE_STATIC_EPOCH;
                if !away && self.members[holder].metadata.classic.is_none() {
                    let message = format!(
                        "Static member {id} with instance id {instance_id} cannot join the group because the \
                         instance id is owned by {holder} member."
                    );
                    return Err(GroupError::new(ErrorCode::UnreleasedInstanceId, message));
                }
                Ok(Subject::Replaces(holder.clone()))
            }
            (Some(instance_id), None) if !joins => {
                let message = format!("Instance id {instance_id} is unknown.");
                Err(GroupError::new(ErrorCode::UnknownMemberId, message))
            }
            _ => match known {
                Some(member) => check_epoch(&member.current, request).map(|()| Subject::Known),
                None if joins => Ok(Subject::New),
                None => Err(self.unknown_member(id)),
            },
        }
    }

    pub(super) fn must_exist(&self) -> Result<(), GroupError> {
        if self.exists() {
            return Ok(());
        }
        let message = format!("Consumer group {} not found.", self.id);
        Err(GroupError::new(ErrorCode::GroupIdNotFound, message))
    }

    pub(super) fn unknown_member(&self, id: &str) -> GroupError {
        let message = format!("Member {id} is not a member of group {}.", self.id);
        GroupError::new(ErrorCode::UnknownMemberId, message)
    }

    /// The static member `other` lives on as `id`: with its target and its partitions, so that nobody else moves.
    fn replace(&mut self, other: &MemberId, id: &MemberId, old: &Member, records: &mut Vec<ConsumerRecord>) {
        let target = self.targets.get(other).cloned().unwrap_or_default();
        self.remove(other, records);
        let current = CurrentAssignment {
            epoch: JOIN_EPOCH,
            previous_epoch: JOIN_EPOCH,
            ..old.current.clone()
        };
        self.emit(
            records,
            ConsumerRecord::Member(id.clone(), Some(old.metadata.clone())),
        );
        self.emit(records, ConsumerRecord::Target(id.clone(), Some(target)));
        self.emit(records, ConsumerRecord::Current(id.clone(), Some(current)));
    }

    /// What the member says of itself now.
    fn updated_metadata(
        &self,
        old: &Rc<MemberMetadata>,
        request: &HeartbeatRequest<'_>,
    ) -> Rc<MemberMetadata> {
        let text = |old: &Rc<str>, new: Option<&str>| match new {
            Some(new) if *new != **old => Rc::from(new),
            _ => old.clone(),
        };
        let optional = |old: &Option<Rc<str>>, new: Option<&str>| match (old, new) {
            (old, None) => old.clone(),
            (Some(old), new) => Some(text(old, new)),
            (None, Some(new)) => Some(new.into()),
        };
        Rc::new(MemberMetadata {
            instance_id: optional(&old.instance_id, request.instance_id),
            rack_id: optional(&old.rack_id, request.rack_id),
            client_id: text(&old.client_id, Some(request.client_id)),
            client_host: text(&old.client_host, Some(request.client_host)),
            topic_names: match &request.topic_names {
                Some(names) => self.shared_names(names),
                None => old.topic_names.clone(),
            },
            topic_regex: text(&old.topic_regex, request.topic_regex),
            rebalance_timeout_ms: request.rebalance_timeout().unwrap_or(old.rebalance_timeout_ms),
            server_assignor: optional(&old.server_assignor, request.server_assignor),
            classic: None,
        })
    }

    /// The set of these names; the one of another member if that has the same, as most groups' members do.
    fn shared_names(&self, names: &[&str]) -> Rc<BTreeSet<Rc<str>>> {
        let names: BTreeSet<Rc<str>> = names
            .iter()
            .map(|name| match self.topic_names.get_key_value(*name) {
                Some((known, _)) => known.clone(),
                None => Rc::from(*name),
            })
            .collect();
        let others = [self.members.first_key_value(), self.members.last_key_value()];
        others
            .into_iter()
            .flatten()
            .map(|(_, member)| &member.metadata.topic_names)
            .find(|others| ***others == names)
            .cloned()
            .unwrap_or_else(|| Rc::new(names))
    }

    fn maybe_bump_epoch(
        &mut self,
        now_ms: i64,
        config: &ConsumerGroupConfig,
        image: &dyn TopicImage,
        subscription_changed: bool,
        records: &mut Vec<ConsumerRecord>,
    ) {
        let regexes_changed = self.refresh_regexes(now_ms, config, image, records);
        let changed = subscription_changed || regexes_changed || self.epoch.epoch == 0;
        if !changed && self.seen_version == Some(image.version()) {
            return;
        }
        let metadata_hash = self.compute_metadata_hash(image);
        if changed || metadata_hash != self.epoch.metadata_hash {
            self.bump_epoch(metadata_hash, records);
        }
    }

    pub(super) fn compute_metadata_hash(&mut self, image: &dyn TopicImage) -> i64 {
        self.seen_version = Some(image.version());
        let mut names: BTreeSet<Rc<str>> = self.topic_names.keys().cloned().collect();
        for regex in self.topic_regexes.keys() {
            let topics = self
                .regexes
                .get(regex)
                .into_iter()
                .flat_map(|resolved| &resolved.topics);
            names.extend(topics.cloned());
        }
        metadata_hash(&names, image)
    }

    pub(super) fn bump_epoch(&mut self, metadata_hash: i64, records: &mut Vec<ConsumerRecord>) {
        let epoch = GroupEpoch {
            epoch: self.epoch.epoch + 1,
            metadata_hash,
        };
        self.emit(records, ConsumerRecord::GroupEpoch(Some(epoch)));
        if self.has_topic_metadata {
            self.emit(records, ConsumerRecord::TopicMetadata(false));
        }
    }
}

/// Whether the member may go on at the epoch it sends.
fn check_epoch(current: &CurrentAssignment, request: &HeartbeatRequest<'_>) -> Result<(), GroupError> {
    let (received, known) = (request.member_epoch, current.epoch);
    let fenced = |what: String| {
        let message = format!(
            "The consumer group member {what}. The member must abandon all its partitions and rejoin."
        );
        Err(GroupError::new(ErrorCode::FencedMemberEpoch, message))
    };
    // Joining again is how a fenced member recovers.
    if received == JOIN_EPOCH {
        return Ok(());
    }
    if received > known {
        return fenced(format!(
            "has a greater member epoch ({received}) than the one known by the group coordinator ({known})"
        ));
    }
    // The answer that raised the epoch may be lost: the epoch before is good as long as the member owns nothing that
    // was taken from it since.
    let owned = request.owned.as_ref();
    if received < known
        && (received != current.previous_epoch
            || !owned.is_some_and(|owned| owned.is_subset(&current.assigned)))
    {
        return fenced(format!(
            "has a smaller member epoch ({received}) than the one known by the group coordinator ({known})"
        ));
    }
    if matches!(current.state, MemberState::Unknown(_)) && !owned.is_some_and(Assignment::is_empty) {
        return fenced("is in a unknown state".to_owned());
    }
    Ok(())
}

pub(super) fn fenced_instance(id: &str, instance_id: &str, holder: &str) -> GroupError {
    let message = format!("Static member {id} with instance id {instance_id} was fenced by member {holder}.");
    GroupError::new(ErrorCode::FencedInstanceId, message)
}
